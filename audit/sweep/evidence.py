"""The statistics that a verdict rests on, for one cell. The analysis and the calibration both call `measure`.

Noisy is compared with each control over all r at once: the clean baseline, `direct` (the original question) and the
ensemble control at the same r. Each comparison gives a p per r, and one family-wise p and step-down adjusted p per r
for that control alone (max-statistic permutation). All three are made under one reading of the replies after another,
the same for every arm: as read, without leaked questions, and with unread replies held against an excess, or for a
gain. Replicates of a setting are all used, by estimates, intervals and tests; what runs vary by beyond their questions
is in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from audit.errors import DataError
from audit.statistics.chance import chance_level
from audit.statistics.eprocess import adjusted, at_any_stop
from audit.statistics.multiplicity import holm
from audit.statistics.paired import UNANSWERED, BoolArray, CellOutcomes, FloatArray
from audit.statistics.power import discordance_of
from audit.statistics.run_variance import ASSUMED_ZERO, RunVariance
from audit.statistics.values import Unparsed, average, levels_of, replicates_of, runs_of
from audit.sweep.compare import Comparison, compare, compare_at_any_stop
from audit.sweep.design import Arm


@dataclass(frozen=True)
class Reading:
    """Noisy against each control under one reading of the replies.

    None for a control that was not run, or where nothing is left to compare.
    """

    clean: Comparison | None
    direct: Comparison | None
    ensemble: Comparison | None

    def comparisons(self) -> tuple[Comparison, ...]:
        """Those that were made."""
        return tuple(c for c in (self.clean, self.direct, self.ensemble) if c is not None)

    def adjusted(self, routers: tuple[int, ...], *, ensemble: bool = True) -> FloatArray:
        """(R,) p of "noisy beats every control at this r": the largest p over the controls (an intersection-union test;
        Berger 1982, Technometrics 24), and only then Holm over r. The other way round each control would spend alpha on
        r of its own, where another one binds at each r. A control that was not run at an r asks nothing there; NaN
        where clean could not be compared. ensemble=False leaves the ensemble control out."""
        if self.clean is None:
            return np.full(len(routers), np.nan)
        used = [c for c in self.comparisons() if ensemble or c is not self.ensemble]
        if self.clean.log_e is not None:  # of e-values the smallest over controls, and only then over r
            return at_any_stop(self.log_e(routers, ensemble=ensemble))
        return holm(reduce(np.fmax, [_at(c, c.pvalues, routers) for c in used]))

    def log_e(self, routers: tuple[int, ...], *, ensemble: bool = True) -> FloatArray:
        """(R,) adjusted log e-values of the same, in a run that may have stopped early."""
        used = [c for c in self.comparisons() if ensemble or c is not self.ensemble]
        smallest = reduce(np.fmin, [_at(c, c.log_e, routers) for c in used if c.log_e is not None])
        return adjusted(np.nan_to_num(smallest, nan=-np.inf))


@dataclass(frozen=True)
class Evidence:
    """Everything that `decide` looks at, apart from the gates. Accuracies are 0-1.

    plain: as read. without_leak: each r without the questions of which a noisy message at that r states the answer;
    None without leaks. adverse: the same, and every reply that could not be read, or never came, held against an excess
    (noisy ones wrong, those of every control right); None when all were read. favourable: as read, with such replies
    held for a gain; None when all were read. ensemble_gain: the ensemble control against clean, for what repetition
    alone gains.
    run_variance: what entered every test and interval; estimated but left out where `at_any_stop`.
    """

    plain: Reading
    without_leak: Reading | None
    adverse: Reading | None
    favourable: Reading | None
    ensemble_gain: Comparison | None
    run_variance: RunVariance
    clean_accuracy: float
    direct_accuracy: float | None
    chance: float
    discordance: float

    @property
    def clean(self) -> Comparison:
        """Noisy against the clean baseline, as read."""
        assert self.plain.clean is not None  # noqa: S101 - `measure` raises where it could not be made
        return self.plain.clean

    @property
    def p_value(self) -> float:
        """The cell's p of an excess: the smallest over r of `Reading.adjusted` (as read)."""
        return float(np.nanmin(self.plain.adjusted(self.clean.routers)))

    @property
    def largest_compatible(self) -> float:
        """The upper limit of the gain over clean, unread replies held for a gain where there are any."""
        held = self.favourable.clean if self.favourable else None
        return max(c.largest_compatible for c in (self.clean, held) if c is not None)

    @property
    def at_any_stop(self) -> bool:
        """Whether p-values and limits hold although the data decided how many questions were asked."""
        return self.clean.log_e is not None

    def controlled(self, routers: int) -> bool:
        """Whether both `direct` and the ensemble control were run for this r (r=1 is its own ensemble control)."""
        ensemble = self.plain.ensemble
        return self.plain.direct is not None and (
            routers == 1 or (ensemble is not None and routers in ensemble.routers)
        )


def measure(
    cell: CellOutcomes,
    *,
    rng: np.random.Generator,
    n_resamples: int,
    n_permutations: int | None = None,
    without_leak: BoolArray | None = None,
    run_variance: RunVariance = ASSUMED_ZERO,
    intervals: bool = True,
    largest_cluster: int | None = None,
) -> Evidence:
    """All comparisons of one cell.

    largest_cluster: of a run that may have been stopped early, the questions of the largest cluster of its whole sample
    (1 without clusters): every comparison is then one that holds at any stop. None for a fixed number of questions.

    n_permutations: of every test; n_resamples where None. without_leak: (R, n) for each router count, true for
    questions without an answer leak. run_variance: as estimated over the panel. intervals=False skips every bootstrap
    (their limits are then NaN).
    Raises DataError when the clean or the noisy arm was not run or shares no answered question.
    """
    routers = levels_of(cell, Arm.NOISY_REWRITE)
    shared = tuple(r for r in routers if replicates_of(cell, Arm.FORWARD_FULL, r))
    has_direct = bool(replicates_of(cell, Arm.DIRECT, 0))

    def against(runs: FloatArray, other: FloatArray, at: tuple[int, ...]) -> Comparison | None:
        if not np.any(~np.isnan(average(runs) - average(other))):
            return None
        if largest_cluster is not None:
            return compare_at_any_stop(runs, other, at, cell.cluster, largest_cluster)
        return compare(
            runs,
            other,
            at,
            cell.cluster,
            rng=rng,
            n_resamples=n_resamples,
            n_permutations=n_permutations,
            intervals=intervals,
            run_variance=run_variance,
        )

    def reading(keep: BoolArray | None, noisy_unread: Unparsed, unread: Unparsed) -> Reading:
        noisy = runs_of(cell, Arm.NOISY_REWRITE, routers, noisy_unread)
        noisy = noisy if keep is None else np.where(keep, noisy, np.nan)
        direct = ensemble = None
        if has_direct:
            direct = against(noisy, runs_of(cell, Arm.DIRECT, (0,), unread), routers)
        if any(r > 1 for r in shared):
            control = runs_of(cell, Arm.FORWARD_FULL, shared, unread)
            ensemble = against(noisy[:, [routers.index(r) for r in shared]], control, shared)
        return Reading(against(noisy, runs_of(cell, Arm.FORWARD_FULL, (1,), unread), routers), direct, ensemble)

    plain = reading(None, "left_out", "left_out")
    if plain.clean is None:
        raise DataError("Not one question has an answer in both arms: nothing can be compared.")
    leaks = without_leak is not None and not np.all(without_leak)
    unread = bool(np.isin(cell.state, UNANSWERED).any())
    more = tuple(r for r in shared if r > 1)
    base = runs_of(cell, Arm.FORWARD_FULL, (1,))
    original = runs_of(cell, Arm.DIRECT, (0,)) if has_direct else np.full((1, 1, cell.n), np.nan)
    clean_values = average(base)[0]
    return Evidence(
        plain=plain,
        without_leak=reading(without_leak, "left_out", "left_out") if leaks else None,
        adverse=reading(without_leak, "wrong", "right") if unread else None,
        favourable=reading(None, "right", "wrong") if unread else None,
        ensemble_gain=against(runs_of(cell, Arm.FORWARD_FULL, more), base, more) if more else None,
        run_variance=run_variance,
        clean_accuracy=float(np.nanmean(clean_values)),
        direct_accuracy=float(np.nanmean(original)) if np.any(~np.isnan(original)) else None,
        chance=chance_level(cell.n_options),
        discordance=discordance_of(clean_values, average(runs_of(cell, Arm.NOISY_REWRITE, routers))),
    )


def _at(c: Comparison, values: FloatArray, routers: tuple[int, ...]) -> FloatArray:
    """Values (of c.routers) at these router counts, NaN where the comparison was not made."""
    there = dict(zip(c.routers, values, strict=True))
    return np.array([there.get(r, np.nan) for r in routers])
