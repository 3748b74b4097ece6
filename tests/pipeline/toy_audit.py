"""A whole audit in a few lines (does it matter whether a question is shouted?): what one has to bring, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from audit.audits import Audit, Roles, Work
from audit.config import RunConfig
from audit.prompting.prompts import direct_prompt
from audit.records import Design, Generation, Part, Presentation, Question
from audit.report.build import run_facts
from audit.report.page import Gated, render_page
from audit.shards.complete import cell_rows, count_rows
from audit.shards.read import load_cells
from audit.shards.schema import row_schema
from audit.statistics.mcnemar import mcnemar_exact
from audit.statistics.paired import CellOutcomes, State
from audit.summary import summarise
from audit.verdict.gates import checked, failed, ids_where
from audit.verdict.result import Gate, points
from audit.verdict.vocabulary import GateWord, Outcome, VerdictWord, gate_reasons

ALPHA, ANSWERED_MIN = 0.05, 0.95
VERDICTS = {
    "withheld": VerdictWord("Withheld", "✖", "X", "A check failed.", Outcome.NO_DECISION),
    "matters": VerdictWord("Shouting matters", "▲", "^", "Shouted questions are missed.", Outcome.FOUND),
    "nothing": VerdictWord("No harm found", "●", "o", "Shouted questions fare no worse.", Outcome.NOTHING_SEEN),
}
GATES = {"parseability": GateWord("Readable answers", "too many answers could not be read")}


@dataclass
class ToyConfig(RunConfig):
    volumes: int = 2


def design(config: ToyConfig) -> Design:
    """The question as it is, and once at each volume; its own part each, so that each is run again alone."""
    return Design((Part("original", (0,)), *(Part("variant", (k,)) for k in range(1, config.volumes + 1))))


def present(work: Work, question: Question, part: Part, _: Sequence[Generation]) -> list[Presentation]:
    """The stem in capitals, with an exclamation mark for every volume. Without a letter it cannot be shouted."""
    (volume,) = part.levels
    stem = question.text.upper() + "!" * volume if volume else question.text
    prompt = direct_prompt(work.protocol, replace(question, text=stem), work.reading)
    error = "the question has no letter" if volume and question.text.upper() == question.text.lower() else None
    return [Presentation(prompt, question.options, question.gold, {"volume": volume}, error)]


def gates(cell: CellOutcomes) -> list[Gate]:
    unread = cell.state < State.WRONG
    share, items = float(1 - unread.mean()), ids_where(cell.question_ids, unread.any(axis=0))
    told = f"{share:.1%} of the answers can be read."
    advice = "Read some of the others."
    return [checked("parseability", share >= ANSWERED_MIN, share, ANSWERED_MIN, "ours", told, advice, items=items)]


def judge(cell: CellOutcomes) -> dict[str, Any]:
    """Gates first, then the loudest volume against the original: exact McNemar, one-sided."""
    found, loudest = gates(cell), summarise(cell, TOY.roles)[-1]
    p = float(mcnemar_exact(round(loudest.degrade or 0), round(loudest.improve or 0)).pvalue)
    verdict = "withheld" if failed(found) else "matters" if p <= ALPHA else "nothing"
    said = gate_reasons(failed(found), GATES) or (f"Shouting costs {points(-(loudest.gain or 0))} (p={p:.2g}).",)
    decision = {"verdict": verdict, "reasons": said, "what_to_do": ()}
    headline = f"{VERDICTS[verdict].name}: {said[0]}"
    result = {"model": cell.model, "benchmark": cell.benchmark, "headline": headline, "decision": decision}
    result |= {"cannot_exclude": (), "calibration": None, "sensitivity": ""}
    return {"mark": "", "result": result, "gates": found}


def page(run_dir: Path) -> tuple[list[dict[str, Any]], str]:
    """(the verdicts, the page): in the shell of every audit, with its gate matrix, filters and items."""
    cells = load_cells(run_dir, TOY.schema)
    judged = [judge(cell) for cell in cells]
    gated = [Gated(c.model, one["gates"], {"cell": c.model}) for c, one in zip(cells, judged, strict=True)]
    items = [(c.model, q, np.any(c.state[:, k] == State.WRONG)) for c in cells for k, q in enumerate(c.question_ids)]
    html = render_page(
        Path(__file__).parent / "toy_page.html.j2", rows=cell_rows(run_dir, count_rows(run_dir, TOY.schema)),
        scripts=("report/items.js",), gates=GATES, gated=gated, title="Shouted at", subtitle="A toy audit.",
        words=VERDICTS, cells=judged, items=items, facts=run_facts(run_dir),
    )  # fmt: skip
    return judged, html


TOY = Audit(
    name="toy",
    schema=row_schema("toy", 1, [("volume", pa.int16(), "exclamation marks")]),
    roles=Roles(baseline=("original", 0), treated="variant", arms=("original", "variant")),
    design=design,
    present=present,
)
