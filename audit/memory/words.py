"""The plain sentences: a headline, and what the instrument cannot exclude. No verdict here clears a model."""

from __future__ import annotations

from audit.memory.decide import found, unexplained
from audit.memory.evidence import Evidence, Name, contaminated
from audit.memory.record import MemoryCell
from audit.memory.result import Decision, MemoryVerdict
from audit.memory.thresholds import MemoryThresholds
from audit.memory.vocabulary import GATES, INDICATORS
from audit.verdict.result import points


def headline(
    cell: MemoryCell, decision: Decision, evidence: Evidence, failing: tuple[str, ...], thresholds: MemoryThresholds
) -> str:
    """One sentence. failing: names of the gates that withhold the verdict."""
    model, benchmark, verdict = cell.model, cell.benchmark, decision.verdict
    if verdict == MemoryVerdict.WITHHELD:
        because = ", and ".join(GATES[name].because if name in GATES else name for name in failing)
        return f"No verdict on memory of {benchmark} in {model}: {because or 'no indicator could be judged'}."
    seen = found(evidence.indicators, thresholds.alpha)
    if verdict == MemoryVerdict.MEMORY_OF_TEXT:
        what = " and ".join(INDICATORS[one.name].title.lower() for one in seen if one.name != Name.GAP)
        gap = " Its score is higher than on held-out items, too." if Name.GAP in {o.name for o in seen} else ""
        return (
            f"{model} shows memory of the text of {benchmark} ({what}), as it would if it had read it, or a copy of it."
            f"{gap}"
        )
    if verdict == MemoryVerdict.GAP_TO_FRESH:
        g = evidence.gap
        assert g is not None  # noqa: S101 - nothing else makes this verdict
        return (
            f"{model} scores {g.published:.0%} on {benchmark} and {g.fresh:.0%} on held-out items, "
            f"{points(g.did.difference)} more of a gap than the reference models have: part of its score does not "
            "carry over."
        )
    if verdict == MemoryVerdict.CAUSE_UNKNOWN:
        open_ = unexplained(evidence.indicators, thresholds.alpha)
        what = " and ".join(INDICATORS[one.name].title.lower() for one in open_)
        return f"{benchmark} stands out for {model} ({what}), cause unknown: {open_[0].doubt}."
    if verdict == MemoryVerdict.UNDERPOWERED:
        if not any(one.judged for one in evidence.indicators):
            return f"It cannot be told whether {model} remembers {benchmark}: none of the six tests could be judged."
        return (
            f"It cannot be told whether {model} remembers {benchmark}. By {_looked(evidence)} nothing was seen, and "
            "the other tests did not run or could have missed it."
        )
    return (
        f"This instrument sees no memory of {benchmark} in {model}, by {_looked(evidence)}; what it cannot see is "
        "listed below, and the model is not cleared of it."
    )


def cannot_exclude(cell: MemoryCell, evidence: Evidence, alpha: float = 0.05) -> tuple[str, ...]:
    """What stays open whatever the verdict, and what stays open because a control was not run."""
    out = []
    judged = {one.name for one in evidence.indicators if one.judged}
    if Name.GAP not in judged:
        out.append(
            "that questions and answers were learnt (as in fine-tuning): only the score on held-out items shows it"
        )
    if Name.ORDER not in judged:
        out.append("that the benchmark was read in its published order: the order test was not judged")
    if not judged & {Name.ITEM, Name.HALF, Name.WRONG}:
        out.append("that single items were read: their text was not compared with held-out items and references")
    out += [
        "that the text was read in another layout than this one (question, lettered options)",
        "that the benchmark was read once among much else, which leaves little trace in a likelihood",
        "that rewordings or translations of the items were learnt",
    ]
    if cell.references:
        out.append("that the reference models have read the benchmark as well, which hides memory in this one")
        if len(cell.references) == 1:
            out.append("that models differ in how well they suit two sets of items: one reference cannot show it")
    if cell.fresh is not None:
        out.append("that the held-out items differ from the benchmark's in more than the references see")
    out += [
        f"that {one.model}, a reference, has learnt the benchmark: its own gap is {points(one.difference)} beyond the "
        "others'"
        for one in contaminated(evidence, alpha)
    ]
    return tuple(out)


def _looked(evidence: Evidence) -> str:
    names = [INDICATORS[one.name].title.lower() for one in evidence.indicators if one.judged]
    if not names:
        return "what could be looked at"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
