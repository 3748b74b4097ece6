"""The statistics that a verdict rests on, for one cell. The analysis and the calibration both call `run_tests`."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy

from audit.judge.record import holm_rows
from audit.perturb.design import PerturbThresholds
from audit.perturb.grounds import SE_MAX, Adverse, Bracket, Evidence, FreshControl, Grounds, Tests, fresh_control
from audit.perturb.record import PerturbCell, item_level
from audit.perturb.unread import against_drop, for_drop, usable_references
from audit.statistics.between_models import one_family
from audit.statistics.contamination_score import ARTICLE, FalseAlarms, Rule, article_result, false_alarms
from audit.statistics.drop_profile import drop_profile
from audit.statistics.exchange import exchange_test
from audit.statistics.paired import FloatArray
from audit.statistics.performance_curve import N_CURVES
from audit.statistics.references import BeyondReference, no_larger_beside, on_scales, reference_curve
from audit.statistics.resampling import N_RESAMPLES
from audit.statistics.wording_drop import (
    Equivalence,
    above_broken,
    equivalence,
    item_means,
    largest_drop,
    mean_of,
    run_noise,
    wording_drop,
    wording_flips,
)
from audit.verdict.result import because

_WORST = float("inf")


def run_tests(
    cell: PerturbCell, thresholds: PerturbThresholds, *, rng: np.random.Generator, n_draws: int = N_CURVES
) -> Tests:
    """The tests of one cell. Raises DataError where not one item has an original and a variant answered."""
    used, left_out = usable_references(cell, thresholds)
    cell = replace(cell, references=used)
    tests = replace(_tests(cell, thresholds, rng, n_draws), left_out=left_out)
    held = adverse(cell, tests, thresholds, thresholds.unparsed_gamma, rng=rng, n_draws=n_draws)
    return replace(tests, adverse=held)


def adverse(
    cell: PerturbCell,
    tests: Tests,
    thresholds: PerturbThresholds,
    gamma: float,
    *,
    rng: np.random.Generator,
    n_draws: int = N_CURVES,
) -> Adverse | None:
    """What is found with unparsed answers held against it at these odds; None where all were parsed, or nothing is
    found. tests: of the cell as parsed."""
    named = set(tests.references)
    cell = replace(cell, references=tuple(w for w in cell.references if w.model in named))
    if tests.found_p > thresholds.alpha or (worst := against_drop(cell, gamma)) is None:
        return None
    if tests.beyond_p is None or tests.beyond_p > thresholds.alpha:
        worst = replace(worst, references=())  # what is not found is not to be held: a curve takes long
    held = _tests(worst, thresholds, rng, n_draws, tests.control)
    held = replace(held, bracket=tests.bracket, family=tests.family, profile=tests.profile)
    return Adverse(held.found_p, held.beyond_p if held.beyond else None)


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
    prior = thresholds.prior
    beyond: tuple[BeyondReference, ...] = ()
    bracket = curve = None
    if pairs:
        beyond = on_scales(pair, pairs, chance, cell.cluster, prior=prior)
        reworded = [float(np.nanmean(item_means(*each)[1])) for each in pairs]
        bracket = Bracket(float(np.nanmean(v)), min(reworded), max(reworded), thresholds.bracket_margin)
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
        bracket=bracket,
        family=one_family(cell.tested.model, [w.model for w in cell.references], cell.families),
        prior=prior,
        curve=curve,
        references=tuple(w.model for w in cell.references),
        left_out=(),
        control=control,
        profile=drop_profile(pair, pairs, cell.cluster, thresholds.profile_alpha),
    )


def _if_sharp(control: FreshControl, se: float) -> FreshControl:
    """Not asked where its comparison is much vaguer than that with the references, of error se."""
    if not control.asked or control.beyond[0].se <= SE_MAX * se:
        return control
    return replace(control, why=because("held_out_vague", se=control.beyond[0].se, references=se))


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
        **vars(found),
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
    """What decides in one cell, given its tests. n_resamples: of the drop's interval."""
    drop = wording_drop(*cell.tested.pair, cell.cluster, n_resamples=n_resamples, rng=rng)
    cleared, largest = no_larger(cell, thresholds, thresholds.unparsed_gamma)
    beside = beside_references(cell, thresholds)
    worst = no_larger(cell, thresholds, _WORST)[1] if for_drop(cell, _WORST) is not None else None
    detectable = _detectable(tests, cell, thresholds)
    return Grounds(tests, replace(drop, largest=largest), cleared, worst, detectable, beside)


def no_larger(cell: PerturbCell, thresholds: PerturbThresholds, gamma: float) -> tuple[Equivalence, float]:
    """Whether a drop of the smallest effect that matters is refuted, and the largest that is not: as parsed, and with
    unparsed answers held for a drop at odds of gamma. The one that clears less of the two."""
    o, v = item_means(*cell.tested.pair)
    d = mean_of(o - v, cell.cluster)
    cleared, largest = equivalence(d, thresholds.effect_of_interest), largest_drop(d)
    if (unread := for_drop(cell, gamma)) is not None:
        o, v = item_means(*unread.pair)
        held = mean_of(o - v, cell.cluster)
        worst = max(cleared.p_no_larger, equivalence(held, thresholds.effect_of_interest).p_no_larger)
        cleared = replace(cleared, p_no_larger=worst, pvalue=max(worst, cleared.pvalue))
        largest = max(largest, largest_drop(held))
    return cleared, largest


def beside_references(cell: PerturbCell, thresholds: PerturbThresholds, gamma: float | None = None) -> float | None:
    """p of the same for what is lost beyond the references, as parsed; None without usable ones. gamma: with unparsed
    answers held for a drop, too."""
    pairs = [w.pair for w in usable_references(cell, thresholds)[0]]
    if not pairs:
        return None
    read, where = [cell.tested, None if gamma is None else for_drop(cell, gamma)], (cell.chance_items, cell.cluster)
    effect = thresholds.effect_of_interest
    return max(no_larger_beside(one.pair, pairs, *where, effect) for one in read if one is not None)


def panel_pvalues(panel: Sequence[Grounds | None]) -> list[tuple[float | None, ...]]:
    """(found, beyond, plain) p-values of each cell after Holm over the panel; None where it has none.

    Two families: that no cell is called brittle by chance, and that none is called a drop beyond reference by chance;
    the latter with the prior of how models differ, and without.
    """
    families = ([getattr(e.tests, name) if e else None for e in panel] for name in ("found_p", "beyond_p", "plain_p"))
    return list(zip(*(holm_rows([family])[0] for family in families), strict=True))


def _detectable(tests: Tests, cell: PerturbCell, thresholds: PerturbThresholds) -> float:
    """(t_alpha + t_power) standard errors on top of the margin; NaN where nothing varies or no test can reject."""
    units, wordings = tests.exchange.units, len(cell.tested.variants)
    if not tests.drop_se > 0 or (wordings + 1.0) ** -units > thresholds.alpha:
        return float("nan")
    errors = float(scipy.special.stdtrit(units - 1, [1 - thresholds.alpha, thresholds.power]).sum())
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
