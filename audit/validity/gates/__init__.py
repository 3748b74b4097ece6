"""G1 to G6 of li2026 as code, with ours beside them: each says what it found, against which threshold, on which items.

A gate is pure: the cell and its evidence in, a `Gate` out. `withholds` marks those whose failure stops a status; the
rest are printed. G6 stands in `audit.validity.faults`, as it needs the others.
"""

from collections.abc import Callable, Sequence

from audit.validity.evidence import CellEvidence
from audit.validity.gates import edits, pairing, scorer
from audit.validity.record import ValidityCell
from audit.validity.thresholds import ValidityThresholds
from audit.verdict.result import Gate

__all__ = ["CHECKS", "Check", "all_gates", "named"]

Check = Callable[[ValidityCell, CellEvidence, ValidityThresholds], Gate]
CHECKS: tuple[Check, ...] = (
    edits.edits_reach_scorer, edits.enough_edits, edits.answers_readable, scorer.scorer_valid, scorer.key_position,
    scorer.label_values, scorer.exact_values, edits.above_baseline, edits.denominator, pairing.pairing,
    pairing.agreement, edits.archetype, edits.direction, edits.isolation, edits.replays, pairing.context,
)  # fmt: skip


def all_gates(cell: ValidityCell, e: CellEvidence, t: ValidityThresholds) -> tuple[Gate, ...]:
    """Every gate but G6, in the paper's order."""
    return tuple(check(cell, e, t) for check in CHECKS)


def named(gates: Sequence[Gate], name: str) -> Gate | None:
    return next((g for g in gates if g.name == name), None)
