"""Measure the statistics that a verdict on one cell rests on; analysis and calibration call
`run_tests`.

Held-out items are a control: they show what the same rewording costs this model without memory. The
control can veto a `drop_beyond_reference`, but never create one. If the rewordings of the held-out
items are easier, the result looks like memory, and one model cannot separate the two.
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

# Fewest independent held-out items; with fewer, a t-test of mostly unchanged items does not keep
# its level.
UNITS_MIN = 30


@dataclass(frozen=True)
class FreshControl:
    """The tested model on held-out items. Accuracies and drops are 0-1; None if nothing can be
    compared.

    n: items that count. beyond: on three scales, the drop on the benchmark minus the drop that the
    held-out items, and half a drop more, predict; empty if it was not computed. references: for the
    mean of the models that answered both sets (`reference_models`), the drop on the benchmark minus
    that on the held-out items, which shows whether the rewordings are equally hard; None without
    such models. why: reason why the control is not used; None if it is used.
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
        """Return p of a drop beyond the held-out items' on all scales (intersection-union); 1 if
        not used.
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
        The control as parsed, if answers are imputed here; it decided whether the control is used.

    Returns
    -------
    FreshControl or None
        None without held-out items.
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
    """Return why held-out items cannot carry the comparison; None if they can."""
    if _units(_drop(cell.tested), cell.cluster) < 2:
        return because("held_out_one_group")
    if units < UNITS_MIN:
        return because("held_out_few", n=n, units=units, least=UNITS_MIN)
    if broken := failed(all_gates(fresh, limits)):
        return because("held_out_check_failed", gates=[g.name for g in broken])
    held = fresh.tested.held(limits.unparsed_gamma)
    if not (fresh.can_lose(fresh.tested) and fresh.can_lose(held)):
        return because("held_out_at_chance")
    return None


def _asked(cell: PerturbCell) -> Asked:
    return (*cell.tested.pair, cell.chance_items, cell.cluster)


def _and_half_a_drop(sides: Asked) -> Asked:
    """Add one item, or group of usual size, that loses half under the rewordings.

    If few items drop, a small sample may hold none of them, and its error is then zero: 45 % of
    clean models were beyond 30 such items. A whole drop more would halve the power of 100 held-out
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
    on_fresh = {w.model: w for w in usable_references(fresh, limits)[0]}
    on_benchmark = []
    for w in usable_references(cell, limits)[0]:
        if w.model in on_fresh:
            on_benchmark.append(w)
    if not on_benchmark:
        return None, 0
    benchmark_drop = np.mean([_drop(w) for w in on_benchmark], axis=0)
    fresh_drop = np.mean([_drop(on_fresh[w.model]) for w in on_benchmark], axis=0)
    if min(_units(benchmark_drop, cell.cluster), _units(fresh_drop, fresh.cluster)) < UNITS_MIN:
        return None, 0  # all references answered too few items
    difference = set_difference((benchmark_drop, fresh_drop), (), (cell.cluster, fresh.cluster))
    return difference, len(on_benchmark)


def _units(values: FloatArray, cluster: IntArray) -> int:
    return int(np.unique(cluster[~np.isnan(values)]).size)


def _drop(wordings: Wordings) -> FloatArray:
    o, v = item_means(*wordings.pair)
    return o - v


# A further test is not used if its standard error is larger than so many errors of the difference
# in differences. A curve through references of equal ability is not informative, and neither are a
# few held-out items.
SE_MAX = 2.0


@dataclass(frozen=True)
class Adverse:
    """p-values of the tests with unparsed answers imputed against the finding.

    beyond_p and strong_p are None if nothing is beyond reference as parsed.
    """

    found_p: float
    beyond_p: float | None
    strong_p: float | None = None


@dataclass(frozen=True)
class Bracket:
    """Accuracies (0-1) on the reworded items, of the tested model and its lowest and highest
    reference.

    The references may miss the model by `margin`. A drop can be compared with that of models of
    another accuracy only on some scale, and no scale is known to be right. If some reference is no
    better than the tested model and some is no worse, all scales nearly agree.
    """

    own: float
    lowest: float
    highest: float
    margin: float

    @property
    def holds(self) -> bool:
        """Return whether the references bracket the tested model."""
        return self.lowest <= self.own + self.margin and self.highest >= self.own - self.margin


@dataclass(frozen=True)
class Tests:
    """The p-values that decide, all one-sided.

    exchange: whether the original is right more often than its other wordings. broken_p: whether
    the drop is larger than the upper limit of broken variants explains (`margin`, 0-1); None if no
    person read a sample. drop_se: standard error of the drop. beyond: difference in differences on
    three scales, empty without references. bracket: of these references. family: the one family of
    all references if the tested model is of another, else empty. prior: of how much models differ,
    None if it was set to 0. curve: from ten references on.

    left_out: why some reference models are not compared. control: None without held-out items.
    adverse: with unparsed answers imputed against the finding; None if all were parsed, or without
    a finding. fall: whether a model that is sensitive to wording would answer so; None if the
    answers cannot show it. far: whether it would lose so much; None without references, or without
    a prior.
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
        """Return p of a drop that counts: the permutation test, and more than broken variants
        explain, if known.
        """
        return max(self.exchange.pvalue, self.broken_p or 0.0)

    @property
    def curve_counts(self) -> bool:
        """Return whether the curve is precise enough; it is not if the references are all about
        equally good.
        """
        return self.curve is not None and bool(self.curve.delta_se <= SE_MAX * self.beyond[0].se)

    @property
    def beyond_p(self) -> float | None:
        """Return p of a drop beyond reference.

        Every test must reject (intersection-union, so no correction is needed). None without
        references, with references that do not bracket the tested model or are all of one other
        family, or if the share of broken variants is unknown.
        """
        return max(self.reference_p, self.own_p) if self._asked else None

    @property
    def strong_p(self) -> float | None:
        """Return `beyond_p` against every model that is sensitive to wording, on hard items alone
        too.

        Reworded held-out items decide if they are used, else the size of the loss.
        """
        return max(self.reference_p, self._own_p(self.far)) if self._asked else None

    @property
    def plain_p(self) -> float | None:
        """Return `beyond_p` without the prior, from the differences among the run's own
        references."""
        alone = self._reference_p([b.plain.pvalue for b in self.beyond])
        return max(alone, self._own_p(self.fall)) if self._asked else None

    @property
    def reference_p(self) -> float:
        """Return p against the references without the held-out items, whether or not the references
        are fit.
        """
        return self._reference_p([b.pvalue for b in self.beyond])

    @property
    def _asked(self) -> bool:
        return (
            self.bracket is not None
            and self.bracket.holds
            and not self.family
            and self.broken_p is not None
        )

    @property
    def own_p(self) -> float:
        """Return p against a model that is sensitive to wording.

        Held-out items decide if they are used. Else it is judged by which items the model loses, or
        by how much, as the items show nothing about a model that has learnt all of them.
        """
        return self._own_p(self.fall, self.far)

    def _own_p(self, *ways: CommonFall | FarBeyond | None) -> float:
        if self.held_out is not None:
            return self.held_out.pvalue
        return min((test.pvalue for test in ways if test is not None), default=1.0)

    @property
    def held_out(self) -> FreshControl | None:
        """Return the held-out items if they were run and are used."""
        return self.control if self.control is not None and self.control.asked else None

    def _reference_p(self, beyond: list[float]) -> float:
        curve = self.curve.pvalue if self.curve is not None and self.curve_counts else 0.0
        return max(self.found_p, *beyond, curve)


@dataclass(frozen=True)
class Grounds:
    """Hold what `decide` reads, apart from the gates. Accuracies and drops are 0-1.

    equivalence and the largest drop hold with unparsed answers imputed for a drop too (odds of
    `unparsed_gamma`). largest_worst: that drop in the worst case of unparsed answers; None if all
    were parsed. detectable: the smallest drop above broken variants that this design detects; NaN
    if nothing varies. beside: p for "no drop that matters beyond the references'", which a
    clearance requires too, as easier rewordings hide memory; None without references.
    """

    tests: Tests
    drop: WordingDrop
    equivalence: Equivalence
    largest_worst: float | None
    detectable: float
    beside: float | None


@dataclass(frozen=True)
class Evidence(Grounds):
    """The grounds of a decision, and what the report shows in addition.

    flips: chance that two wordings of an item disagree. alarms: the article's rules on clean models
    like this one; None if no such model can be simulated.
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
    """Run the tests of one cell.

    Parameters
    ----------
    cell : PerturbCell
        The answers.
    limits : PerturbThresholds
        The thresholds.
    rng : Generator
        Source of randomness.
    n_draws : int
        Draws of ConStat's curve.

    Returns
    -------
    Tests
        As parsed, and with unparsed answers imputed against a finding.

    Raises
    ------
    DataError
        If no item has an answer to both an original and a variant.
    """
    used, left_out = usable_references(cell, limits)
    cell = replace(cell, references=used)
    tests = replace(_tests(cell, limits, rng, n_draws), left_out=left_out)
    held = adverse(cell, tests, limits, limits.unparsed_gamma, rng, n_draws)
    return replace(tests, adverse=held)


def adverse(
    cell: PerturbCell,
    tests: Tests,
    limits: PerturbThresholds,
    gamma: float,
    rng: np.random.Generator,
    n_draws: int = N_CURVES,
) -> Adverse | None:
    """Test with unparsed answers imputed against the finding.

    Parameters
    ----------
    cell : PerturbCell
        The answers.
    tests : Tests
        The tests as parsed.
    limits : PerturbThresholds
        The thresholds.
    gamma : float
        Odds ratio of the imputation.
    rng : Generator
        Source of randomness.
    n_draws : int
        Draws of ConStat's curve.

    Returns
    -------
    Adverse or None
        None if all answers were parsed, or without a finding.
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
    held = _tests(imputed, limits, rng, n_draws, tests.control)
    held = replace(held, bracket=tests.bracket, family=tests.family)
    if not held.beyond:
        return Adverse(held.found_p, None, None)
    return Adverse(held.found_p, held.beyond_p, held.strong_p)


def _tests(
    cell: PerturbCell,
    limits: PerturbThresholds,
    rng: np.random.Generator,
    n_draws: int,
    as_read: FreshControl | None = None,
) -> Tests:
    """Run the tests of one reading of the answers against every reference. `as_read` is the
    argument of `fresh_control`.
    """
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
        if control_se > SE_MAX * references_se:  # the control is less precise than the references
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
    rng : Generator
        Source of randomness.
    n_resamples : int
        Resamples of the drop's interval.

    Returns
    -------
    Evidence
        The grounds of a decision and the descriptive statistics.
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
    """Measure what decides in one cell, given its tests.

    Parameters
    ----------
    cell : PerturbCell
        The answers.
    tests : Tests
        Its tests.
    limits : PerturbThresholds
        The thresholds.
    rng : Generator
        Source of randomness.
    n_resamples : int
        Resamples of the drop's interval.

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
    """Test whether a drop that matters is refuted, and find the largest that is not.

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
        The weaker of both readings: as parsed, and with imputed answers.
    """
    effect = limits.effect_of_interest
    read = mean_of(_drop(cell.tested), cell.cluster)
    unread = for_drop(cell, gamma)
    cleared, largest = equivalence(read, effect), largest_drop(read)
    if unread is not None:
        held = mean_of(_drop(unread), cell.cluster)
        worst = max(cleared.p_no_larger, equivalence(held, effect).p_no_larger)
        cleared = replace(cleared, p_no_larger=worst, pvalue=max(worst, cleared.pvalue))
        largest = max(largest, largest_drop(held))
    return cleared, largest


def beside_references(
    cell: PerturbCell, limits: PerturbThresholds, gamma: float | None = None
) -> float | None:
    """Return p of "no drop that matters beyond the references'".

    Parameters
    ----------
    cell : PerturbCell
        The answers.
    limits : PerturbThresholds
        The smallest effect that matters.
    gamma : float, optional
        Odds ratio at which unparsed answers are imputed for a drop; as parsed if None.

    Returns
    -------
    float or None
        None without usable references.
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
    """Return (found, beyond, plain) p-values of each cell after Holm over the panel.

    Parameters
    ----------
    panel : sequence of Grounds or None
        One for each cell.

    Returns
    -------
    list of tuple
        None for a p-value that the cell lacks.

    Notes
    -----
    There are two families: that no cell is said to lose points by chance, and that none is called a
    drop beyond reference by chance. The latter has one p with the prior of how much models differ,
    and one without.
    """
    corrected = []
    for name in ("found_p", "beyond_p", "plain_p"):
        (adjusted,) = holm_rows([[getattr(e.tests, name) if e else None for e in panel]])
        corrected.append(adjusted)
    return list(zip(*corrected, strict=True))


def _detectable(tests: Tests, cell: PerturbCell, limits: PerturbThresholds) -> float:
    """Return (t_alpha + t_power) standard errors plus the margin; NaN if nothing varies or no test
    can reject.
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
    """Apply the article's rule to simulated clean models like this one.

    Parameters
    ----------
    n : int
        Items.
    accuracy : float
        Accuracy under its variants.
    variants : array (N, n)
        Its answers to the variants.
    flips : float
        Chance that two wordings of an item disagree.
    rng : Generator
        Source of randomness.
    rule : Rule
        The article's rule.

    Returns
    -------
    FalseAlarms or None
        None if no such model can be simulated.
    """
    answered = int(np.median(np.sum(~np.isnan(variants), axis=0)))
    ceiling = 2 * accuracy * (1 - accuracy)
    if answered < 1 or not 0 < flips < ceiling:  # The condition is true for NaN flips too.
        return None
    return false_alarms(n, answered, accuracy, flips, rng=rng, rule=rule)
