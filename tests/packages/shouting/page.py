"""Its page, in the shell of every audit: decision strip, gate matrix, filters, items."""

from pathlib import Path

import numpy as np

from audit.report.build import Page, run_facts
from audit.report.page import Gated, marks_of, render_page
from audit.statistics.paired import State
from audit.verdict.tables import csv_text
from shouting.vocabulary import GATES, VERDICTS, RunVerdict


def page(verdict: RunVerdict, run_dir: Path) -> Page:
    pairs = list(zip(verdict.cells, verdict.results, strict=True))
    missed = [(c, np.any(c.state == State.WRONG, axis=0)) for c in verdict.cells]
    rows = [(c.model, q, bool(one)) for c, hit in missed for q, one in zip(c.question_ids, hit, strict=True)]
    items = csv_text(("model", "question_id", "missed"), rows)

    def render(figures: dict[str, str]) -> str:
        return render_page(
            Path(__file__).parent / "page.html.j2", rows=verdict.rows, scripts=("report/items.js",), gates=GATES,
            gated=[Gated(r.model, r.gates, {"cell": r.model}) for r in verdict.results],
            title=verdict.title("Does shouting matter?"), subtitle="An audit of another package.", words=VERDICTS,
            decisions=marks_of(verdict, VERDICTS), items=rows, facts=run_facts(run_dir),
            cells=[{"result": r, "mark": verdict.mark(c, r), "number": k} for k, (c, r) in enumerate(pairs, start=1)],
        )  # fmt: skip

    return Page({"items.csv": items}, {}, render)
