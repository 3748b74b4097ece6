"""The six verdicts, all that is said of one cell, and its published items by how much they speak for memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from audit.memory.evidence import Evidence
from audit.memory.record import MemoryCell
from audit.memory.texts import TEXTS
from audit.memory.without import ScoreWithout
from audit.records import Question
from audit.verdict.result import Texts, finite
from audit.verdict.run import CellResult, Decided
from audit.verdict.tables import csv_text, digits


class MemoryVerdict(StrEnum):
    """In the order in which they are tried."""

    WITHHELD = "withheld"
    MEMORY_OF_TEXT = "memory_of_text_seen"
    GAP_TO_FRESH = "gap_to_fresh_items"
    CAUSE_UNKNOWN = "memory_cause_unknown"
    UNDERPOWERED = "underpowered"
    NOTHING_SEEN = "nothing_seen_by_this_instrument"


class Decision(Decided[MemoryVerdict]):
    """With one of these verdicts."""


@dataclass(frozen=True, kw_only=True)
class MemoryResult(CellResult):
    """The verdict on one model and benchmark, with its evidence.

    holds_up_to: the odds ratio of unparsed answers up to which what is said of the gap holds
    (`audit.memory.decide.tipping`). without: the score without memory; its sentence begins the headline.
    """

    texts: ClassVar[Texts] = TEXTS

    decision: Decision
    evidence: Evidence
    holds_up_to: float | None = None
    without: ScoreWithout | None = None


ON_PAGE = 10


@dataclass(frozen=True)
class Ranked:
    """One answered item. chance: of a right answer without memory; right: of the references; text: see `FromMemory`.
    Of several answers to an item most decide."""

    model: str
    question_id: str
    stem: str
    answered: str
    chance: float | None
    right: str
    text: float | None
    pvalue: float | None
    qvalue: float | None
    named: bool


def ranked(cell: MemoryCell, result: MemoryResult, questions: Mapping[tuple[str, str], Question]) -> list[Ranked]:
    """The likeliest from memory first; none where the score without memory is not identified."""
    if result.without is None or (found := result.without.items) is None:
        return []
    kept = [one for one, _ in cell.references if one.model not in result.evidence.left_out]
    rows = []
    for i in found.order:
        id_ = cell.published.question_ids[i]
        answers = [x for x in (float(one.score[i]) for one in kept) if x == x]
        rows.append(
            Ranked(
                model=cell.model,
                question_id=id_,
                stem=next(iter(questions[cell.benchmark, id_].text.splitlines()), ""),
                answered="right" if cell.tested[0].score[i] > 0.5 else "wrong",
                chance=finite(found.chance[i]),
                right=f"{sum(x > 0.5 for x in answers)} of {len(answers)}",
                text=None if found.text is None else finite(found.text[i]),
                pvalue=finite(found.pvalue[i]),
                qvalue=finite(found.qvalue[i]),
                named=bool(found.named[i]),
            )
        )
    return rows


def ranked_csv(rows: list[Ranked]) -> str:
    """One line an answered item of the benchmark."""
    head = ("model", "question_id", "answered", "chance_without_memory", "references_right", "text_likelier_sd")
    return csv_text(
        (*head, "p", "q", "named"),
        (
            (r.model, r.question_id, r.answered, digits(r.chance), r.right, *map(digits, (r.text, r.pvalue, r.qvalue)),
             str(r.named).lower())
            for r in rows
        ),
    )  # fmt: skip
