"""Measure the statistics on which the verdict on one cell (one model on one benchmark) depends.

Analysis and calibration both call `run_tests`.

Reworded held-out items are a control: they show how much accuracy this model loses through
rewording alone, without memory. The control can prevent the verdict `drop_beyond_reference`, but it
cannot cause this verdict. The reason: a model also drops less on the held-out items if their
rewordings are easier than those of the benchmark. The answers of one model cannot distinguish
easier rewordings from memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from audit.judge.record import holm_rows
from audit.judging.result import Reason, because, failed
from audit.perturb.design import PerturbThresholds
from audit.perturb.gates import all_gates
from audit.perturb.record import (
    ItemLevel,
    PerturbCell,
    Wordings,
    against_drop,
    for_drop,
    item_level,
    usable_references,
)
from audit.statistics.between_models import one_family
from audit.statistics.common_fall import CommonFall, common_fall
from audit.statistics.contamination_score import (
    ARTICLE,
    ArticleResult,
    FalseAlarms,
    Rule,
    article_result,
    false_alarms,
)
from audit.statistics.estimate import mean_of
from audit.statistics.exchange import ExchangeResult, exchange_test
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.performance_curve import N_CURVES, CurveResult
from audit.statistics.priors import TauPrior
from audit.statistics.references import (
    SCALES,
    BeyondReference,
    FarBeyond,
    far_beyond,
    no_larger_beside,
    on_scales,
    reference_curve,
)
from audit.statistics.resampling import N_RESAMPLES
from audit.statistics.set_difference import (
    BeyondFresh,
    PairedAnswers,
    SetDifference,
    beyond_fresh,
    set_difference,
)
from audit.statistics.wording_drop import (
    Equivalence,
    RunNoise,
    WordingDrop,
    above_broken,
    equivalence,
    item_means,
    largest_drop,
    run_noise,
    wording_drop,
    wording_flips,
)

# Smallest number of independent held-out items. Rewording changes the answers to few items, so with
# fewer held-out items a t-test rejects too often.
UNITS_MIN = 30


@dataclass(frozen=True)
class FreshControl:
    """Hold the results of the tested model on reworded held-out items. Accuracies and drops are
    0-1.

    Attributes
    ----------
    benchmark : str
        Name of the held-out items.
    n : int
        Number of items with answers to an original and a variant.
    original, variants, drop : float or None
        Accuracy with the original, accuracy with the variants, and the difference of the two; None
        if no item has answers to both.
    beyond : tuple of BeyondFresh
        The drop on the benchmark minus the drop that the held-out items predict, on three scales.
        One item that drops by half is added to the held-out items (`_and_half_a_drop`). Empty if
        the control is not used.
    references : SetDifference or None
        The references' mean drop on the benchmark minus their mean drop on the held-out items. Only
        references that answered both sets are included. The difference shows whether the rewordings
        of the two sets are equally hard.
    reference_models : int
        Number of references that answered both sets of items.
    why : Reason or None
        The reason why the control is not used; None if it is used.
    """

    benchmark: str
    n: int
    original: float | None = None
    variants: float | None = None
    drop: float | None = None
    beyond: tuple[BeyondFresh, ...] = ()
    references: SetDifference | None = None
    reference_models: int = 0
    why: Reason | None = None

    @property
    def used(self) -> bool:
        """Return whether the held-out items are used as a control."""
        return self.why is None

    @property
    def pvalue(self) -> float:
        """Return the p-value of a drop beyond that of the held-out items.

        Returns
        -------
        float
            The largest of the p-values on the three scales (intersection-union test); 1 if the
            control is not used.
        """
        return max(b.pvalue for b in self.beyond) if self.used else 1.0


def fresh_control(
    cell: PerturbCell, limits: PerturbThresholds, as_read: FreshControl | None = None
) -> FreshControl | None:
    """Measure the drop of one cell on its reworded held-out items, the control.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references, with those to the held-out items.
    limits : PerturbThresholds
        Thresholds of the perturbation audit.
    as_read : FreshControl, optional
        The control computed from parsed answers only, if `cell` has imputed answers. The imputed
        control is used only if the parsed control was used.

    Returns
    -------
    FreshControl or None
        The result on the held-out items; None if the cell has no held-out items.
    """
    fresh = cell.control
    if fresh is None:
        return None
    o, v = item_means(*fresh.tested.pair)
    has_pair = ~np.isnan(o)
    n, units = int(has_pair.sum()), _units(o, fresh.cluster)
    if not n:
        return FreshControl(fresh.benchmark, 0, why=because("held_out_no_answers"))
    original, variants = float(o[has_pair].mean()), float(v[has_pair].mean())
    why = _unfit(cell, fresh, n, units, limits) if as_read is None else as_read.why
    beyond: tuple[BeyondFresh, ...] = ()
    if why is None:
        sides = _paired_answers(cell), _and_half_a_drop(_paired_answers(fresh))
        beyond = tuple(beyond_fresh(*sides, scale=scale) for scale in SCALES)
    both = _references(cell, fresh, limits)
    return FreshControl(
        fresh.benchmark, n, original, variants, original - variants, beyond, *both, why
    )


def _unfit(
    cell: PerturbCell, fresh: PerturbCell, n: int, units: int, limits: PerturbThresholds
) -> Reason | None:
    """Return why the held-out items cannot serve as a control; None if there is no such reason."""
    if _units(_drop(cell.tested), cell.cluster) < 2:
        return because("held_out_one_group")
    if units < UNITS_MIN:
        return because("held_out_few", n=n, units=units, least=UNITS_MIN)
    failing = failed(all_gates(fresh, limits))
    if failing:
        return because("held_out_check_failed", gates=[gate.name for gate in failing])
    imputed = fresh.tested.imputed(limits.unparsed_gamma)
    if not (fresh.can_lose(fresh.tested) and fresh.can_lose(imputed)):
        return because("held_out_at_chance")
    return None


def _paired_answers(cell: PerturbCell) -> PairedAnswers:
    """Return the tested model's answers to the originals and variants, with each item's probability
    of a right guess and its cluster.
    """
    return (*cell.tested.pair, cell.chance_items, cell.cluster)


def _and_half_a_drop(sides: PairedAnswers) -> PairedAnswers:
    """Add one item whose accuracy drops from 1 (published wording) to 0.5 (reworded).

    If items are clustered, a whole cluster of average size is added, and every item in it drops by
    half.

    The added item avoids a standard error of zero, which occurs if rewording affects few items and
    a small sample contains none of them. In simulations with 30 held-out items and without the
    added item, 45 % of models without memory dropped significantly more than on the held-out items.
    An added item that drops from 1 to 0 would halve the power with 100 held-out items.
    """
    original, variants, chance, cluster = sides
    size = max(round(cluster.size / np.unique(cluster).size), 1)
    return (
        np.pad(original, ((0, 0), (0, size)), constant_values=1.0),
        np.pad(variants, ((0, 0), (0, size)), constant_values=0.5),
        np.pad(chance, (0, size), mode="mean"),
        np.pad(cluster, (0, size), constant_values=int(cluster.max()) + 1),
    )


def _references(
    cell: PerturbCell, fresh: PerturbCell, limits: PerturbThresholds
) -> tuple[SetDifference | None, int]:
    """Return how much more the references drop on the benchmark than on the held-out items.

    The second value is the number of references that answered both sets of items.
    """
    on_fresh = {w.model: w for w in usable_references(fresh, limits)[0]}
    benchmark_drops, fresh_drops = [], []
    for w in usable_references(cell, limits)[0]:
        if w.model in on_fresh:
            benchmark_drops.append(_drop(w))
            fresh_drops.append(_drop(on_fresh[w.model]))
    if not benchmark_drops:
        return None, 0
    benchmark_drop, fresh_drop = np.mean(benchmark_drops, axis=0), np.mean(fresh_drops, axis=0)
    if min(_units(benchmark_drop, cell.cluster), _units(fresh_drop, fresh.cluster)) < UNITS_MIN:
        return None, 0  # Too few items were answered by all references.
    difference = set_difference((benchmark_drop, fresh_drop), (), (cell.cluster, fresh.cluster))
    return difference, len(benchmark_drops)


def _units(values: FloatArray, cluster: IntArray) -> int:
    """Return the number of clusters that have a value."""
    return int(np.unique(cluster[~np.isnan(values)]).size)


def _drop(wordings: Wordings) -> FloatArray:
    """Return an array of n drops: for each item, the accuracy with the original minus the accuracy
    with the variants.
    """
    o, v = item_means(*wordings.pair)
    return o - v


# The curve is used only if its standard error is at most this multiple of the standard error of the
# comparison with the references. The same limit applies to the held-out items. A curve through
# references of equal ability is too imprecise, and so are few held-out items.
SE_MAX = 2.0


@dataclass(frozen=True)
class Adverse:
    """Hold the p-values of the tests with unparsed answers imputed against the finding.

    Attributes
    ----------
    found_p : float
        `Tests.found_p`, computed with the imputed answers.
    beyond_p, strong_p : float or None
        `Tests.beyond_p` and `Tests.strong_p`, computed with the imputed answers; None if the parsed
        answers show no drop beyond the references.
    """

    found_p: float
    beyond_p: float | None
    strong_p: float | None = None


@dataclass(frozen=True)
class Bracket:
    """Compare the tested model's accuracy on reworded items with the range of its references.

    The references bracket the tested model if some are better and some are worse. Drops of models
    with different accuracies can be compared only on a scale (points, shares or log-odds), and the
    right scale is unknown. With bracketing references, all scales give nearly the same result.

    Attributes
    ----------
    own : float
        Accuracy of the tested model (0-1).
    lowest, highest : float
        Lowest and highest accuracy among the references (0-1).
    margin : float
        How far the tested model's accuracy may lie outside the range of the references (0-1).
    """

    own: float
    lowest: float
    highest: float
    margin: float

    @property
    def holds(self) -> bool:
        """Return whether the tested model's accuracy is within the range of the references, up to
        the margin.
        """
        return self.lowest <= self.own + self.margin and self.highest >= self.own - self.margin


@dataclass(frozen=True)
class Tests:
    """Hold the one-sided p-values on which the decision depends.

    Attributes
    ----------
    exchange : ExchangeResult
        Permutation test whose alternative is that the original wording is answered right more often
        than the other wordings.
    margin : float or None
        Largest drop (0-1) that broken variants could cause.
    broken_p : float or None
        p-value of the test whose alternative is that the drop is larger than `margin`; None if no
        person read a sample of the variants.
    drop_se : float
        Standard error of the drop.
    beyond : tuple of BeyondReference
        The tested model's drop minus the mean drop of the references, on three scales; empty
        without references.
    bracket : Bracket or None
        Comparison of the tested model's accuracy with the range of the references' accuracies.
    family : str
        Model family of the references if all are of one family and the tested model is of another
        family; otherwise "".
    prior : TauPrior or None
        Prior for how much models without memory differ in their loss from rewording; None if its
        scale was set to 0.
    curve : CurveResult or None
        Test of the tested model against ConStat's performance curve, which needs ten references or
        more.
    references : tuple of str
        Names of the references with which the model is compared.
    left_out : tuple of Reason
        The reason for each reference that is left out of the comparison.
    control : FreshControl or None
        Results on held-out items.
    adverse : Adverse or None
        The tests with unparsed answers imputed against the finding; None if all answers were
        parsed, or if there is no finding.
    fall : CommonFall or None
        Test of whether sensitivity to wording explains on which items the model loses; None if the
        answers do not allow this test.
    far : FarBeyond or None
        Test of whether sensitivity to wording explains how much the model loses; None without
        references or without a prior.
    """

    exchange: ExchangeResult
    margin: float | None
    broken_p: float | None
    drop_se: float
    beyond: tuple[BeyondReference, ...]
    bracket: Bracket | None
    family: str
    prior: TauPrior | None
    curve: CurveResult | None
    references: tuple[str, ...]
    left_out: tuple[Reason, ...]
    control: FreshControl | None = None
    adverse: Adverse | None = None
    fall: CommonFall | None = None
    far: FarBeyond | None = None

    @property
    def found_p(self) -> float:
        """Return the p-value of a drop that broken variants cannot explain.

        Returns
        -------
        float
            The larger of two p-values. The first is that of the permutation test. The second tests
            whether the drop is larger than broken variants could cause, and is left out if the
            share of broken variants is unknown.
        """
        return max(self.exchange.pvalue, self.broken_p or 0.0)

    @property
    def curve_counts(self) -> bool:
        """Return whether ConStat's performance curve is precise enough to be used.

        Returns
        -------
        bool
            False if there is no curve, or if the references have such similar accuracies that the
            curve is too imprecise.
        """
        return self.curve is not None and bool(self.curve.delta_se <= SE_MAX * self.beyond[0].se)

    @property
    def beyond_p(self) -> float | None:
        """Return the p-value of a drop beyond that of the references (intersection-union test).

        Returns
        -------
        float or None
            The largest p-value of all tests. Every test must reject, so the p-values need no
            correction. The value is None if the references cannot be compared with the model:

            - there are no references;
            - the references do not bracket the tested model;
            - all references are of one family, and the tested model is of another;
            - the share of broken variants is unknown.
        """
        return max(self.reference_p, self.own_p) if self._comparable else None

    @property
    def strong_p(self) -> float | None:
        """Return the p-value of a drop that sensitivity to wording cannot explain, not even
        sensitivity on hard items alone.

        Returns
        -------
        float or None
            The p-value `beyond_p`, with a stricter test against sensitivity to wording. This test
            compares the drop with that on the held-out items if these items are used. Otherwise it
            considers only the size of the loss.
        """
        return max(self.reference_p, self._own_p(self.far)) if self._comparable else None

    @property
    def plain_p(self) -> float | None:
        """Return the p-value of a drop beyond that of the references, computed without a prior.

        Returns
        -------
        float or None
            The p-value `beyond_p`, but how much models differ is estimated only from the references
            of this run.
        """
        alone = self._reference_p([b.plain.pvalue for b in self.beyond])
        return max(alone, self._own_p(self.fall)) if self._comparable else None

    @property
    def reference_p(self) -> float:
        """Return the p-value of a drop larger than the references' drop, without held-out items.

        This method does not check whether the references can be compared with the tested model.
        """
        return self._reference_p([b.pvalue for b in self.beyond])

    @property
    def _comparable(self) -> bool:
        """Return whether the references can be compared with the tested model."""
        return (
            self.bracket is not None
            and self.bracket.holds
            and not self.family
            and self.broken_p is not None
        )

    @property
    def own_p(self) -> float:
        """Return the p-value of the null hypothesis that sensitivity to wording explains the drop.

        Returns
        -------
        float
            The p-value from the held-out items if they are used. Otherwise the smaller of two
            p-values: `fall` tests on which items the model loses, and `far` tests how much the
            model loses. If the model has learnt all items, `fall` has no power.
        """
        return self._own_p(self.fall, self.far)

    def _own_p(self, *tests: CommonFall | FarBeyond | None) -> float:
        """Return the p-value from the held-out items if they are used; otherwise the smallest
        p-value of `tests`.
        """
        if self.held_out is not None:
            return self.held_out.pvalue
        return min((test.pvalue for test in tests if test is not None), default=1.0)

    @property
    def held_out(self) -> FreshControl | None:
        """Return the results on held-out items if they are used."""
        return self.control if self.control is not None and self.control.used else None

    def _reference_p(self, beyond: list[float]) -> float:
        """Return the largest of three kinds of p-value: `found_p`, those in `beyond`, and that of
        the curve if the curve is used.
        """
        curve = self.curve.pvalue if self.curve is not None and self.curve_counts else 0.0
        return max(self.found_p, *beyond, curve)


@dataclass(frozen=True)
class Grounds:
    """Hold the statistics on which the verdict depends. Accuracies and drops are 0-1.

    Attributes
    ----------
    tests : Tests
        Results of the tests over parsed answers, with their p-values.
    drop : WordingDrop
        The drop with its interval, and the largest drop that is compatible with the data.
    equivalence : Equivalence
        Test whose alternative is that the drop is smaller than the smallest drop that matters. Of
        two results, the less significant is used: one over parsed answers, and one in which
        unparsed answers are imputed in favour of a drop (at the odds ratio `unparsed_gamma`).
    largest_worst : float or None
        The largest drop if unparsed answers are imputed in the worst case; None if all answers were
        parsed.
    detectable : float
        The smallest drop that this design detects, beyond what broken variants could cause; NaN if
        no answer varies.
    beside : float or None
        p-value of the non-inferiority test of `beside_references`; None without references. A model
        is cleared only if this test is significant too, since easier rewordings can hide memory.
    """

    tests: Tests
    drop: WordingDrop
    equivalence: Equivalence
    largest_worst: float | None
    detectable: float
    beside: float | None


@dataclass(frozen=True)
class Evidence(Grounds):
    """Hold all statistics of one cell: those that determine the verdict, and those that only the
    report shows.

    Attributes
    ----------
    noise : RunNoise
        How much the answers to the original questions differ between runs.
    flips : float
        Probability that two wordings of an item disagree.
    article : ArticleResult
        Result by the rules of the source article.
    alarms : FalseAlarms or None
        How often the article's rules are wrong on simulated models without memory that resemble the
        tested model. None if no such model can be simulated.
    items : ItemLevel
        Results for each item.
    chance : float
        Accuracy of guessing.
    """

    noise: RunNoise
    flips: float
    article: ArticleResult
    alarms: FalseAlarms | None
    items: ItemLevel
    chance: float


_WORST = float("inf")


def run_tests(
    cell: PerturbCell,
    limits: PerturbThresholds,
    *,
    rng: np.random.Generator,
    n_draws: int = N_CURVES,
) -> Tests:
    """Run the tests of one cell over parsed answers, and again with unparsed answers imputed
    against a finding.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references.
    limits : PerturbThresholds
        Thresholds of the perturbation audit.
    rng : numpy.random.Generator
        Source of randomness.
    n_draws : int
        Draws of ConStat's curve.

    Returns
    -------
    Tests
        The results of the tests, with their p-values.

    Raises
    ------
    DataError
        If no item has an answer to both an original and a variant.
    """
    used, left_out = usable_references(cell, limits)
    cell = replace(cell, references=used)
    tests = replace(_tests(cell, limits, rng, n_draws), left_out=left_out)
    imputed = adverse(cell, tests, limits, limits.unparsed_gamma, rng, n_draws)
    return replace(tests, adverse=imputed)


def adverse(
    cell: PerturbCell,
    tests: Tests,
    limits: PerturbThresholds,
    gamma: float,
    rng: np.random.Generator,
    n_draws: int = N_CURVES,
) -> Adverse | None:
    """Run the tests with unparsed answers imputed against the finding.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references.
    tests : Tests
        The tests over parsed answers.
    limits : PerturbThresholds
        Thresholds of the perturbation audit.
    gamma : float
        Odds ratio of the imputation.
    rng : numpy.random.Generator
        Source of randomness.
    n_draws : int
        Draws of ConStat's curve.

    Returns
    -------
    Adverse or None
        p-values with imputed answers; None if all answers were parsed, or if there is no finding.
    """
    usable = []
    for wordings in cell.references:
        if wordings.model in tests.references:
            usable.append(wordings)
    cell = replace(cell, references=tuple(usable))
    if tests.found_p > limits.alpha:
        return None
    imputed = against_drop(cell, gamma)
    if imputed is None:
        return None
    if tests.beyond_p is None or tests.beyond_p > limits.alpha:
        # Without a finding beyond the references, the slow curve is not needed.
        imputed = replace(imputed, references=())
    repeated = _tests(imputed, limits, rng, n_draws, tests.control)
    repeated = replace(repeated, bracket=tests.bracket, family=tests.family)
    if not repeated.beyond:
        return Adverse(repeated.found_p, None, None)
    return Adverse(repeated.found_p, repeated.beyond_p, repeated.strong_p)


def _tests(
    cell: PerturbCell,
    limits: PerturbThresholds,
    rng: np.random.Generator,
    n_draws: int,
    as_read: FreshControl | None = None,
) -> Tests:
    """Run the tests on one version of the answers, parsed or imputed, against every reference."""
    pair, chance, cluster = cell.tested.pair, cell.chance_items, cell.cluster
    exchange = exchange_test(*pair, cluster if cell.clustered else None, rng=rng)
    o, v = item_means(*pair)
    margin = broken_p = None
    se = mean_of(o - v, cluster).se
    if cell.broken is not None:
        broken_p, excess = above_broken(*pair, chance, cluster, cell.broken.upper)
        se = excess.se
        margin = cell.broken.upper * max(float(np.nanmean(o - chance)), 0.0)
    pairs = [w.pair for w in cell.references]
    names = tuple(w.model for w in cell.references)
    prior = limits.prior
    beyond: tuple[BeyondReference, ...] = ()
    bracket = curve = far = None
    if pairs:
        beyond = on_scales(pair, pairs, chance, cluster, prior=prior)
        reworded = [float(np.nanmean(item_means(*each)[1])) for each in pairs]
        bracket = Bracket(float(np.nanmean(v)), min(reworded), max(reworded), limits.bracket_margin)
        if prior is not None:
            tau = max(prior.scale, *(float(np.nan_to_num(on_scale.tau)) for on_scale in beyond))
            far = far_beyond(pair, pairs, chance, cluster, tau)
    if len(pairs) >= limits.curve_references_min:
        curve = reference_curve(pair, pairs, chance, cluster, n_draws=n_draws, rng=rng)
    control = fresh_control(cell, limits, as_read)
    if as_read is None and control is not None and beyond:
        control_se, references_se = control.beyond[0].se if control.used else 0.0, beyond[0].se
        if control_se > SE_MAX * references_se:  # The control is less precise than the references.
            control = replace(
                control, why=because("held_out_vague", se=control_se, references=references_se)
            )
    return Tests(
        exchange=exchange,
        margin=margin,
        broken_p=broken_p,
        drop_se=se,
        beyond=beyond,
        bracket=bracket,
        family=one_family(cell.tested.model, names, cell.families),
        prior=prior,
        curve=curve,
        references=names,
        left_out=(),
        control=control,
        fall=common_fall(pair, pairs, cluster),
        far=far,
    )


def measure(
    cell: PerturbCell,
    limits: PerturbThresholds,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> Evidence:
    """Measure every statistic of one cell.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references.
    limits : PerturbThresholds
        Thresholds of the perturbation audit.
    rng : numpy.random.Generator
        Source of randomness.
    n_resamples : int
        Resamples for the interval of the drop.

    Returns
    -------
    Evidence
        All statistics: those on which the verdict depends, and those that only the report shows.
    """
    tests = run_tests(cell, limits, rng=rng)
    original, variants = cell.tested.pair
    decisive = grounds(cell, tests, limits, rng=rng, n_resamples=n_resamples)
    flips = wording_flips(variants, original)
    return Evidence(
        **vars(decisive),
        noise=run_noise(original, cell.cluster),
        flips=flips,
        article=article_result(original, variants),
        alarms=clean_alarms(decisive.drop.n, decisive.drop.variants, variants, flips, rng),
        items=item_level(cell, limits.alpha),
        chance=cell.chance,
    )


def grounds(
    cell: PerturbCell,
    tests: Tests,
    limits: PerturbThresholds,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> Grounds:
    """Measure the statistics on which the verdict depends, given the results of the tests.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references.
    tests : Tests
        Results of the tests over parsed answers, with their p-values.
    limits : PerturbThresholds
        Thresholds of the perturbation audit.
    rng : numpy.random.Generator
        Source of randomness.
    n_resamples : int
        Resamples for the interval of the drop.

    Returns
    -------
    Grounds
        The input of `decide`.
    """
    drop = wording_drop(*cell.tested.pair, cell.cluster, n_resamples=n_resamples, rng=rng)
    cleared, largest = no_larger(cell, limits, limits.unparsed_gamma)
    beside = beside_references(cell, limits)
    worst = no_larger(cell, limits, _WORST)[1] if for_drop(cell, _WORST) is not None else None
    detectable = _detectable(tests, cell, limits)
    return Grounds(tests, replace(drop, largest=largest), cleared, worst, detectable, beside)


def no_larger(
    cell: PerturbCell, limits: PerturbThresholds, gamma: float
) -> tuple[Equivalence, float]:
    """Test whether the drop is smaller than the smallest drop that matters, and return its upper
    limit.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references.
    limits : PerturbThresholds
        The smallest effect that matters.
    gamma : float
        Odds ratio at which unparsed answers are imputed for a drop.

    Returns
    -------
    tuple of (Equivalence, float)
        The test, and the largest drop that is compatible with the data. Both are computed over
        parsed answers and with imputed answers; the larger p-value and the larger drop are
        returned.
    """
    effect = limits.effect_of_interest
    drop = mean_of(_drop(cell.tested), cell.cluster)
    cleared, largest = equivalence(drop, effect), largest_drop(drop)
    imputed = for_drop(cell, gamma)
    if imputed is not None:
        drop = mean_of(_drop(imputed), cell.cluster)
        worst = max(cleared.p_no_larger, equivalence(drop, effect).p_no_larger)
        cleared = replace(cleared, p_no_larger=worst, pvalue=max(worst, cleared.pvalue))
        largest = max(largest, largest_drop(drop))
    return cleared, largest


def beside_references(
    cell: PerturbCell, limits: PerturbThresholds, gamma: float | None = None
) -> float | None:
    """Return the p-value of a non-inferiority test against the references.

    The alternative of the one-sided test: the tested model's drop exceeds the references' drop by
    less than the smallest effect that matters.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references.
    limits : PerturbThresholds
        The smallest effect that matters.
    gamma : float, optional
        Odds ratio at which unparsed answers are imputed in favour of a drop. If None, only parsed
        answers are used.

    Returns
    -------
    float or None
        The p-value; None without usable references.
    """
    pairs = [w.pair for w in usable_references(cell, limits)[0]]
    if not pairs:
        return None
    readings = [cell.tested]
    imputed = None if gamma is None else for_drop(cell, gamma)
    if imputed is not None:
        readings.append(imputed)
    options = cell.chance_items, cell.cluster, limits.effect_of_interest
    return max(no_larger_beside(reading.pair, pairs, *options) for reading in readings)


def panel_pvalues(panel: Sequence[Grounds | None]) -> list[tuple[float | None, ...]]:
    """Return the p-values of each cell after Holm's correction over the panel.

    Parameters
    ----------
    panel : sequence of Grounds or None
        The statistics of each cell.

    Returns
    -------
    list of tuple
        (`found_p`, `beyond_p`, `plain_p`) of each cell; None for a p-value that the cell lacks.

    Notes
    -----
    Holm's correction is made separately for each of the three p-values. The family-wise error rate
    over the panel is therefore controlled for each of three findings: a drop, a drop beyond the
    references, and a drop beyond the references without the prior.
    """
    corrected = []
    for name in ("found_p", "beyond_p", "plain_p"):
        (adjusted,) = holm_rows([[getattr(e.tests, name) if e else None for e in panel]])
        corrected.append(adjusted)
    return list(zip(*corrected, strict=True))


def _detectable(tests: Tests, cell: PerturbCell, limits: PerturbThresholds) -> float:
    """Return the smallest drop that the tests detect at the configured level and power.

    The value is NaN if no drop can be significant.
    """
    units, wordings = tests.exchange.units, len(cell.tested.variants)
    if not tests.drop_se > 0 or (wordings + 1.0) ** -units > limits.alpha:
        return float("nan")
    errors = float(scipy.special.stdtrit(units - 1, [1 - limits.alpha, limits.power]).sum())
    return max((tests.margin or 0.0) + errors * tests.drop_se, 0.0)


def clean_alarms(
    n: int,
    accuracy: float,
    variants: FloatArray,
    flips: float,
    rng: np.random.Generator,
    rule: Rule = ARTICLE,
) -> FalseAlarms | None:
    """Return how often the source article's rule is wrong on simulated models without memory that
    resemble the tested model.

    Parameters
    ----------
    n : int
        Number of items.
    accuracy : float
        Accuracy of the simulated models on variants (0-1).
    variants : array (N, n)
        Answers to the variants.
    flips : float
        Probability that two wordings of an item disagree.
    rng : numpy.random.Generator
        Source of randomness.
    rule : Rule
        The rule of the article.

    Returns
    -------
    FalseAlarms or None
        The rates of false positives; None if no such model can be simulated.
    """
    answered = int(np.median(np.sum(~np.isnan(variants), axis=0)))
    ceiling = 2 * accuracy * (1 - accuracy)
    if answered < 1 or not 0 < flips < ceiling:  # If `flips` is NaN, this condition is also true.
        return None
    return false_alarms(n, answered, accuracy, flips, rng=rng, rule=rule)
