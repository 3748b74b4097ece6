"""The gates: can this measurement carry a verdict at all? Each is a function of one cell's outcomes or texts.

A gate that fails says so with its number, its threshold, the questions behind it and what to do. `withholds` tells
whether a failure alone withholds the verdict; `enough_data` and `answer_leak` do not: see `decide`.
"""

from audit.statistics.paired import CellOutcomes
from audit.sweep.gates.agreement import pairing
from audit.sweep.gates.messages import answer_leak, clean_fidelity, manipulation_reached_worker
from audit.sweep.gates.outcomes import above_chance, enough_data, exact_values, noise_floor, noise_floor_p, parseability
from audit.sweep.messages import TextMeasures
from audit.sweep.size import needed, repeated
from audit.sweep.thresholds import SweepThresholds
from audit.verdict.result import Gate

__all__ = ["all_gates", "noise_floor_p"]


def all_gates(
    cell: CellOutcomes,
    texts: TextMeasures | None,
    thresholds: SweepThresholds,
    largest_compatible: float | None,
    noise_floor_adjusted: float | None = None,
    tests: int = 1,
) -> tuple[Gate, ...]:
    """Every gate, in the order in which the report lists them. texts is None when only outcomes are at hand;
    noise_floor_adjusted: `noise_floor_p` corrected over the panel. tests: of the panel, one a cell and router count."""
    return (
        parseability(cell, thresholds),
        above_chance(cell, thresholds),
        pairing(cell, texts, thresholds),
        noise_floor(cell, thresholds, noise_floor_adjusted),
        exact_values(cell),
        clean_fidelity(cell, texts, thresholds),
        manipulation_reached_worker(texts, thresholds),
        answer_leak(texts, thresholds, bool(cell.n_options.any())),
        enough_data(largest_compatible, thresholds, cell.n, needed(thresholds, tests), repeated(cell.settings)),
    )
