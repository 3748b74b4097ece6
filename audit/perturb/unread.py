"""Answers that were asked and not read: how many they are, and what a finding is worth where they speak against it.

Which answers are missing may hang on what they would have been (replies that are cut off, calls that fail), for the
tested model and for what it is compared with alike. So models of which too little is read are not compared with, and a
finding must hold in the adverse reading too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from audit.perturb.record import PerturbCell, Wordings
from audit.perturb.thresholds import PerturbThresholds
from audit.statistics.paired import BoolArray


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


@dataclass(frozen=True)
class LeftOut:
    """A reference model that is not compared with, and why, in a few words."""

    model: str
    why: str


def arms_read(wordings: Wordings) -> list[ArmRead]:
    """Every arm of one model of which something was asked, so that one unreadable set does not hide in a mean."""
    original, variants = wordings.unread
    asked = wordings.was_asked
    arms = [(f"original #{k}", row, asked.any(axis=0)) for k, row in enumerate(original)]
    arms += [(f"variant {j + 1}", row, asked[j]) for j, row in enumerate(variants)]
    return [
        ArmRead(name, int(mask.sum()) - int(row.sum()), int(mask.sum()), row) for name, row, mask in arms if mask.any()
    ]


def usable_references(
    cell: PerturbCell, thresholds: PerturbThresholds
) -> tuple[tuple[Wordings, ...], tuple[LeftOut, ...]]:
    """The references of a cell that can be compared with, and the others.

    One that is above chance only without its unread answers has no share to lose in the adverse reading.
    """
    used: list[Wordings] = []
    left_out: list[LeftOut] = []
    for w in cell.references:
        worst = min(arms_read(w), key=lambda arm: arm.share, default=None)
        if not cell.can_lose(w):
            left_out.append(LeftOut(w.model, "not above chance"))
        elif worst is not None and worst.share < thresholds.answered_share_min:
            left_out.append(LeftOut(w.model, f"{worst.share:.1%} of its answers to {worst.name} can be read"))
        elif not cell.can_lose(w.held(original=1.0, variants=0.0)):
            left_out.append(LeftOut(w.model, "not above chance with its unread answers counted as wrong"))
        else:
            used.append(w)
    return tuple(used), tuple(left_out)


def against_drop(cell: PerturbCell) -> PerturbCell | None:
    """The cell with every unread answer held against a finding; None where all were read.

    Of the tested model originals are wrong and variants right; of the references, and of the tested model on the fresh
    items, it is the other way round, as their drops are what its own is compared with.
    """
    models = [cell.tested, *cell.references, *([cell.control.tested] if cell.control is not None else [])]
    if not any(unread.any() for w in models for unread in w.unread):
        return None
    control = cell.control
    if control is not None:
        control = replace(control, tested=control.tested.held(original=1.0, variants=0.0))
    return replace(
        cell,
        tested=cell.tested.held(original=0.0, variants=1.0),
        references=tuple(w.held(original=1.0, variants=0.0) for w in cell.references),
        control=control,
    )


def unread_for_drop(cell: PerturbCell) -> Wordings | None:
    """The tested model with every unread answer held for a drop; None where all were read."""
    if not any(unread.any() for unread in cell.tested.unread):
        return None
    return cell.tested.held(original=1.0, variants=0.0)
