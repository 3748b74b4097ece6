"""Unparsed answers: how many they are, and what a verdict is worth where they speak against it.

Which answers are missing may hang on what they would have been (replies that are cut off, calls that fail), for the
tested model and for what it is compared with alike. So models of which too little is parsed are not compared with, and
a verdict must hold in an adverse reading too: odds of a right answer that differ by `unparsed_gamma` from those
predicted (`audit.statistics.unparsed`).
"""

from dataclasses import dataclass, replace

import numpy as np

from audit.judge.gates import read_limits
from audit.perturb.design import PerturbThresholds
from audit.perturb.record import PerturbCell, Wordings
from audit.statistics.between_models import repeats
from audit.statistics.paired import BoolArray
from audit.verdict.result import Reason, because


@dataclass(frozen=True)
class ArmRead:
    """What was read of one arm, a replicate of the original or one rank of variant. unread: (n,) asked and not read."""

    name: str
    read: int
    asked: int
    unread: BoolArray

    @property
    def share(self) -> float:
        return self.read / self.asked

    @property
    def limits(self) -> tuple[float, float]:
        """95 % interval of the share."""
        return read_limits(self.read, self.asked)


def arms_read(wordings: Wordings) -> list[ArmRead]:
    """Every arm of one model of which something was asked, so that one unreadable set does not hide in a mean."""
    original, variants = wordings.unread
    asked = wordings.was_asked
    arms = [(f"original #{k}", row, asked.any(axis=0)) for k, row in enumerate(original)]
    arms += [(f"variant {j + 1}", row, asked[j]) for j, row in enumerate(variants)]
    return [
        ArmRead(name, int(mask.sum()) - int(row.sum()), int(mask.sum()), row) for name, row, mask in arms if mask.any()
    ]


def lowest_arm(wordings: Wordings) -> ArmRead | None:
    """The arm of which the smallest share can have been parsed: that of the lowest upper limit."""
    return min(arms_read(wordings), key=lambda arm: arm.limits[1], default=None)


def usable_references(
    cell: PerturbCell, thresholds: PerturbThresholds
) -> tuple[tuple[Wordings, ...], tuple[Reason, ...]]:
    """The references of a cell that can be compared with, and why the others cannot.

    One that is above chance only without its unparsed answers has no share to lose in the adverse reading.
    """
    used: list[Wordings] = []
    left_out: list[Reason] = []
    twice = repeats([np.concatenate(w.pair) for w in (cell.tested, *cell.references)])
    for k, w in enumerate(cell.references, 1):
        worst = lowest_arm(w)
        if k in twice:
            left_out.append(because("left_out_repeats", model=w.model))
        elif not cell.can_lose(w):
            left_out.append(because("left_out_at_chance", model=w.model))
        elif worst is not None and worst.limits[1] < thresholds.answered_share_min:
            left_out.append(because("left_out_unparsed", model=w.model, share=worst.share, arm=worst.name))
        elif any(part.any() for part in w.unread) and not cell.can_lose(
            w.held(thresholds.unparsed_gamma, original=True, variants=False)
        ):
            left_out.append(because("left_out_at_chance_unparsed", model=w.model))
        else:
            used.append(w)
    return tuple(used), tuple(left_out)


def against_drop(cell: PerturbCell, gamma: float) -> PerturbCell | None:
    """The cell with unparsed answers held against a finding, at odds of gamma; None where all were parsed.

    Of the tested model originals are wrong and variants right; of the references, and of the tested model on the fresh
    items, it is the other way round, as their drops are what its own is compared with.
    """
    models = [cell.tested, *cell.references, *([cell.control.tested] if cell.control is not None else [])]
    if not any(unread.any() for w in models for unread in w.unread):
        return None
    control = cell.control
    if control is not None:
        control = replace(control, tested=control.tested.held(gamma, original=True, variants=False))
    return replace(
        cell,
        tested=cell.tested.held(gamma, original=False, variants=True),
        references=tuple(w.held(gamma, original=True, variants=False) for w in cell.references),
        control=control,
    )


def for_drop(cell: PerturbCell, gamma: float) -> Wordings | None:
    """The tested model with unparsed answers held for a drop, at odds of gamma; None where all were parsed."""
    if not any(unread.any() for unread in cell.tested.unread):
        return None
    return cell.tested.held(gamma, original=True, variants=False)
