"""Does the interval of the score without memory cover the truth, in worlds that are not the model's
own?

    PYTHONPATH=. python tests/golden/statistics/score_without_memory.py

The table is in docs/understand/score_without_memory.md.

An item has a difficulty (a gamma's, so skewed), a discrimination of its own and may be guessed; a
model an ability. The Rasch model of the estimate has none of the three but the ability. 1,000
published and 500 held-out items. The truth is the mean chance of the tested model on the published
items, without what it learnt."""

import sys
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from audit.statistics.without_memory import without_memory

N, M = 1000, 500


@dataclass(frozen=True)
class World:
    """tested, others: accuracies. knows: share of published answers learnt. spread, held_out: of
    difficulties. harder, logits: what held-out items cost every model, in points or in logits.
    uneven: SD between models of what suits them, points. guess: chance of the one who knows
    nothing. family: SD of the references' abilities, logits."""

    tested: float = 0.7
    others: float = 0.7
    references: int = 5
    knows: float = 0.0
    spread: float = 1.8
    held_out: float = 1.8
    harder: float = 0.0
    logits: float = 0.0
    uneven: float = 0.0
    guess: float = 0.0
    family: float = 0.4
    hard_ones: bool = False  # what is learnt are the harder items


WORLDS = {
    "clean": World(),
    "clean, guessed at .25": World(guess=0.25),
    "qa 15 %": World(knows=0.15),
    "qa 50 %": World(knows=0.5),
    "qa 50 %, guessed at .25": World(knows=0.5, guess=0.25),
    "qa 30 % of the harder half": World(knows=0.3, hard_ones=True),
    "clean, R=3": World(references=3),
    "qa 50 %, R=3": World(knows=0.5, references=3),
    "qa 15 %, R=8": World(knows=0.15, references=8),
    ".85 against .60, held-out spread 3.5": World(0.85, 0.6, held_out=3.5),
    ".55 against .75, held-out spread .3": World(0.55, 0.75, held_out=0.3),
    "qa 15 %, .85 against .60, held-out spread .3": World(0.85, 0.6, knows=0.15, held_out=0.3),
    "harder by 10 points, .85 against .60": World(0.85, 0.6, harder=0.1),
    "harder by 10 points, .85 against .60, R=8": World(0.85, 0.6, harder=0.1, references=8),
    "uneven 2 points": World(uneven=0.02),
    "uneven 4 points": World(uneven=0.04),
    "uneven 4 points, qa 30 %, R=3": World(uneven=0.04, knows=0.3, references=3),
    "uneven 4 points, qa 30 %, R=8": World(uneven=0.04, knows=0.3, references=8),
    "guessed, .40 against .65, harder by a logit, R=8": World(
        0.4, 0.65, guess=0.25, logits=1, references=8
    ),
    "guessed, .40 against .65, harder by a logit, R=20": World(
        0.4, 0.65, guess=0.25, logits=1, references=20
    ),
    "guessed, .85 against .60, held-out spread 3.5, R=8": World(
        0.85, 0.6, guess=0.25, held_out=3.5, references=8
    ),
    "guessed, qa 15 %, .85 against .60, held-out spread .3": World(
        0.85, 0.6, knows=0.15, guess=0.25, held_out=0.3
    ),
    "guessed by half, .40 against .65, harder by a logit, R=8": World(
        0.4, 0.65, guess=0.12, logits=1, references=8
    ),
}


def chances(rng, world, ability, n, spread):
    """(K, n) chance of each model."""
    difficulty = spread * (rng.gamma(4, 0.5, n) - 2)
    slope = np.exp(0.25 * rng.standard_normal(n))
    return world.guess + (1 - world.guess) * expit(
        slope * (np.asarray(ability)[:, None] - difficulty)
    )


def located(world, accuracy, spread):
    """The ability that has this accuracy on a set of such items."""
    rng = np.random.default_rng(0)
    many = spread * (rng.gamma(4, 0.5, 20000) - 2)
    slope = np.exp(0.25 * rng.standard_normal(20000))
    return brentq(
        lambda a: world.guess + (1 - world.guess) * expit(slope * (a - many)).mean() - accuracy,
        -15,
        15,
        xtol=1e-3,
    )


def simulate(rng, world, centre):
    """(truth, (K, n) published and (K, m) held-out answers, tested model first, mask (n,) of what
    it learnt).

    centre: see `centre_of`.
    """
    abilities = np.append(
        centre[0], centre[1] + world.family * rng.standard_normal(world.references)
    )
    published = chances(rng, world, abilities, N, world.spread)
    held_out = np.clip(
        chances(rng, world, abilities + centre[2] - world.logits, M, world.held_out) - world.harder,
        0,
        1,
    )
    suits = world.uneven * rng.standard_normal(abilities.size)[:, None]
    truth = float(published[0].mean())
    among = np.argsort(published.mean(axis=0))[: N // 2] if world.hard_ones else np.arange(N)
    a, b = (
        (rng.random(p.shape) < p).astype(float)
        for p in (np.clip(published + suits, 0, 1), held_out)
    )
    learnt = np.isin(np.arange(N), rng.choice(among, round(world.knows * N), replace=False))
    a[0, learnt] = 1
    return truth, a, b, learnt


def centre_of(world):
    """Abilities of tested and references; and what moves a held-out ability so that sets are as
    hard for references."""
    tested, others = (located(world, a, world.spread) for a in (world.tested, world.others))
    return tested, others, located(world, world.others, world.held_out) - others


def main(times):
    scales = "points, ability, guessed"
    print(
        f"| world | bias: {scales}, all | RMSE | cover, %: {scales}, hull | width | share (cover) |"
    )
    print("|---|---|---|---|---|---|")
    for k, (name, world) in enumerate(WORLDS.items()):
        rng, centre = np.random.default_rng([22, k]), centre_of(world)
        rows, covers, shares = [], [], []
        for _ in range(times):
            truth, a, b, _ = simulate(rng, world, centre)
            chance = (0.25 if world.guess else 0.0,) * 2
            result = without_memory(
                (a[0], b[0]), list(zip(a[1:], b[1:], strict=True)), chance=chance
            )
            four = (
                result.by_points,
                result.by_ability,
                result.by_guessing or result.by_ability,
                result.without,
            )
            rows.append(
                [100 * (scale.estimate - truth) for scale in four]
                + [100 * (four[3].high - four[3].low)]
            )
            covers.append([scale.low <= truth <= scale.high for scale in four])
            true_share = (a[0].mean() - truth) / (1 - truth)
            shares.append(
                [result.share.estimate, result.share.low <= max(true_share, 0) <= result.share.high]
            )
        bias, cover = np.mean(rows, axis=0), 100 * np.mean(covers, axis=0)
        share = np.mean(shares, axis=0)
        rmse = np.sqrt(np.mean(np.array(rows)[:, 3] ** 2))
        biases, covers_ = (
            f"{figures[0]:{f}}, {figures[1]:{f}}, {format(figures[2], f) if world.guess else '-'}, **{figures[3]:{f}}**"
            for figures, f in ((bias, "+.1f"), (cover, ".1f"))
        )
        shares_ = f"{100 * share[0]:.1f} ({100 * share[1]:.1f})"
        print(
            f"| {name} | {biases} | {rmse:.1f} | {covers_} | {bias[4]:.1f} | {shares_} |",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
