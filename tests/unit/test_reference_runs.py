"""Which models of an earlier run serve as references, and which are refused."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from documents import cell_of, joint_of, verdict_of_cells

from audit.config.command_line import configured
from audit.config.references import check_runs, reference_runs
from audit.config.resolve import ResolvedRun
from audit.core.errors import ConfigError
from audit.governance.reviews import at
from audit.memory.config import MemoryConfig
from audit.memory.plan import resolve_memory
from audit.perturb.config import PerturbConfig
from audit.perturb.plan import resolve_perturb
from audit.registry.convictions import reservations
from audit.shards.manifest import Manifest, plain
from audit.shards.questions import QuestionFile, write_questions

FACTS = {"revision": "scripted", "engine": "scripted"}


def perturb(*overrides: str) -> PerturbConfig:
    return configured("perturb", ["model=scripted", "n=10", *overrides])


def memory(*overrides: str) -> MemoryConfig:
    return configured("memory", ["model=scripted", "n=10", *overrides])


@cache
def resolved_run(audit: str) -> ResolvedRun:
    return resolve_perturb(perturb()).resolved if audit == "perturb" else resolve_memory(memory())


def earlier(path: Path, audit: str, models: dict[str, dict], judged: list[str]) -> Path:
    """A finished run of the same questions as those that this audit would ask with n=10."""
    resolved = resolved_run(audit)
    path.mkdir(parents=True)
    write_questions(path, resolved.samples[0].questions())
    benchmark = {s.benchmark.name: s.facts() for s in resolved.samples}
    Manifest(
        "f",
        plain(resolved.plain),
        audit=audit,
        benchmark=plain(benchmark),
        models=models,
        status="finished",
        analysis={"judged": judged},
    ).save(path)
    return path


def write_verdict(path: Path, audit: str, verdict: str, model: str, name: str = "report") -> None:
    (path / name).mkdir(parents=True, exist_ok=True)
    cells = [cell_of(verdict, audit, model=model, benchmark="elementary")]
    (path / name / "verdict.json").write_text(json.dumps(verdict_of_cells(cells, audit)))


RESOLVERS = [("perturb", perturb, resolve_perturb), ("memory", memory, resolve_memory)]


@pytest.mark.parametrize(("audit", "configured", "resolve"), RESOLVERS)
def test_only_the_references_of_a_run_serve_and_a_judged_model_by_name_alone(
    audit, configured, resolve, tmp_path
):
    run = earlier(tmp_path / "run", audit, {"target": FACTS, "peer": FACTS}, ["target"])

    def served(*references: str) -> list[str]:
        config = configured(f"references=[{','.join(references)}]")
        resolve(config)
        return [name for run in reference_runs(config) for name in run.models]

    assert served(str(run)) == ["peer"]
    assert served(f"target@{run}") == ["target"]
    assert served(str(run), f"target@{run}") == ["peer", "target"]
    with pytest.raises(ConfigError, match="nobody"):
        served(f"nobody@{run}")
    alone = earlier(tmp_path / "alone", audit, {"target": FACTS}, ["target"])
    with pytest.raises(ConfigError, match=rf"judged target.*references=\[target@{alone}\]"):
        served(str(alone))
    assert served(f"target@{alone}") == ["target"]


@pytest.mark.parametrize(
    ("audit", "configured", "resolve", "verdict"),
    [(*RESOLVERS[0], "drop_beyond_reference"), (*RESOLVERS[1], "memory_of_text_seen")],
)
def test_a_convicted_model_is_refused_unless_it_is_allowed(
    audit, configured, resolve, verdict, tmp_path
):
    run = earlier(tmp_path / "run", audit, {"target": FACTS, "peer": FACTS}, ["target"])
    write_verdict(run, audit, verdict, "target")
    with pytest.raises(
        ConfigError, match=rf"target was itself convicted: .*{verdict}.*allow_convicted=\[target\]"
    ):
        resolve(configured(f"references=[target@{run}]"))
    allowed = configured(f"references=[target@{run}]", "allow_convicted=[target]")
    resolved = resolve(allowed)
    resolved = getattr(resolved, "resolved", resolved)
    assert verdict in resolved.analysis["convicted"]["target"] and resolved.analysis[
        "reference_models"
    ] == [["target"]]
    resolve(configured(f"references=[{run}]"))  # of the other model nothing was found
    write_verdict(run, audit, "withheld", "target")
    resolve(configured(f"references=[target@{run}]"))
    with pytest.raises(ConfigError, match="allow_convicted"):
        resolve(configured(f"references=[{run}]", "allow_convicted=[target]"))  # no reference here


def test_the_suite_that_a_run_belongs_to_convicts_as_well(tmp_path):
    run = earlier(tmp_path / "suite" / "perturb", "perturb", {"target": FACTS}, ["target"])
    (tmp_path / "suite" / "panel.json").write_text("{}")
    cells = [cell_of("gap_to_fresh_items", "memory", model="target", benchmark="elementary")]
    (tmp_path / "suite" / "report").mkdir()
    whole = joint_of({"memory": verdict_of_cells(cells, "memory")})
    (tmp_path / "suite" / "report" / "verdict.json").write_text(json.dumps(whole))
    with pytest.raises(ConfigError, match="audit memory found gap_to_fresh_items"):
        resolve_perturb(perturb(f"references=[target@{run}]"))


def test_a_registered_conviction_holds_for_the_same_weights(tmp_path):
    pytest.importorskip("sqlalchemy")
    from sqlalchemy import insert

    from audit.registry.database import open_registry
    from audit.registry.schema import cells, runs

    place = tmp_path / "registry.db"
    now = at(datetime(2026, 11, 1, tzinfo=UTC))

    def rows(connection):
        connection.execute(
            insert(runs).values(
                key="k" * 64,
                audit="memory",
                fingerprint="f",
                answers_sha256="a",
                verdict_sha256="v",
                manifest_sha256="m",
                suite="",
                decision="block",
                exit_code=3,
                started=now,
                ended=now,
                registered=now,
                run_dir="gone",
                run_by=[],
            )
        )
        connection.execute(
            insert(cells).values(
                run_key="k" * 64,
                model="target",
                benchmark="mmlu",
                context="",
                model_revision="abc",
                benchmark_revision="",
                n=1,
                verdict="memory_of_text_seen",
                decision="block",
                headline="",
                sound=True,
                comparable={},
            )
        )

    open_registry(str(place)).write(rows)
    weights = {"revision": "abc", "engine": "vllm"}
    for k, (name, facts, convicted) in enumerate(
        [
            ("target", weights, True),
            ("renamed", weights, True),
            ("target", {**weights, "revision": "def"}, False),
        ]
    ):
        run = earlier(tmp_path / f"run{k}", "perturb", {"judged": FACTS, name: facts}, ["judged"])
        config = perturb(f"references=[{run}]", f"registry={place}")
        if convicted:
            with pytest.raises(
                ConfigError,
                match=rf"{name} was itself convicted: audit memory .* on mmlu \(registry",
            ):
                resolve_perturb(config)
        else:
            resolve_perturb(config)


def test_a_reference_is_not_the_tested_model_under_any_name(tmp_path):
    run = earlier(tmp_path / "run", "perturb", {"other": FACTS, "scripted": FACTS}, ["other"])
    with pytest.raises(ConfigError, match=r"scripted of .* is the tested model"):
        resolve_perturb(perturb(f"references=[{run}]"))
    tested = {"m": {"revision": "abc", "engine": "vllm"}}
    for name, revision, message in (
        ("renamed", "abc", "is the tested model m: both have the weights abc"),
        ("m", "def", r"has the name of the tested model and other weights \(def, not abc\)"),
    ):
        models = {"other": FACTS, name: {"revision": revision, "engine": "vllm"}}
        run = earlier(tmp_path / name, "perturb", models, ["other"])
        (reference,) = reference_runs(perturb(f"references=[{run}]"))
        with pytest.raises(ConfigError, match=message):
            check_runs([reference], "perturb", tested, ["m"], {"elementary": None}, {}, ())
    twin = {**tested, "twin": tested["m"]}  # in one job, too
    with pytest.raises(ConfigError, match="twin of this run is the tested model m"):
        check_runs([], "perturb", twin, ["m"], {"elementary": None}, {}, ())
    pair = {**tested, **{name: {"revision": "def", "engine": "vllm"} for name in ("r", "again")}}
    with pytest.raises(
        ConfigError, match="r and again are one model"
    ):  # two that agree as no two models do
        check_runs([], "perturb", pair, ["m"], {"elementary": None}, {}, ())


def test_a_run_of_another_library_or_audit_and_two_runs_of_one_model_are_refused(tmp_path):
    run, second = (earlier(tmp_path / name, "perturb", {"m": FACTS}, []) for name in "ab")
    resolve_perturb(perturb(f"references=[{run}]"))
    with pytest.raises(ConfigError, match="Reference model m is given 2 times"):
        resolve_perturb(perturb(f"references=[{run},{second}]"))
    made = Manifest.load(run)
    for change, message in (
        ({"config": {**made.config, "variants": "0" * 64}}, "was run with variants=000000000000"),
        ({"audit": "sweep"}, "Expected perturb"),
    ):
        replace(made, **change).save(run)
        with pytest.raises(ConfigError, match=message):
            resolve_perturb(perturb(f"references=[{run}]"))


@pytest.mark.parametrize(("audit", "configured", "resolve"), RESOLVERS)
def test_other_items_under_the_same_ids_are_refused(audit, configured, resolve, tmp_path):
    run = earlier(tmp_path / "run", audit, {"target": FACTS, "peer": FACTS}, ["target"])
    config = configured(f"references=[{run}]")
    resolve(config)
    first, *rest = QuestionFile(run)
    write_questions(run, [replace(first, options=(*first.options[:-1], "another")), *rest])
    with pytest.raises(
        ConfigError, match=rf"1 of 10 items with another text, option or key, such as {first.id}"
    ):
        resolve(config)
    write_questions(run, [replace(item, id=f"x/{item.id}") for item in (first, *rest)])
    with pytest.raises(ConfigError, match="has no item of this run"):
        resolve(config)
    manifest = Manifest.load(run)
    replace(
        manifest, benchmark={"elementary": {**manifest.benchmark["elementary"], "revision": "old"}}
    ).save(run)
    with pytest.raises(
        ConfigError, match=r"Version of elementary in reference .* is old. Expected"
    ):
        resolve(config)


def test_held_out_items_that_suit_one_model_are_refused_or_named(tmp_path):
    rows = [
        {"question": f"What is new number {k}?", "choices": ["a", "b"], "answer": 0}
        for k in range(6)
    ]
    path = tmp_path / "fresh.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = (
        "control_benchmark=mcq_file",
        f"control_benchmark.path={path}",
        "control_benchmark.name=fresh",
    )
    plain_run = resolve_memory(memory(*words))
    assert len(plain_run.analysis["held_out"]) == 2  # neither date nor writer is known
    known = (
        "control_benchmark.date=2026-05",
        "control_benchmark.written_by=people",
        "model.scripted.released=2025",
    )
    resolved = resolve_memory(memory(*words, *known))
    assert resolved.analysis["held_out"] == [] and reservations(resolved.analysis) == ()
    assert (
        resolved.identity == plain_run.identity
    )  # what is said of items and models decides no row
    with pytest.raises(ConfigError, match="family of the tested model scripted"):
        resolve_memory(
            memory(*words, "control_benchmark.written_by=acme", "model.scripted.family=acme")
        )
    run = earlier(tmp_path / "run", "memory", {"target": FACTS, "peer": FACTS}, ["target"])
    manifest = Manifest.load(run)
    models = {"target": {}, "peer": {"released": "2026-07"}}
    assert resolved.analysis["origins"] == {"scripted": {"released": "2025", "family": None}}
    control = plain(resolved.plain)["control_benchmark"] | {"date": None}
    replace(
        manifest, config={**manifest.config, "control_benchmark": control, "model": models}
    ).save(run)
    with pytest.raises(
        ConfigError, match=r"fresh \(2026-05\) .* scripted .* reference peer \(2026-07\)"
    ):
        resolve_memory(memory(*words, *known, f"references=[{run}]"))
