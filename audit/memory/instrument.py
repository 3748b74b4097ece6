"""The memory audit as a row of the table of instruments."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from audit.memory.decide import found, unexplained
from audit.memory.evidence import Indicator as Evidence
from audit.memory.evidence import Name
from audit.memory.vocabulary import VERDICTS
from audit.verdict.instrument import Indicator, Instrument, Measured
from audit.verdict.vocabulary import Outcome, word_of

_FIELDS = tuple(one.name for one in fields(Evidence))


def measured(cell: Mapping[str, Any]) -> Measured:
    """The gap to held-out items beyond the references', where it was compared; false positives of either finding."""
    gap = cell["evidence"]["gap"] or {}
    did = gap.get("did", {})
    interval = gap.get("predicted") or did
    alarms = (cell["calibration"] or {}).get("rates", {}).get("clean")
    what = "gap to held-out items, beyond the references'"
    return Measured(what, did.get("difference"), interval.get("low"), interval.get("high"), alarms)


def tracked(cell: Mapping[str, Any]) -> tuple[Indicator, ...]:
    """Of a cell of verdict.json. fresh_gap: published less fresh score, beyond the references' where there are some."""
    gap = (cell["evidence"]["gap"] or {}).get("did", {})
    against = tuple(sorted(cell["references"]))
    return (
        Indicator("score", cell["score"]),
        Indicator("fresh_gap", gap.get("difference"), gap.get("low"), gap.get("high"), against),
    )


def by_kind(cell: Mapping[str, Any], alpha: float) -> dict[str, Outcome]:
    """Of a cell in which something was found: learnt answers by the gap, text that was read by the other indicators.

    Text that was judged and does not stand out is not seen; only the verdict says of a gap that the data refute it.
    Empty where no indicator tells which kind it is: then the verdict is of both.
    """
    if word_of(VERDICTS, cell).outcome not in (Outcome.FOUND, Outcome.CAUSE_UNKNOWN):
        return {}
    known = [Evidence(**{name: one[name] for name in _FIELDS}) for one in cell.get("indicators", ())]
    told = {}
    for kind in ("answers", "text"):
        own = [one for one in known if (one.name == Name.GAP) == (kind == "answers")]
        if found(own, alpha):
            told[kind] = Outcome.FOUND
        elif unexplained(own, alpha):
            told[kind] = Outcome.CAUSE_UNKNOWN
    if not told:
        return {}
    judged = any(one.judged for one in known if one.name != Name.GAP)
    return {"answers": Outcome.NO_DECISION, "text": Outcome.NOTHING_SEEN if judged else Outcome.NO_DECISION} | told


INSTRUMENT = Instrument(
    "memory", "the memory audit", frozenset({"answers", "text"}), measured, tracked, by_kind=by_kind
)
