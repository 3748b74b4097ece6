"""`audit demo`: both verdicts and every number come from the shipped answers, computed when it is
asked."""

import hashlib
import shutil
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from commands_here import demo as demo_command
from documents import typed
from governed import Capsys, Patch
from notebook_cells import NOTEBOOKS, run_cells

from audit.commands import demo
from audit.core.package_data import shipped_table
from audit.judging.decision import rule
from audit.judging.ladder import Decision
from audit.memory.analyse import JUDGE, RunVerdict
from audit.memory.report import judge
from audit.memory.vocabulary import MemoryVerdict
from audit.shards.files import SHARDS

MIB = 1 << 20


@pytest.fixture(scope="module")
def judged() -> tuple[RunVerdict, Path]:
    """The verdict on the shipped answers, and where they lie."""
    return judge([demo.shipped()])


@pytest.fixture(scope="module")
def answers() -> dict[tuple[str, str], list[bool | None]]:
    """(model, benchmark) -> right or wrong of every item, read without our reader."""
    table = ds.dataset(demo.shipped() / SHARDS, format="parquet").to_table(
        ["model", "benchmark", "arm", "correct"]
    )
    rows: dict[tuple[str, str], list[bool | None]] = {}
    for row in table.filter(pc.equal(table["arm"], "score")).to_pylist():
        rows.setdefault((row["model"], row["benchmark"]), []).append(row["correct"])
    return rows


def test_what_is_shipped_is_small_and_is_what_was_asked() -> None:
    folder = demo.shipped().parent
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 5 * MIB
    assert not list(folder.rglob("verdict.json")), (
        "a stored verdict could be shown in place of a computed one"
    )
    stated = dict(
        reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines()
    )
    assert stated == {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.name not in ("SHA256SUMS", "README.md")
    }


@pytest.mark.usefixtures("no_figures")
def test_the_numbers_are_those_of_the_answers(
    answers: dict[tuple[str, str], list[bool | None]],
    judged: tuple[RunVerdict, Path],
    tmp_path: Path,
    capsys: Capsys,
) -> None:
    assert demo_command(["--out", str(tmp_path)]) == 0
    verdict, run_dir = judged
    taught, before = demo.sides(verdict)
    for side, name in ((taught, demo.TAUGHT), (before, demo.BEFORE)):
        for score, benchmark in ((side.score, "exam"), (side.held_out, "held_out")):
            assert len(answers[name, benchmark]) == 104
            read = [
                answer for answer in answers[name, benchmark] if answer is not None
            ]  # a tie of two options is no answer
            assert len(read) >= 102 and score == pytest.approx(sum(read) / len(read))
    assert taught.before == before.before == before.score
    assert taught.result.decision.verdict == MemoryVerdict.GAP_TO_FRESH
    assert before.result.decision.verdict in (
        MemoryVerdict.UNDERPOWERED,
        MemoryVerdict.NOTHING_SEEN,
    )
    assert (
        taught.without[1] <= min(taught.before, *taught.others) <= taught.without[2] < taught.score
    )
    assert abs(taught.without[0] - taught.before) < taught.score - taught.before
    out, page = capsys.readouterr().out, (tmp_path / "report.html").read_text()
    for text in (f"{100 * taught.score:.0f} % on the exam", f"{100 * taught.without[0]:.0f} % ("):
        assert text in out and text in page
    assert str(tmp_path / "report.html") in out
    assert ".md" not in page  # an installed package has no docs
    design = {
        (row["design"]["n"], row["design"]["references"]): row["rates"]
        for row in shipped_table(JUDGE.shipped)["designs"]
        if not row["design"]["score_alone"]
    }
    for share, models in ((design[1000, 5]["half"], 50), (design[3000, 8]["clean_cleared"], 100)):
        assert f" {share * models:.0f} of {models} models" in page
    questions = demo.remembered_questions(run_dir, verdict)
    assert len(questions) == 10
    assert all(
        question.answers[demo.TAUGHT][1] == (question.answers[demo.TAUGHT][0] == question.gold)
        for question in questions
    )


def test_other_answers_give_another_verdict(
    judged: tuple[RunVerdict, Path], tmp_path: Path
) -> None:
    """Without the answers of the taught model there is nothing to find."""
    run_dir = tmp_path / "run"
    shutil.copytree(demo.shipped(), run_dir)
    assert rule(typed(judged[0].to_dict())).decision == Decision.BLOCK
    for path in (run_dir / SHARDS).glob(f"{demo.TAUGHT}-*"):
        path.unlink()
    ruling = rule(typed(judge([run_dir])[0].to_dict()))
    assert [cell.model for cell in ruling.cells] == [
        demo.BEFORE
    ] and ruling.decision != Decision.BLOCK


@pytest.mark.long  # a whole report; tests/pipeline/test_python_run.py runs a notebook too
def test_a_notebook_reads_the_run(tmp_path: Path, monkeypatch: Patch, no_figures: None) -> None:
    monkeypatch.chdir(tmp_path)
    values = run_cells(NOTEBOOKS / "read_a_run.ipynb")
    gained, exam = values[-2]
    assert exam == 104 and 0 < gained < exam
    page = values[-1]
    assert page.path == Path("demo_run/report/report.html") and page.path.is_file()
    frame = page._repr_html_()
    assert (
        'sandbox="allow-scripts"' in frame and "<script" not in frame
    )  # the page is a value, not markup, out here
