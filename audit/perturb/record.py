"""Hold the answers of one cell (a model on a benchmark) as arrays for the analysis.

Answers may not be missing at random, neither for the tested model nor for its references. For
example, replies to hard questions are cut off more often. There are two safeguards:

- Models with too few parsed answers are not compared.
- A verdict must also hold if missing answers are imputed against it. The imputation assumes that
  the odds of a right answer differ by the factor `unparsed_gamma` between originals and variants
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

# value of `n_options` for an item with a free answer, such as a number, which nobody can guess
FREE_FORM = 0
# The fractional parts of the multiples of this number are spread evenly between 0 and 1.
_GOLDEN = (5**0.5 - 1) / 2
# The accuracy of a reference must exceed chance by this number of standard errors, since a model
# that guesses loses nothing under rewording.
_STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Wordings:
    """Hold the answers of one model to n items.

    An answer is 1 if right, 0 if wrong, and NaN if missing.

    Attributes
    ----------
    model : str
        Name of the model.
    original : array, shape (K, n)
        Answers to the original in K replicates.
    variants : array, shape (N, n)
        Answers to N variants of each item.
    requested : array of bool, shape (N, n), or None
        Whether each variant was asked: False if the library lacks the variant, or the model was not
        asked the item. None stands for an array that is True everywhere. If a variant was asked and
        its answer is NaN, the reply was unparsed or cut off, or the call failed.
    """

    model: str
    original: FloatArray
    variants: FloatArray
    requested: BoolArray | None = None

    @property
    def requested_variants(self) -> BoolArray:
        """Return a boolean array (N, n): whether the model was asked each variant of each item."""
        return (
            np.ones(self.variants.shape, dtype=bool) if self.requested is None else self.requested
        )

    @property
    def pair(self) -> tuple[FloatArray, FloatArray]:
        """Return two arrays: the answers to the originals, and the answers to the variants."""
        return self.original, self.variants

    @property
    def unread(self) -> tuple[BoolArray, BoolArray]:
        """Return masks of the wordings that were asked but have no parsed answer.

        Returns
        -------
        tuple of array of bool
            A mask (K, n) for the originals and a mask (N, n) for the variants. An original counts
            as not asked (False) if the model was asked no variant of its item.
        """
        requested = self.requested_variants
        return np.isnan(self.original) & requested.any(axis=0), np.isnan(self.variants) & requested

    @property
    def parsed(self) -> bool:
        """Return whether the model gave a parsed answer to every wording that it was asked."""
        return not any(part.any() for part in self.unread)

    def imputed(self, gamma: float, *, against: bool = False) -> Wordings:
        """Return the answers, with every unparsed answer replaced by an imputed answer.

        Parameters
        ----------
        gamma : float
            Odds ratio of the imputation. The odds of a right answer are first predicted from the
            other answers to the item. These odds are then adjusted:

                odds * sqrt(gamma) for originals, odds / sqrt(gamma) for variants.
        against : bool
            False imputes in favour of a drop, with the formula above. True imputes against a drop:
            multiplication and division are exchanged.

        Returns
        -------
        Wordings
            The answers. Imputed values are 0 or 1. They are drawn with fixed, evenly spread points
            instead of random numbers, so larger odds never lead to fewer right answers.
        """
        predicted = predict_right(np.concatenate(self.pair))
        filled = []
        for values, unparsed, favour in zip(
            self.pair, self.unread, (not against, against), strict=True
        ):
            chance = imputed(values, unparsed, predicted, gamma, favour)[unparsed]
            filled.append(values.copy())
            filled[-1][unparsed] = (np.arange(1, chance.size + 1) * _GOLDEN) % 1 < chance
        return replace(self, original=filled[0], variants=filled[1])

    @property
    def runs_that_differ(self) -> int:
        """Return the effective number of runs of the original wording.

        Returns
        -------
        int
            1 if all runs are equal, as at temperature 0; otherwise the number of runs.
        """
        same = np.array_equal(
            self.original, np.broadcast_to(self.original[:1], self.original.shape), equal_nan=True
        )
        return 1 if same else len(self.original)


@dataclass(frozen=True)
class BrokenShare:
    """Hold the result of a person's review of sampled variants.

    A variant is broken if its gold answer is no longer right.

    Attributes
    ----------
    checked : int
        Number of randomly chosen variants that were read.
    broken : int
        Number of broken variants among the variants that were read.
    confidence : float
        Confidence level of the upper limit (0-1).

    Raises
    ------
    DataError
        If the numbers contradict each other.
    """

    checked: int
    broken: int
    confidence: float = 0.95

    def __post_init__(self) -> None:
        # The numbers come from the file of a library, which may be faulty.
        if not 0 <= self.broken <= self.checked or self.checked < 1:
            raise DataError(
                f"The review of the variants has {self.broken} broken of {self.checked} checked. "
                "Expected checked >= 1 and 0 <= broken <= checked."
            )

    @property
    def share(self) -> float:
        """Return the share of broken variants in the reviewed sample (0-1)."""
        return self.broken / self.checked

    @property
    def upper(self) -> float:
        """Return the one-sided upper confidence limit of the share of broken variants.

        Returns
        -------
        float
            The limit (0-1). Example: .020 if 0 of 150 variants are broken.
        """
        return upper_limit(self.broken, self.checked, self.confidence)


@dataclass(frozen=True)
class PerturbCell:
    """Hold the answers of a tested model and its references to the same items and variants.

    Attributes
    ----------
    benchmark : str
        Name of the benchmark.
    question_ids : tuple of str
        Ids of the n items.
    cluster : (n,) array
        Cluster of each item, as an index 0..G-1. Clusters, not items, are resampled.
    n_options : (n,) array
        Number of options of each item; FREE_FORM for an item with a free answer.
    tested : Wordings
        Answers of the judged model.
    references : tuple of Wordings
        Answers of the references.
    broken : BrokenShare or None
        Result of a person's review of sampled variants; None without a review.
    requests : RequestCounts or None
        Number of requests that equal another request; None if the hashes of the requests are
        missing.
    control : PerturbCell or None
        The answers of the same models to held-out items and their variants.
    unlike : tuple of str
        For a cell of held-out items: the settings in which its library of variants was generated
        differently from the library of the benchmark.
    families : mapping of str to str
        Maps model names to model families. Models of unknown family are missing.
    log_checks : tuple of LogCheck
        Checks of an imported log.
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
        """Return the accuracy of guessing on each item.

        Returns
        -------
        (n,) array
            1 / options, or 0 for a free answer.
        """
        options = self.n_options.astype(float)
        return np.where(options > 0, 1 / np.maximum(options, 1), 0.0)

    @property
    def chance(self) -> float:
        """Return the mean accuracy of guessing."""
        return float(self.chance_items.mean())

    @property
    def clustered(self) -> bool:
        """Return whether a cluster contains several items."""
        return bool(np.unique(self.cluster).size < self.n)

    def can_lose(self, wordings: Wordings) -> bool:
        """Return whether a model is above chance on the reworded items.

        A model at chance has no accuracy that rewording could cost.

        Parameters
        ----------
        wordings : Wordings
            Answers of the model to originals and variants.

        Returns
        -------
        bool
            True if the model's accuracy on the variants exceeds chance by two standard errors.
            False if no item has an answer to both an original and a variant.
        """
        o, v = item_means(*wordings.pair)
        if np.isnan(o).all():
            return False
        height = mean_of(v - self.chance_items, self.cluster)
        return height.value > _STANDARD_ERRORS * max(height.se, 1e-12)


@dataclass(frozen=True)
class ArmRead:
    """Hold the number of parsed answers in one arm.

    An arm is one run of the originals, or the j-th variants of all items.

    Attributes
    ----------
    name : str
        Name of the arm.
    read, requested : int
        Number of parsed answers, and number of wordings that were asked.
    unread : (n,) array of bool
        True for items that were asked and whose answer is missing or unparsed.
    """

    name: str
    read: int
    requested: int
    unread: BoolArray

    @property
    def share(self) -> float:
        """Return the share of parsed answers among the wordings that the model was asked (0-1)."""
        return self.read / self.requested

    @property
    def limits(self) -> tuple[float, float]:
        """Return the 95 % confidence interval of the share of parsed answers."""
        return read_limits(self.read, self.requested)


def arms_read(wordings: Wordings) -> list[ArmRead]:
    """Count the parsed answers of one model in each arm.

    Each arm has its own entry, since a mean over arms would hide that most answers of one arm are
    unparsed.

    Parameters
    ----------
    wordings : Wordings
        Answers of the model to originals and variants.

    Returns
    -------
    list of ArmRead
        One entry for each replicate of the original, then one for each variant. Arms that were not
        asked are left out.
    """
    original, variants = wordings.unread
    requested = wordings.requested_variants
    arms = [(f"original #{k}", row, requested.any(axis=0)) for k, row in enumerate(original)]
    arms += [(f"variant {j + 1}", row, requested[j]) for j, row in enumerate(variants)]
    counts = []
    for name, row, mask in arms:
        n_requested = int(mask.sum())
        if n_requested:
            counts.append(ArmRead(name, n_requested - int(row.sum()), n_requested, row))
    return counts


def lowest_arm(wordings: Wordings) -> ArmRead | None:
    """Return the arm with the lowest share of parsed answers.

    Parameters
    ----------
    wordings : Wordings
        Answers of the model to originals and variants.

    Returns
    -------
    ArmRead or None
        The arm whose 95 % interval has the lowest upper limit; None if nothing was asked.
    """
    return min(arms_read(wordings), key=lambda arm: arm.limits[1], default=None)


def usable_references(
    cell: PerturbCell, limits: PerturbThresholds
) -> tuple[tuple[Wordings, ...], tuple[Reason, ...]]:
    """Divide the references of a cell into usable references and excluded references.

    Parameters
    ----------
    cell : PerturbCell
        The cell with all its references.
    limits : PerturbThresholds
        Thresholds for the accuracy and the parsed share of a reference.

    Returns
    -------
    tuple of (tuple of Wordings, tuple of Reason)
        The usable references, and one reason for each excluded reference.
    """
    repeated = repeats([np.concatenate(w.pair) for w in (cell.tested, *cell.references)])
    usable, reasons = [], []
    for k, wordings in enumerate(cell.references, 1):
        reason = _unusable(cell, wordings, limits, repeated=k in repeated)
        if reason is None:
            usable.append(wordings)
        else:
            reasons.append(reason)
    return tuple(usable), tuple(reasons)


def _unusable(
    cell: PerturbCell, w: Wordings, limits: PerturbThresholds, *, repeated: bool
) -> Reason | None:
    """Return the reason why a reference is excluded from the comparison; None if it is usable."""
    if repeated:
        return because("left_out_repeats", model=w.model)
    if not cell.can_lose(w):
        return because("left_out_at_chance", model=w.model)
    worst = lowest_arm(w)
    if worst is not None and worst.limits[1] < limits.answered_share_min:
        return because("left_out_unparsed", model=w.model, share=worst.share, arm=worst.name)
    # A reference may be above chance only because its unparsed answers are left out.
    if not w.parsed and not cell.can_lose(w.imputed(limits.unparsed_gamma)):
        return because("left_out_at_chance_unparsed", model=w.model)
    return None


def against_drop(cell: PerturbCell, gamma: float) -> PerturbCell | None:
    """Return the cell with unparsed answers imputed against a drop.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references to the benchmark.
    gamma : float
        Odds ratio of the imputation.

    Returns
    -------
    PerturbCell or None
        The cell with imputed answers; None if all answers were parsed.

    Notes
    -----
    Unparsed answers are imputed as follows:

    - The tested model's answers to the benchmark: originals more often wrong, variants more often
      right.
    - The references' answers, and the tested model's answers to held-out items: with the predicted
      odds.
    - In the worst case (infinite gamma), the answers in the second entry are instead imputed in
      favour of a drop.
    """
    control, tested, references = cell.control, cell.tested, cell.references
    if all(w.parsed for w in (tested, *references)) and (control is None or control.tested.parsed):
        return None
    reference_gamma = of_references(gamma)
    return replace(
        cell,
        tested=tested.imputed(gamma, against=True),
        references=tuple(w.imputed(reference_gamma) for w in references),
        control=control and replace(control, tested=control.tested.imputed(reference_gamma)),
    )


def for_drop(cell: PerturbCell, gamma: float) -> Wordings | None:
    """Return the tested model's answers with unparsed answers imputed in favour of a drop.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references to the benchmark.
    gamma : float
        Odds ratio of the imputation.

    Returns
    -------
    Wordings or None
        The answers; None if all answers were parsed.
    """
    return None if cell.tested.parsed else cell.tested.imputed(gamma)


@dataclass(frozen=True)
class ItemLevel:
    """Hold the statistics of each single item, for n items.

    Attributes
    ----------
    pvalues : (n,) array
        Exact p-value of each item; NaN if its original has no answer, or none of its variants has
        one.
    adjusted : (n,) array
        p-values adjusted to control the false discovery rate, which is the expected share of items
        without a drop among the flagged items.
    flagged : (n,) array of bool
        True for items whose adjusted p-value is at most alpha.
    drop : (n,) array
        Correctness of the answer to the original minus the mean correctness over the variants.
    beyond : (n,) array
        The tested model's drop on the item minus the references' mean drop on the same item.
    order : (n,) array of int
        Positions of the items, sorted by p-value, then by drop beyond the references, then by id.
    method : {"bh", "by"}
        Correction: "bh" (Benjamini-Hochberg) for independent items, "by" (Benjamini-Yekutieli) for
        items in clusters.
    smallest_p : float
        Smallest possible p-value of an item, 1 / (N + 1) with N variants.
    can_flag : bool
        Whether an item with the p-value `smallest_p` would be flagged.
    affected : AffectedItems or None
        Lower confidence limit of the number of affected items. None if items are in clusters, since
        the items of a cluster may have been reworded together.
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
    """Test each item of a cell for a drop, and rank the items.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references to the benchmark.
    alpha : float
        False discovery rate to control.

    Returns
    -------
    ItemLevel
        The results for each item.
    """
    p = item_pvalues(*cell.tested.pair)
    clustered = cell.clustered
    adjusted = false_discovery(p, any_dependence=clustered)
    drop, *gaps = (np.subtract(*item_means(*w.pair)) for w in (cell.tested, *cell.references))
    # If no reference answered an item, the item is ranked by the drop of the tested model alone.
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
