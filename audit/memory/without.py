"""The number people came for: the score without memory of one cell, what it rests on, and the items from memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.errors import DataError
from audit.memory.evidence import Evidence
from audit.memory.record import MemoryCell
from audit.statistics.from_memory import FromMemory, from_memory
from audit.statistics.set_difference import Sets
from audit.statistics.unparsed import DECIDE_AT
from audit.statistics.without_memory import Gap, Limits, WithoutMemory, score_of, without_memory
from audit.verdict.gates import failed
from audit.verdict.result import Gate, Status

HOLDS_IF = "the held-out items are no newer than the model, and neither it nor its family wrote them"
CONDITIONS = (
    f"{HOLDS_IF[0].upper()}{HOLDS_IF[1:]}. Where they suit this model better or worse than they suit the references, "
    "the number is off by as much.",
    "The references have not learnt the benchmark, or no more than each other. What they have learnt is left in the "
    "number.",
    "The two sets differ for every model by as many points, or by as many logits: the interval is the hull of both.",
    "Training on items of the benchmark's kind counts as memory as far as it does not carry over to held-out items.",
    "For the share and the items: what was learnt is not chosen by its difficulty beyond what the references see.",
)


@dataclass(frozen=True)
class ScoreWithout:
    """found: None where it is not identified; needs then says what is missing. items: of the published set."""

    sentence: str
    score: Limits | None
    found: WithoutMemory | None = None
    items: FromMemory | None = None
    needs: str = ""


def score_without(cell: MemoryCell, evidence: Evidence, gates: Sequence[Gate]) -> ScoreWithout:
    """Estimate, conditions and items of one cell; without held-out items and references it is not identified."""
    published, held_out = cell.tested
    score = score_of(published.score, cell.published.cluster)
    needs = _needs(cell, evidence, gates)
    if not needs and cell.fresh is not None and held_out is not None:
        kept = [(a, b) for a, b in cell.references if b is not None and a.model not in evidence.left_out]
        models = [(published, held_out), *kept]
        scores: list[Sets] = [(a.score, b.score) for a, b in models]
        texts: list[Sets] = [(a.texts["item"], b.texts["item"]) for a, b in models]
        try:
            clusters = cell.published.cluster, cell.fresh.cluster
            found = without_memory(scores[0], scores[1:], clusters, held=_held(evidence))
            items = from_memory(scores[0], scores[1:], texts)
        except DataError as error:
            needs = f"more answers ({error})"
        else:
            return ScoreWithout(_sentence(found), found.score, found, items)
    shown = "not measured" if score is None else _range(score)
    return ScoreWithout(f"Score {shown}. Without memory: not identified, it needs {needs}.", score, needs=needs)


def _needs(cell: MemoryCell, evidence: Evidence, gates: Sequence[Gate]) -> str:
    """What is missing, "" where nothing is."""
    missing = []
    if cell.fresh is None:
        missing.append("held-out items (control_benchmark=)")
    if len(cell.references) == len(evidence.left_out):
        missing.append("references above chance ('references=[..]')" if evidence.left_out else "references")
    unread = [g.name for g in failed(gates) if g.name == "parseability"]
    unlike = [g.name for g in gates if g.name == "same_kind" and g.status == Status.FAIL]
    missing += ["answers that can be parsed"] * bool(unread) + ["held-out items of the benchmark's kind"] * bool(unlike)
    return " and ".join(missing)


def _held(evidence: Evidence) -> list[Gap]:
    """The gap with unparsed answers held for and against it, at the odds ratio of decisions."""
    return [(0.0, one.low, one.high) for one in evidence.held if one.gamma == DECIDE_AT]


def _sentence(found: WithoutMemory) -> str:
    plural = "s" if found.references != 1 else ""
    return (
        f"Score {_range(found.score)}. Without memory: {_range(found.without)} ({found.references} reference{plural}). "
        f"Holds if {HOLDS_IF}."
    )


def _range(one: Limits) -> str:
    return f"{_two(one.estimate)} [{_two(one.low)}, {_two(one.high)}]"


def _two(value: float) -> str:
    return f"{value:.2f}".removeprefix("0") if value < 0.995 else "1.00"
