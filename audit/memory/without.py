"""Compute the score without memory of one cell, its conditions, and the items answered from
memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit.core.errors import DataError
from audit.core.records import Item
from audit.judging.result import Gate, Status, because, failed, finite
from audit.judging.tables import columns
from audit.judging.vocabulary import LOG_GATES
from audit.memory.evidence import Evidence, likelihoods
from audit.memory.record import MemoryCell
from audit.memory.vocabulary import MemoryResult, ScoreWithout
from audit.statistics.between_models import one_family
from audit.statistics.set_difference import Sets
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
        The checks of the measurement.

    Returns
    -------
    ScoreWithout
        Not identified without held-out items or without references.
    """
    published, held_out = cell.tested
    score = score_of(published.score, cell.published.cluster)
    needs, refused = _needs(cell, evidence, gates), ""
    if not needs and cell.fresh is not None and held_out is not None:
        kept = []
        for a, b in cell.references:
            if b is not None and a.model not in evidence.left_out:
                kept.append((a, b))
        models = [(published, held_out), *kept]
        scores: list[Sets] = [(a.score, b.score) for a, b in models]
        try:
            clusters = cell.published.cluster, cell.fresh.cluster
            # The limits allow for unparsed answers for and against the gap, at the odds ratio of
            # decisions.
            gaps = []
            for imputed in evidence.held:
                if imputed.gamma == DECIDE_AT:
                    gaps.append((0.0, imputed.low, imputed.high))
            # For a model that no reference brackets, they allow for another rate of lucky answers.
            (_, low, high), (less, more) = evidence.limits(), evidence.unbracketed
            if more:
                gaps.append((0.0, low - more, high - less))
            estimate = without_memory(
                scores[0], scores[1:], clusters, held=gaps, chance=cell.chance
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


def _needs(cell: MemoryCell, evidence: Evidence, gates: Sequence[Gate]) -> tuple[str, ...]:
    unfit = set()
    for g in gates:
        if g.status == Status.FAIL:
            unfit.add(g.name)
    names = [reference.model for reference, _ in cell.references]
    missing = {
        "held_out": cell.fresh is None,
        "able_references" if evidence.left_out else "references": len(cell.references)
        == len(evidence.left_out),
        # Their spread would be the interval, and one family understates it: it held the score of 48
        # to 68 % of models.
        "other_families": bool(one_family(cell.model, names, cell.families)),
        "parsed": any(g.name == "parseability" for g in failed(gates)),
        **{name: name in unfit for name in ("same_kind", "fresh_drawn", *LOG_GATES)},
    }
    codes = []
    for code, lacking in missing.items():
        if lacking:
            codes.append(code)
    return tuple(codes)


ON_PAGE = 10


@dataclass(frozen=True)
class Ranked:
    """One answered item.

    chance: of a right answer without memory, at the upper limit of ability. right: how many
    references answered it right. text: see `FromMemory`. An item with several answers counts as its
    majority.
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
    """Return the answered items of a cell, the likeliest from memory first.

    Parameters
    ----------
    cell : MemoryCell
        The answers.
    result : MemoryResult
        The score without memory.
    questions : mapping
        Items by (benchmark, id).

    Returns
    -------
    list of Ranked
        Empty if the score without memory is not identified.
    """
    items = result.without.items
    if items is None:
        return []
    kept = []
    for model, _ in cell.references:
        if model.model not in result.evidence.left_out:
            kept.append(model)
    rows = []
    for i in items.order:
        id_ = cell.published.question_ids[i]
        scores = [float(model.score[i]) for model in kept]
        # NaN is left out.
        answers = []
        for score in scores:
            if score == score:
                answers.append(score)
        rows.append(
            Ranked(
                model=cell.model,
                question_id=id_,
                stem=next(iter(questions[cell.benchmark, id_].text.splitlines()), ""),
                answered="right" if cell.tested[0].score[i] > 0.5 else "wrong",
                chance=finite(items.chance[i]),
                right=f"{sum(x > 0.5 for x in answers)} of {len(answers)}",
                text=None if items.text is None else finite(items.text[i]),
                pvalue=finite(items.pvalue[i]),
                qvalue=finite(items.qvalue[i]),
                named=bool(items.named[i]),
            )
        )
    return rows


def ranked_csv(rows: list[Ranked]) -> str:
    """Return a table with one line for each answered item of the benchmark."""
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
