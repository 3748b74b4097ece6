"""Build a standard report page, for audits that do not define a page themselves.

The page shows the decisions, the checks, three questions as examples, the items, and the facts of
the run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.config.audits import part_of
from audit.judging.run import JudgedRun
from audit.judging.tables import columns
from audit.report.build import Page, run_facts
from audit.report.page import Gated, errors_of, marks_of, render_page
from audit.shards.questions import QuestionFile
from audit.statistics.paired import CellOutcomes, State

EXAMPLES = 3
MAX_ITEMS = 400  # largest number of items on the page; items.csv has all items


@dataclass(frozen=True)
class PlainItem:
    """Hold one question, and the state of the model's answer to this question in each setting."""

    model: str
    question_id: str
    text: str
    states: tuple[tuple[str, str], ...]

    @property
    def differs(self) -> bool:
        """Return whether the state of the model's answer differs between settings."""
        return len({state for _, state in self.states}) > 1


def page(verdict: JudgedRun[CellOutcomes, Any], run_dir: Path) -> Page:
    """Build the page, and the table of items.

    Parameters
    ----------
    verdict : JudgedRun
        The verdict on the run.
    run_dir : Path
        The run directory, which holds the questions.

    Returns
    -------
    Page
        The page and the table, without figures.
    """
    texts = {(q.benchmark, q.id): q.text for q in QuestionFile(run_dir)}
    items: list[PlainItem] = []
    for cell in verdict.cells:
        items += _items(cell, texts)
    vocabulary = part_of(verdict.audit, "vocabulary")
    cells = []
    for cell, result in zip(verdict.cells, verdict.results, strict=True):
        cells.append({"result": result, "mark": verdict.mark(cell, result)})

    def render(figures: dict[str, str]) -> str:
        name = vocabulary.INSTRUMENT.name
        return render_page(
            "report/plain.html.j2",
            rows=verdict.rows,
            scripts=("report/items.js",),
            gates=vocabulary.GATES,
            gated=[Gated(r.model, r.gates, {"cell": r.model}) for r in verdict.results],
            title=verdict.title(f"{name[0].upper()}{name[1:]}:"),
            subtitle="",
            words=vocabulary.VERDICTS,
            decisions=marks_of(verdict, vocabulary.VERDICTS),
            errors=errors_of(verdict.results, {}),
            cells=cells,
            figures=figures,
            thresholds=verdict.thresholds,
            facts=run_facts(run_dir),
            examples=items[:EXAMPLES],
            items=items[:MAX_ITEMS],
            total_items=len(items),
        )

    names = ("model=item.model", "question_id=item.question_id", "setting", "state")
    return Page({"items.csv": columns(_rows(items), *names)}, {}, render)


def _rows(items: Sequence[PlainItem]) -> Iterator[dict[str, Any]]:
    """Yield a row of items.csv for each item and setting."""
    for item in items:
        for setting, state in item.states:
            yield {"item": item, "setting": setting, "state": state}


def _items(cell: CellOutcomes, texts: dict[tuple[str, str], str]) -> Sequence[PlainItem]:
    """Return the questions of a cell, first those with answers that differ between settings."""
    names = []
    for setting in cell.settings:
        arm = setting.arm.replace("_", " ")
        names.append(f"{arm} {setting.level}" if setting.level else arm)
    items = []
    for i, id_ in enumerate(cell.question_ids):
        states = []
        for name, row in zip(names, cell.state[:, i], strict=True):
            states.append((name, State(int(row)).name.lower()))
        text = texts.get((cell.benchmark, id_), "")
        items.append(PlainItem(cell.model, id_, text, tuple(states)))
    return sorted(items, key=lambda item: not item.differs)
