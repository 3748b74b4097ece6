"""G1 to G6 of li2026 as code, with ours beside them: each says what it found, against which threshold, on which items.

A gate is pure: the cell and its evidence in, a `Gate` out. `withholds` marks those whose failure stops a status; the
rest are printed. G6 stands in `audit.validity.faults`, as it needs the others.
"""

from collections.abc import Callable, Sequence

from audit.validity.evidence import CellEvidence
from audit.validity.gates.archetype import above_baseline, archetype, denominator, direction, isolation, replays
from audit.validity.gates.edits import answers_readable, edits_reach_scorer, enough_edits
from audit.validity.gates.pairing import agreement, context, pairing
from audit.validity.gates.scorer import exact_values, key_position, label_values, scorer_valid
from audit.validity.record import ValidityCell
from audit.validity.thresholds import ValidityThresholds
from audit.verdict.result import Gate

__all__ = ["CHECKS", "Check", "all_gates", "named"]

Check = Callable[[ValidityCell, CellEvidence, ValidityThresholds], Gate]
CHECKS: tuple[Check, ...] = (
    edits_reach_scorer, enough_edits, answers_readable, scorer_valid, key_position, label_values, exact_values,
    above_baseline, denominator, pairing, agreement, archetype, direction, isolation, replays, context,
)  # fmt: skip


def all_gates(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> tuple[Gate, ...]:
    """Every gate but G6, in the paper's order."""
    return tuple(check(cell, e, t) for check in CHECKS)


def named(gates: Sequence[Gate], name: str) -> Gate | None:
    return next((g for g in gates if g.name == name), None)
