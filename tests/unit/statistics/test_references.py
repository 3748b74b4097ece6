import numpy as np
import pytest
from scipy import stats

from audit.core.errors import DataError
from audit.statistics.between_models import TauPrior
from audit.statistics.item_response import draw_difficulties, shift
from audit.statistics.references import FAR, SCALES, far_beyond, on_scales, reference_curve
from audit.statistics.wording_drop import item_means

N_ITEMS = 400
CHANCE, ITEMS = np.full(N_ITEMS, 0.25), np.arange(N_ITEMS)


def difference_in_differences(*data, scale="points", prior=None):
    return on_scales(*data, prior)[SCALES.index(scale)]


def model(theta, rng, harder=0.0, memorised=0.0):
    o = (rng.random(theta.size) < theta) | (rng.random(theta.size) < memorised)
    return o[None].astype(float), (rng.random((3, theta.size)) < shift(theta, -harder, 0.7)).astype(
        float
    )


def world(rng, references, harder=0.05, uneven=0.0):
    theta = draw_difficulties(N_ITEMS, 0.7, 0.2, rng)
    cost = [harder + uneven * rng.standard_normal() for _ in range(references + 1)]
    return model(theta, rng, cost[0]), [model(theta, rng, c) for c in cost[1:]]


def test_one_reference_is_a_t_test_of_the_differences_of_each_item():
    tested, references = world(np.random.default_rng(1), 1)
    result = difference_in_differences(tested, references, CHANCE, ITEMS)
    (a, b), (c, d) = item_means(*tested), item_means(*references[0])
    expected = stats.ttest_1samp((a - b) - (c - d), 0, alternative="greater")
    assert result.pvalue == pytest.approx(expected.pvalue)
    assert np.isnan(result.tau) and result.references == 1


def test_the_spread_of_references_is_added():
    """By hand: five references with drops of 0, 5, 10, 15 and 20 points, without noise."""
    o = np.ones((1, N_ITEMS))

    def dropping(items, first=0):
        v = np.ones((1, N_ITEMS))
        v[:, first : first + items] = 0
        return o, v

    references = [dropping(20 * k) for k in range(5)]
    result = difference_in_differences(dropping(80), references, CHANCE, ITEMS)
    assert result.drops == pytest.approx((0, 0.05, 0.10, 0.15, 0.20))
    assert result.difference == pytest.approx(0.20 - 0.10)
    variance = np.var([0, 0.05, 0.10, 0.15, 0.20], ddof=1)
    assert 0 < result.tau**2 < variance  # what items explain is taken off
    assert result.se**2 > result.tau**2 * (1 + 1 / 5)
    assert result.df == 4
    # Of equal drops, on other items each, the items explain more than there is: nothing is left for
    # the models.
    alike = difference_in_differences(
        dropping(80), [dropping(20, 20 * k) for k in range(3)], CHANCE, ITEMS
    )
    assert alike.drops == pytest.approx((0.05,) * 3) and alike.tau == 0 and alike.se > 0
    assert (
        alike.df == 2
    )  # with t of hundreds of degrees of freedom 9 % of clean models were accused by such references


def test_a_share_of_what_can_be_lost():
    """The reference loses 40 of 80 points above chance 0; the tested model has 40 to lose, and
    loses 20."""
    zero = np.zeros(N_ITEMS)
    reference = (
        np.repeat([[1.0, 0.0]], [320, 80], axis=1),
        np.repeat([[1.0, 0.0]], [160, 240], axis=1),
    )
    tested = (
        np.repeat([[1.0, 0.0]], [160, 240], axis=1),
        np.repeat([[1.0, 0.0]], [80, 320], axis=1),
    )
    points = difference_in_differences(tested, [reference], zero, ITEMS)
    share = difference_in_differences(tested, [reference], zero, ITEMS, scale="share")
    assert points.difference == pytest.approx(0.2 - 0.4)
    assert share.difference == pytest.approx(0.2 - 0.4 * 0.2 / 0.4)


def test_log_odds_move_the_tested_model_by_what_a_reference_changes():
    """The reference falls from .8 to .5: 1.386 in log-odds. The tested model, .5 under the
    variants, would have had .8; one with .9 would have had .973."""
    zero = np.zeros(N_ITEMS)
    rows = {
        share: np.repeat(
            [[1.0, 0.0]], [round(share * N_ITEMS), N_ITEMS - round(share * N_ITEMS)], axis=1
        )
        for share in (0.5, 0.8, 0.9, 1.0)
    }
    for now, expected in ((0.5, 0.8 - 0.5), (0.9, 0.36 / 0.37 - 0.9)):
        result = difference_in_differences(
            (rows[1.0], rows[now]), [(rows[0.8], rows[0.5])], zero, ITEMS, scale="logit"
        )
        assert result.drops == pytest.approx((expected,)) and result.difference == pytest.approx(
            1.0 - now - expected
        )


def test_the_error_in_log_odds_is_that_of_a_jackknife_over_items():
    tested, references = world(np.random.default_rng(4), 1)
    result = difference_in_differences(tested, references, CHANCE, ITEMS, scale="logit")

    def without(i):
        keep = np.arange(N_ITEMS) != i
        cut = [tuple(side[:, keep] for side in pair) for pair in (tested, references[0])]
        return difference_in_differences(
            cut[0], cut[1:], CHANCE[keep], ITEMS[:-1], scale="logit"
        ).difference

    left = np.array([without(i) for i in range(N_ITEMS)])
    assert result.se == pytest.approx(np.sqrt((N_ITEMS - 1) * left.var()), rel=0.02)


def test_the_spread_is_that_of_the_scale_on_which_the_references_agree():
    """References of many abilities with a common shift of log-odds: in points they differ, in
    log-odds they do not, and the error of all three scales is that of the latter. Without a prior
    each scale has its own (`plain`)."""
    rng = np.random.default_rng(2)
    base = stats.norm.rvs(scale=1.5, size=N_ITEMS, random_state=3)

    def irt(ability):
        chances = (1 / (1 + np.exp(-(base + ability - shifted))) for shifted in (0.0, 1.6))
        return tuple(
            (rng.random((k, N_ITEMS)) < p).astype(float)
            for k, p in zip((9, 9), chances, strict=True)
        )

    tested, references = irt(2.2), [irt(a) for a in (1.2, 1.6, 2.2, 3.0, 5.0)]
    points, share, logit = on_scales(tested, references, CHANCE, ITEMS, prior=TauPrior(0.03))
    assert points.tau > 2 * logit.tau
    assert points.plain.se > points.se and points.plain.df == 4 and points.df == N_ITEMS - 1
    # By its own spread the error of the points is three quarters of `plain`'s, and that of the
    # share half.
    assert points.se < points.plain.se / 3 and share.se < share.plain.se / 3
    assert share.difference != points.difference


def test_with_one_reference_models_differ_by_the_prior():
    tested, references = world(np.random.default_rng(1), 1)
    plain, prior = (
        difference_in_differences(tested, references, CHANCE, ITEMS, prior=p)
        for p in (None, TauPrior(0.03))
    )
    # root mean square of a half-normal tau is its scale, and it counts 1 + 1/R = 2 times
    assert prior.se == pytest.approx(np.sqrt(plain.se**2 + 2 * 0.03**2), rel=0.01)
    assert prior.difference == plain.difference and prior.plain.se == plain.se


def test_the_curve_finds_memory_and_not_hardness():
    """Ten references of accuracies .5 to .9; variants cost every model a tenth of its accuracy."""
    rng = np.random.default_rng(3)
    theta = draw_difficulties(N_ITEMS, 0.7, 0.2, rng)
    references = [model(np.clip(theta + s, 0, 1), rng, 0.07) for s in np.linspace(-0.25, 0.2, 10)]
    spoilt = model(theta, rng, 0.07, memorised=0.6)
    curve = reference_curve(spoilt, references, CHANCE, ITEMS, n_draws=200, rng=rng)
    assert curve.pvalue < 0.02 and curve.delta_low > 0.05
    assert curve.expected_low <= curve.expected <= curve.expected_high < curve.accuracy
    curves = [
        reference_curve(model(theta, rng, 0.07), references, CHANCE, ITEMS, n_draws=60, rng=rng)
        for _ in range(8)
    ]
    assert np.median([c.pvalue for c in curves]) > 0.1


def test_references_are_needed():
    tested, references = world(np.random.default_rng(0), 2)
    with pytest.raises(DataError, match="reference models is 0"):
        difference_in_differences(tested, [], CHANCE, ITEMS)
    with pytest.raises(DataError, match="at least 5"):
        reference_curve(tested, references, CHANCE, ITEMS, rng=np.random.default_rng(0))
    guessing = (np.zeros((1, N_ITEMS)), np.zeros((3, N_ITEMS)))
    with pytest.raises(DataError, match="not above chance"):
        difference_in_differences(tested, [guessing], CHANCE, ITEMS)


@pytest.mark.long
@pytest.mark.parametrize(
    ("extra", "low", "high"), [(0.06, 0.0, 0.01), (FAR * 0.03, 0.0, 0.08), (0.18, 0.9, 1.0)]
)
def test_how_often_a_loss_is_more_than_any_clean_model_has(extra: float, low: float, high: float):
    """Rewording takes `extra` more from the tested model; the limit is three standard deviations of 3
    points."""
    rng, results = np.random.default_rng(6), []
    for _ in range(200):
        theta = draw_difficulties(N_ITEMS, 0.7, 0.2, rng)
        tested, references = (
            model(theta, rng, 0.03 + extra),
            [model(theta, rng, 0.03) for _ in range(5)],
        )
        results.append(far_beyond(tested, references, CHANCE, ITEMS, 0.03))
    assert {result.limit for result in results} == {FAR * 0.03}
    assert low <= np.mean([result.pvalue <= 0.05 for result in results]) <= high


@pytest.mark.long
@pytest.mark.parametrize("scale", ["points", "share", "logit"])
@pytest.mark.parametrize("references", [1, 5])
def test_harder_variants_convict_nobody(scale, references):
    """400 items, variants 5 points harder for everybody (notes, section 2)."""
    rng, trials = np.random.default_rng(references), 300
    rejected = [
        difference_in_differences(*world(rng, references), CHANCE, ITEMS, scale=scale).pvalue
        <= 0.05
        for _ in range(trials)
    ]
    assert np.mean(rejected) <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / trials)


def test_three_references_that_lie_together_by_chance_convict_nobody():
    """Models differ by two points in what rewording costs them; with t of hundreds of degrees of
    freedom 9 % of clean models were accused here. The sampling error of this rate is 1.1."""
    rng, trials = np.random.default_rng(3), 400
    rejected = [
        difference_in_differences(*world(rng, 3, uneven=0.02), CHANCE, ITEMS).pvalue <= 0.05
        for _ in range(trials)
    ]
    assert np.mean(rejected) <= 0.05 + 1.6 * np.sqrt(0.05 * 0.95 / trials)
