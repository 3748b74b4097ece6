"""The score without memory and the items from memory, in small worlds of known truth."""

import warnings

import numpy as np
import pytest
from long_tests import long
from scipy import stats
from scipy.special import expit

from audit.core.errors import DataError
from audit.statistics.contamination_score import article_result, false_alarms, item_scores
from audit.statistics.without_memory import FDR, from_memory, without_memory


def world(
    rng, *, learnt=0.0, held_out=1.5, tested=1.0, n=600, m=400, models=6, guess=0.0, harder=0.0
):
    """(truth, published, held-out, mask of what was learnt); not Rasch: items discriminate
    unevenly."""
    ability = np.append(tested, 0.8 + 0.4 * rng.standard_normal(models - 1))[:, None]
    sides = []
    for size, spread, shift in ((n, 1.5, 0.0), (m, held_out, harder)):
        slope = np.exp(0.25 * rng.standard_normal(size))
        known = expit(slope * (ability - shift - spread * rng.standard_normal(size)))
        sides.append(guess + (1 - guess) * known)
    a, b = ((rng.random(p.shape) < p).astype(float) for p in sides)
    known = rng.random(n) < learnt
    a[0, known] = 1
    return sides[0][0].mean(), a, b, known


def score(a, b, **kwargs):
    return without_memory((a[0], b[0]), list(zip(a[1:], b[1:], strict=True)), **kwargs)


# Points and Rasch's ability alone cover in 0 to 40 % of the guessed worlds.
GUESSED = {"guess": 0.25, "n": 2000, "m": 2000, "models": 9}
WORLDS = [
    {},
    {"learnt": 0.3},
    {"held_out": 4.0, "tested": 2.5},
    {**GUESSED, "harder": 1.0, "tested": -1.2},
    {**GUESSED, "held_out": 4.0, "tested": 2.5},
]


@pytest.mark.long
@pytest.mark.parametrize("made", WORLDS)
def test_the_interval_covers_and_is_the_hull_of_all_scales(made):
    rng = np.random.default_rng(1)
    covers = 0
    for _ in range(25):
        truth, a, b, _ = world(rng, **made)
        result = score(a, b, chance=(made.get("guess", 0.0),) * 2)
        covers += result.without.low <= truth <= result.without.high
        scales = [
            scale for scale in (result.by_points, result.by_ability, result.by_guessing) if scale
        ]
        assert len(scales) == (3 if "guess" in made else 2)
        # If the references may have learnt items too, the interval reaches further down.
        lowest = min(scale.low for scale in scales)
        assert result.without.low <= lowest if result.at_most else result.without.low == lowest
        assert result.without.high == max(scale.high for scale in scales)
        assert result.without.estimate == pytest.approx(
            np.mean([scale.estimate for scale in scales])
        )
        assert result.score.estimate == a[0].mean()
    assert (
        covers >= 22
    )  # at a cover of 93 % fewer have p = .06, and the measured cover is 98 % or more


def test_the_share_from_memory_is_what_was_learnt():
    rng = np.random.default_rng(2)
    shares = [score(*world(rng, learnt=0.4)[1:3]).share for _ in range(20)]
    assert np.mean([share.estimate for share in shares]) == pytest.approx(0.4, abs=0.05)
    assert sum(share.low <= 0.4 <= share.high for share in shares) >= 17
    assert all(0 <= share.low <= share.estimate <= share.high <= 1 for share in shares)


def test_held_gaps_widen_and_move_no_estimate():
    _, a, b, _ = world(np.random.default_rng(3))
    plain, widened = score(a, b), score(a, b, imputed_gaps=[(0.5, 0.3, 0.6)])
    assert widened.without.estimate == plain.without.estimate
    assert widened.without.low == pytest.approx(max(plain.score.estimate - 0.6, 0))
    assert widened.without.high == plain.without.high


def test_a_score_has_wilsons_interval_and_clusters_widen_it():
    _, a, b, _ = world(np.random.default_rng(4), n=100)
    a[0] = np.arange(100) < 82
    alone = score(a, b).score  # Wilson 1927: (82 + 1.92) / 103.84 -+ 7.39 points
    assert (alone.low, alone.high) == (
        pytest.approx(0.733, abs=0.002),
        pytest.approx(0.883, abs=0.002),
    )
    together = score(a, b, clusters=(np.arange(100) // 5, np.arange(400))).score
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_without_references_it_is_not_identified():
    _, a, b, _ = world(np.random.default_rng(5))
    with pytest.raises(DataError):
        without_memory((a[0], b[0]), [])


def texts(rng, known, gain, n=600, m=400, models=6, wider=1.0):
    pairs = []
    common = rng.standard_normal(n), rng.standard_normal(m)
    for k in range(models):
        a, b = (
            side + spread * rng.standard_t(5, side.size)
            for side, spread in zip(common, (wider / 2, 0.5), strict=True)
        )
        pairs.append((a + (0.7 * gain * known if k == 0 else 0), b))
    return pairs


def named(rng, learnt, gain, **options):
    _, a, b, known = world(rng, learnt=learnt)
    likelihoods = () if gain is None else texts(rng, known, gain, **options)
    result = from_memory((a[0], b[0]), list(zip(a[1:], b[1:], strict=True)), likelihoods)
    return result, known


def test_items_of_a_text_that_was_read_are_named_with_few_false_ones():
    rng = np.random.default_rng(6)
    false, seen = [], []
    for _ in range(15):
        result, known = named(rng, 0.2, 4.0)
        false.append(np.sum(result.named & ~known) / max(result.named.sum(), 1))
        seen.append(np.mean(result.named[known]))
        assert result.order[0] == min(
            result.order, key=lambda i: (result.pvalue[i], result.chance[i])
        )
    assert np.mean(false) <= FDR + 0.03  # 2 standard errors of 15 runs
    assert np.mean(seen) > 0.8


@pytest.mark.parametrize("wider", [long(1.0), 2.0])
def test_of_a_clean_model_no_item_is_named(wider):
    """wider: how much texts spread for every model. By the held-out items' spread alone something
    was named of 59 %."""
    rng = np.random.default_rng(7)
    alarms = [named(rng, 0.0, 0.0, wider=wider)[0].named.any() for _ in range(20)]
    assert sum(alarms) <= 4  # FDR .10: more than 4 of 20 has p = .04


def test_a_wrong_or_missing_answer_is_no_memory():
    rng = np.random.default_rng(8)
    _, a, b, _ = world(rng, learnt=0.2)
    a[0, :5], a[0, 5] = 0, np.nan
    result = from_memory(
        (a[0], b[0]), list(zip(a[1:], b[1:], strict=True)), texts(rng, np.ones(600), 3.0)
    )
    assert not result.named[:6].any()
    assert np.all(result.pvalue[:5] == 1)
    assert np.isnan(result.pvalue[5])
    assert 5 not in result.order


def test_the_chance_is_that_of_the_references_answers():
    # What the model itself answered tells nothing of its chance; what the references answered does.
    rng = np.random.default_rng(9)
    _, a, b, _ = world(rng)
    result = from_memory((a[0], b[0]), list(zip(a[1:], b[1:], strict=True)))
    right = a[1:].sum(axis=0)
    by_right = [np.mean(result.chance[right == k]) for k in range(6) if np.any(right == k)]
    assert by_right == sorted(by_right)
    assert np.ptp(result.chance[right == 3]) < 1e-9  # how many were right is all that counts


_MODELS, _GUESS, _OWN = 40, 0.2, 0.7


def _answers(rng, knowledge, reading, n, mix):
    """(chances, answers), each (models, n), on new items. mix: share of knowledge that an item asks
    for on average."""
    difficulty = 1.5 * rng.standard_t(3, n) / np.sqrt(3)
    weight = rng.beta(8 * mix, 8 * (1 - mix), n)
    ability = weight * knowledge[:, None] + (1 - weight) * reading[:, None]
    specific = _OWN * rng.standard_normal((knowledge.size, n))
    chance = _GUESS + (1 - _GUESS) * expit(
        np.exp(0.3 * rng.standard_normal(n)) * (ability - difficulty) + specific
    )
    return chance, (rng.random(chance.shape) < chance).astype(float)


@pytest.mark.long
@pytest.mark.parametrize(
    ("tested", "references", "spread", "mixes", "n", "learnt"),
    [
        pytest.param(
            0.6, np.linspace(0.1, 1.1, 5), 0.0, (0.5, 0.5), 600, 0.0, id="guessing and heavy tails"
        ),
        pytest.param(
            0.6,
            np.linspace(0.1, 1.1, 5),
            0.0,
            (0.5, 0.5),
            600,
            0.5,
            id="half of the answers learnt",
        ),
        pytest.param(
            0.6, np.linspace(0.1, 1.1, 5), 0.5, (0.7, 0.45), 600, 0.0, id="another mix of subjects"
        ),
        pytest.param(
            0.6,
            np.array([-1.5, 3.5, -1.4, 3.4, -1.3]),
            0.0,
            (0.5, 0.5),
            600,
            0.0,
            id="between clusters",
        ),
        pytest.param(
            4.5,
            np.linspace(2.5, 4.5, 5),
            0.0,
            (0.5, 0.5),
            60,
            0.0,
            id="few items, near the ceiling",
        ),
    ],
)
def test_interval_holds_in_worlds_that_are_not_its_model(
    tested, references, spread, mixes, n, learnt
):
    """spread: how much knowledge and reading differ within a model; the tested one is one more of
    the same kind."""
    rng = np.random.default_rng(2026)
    covered = 0
    for _ in range(_MODELS):
        ability = np.append(tested, references)
        tilt = spread * rng.standard_normal(ability.size)
        chance, published = _answers(rng, ability + tilt, ability - tilt, n, mixes[0])
        _, held_out = _answers(rng, ability + tilt, ability - tilt, n, mixes[1])
        published[0, rng.random(n) < learnt] = 1
        sets = list(zip(published, held_out, strict=True))
        estimate = without_memory(sets[0], sets[1:]).without
        covered += estimate.low <= chance[0].mean() <= estimate.high
    assert covered >= 0.9 * _MODELS


NAN = float("nan")


def published(baseline_correct, perturbed_correct_flags, alpha=0.05):
    """`compute_contamination_score` as the article prints it: (CS, p, is_contaminated)."""
    acc_baseline = float(baseline_correct)
    acc_perturbed_arr = np.array(perturbed_correct_flags, dtype=float)
    acc_perturbed_mean = acc_perturbed_arr.mean()
    t_stat, p_value = stats.ttest_1samp(acc_perturbed_arr, popmean=acc_baseline)
    p_value_one_tailed = p_value / 2 if t_stat < 0 else 1.0
    cs = (acc_baseline - acc_perturbed_mean) / acc_baseline if acc_baseline > 0 else 0.0
    return round(cs, 4), round(p_value_one_tailed, 4), (cs > 0.1 and p_value_one_tailed < alpha)


@pytest.mark.parametrize("variants", [1, 2, 3, 10])
def test_every_item_is_scored_as_the_article_does(variants):
    rng = np.random.default_rng(variants)
    o = (rng.random(60) < 0.6).astype(float)
    v = (rng.random((variants, 60)) < 0.6).astype(float)
    v[:, 0], o[0] = 0.0, 1.0  # all variants wrong: t is -inf, p is 0
    scores = item_scores(o, v)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # its t-test of equal values
        expected = [published(o[i] == 1, v[:, i] == 1) for i in range(60)]
    for i, (cs, p, flag) in enumerate(expected):
        assert (round(scores.cs[i], 4), round(scores.pvalue[i], 4), bool(scores.flagged[i])) == (
            cs,
            p,
            flag,
        )


def test_missing_answers_are_left_out_and_not_scored():
    o = np.array([1.0, NAN, 1.0])
    v = np.array([[1.0, 1.0, NAN], [0.0, 1.0, NAN], [NAN, 1.0, NAN]])
    scores = item_scores(o, v)
    assert scores.cs[0] == 0.5 and np.isnan(scores.cs[1:]).all() and not scores.flagged.any()
    whole = article_result(o, v)
    assert (whole.n, whole.baseline, whole.perturbed, whole.cs) == (1, 1.0, 0.5, 0.5)
    assert whole.review and whole.over_threshold and not whole.blocked
    with pytest.raises(DataError, match="to the original and to a variant is 0"):
        article_result(np.array([NAN]), np.array([[1.0]]))


def test_triggers_by_hand():
    # 100 items: 80 right; of these, 16 lose all 3 variants -> flagged (16 %), the others lose none
    o = np.repeat([1.0, 0.0], [80, 20])
    v = np.tile(np.repeat([0.0, 1.0, 0.0], [16, 64, 20]), (3, 1))
    result = article_result(o, v)
    assert (result.flagged, result.blocked, result.triggered, result.review) == (
        16,
        True,
        True,
        False,
    )
    assert result.cs == pytest.approx((0.8 - 0.64) / 0.8)
    assert result.mean_item_cs == pytest.approx(0.16)  # 16 items of CS 1, the rest 0


@pytest.mark.parametrize(
    ("flip", "variants", "flagged", "over", "blocked"),
    [
        (0.3, 3, 0.029, None, 0.0),
        (0.3, 10, 0.246, 0.346, 1.0),
        (0.2, 3, 0.025, None, 0.0),
        (0.2, 10, 0.153, 0.212, 1.0),
        (0.1, 3, 0.015, None, 0.0),
        (0.1, 10, 0.074, 0.101, 0.98),
    ],
)
def test_the_false_alarms_of_the_notes(flip, variants, flagged, over, blocked):
    """The table of section 1 of the notes, measured there with other code; 60 models of 500 items
    here."""
    alarms = false_alarms(500, variants, 0.7, flip, n_models=60, rng=np.random.default_rng(1))
    error = 3 * np.sqrt(flagged * (1 - flagged) / (60 * 500)) + 0.002
    assert alarms.item_flagged == pytest.approx(flagged, abs=error)
    if over is not None:
        assert alarms.item_over_threshold == pytest.approx(over, abs=0.012)
    assert alarms.model_blocked == pytest.approx(blocked, abs=0.1)
    assert alarms.model_over_threshold == 0
    if flip == 0.2:
        assert alarms.mean_item_cs == pytest.approx(0.143, abs=0.005)
