"""Measure the statistics on which the verdict on one cell (one model on one benchmark) depends.

Analysis and calibration both call `run_tests`. Reworded held-out items are a control: they show
what rewording costs this model without memory. The control can prevent the verdict
`drop_beyond_reference`, but never cause it. If the rewordings of the held-out items are easier than
those of the benchmark, the result looks like memory. The answers of one model cannot show which of
the two explanations is right.
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
    Asked,
    BeyondFresh,
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
        The drop on the benchmark minus the drop predicted from the held-out items plus one item
        that drops by half, on three scales. Empty if the control is not used.
    references : SetDifference or None
        Drop on the benchmark minus drop on the held-out items, for the mean of the references that
        answered both sets of items. The difference shows whether the rewordings of the two sets are
        equally hard.
    reference_models : int
        Number of these references.
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
    def asked(self) -> bool:
        """Return whether the control is used."""
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
        return max(b.pvalue for b in self.beyond) if self.asked else 1.0


def fresh_control(
    cell: PerturbCell, limits: PerturbThresholds, as_read: FreshControl | None = None
) -> FreshControl | None:
    """Measure the control of one cell.

    Parameters
    ----------
    cell : PerturbCell
        The cell with its held-out items.
    limits : PerturbThresholds
        The thresholds.
    as_read : FreshControl, optional
        The control computed from parsed answers only, if `cell` has imputed answers. The imputed
        control is used only if the parsed control was used.

    Returns
    -------
    FreshControl or None
        The control; None without held-out items.
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
        sides = _asked(cell), _and_half_a_drop(_asked(fresh))
        beyond = tuple(beyond_fresh(*sides, scale=scale) for scale in SCALES)
    both = _references(cell, fresh, limits)
    return FreshControl(
        fresh.benchmark, n, original, variants, original - variants, beyond, *both, why
    )


def _unfit(
    cell: PerturbCell, fresh: PerturbCell, n: int, units: int, limits: PerturbThresholds
) -> Reason | None:
    """Return why the held-out items cannot serve as a control; None if they can."""
    if _units(_drop(cell.tested), cell.cluster) < 2:
        return because("held_out_one_group")
    if units < UNITS_MIN:
        return because("held_out_few", n=n, units=units, least=UNITS_MIN)
    failing = failed(all_gates(fresh, limits))
    if failing:
        return because("held_out_check_failed", gates=[gate.name for gate in failing])
    held = fresh.tested.held(limits.unparsed_gamma)
    if not (fresh.can_lose(fresh.tested) and fresh.can_lose(held)):
        return because("held_out_at_chance")
    return None


def _asked(cell: PerturbCell) -> Asked:
    """Return the tested model's answers, with the chance and the cluster of each item."""
    return (*cell.tested.pair, cell.chance_items, cell.cluster)


def _and_half_a_drop(sides: Asked) -> Asked:
    """Add an item that is right as published and half right when reworded. If items are clustered,
    add a cluster of such items, with the average number of items.

    If rewording affects few items, a small sample may contain no affected item, and its standard
    error is then zero. Without the added item, 45 % of clean models exceeded the drop of 30
    held-out items. An item that drops from right to wrong would halve the power of 100 held-out
    items.
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
    """Return the references' mean drop on the benchmark minus their mean drop on the held-out
    items, and the number of references that answered both sets of items.
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
    """Return, for each of the n items, the accuracy with the original minus the accuracy with the
    variants.
    """
    o, v = item_means(*wordings.pair)
    return o - v


# The curve and the held-out items are used only if their standard error is at most this number
# times the standard error of the comparison with the references. A curve through references of
# equal ability is too imprecise, and so is a small number of held-out items.
SE_MAX = 2.0


@dataclass(frozen=True)
class Adverse:
    """Hold the p-values of the tests with unparsed answers imputed against the finding.

    Attributes
    ----------
    found_p : float
        `Tests.found_p` of the imputed answers.
    beyond_p, strong_p : float or None
        `Tests.beyond_p` and `Tests.strong_p` of the imputed answers; None if the parsed answers
        show no drop beyond reference.
    """

    found_p: float
    beyond_p: float | None
    strong_p: float | None = None


@dataclass(frozen=True)
class Bracket:
    """Compare the accuracy of the tested model with the range of its references, on the reworded
    items.

    Drops of models of different accuracy can be compared only on a chosen scale (points, shares or
    log-odds), and the right scale is unknown. If some references are better than the tested model
    and some are worse, all scales give nearly the same result.

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
        Permutation test that the original is right more often than its other wordings.
    margin : float or None
        Largest drop (0-1) that broken variants could cause.
    broken_p : float or None
        p-value of a drop larger than `margin`; None if no person read a sample of the variants.
    drop_se : float
        Standard error of the drop.
    beyond : tuple of BeyondReference
        The model's drop minus the drop of the references, on three scales; empty without
        references.
    bracket : Bracket or None
        Comparison of the tested model's accuracy with the range of the references' accuracies.
    family : str
        Model family of the references, if all references are of one family and the tested model is
        of another family; else "".
    prior : TauPrior or None
        Prior for the differences between clean models; None if its scale was set to 0.
    curve : CurveResult or None
        Test against ConStat's curve, with ten references or more.
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
        """Return the p-value of a drop that counts.

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
        """Return whether the curve is precise enough to be used.

        Returns
        -------
        bool
            False if there is no curve, or if all references have about the same accuracy.
        """
        return self.curve is not None and bool(self.curve.delta_se <= SE_MAX * self.beyond[0].se)

    @property
    def beyond_p(self) -> float | None:
        """Return the p-value of a drop beyond reference.

        Returns
        -------
        float or None
            The largest of the p-values of all tests. Every test must reject (intersection-union),
            so no correction is needed. None if the references cannot be compared with the model.
            This is so without references, if the references do not bracket the tested model or are
            all of one other family, or if the share of broken variants is unknown.
        """
        return max(self.reference_p, self.own_p) if self._comparable else None

    @property
    def strong_p(self) -> float | None:
        """Return the p-value of a drop that no sensitivity to wording explains, not even on hard
        items alone.

        Returns
        -------
        float or None
            `beyond_p` with a stricter test against sensitivity to wording. The test uses the
            held-out items if they are used, and otherwise only the size of the loss.
        """
        return max(self.reference_p, self._own_p(self.far)) if self._comparable else None

    @property
    def plain_p(self) -> float | None:
        """Return the p-value of a drop beyond reference without the prior of how much models
        differ.

        Returns
        -------
        float or None
            `beyond_p`, with the differences between models estimated only from the references of
            this run.
        """
        alone = self._reference_p([b.plain.pvalue for b in self.beyond])
        return max(alone, self._own_p(self.fall)) if self._comparable else None

    @property
    def reference_p(self) -> float:
        """Return the p-value of a drop beyond that of the references. Held-out items are not used,
        and it is not checked whether the references can be compared with the model.
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
        """Return the p-value against the explanation that the model is sensitive to wording.

        Returns
        -------
        float
            The p-value of the held-out items if they are used. Otherwise the smaller of two
            p-values: `fall` tests on which items the model loses, and `far` tests how much it
            loses. If a model has learnt all items, `fall` shows nothing.
        """
        return self._own_p(self.fall, self.far)

    def _own_p(self, *tests: CommonFall | FarBeyond | None) -> float:
        """Return the p-value of the held-out items if they are used, or else the smallest p-value
        of `tests`.
        """
        if self.held_out is not None:
            return self.held_out.pvalue
        return min((test.pvalue for test in tests if test is not None), default=1.0)

    @property
    def held_out(self) -> FreshControl | None:
        """Return the results on held-out items if they are used."""
        return self.control if self.control is not None and self.control.asked else None

    def _reference_p(self, beyond: list[float]) -> float:
        """Return the largest of `found_p`, the p-values `beyond`, and that of the curve if used."""
        curve = self.curve.pvalue if self.curve is not None and self.curve_counts else 0.0
        return max(self.found_p, *beyond, curve)


@dataclass(frozen=True)
class Grounds:
    """Hold the statistics that `decide` reads. Accuracies and drops are 0-1.

    Attributes
    ----------
    tests : Tests
        The p-values.
    drop : WordingDrop
        The drop with its interval, and the largest drop that is compatible with the data.
    equivalence : Equivalence
        Test of whether the drop is smaller than the smallest drop that matters. This test and the
        largest drop also hold if unparsed answers are imputed in favour of a drop at the odds ratio
        `unparsed_gamma`.
    largest_worst : float or None
        The largest drop if unparsed answers are imputed in the worst case; None if all answers were
        parsed.
    detectable : float
        The smallest drop that this design detects, beyond what broken variants could cause; NaN if
        no answer varies.
    beside : float or None
        p-value of the test that the drop exceeds that of the references by less than a drop that
        matters. A model is cleared only if this test is significant too, since easier rewordings
        hide memory. None without references.
    """

    tests: Tests
    drop: WordingDrop
    equivalence: Equivalence
    largest_worst: float | None
    detectable: float
    beside: float | None


@dataclass(frozen=True)
class Evidence(Grounds):
    """Hold the statistics that `decide` reads, and those that only the report shows.

    Attributes
    ----------
    noise : RunNoise
        How much the answers differ between runs of the original.
    flips : float
        Probability that two wordings of an item disagree.
    article : ArticleResult
        Result by the rules of the source article.
    alarms : FalseAlarms or None
        How often the rules of the article are wrong on simulated clean models like this one; None
        if no such model can be simulated.
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
    """Run the tests of one cell twice: over parsed answers, and with unparsed answers imputed
    against a finding.

    Parameters
    ----------
    cell : PerturbCell
        The answers.
    limits : PerturbThresholds
        The thresholds.
    rng : numpy.random.Generator
        Source of randomness.
    n_draws : int
        Draws of ConStat's curve.

    Returns
    -------
    Tests
        The p-values.

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
        The answers.
    tests : Tests
        The tests over parsed answers.
    limits : PerturbThresholds
        The thresholds.
    gamma : float
        Odds ratio of the imputation.
    rng : numpy.random.Generator
        Source of randomness.
    n_draws : int
        Draws of ConStat's curve.

    Returns
    -------
    Adverse or None
        None if all answers were parsed, or if there is no finding.
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
        control_se, references_se = control.beyond[0].se if control.asked else 0.0, beyond[0].se
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
        The answers.
    limits : PerturbThresholds
        The thresholds.
    rng : numpy.random.Generator
        Source of randomness.
    n_resamples : int
        Resamples for the interval of the drop.

    Returns
    -------
    Evidence
        The statistics that decide, and those that only the report shows.
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
    """Measure the statistics that `decide` reads. The tests of the cell have been run before.

    Parameters
    ----------
    cell : PerturbCell
        The answers.
    tests : Tests
        The p-values.
    limits : PerturbThresholds
        The thresholds.
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
    """Test whether the data exclude a drop that matters, and compute the largest drop that is
    compatible with the data.

    Parameters
    ----------
    cell : PerturbCell
        The answers.
    limits : PerturbThresholds
        The smallest effect that matters.
    gamma : float
        Odds ratio at which unparsed answers are imputed for a drop.

    Returns
    -------
    tuple of (Equivalence, float)
        The equivalence test and the largest drop. Each is the weaker of two results, one over
        parsed answers and one with imputed answers.
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
    """Return the p-value of the test that the drop exceeds that of the references by less than a
    drop that matters.

    Parameters
    ----------
    cell : PerturbCell
        The answers.
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
    Each of the three p-values is corrected separately. So three rates of false findings are
    controlled over the panel: of drops, of drops beyond reference, and of drops beyond reference
    without the prior.
    """
    corrected = []
    for name in ("found_p", "beyond_p", "plain_p"):
        (adjusted,) = holm_rows([[getattr(e.tests, name) if e else None for e in panel]])
        corrected.append(adjusted)
    return list(zip(*corrected, strict=True))


def _detectable(tests: Tests, cell: PerturbCell, limits: PerturbThresholds) -> float:
    """Return the smallest drop that the tests detect at the configured level and power; NaN if no
    drop can be significant.
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
    """Apply the rule of the source article to simulated clean models like this one.

    Parameters
    ----------
    n : int
        Number of items.
    accuracy : float
        Accuracy of the simulated models on the variants.
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
