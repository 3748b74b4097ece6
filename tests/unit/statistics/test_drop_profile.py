"""Where a drop lies: memory is kept at the stated level in worlds of other kinds, and a touchy model is told apart."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from audit.statistics.drop_profile import drop_profile

ALPHA = 0.025


def world(rng, n=1000, models=6, guess=0.0, slopes=0.0, harder=0.3):
    """(models, n) chances as published and reworded: two-parameter items with t3 difficulties, and guessing. The first
    model is as able as the others on average."""
    able = np.append(1.8, np.linspace(1.4, 2.2, models - 1))
    difficulty = np.sqrt(0.75) * rng.standard_t(3, n) / np.sqrt(3) + 0.5 * rng.standard_normal((models, n))
    odds = 2 * np.exp(slopes * rng.standard_normal(n)) * difficulty + able[:, None]
    return tuple(guess + (1 - guess) * expit(odds - lost) for lost in (0.0, harder))


def answers(rng, published, reworded, variants=3):
    """One model's (1, n) and (variants, n) answers."""
    n = published.size
    return (rng.random((1, n)) < published).astype(float), (rng.random((variants, n)) < reworded).astype(float)


def profile(rng, memory=0.0, generalises=0.0, lost=lambda chance: chance, variants=3, alpha=ALPHA, **made):
    """Of a tested model that remembers a share of the items, and loses under the variants what `lost` says."""
    published, reworded = world(rng, **made)
    references = [answers(rng, *each, variants) for each in zip(published[1:], reworded[1:], strict=True)]
    o, v = answers(rng, published[0], lost(reworded[0]), variants)
    known = rng.random(o.shape[1]) < memory
    o[:, known] = 1
    v[known & (rng.random(v.shape) < generalises)] = 1
    return drop_profile((o, v), references, np.arange(o.shape[1]), alpha)


@pytest.mark.parametrize(
    "made",
    [
        {"memory": 0.15},
        {"memory": 0.5},
        {"memory": 0.3, "harder": 1.0},
        {"memory": 0.3, "guess": 0.25},
        {"memory": 0.3, "slopes": 0.5, "models": 4},
        {"memory": 0.5, "generalises": 0.5},
        {"memory": 0.3, "variants": 1},
        {"memory": 0.3, "n": 300},
    ],
)
def test_memory_is_refuted_at_the_stated_level(made):
    """Of 400 models that remember as much of hard items as of easy ones 10 are expected (16 with 300 items, where it
    was 4.0 % of 1,500); more than 20 have p=.001."""
    rng = np.random.default_rng(8)
    found = [profile(rng, **made) for _ in range(400)]
    assert sum(one is not None and not one.holds for one in found) <= 20


@pytest.mark.parametrize(
    ("lost", "at_most"),
    [
        (lambda p: expit(logit(p) - 0.75), 12),  # a common shift of log-odds: 7 points
        (lambda p: 0.9 * p, 4),  # lapses
        (lambda p: p - 0.12 * np.clip(p - 0.25, 0, 1), 4),  # lapses to a guess
        (lambda p: expit(0.7 * logit(p)), 4),  # less sure of everything
    ],
)
def test_what_costs_the_known_items_is_told_from_memory(lost, at_most):
    """Of 40 models without memory, 3,000 items."""
    rng = np.random.default_rng(9)
    assert sum(profile(rng, lost=lost, n=3000).holds for _ in range(40)) <= at_most


@pytest.mark.parametrize("made", [{}, {"guess": 0.25}, {"variants": 1}, {"n": 300}])
def test_a_common_fall_of_log_odds_is_refuted_at_the_stated_level(made):
    """Of 400 touchy models 10 are expected; more than 20 have p=.001."""
    rng = np.random.default_rng(13)
    found = [profile(rng, lost=lambda p: expit(logit(p) - 0.5), **made) for _ in range(400)]
    assert sum(one is not None and one.refutes_touchy for one in found) <= 20


def test_memory_of_half_the_items_is_no_common_fall_of_log_odds():
    rng = np.random.default_rng(14)
    found = [profile(rng, memory=0.5, n=3000) for _ in range(40)]
    assert sum(one.refutes_touchy and one.expected > one.touchy for one in found) >= 35


def test_what_it_cannot_tell():
    """Memory that is more frequent on easy items looks touchy; a model that loses what the references do not know, as
    from variants broken for it alone, looks like memory."""
    rng = np.random.default_rng(10)
    published, reworded = world(rng, n=4000)
    references = [answers(rng, *each) for each in zip(published[1:], reworded[1:], strict=True)]
    easy = published[1:].mean(axis=0)
    o, v = answers(rng, published[0], reworded[0])
    o[:, rng.random(o.size) < easy**2] = 1
    assert not drop_profile((o, v), references, np.arange(o.size), ALPHA).holds
    o, v = answers(rng, published[0], reworded[0] * np.where(easy < 0.4, 0.5, 1.0))
    assert drop_profile((o, v), references, np.arange(o.size), ALPHA).holds


def test_nothing_hangs_on_order_or_on_answers_that_are_not_there():
    rng = np.random.default_rng(11)
    published, reworded = world(rng, n=600)
    tested, *references = [answers(rng, *each) for each in zip(published, reworded, strict=True)]
    tested[0][:, rng.random(600) < 0.3] = 1
    cluster = np.arange(600)
    found = drop_profile(tested, references, cluster, ALPHA)
    order = rng.permutation(600)
    moved = [tuple(x[:, order] for x in each) for each in (tested, *references[::-1])]
    again = drop_profile(moved[0], moved[1:], cluster, ALPHA)
    assert (again.lies, again.expected, again.pvalue) == pytest.approx((found.lies, found.expected, found.pvalue))
    absent = [tuple(np.concatenate([x, np.full((len(x), 50), np.nan)], axis=1) for x in each) for each in
              (tested, *references)]  # fmt: skip
    padded = drop_profile(absent[0], absent[1:], np.arange(650), ALPHA)
    assert padded.pvalue == pytest.approx(found.pvalue) and padded.lies == pytest.approx(found.lies)
    twice = [tuple(np.repeat(x, 2, axis=1) for x in each) for each in (tested, *references)]
    grouped = drop_profile(twice[0], twice[1:], np.repeat(cluster, 2), ALPHA)
    assert grouped.pvalue == pytest.approx(found.pvalue)  # an item that is there twice tells what it tells once
    assert replace(found, alpha=0.0).holds and not replace(found, alpha=1.0).holds


def test_where_there_is_nothing_to_look_at():
    rng = np.random.default_rng(12)
    published, reworded = world(rng, n=200)
    tested, *references = [answers(rng, *each) for each in zip(published, reworded, strict=True)]
    cluster = np.arange(200)
    assert drop_profile(tested, references[:1], cluster, ALPHA) is None
    assert drop_profile((tested[0] * 0, tested[1]), references, cluster, ALPHA) is None  # a gain, no drop
    gone = (np.full((1, 200), np.nan), tested[1])
    assert drop_profile(gone, references, cluster, ALPHA) is None
    assert drop_profile(tested, [gone] * 3, cluster, ALPHA) is None


def test_a_drop_beyond_the_references_that_is_rounding_alone_has_no_place():
    rng = np.random.default_rng(17)
    one = answers(rng, *(each[0] for each in world(rng, n=200)))
    order = rng.permutation(200)
    assert drop_profile(tuple(x[:, order] for x in one), [one] * 3, np.arange(200), ALPHA) is None
