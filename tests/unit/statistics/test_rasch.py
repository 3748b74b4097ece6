"""The Rasch gap against likelihoods and errors worked out another way, and in worlds that are not
its own."""

import numpy as np
import pytest
import scipy
from long_tests import long
from scipy.special import expit
from test_without_memory import world

from audit.core.errors import DataError
from audit.statistics.between_models import predictive
from audit.statistics.priors import PRIORS
from audit.statistics.rasch import fit_rasch, rasch_gap
from audit.statistics.set_difference import set_difference


def outcomes(rng, ability, n, spread=1.5, shift=0.0):
    """(K, n) of a Rasch world; shift: by how much harder the items are."""
    difficulty = shift + spread * rng.standard_normal(n)
    return (
        rng.random((len(ability), n)) < expit(np.asarray(ability)[:, None] - difficulty)
    ).astype(float)


def gap(a, b, **kwargs):
    return rasch_gap((a[0], b[0]), list(zip(a[1:], b[1:], strict=True)), **kwargs)


@pytest.mark.parametrize("chance", [0.0, 0.25])
def test_the_fit_is_the_maximum_of_a_likelihood_written_out_item_by_item(chance):
    rng = np.random.default_rng(2)
    x = outcomes(rng, [0.5, 1.0, -0.5], 40)
    x[0, :4], x[1, 2:7], x[2, 10] = (
        np.nan,
        np.nan,
        0.3,
    )  # missing answers, and a chance in place of an answer
    nodes, weights = np.polynomial.hermite_e.hermegauss(101)

    def minus_log_likelihood(parameters):
        *ability, log_spread = parameters
        total = -((log_spread - np.log(1.5)) ** 2) / 2
        for item in x.T:
            given = np.ones_like(nodes)
            for a, y in zip(ability, item, strict=True):
                p = chance + (1 - chance) * expit(a - np.exp(log_spread) * nodes)
                given = given * (1 if np.isnan(y) else p**y * (1 - p) ** (1 - y))
            total += np.log(weights @ given / np.sqrt(2 * np.pi))
        return -total - sum(0.5 * np.log(expit(a)) + 0.5 * np.log(expit(-a)) for a in ability)

    best = scipy.optimize.minimize(minus_log_likelihood, [0, 0, 0, 0], tol=1e-8).x
    fit = fit_rasch(x, chance)
    assert [*fit.ability, np.log(fit.spread)] == pytest.approx(best, abs=1e-3)


def items_se(a, b, chance):
    """The items' part of the error alone."""
    units = [
        f.influence[0] - f.influence[1:].mean(axis=0)
        for f in (fit_rasch(x, chance) for x in (a, b))
    ]
    return np.sqrt(sum(np.sum(u**2) * u.size / (u.size - 1) for u in units))


@pytest.mark.parametrize("chance", [long(0.0), 0.25])
def test_the_error_is_that_of_leaving_out_one_item_at_a_time(chance):
    rng = np.random.default_rng(3)
    a, b = outcomes(rng, [1.0, 0.5, 0.0], 120), outcomes(rng, [1.0, 0.5, 0.0], 80)
    both = {"chance": (chance, chance)}
    without = [
        [gap(np.delete(a, i, axis=1), b, **both).difference for i in range(120)],
        [gap(a, np.delete(b, i, axis=1), **both).difference for i in range(80)],
    ]
    jackknife = sum(np.var(d) * (len(d) - 1) for d in without)
    assert items_se(a, b, chance) == pytest.approx(np.sqrt(jackknife), rel=0.05)
    assert (
        gap(a, b, **both).se >= items_se(a, b, chance) - 1e-9
    )  # what models differ by comes on top


def test_items_copied_in_clusters_tell_no_more_than_once():
    rng = np.random.default_rng(4)
    a, b = outcomes(rng, [1.0, 0.5, 0.0, 0.8], 300), outcomes(rng, [1.0, 0.5, 0.0, 0.8], 200)
    once = gap(a, b)
    twice = gap(
        np.repeat(a, 2, axis=1),
        np.repeat(b, 2, axis=1),
        clusters=(np.arange(600) // 2, np.arange(400) // 2),
    )
    alone = gap(np.repeat(a, 2, axis=1), np.repeat(b, 2, axis=1))
    assert twice.difference == pytest.approx(once.difference, abs=0.02)
    assert twice.se == pytest.approx(once.se, rel=0.05)
    assert alone.se < 0.9 * once.se


@pytest.mark.parametrize("prior", [long(None), PRIORS["held_out"]])
def test_sets_of_another_spread_are_no_gap_for_an_abler_model(prior):
    # The points scale takes the spread for memory: its mean gap is 10 points, and 0 for the Rasch
    # scale.
    rng = np.random.default_rng(5)
    points, covers, gaps = [], 0, []
    for _ in range(40):
        truth, a, b, _ = world(rng, held_out=4.0, tested=2.5)
        result = gap(a, b, prior=prior)
        covers += result.without_low <= truth <= result.without_high
        gaps.append(result.gap)
        assert result.gap_low <= result.gap <= result.gap_high and result.score == pytest.approx(
            a[0].mean(), abs=0.005
        )
        points.append(set_difference((a[0], b[0]), list(zip(a[1:], b[1:], strict=True))).difference)
    assert np.mean(points) > 0.06
    assert abs(np.mean(gaps)) < 0.02
    assert covers >= 36  # 38 expected; 35 or fewer are seen with p = .02 at a cover of 93 %


def test_the_prior_is_of_points_of_accuracy():
    """Abilities moved to points by the slope at the tested model, before a prior is laid on them:
    the same limits."""
    ability = [1.0, 0.8, 0.2, 1.6]  # the references differ beyond their items
    rng = np.random.default_rng(7)
    a, b = outcomes(rng, ability, 400), outcomes(rng, np.add(ability, [0, 0.6, -0.9, 0.3]), 300)
    fits = [fit_rasch(a), fit_rasch(b)]
    slope = fits[0].slope()
    points = [
        slope * (fit.ability[:, None] + fit.influence.shape[1] * fit.influence) for fit in fits
    ]
    tested, *others = zip(*points, strict=True)
    did, prior = set_difference(tested, others), PRIORS["held_out"]
    expected = predictive(
        did.difference, did.items_se, did.items_df, did.spread, did.sampling, 3, prior
    )
    result = gap(a, b, prior=prior)
    assert (
        0 < slope < 0.25
        and did.spread > 0
        and result.difference * slope == pytest.approx(did.difference)
    )
    for name in ("se", "tau", "low", "high"):
        assert getattr(result, name) * slope == pytest.approx(getattr(expected, name)), name
    assert result.pvalue == pytest.approx(expected.pvalue)


def test_a_model_that_is_always_right_has_a_large_error_and_no_gap():
    rng = np.random.default_rng(8)
    a, b = outcomes(rng, [1.0, 0.8, 0.6, 1.2], 800), outcomes(rng, [1.0, 0.8, 0.6, 1.2], 200)
    a[0], b[0] = 1, 1
    result = gap(a, b)
    assert result.pvalue > 0.1
    assert result.without_low < 0.99 < result.without_high


def test_a_model_below_chance_has_no_gap_and_a_finite_score():
    rng = np.random.default_rng(10)
    a, b = (rng.random((4, n)) < [[0.2], [0.5], [0.6], [0.7]] for n in (400, 300))
    result = gap(a.astype(float), b.astype(float), chance=(0.25, 0.25))
    assert 0.25 <= result.without_low <= result.without_memory <= result.without_high <= 1
    assert result.gap == pytest.approx(0, abs=0.03) and result.pvalue > 0.1


def test_what_cannot_be_compared_is_refused():
    a = outcomes(np.random.default_rng(9), [1.0, 0.5], 30)
    with pytest.raises(DataError, match="at least 1"):
        rasch_gap((a[0], a[1]), [])
    with pytest.raises(DataError, match="outcome"):
        fit_rasch(a + 0.5)
    with pytest.raises(DataError, match="two models"):
        fit_rasch(np.where([[True], [False]], a, np.nan))
    with pytest.raises(DataError, match="two models"):
        fit_rasch(a[:1])
    assert fit_rasch(a).ability.shape == (2,)  # two are enough
