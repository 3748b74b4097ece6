"""The published items by how much they speak for an answer from memory, as page and table have them."""

from collections.abc import Mapping
from dataclasses import dataclass

from audit.memory.record import MemoryCell
from audit.memory.result import MemoryResult
from audit.records import Question
from audit.verdict.result import finite
from audit.verdict.tables import csv_text, digits

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
