"""The page of an audit that brings none: decisions, checks, three questions, every item, the facts
of the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit.config.audits import part_of
from audit.judging.run import JudgedRun
from audit.judging.tables import columns
from audit.report.build import Page, run_facts
from audit.report.page import Gated, errors_of, marks_of, render_page
from audit.shards.questions import QuestionFile
from audit.statistics.paired import CellOutcomes, State

EXAMPLES = 3
MAX_ITEMS = 400  # on the page; items.csv has every item


@dataclass(frozen=True)
class PlainItem:
    """One question of a cell: its words, and the state of the answer in each setting. differs: not
    the same in all."""

    model: str
    question_id: str
    text: str
    states: tuple[tuple[str, str], ...]

    @property
    def differs(self) -> bool:
        return len({state for _, state in self.states}) > 1


def page(verdict: JudgedRun[CellOutcomes, Any], run_dir: Path) -> Page:
    """Return the page and the table of items. run_dir: where the questions are."""
    texts = {(q.benchmark, q.id): q.text for q in QuestionFile(run_dir)}
    items = [one for cell in verdict.cells for one in _items(cell, texts)]
    vocabulary = part_of(verdict.audit, "vocabulary")
    pairs = zip(verdict.cells, verdict.results, strict=True)
    cells = [{"result": r, "mark": verdict.mark(c, r)} for c, r in pairs]

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

    rows = ({"one": one, "how": how, "state": state} for one in items for how, state in one.states)
    table = columns(rows, "model=one.model", "question_id=one.question_id", "setting=how", "state")
    return Page({"items.csv": table}, {}, render)


def _items(cell: CellOutcomes, texts: dict[tuple[str, str], str]) -> Sequence[PlainItem]:
    """Return the questions of a cell; those whose answers differ between settings come first."""
    names = [
        " ".join((s.arm.replace("_", " "), *([str(s.level)] if s.level else [])))
        for s in cell.settings
    ]
    found = []
    for i, id_ in enumerate(cell.question_ids):
        states = tuple(
            (how, State(int(row)).name.lower())
            for how, row in zip(names, cell.state[:, i], strict=True)
        )
        found.append(PlainItem(cell.model, id_, texts.get((cell.benchmark, id_), ""), states))
    order = np.argsort([not one.differs for one in found], kind="stable")
    return [found[k] for k in order]
