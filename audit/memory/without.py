"""The number people came for: the score without memory of one cell, what it rests on, and the items from memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit.errors import DataError
from audit.memory.evidence import Evidence, likelihoods
from audit.memory.record import MemoryCell
from audit.memory.texts import TEXTS
from audit.memory.vocabulary import MemoryResult
from audit.records import Item
from audit.statistics.between_models import one_family
from audit.statistics.chance import Limits
from audit.statistics.set_difference import Sets
from audit.statistics.unparsed import DECIDE_AT
from audit.statistics.without_memory import FromMemory, WithoutMemory, from_memory, score_of, without_memory
from audit.verdict.result import Gate, Reason, Status, because, failed, finite, sentence
from audit.verdict.tables import columns
from audit.verdict.vocabulary import LOG_GATES


@dataclass(frozen=True)
class ScoreWithout:
    """found: None where it is not identified; needs then has codes of what is missing. items: of the published set."""

    said: Reason
    score: Limits | None
    found: WithoutMemory | None = None
    items: FromMemory | None = None
    needs: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        return sentence(self.said, TEXTS)


def score_without(cell: MemoryCell, evidence: Evidence, gates: Sequence[Gate]) -> ScoreWithout:
    """Estimate, conditions and items of one cell; without held-out items and references it is not identified."""
    published, held_out = cell.tested
    score = score_of(published.score, cell.published.cluster)
    needs, refused = _needs(cell, evidence, gates), ""
    if not needs and cell.fresh is not None and held_out is not None:
        kept = [(a, b) for a, b in cell.references if b is not None and a.model not in evidence.left_out]
        models = [(published, held_out), *kept]
        scores: list[Sets] = [(a.score, b.score) for a, b in models]
        try:
            clusters = cell.published.cluster, cell.fresh.cluster
            # with unparsed answers held for and against the gap, at the odds ratio of decisions
            gaps = [(0.0, one.low, one.high) for one in evidence.held if one.gamma == DECIDE_AT]
            # and with another rate of lucky answers on held-out items, for a model that no reference brackets
            (_, low, high), (less, more) = evidence.limits(), evidence.unbracketed
            gaps += [(0.0, low - more, high - less)] if more else []
            found = without_memory(scores[0], scores[1:], clusters, held=gaps, chance=cell.chance)
            items = from_memory(scores[0], scores[1:], likelihoods(cell, models, "item"))
        except DataError as error:
            needs, refused = ("more_answers",), str(error)
        else:
            code = "without_at_most" if found.at_most else "without"
            numbers = {"references": found.references, "theirs": found.theirs}
            said = because(code, score=found.score, without=found.without, **numbers)
            return ScoreWithout(said, found.score, found, items)
    counts = all(one.passed for one in cell.log_checks if one.name == "counts_right")
    about = {"partial": cell.partial, "measure": not counts}
    return ScoreWithout(because("not_identified", score=score, needs=needs, error=refused, **about), score, needs=needs)


def _needs(cell: MemoryCell, evidence: Evidence, gates: Sequence[Gate]) -> tuple[str, ...]:
    unfit = {g.name for g in gates if g.status == Status.FAIL}
    names = [one.model for one, _ in cell.references]
    missing = {
        "held_out": cell.fresh is None,
        "able_references" if evidence.left_out else "references": len(cell.references) == len(evidence.left_out),
        # How they differ among themselves would be the interval: it held the score of 48 to 68 % of such models.
        "other_families": bool(one_family(cell.model, names, cell.families)),
        "parsed": any(g.name == "parseability" for g in failed(gates)),
        **{name: name in unfit for name in ("same_kind", "fresh_drawn", *LOG_GATES)},
    }
    return tuple(code for code, lacking in missing.items() if lacking)


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


def ranked(cell: MemoryCell, result: MemoryResult, questions: Mapping[tuple[str, str], Item]) -> list[Ranked]:
    """The likeliest from memory first; none where the score without memory is not identified."""
    if (found := result.without.items) is None:
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
    return columns(
        rows, "model", "question_id", "answered", "chance_without_memory=chance", "references_right=right",
        "text_likelier_sd=text", "p=pvalue", "q=qvalue", "named",
    )  # fmt: skip
