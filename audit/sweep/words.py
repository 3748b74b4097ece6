"""The plain sentences: a headline that a procurement officer understands, and what was not run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit.statistics.paired import CellOutcomes
from audit.statistics.run_variance import RunShifts, RunVariance
from audit.statistics.unparsed import DECIDE_AT
from audit.statistics.values import replicates_of
from audit.sweep.design import Arm
from audit.sweep.evidence import Evidence
from audit.sweep.result import Contrast, Decision, Verdict
from audit.sweep.vocabulary import GATES
from audit.verdict.result import points

# What this instrument cannot see, in every headline that finds nothing: measured (docs/calibration.md).
BLIND = "Memory that helps intact and damaged questions alike, such as an exam learnt by heart, would not be seen."


def headline(
    model: str, benchmark: str, decision: Decision, evidence: Evidence | None, failing: tuple[str, ...]
) -> str:
    """One sentence. failing: names of the gates that withhold the verdict."""
    if decision.verdict == Verdict.WITHHELD or evidence is None:
        because = (
            ", and ".join(GATES[name].because if name in GATES else name for name in failing)
            or "the comparison could not be made"
        )
        return f"No verdict on {model} and {benchmark}: {because}."
    score = evidence.clean_accuracy if evidence.direct_accuracy is None else evidence.direct_accuracy
    limit = evidence.largest_compatible
    shown = [k for k, r in enumerate(evidence.clean.routers) if r in decision.routers] or [evidence.clean.best]
    best = max(shown, key=lambda k: evidence.clean.gain[k])  # of those that passed every comparison
    gain, r, low = evidence.clean.gain[best], evidence.clean.routers[best], evidence.clean.low[best]
    higher = (
        f"{model} scores {points(gain)} higher on {benchmark} (95 %: at least {points(low)}) when its questions are "
        f"damaged (with {r} {'router' if r == 1 else 'routers'}) than when they are intact"
    )
    if decision.verdict == Verdict.EXCESS:
        return (
            f"{higher}, more than chance, the original question and repetition explain: its score of {score:.0%} may "
            f"be partly memory.{_compatible(limit)}"
        )
    if decision.verdict == Verdict.UNCONTROLLED:
        return f"{higher}, but {decision.doubt}: run the controls before anything is read into it.{_compatible(limit)}"
    if decision.verdict == Verdict.EXCESS_EXPLAINED:
        return (
            f"{model} gains up to {points(gain)} on {benchmark} from reading several messages, and about as much from "
            f"as many intact ones: repetition explains it.{_compatible(limit)}"
        )
    if decision.verdict == Verdict.BRITTLE:
        return (
            f"{model} loses {points(-evidence.clean.mean.estimate)} on {benchmark} when the questions are damaged: its "
            f"score of {score:.0%} depends on the full wording.{_compatible(limit)}"
        )
    if decision.verdict == Verdict.UNDERPOWERED and decision.routers:
        return (
            f"{model} scores {points(gain)} higher on {benchmark} when its questions are damaged than through the "
            f"clean router, but {decision.doubt}.{_compatible(limit)}"
        )
    if decision.verdict == Verdict.UNDERPOWERED:
        seen = f"a gain of up to {points(limit)}" if np.isfinite(limit) and limit < 1 else "a gain of any size"
        return (
            f"Too few questions to tell for {model} on {benchmark}: {seen} on damaged questions could be real or not, "
            f"so nothing follows for its score of {score:.0%}."
        )
    if decision.doubt:
        return (
            f"No gain is counted for {model} on {benchmark} at its score of {score:.0%}: {decision.doubt}. It could be "
            f"{points(limit)} at most (97.5 % limit). {BLIND}"
        )
    return (
        f"Damage to its questions raises the score of {model} on {benchmark} ({score:.0%}) by at most {points(limit)} "
        f"(97.5 % limit). {BLIND}"
    )


def _compatible(limit: float) -> str:
    """What a gain could be at most, as a sentence; nothing where the data set no limit."""
    if not np.isfinite(limit) or limit >= 1:
        return ""
    size = f"A gain of up to {points(limit)}" if limit > 0 else "No gain"
    return f" {size} is still compatible with the data (97.5 % limit)."


def fresh_items(contrasts: Sequence[Contrast]) -> tuple[str, ...]:
    """What the control benchmark says of a gain, where one was run."""
    scales = [c for c in contrasts if c.name.startswith("difference_in_differences") and c.ci_low is not None]
    if not scales:
        return ()
    points_scale = next((c for c in scales if c.name == "difference_in_differences"), None)
    if points_scale is None or points_scale.estimate is None or points_scale.ci_high is None:
        return ()
    larger = all(c.ci_low is not None and c.ci_low > 0 for c in scales)
    interval = f"95 % interval {100 * (points_scale.ci_low or 0.0):+.1f} to {100 * points_scale.ci_high:+.1f}"
    in_points = points_scale.ci_low is not None and points_scale.ci_low > 0
    text = (
        f"The gain is {'' if in_points else 'not clearly '}larger than that on the held-out questions of the control "
        f"benchmark, by {100 * points_scale.estimate:+.1f} points ({interval})"
    )
    if larger:
        return (f"{text}, and so on the scales of log-odds and of the share of wrong answers repaired.",)
    but = ", but not on every scale (log-odds, the share of wrong answers repaired)" if in_points else ""
    return (f"{text}{but}: rewriting may help as such, without memory.",)


def run_shifts(found: RunShifts, *, repeated: bool) -> tuple[str, ...]:
    """What was reckoned with for the difference between whole runs. repeated: whether the noisy arm was."""
    noisy, controls = found.used
    out = [_shift("noisy", found.noisy, noisy), _shift("clean", found.controls, controls)]
    tested = found.tested(repeated=repeated)
    if tested != found.used:
        sides = " and ".join(
            f"{points(float(np.sqrt(variance)))} for {side} runs"
            for side, variance, own in zip(("noisy", "clean"), tested, found.used, strict=True)
            if variance != own
        )
        out.append(f"A test of a gain reckons with at least {sides}, as these were not repeated.")
    return tuple(out)


def tipping(gamma: float | None) -> str | None:
    """The odds ratio at which a verdict turns, as it is written."""
    return None if gamma is None else "worst case" if np.isinf(gamma) else f"{gamma:g}"


def unparsed(evidence: Evidence | None, gamma: float | None) -> tuple[str, ...]:
    """How far the verdict stands whatever the unparsed answers would have been."""
    if evidence is None or evidence.worst_case is None:
        return ()
    worst = (
        "With every unparsed noisy answer right and every other wrong, the largest gain is "
        f"{points(evidence.worst_case)}."
    )
    if gamma is None:
        return (worst,)
    stands = "even at worst" if np.isinf(gamma) else f"up to an odds ratio of {gamma:g}"
    return (
        "Unparsed answers are imputed from the same question's other answers, their odds of being right apart by a "
        f"factor of {DECIDE_AT:g} between the arms, against the verdict. It stands {stands}. {worst}",
    )


def _shift(side: str, found: RunVariance, used: float) -> str:
    sd = points(float(np.sqrt(used)))
    if found.df == 0:
        return f"Shifts of whole {side} runs (batches, endpoints, engines) were not measured: {sd} is assumed (SD)."
    how = "all that is plausible" if found.capped else "the estimate and one standard error"
    count = f"{found.df} comparison{'' if found.df == 1 else 's'}"
    estimate = points(float(np.sqrt(found.estimate)))
    return (
        f"Whole {side} runs may shift by a standard deviation of {sd} beyond their questions ({how}; {count} of runs "
        f"estimate {estimate}). Every interval has it in."
    )


def at_any_stop(evidence: Evidence, n: int) -> str:
    """How a run that may have stopped early was decided."""
    e = float(np.exp(evidence.plain.log_e(evidence.clean.routers).max()))
    controls = evidence.shifts.controls
    found = f" (repeated runs here say {points(float(np.sqrt(controls.estimate)))})" if controls.df else ""
    return (
        f"The run could stop early (stop=early) and asked {n:,} questions: its verdict rests on an e-process, whose "
        f"tests and limits hold at any stop. Against every control the e-value of a gain is {e:.3g}, and p is 1/e (at "
        "most 1). No p for a fixed number of questions decides. Estimates at a stop lean towards what stopped the run: "
        "read the limits. What whole runs vary by beyond their questions is "
        f"assumed to be zero{found}."
    )


def controls(cell: CellOutcomes, *, referred: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(controls that were not run, what cannot be excluded without each), in the same order. referred: whether another
    model answered from the same messages."""
    missing, open_ = [], []
    if not replicates_of(cell, Arm.DIRECT, 0):
        missing.append("direct: the original question without a router")
        open_.append("that a clean router which loses part of the question lowered the baseline and made the gain")
    noisy = {s.level for s in cell.settings_of(Arm.NOISY_REWRITE)}
    ensemble = {s.level for s in cell.settings_of(Arm.FORWARD_FULL)} - {1}
    absent = sorted(r for r in noisy - ensemble if r > 1)
    if absent:
        runs = f"for r={', '.join(map(str, absent))}" if ensemble else "at any r"
        missing.append(f"ensemble control: as many clean routers, {runs}")
        open_.append("that repetition and compute made the gain, and not memory")
    count = len(replicates_of(cell, Arm.FORWARD_FULL, 1))
    if count < 2:
        missing.append(f"clean replicates: {count} was run, 2 are needed for a noise floor")
        open_.append("that clean answers vary by as much as the gain from one run to the next")
    if noisy and all(len(replicates_of(cell, Arm.NOISY_REWRITE, r)) < 2 for r in noisy):
        missing.append("noisy replicates: 1 was run, 2 are needed to measure what whole noisy runs shift by")
        open_.append("that the whole noisy run shifted by more than is plausible (noisy_replicates=2)")
    if noisy and not referred:
        missing.append("hint reference: another model that answers from the same messages")
        open_.append("that the noisy messages hint at the answers")
    return tuple(missing), tuple(open_)
