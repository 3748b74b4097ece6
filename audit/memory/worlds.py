"""Simulate models of known truth for the calibration of the memory audit.

Item difficulties are normally distributed. The logit of a right answer is

    ability of the model - difficulty of the item + interaction,

where the interaction of model and item has the standard deviation `_OWN_ITEM`. If one set is
harder, models of different ability lose different numbers of points and different shares of their
score. So no simulated world meets the assumptions of the audit's tests exactly.

The log-likelihood of a text, or of one order of a shard or of options, is normally distributed. It
is the sum of a large part that all models share and a small part of one model. The sum is
multiplied by a factor of the model (`World.uses`).

`CLEAN` and `WITH_MEMORY` list the worlds, and `World` explains their facts:

- `spread_*` and `guessed_*`: the held-out items are as hard as the published items for the average
  reference.
- `newer`: the held-out items are harder for the tested model alone, and their dates are not stated.
  If the dates were stated, the program would refuse such items.
- `chosen_*`: the held-out items are chosen from a pool by the references' answers.
- `gap_5`: learnt answers raise the score by exactly the smallest effect that matters. Clearing such
  a model is therefore an error.
"""

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
# standard deviation, in logits, of the interaction between a model and an item
_OWN_ITEM = 0.7
_OTHERS = (0.65, 0.75)  # lowest and highest accuracy of the references
READ = 1.5  # standard deviations by which a text is likelier after the model has read it
_POOL = 8  # size of the pool, as a multiple of the items that are chosen from it
_BYTE, _BYTE_SD = -0.7, 0.15  # nats a byte of a text: mean, and standard deviation over items


@dataclass(frozen=True)
class MemoryDesign:
    """Describe a simulated design.

    Attributes
    ----------
    n, fresh : int
        Numbers of published and of held-out items; fresh=0 means no held-out items.
    references : int
        Number of reference models.
    shard_items : int
        Items in a shard.
    score_alone : bool
        Whether only answers are simulated and no likelihoods, as for imported logs and chat
        endpoints.
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
    """Draw the answers and likelihoods of one tested model and its references in a world.

    Parameters
    ----------
    design : MemoryDesign
        Numbers of items and references to simulate.
    world : World
        What is true of the models and the items.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    MemoryCell
        The simulated cell.
    """
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
    # If the dates were stated, the program would refuse newer items.
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
        Each model on each set, the tested model first. `fresh` is empty without held-out items.
    fresh_options : int
        Number of options of a held-out item.
    undated : tuple of str
        Options of the missing dates.

    Returns
    -------
    MemoryCell
        The cell, in which each item is its own cluster.
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
    """Draw the models' answers to both sets of items, and which items the tested model remembers.

    The answers are arrays of shape (models, n) for n published items and (models, m) for m held-out
    items. An entry is 1 for a right answer, 0 for a wrong answer, and NaN for an unparsed answer.
    """
    tested_accuracy = design.accuracy if world.accuracy is None else world.accuracy
    accuracy = np.append(
        tested_accuracy, np.linspace(*(world.others or _OTHERS), design.references)
    )
    fresh_guess = world.guess if world.fresh_guess is None else world.fresh_guess
    spread, fresh_spread = np.hypot([world.spread, world.fresh_spread], _OWN_ITEM).tolist()
    published, fresh = Logistic(spread, world.guess), Logistic(fresh_spread, fresh_guess)
    ability = published.ability(accuracy)
    references = ability[1:] if design.references else ability
    # The difficulty of the held-out items is shifted until the references' mean accuracy is that on
    # the published items.
    shifts = np.linspace(-4, 4, 321)
    means = fresh.accuracy(references[:, None] + shifts).mean(axis=0)
    shift = float(np.interp(published.accuracy(references).mean(), means, shifts))
    on_fresh = fresh.accuracy(ability + shift) - world.fresh_harder
    on_fresh[0] -= world.newer
    if design.references and world.fresh_touchy:
        on_fresh[1] -= world.fresh_touchy
    accuracies = accuracy + world.tau * rng.standard_normal(accuracy.size), on_fresh
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
            # A right published answer and a wrong held-out answer are evidence for a gap.
            lost = int((side == 1) != (world.hidden > 0))
            scores[0] = unparsed(scores[0], abs(world.hidden), rng, lost)
        sides.append(scores)
    return sides, known


def _chosen(published: IntArray, pool: IntArray, m: int) -> IntArray:
    """Choose m items of a pool of held-out items, and return their positions in the pool.

    For each item, the references that answered it right are counted. Each count is as frequent
    among the chosen items as among the published items.
    """
    share = np.bincount(published, minlength=pool.max() + 1) / published.size
    quota = np.diff(np.rint(m * np.cumsum(share)), prepend=0).astype(int)
    chosen = np.concatenate([np.flatnonzero(pool == k)[:most] for k, most in enumerate(quota)])
    # If the pool has too few items with a given count, items with another count are added.
    return np.append(chosen, np.setdiff1d(np.arange(pool.size), chosen))[:m]


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
    """Draw the scores and log-likelihoods of every model on one set of items.

    Parameters
    ----------
    scores : (models, n) array
        Answers of each model to the n items: 1 right, 0 wrong, NaN unparsed.
    uses : (models,) array
        Factor by which all log-likelihoods of each model are multiplied.
    rng : numpy.random.Generator
        Source of the draws.
    popular : float
        How much likelier the texts are to all models.
    sequenced : (models,) array or float
        How much likelier the published orders are to each model.
    read : (n,) array or float
        How much likelier each text is to the tested model because this model has read it.
    read_orders : float
        How much likelier the published orders of shards are to the tested model because this model
        has read them.
    even : bool
        Whether the likelihoods of texts have the same spread for all models.
    shard_items : int
        Items in a shard.

    Returns
    -------
    list of ModelSet
        The models, the tested model first.

    Notes
    -----
    `popular`, `sequenced`, `read` and `read_orders` are in standard deviations between texts.
    """
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
        deviations = (values if even else values * uses[:, None]) + popular * uses[:, None]
        deviations[0] += read
        texts[name] = _BYTE / (1 + 0.25 * (uses[:, None] - 1)) + _BYTE_SD * deviations
    results = []
    for k in range(models):
        of_model = {name: values[k] for name, values in texts.items()}
        results.append(
            ModelSet(f"model {k}", scores[k], of_model, {}, np.zeros(n), options[k], order[k], {})
        )
    return results


def _of_score(k: int, score: FloatArray) -> ModelSet:
    """Return a model that was asked only for answers, not for likelihoods."""
    n = score.size
    texts = {name: np.full(n, np.nan) for name in TEXT_SCORES}
    nothing = np.full((n, 1), np.nan), np.full((0, 1), np.nan)
    return ModelSet(f"model {k}", score, texts, {}, np.full(n, np.nan), *nothing, {})


# If a model of accuracy .7 learns this share of the items, its score rises by the smallest effect
# that matters, since 30 % of the learnt answers were wrong before.
_LEARNT = MemoryThresholds().effect_of_interest / 0.3
# The same share for a model of accuracy .85.
_LEARNT_AT_85 = MemoryThresholds().effect_of_interest / 0.15
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
        accuracy=0.85, others=(0.55, 0.65), fresh_spread=0.3, guess=0.25, answers=_LEARNT_AT_85
    ),
}
WORLDS: Mapping[str, World] = {**CLEAN, **WITH_MEMORY}
