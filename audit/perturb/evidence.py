"""The statistics that a verdict rests on, for one cell. The analysis and the calibration both call `run_tests`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from audit.perturb.control import FreshControl, fresh_control
from audit.perturb.items import ItemLevel, item_level
from audit.perturb.record import PerturbCell
from audit.perturb.thresholds import PerturbThresholds
from audit.perturb.unread import LeftOut, against_drop, unread_for_drop, usable_references
from audit.statistics.contamination_score import (
    ARTICLE,
    ArticleResult,
    FalseAlarms,
    Rule,
    article_result,
    false_alarms,
)
from audit.statistics.exchange import ExchangeResult, exchange_test
from audit.statistics.multiplicity import holm
from audit.statistics.paired import FloatArray
from audit.statistics.performance_curve import N_CURVES, CurveResult
from audit.statistics.references import BeyondReference, difference_in_differences, reference_curve
from audit.statistics.resampling import N_RESAMPLES
from audit.statistics.wording_drop import (
    Equivalence,
    RunNoise,
    WordingDrop,
    above_broken,
    equivalence,
    item_means,
    largest_drop,
    mean_of,
    run_noise,
    wording_drop,
    wording_flips,
)
from audit.verdict.result import points

# Errors of the difference in differences, above which a further test is not asked: a curve through bunched references
# tells nothing, and neither do a few fresh items.
_SE_MAX = 2.0


@dataclass(frozen=True)
class Adverse:
    """`found_p` and `beyond_p` of the tests with every unread answer held against the finding (`unread.against_drop`).

    beyond_p: None where nothing is beyond reference as read.
    """

    found_p: float
    beyond_p: float | None


@dataclass(frozen=True)
class Tests:
    """The p-values that decide, all one-sided.

    exchange: is the original right more often than its other wordings? broken_p: is the drop larger than the upper
    share of broken variants makes (`margin`, 0-1)? None where no person read a sample. broken_se: its standard error.
    beyond: difference in differences on both scales, empty without references; curve: from ten references on.
    adverse: the same tests with unread answers held against what was found; None where all were read, or nothing is
    found. left_out: reference models that are not compared with. control: the same model on fresh items; None where
    none were run.
    """

    exchange: ExchangeResult
    margin: float | None
    broken_p: float | None
    drop_se: float
    beyond: tuple[BeyondReference, ...]
    curve: CurveResult | None
    references: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    control: FreshControl | None = None
    adverse: Adverse | None = None

    @property
    def found_p(self) -> float:
        """For a drop that counts: the exchange test, and above what broken variants could make where that is known."""
        return max(self.exchange.pvalue, self.broken_p or 0.0)

    @property
    def curve_counts(self) -> bool:
        """Whether the curve is known well enough to be asked: its error is at most twice that of the difference in
        differences. It is not where the reference models are all about equally good."""
        return self.curve is not None and bool(self.curve.delta_se <= _SE_MAX * self.beyond[0].se)

    @property
    def beyond_p(self) -> float | None:
        """For a drop beyond reference: every test must speak for it (intersection-union, so no correction is needed),
        that against fresh items too where they were run and asked.

        None without references, or where the share of broken variants is not known.
        """
        if not self.beyond or self.broken_p is None:
            return None
        control = self.control.pvalue if self.control is not None and self.control.asked else 0.0
        return max(self.reference_p, control)

    @property
    def reference_p(self) -> float:
        """The same without the fresh items: what the references alone would say."""
        curve = self.curve.pvalue if self.curve is not None and self.curve_counts else 0.0
        return max(self.found_p, *(b.pvalue for b in self.beyond), curve)


@dataclass(frozen=True)
class Grounds:
    """What `decide` looks at, apart from the gates. Accuracies and drops are 0-1.

    equivalence and the largest drop hold with every unread answer held for a drop too (variants wrong, originals
    right). detectable: the smallest drop that this design finds (above broken variants, and beyond the references and
    the fresh items where they decide); NaN where nothing varies.
    """

    tests: Tests
    drop: WordingDrop
    equivalence: Equivalence
    detectable: float


@dataclass(frozen=True)
class Evidence(Grounds):
    """The same, and what the report shows besides. flips: chance that two wordings of an item disagree. alarms: the
    article's rules on clean models like this one; None where no such model can be simulated.
    """

    noise: RunNoise
    flips: float
    article: ArticleResult
    alarms: FalseAlarms | None
    items: ItemLevel
    chance: float


def run_tests(
    cell: PerturbCell, thresholds: PerturbThresholds, *, rng: np.random.Generator, n_draws: int = N_CURVES
) -> Tests:
    """The tests of one cell. Raises DataError where not one item has an original and a variant answered."""
    used, left_out = usable_references(cell, thresholds)
    cell = replace(cell, references=used)
    tests = replace(_tests(cell, thresholds, rng, n_draws), left_out=left_out)
    if tests.found_p > thresholds.alpha or (worst := against_drop(cell)) is None:
        return tests
    if tests.beyond_p is None or tests.beyond_p > thresholds.alpha:
        worst = replace(worst, references=())  # what is not found is not to be held: a curve takes long
    held = _tests(worst, thresholds, rng, n_draws, tests.control)
    return replace(tests, adverse=Adverse(held.found_p, held.beyond_p))


def _tests(
    cell: PerturbCell,
    thresholds: PerturbThresholds,
    rng: np.random.Generator,
    n_draws: int,
    as_read: FreshControl | None = None,
) -> Tests:
    """The tests of one reading of the answers, against every reference of the cell. as_read: of `fresh_control`."""
    pair, chance = cell.tested.pair, cell.chance_items
    exchange = exchange_test(*pair, cell.cluster if cell.clustered else None, rng=rng)
    o, v = item_means(*pair)
    margin = broken_p = None
    se = mean_of(o - v, cell.cluster).se
    if cell.broken is not None:
        broken_p, excess = above_broken(*pair, chance, cell.cluster, cell.broken.upper)
        se = excess.se
        margin = cell.broken.upper * max(float(np.nanmean(o - chance)), 0.0)
    pairs = [w.pair for w in cell.references]
    beyond: tuple[BeyondReference, ...] = ()
    curve = None
    if pairs:
        beyond = (
            difference_in_differences(pair, pairs, chance, cell.cluster, scale="points"),
            difference_in_differences(pair, pairs, chance, cell.cluster, scale="share"),
        )
    if len(pairs) >= thresholds.curve_references_min:
        curve = reference_curve(pair, pairs, chance, cell.cluster, n_draws=n_draws, rng=rng)
    control = fresh_control(cell, thresholds, as_read)
    if as_read is None and control is not None and beyond:
        control = _if_sharp(control, beyond[0].se)
    return Tests(
        exchange=exchange,
        margin=margin,
        broken_p=broken_p,
        drop_se=se,
        beyond=beyond,
        curve=curve,
        references=tuple(w.model for w in cell.references),
        left_out=(),
        control=control,
    )


def _if_sharp(control: FreshControl, se: float) -> FreshControl:
    """Not asked where its comparison is much vaguer than that with the references, of error se."""
    if not control.asked or control.beyond[0].se <= _SE_MAX * se:
        return control
    vague = (
        f"its comparison has an error of {points(control.beyond[0].se)}, more than twice that of the comparison "
        f"with the references ({points(se)}): take more fresh items"
    )
    return replace(control, why=vague)


def measure(
    cell: PerturbCell,
    thresholds: PerturbThresholds,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
    n_draws: int = N_CURVES,
) -> Evidence:
    """Every statistic of one cell."""
    tests = run_tests(cell, thresholds, rng=rng, n_draws=n_draws)
    original, variants = cell.tested.pair
    found = grounds(cell, tests, thresholds, rng=rng, n_resamples=n_resamples)
    flips = wording_flips(variants, original)
    return Evidence(
        tests=tests,
        drop=found.drop,
        equivalence=found.equivalence,
        detectable=found.detectable,
        noise=run_noise(original),
        flips=flips,
        article=article_result(original, variants),
        alarms=clean_alarms(found.drop.n, found.drop.variants, variants, flips, rng),
        items=item_level(cell, thresholds.alpha),
        chance=cell.chance,
    )


def grounds(
    cell: PerturbCell,
    tests: Tests,
    thresholds: PerturbThresholds,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> Grounds:
    """What decides in one cell, given its tests. n_resamples: of the drop's interval, on which no verdict rests."""
    o, v = item_means(*cell.tested.pair)
    drop = wording_drop(*cell.tested.pair, cell.cluster, n_resamples=n_resamples, rng=rng)
    cleared = equivalence(mean_of(o - v, cell.cluster), thresholds.effect_of_interest)
    if (unread := unread_for_drop(cell)) is not None:
        o, v = item_means(*unread.pair)
        held = mean_of(o - v, cell.cluster)
        worst = max(cleared.p_no_larger, equivalence(held, thresholds.effect_of_interest).p_no_larger)
        cleared = replace(cleared, p_no_larger=worst, pvalue=max(worst, cleared.pvalue))
        drop = replace(drop, largest=max(drop.largest, largest_drop(held)))
    return Grounds(tests, drop, cleared, _detectable(tests, len(cell.tested.variants), thresholds))


def panel_pvalues(tests: Sequence[Tests]) -> tuple[FloatArray, FloatArray]:
    """(found, beyond) p-values after Holm over the cells of the panel, NaN where a cell has none.

    Two families: that no cell is called brittle by chance, and that none is called a drop beyond reference by chance.
    """
    found = holm([t.found_p for t in tests])
    beyond = holm([np.nan if t.beyond_p is None else t.beyond_p for t in tests])
    return found, beyond


def _detectable(tests: Tests, wordings: int, thresholds: PerturbThresholds) -> float:
    """(t_alpha + t_power) standard errors on top of the margin; NaN where nothing varies or no test can reject."""
    units = tests.exchange.units
    if not tests.drop_se > 0 or (wordings + 1.0) ** -units > thresholds.alpha:
        return float("nan")

    def errors(df: float) -> float:
        return float(scipy.stats.t.isf(thresholds.alpha, df) + scipy.stats.t.ppf(thresholds.power, df))

    own = (tests.margin or 0.0) + errors(units - 1) * tests.drop_se
    beyond = [errors(b.df) * b.se for b in tests.beyond]
    if beyond and tests.control is not None and tests.control.asked:
        beyond += [errors(b.df) * b.se for b in tests.control.beyond]
    return max(own, *beyond, 0.0)


def clean_alarms(
    n: int, accuracy: float, variants: FloatArray, flips: float, rng: np.random.Generator, rule: Rule = ARTICLE
) -> FalseAlarms | None:
    """The article's rule on clean models like this one: n items, the accuracy under its variants, and their flips."""
    answered = int(np.median(np.sum(~np.isnan(variants), axis=0)))
    ceiling = 2 * accuracy * (1 - accuracy)
    if answered < 1 or not 0 < flips < ceiling:  # NaN flips too: no such model
        return None
    return false_alarms(n, answered, accuracy, flips, rng=rng, rule=rule)
