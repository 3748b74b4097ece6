"""The page of an audit that brings none: everything that a reader needs is on it, and what was
written is text."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from audit.config.audits import find_audit, has_part
from audit.core.entry_points import added
from audit.core.records import CellRows, Item, Setting
from audit.judge.record import Settings, judge_cells
from audit.judge.report import head_of
from audit.judging.thresholds import Thresholds
from audit.report.build import write_report
from audit.report.plain import page
from audit.shards.questions import write_questions
from audit.statistics.paired import CellOutcomes, State

PACKAGES = Path(__file__).parents[2] / "packages"
N = 40


@pytest.fixture
def shouting() -> Iterator[None]:
    """The added audit, found as an installation finds it."""
    sys.path.insert(0, str(PACKAGES))
    added.cache_clear()
    yield
    sys.path.remove(str(PACKAGES))
    added.cache_clear()


def cell() -> CellOutcomes:
    """Twelve of forty questions are right as asked and wrong when shouted; one answer is
    unparsed."""
    state = np.full((2, N), State.CORRECT, dtype=np.int8)
    state[1, :12] = State.WRONG
    state[1, 12] = State.UNPARSED
    settings = (Setting("original", 0, 0), Setting("variant", 1, 0))
    ids = tuple(f"q{k}" for k in range(N))
    return CellOutcomes("m", "b", "", "letter", ids, np.arange(N), np.full(N, 4), settings, state)


def test_an_audit_without_a_page_has_one(shouting: None, tmp_path: Path) -> None:
    from shouting.analyse import JUDGE
    from shouting.vocabulary import RunVerdict

    assert find_audit("shouting").name == "shouting" and not has_part("shouting", "page")
    questions = [
        Item(f"q{k}", "b", f"<b>Who</b> is {k}?", ("Ann", "Bob"), 0, f"q{k}") for k in range(N)
    ]
    write_questions(tmp_path, questions)
    settings = Settings(Thresholds(), 0, 0)
    head = head_of(settings, [], [CellRows("m", "b", 2 * N, 2 * N)])
    cells = (cell(),)
    verdict = RunVerdict(**head, cells=cells, results=judge_cells(JUDGE, cells, settings))
    paths = write_report(tmp_path / "report", verdict, page(verdict, tmp_path))
    html = paths.html.read_text()
    assert [result.verdict for result in verdict.results] == [
        "shouting_matters"
    ]  # 12 of 39: McNemar's p is 2 ** -12
    for text in ("Shouting matters", "✓ 1 passed", "Content-Security-Policy", 'id="drill-form"'):
        assert text in html
    assert html.count('<div class="brief">') == 3 and html.count("<li data-marks=") == N
    assert html.count('<li data-marks="differs') == 13  # those that were not answered alike
    assert "<b>Who" not in html and "&lt;b&gt;Who" in html
    rows = (tmp_path / "report" / "tables" / "items.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * N and rows[0] == "model,question_id,setting,state"
