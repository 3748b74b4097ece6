"""Held-out items that the references' own answers chose are told from those that were drawn, in whatever way."""

import numpy as np
import pytest
import scipy

from audit.statistics.fresh_gap import agreement

ALPHA = 0.001
CROWD = 8  # models by whose answers items are matched


def answers(difficulty, models, rng):
    """(models, n) right or wrong. Rasch, with a part of each model's own."""
    ability = 1.25 + np.linspace(-0.4, 0.4, models)[:, None] - difficulty
    logit = ability + 0.7 * rng.standard_normal(ability.shape)
    return (rng.random(logit.shape) < scipy.special.expit(logit)).astype(float)


def matched(ours, pool, m):
    """Places of m items of a pool, with each number of right answers as often as among ours."""
    levels = range(int(max(ours.max(), pool.max())) + 1)
    edges = np.rint(m * np.cumsum([np.mean(ours == k) for k in levels])).astype(int)
    picked = [np.flatnonzero(pool == k)[:q] for k, q in zip(levels, np.diff(edges, prepend=0), strict=True)]
    return np.concatenate(picked)


def drawn(world, n, m, models, rng):
    """Answers of the references to published and held-out items."""
    hard = 1.8 * rng.standard_normal(n)
    pool = 0.5 + 1.8 * rng.standard_normal(8 * m)
    if world == "chosen":
        ours, theirs = answers(hard, models, rng), answers(pool, models, rng)
        return ours, theirs[:, matched(ours.sum(axis=0), theirs.sum(axis=0), m)]
    if world == "matched on others":
        pool = pool[matched(answers(hard, CROWD, rng).sum(axis=0), answers(pool, CROWD, rng).sum(axis=0), m)]
    if world == "passages":
        hard = np.repeat(hard[: -(-n // 10)], 10)[:n]
    if world == "other instances of the same templates":
        pool = hard[np.arange(m) % n] + 0.3 * rng.standard_normal(m)
    return answers(hard, models, rng), answers(pool[:m] - 2.2 * (world == "easier"), models, rng)


def told(world, design, draws=300):
    """Share of draws in which the items are called chosen."""
    rng = np.random.default_rng(7)
    sets = [drawn(world, *design, rng) for _ in range(draws)]
    return np.mean([agreement(list(zip(*both, strict=True))) <= ALPHA for both in sets])


@pytest.mark.parametrize("design", [(1000, 500, 8), (1000, 100, 5), (208, 208, 3), (60, 60, 3), (300, 300, 2)])
@pytest.mark.parametrize("world", ["drawn", "easier", "passages", "matched on others"])
def test_items_that_were_drawn_otherwise_are_not_called_chosen(world, design):
    assert told(world, design) <= 0.02


def test_other_instances_of_the_same_templates_are_not_called_chosen():
    assert told("other instances of the same templates", (1000, 500, 8)) <= 0.02


@pytest.mark.parametrize("design", [(1000, 500, 8), (1000, 500, 3), (208, 208, 3)])
def test_items_that_the_references_answers_chose_are(design):
    assert told("chosen", design, 60) == 1.0


def test_answers_that_were_not_parsed_hide_no_choice():
    """They count as not right, as they do for whoever counts right answers."""
    rng = np.random.default_rng(1)
    ours, theirs = drawn("chosen", 1000, 500, 5, rng)
    lost = [np.where((x == 0) & (rng.random(x.shape) < 0.1), np.nan, x) for x in (ours, theirs)]
    assert agreement(list(zip(*lost, strict=True))) <= ALPHA
