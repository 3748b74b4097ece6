"""What the analysis of one cell (model x benchmark) starts from: arrays of answers, which of them were not read, and
what speaks against comparing with a reference.

Which answers are missing may hang on what they would have been (replies that are cut off, calls that fail), for the
tested model and for what it is compared with alike. So models of which too little is parsed are not compared with, and
a verdict must hold in an adverse reading too: odds of a right answer that differ by `unparsed_gamma` between originals
and variants (`audit.statistics.unparsed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from audit.errors import DataError
from audit.judge.gates import LogCheck, read_limits
from audit.perturb.design import PerturbThresholds
from audit.shards.keys import RequestCounts
from audit.statistics.between_models import repeats
from audit.statistics.chance import upper_limit
from audit.statistics.estimate import mean_of
from audit.statistics.exchange import AffectedItems, affected_items, item_pvalues
from audit.statistics.multiplicity import false_discovery
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.statistics.unparsed import imputed, of_references, predict_right
from audit.statistics.wording_drop import item_means
from audit.verdict.result import Reason, because

FREE_FORM = 0  # options of an item that is answered freely, such as with a number: chance 0
_GOLDEN = (5**0.5 - 1) / 2  # multiples of it, less their whole part, are spread evenly over 0-1
_STANDARD_ERRORS = 2.0  # above chance, to be compared with: a model that guesses loses nothing


@dataclass(frozen=True)
class Wordings:
    """One model's answers to n items. original: (K, n) replicates; variants: (N, n). 1 right, 0 wrong, NaN no answer.

    asked: (N, n), false where the library has no such variant of the item, or the model was not asked the item; None
    where it was asked all. What was asked and is NaN was unread, cut off or failed.
    """

    model: str
    original: FloatArray
    variants: FloatArray
    asked: BoolArray | None = None

    @property
    def was_asked(self) -> BoolArray:
        return np.ones(self.variants.shape, dtype=bool) if self.asked is None else self.asked

    @property
    def pair(self) -> tuple[FloatArray, FloatArray]:
        return self.original, self.variants

    @property
    def unread(self) -> tuple[BoolArray, BoolArray]:
        """(K, n) and (N, n), true where an answer was asked and not read. An original that has no variant to be
        compared with does not count."""
        asked = self.was_asked
        return np.isnan(self.original) & asked.any(axis=0), np.isnan(self.variants) & asked

    @property
    def parsed(self) -> bool:
        """Whether all that was asked was read."""
        return not any(part.any() for part in self.unread)

    def held(self, gamma: float, *, against: bool = False) -> Wordings:
        """The same with an outcome for every answer that was asked and not parsed: for a drop (originals right,
        variants wrong), or against one.

        The odds of a right answer beside those that the other answers to the item predict differ by gamma between
        originals and variants.
        Outcomes are drawn at evenly spread points, the same for every gamma, so that they are 0 or 1 like the others,
        hang on no random number, and more are right the larger the odds.
        """
        predicted = predict_right(np.concatenate(self.pair))
        held = []
        for values, unparsed, favour in zip(self.pair, self.unread, (not against, against), strict=True):
            chance = imputed(values, unparsed, predicted, gamma, favour)[unparsed]
            held.append(values.copy())
            held[-1][unparsed] = (np.arange(1, chance.size + 1) * _GOLDEN) % 1 < chance
        return replace(self, original=held[0], variants=held[1])

    @property
    def runs_that_differ(self) -> int:
        """Runs of the original; 1 where all are the same, as at temperature 0: they tell what one tells."""
        same = np.array_equal(self.original, np.broadcast_to(self.original[:1], self.original.shape), equal_nan=True)
        return 1 if same else len(self.original)


@dataclass(frozen=True)
class BrokenShare:
    """People read `checked` variants drawn at random and found `broken` whose gold answer is lost. Raises DataError."""

    checked: int
    broken: int
    confidence: float = 0.95

    def __post_init__(self) -> None:  # the numbers come from a library's file, which may be anybody's
        if not 0 <= self.broken <= self.checked or self.checked < 1:
            raise DataError(f"A review has 0 <= broken <= checked >= 1; found {self.broken} of {self.checked}.")

    @property
    def share(self) -> float:
        return self.broken / self.checked

    @property
    def upper(self) -> float:
        """One-sided upper limit of the share: 2.0 % for 0 of 150."""
        return upper_limit(self.broken, self.checked, self.confidence)


@dataclass(frozen=True)
class PerturbCell:
    """One model on one benchmark, and the reference models on the same items and variants.

    cluster: (n,) index 0..G-1 of what resampling keeps whole. n_options: (n,), FREE_FORM for a free answer.
    broken: None where no person read a sample. requests: None where no hashes were kept. control: the same models on
    held-out items with rewordings of their own; None where none were run. unlike: of a control, in what its library was
    made differently from the benchmark's. families: of the models, where they are told. log_checks: of an import.
    """

    benchmark: str
    question_ids: tuple[str, ...]
    cluster: IntArray
    n_options: IntArray
    tested: Wordings
    references: tuple[Wordings, ...] = ()
    broken: BrokenShare | None = None
    requests: RequestCounts | None = None
    control: PerturbCell | None = None
    unlike: tuple[str, ...] = ()
    families: Mapping[str, str] = field(default_factory=dict)
    log_checks: tuple[LogCheck, ...] = ()

    @property
    def n(self) -> int:
        return len(self.question_ids)

    @property
    def chance_items(self) -> FloatArray:
        """(n,) accuracy of guessing each item: 1 / options, 0 for a free answer."""
        options = self.n_options.astype(float)
        return np.where(options > 0, 1 / np.maximum(options, 1), 0.0)

    @property
    def chance(self) -> float:
        return float(self.chance_items.mean())

    @property
    def clustered(self) -> bool:
        """Whether some items share a cluster."""
        return bool(np.unique(self.cluster).size < self.n)

    def can_lose(self, wordings: Wordings) -> bool:
        """Whether a model can lose anything: its reworded accuracy is above chance by two of its own standard errors.

        False too where it has no item with an answer to both an original and a variant.
        """
        o, v = item_means(*wordings.pair)
        if np.isnan(o).all():
            return False
        height = mean_of(v - self.chance_items, self.cluster)
        return height.value > _STANDARD_ERRORS * max(height.se, 1e-12)


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
    sized = [(name, int(mask.sum()), row) for name, row, mask in arms]
    return [ArmRead(name, many - int(row.sum()), many, row) for name, many, row in sized if many]


def lowest_arm(wordings: Wordings) -> ArmRead | None:
    """The arm of which the smallest share can have been parsed: that of the lowest upper limit."""
    return min(arms_read(wordings), key=lambda arm: arm.limits[1], default=None)


def usable_references(cell: PerturbCell, limits: PerturbThresholds) -> tuple[tuple[Wordings, ...], tuple[Reason, ...]]:
    """The references of a cell that can be compared with, and why the others cannot."""
    twice = repeats([np.concatenate(w.pair) for w in (cell.tested, *cell.references)])
    why = [_unusable(cell, w, limits, repeated=k in twice) for k, w in enumerate(cell.references, 1)]
    used = tuple(w for w, reason in zip(cell.references, why, strict=True) if reason is None)
    return used, tuple(reason for reason in why if reason is not None)


def _unusable(cell: PerturbCell, w: Wordings, limits: PerturbThresholds, *, repeated: bool) -> Reason | None:
    if repeated:
        return because("left_out_repeats", model=w.model)
    if not cell.can_lose(w):
        return because("left_out_at_chance", model=w.model)
    worst = lowest_arm(w)
    if worst is not None and worst.limits[1] < limits.answered_share_min:
        return because("left_out_unparsed", model=w.model, share=worst.share, arm=worst.name)
    # above chance only without its unparsed answers, it has no share to lose in the adverse reading
    if not w.parsed and not cell.can_lose(w.held(limits.unparsed_gamma)):
        return because("left_out_at_chance_unparsed", model=w.model)
    return None


def against_drop(cell: PerturbCell, gamma: float) -> PerturbCell | None:
    """The cell with unparsed answers held against a finding, at odds of gamma; None where all were parsed.

    Of the tested model originals are wrong and variants right. Those of the references, and of the tested model on the
    held-out items, count as predicted; in the worst case they are held the other way round.
    """
    control, tested, references = cell.control, cell.tested, cell.references
    if all(w.parsed for w in (tested, *references)) and (control is None or control.tested.parsed):
        return None
    beside = of_references(gamma)
    return replace(
        cell,
        tested=tested.held(gamma, against=True),
        references=tuple(w.held(beside) for w in references),
        control=control and replace(control, tested=control.tested.held(beside)),
    )


def for_drop(cell: PerturbCell, gamma: float) -> Wordings | None:
    """The tested model with unparsed answers held for a drop, at odds of gamma; None where all were parsed."""
    return None if cell.tested.parsed else cell.tested.held(gamma)


@dataclass(frozen=True)
class ItemLevel:
    """All arrays (n,). pvalues: exact, NaN where an item cannot be compared; adjusted: over the items, so that of the
    flagged ones (adjusted <= alpha) a share alpha at most is expected to be false. method: "bh" for independent items,
    "by" for items in clusters. smallest_p: 1 / (N + 1). can_flag: whether any number of items with that p could ever be
    flagged. drop: original - mean of the variants; beyond: minus the references' mean drop. order: of indices, the most
    conspicuous first (p, then drop beyond the references, then id). affected: None for items in clusters, which may
    have been reworded together.
    """

    pvalues: FloatArray
    adjusted: FloatArray
    flagged: BoolArray
    drop: FloatArray
    beyond: FloatArray
    order: IntArray
    method: str
    smallest_p: float
    can_flag: bool
    affected: AffectedItems | None


def item_level(cell: PerturbCell, alpha: float = 0.05) -> ItemLevel:
    """Rank, flag and count the items of a cell."""
    p = item_pvalues(*cell.tested.pair)
    clustered = cell.clustered
    adjusted = false_discovery(p, any_dependence=clustered)
    drop, *gaps = (np.subtract(*item_means(*w.pair)) for w in (cell.tested, *cell.references))
    # an item that no reference answered has no reference drop: it is ranked by its own
    stacked = np.stack(gaps) if gaps else np.full((1, cell.n), np.nan)
    beyond = drop - np.nansum(stacked, axis=0) / np.maximum(np.sum(~np.isnan(stacked), axis=0), 1)
    smallest = 1 / (1 + int(np.max(np.sum(~np.isnan(cell.tested.variants), axis=0), initial=0)))
    order = np.lexsort((np.array(cell.question_ids), -np.nan_to_num(beyond, nan=-2.0), np.nan_to_num(p, nan=2.0)))
    m = int(np.sum(~np.isnan(p)))
    factor = float(np.sum(1 / np.arange(1, m + 1))) if clustered else 1.0
    return ItemLevel(
        pvalues=p,
        adjusted=adjusted,
        flagged=np.nan_to_num(adjusted, nan=1.0) <= alpha,
        drop=drop,
        beyond=beyond,
        order=order.astype(np.int64),
        method="by" if clustered else "bh",
        smallest_p=smallest,
        can_flag=smallest * factor <= alpha,
        affected=None if clustered else affected_items(*cell.tested.pair, confidence=1 - alpha),
    )
