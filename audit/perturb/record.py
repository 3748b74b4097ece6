"""Hold the input of the analysis of one cell: arrays of answers, and which of them were not read.

Whether an answer is missing may depend on what it would have been (replies that are cut off, calls
that fail). This holds for the tested model and for its references. So models with too few parsed
answers are not compared, and a verdict must hold under adverse imputation too. There the odds of a
right answer differ by `unparsed_gamma` between originals and variants
(`audit.statistics.unparsed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from audit.core.errors import DataError
from audit.judge.gates import LogCheck, read_limits
from audit.judging.result import Reason, because
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

FREE_FORM = 0  # number of options of a free-form answer, such as a number, whose chance is 0
# The fractional parts of multiples of the golden ratio are spread evenly over 0-1.
_GOLDEN = (5**0.5 - 1) / 2
_STANDARD_ERRORS = (
    # Standard errors by which a reference must exceed chance, as a model that guesses loses
    # nothing.
    2.0
)


@dataclass(frozen=True)
class Wordings:
    """Hold one model's answers to n items: 1 right, 0 wrong, NaN no answer.

    Attributes
    ----------
    original : array, shape (K, n)
        Answers to the original in K replicates.
    variants : array, shape (N, n)
        Answers to N variants of each item.
    asked : array of bool, shape (N, n), or None
        False where the library lacks the variant, or the model was not asked the item; None if the
        model was asked everything. NaN under a true value is an answer that was unread, cut off or
        failed.
    """

    model: str
    original: FloatArray
    variants: FloatArray
    asked: BoolArray | None = None

    @property
    def was_asked(self) -> BoolArray:
        """Return (N, n) variants that were asked."""
        return np.ones(self.variants.shape, dtype=bool) if self.asked is None else self.asked

    @property
    def pair(self) -> tuple[FloatArray, FloatArray]:
        """Return originals and variants."""
        return self.original, self.variants

    @property
    def unread(self) -> tuple[BoolArray, BoolArray]:
        """Return (K, n) and (N, n), true if an answer was asked and not read.

        An original without any variant does not count.
        """
        asked = self.was_asked
        return np.isnan(self.original) & asked.any(axis=0), np.isnan(self.variants) & asked

    @property
    def parsed(self) -> bool:
        """Return whether every asked wording was read."""
        return not any(part.any() for part in self.unread)

    def held(self, gamma: float, *, against: bool = False) -> Wordings:
        """Return the wordings with every unparsed answer imputed.

        Parameters
        ----------
        gamma : float
            Odds ratio, between originals and variants, of a right answer against the prediction
            from the other answers to the item.
        against : bool
            Impute against a drop (originals wrong, variants right), not for one.

        Returns
        -------
        Wordings
            Imputed outcomes are 0 or 1. They are drawn at evenly spread points, equal for every
            gamma, so they depend on no random number, and more are right the larger the odds.
        """
        predicted = predict_right(np.concatenate(self.pair))
        held = []
        for values, unparsed, favour in zip(
            self.pair, self.unread, (not against, against), strict=True
        ):
            chance = imputed(values, unparsed, predicted, gamma, favour)[unparsed]
            held.append(values.copy())
            held[-1][unparsed] = (np.arange(1, chance.size + 1) * _GOLDEN) % 1 < chance
        return replace(self, original=held[0], variants=held[1])

    @property
    def runs_that_differ(self) -> int:
        """Return the number of runs of the original; 1 if all are equal, as at temperature 0."""
        same = np.array_equal(
            self.original, np.broadcast_to(self.original[:1], self.original.shape), equal_nan=True
        )
        return 1 if same else len(self.original)


@dataclass(frozen=True)
class BrokenShare:
    """People read `checked` random variants and found `broken` whose gold answer is lost. Raises
    DataError.
    """

    checked: int
    broken: int
    confidence: float = 0.95

    def __post_init__(self) -> None:  # the numbers come from a library's file, which is not trusted
        if not 0 <= self.broken <= self.checked or self.checked < 1:
            raise DataError(
                f"The review has {self.broken} broken of {self.checked}. Expected 0 <= broken <= checked >= 1."
            )

    @property
    def share(self) -> float:
        """Return the share of broken variants in the sample."""
        return self.broken / self.checked

    @property
    def upper(self) -> float:
        """Return the one-sided upper limit of the share: 2.0 % for 0 of 150."""
        return upper_limit(self.broken, self.checked, self.confidence)


@dataclass(frozen=True)
class PerturbCell:
    """One model on one benchmark, and the reference models on the same items and variants.

    cluster: (n,) index 0..G-1 of the cluster that resampling keeps whole. n_options: (n,),
    FREE_FORM for a free answer. broken: None if no person read a sample. requests: None if no
    hashes were kept. control: the same models on held-out items with rewordings of their own; None
    without them. unlike: for a control, how its library was made differently from the benchmark's.
    families: of the models, if known. log_checks: of an import.
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
        """Return the number of items."""
        return len(self.question_ids)

    @property
    def chance_items(self) -> FloatArray:
        """Return (n,) the accuracy of guessing each item: 1 / options, 0 for a free answer."""
        options = self.n_options.astype(float)
        return np.where(options > 0, 1 / np.maximum(options, 1), 0.0)

    @property
    def chance(self) -> float:
        """Return the mean accuracy of guessing."""
        return float(self.chance_items.mean())

    @property
    def clustered(self) -> bool:
        """Return whether some items share a cluster."""
        return bool(np.unique(self.cluster).size < self.n)

    def can_lose(self, wordings: Wordings) -> bool:
        """Return whether a model can lose anything.

        Parameters
        ----------
        wordings : Wordings
            The model.

        Returns
        -------
        bool
            True if its reworded accuracy is above chance by two of its own standard errors. False
            if no item has an answer to both an original and a variant.
        """
        o, v = item_means(*wordings.pair)
        if np.isnan(o).all():
            return False
        height = mean_of(v - self.chance_items, self.cluster)
        return height.value > _STANDARD_ERRORS * max(height.se, 1e-12)


@dataclass(frozen=True)
class ArmRead:
    """Hold the counts of one arm, for a replicate of the original or one rank of variants. `unread`
    (n,) marks items that were asked and not read.
    """

    name: str
    read: int
    asked: int
    unread: BoolArray

    @property
    def share(self) -> float:
        """Return the share of asked wordings that were read."""
        return self.read / self.asked

    @property
    def limits(self) -> tuple[float, float]:
        """Return the 95 % interval of the share."""
        return read_limits(self.read, self.asked)


def arms_read(wordings: Wordings) -> list[ArmRead]:
    """Return every arm of one model that was asked, as one unreadable set would hide in a mean.

    Parameters
    ----------
    wordings : Wordings
        The model.

    Returns
    -------
    list of ArmRead
        Replicates of the original, then ranks of variants.
    """
    original, variants = wordings.unread
    asked = wordings.was_asked
    arms = [(f"original #{k}", row, asked.any(axis=0)) for k, row in enumerate(original)]
    arms += [(f"variant {j + 1}", row, asked[j]) for j, row in enumerate(variants)]
    counts = []
    for name, row, mask in arms:
        n_asked = int(mask.sum())
        if n_asked:
            counts.append(ArmRead(name, n_asked - int(row.sum()), n_asked, row))
    return counts


def lowest_arm(wordings: Wordings) -> ArmRead | None:
    """Return the arm with the lowest upper limit of its parsed share; None if nothing was asked."""
    return min(arms_read(wordings), key=lambda arm: arm.limits[1], default=None)


def usable_references(
    cell: PerturbCell, limits: PerturbThresholds
) -> tuple[tuple[Wordings, ...], tuple[Reason, ...]]:
    """Separate the references of a cell that can be compared from the others.

    Parameters
    ----------
    cell : PerturbCell
        The cell with all its references.
    limits : PerturbThresholds
        The thresholds.

    Returns
    -------
    tuple of (tuple of Wordings, tuple of Reason)
        The usable references, and why the others are left out.
    """
    twice = repeats([np.concatenate(w.pair) for w in (cell.tested, *cell.references)])
    why = []
    for k, w in enumerate(cell.references, 1):
        why.append(_unusable(cell, w, limits, repeated=k in twice))
    usable = []
    for wordings, reason in zip(cell.references, why, strict=True):
        if reason is None:
            usable.append(wordings)
    used = tuple(usable)
    reasons = []
    for reason in why:
        if reason is not None:
            reasons.append(reason)
    return used, tuple(reasons)


def _unusable(
    cell: PerturbCell, w: Wordings, limits: PerturbThresholds, *, repeated: bool
) -> Reason | None:
    if repeated:
        return because("left_out_repeats", model=w.model)
    if not cell.can_lose(w):
        return because("left_out_at_chance", model=w.model)
    worst = lowest_arm(w)
    if worst is not None and worst.limits[1] < limits.answered_share_min:
        return because("left_out_unparsed", model=w.model, share=worst.share, arm=worst.name)
    # A reference that is above chance only without its unparsed answers has nothing to lose when
    # they are imputed.
    if not w.parsed and not cell.can_lose(w.held(limits.unparsed_gamma)):
        return because("left_out_at_chance_unparsed", model=w.model)
    return None


def against_drop(cell: PerturbCell, gamma: float) -> PerturbCell | None:
    """Return the cell with unparsed answers imputed against a finding.

    Parameters
    ----------
    cell : PerturbCell
        The answers.
    gamma : float
        Odds ratio of the imputation.

    Returns
    -------
    PerturbCell or None
        None if all answers were parsed.

    Notes
    -----
    For the tested model originals are imputed wrong and variants right. Answers of the references,
    and of the tested model on the held-out items, are imputed as predicted; in the worst case they
    are imputed the other way round.
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
    """Return the tested model with unparsed answers imputed for a drop at odds ratio gamma; None if
    all were parsed.
    """
    return None if cell.tested.parsed else cell.tested.held(gamma)


@dataclass(frozen=True)
class ItemLevel:
    """Item-level results; all arrays are (n,).

    pvalues: exact, NaN if an item cannot be compared. adjusted: over the items, so that at most a
    share alpha of the flagged ones (adjusted <= alpha) is expected to be false. method: "bh" for
    independent items, "by" for items in clusters. smallest_p: 1 / (N + 1). can_flag: whether any
    number of items with that p could be flagged. drop: original - mean of the variants. beyond:
    drop minus the references' mean drop. order: indices, the most conspicuous first (p, then drop
    beyond the references, then id). affected: None for items in clusters, which may have been
    reworded together.
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
    """Rank, flag and count the items of a cell.

    Parameters
    ----------
    cell : PerturbCell
        The answers.
    alpha : float
        False discovery rate.

    Returns
    -------
    ItemLevel
        One value for each item.
    """
    p = item_pvalues(*cell.tested.pair)
    clustered = cell.clustered
    adjusted = false_discovery(p, any_dependence=clustered)
    drop, *gaps = (np.subtract(*item_means(*w.pair)) for w in (cell.tested, *cell.references))
    # An item that no reference answered has no reference drop, so it is ranked by its own drop.
    stacked = np.stack(gaps) if gaps else np.full((1, cell.n), np.nan)
    beyond = drop - np.nansum(stacked, axis=0) / np.maximum(np.sum(~np.isnan(stacked), axis=0), 1)
    smallest = 1 / (1 + int(np.max(np.sum(~np.isnan(cell.tested.variants), axis=0), initial=0)))
    order = np.lexsort(
        (np.array(cell.question_ids), -np.nan_to_num(beyond, nan=-2.0), np.nan_to_num(p, nan=2.0))
    )
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
