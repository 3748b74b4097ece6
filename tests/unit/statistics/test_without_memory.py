"""The score without memory and the items from memory, in small worlds of known truth."""

import numpy as np
import pytest
from scipy.special import expit

from audit.errors import DataError
from audit.statistics.from_memory import FDR, from_memory
from audit.statistics.without_memory import without_memory


def world(rng, *, learnt=0.0, held_out=1.5, tested=1.0, n=600, m=400, models=6, guess=0.0, harder=0.0):
    """(truth, published, held-out, mask of what was learnt); not Rasch: items discriminate unevenly."""
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


@pytest.mark.parametrize("made", WORLDS)
def test_the_interval_covers_and_is_the_hull_of_all_scales(made):
    rng = np.random.default_rng(1)
    covers = 0
    for _ in range(25):
        truth, a, b, _ = world(rng, **made)
        found = score(a, b, chance=(made.get("guess", 0.0),) * 2)
        covers += found.without.low <= truth <= found.without.high
        scales = [one for one in (found.by_points, found.by_ability, found.by_guessing) if one]
        assert len(scales) == (3 if "guess" in made else 2)
        assert found.without.low == min(one.low for one in scales)
        assert found.without.high == max(one.high for one in scales)
        assert found.without.estimate == pytest.approx(np.mean([one.estimate for one in scales]))
        assert found.score.estimate == a[0].mean()
    assert covers >= 22  # at a cover of 93 % fewer have p = .06, and the measured cover is 98 % or more


def test_the_share_from_memory_is_what_was_learnt():
    rng = np.random.default_rng(2)
    found = [score(*world(rng, learnt=0.4)[1:3]).share for _ in range(20)]
    assert np.mean([one.estimate for one in found]) == pytest.approx(0.4, abs=0.05)
    assert sum(one.low <= 0.4 <= one.high for one in found) >= 17
    assert all(0 <= one.low <= one.estimate <= one.high <= 1 for one in found)


def test_held_gaps_widen_and_move_no_estimate():
    _, a, b, _ = world(np.random.default_rng(3))
    plain, held = score(a, b), score(a, b, held=[(0.5, 0.3, 0.6)])
    assert held.without.estimate == plain.without.estimate
    assert held.without.low == pytest.approx(max(plain.score.estimate - 0.6, 0))
    assert held.without.high == plain.without.high


def test_a_score_has_wilsons_interval_and_clusters_widen_it():
    _, a, b, _ = world(np.random.default_rng(4), n=100)
    a[0] = np.arange(100) < 82
    alone = score(a, b).score  # Wilson 1927: (82 + 1.92) / 103.84 -+ 7.39 points
    assert (alone.low, alone.high) == (pytest.approx(0.733, abs=0.002), pytest.approx(0.883, abs=0.002))
    together = score(a, b, clusters=(np.arange(100) // 5, np.arange(400))).score
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_without_references_it_is_not_identified():
    _, a, b, _ = world(np.random.default_rng(5))
    with pytest.raises(DataError):
        without_memory((a[0], b[0]), [])


def texts(rng, known, gain, n=600, m=400, models=6):
    found = []
    common = rng.standard_normal(n), rng.standard_normal(m)
    for k in range(models):
        a, b = (side + 0.5 * rng.standard_t(5, side.size) for side in common)
        found.append((a + (0.7 * gain * known if k == 0 else 0), b))
    return found


def named(rng, learnt, gain):
    _, a, b, known = world(rng, learnt=learnt)
    told = () if gain is None else texts(rng, known, gain)
    found = from_memory((a[0], b[0]), list(zip(a[1:], b[1:], strict=True)), told)
    return found, known


def test_items_of_a_text_that_was_read_are_named_with_few_false_ones():
    rng = np.random.default_rng(6)
    false, seen = [], []
    for _ in range(15):
        found, known = named(rng, 0.2, 4.0)
        false.append(np.sum(found.named & ~known) / max(found.named.sum(), 1))
        seen.append(np.mean(found.named[known]))
        assert found.order[0] == min(found.order, key=lambda i: (found.pvalue[i], found.chance[i]))
    assert np.mean(false) <= FDR + 0.03  # 2 standard errors of 15 runs
    assert np.mean(seen) > 0.8


def test_of_a_clean_model_no_item_is_named():
    rng = np.random.default_rng(7)
    assert sum(named(rng, 0.0, 0.0)[0].named.any() for _ in range(20)) <= 4  # FDR .10: more than 4 of 20 has p = .04


def test_a_wrong_or_missing_answer_is_no_memory():
    rng = np.random.default_rng(8)
    _, a, b, _ = world(rng, learnt=0.2)
    a[0, :5], a[0, 5] = 0, np.nan
    found = from_memory((a[0], b[0]), list(zip(a[1:], b[1:], strict=True)), texts(rng, np.ones(600), 3.0))
    assert not found.named[:6].any()
    assert np.all(found.pvalue[:5] == 1)
    assert np.isnan(found.pvalue[5])
    assert 5 not in found.order


def test_the_chance_is_that_of_the_references_answers():
    # What the model itself answered tells nothing of its chance; what the references answered does.
    rng = np.random.default_rng(9)
    _, a, b, _ = world(rng)
    found = from_memory((a[0], b[0]), list(zip(a[1:], b[1:], strict=True)))
    right = a[1:].sum(axis=0)
    by_right = [np.mean(found.chance[right == k]) for k in range(6) if np.any(right == k)]
    assert by_right == sorted(by_right)
    assert np.ptp(found.chance[right == 3]) < 1e-9  # how many were right is all that counts
