"""The perturbation audit as a user runs it: a real Ray, the scripted engine, the shipped library,
shards on disk."""

import json
from pathlib import Path

import pytest
from audit_here import Finished, audit_here
from commands_here import evidence, gate
from fresh_exam import fresh_exam
from perturb_cells import thinned
from pipeline_helpers import by_key, rebuilt_alike, rows_of, write_model

from audit.perturb.vocabulary import VERDICTS, PerturbVerdict
from audit.variants.arrow import find_library

KEY = ("model", "question_id", "arm", "variant", "replicate")
ASKED = ("n=32", "store.rows_per_shard=20", "references=[peer]", "seed=7", "verdict.alpha=0.01")


def perturb(run_dir: Path, conf: Path, *overrides: str, model: str = "[scripted,peer]") -> Finished:
    """The command, in this process; `conf` holds the model `peer`."""
    words = [f"hydra.searchpath=[file://{conf}]", f"model={model}", "progress=false"]
    return audit_here("perturb", run_dir, *words, *overrides)


@pytest.fixture(scope="module")
def conf(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("conf")
    write_model(folder, "peer", "scripted: {accuracy: {original: 0.8, variant: 0.78}}")
    return folder


@pytest.fixture(scope="module")
def arguments(tmp_path_factory) -> tuple[str, ...]:
    """What the finished run asks: some questions of the shipped benchmark, and held-out ones."""
    return *ASKED, *fresh_exam(tmp_path_factory.mktemp("fresh"), 40)


@pytest.fixture(scope="module")
def finished(driver, conf, arguments, tmp_path_factory) -> Finished:
    """A finished run of one judged model and one reference, with held-out items. To be read
    only."""
    done = perturb(tmp_path_factory.mktemp("perturb") / "run", conf, *arguments)
    assert done.code == 0, done.out
    return done


def test_every_wording_is_asked_once_of_one_engine(finished):
    everything = by_key(finished.run_dir, *KEY)
    assert (
        len(everything) == 2 * 2 * 32 * 5
    )  # two models and sets; two runs of the original and three variants
    rows = {key: row for key, row in everything.items() if row["benchmark"] == "elementary"}
    assert len(rows) == 2 * 32 * 5
    library = find_library("elementary").by_question()
    for row in rows.values():
        assert row["wording"] in row["prompt"] and row["asked"] and row["error"] is None
        if row["arm"] == "original":
            assert row["wording"] == row["question"] and row["distance"] is None
        else:
            variant = library[row["question_id"]][row["variant"] - 1]
            assert (row["variant_id"], row["wording"]) == (variant.id, variant.text)
            assert row["distance"] == variant.distance and row["question"] not in row["prompt"]
    for model in ("scripted", "peer"):
        for question in {key[1] for key in rows}:
            question_rows = [row for key, row in rows.items() if key[:2] == (model, question)]
            assert len({row["engine_id"] for row in question_rows}) == 1
            assert (
                len({row["request_sha256"] for row in question_rows}) == 4
            )  # the original's replicates differ in seeds only


def test_the_verdict_judges_the_tested_model_beside_its_reference(finished):
    verdict = json.loads((finished.run_dir / "report" / "verdict.json").read_text())
    assert (verdict["schema"], verdict["audit"], verdict["seed"]) == (
        "perturb verdict",
        "perturb",
        7,
    )
    assert verdict["thresholds"]["alpha"] == 0.01
    assert verdict["library"]["sha256"] == find_library("elementary").sha256
    (cell,) = verdict["cells"]
    assert (cell["model"], cell["references"], cell["not_asked"]) == ("scripted", ["peer"], 0)
    assert cell["requests"] == {"compared": 96, "same_as_original": 0, "repeated": 0, "items": []}
    word = VERDICTS[PerturbVerdict(cell["verdict"])]
    assert cell["grade"] == word.grade
    assert gate([str(finished.run_dir)]) == word.grade.decision().exit_code
    page = (finished.run_dir / "report" / "report.html").read_text()
    assert page.count("<li data-marks=") == 32 and "not run" in page


def test_a_rebuilt_report_judges_as_the_run_did(finished, tmp_path):
    rebuilt_alike(finished.run_dir, tmp_path / "run", "variants.arrow")


def test_fresh_items_are_asked_in_their_own_words_and_serve_as_control(finished):
    rows = [row for row in rows_of(finished.run_dir) if row["benchmark"] == "fresh"]
    variants = [row for row in rows if row["arm"] == "variant"]
    assert len(rows) == 2 * 32 * 5 and len(variants) == 2 * 32 * 3
    assert all(
        row["wording"].startswith("New exam: ") and row["wording"] in row["prompt"]
        for row in variants
    )
    verdict = json.loads((finished.run_dir / "report" / "verdict.json").read_text())
    assert (verdict["control_library"]["name"], verdict["control_library"]["benchmark"]) == (
        "fresh",
        "fresh",
    )
    (cell,) = verdict["cells"]  # held-out items are no cell to judge
    control = cell["evidence"]["tests"]["control"]
    right = {
        arm: [row["correct"] for row in rows if row["model"] == "scripted" and row["arm"] == arm]
        for arm in ("original", "variant")
    }
    assert control["n"] == 32 and control["reference_models"] == 1
    assert control["original"] == pytest.approx(sum(right["original"]) / 64)
    assert control["variants"] == pytest.approx(sum(right["variant"]) / 96)
    assert [scale["scale"] for scale in control["beyond"]] == ["points", "share", "logit"]
    assert any(
        code["code"] == "held_out_drop" and code["numbers"]["n"] == 32
        for code in cell["reason_codes"]
    )
    page = (finished.run_dir / "report" / "report.html").read_text()
    assert (
        "The same rewording of held-out items" in page
        and "held-out items: <strong>fresh</strong>" in page
    )


@pytest.mark.long  # tests/unit/perturb counts them; test_added_audit.py has rows that are not sent
def test_missing_variants_are_counted_and_neither_sent_nor_scored(driver, conf, tmp_path):
    thin = thinned(1, tmp_path / "thin" / "variants.arrow", every=2)
    done = perturb(tmp_path / "run", conf, "n=20", f"variants={thin}", model="scripted")
    assert done.code == 0, done.out
    rows = by_key(tmp_path / "run", *KEY)
    missing = [row for row in rows.values() if not row["asked"]]
    assert len(rows) == 100 and missing
    for row in missing:
        assert row["variant"] > 1 and row["correct"] is None and not row["parsed"]
        assert row["request_sha256"] is None and row["prompt_tokens"] == 0
    (cell,) = json.loads((tmp_path / "run" / "report" / "verdict.json").read_text())["cells"]
    assert cell["not_asked"] == len(missing)
    parseability = next(g for g in cell["gates"] if g["name"] == "parseability")
    assert parseability["number"] == 1.0  # what was not asked is not unread


def test_another_library_is_refused_in_the_same_directory(finished, conf, arguments, tmp_path):
    thin = thinned(1, tmp_path / "thin" / "variants.arrow", every=2)
    done = perturb(finished.run_dir, conf, *arguments, f"variants={thin}")
    assert done.code == 1
    assert "another configuration" in done.out and "variants: " in done.out


def test_an_earlier_run_serves_as_reference_and_is_packed_with_the_run(
    finished, driver, conf, tmp_path, capsys
):
    done = perturb(
        tmp_path / "run",
        conf,
        "n=20",
        "seed=7",
        f"references=[{finished.run_dir}]",
        model="scripted",
    )
    assert done.code == 0, done.out
    (cell,) = json.loads((tmp_path / "run" / "report" / "verdict.json").read_text())["cells"]
    assert cell["references"] == ["peer"]  # of the run's two models, the other one
    # The pack has the reference run with it, and is checked where there is none but that.
    words = ["-o", str(tmp_path / "pack.zip"), "--unsigned", "--with-shards"]
    assert evidence([str(tmp_path / "run"), *words]) == 0
    away = finished.run_dir.rename(finished.run_dir.with_name("away"))
    try:
        assert evidence(["verify", str(tmp_path / "pack.zip"), "--unsigned"]) == 0, (
            capsys.readouterr().err
        )
    finally:
        away.rename(finished.run_dir)
    assert "the same bytes" in capsys.readouterr().out
