"""A common fall of log-odds is refuted at the stated level in worlds of other kinds; memory is told
from it."""

import numpy as np
import pytest
from long_tests import long
from scipy.special import expit, logit

from audit.statistics.common_fall import common_fall


def world(rng, n=1000, models=6, guess=0.0, slopes=0.0, harder=0.3, all_hard=0.0):
    """(models, n) chances as published and reworded: two-parameter items with t3 difficulties, and
    guessing. The first model is as able as the others on average. all_hard: log-odds that rewording
    takes on hard items, from all."""
    able = np.append(1.8, np.linspace(1.4, 2.2, models - 1))
    difficulty = np.sqrt(0.75) * rng.standard_t(3, n) / np.sqrt(3) + 0.5 * rng.standard_normal(
        (models, n)
    )
    odds = 2 * np.exp(slopes * rng.standard_normal(n)) * difficulty + able[:, None]
    cost = harder + all_hard * (odds.mean(axis=0) < np.median(odds))
    return tuple(guess + (1 - guess) * expit(odds - lost) for lost in (0.0, cost))


def answers(rng, published, reworded, variants=3):
    """One model's (1, n) and (variants, n) answers."""
    n = published.size
    return (rng.random((1, n)) < published).astype(float), (
        rng.random((variants, n)) < reworded
    ).astype(float)


def simulated_fall(rng, memory=0.0, lost=lambda chance: chance, variants=3, **made):
    """Of a tested model that remembers a share of the items, and loses under the variants what
    `lost` says."""
    published, reworded = world(rng, **made)
    references = [
        answers(rng, *each, variants) for each in zip(published[1:], reworded[1:], strict=True)
    ]
    o, v = answers(rng, published[0], lost(reworded[0]), variants)
    o[:, rng.random(o.shape[1]) < memory] = 1
    return common_fall((o, v), references, np.arange(o.shape[1]))


@pytest.mark.long
@pytest.mark.parametrize(
    ("made", "at_most"),
    [
        ({}, 27),
        ({"guess": 0.25}, 27),
        ({"variants": 1}, 27),
        ({"n": 300}, 27),
        ({"slopes": 0.5, "models": 4}, 27),
        ({"all_hard": 1.0}, 40),
    ],
)
def test_a_common_fall_is_refuted_at_the_stated_level(made, at_most):
    """Of 300 touchy models 15 are expected; more than 27 have p=.001. Where rewording is harder on
    hard items for all, the references' slope takes off most of it: 8.7 % of 300 are left, and
    without it there were 155."""
    rng = np.random.default_rng(13)
    falls = [simulated_fall(rng, lost=lambda p: expit(logit(p) - 0.5), **made) for _ in range(300)]
    assert sum(fall.pvalue <= 0.05 for fall in falls) <= at_most


@pytest.mark.parametrize(
    "lost",
    [
        long(lambda p: 0.9 * p),  # lapses
        long(lambda p: p - 0.12 * np.clip(p - 0.25, 0, 1)),  # lapses to a guess
        lambda p: expit(0.7 * logit(p)),  # less sure of everything
    ],
)
def test_what_costs_the_known_items_is_no_memory(lost):
    """Of 40 models without memory, 3,000 items."""
    rng = np.random.default_rng(9)
    assert sum(simulated_fall(rng, lost=lost, n=3000).pvalue <= 0.05 for _ in range(40)) <= 2


@pytest.mark.parametrize(
    ("made", "least"),
    [
        ({"memory": 0.5}, 24),
        long({"memory": 0.15, "n": 3000}, 13),
        ({"memory": 0.5, "variants": 1}, 18),
    ],
)
def test_memory_is_no_common_fall(made, least):
    """Of 40 models; in another 40 it was 78, 55 and 68 %."""
    rng = np.random.default_rng(14)
    falls = [simulated_fall(rng, **made) for _ in range(40)]
    assert sum(fall.pvalue <= 0.05 for fall in falls) >= least
    assert np.mean([fall.unknown - fall.known for fall in falls]) > np.mean(
        [fall.references_unknown - fall.references_known for fall in falls]
    )


def test_what_it_cannot_tell():
    """Memory that is more frequent on easy items looks touchy; a model that loses what it hardly
    knows, memory."""
    rng = np.random.default_rng(10)
    published, reworded = world(rng, n=4000)
    references = [answers(rng, *each) for each in zip(published[1:], reworded[1:], strict=True)]
    easy = published[1:].mean(axis=0)
    o, v = answers(rng, published[0], reworded[0])
    o[:, rng.random(o.size) < easy**2] = 1
    assert common_fall((o, v), references, np.arange(o.size)).pvalue > 0.05
    o, v = answers(rng, published[0], reworded[0] * np.where(published[0] < 0.4, 0.3, 1.0))
    assert common_fall((o, v), references, np.arange(o.size)).pvalue < 0.001


def test_nothing_hangs_on_order_or_on_answers_that_are_not_there():
    rng = np.random.default_rng(11)
    published, reworded = world(rng, n=600)
    tested, *references = [answers(rng, *each) for each in zip(published, reworded, strict=True)]
    tested[0][:, rng.random(600) < 0.3] = 1
    cluster = np.arange(600)
    once = common_fall(tested, references, cluster)
    order = rng.permutation(600)
    moved = [tuple(x[:, order] for x in each) for each in (tested, *references[::-1])]
    shuffled = common_fall(moved[0], moved[1:], cluster)
    assert (shuffled.unknown, shuffled.known, shuffled.pvalue) == pytest.approx(
        (once.unknown, once.known, once.pvalue)
    )
    absent = [
        tuple(np.concatenate([x, np.full((len(x), 50), np.nan)], axis=1) for x in each)
        for each in (tested, *references)
    ]
    assert common_fall(absent[0], absent[1:], np.arange(650)).pvalue == pytest.approx(once.pvalue)
    twice = [tuple(np.repeat(x, 2, axis=1) for x in each) for each in (tested, *references)]
    grouped = common_fall(twice[0], twice[1:], np.repeat(cluster, 2))
    assert grouped.pvalue == pytest.approx(once.pvalue, rel=0.05)


def test_references_of_fewer_questions_are_taken_off_whole():
    """Where they met 600 of 2,000, their slope counted three tenths: 14 % of sensitive models were
    called."""
    rng = np.random.default_rng(15)
    published, reworded = world(rng, n=2000, all_hard=2.0)
    tested, *references = [answers(rng, *each) for each in zip(published, reworded, strict=True)]
    met = [tuple(np.where(np.arange(2000) < 600, x, np.nan) for x in each) for each in references]
    fall = common_fall(tested, met, np.arange(2000))
    first = [tuple(x[:, :600] for x in each) for each in (tested, *references)]
    assert fall.pvalue == pytest.approx(
        common_fall(first[0], first[1:], np.arange(600)).pvalue, rel=0.02
    )


def test_repeats_of_the_published_wording_are_no_rewordings():
    """Runs that agree more than rewordings do were taken for memory, or hid it: every run is
    compared alone."""
    rng = np.random.default_rng(12)
    published, reworded = world(rng, n=1000)
    tested, *references = [answers(rng, *each) for each in zip(published, reworded, strict=True)]
    once, twice = (
        common_fall((np.repeat(tested[0], k, axis=0), tested[1]), references, np.arange(1000))
        for k in (1, 2)
    )
    assert vars(twice) == pytest.approx(vars(once))


def test_where_there_is_nothing_to_look_at():
    rng = np.random.default_rng(12)
    published, reworded = world(rng, n=200)
    tested, *references = [answers(rng, *each) for each in zip(published, reworded, strict=True)]
    cluster = np.arange(200)
    assert common_fall(tested, [], cluster) is None  # nobody else tells which items are known
    assert common_fall((np.full((1, 200), np.nan), tested[1]), references, cluster) is None
    assert common_fall((np.ones((1, 200)), np.ones((3, 200))), references, cluster) is None


def test_the_fall_of_the_items_known_least_is_measured_where_most_are_known_as_little() -> None:
    """Of a benchmark that is hard for the model: with no item above the median the fall was 0, of
    nothing."""
    falls = []
    for rng in map(np.random.default_rng, range(10)):
        odds = np.where(rng.random(400) < 0.2, 3.0, -2.5)
        o, v, *reference = (
            (rng.random((k, 400)) < expit(odds - lost)) * 1.0
            for k, lost in ((1, 0), (2, 1), (1, 0), (2, 0))
        )
        falls.append(common_fall((o, v), [reference], np.arange(400)).unknown)
    assert np.mean(falls) == pytest.approx(1.0, abs=0.4) and all(falls)
