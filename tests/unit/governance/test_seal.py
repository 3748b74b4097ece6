"""A signed plan: made before the run, held against it by gate and pack, and what does not hold has
a code."""

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from commands_here import evidence, gate, registry
from governed import Capsys, Patch, gated, rewrite

from audit.commands.plan import main as plan
from audit.config.command_line import configured
from audit.core.errors import ConfigError, SignatureError
from audit.core.json_types import plain
from audit.governance.keys import load_signer, load_trusted, seal, statement
from audit.governance.sealed import PREDICATE, checked, write_seal
from audit.registry import tried
from audit.shards.files import file_sha256
from audit.shards.manifest import SEAL, Manifest, open_run_dir
from audit.sweep.design import SweepThresholds
from audit.sweep.plan import planned

BEFORE = datetime(2026, 10, 1, tzinfo=UTC)
DESIGN = ["model=scripted", "n=40", "r=1..2"]


def begun(folder: Path, words: list[str], **thresholds: float) -> Manifest:
    """The manifest of a run that these words start, as `runtime.run` writes it; nothing is
    asked."""
    run = planned(configured("sweep", [*words, f"run_dir={folder}"])).resolved
    analysis = {"seed": run.config.seed, "thresholds": SweepThresholds(**thresholds).to_dict()}
    with open_run_dir(
        run.path, run.audit.schema, run.identity, run.plain, run.models, analysis
    ) as opened:
        return opened.update(
            prompt_hashes={name: protocol.sha256 for name, protocol in run.protocols.items()},
            benchmark=plain({sample.benchmark.name: sample.facts() for sample in run.samples}),
        )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Path:
    """A folder with the seal of DESIGN, by alice, and `begun`, the same with the run that it is of.
    To be read only."""
    place = tmp_path_factory.mktemp("made")
    design = planned(configured("sweep", [*DESIGN, f"run_dir={place / 'sealed'}"]))
    write_seal(design, None, load_signer(keys / "alice.key"), BEFORE)
    shutil.copytree(place / "sealed", place / "begun")
    begun(place / "begun", DESIGN)
    return place


@pytest.fixture
def sealed(made: Path, tmp_path: Path) -> Path:
    """A folder with the seal of DESIGN, by alice; the run has not begun."""
    return Path(shutil.copytree(made / "sealed", tmp_path / "sealed"))


@pytest.fixture
def started(made: Path, tmp_path: Path) -> Path:
    """The same, and the run has begun."""
    return Path(shutil.copytree(made / "begun", tmp_path / "sealed"))


def seal_of(run: Path, manifest: Manifest, keys: Path) -> Any:
    return checked(
        (run / SEAL).read_bytes(), manifest, load_trusted(keys / "trusted"), "it", inside=True
    )


def test_a_run_as_sealed_has_no_deviation_and_the_seal_says_what_it_detects(
    started: Path, keys: Path
) -> None:
    manifest = Manifest.load(started)
    assert manifest.seal == file_sha256(started / SEAL)
    verified = seal_of(started, manifest, keys)
    assert (verified.signer, verified.changed, verified.sealed) == (
        "alice",
        (),
        "2026-10-01T00:00:00+00:00",
    )
    assert (
        verified.detects[0]["questions_needed"],
        round(verified.detects[0]["minimum_detectable_gain"], 3),
    ) == (789, 0.218)


def test_each_changed_field_is_named_with_both_values(sealed: Path, keys: Path) -> None:
    manifest = begun(sealed, ["model=scripted", "n=30", "r=1..2", "seed=7"], alpha=0.1)
    changed = {
        change.field: (change.sealed, change.run)
        for change in seal_of(sealed, manifest, keys).changed
    }
    questions = changed.pop("questions.elementary.ids_sha256")
    assert questions[0] != questions[1]
    assert changed == {
        "n": (40, 30),
        "questions.elementary.n": (40, 30),
        "seed": (42, 7),
        "verdict.alpha": (0.05, 0.1),
    }


def test_a_model_that_was_dropped_is_one_deviation(tmp_path: Path, keys: Path) -> None:
    two = [
        "model=[scripted,openai_compatible]",
        "benchmark=elementary",
        *DESIGN[1:],
        f"run_dir={tmp_path / 'run'}",
    ]
    two += ["model.openai_compatible.endpoints=[{url: 'http://127.0.0.1:8000/v1', model: m}]"]
    write_seal(planned(configured("sweep", two)), None, load_signer(keys / "alice.key"), BEFORE)
    verified = seal_of(tmp_path / "run", begun(tmp_path / "run", DESIGN), keys)
    assert [change.field for change in verified.changed] == [
        "prompts.openai_compatible",
        "weights.openai_compatible",
    ]


def resealed(who: str, when: datetime) -> Callable[[Path, Path], object]:
    """The same design, sealed by somebody else or at another time."""

    def spoil(run: Path, keys: Path) -> None:
        (run / SEAL).unlink()
        design = planned(configured("sweep", [*DESIGN, f"run_dir={run.parent / 'elsewhere'}"]))
        write_seal(design, run / SEAL, load_signer(keys / f"{who}.key"), when)

    return spoil


def edited(run: Path, keys: Path) -> None:
    rewrite(run / SEAL, lambda seal: seal.update(payload=seal["payload"].replace("A", "B", 1)))


# What was done to the seal, whose hash the manifest then has, or what the manifest says -> the
# code.
HOSTILE: dict[str, tuple[Callable[[Path, Path], object] | dict[str, Any], str]] = {
    "edited": (edited, "seal_edited"),
    "no JSON": (lambda run, keys: (run / SEAL).write_bytes(b"[" * 5000), "seal_edited"),
    "without a zone": (resealed("alice", datetime(2026, 10, 1)), "seal_edited"),
    "by mallory": (resealed("mallory", BEFORE), "seal_key_unknown"),
    "later": (resealed("alice", datetime(2100, 1, 1, tzinfo=UTC)), "seal_after_start"),
    "put there afterwards": ({"seal": ""}, "seal_after_start"),
    "of other bytes": ({"seal": "0" * 64}, "seal_replaced"),
    "of memory": ({"audit": "memory"}, "seal_of_another_design"),
    "of other questions": ({"benchmark": {"arc_easy": {}}}, "seal_of_another_design"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_does_not_hold_has_a_code(name: str, started: Path, keys: Path) -> None:
    (spoil, code), manifest = HOSTILE[name], Manifest.load(started)
    if not isinstance(spoil, dict):
        spoil(started, keys)
        spoil = {"seal": file_sha256(started / SEAL)}
    with pytest.raises(SignatureError) as refused:
        seal_of(started, replace(manifest, **spoil), keys)
    assert str(refused.value).split(":")[0] == code


def test_the_command_seals_and_prints_the_run(
    tmp_path: Path, keys: Path, monkeypatch: Patch, capsys: Capsys
) -> None:
    words = [*DESIGN, f"run_dir={tmp_path / 'run'}"]
    for extra, code in (
        (["--key", str(keys / "alice.key")], 2),
        (["--seal", "--key", str(keys / "alice.key")], 0),
    ):
        monkeypatch.setattr("sys.argv", ["audit plan", *words, *extra])
        assert plan() == code
    assert capsys.readouterr().out.splitlines() == [
        f"sealed   {tmp_path / 'run' / SEAL}",
        f"run it   audit sweep {' '.join(words)}",
    ]


def test_a_plan_is_sealed_once_and_before_the_run(sealed: Path, keys: Path) -> None:
    words = planned(configured("sweep", [*DESIGN, f"run_dir={sealed}"]))
    with pytest.raises(ConfigError, match="signed files are never replaced"):
        write_seal(words, None, load_signer(keys / "bob.key"), BEFORE)
    begun(sealed, DESIGN)
    with pytest.raises(ConfigError, match=r"^seal_after_start"):
        write_seal(words, sealed.parent / "late.json", load_signer(keys / "alice.key"), BEFORE)


@pytest.fixture
def run_sealed(run_dir: Path, keys: Path) -> Path:
    """The finished run of the fixture, as if it had started with a seal of 40 questions."""
    manifest = Manifest.load(run_dir)
    benchmark = next(iter(manifest.benchmark))
    design = {
        "weights.m": "abc123",
        "prompts.m": "0" * 64,
        f"questions.{benchmark}.n": 40,
        "references": [],
    }
    design |= {f"questions.{benchmark}.{name}": None for name in ("revision", "ids_sha256")}
    design["protocols.m.worker"] = "Answer: {question}"
    predicate = {"audit": "sweep", "sealed": BEFORE.isoformat(), "design": design, "detects": []}
    data = seal(
        statement(PREDICATE, {"design": "0" * 64}, predicate), load_signer(keys / "alice.key")
    )
    (run_dir / SEAL).write_bytes(data)
    replace(manifest, seal=file_sha256(run_dir / SEAL)).save(run_dir)
    return run_dir


def test_gate_and_pack_show_deviations(run_sealed: Path, keys: Path, capsys: Capsys) -> None:
    assert gated(run_sealed, keys, "--format", "json") == 5
    (shown,) = json.loads(capsys.readouterr().out)["seals"]
    ((field, run, sealed),) = [
        change.values() for change in shown["changed"]
    ]  # its keys are sorted
    assert (field.split(".")[-1], sealed, run, shown["signer"]) == ("n", 40, 12, "alice")
    for kind in ("text", "junit", "github", "markdown"):
        assert gated(run_sealed, keys, "--format", kind) == 5
        assert f"{field}: sealed 40, run 12" in capsys.readouterr().out.replace(
            "&#58;", ":"
        ).replace("\\", "")
    pack, trusted = run_sealed.parent / "pack.zip", str(keys / "trusted")
    assert evidence([str(run_sealed), "-o", str(pack), "--key", str(keys / "bob.key")]) == 0
    for words, by in (
        (["--keys", trusted], "signed by alice"),
        (["--unsigned"], "SIGNATURE NOT CHECKED"),
    ):
        assert evidence(["verify", str(pack), *words]) == 0
        assert (
            f"{by}: 1 fields differ\ndeviation: {field}: sealed 40, run 12"
            in capsys.readouterr().out
        )
    with zipfile.ZipFile(pack) as archive:
        assert json.loads(archive.read("deviations.json")) == shown["changed"]


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        ("taken away", "seal_missing"),
        ("no keys", "seal_no_keys"),
        ("of elsewhere", "seal_replaced"),
    ],
)
def test_a_seal_that_does_not_hold_fails_the_gate(
    spoil: str, code: str, run_sealed: Path, sealed: Path, keys: Path, capsys: Capsys
) -> None:
    words = ["--seal", str(sealed / SEAL)] if spoil == "of elsewhere" else []
    if spoil == "taken away":
        (run_sealed / SEAL).unlink()
        assert (
            evidence([str(run_sealed), "-o", str(run_sealed.parent / "pack.zip"), "--unsigned"])
            == 1
        )
    given = [] if spoil == "no keys" else ["--keys", str(keys / "trusted")]
    assert gate([str(run_sealed), "--trust-report", "--format", "json", *given, *words]) == 1
    assert json.loads(capsys.readouterr().out)["problem"].startswith(f"{code}: ")


def test_the_gate_counts_earlier_runs_of_the_design(
    run_dir: Path, keys: Path, tmp_path: Path, capsys: Capsys
) -> None:
    """Beside it and in the registry, each once; a later one, another model and another audit are no
    tries."""
    manifest = Manifest.load(run_dir)
    ((benchmark, facts),) = manifest.benchmark.items()
    others = {
        "again": {},
        "other_draw": {  # of validity, whose edits are drawn with the questions
            "benchmark": {benchmark: {**facts, "ids_sha256": "0" * 64}},
            "config": {**manifest.config, "edits_sha256": "1" * 64},
        },
        "other_prompt": {"prompt_hashes": {"m": "1" * 64}},
        "later": {"started": "2026-11-30T08:00:00+00:00"},
        "other_model": {"models": {"m": {"revision": "def"}}},
        "other_audit": {"audit": "memory"},
        "other_judged": {"models": {**manifest.models, "x": {}}, "analysis": {"judged": ["x"]}},
        "among_judged": {
            "models": {**manifest.models, "x": {}},
            "analysis": {"judged": [*manifest.models]},
            "started": "2026-10-02T08:00:00+00:00",
        },
    }
    for name, change in others.items():
        run = Path(shutil.copytree(run_dir, tmp_path / name))
        replace(manifest, **{"started": "2026-10-01T08:00:00+00:00", **change}).save(run)
    (tmp_path / "other_prompt" / "report" / "verdict.json").unlink()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "manifest.json").write_text(
        '{"fingerprint": 1, "config": [], "started": 5, "models": 7}'
    )
    place = str(tmp_path / "registry.db")
    assert registry(["add", "--registry", place, str(tmp_path / "again")]) == 0
    capsys.readouterr()
    assert gated(run_dir, keys, "--format", "json") == 5
    tries = json.loads(capsys.readouterr().out)["tries"]
    assert {
        (Path(attempt["run"]).name, attempt["decision"], *attempt["differs"]) for attempt in tries
    } == {
        ("again", "no decision"),
        ("among_judged", "no decision"),
        ("other_draw", "no decision", "questions"),
        ("other_prompt", "", "prompts"),
    }
    assert gated(run_dir, keys) == 5
    assert "4 earlier runs" in capsys.readouterr().out
    assert len(tried.tries(run_dir, place)) == 4
    shutil.copytree(tmp_path / "again", tmp_path / "backup")
    assert len(tried.tries(run_dir, place)) == 4  # one run, twice on the disk
    for name in ("again", "among_judged", "backup"):
        shutil.rmtree(tmp_path / name)
    assert [
        Path(attempt.run).name for attempt in tried.tries(run_dir, place) if not attempt.differs
    ] == ["again"]
