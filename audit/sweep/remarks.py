"""What is said beside the reasons for a verdict, as codes: its headline, how far it stands, what was not run."""

from collections.abc import Sequence

import numpy as np

from audit.statistics.paired import CellOutcomes
from audit.statistics.run_variance import RunShifts
from audit.statistics.unparsed import DECIDE_AT
from audit.statistics.values import levels_of, replicates_of
from audit.sweep.design import Arm
from audit.sweep.evidence import Evidence
from audit.sweep.result import Contrast, Decision, Verdict
from audit.sweep.vocabulary import GATES
from audit.verdict.result import Reason, because


def headline(model: str, benchmark: str, decision: Decision, e: Evidence | None, failing: Sequence[str]) -> Reason:
    """Who, on what, and what was found. failing: names of the gates that withhold the verdict."""
    if decision.verdict == Verdict.WITHHELD or e is None:
        why = [GATES[name].because if name in GATES else name for name in failing]
        code = "headline_withheld" if why else "headline_not_comparable"
        return because(code, model=model, benchmark=benchmark, why=why)
    c, about = e.clean, decision.reasons[0 if decision.verdict == Verdict.NO_EXCESS else -1]
    shown = [k for k, r in enumerate(c.routers) if r in decision.routers] or [c.best]
    best = max(shown, key=lambda k: c.gain[k])  # of those that passed every comparison
    return because(
        f"headline_{decision.verdict}", model=model, benchmark=benchmark, about=about.code, routers=c.routers[best],
        gain=float(c.gain[best]), low=float(c.low[best]), loss=-c.mean.estimate, limit=e.largest_compatible,
        score=e.clean_accuracy if e.direct_accuracy is None else e.direct_accuracy,
    )  # fmt: skip


def held_out(contrasts: Sequence[Contrast]) -> tuple[Reason, ...]:
    """What the control benchmark says of a gain, where one was run."""
    scales = [c for c in contrasts if c.name.startswith("difference_in_differences") and c.ci_low is not None]
    points = next((c for c in scales if c.name == "difference_in_differences"), None)
    if points is None:
        return ()
    above = [c.name for c in scales if c.ci_low is not None and c.ci_low > 0]
    on = "every_scale" if len(above) == len(scales) else "one_scale" if points.name in above else "no_scale"
    return (because(f"larger_on_{on}", gain=points.estimate, low=points.ci_low, high=points.ci_high),)


def run_shifts(found: RunShifts, *, repeated: bool) -> tuple[Reason, ...]:
    """What was reckoned with for the difference between whole runs. repeated: whether the noisy arm was."""
    measured = dict(zip(("noisy", "clean"), (found.noisy, found.controls), strict=True))
    used = dict(zip(measured, found.used, strict=True))
    tested = dict(zip(measured, found.tested(repeated=repeated), strict=True))
    out = [
        because("shift", side=side, sd=used[side] ** 0.5, estimate=v.estimate**0.5, df=v.df, capped=v.capped)
        for side, v in measured.items()
    ]
    if sides := [side for side in measured if tested[side] != used[side]]:
        out.append(because("shift_tested", sides=sides, sd=found.plausible_sd))
    return tuple(out)


def unparsed(e: Evidence | None, gamma: float | None) -> tuple[Reason, ...]:
    """How far the verdict stands whatever the unparsed answers would have been."""
    if e is None or e.worst_case is None:
        return ()
    worst = because("worst_case", gain=e.worst_case)
    if gamma is None:
        return (worst,)
    if np.isinf(gamma):
        return because("stands_at_worst", odds_ratio=DECIDE_AT), worst
    return because("stands_up_to", odds_ratio=DECIDE_AT, up_to=gamma), worst


def stopped_early(e: Evidence, n: int) -> tuple[Reason, ...]:
    """How a run that may have stopped early was decided."""
    value, controls = float(np.exp(e.plain.log_e(e.clean.routers).max())), e.shifts.controls
    how = because("stopped_early", n=n, e_value=value)
    return (how, because("repeats_shift", sd=controls.estimate**0.5)) if controls.df else (how,)


def not_run(cell: CellOutcomes, *, referred: bool) -> list[Reason]:
    """The controls that were not run: `audit.sweep.texts` has for each what cannot be excluded without it. referred:
    whether another model answered from the same messages."""
    noisy = levels_of(cell, Arm.NOISY_REWRITE)
    ensemble = set(levels_of(cell, Arm.FORWARD_FULL)) - {1}
    absent = [r for r in noisy if r > 1 and r not in ensemble]
    clean = len(replicates_of(cell, Arm.FORWARD_FULL, 1))
    repeated = any(len(replicates_of(cell, Arm.NOISY_REWRITE, r)) > 1 for r in noisy)
    found = (
        (not replicates_of(cell, Arm.DIRECT, 0), because("direct")),
        (absent, because("ensemble_at", routers=absent) if ensemble else because("ensemble")),
        (clean < 2, because("clean_replicates", runs=clean)),
        (noisy and not repeated, because("noisy_replicates")),
        (noisy and not referred, because("hint_reference")),
    )
    return [one for lacks, one in found if lacks]
