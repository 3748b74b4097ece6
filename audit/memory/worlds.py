"""Models of known truth: what the calibration simulates. `World` says what the facts of a world
mean.

Items have normal difficulties in logits; a model's logit on an item is its ability less that, with
a part of its own (standard deviation `_OWN_ITEM`). So a gap of equal difficulty for all is neither
the same number of points nor the same share for two models of unlike ability: no world is the null
hypothesis of the audit's own tests. The likelihood of a text, and of each order of a shard or of an
item's options, is a normal number, shared by all models but for a part of their own, times what a
model makes of it. CLEAN and WITH_MEMORY have the worlds.

Held-out items of `spread_*` and `guessed_*` are as hard for the average reference; those of `newer`
are harder for the tested model alone, and nobody states the dates (if they are stated, the program
refuses such items); those of `chosen_*` are chosen, out of a pool, by the references' own answers.
In gap_5 learnt answers raise the score by the smallest effect that matters exactly: to clear it is
wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from audit.judging.world import Known, World
from audit.memory.design import MemoryThresholds
from audit.memory.record import TEXT_SCORES, ItemSet, MemoryCell, ModelSet
from audit.statistics.item_response import Logistic, tastes, unparsed
from audit.statistics.paired import FloatArray, IntArray

N_OPTIONS = 4
ORDERS = 10
OPTION_ORDERS = 5
_OWN_TEXT = 0.3  # share of a likelihood's standard deviation that belongs to one model alone
_OWN_ITEM = 0.7
_OTHERS = (0.65, 0.75)  # accuracies of the references
READ = 1.5  # spreads of likelihood by which a text that was read is likelier
_POOL = 8  # size of the pool, as a multiple of the items that are chosen from it
_BYTE, _BYTE_SD = -0.7, 0.15  # nats a byte of a text: mean, and standard deviation over items


@dataclass(frozen=True)
class MemoryDesign:
    """Describe a simulated design.

    Attributes
    ----------
    fresh : int
        Number of held-out items, 0 for none.
    score_alone : bool
        Whether no likelihood is asked, as for imported answers and chat endpoints.
    accuracy : float
        Accuracy of the tested model (0-1), unless its world states another.
    """

    n: int
    fresh: int = 0
    references: int = 0
    shard_items: int = 5
    score_alone: bool = False
    accuracy: float = 0.7


def simulate(design: MemoryDesign, world: World, rng: np.random.Generator) -> MemoryCell:
    """Draw one tested model and its references in a world."""
    scores, known = _scores(design, world, rng)
    uses = np.append(world.uses, 1 + world.uses_range * rng.uniform(-1, 1, design.references))
    felt = np.append(world.felt, 1 + 0.3 * rng.standard_normal(design.references))

    def side(answers: FloatArray, **likelier: Any) -> list[ModelSet]:
        if design.score_alone:
            return [_of_score(k, score) for k, score in enumerate(answers)]
        return side_of(
            answers, uses, rng, even=world.even, shard_items=design.shard_items, **likelier
        )

    published = side(
        scores[0],
        popular=world.popular,
        sequenced=world.sequenced * felt,
        read=world.file + READ * known.read,
        read_orders=world.file,
    )
    fresh = side(scores[1]) if design.fresh else []
    # Newer items are refused if the dates are stated.
    undated = ("control_benchmark.date",) if world.newer > 0 else ()
    return cell_of(published, fresh, world.fresh_options, undated=undated)


def cell_of(
    published: Sequence[ModelSet],
    fresh: Sequence[ModelSet],
    fresh_options: int = N_OPTIONS,
    undated: tuple[str, ...] = (),
) -> MemoryCell:
    """Return a cell of simulated answers.

    Parameters
    ----------
    published, fresh : sequence of ModelSet
        Each model on each set, the tested model first. `fresh` is empty without a held-out set.
    fresh_options : int
        Number of options of a held-out item.
    undated : tuple of str
        Names of dates that are not stated.
    """
    items = _items("simulated", published[0].score.size)
    held_out = _items("fresh", fresh[0].score.size, fresh_options) if fresh else None
    pairs = list(zip_longest(published, fresh))
    return MemoryCell(items, held_out, pairs[0], tuple(pairs[1:]), undated=undated)


def _items(name: str, n: int, options: int = N_OPTIONS) -> ItemSet:
    return ItemSet(name, tuple(map(str, range(n))), np.arange(n), np.full(n, options))


def _scores(
    design: MemoryDesign, world: World, rng: np.random.Generator
) -> tuple[list[FloatArray], Known]:
    """Draw (models, n) and (models, m) answers: 1 right, 0 wrong, NaN unparsed; and what is known."""
    own = design.accuracy if world.accuracy is None else world.accuracy
    accuracy = np.append(own, np.linspace(*(world.others or _OTHERS), design.references))
    guesses = world.guess, world.guess if world.fresh_guess is None else world.fresh_guess
    spreads = np.hypot([world.spread, world.fresh_spread], _OWN_ITEM)
    published, fresh = (Logistic(*values) for values in zip(spreads.tolist(), guesses, strict=True))
    ability = published.ability(accuracy)
    theirs = ability[1:] if design.references else ability
    # The held-out set is moved so that the references find it as hard on average.
    moves = np.linspace(-4, 4, 321)
    means = fresh.accuracy(theirs[:, None] + moves).mean(axis=0)
    mu = float(np.interp(published.accuracy(theirs).mean(), means, moves))
    there = fresh.accuracy(ability + mu) - world.fresh_harder
    there[0] -= world.newer
    if design.references and world.fresh_touchy:
        there[1] -= world.fresh_touchy
    accuracies = accuracy + world.tau * rng.standard_normal(accuracy.size), there
    sides: list[FloatArray] = []
    like = np.zeros(0, dtype=int)
    for side, (items, n) in enumerate(((published, design.n), (fresh, design.fresh))):
        pool = _POOL * n if side and world.chosen else n
        taste = tastes((accuracy.size, pool), 1 - (_OWN_ITEM / items.spread) ** 2, rng)
        right = rng.random(taste.shape) < items.chances(
            items.ability(accuracies[side])[:, None], taste
        )
        if pool > n:
            right = right[:, _chosen(like, right[1:].sum(axis=0), n)]
        if side == 0:
            like = right[1:].sum(axis=0)
            known = world.known(n, rng)
            right[: 1 + world.knowing] |= known.published
        scores = unparsed(right.astype(float), world.unparsed, rng)
        if world.hidden:
            # Answers that speak for a gap are right as published, and wrong on held-out items.
            speaks = int((side == 1) != (world.hidden > 0))
            scores[0] = unparsed(scores[0], abs(world.hidden), rng, speaks)
        sides.append(scores)
    return sides, known


def _chosen(published: IntArray, pool: IntArray, m: int) -> IntArray:
    """Return m places in a pool, such that each count of right references has its share of the
    published items.
    """
    share = np.bincount(published, minlength=pool.max() + 1) / published.size
    quota = np.diff(np.rint(m * np.cumsum(share)), prepend=0).astype(int)
    found = np.concatenate([np.flatnonzero(pool == k)[:some] for k, some in enumerate(quota)])
    # Other items fill up where a pool has too few.
    return np.append(found, np.setdiff1d(np.arange(pool.size), found))[:m]


def side_of(
    scores: FloatArray,
    uses: FloatArray,
    rng: np.random.Generator,
    *,
    popular: float = 0.0,
    sequenced: FloatArray | float = 0.0,
    read: FloatArray | float = 0.0,
    read_orders: float = 0.0,
    even: bool = False,
    shard_items: int = 5,
) -> list[ModelSet]:
    """Draw the likelihoods of every model on one set of items, in spreads between texts.

    scores: (models, n) answers. uses: (models,) what a model makes of a text. popular: what makes
    the texts likelier; sequenced: (models,) what makes the published orders so. read: what having
    read the text is worth to the tested model, by item; read_orders: having read the orders of
    shards. even: likelihoods of texts spread alike for all."""
    models, n = scores.shape

    def drawn(*shape: int) -> FloatArray:
        return tastes((models, *shape), 1 - _OWN_TEXT**2, rng)

    texts = {name: drawn(n) for name in TEXT_SCORES}
    options = drawn(n, OPTION_ORDERS + 1) * uses[:, None, None]
    order = drawn(n // shard_items, ORDERS + 1) * uses[:, None, None]
    for orders, learnt_order in ((options, read), (order, read_orders)):
        orders[:, :, 0] += np.reshape(sequenced * uses, (-1, 1))
        orders[0, :, 0] += learnt_order
    for name, values in texts.items():
        lead = (values if even else values * uses[:, None]) + popular * uses[:, None]
        lead[0] += read
        texts[name] = _BYTE / (1 + 0.25 * (uses[:, None] - 1)) + _BYTE_SD * lead
    made = []
    for k in range(models):
        of_model = {name: values[k] for name, values in texts.items()}
        made.append(
            ModelSet(f"model {k}", scores[k], of_model, {}, np.zeros(n), options[k], order[k], {})
        )
    return made


def _of_score(k: int, score: FloatArray) -> ModelSet:
    """Return a model of which nothing but answers was asked."""
    n = score.size
    texts = {name: np.full(n, np.nan) for name in TEXT_SCORES}
    nothing = np.full((n, 1), np.nan), np.full((0, 1), np.nan)
    return ModelSet(f"model {k}", score, texts, {}, np.full(n, np.nan), *nothing, {})


# Share of the wrong answers that is learnt, at an accuracy of .7.
_LEARNT = MemoryThresholds().effect_of_interest / 0.3
# Share of the wrong answers that is learnt, at an accuracy of .85.
_OF_15 = MemoryThresholds().effect_of_interest / 0.15
_ABLER, _WEAKER = (0.8, 0.95), (0.45, 0.6)
CLEAN: Mapping[str, World] = {
    "clean": World(),
    "clean_unparsed": World(unparsed=0.04),
    "abler": World(others=_ABLER),
    "weaker": World(others=_WEAKER),
    "spread_wider": World(accuracy=0.85, others=(0.55, 0.65), fresh_spread=3.5),
    "spread_narrower": World(accuracy=0.55, others=(0.7, 0.8), fresh_spread=0.3),
    "tau_2": World(tau=0.02),
    "tau_4": World(tau=0.04),
    "harder": World(fresh_harder=0.10),
    "newer": World(newer=0.06),
    "touchy": World(fresh_touchy=0.08),
    "larger_1.3": World(popular=0.5, uses=1.3),
    "larger_1.5": World(popular=0.5, uses=1.5),
    "family": World(popular=1.0, uses=1.2, uses_range=0.05),
    "sequenced": World(sequenced=0.3),
    "felt_2": World(sequenced=0.3, felt=2.0),
    "larger_all": World(popular=0.5, sequenced=0.3, uses=1.5, felt=1.5),
    "chosen_harder": World(fresh_harder=0.10, chosen=True),
    "larger_even": World(popular=0.5, uses=1.5, even=True),
    "guessed_wider": World(accuracy=0.85, others=(0.55, 0.65), fresh_spread=3.5, guess=0.25),
    "guessed_narrower": World(accuracy=0.85, others=(0.55, 0.65), fresh_spread=0.3, guess=0.25),
}
WITH_MEMORY: Mapping[str, World] = {
    "answers": World(answers=0.3),
    "half": World(answers=0.5),
    "dose_15": World(answers=0.15),
    "half_abler": World(answers=0.5, others=_ABLER),
    "half_contaminated": World(answers=0.5, knowing=1),
    "text": World(file=0.3),
    "gap_5": World(answers=_LEARNT),
    "gap_5_tau_2": World(answers=_LEARNT, tau=0.02),
    "gap_5_unparsed": World(answers=_LEARNT, unparsed=0.04),
    "gap_5_hidden": World(answers=_LEARNT, hidden=0.04),
    "chosen_easier": World(answers=0.15, fresh_harder=-0.09, chosen=True),
    "gap_5_guessed": World(
        accuracy=0.85, others=(0.55, 0.65), fresh_spread=0.3, guess=0.25, answers=_OF_15
    ),
}
WORLDS: Mapping[str, World] = {**CLEAN, **WITH_MEMORY}
