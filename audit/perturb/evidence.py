"""The statistics that a verdict rests on, for one cell. The analysis and the calibration both call `run_tests`.

Held-out items are a control: what the same rewording costs this model where there is no memory. It can take a `drop
beyond reference` away, and never makes one: that the held-out items' rewordings are less hard than the benchmark's
makes the same difference as memory, and this model alone cannot show which.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from audit.judge.record import holm_rows
from audit.perturb.design import PerturbThresholds
from audit.perturb.gates import all_gates
from audit.perturb.record import ItemLevel, PerturbCell, Wordings, against_drop, for_drop, item_level, usable_references
from audit.statistics.between_models import one_family
from audit.statistics.common_fall import CommonFall, common_fall
from audit.statistics.contamination_score import ARTICLE, ArticleResult, FalseAlarms, Rule, article_result, false_alarms
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
from audit.statistics.set_difference import Asked, BeyondFresh, SetDifference, beyond_fresh, set_difference
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
from audit.verdict.result import Reason, because, failed

UNITS_MIN = 30  # independent held-out items: with fewer, a t-test of items that mostly do not change has no level


@dataclass(frozen=True)
class FreshControl:
    """The tested model on held-out items. Accuracies and drops are 0-1; None where nothing can be compared.

    n: items that count. beyond: the drop on the benchmark less what these, and half a drop more, say it should be, on
    three scales; empty where it was not computed. references: the drop on the benchmark less that on the held-out
    items, of the mean of the models that answered both (`reference_models`): are both sets of rewordings equally hard?
    None without such. why: it is not asked; None where it is.
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
        return self.why is None

    @property
    def pvalue(self) -> float:
        """For a drop beyond the held-out items', on all scales (intersection-union); 1 where not asked."""
        return max(b.pvalue for b in self.beyond) if self.asked else 1.0


def fresh_control(
    cell: PerturbCell, limits: PerturbThresholds, as_read: FreshControl | None = None
) -> FreshControl | None:
    """The control of one cell; None where no held-out items were run.

    as_read: that of the answers as they were read, where they are held here: whether it is asked was decided then.
    """
    fresh = cell.control
    if fresh is None:
        return None
    o, v = item_means(*fresh.tested.pair)
    there = ~np.isnan(o)
    n, units = int(there.sum()), _units(o, fresh.cluster)
    if not n:
        return FreshControl(fresh.benchmark, 0, why=because("held_out_no_answers"))
    original, variants = float(o[there].mean()), float(v[there].mean())
    why = _unfit(cell, fresh, n, units, limits) if as_read is None else as_read.why
    beyond: tuple[BeyondFresh, ...] = ()
    if why is None:
        sides = _asked(cell), _and_half_a_drop(_asked(fresh))
        beyond = tuple(beyond_fresh(*sides, scale=scale) for scale in SCALES)
    both = _references(cell, fresh, limits)
    return FreshControl(fresh.benchmark, n, original, variants, original - variants, beyond, *both, why)


def _unfit(cell: PerturbCell, fresh: PerturbCell, n: int, units: int, limits: PerturbThresholds) -> Reason | None:
    """Why held-out items cannot carry the comparison; None where they can."""
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


def _and_half_a_drop(asked: Asked) -> Asked:
    """With one more item, or group of usual size, that loses half under the rewordings. Where few items drop, a small
    sample shows none of them and no error either: 45 % of clean models were beyond 30 such items. A whole one would
    halve what 100 held-out items find."""
    original, variants, chance, cluster = asked
    size = max(round(cluster.size / np.unique(cluster).size), 1)
    return (
        np.pad(original, ((0, 0), (0, size)), constant_values=1.0),
        np.pad(variants, ((0, 0), (0, size)), constant_values=0.5),
        np.pad(chance, (0, size), mode="mean"),
        np.pad(cluster, (0, size), constant_values=int(cluster.max()) + 1),
    )


def _references(cell: PerturbCell, fresh: PerturbCell, limits: PerturbThresholds) -> tuple[SetDifference | None, int]:
    there = {w.model: w for w in usable_references(fresh, limits)[0]}
    both = [(w, there[w.model]) for w in usable_references(cell, limits)[0] if w.model in there]
    if not both:
        return None, 0
    here, away = (np.mean([_drop(one) for one in side], axis=0) for side in zip(*both, strict=True))
    if min(_units(here, cell.cluster), _units(away, fresh.cluster)) < UNITS_MIN:
        return None, 0  # too few items that all of them answered
    return set_difference((here, away), (), (cell.cluster, fresh.cluster)), len(both)


def _units(values: FloatArray, cluster: IntArray) -> int:
    return int(np.unique(cluster[~np.isnan(values)]).size)


def _drop(wordings: Wordings) -> FloatArray:
    o, v = item_means(*wordings.pair)
    return o - v


# Errors of the difference in differences, above which a further test is not asked: a curve through bunched references
# tells nothing, and neither do a few held-out items.
SE_MAX = 2.0


@dataclass(frozen=True)
class Adverse:
    """`found_p`, `beyond_p` and `strong_p` of the tests with unparsed answers held against the finding; the latter two
    are None where nothing is beyond reference as parsed."""

    found_p: float
    beyond_p: float | None
    strong_p: float | None = None


@dataclass(frozen=True)
class Bracket:
    """Accuracies (0-1) on the reworded items: of the tested model, and the lowest and highest of its references, which
    may miss it by `margin`.

    A drop is compared across models of another accuracy only by way of a scale, and no scale is known to be the right
    one. Where some reference is no better than the tested model and some is no worse, all scales say nearly the same.
    """

    own: float
    lowest: float
    highest: float
    margin: float

    @property
    def holds(self) -> bool:
        return self.lowest <= self.own + self.margin and self.highest >= self.own - self.margin


@dataclass(frozen=True)
class Tests:
    """The p-values that decide, all one-sided.

    exchange: is the original right more often than its other wordings? broken_p: is the drop larger than the upper
    share of broken variants makes (`margin`, 0-1)? None where no person read a sample. drop_se: error of the drop.
    beyond: difference in differences on three scales, empty without references; bracket: of these; family: the one that
    all of them are from, where the tested model is not, else empty; prior: of how much models differ, None where it was
    set to 0; curve: from ten references on. left_out: why reference models are not compared with. control: None without
    held-out items. adverse: with unparsed answers held against what was found; None where all were parsed, or nothing
    is found. fall: whether a model that is sensitive to wording would answer so; None where the answers cannot tell.
    far: whether it would lose so much; None without references, or a prior.
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
        """For a drop that counts: the permutation test, and above what broken variants could make, if known."""
        return max(self.exchange.pvalue, self.broken_p or 0.0)

    @property
    def curve_counts(self) -> bool:
        """Whether the curve is known well enough to be asked: not where the references are all about equally good."""
        return self.curve is not None and bool(self.curve.delta_se <= SE_MAX * self.beyond[0].se)

    @property
    def beyond_p(self) -> float | None:
        """For a drop beyond reference: every test must speak for it (intersection-union, so no correction is needed).

        None without references, with references that do not bracket the tested model or are all of one other family,
        or where the share of broken variants is not known.
        """
        return max(self.reference_p, self.own_p) if self._asked else None

    @property
    def strong_p(self) -> float | None:
        """Return `beyond_p` against every model that is sensitive to wording, on hard items alone too: by reworded
        held-out items where these were asked, else by how much it loses."""
        return max(self.reference_p, self._own_p(self.far)) if self._asked else None

    @property
    def plain_p(self) -> float | None:
        """`beyond_p` by what the run's own references show of how models differ: without the prior."""
        alone = self._reference_p([b.plain.pvalue for b in self.beyond])
        return max(alone, self._own_p(self.fall)) if self._asked else None

    @property
    def reference_p(self) -> float:
        """The same without the held-out items, whether or not the references are fit for it."""
        return self._reference_p([b.pvalue for b in self.beyond])

    @property
    def _asked(self) -> bool:
        return self.bracket is not None and self.bracket.holds and not self.family and self.broken_p is not None

    @property
    def own_p(self) -> float:
        """Against a model that is sensitive to wording: by held-out items where these were asked. Else by which items
        it loses, or by how much, as of a model that has learnt everything no item tells."""
        return self._own_p(self.fall, self.far)

    def _own_p(self, *ways: CommonFall | FarBeyond | None) -> float:
        if self.held_out is not None:
            return self.held_out.pvalue
        return min((one.pvalue for one in ways if one is not None), default=1.0)

    @property
    def held_out(self) -> FreshControl | None:
        """The held-out items where they were run and asked."""
        return self.control if self.control is not None and self.control.asked else None

    def _reference_p(self, beyond: list[float]) -> float:
        curve = self.curve.pvalue if self.curve is not None and self.curve_counts else 0.0
        return max(self.found_p, *beyond, curve)


@dataclass(frozen=True)
class Grounds:
    """What `decide` looks at, apart from the gates. Accuracies and drops are 0-1.

    equivalence and the largest drop hold with unparsed answers held for a drop too (odds of `unparsed_gamma`).
    largest_worst: that drop in the worst case of unparsed answers; None where all were parsed. detectable: the smallest
    drop above broken variants that this design finds; NaN where nothing varies. beside: p for "no drop that matters
    beyond the references", which clearing needs too, as easier rewordings hide memory; None without references.
    """

    tests: Tests
    drop: WordingDrop
    equivalence: Equivalence
    largest_worst: float | None
    detectable: float
    beside: float | None


@dataclass(frozen=True)
class Evidence(Grounds):
    """The same, and what the report shows besides. flips: chance that two wordings of an item disagree. alarms: the
    article's rules on clean models like this one; None where no such model can be simulated."""

    noise: RunNoise
    flips: float
    article: ArticleResult
    alarms: FalseAlarms | None
    items: ItemLevel
    chance: float


_WORST = float("inf")


def run_tests(
    cell: PerturbCell, limits: PerturbThresholds, *, rng: np.random.Generator, n_draws: int = N_CURVES
) -> Tests:
    """The tests of one cell. n_draws: of ConStat's curve. Raises DataError where not one item has an original and a
    variant answered."""
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
    """What is found with unparsed answers held against it at these odds; None where all were parsed, or nothing is
    found. tests: of the cell as parsed."""
    cell = replace(cell, references=tuple(w for w in cell.references if w.model in tests.references))
    if tests.found_p > limits.alpha or (worst := against_drop(cell, gamma)) is None:
        return None
    if tests.beyond_p is None or tests.beyond_p > limits.alpha:
        worst = replace(worst, references=())  # what is not found is not to be held: a curve takes long
    held = _tests(worst, limits, rng, n_draws, tests.control)
    held = replace(held, bracket=tests.bracket, family=tests.family)
    return Adverse(held.found_p, *((held.beyond_p, held.strong_p) if held.beyond else (None, None)))


def _tests(
    cell: PerturbCell,
    limits: PerturbThresholds,
    rng: np.random.Generator,
    n_draws: int,
    as_read: FreshControl | None = None,
) -> Tests:
    """The tests of one reading of the answers, against every reference of the cell. as_read: of `fresh_control`."""
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
            tau = max(prior.scale, *(float(np.nan_to_num(one.tau)) for one in beyond))
            far = far_beyond(pair, pairs, chance, cluster, tau)
    if len(pairs) >= limits.curve_references_min:
        curve = reference_curve(pair, pairs, chance, cluster, n_draws=n_draws, rng=rng)
    control = fresh_control(cell, limits, as_read)
    if as_read is None and control is not None and beyond:
        own, theirs = control.beyond[0].se if control.asked else 0.0, beyond[0].se
        if own > SE_MAX * theirs:  # it says less than the references
            control = replace(control, why=because("held_out_vague", se=own, references=theirs))
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
    cell: PerturbCell, limits: PerturbThresholds, *, rng: np.random.Generator, n_resamples: int = N_RESAMPLES
) -> Evidence:
    """Every statistic of one cell."""
    tests = run_tests(cell, limits, rng=rng)
    original, variants = cell.tested.pair
    found = grounds(cell, tests, limits, rng=rng, n_resamples=n_resamples)
    flips = wording_flips(variants, original)
    return Evidence(
        **vars(found),
        noise=run_noise(original, cell.cluster),
        flips=flips,
        article=article_result(original, variants),
        alarms=clean_alarms(found.drop.n, found.drop.variants, variants, flips, rng),
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
    """What decides in one cell, given its tests."""
    drop = wording_drop(*cell.tested.pair, cell.cluster, n_resamples=n_resamples, rng=rng)
    cleared, largest = no_larger(cell, limits, limits.unparsed_gamma)
    beside = beside_references(cell, limits)
    worst = no_larger(cell, limits, _WORST)[1] if for_drop(cell, _WORST) is not None else None
    detectable = _detectable(tests, cell, limits)
    return Grounds(tests, replace(drop, largest=largest), cleared, worst, detectable, beside)


def no_larger(cell: PerturbCell, limits: PerturbThresholds, gamma: float) -> tuple[Equivalence, float]:
    """Whether a drop that matters is refuted, and the largest that is not: the one that clears less, as parsed or with
    unparsed answers held for a drop at odds of gamma."""
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


def beside_references(cell: PerturbCell, limits: PerturbThresholds, gamma: float | None = None) -> float | None:
    """p of the same for what is lost beyond the references, as parsed; None without usable ones. gamma: with unparsed
    answers held for a drop, too."""
    pairs = [w.pair for w in usable_references(cell, limits)[0]]
    if not pairs:
        return None
    read = [cell.tested, None if gamma is None else for_drop(cell, gamma)]
    asked = cell.chance_items, cell.cluster, limits.effect_of_interest
    return max(no_larger_beside(one.pair, pairs, *asked) for one in read if one is not None)


def panel_pvalues(panel: Sequence[Grounds | None]) -> list[tuple[float | None, ...]]:
    """(found, beyond, plain) p-values of each cell after Holm over the panel; None where it has none.

    Two families: that no cell is said to lose points by chance, and that none is called a drop beyond reference by
    chance; the latter with the prior of how models differ, and without.
    """
    families = ([getattr(e.tests, name) if e else None for e in panel] for name in ("found_p", "beyond_p", "plain_p"))
    return list(zip(*(holm_rows([family])[0] for family in families), strict=True))


def _detectable(tests: Tests, cell: PerturbCell, limits: PerturbThresholds) -> float:
    """(t_alpha + t_power) standard errors on top of the margin; NaN where nothing varies or no test can reject."""
    units, wordings = tests.exchange.units, len(cell.tested.variants)
    if not tests.drop_se > 0 or (wordings + 1.0) ** -units > limits.alpha:
        return float("nan")
    errors = float(scipy.special.stdtrit(units - 1, [1 - limits.alpha, limits.power]).sum())
    return max((tests.margin or 0.0) + errors * tests.drop_se, 0.0)


def clean_alarms(
    n: int, accuracy: float, variants: FloatArray, flips: float, rng: np.random.Generator, rule: Rule = ARTICLE
) -> FalseAlarms | None:
    """The article's rule on clean models like this one: n items, the accuracy under its variants, and their flips."""
    answered = int(np.median(np.sum(~np.isnan(variants), axis=0)))
    ceiling = 2 * accuracy * (1 - accuracy)
    if answered < 1 or not 0 < flips < ceiling:  # NaN flips too: no such model
        return None
    return false_alarms(n, answered, accuracy, flips, rng=rng, rule=rule)
