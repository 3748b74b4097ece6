"""The words of verdicts and gates, and the row of the table of instruments."""

from collections.abc import Mapping
from typing import Any

from audit.verdict.instrument import Indicator, Instrument, Measured
from audit.verdict.vocabulary import GateWord, Outcome, VerdictWord
from shouting.result import Verdict

VERDICTS = {
    Verdict.WITHHELD: VerdictWord("Withheld", "✖", "X", "A check failed.", Outcome.NO_DECISION),
    Verdict.MATTERS: VerdictWord("Shouting matters", "▲", "^", "Shouted questions are missed.", Outcome.FOUND),
    Verdict.UNDERPOWERED: VerdictWord("Not enough data", "✚", "P", "It cannot be told.", Outcome.NO_DECISION),
    Verdict.NOTHING: VerdictWord("No harm found", "●", "o", "Shouted questions fare no worse.", Outcome.NOTHING_SEEN),
}
GATES = {"parseability": GateWord("Readable answers", "too many answers could not be read")}


def measured(cell: Mapping[str, Any]) -> Measured:
    e = cell["evidence"]
    return Measured("cost of shouting", e["cost"], e["low"], e["high"], None)


def tracked(cell: Mapping[str, Any]) -> tuple[Indicator, ...]:
    e = cell["evidence"]
    return Indicator("score", e["accuracy"]), Indicator("cost", e["cost"], e["low"], e["high"])


INSTRUMENT = Instrument("shouting", "the shouting audit", frozenset({"format"}), measured, tracked)
