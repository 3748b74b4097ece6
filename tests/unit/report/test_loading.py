"""The public API: a run as tables, and the runs of a folder. What it refuses it refuses by name."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import panels
import pyarrow as pa
import pytest
from commands_here import runs as main
from governed import Capsys, Patch, rewrite

import audit
from audit.core.errors import ConfigError, DataError
from audit.governance.ruling import rule_run
from audit.sweep.report import REPORT

QUESTIONS = 8


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outputs") / "run"
    outcomes = panels.hostile(panels.outcomes_of(1, QUESTIONS))
    panels.run_of(
        folder, outcomes, outcomes, status="finished", started="2026-01-02T03:04:05+00:00"
    )
    REPORT.build([folder], folder / "report", n_resamples=200)
    return folder


def test_verdict_settings_and_answers_are_tables(run_dir: Path) -> None:
    run = audit.load(run_dir)
    stored = json.loads((run_dir / "report" / "verdict.json").read_text())["cells"][0]
    verdict = run.verdict()
    assert isinstance(verdict, pa.Table) and verdict.column("verdict").to_pylist() == [
        stored["verdict"]
    ]
    assert verdict.column("largest_compatible_gain").to_pylist() == [
        stored["largest_compatible_gain"]
    ]
    settings = run.settings("pandas")
    assert len(settings) == len(panels.outcomes_of(1, QUESTIONS)) / QUESTIONS
    answers = run.answers(["arm", "routers", "replicate", "correct"], to="pandas")
    for row in settings.itertuples():
        same = (
            (answers.arm == row.arm)
            & (answers.routers == row.level)
            & (answers.replicate == row.replicate)
        )
        assert row.n == same.sum() == QUESTIONS
        assert row.accuracy == pytest.approx(answers[same].correct.astype(float).mean())
    assert run.watermark == "" and len(run.answers()) == len(answers)
    polars = run.answers(["arm", "correct"], to="polars")
    assert (
        polars.columns == ["arm", "correct"]
        and polars["correct"].sum() == answers.correct.sum() > 0
    )


def test_an_edited_verdict_is_not_believed(run_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run_dir, folder)
    changed = {"verdict": "no_excess_detected"}
    rewrite(folder / "report" / "verdict.json", lambda plain: plain["cells"][0].update(changed))
    with pytest.raises(ConfigError, match=f"audit report {folder}"):
        audit.load(folder).verdict()
    believed = audit.load(folder).verdict(trust_report=True)
    assert believed.column("verdict").to_pylist() == ["no_excess_detected"]


def test_messages_are_one_row_a_text(run_dir: Path) -> None:
    run = audit.load(run_dir)
    messages, answers = run.messages("pandas"), run.answers(to="pandas")
    routed = messages[messages.role == "router"]
    assert len(routed) == answers.router_messages.map(len).sum() > 0
    assert (messages.role == "prompt").sum() == (messages.role == "response").sum() == len(answers)
    first = answers[answers.routers == 3].iloc[0]
    mine = routed[
        (routed.question_id == first.question_id)
        & (routed.routers == 3)
        & (routed.arm == first.arm)
    ]
    mine = mine[mine.replicate == first.replicate].sort_values("index")
    assert mine.text.tolist() == list(first.router_messages) and mine["index"].tolist() == [0, 1, 2]


def test_figures_and_the_notebooks_view(run_dir: Path) -> None:
    run = audit.load(run_dir)
    assert run.figure("evidence")._repr_svg_().lstrip().startswith("<?xml")
    with pytest.raises(ConfigError, match=r"Unknown figure: 'evidenc'. Did you mean 'evidence'\?"):
        run.figure("evidenc")
    shown = run._repr_html_()
    assert "<table>" in shown and "<script" not in shown and str(run_dir) in shown
    assert repr(run).startswith("Run(2026-01-02T03:04") and len(repr(run)) < 1000


def test_what_cannot_be_had_is_named(run_dir: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    run = audit.load(run_dir)
    with pytest.raises(ConfigError, match=r"Unknown column: 'correkt'\. Did you mean 'correct'"):
        run.answers(["correkt"])
    with pytest.raises(ConfigError, match="Unknown to: 'numpy'"):
        run.verdict("numpy")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(DataError, match="pip install polars"):
        run.settings("polars")
    with pytest.raises(ConfigError, match="does not exist"):
        audit.load(tmp_path)


def test_a_verdict_on_other_answers_is_refused_and_a_part_is_marked(tmp_path: Path) -> None:
    outcomes = panels.outcomes_of(1, QUESTIONS)
    folder = tmp_path / "run"
    panels.run_of(folder, outcomes, outcomes, status="finished")
    REPORT.build([folder], folder / "report", n_resamples=200)
    for shard in (folder / "shards").iterdir():
        shard.unlink()
    panels.run_of(folder, outcomes[:-5], outcomes, status="stopped")
    run = audit.load(folder)
    assert run.watermark == f"incomplete, {len(outcomes) - 5} of {len(outcomes)} answers"
    with pytest.raises(ConfigError, match=f"audit report {folder}"):
        run.verdict()
    assert run.watermark.upper() in run._repr_html_()


def test_the_runs_of_a_folder(run_dir: Path, tmp_path: Path, capsys: Capsys) -> None:
    broken = run_dir.parent / "broken"
    broken.mkdir(exist_ok=True)
    (broken / "manifest.json").write_text("{")
    good, bad = audit.find_runs(run_dir.parent)
    assert (good.path, good.status, good.found, good.expected) == (
        run_dir,
        "finished",
        good.expected,
        good.found,
    )
    assert (
        len(good.verdicts) == 1
        and good.problem == ""
        and bad.path == broken
        and "manifest" in bad.problem
    )
    assert main([str(run_dir.parent)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert (
        first.startswith("2026-01-02T03:04  sweep")
        and first.endswith(str(run_dir))
        and "cannot" in second
    )
    assert main([str(run_dir.parent), "--json"]) == 0
    assert [entry["path"] for entry in json.loads(capsys.readouterr().out)] == [
        str(run_dir),
        str(broken),
    ]
    assert main([str(tmp_path)]) == 0 and str(tmp_path) in capsys.readouterr().out
    assert main([str(tmp_path / "nowhere")]) == 1 and "nowhere" in capsys.readouterr().err


def test_a_run_that_was_stopped_before_its_first_rows_is_no_damaged_one(
    tmp_path: Path, capsys: Capsys
) -> None:
    (tmp_path / "run").mkdir()
    panels.manifest_of(
        tmp_path / "run", panels.hostile(panels.outcomes_of(1, QUESTIONS)), status="failed"
    )
    assert main([str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert (
        "failed" in output
        and " 0 of " in output
        and "no verdict" in output
        and "cannot" not in output
    )
    assert audit.load(tmp_path / "run").watermark.startswith("incomplete, 0 of ")


def test_the_import_is_light() -> None:
    code = "import sys, audit; print(sorted({'numpy', 'pyarrow', 'ray', 'hydra', 'pandas'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout == "[]\n"


def test_a_stopped_run_that_has_every_answer_is_not_said_to_miss_any(
    run_dir: Path, tmp_path: Path, capsys: Capsys
) -> None:
    shutil.copytree(run_dir, tmp_path / "run")
    rewrite(tmp_path / "run" / "manifest.json", lambda plain: plain.update(status="stopped"))
    assert main([str(tmp_path)]) == 0
    assert "stopped" in capsys.readouterr().out
    problem = rule_run(tmp_path / "run").problem
    assert "run's command again" in problem and "missing" not in problem
