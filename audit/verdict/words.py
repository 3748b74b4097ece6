"""The plain sentences: a headline that a procurement officer understands, and what was not run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit.statistics.paired import CellOutcomes
from audit.statistics.values import replicates_of
from audit.sweep.design import Arm
from audit.verdict.decide import Decision
from audit.verdict.evidence import Evidence
from audit.verdict.result import Contrast, Verdict, points

# What a failing gate means in a headline, after "because".
_BECAUSE = {
    "parseability": "too many answers could not be read",
    "above_chance": "the model is not clearly better than guessing",
    "pairing": "the questions do not match between the arms",
    "exact_values": "some figures are suspiciously exact",
    "clean_fidelity": "the clean routers do not pass the question on faithfully",
    "manipulation_reached_worker": "the manipulated questions did not reach the model",
    "answer_leak": "the routers gave the answers away",
    "noise_floor": "repeated runs of the same condition differ by more than chance",
}


def headline(
    model: str, benchmark: str, decision: Decision, evidence: Evidence | None, failing: tuple[str, ...]
) -> str:
    """One sentence. failing: names of the gates that withhold the verdict."""
    if decision.verdict == Verdict.WITHHELD or evidence is None:
        because = ", and ".join(_BECAUSE.get(name, name) for name in failing) or "the comparison could not be made"
        return f"No verdict on {model} and {benchmark}: {because}."
    score = evidence.clean_accuracy if evidence.direct_accuracy is None else evidence.direct_accuracy
    best = evidence.clean.best
    gain, r = evidence.clean.gain[best], evidence.clean.routers[best]
    if decision.verdict == Verdict.EXCESS:
        shown = [k for k, r in enumerate(evidence.clean.routers) if r in decision.routers] or [best]
        best = max(shown, key=lambda k: evidence.clean.gain[k])  # of those that passed every comparison
        gain, r, low = evidence.clean.gain[best], evidence.clean.routers[best], evidence.clean.low[best]
        return (
            f"{model} scores {points(gain)} higher on {benchmark} (95 %: at least {points(low)}) when its questions "
            f"are damaged (with {r} {'router' if r == 1 else 'routers'}) than when they are intact, more than chance "
            f"explains: its score of {score:.0%} may be partly memory of the exam."
        )
    if decision.verdict == Verdict.EXCESS_EXPLAINED:
        return (
            f"{model} gains up to {points(gain)} on {benchmark} from reading several messages, and about as much from "
            "as many intact ones: this is no evidence that it remembers the exam."
        )
    if decision.verdict == Verdict.BRITTLE:
        return (
            f"{model} loses {points(-evidence.clean.mean.estimate)} on {benchmark} when the questions are damaged: its "
            f"score of {score:.0%} depends on the full wording."
        )
    if decision.verdict == Verdict.UNDERPOWERED and decision.routers:
        return (
            f"{model} scores {points(gain)} higher on {benchmark} when its questions are damaged than through the "
            f"clean router, but {decision.doubt}."
        )
    if decision.verdict == Verdict.UNDERPOWERED:
        seen = f"a gain below {points(evidence.mde)}" if np.isfinite(evidence.mde) else "any gain at all"
        return (
            f"Too few questions to judge {model} on {benchmark}: {seen} could go unseen, so its score of {score:.0%} "
            "is neither cleared nor doubted."
        )
    limit = evidence.largest_compatible
    if decision.doubt:
        return (
            f"No excess is counted for {model} on {benchmark} at its score of {score:.0%}: {decision.doubt}. It could "
            f"be {points(limit)} at most (95 % limit)."
        )
    return (
        f"No sign that {model} remembers {benchmark} beyond its score of {score:.0%}: damaged questions raise it by at "
        f"most {points(limit)} (95 % limit). Memory that needs no damage to show would not be seen."
    )


def fresh_items(contrasts: Sequence[Contrast]) -> tuple[str, ...]:
    """What the control benchmark says of an excess, where one was run."""
    for c in contrasts:
        if c.name == "difference_in_differences" and c.estimate is not None and c.ci_low is not None and c.ci_high:
            interval = f"95 % interval {100 * c.ci_low:+.1f} to {100 * c.ci_high:+.1f}"
            found = "larger than" if c.ci_low > 0 else "not clearly larger than"
            return (
                f"The gain is {found} that on the fresh questions of the control benchmark, by {100 * c.estimate:+.1f} "
                f"points ({interval})" + ("." if c.ci_low > 0 else ": rewriting may help as such, without memory."),
            )
    return ()


def controls(cell: CellOutcomes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(controls that were not run, what cannot be excluded without each), in the same order."""
    missing, open_ = [], []
    if not replicates_of(cell, Arm.DIRECT, 0):
        missing.append("direct: the original question without a router")
        open_.append("that a clean router which loses part of the question lowered the baseline and made the gain")
    noisy = {s.routers for s in cell.settings_of(Arm.NOISY_REWRITE)}
    ensemble = {s.routers for s in cell.settings_of(Arm.FORWARD_FULL)} - {1}
    absent = sorted(r for r in noisy - ensemble if r > 1)
    if absent:
        runs = f"for r={', '.join(map(str, absent))}" if ensemble else "at any r"
        missing.append(f"ensemble control: as many clean routers, {runs}")
        open_.append("that repetition and compute made the gain, and not memory")
    count = len(replicates_of(cell, Arm.FORWARD_FULL, 1))
    if count < 2:
        missing.append(f"clean replicates: {count} was run, 2 are needed for a noise floor")
        open_.append("that clean answers vary by as much as the gain from one run to the next")
    return tuple(missing), tuple(open_)
