"""Estimate the score without memory of one cell, and list the items likely answered from memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.errors import DataError
from audit.core.records import Item
from audit.judging.result import Gate, Status, because, failed, finite
from audit.judging.tables import columns
from audit.judging.vocabulary import LOG_GATES
from audit.memory.evidence import Evidence, likelihoods, score_pairs
from audit.memory.record import MemoryCell
from audit.memory.vocabulary import MemoryResult, ScoreWithout
from audit.statistics.between_models import one_family
from audit.statistics.unparsed import DECIDE_AT
from audit.statistics.without_memory import from_memory, score_of, without_memory


def score_without(cell: MemoryCell, evidence: Evidence, gates: Sequence[Gate]) -> ScoreWithout:
    """Estimate the score without memory of one cell.

    Parameters
    ----------
    cell : MemoryCell
        The answers of the model and its references.
    evidence : Evidence
        The gap and its limits.
    gates : sequence of Gate
        Results of the checks of the measurement.

    Returns
    -------
    ScoreWithout
        The estimate. If held-out items, references or a passed check are missing, the result names
        what is missing.
    """
    published, held_out = cell.tested
    score = score_of(published.score, cell.published.cluster)
    needs, refused = _needs(cell, evidence, gates), ""
    if not needs and cell.fresh is not None and held_out is not None:
        models = [(published, held_out)]
        for a, b in cell.references:
            if b is not None and a.model not in evidence.left_out:
                models.append((a, b))
        scores = score_pairs(models)
        clusters = cell.published.cluster, cell.fresh.cluster
        try:
            estimate = without_memory(
                scores[0],
                scores[1:],
                clusters,
                imputed_gaps=_wider_gaps(evidence),
                chance=cell.chance,
            )
            items = from_memory(scores[0], scores[1:], likelihoods(cell, models, "item"))
        except DataError as error:
            needs, refused = ("more_answers",), str(error)
        else:
            code = "without_at_most" if estimate.at_most else "without"
            numbers = {"references": estimate.references, "theirs": estimate.theirs}
            reason = because(code, score=estimate.score, without=estimate.without, **numbers)
            return ScoreWithout(reason, estimate.score, estimate, items)
    counts = all(check.passed for check in cell.log_checks if check.name == "counts_right")
    about = {"partial": cell.partial, "measure": not counts}
    return ScoreWithout(
        because("not_identified", score=score, needs=needs, error=refused, **about),
        score,
        needs=needs,
    )


def _wider_gaps(evidence: Evidence) -> list[tuple[float, float, float]]:
    """Return further estimates of the gap, whose limits widen the interval of the score without
    memory.
    """
    gaps = []
    for imputed in evidence.imputed_gaps:
        # Unparsed answers may be right more or less often than expected.
        if imputed.gamma == DECIDE_AT:
            gaps.append((0.0, imputed.low, imputed.high))
    (_, low, high), (less, more) = evidence.limits(), evidence.unbracketed
    if more:
        # If no reference is as able as the model, the gap depends on how often guessing succeeds on
        # each set.
        gaps.append((0.0, low - more, high - less))
    return gaps


def _needs(cell: MemoryCell, evidence: Evidence, gates: Sequence[Gate]) -> tuple[str, ...]:
    """Return the codes of what is missing to identify the score without memory."""
    failing = set()
    for gate in gates:
        if gate.status == Status.FAIL:
            failing.add(gate.name)
    missing = {
        "held_out": cell.fresh is None,
        "able_references" if evidence.left_out else "references": len(cell.references)
        == len(evidence.left_out),
        # The interval depends on how much the references differ, and models of one family differ
        # too little. In simulations with references of one family, the 95 % interval contained the
        # true score without memory for only 48 to 68 % of models.
        "other_families": bool(one_family(cell.model, cell.reference_names, cell.families)),
        "parsed": any(gate.name == "parseability" for gate in failed(gates)),
    }
    for name in ("same_kind", "fresh_drawn", *LOG_GATES):
        missing[name] = name in failing
    return tuple(code for code, lacking in missing.items() if lacking)


ON_PAGE = 10  # items of one cell that the page lists


@dataclass(frozen=True)
class Ranked:
    """Hold one answered item, with the evidence that it was answered from memory.

    Attributes
    ----------
    model, question_id : str
        The judged model and the item.
    stem : str
        First line of the question.
    answered : {"right", "wrong"}
        Whether the answer is right. If the item was answered several times, the majority counts.
    chance : float or None
        Probability of a right answer without memory, at the upper limit of the model's ability.
    right : str
        Text that states how many references answered the item right.
    text : float or None
        How much likelier the item's text is to the model than to the references
        (`FromMemory.text`).
    pvalue, qvalue : float or None
        p-value and q-value of the evidence that the item was answered from memory (`FromMemory`).
    named : bool
        Whether the item is listed as likely answered from memory.
    """

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


def ranked(
    cell: MemoryCell, result: MemoryResult, questions: Mapping[tuple[str, str], Item]
) -> list[Ranked]:
    """Return the answered items of a cell, sorted by evidence that they were answered from memory.

    Parameters
    ----------
    cell : MemoryCell
        Answers of the model and its references.
    result : MemoryResult
        The score without memory.
    questions : mapping
        Items by (benchmark, id).

    Returns
    -------
    list of Ranked
        The items with the strongest evidence first. Empty if the score without memory is not
        identified.
    """
    items = result.without.items
    if items is None:
        return []
    references = []
    for model, _ in cell.references:
        if model.model not in result.evidence.left_out:
            references.append(model)
    rows = []
    for i in items.order:
        id_ = cell.published.question_ids[i]
        answered = right = 0
        for model in references:
            if not np.isnan(model.score[i]):
                answered += 1
                right += int(model.score[i] > 0.5)
        rows.append(
            Ranked(
                model=cell.model,
                question_id=id_,
                stem=next(iter(questions[cell.benchmark, id_].text.splitlines()), ""),
                answered="right" if cell.tested[0].score[i] > 0.5 else "wrong",
                chance=finite(items.chance[i]),
                right=f"{right} of {answered}",
                text=None if items.text is None else finite(items.text[i]),
                pvalue=finite(items.pvalue[i]),
                qvalue=finite(items.qvalue[i]),
                named=bool(items.named[i]),
            )
        )
    return rows


def ranked_csv(rows: list[Ranked]) -> str:
    """Return the list of answered items as csv.

    Parameters
    ----------
    rows : list of Ranked
        Answered items, in the order of the list.

    Returns
    -------
    str
        A header and one line for each item.
    """
    return columns(
        rows,
        "model",
        "question_id",
        "answered",
        "chance_without_memory=chance",
        "references_right=right",
        "text_likelier_sd=text",
        "p=pvalue",
        "q=qvalue",
        "named",
    )
