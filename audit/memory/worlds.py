"""Simulated benchmarks with models of known truth, none of which is the null hypothesis of the audit's own tests.

Items have normal difficulties in logits; a model's logit on an item is its ability less that, with a part of its own
(standard deviation `_OWN_ITEM`). So a gap of equal difficulty for all is neither the same number of points nor the same
share for two models of unlike ability. The likelihood of a text, and of each order of a shard or of an item's options,
is a normal number, shared by all models but for a part of their own, times what a model makes of it.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from audit.memory.record import TEXT_SCORES, ItemSet, MemoryCell, ModelSet
from audit.statistics.paired import FloatArray, IntArray

N_OPTIONS = 4
ORDERS = 10
OPTION_ORDERS = 5
_OWN_TEXT = 0.3  # share of a likelihood's standard deviation that is a model's own
_OWN_ITEM = 0.7
_POOL = 8  # times as many items as are chosen
_BYTE, _BYTE_SD = -0.7, 0.15  # nats a byte of a text: mean, standard deviation over items
_NORMAL = scipy.stats.norm.ppf((np.arange(401) + 0.5) / 401)
_THETA = np.linspace(-12, 12, 961)


@dataclass(frozen=True)
class MemoryDesign:
    """What is simulated. fresh: items of the held-out set, 0 for none."""

    n: int
    fresh: int = 0
    references: int = 0
    shard_items: int = 5


@dataclass(frozen=True, kw_only=True)
class World:
    """Accuracies and points are 0-1, of the benchmark without memory.

    accuracy, others: of the tested model; of the references, evenly between two values. spread, fresh_spread:
    standard deviation of the items' difficulties, in logits; the means are alike for the average reference. tau: of
    how models suit the two sets, points. harder: points that the held-out set costs every model; newer: the tested
    model alone, of unknown dates. touchy: points that one reference loses on the held-out set. answers: share of
    answers that the tested model knows; knowing: how many references know the same. popular: what makes a published
    text likelier than a fresh one, in spreads; uses: what the tested model makes of it; family: half the range of
    that between the references. sequenced: the sense of an order, in spreads; felt: what the tested model makes of
    that. text: what having read the text and its orders is worth, in spreads. unparsed: share of all models' answers,
    at random; hidden: share of the tested model's answers on each set, above 0 those that speak for a gap (right on
    the published set, wrong on the fresh one), below 0 those against it. chosen: the held-out items are chosen out of
    a pool, by how many references are right, as on published ones. guess: chance of a right answer that is not known.
    even: likelihoods spread alike over texts whatever a model makes of them.
    """

    accuracy: float = 0.7
    others: tuple[float, float] = (0.65, 0.75)
    spread: float = 1.8
    fresh_spread: float = 1.8
    tau: float = 0.0
    harder: float = 0.0
    newer: float = 0.0
    touchy: float = 0.0
    answers: float = 0.0
    knowing: int = 0
    popular: float = 0.0
    uses: float = 1.0
    family: float = 0.1
    sequenced: float = 0.0
    felt: float = 1.0
    text: float = 0.0
    unparsed: float = 0.0
    hidden: float = 0.0
    chosen: bool = False
    guess: float = 0.0
    even: bool = False


def simulate(design: MemoryDesign, world: World, rng: np.random.Generator) -> MemoryCell:
    """One tested model and its references in a world."""
    models = 1 + design.references
    scores = _scores(design, world, rng)
    uses = np.append(world.uses, 1 + world.family * rng.uniform(-1, 1, design.references))
    felt = np.append(world.felt, 1 + 0.3 * rng.standard_normal(design.references))
    sides = [
        _side(design, world, scores[side], uses, felt, bool(side), rng)
        for side, n in enumerate((design.n, design.fresh))
        if n
    ]
    pairs = [(sides[0][k], sides[1][k] if design.fresh else None) for k in range(models)]
    fresh_items = _items("fresh", design.fresh) if design.fresh else None
    undated = world.newer > 0  # where the dates are stated, such items are refused
    return MemoryCell(_items("simulated", design.n), fresh_items, pairs[0], tuple(pairs[1:]), undated=undated)


def _items(name: str, n: int) -> ItemSet:
    return ItemSet(name, tuple(map(str, range(n))), np.arange(n), np.full(n, N_OPTIONS))


@lru_cache(maxsize=16)
def _accuracies(spread: float) -> FloatArray:
    """Accuracy at each ability of _THETA on items of mean difficulty 0."""
    total = np.hypot(spread, _OWN_ITEM)
    found: FloatArray = scipy.special.expit(_THETA[:, None] - total * _NORMAL).mean(axis=1)
    return found


def _ability(accuracy: FloatArray, spread: float, guess: float) -> FloatArray:
    return np.interp((accuracy - guess) / (1 - guess), _accuracies(spread), _THETA)


def _accuracy(ability: FloatArray, spread: float, guess: float) -> FloatArray:
    return guess + (1 - guess) * np.interp(ability, _THETA, _accuracies(spread))


def _scores(design: MemoryDesign, world: World, rng: np.random.Generator) -> list[FloatArray]:
    """(models, n) and (models, m) of right answers, NaN where unparsed."""
    accuracy = np.append(world.accuracy, np.linspace(*world.others, design.references))
    ability = _ability(accuracy, world.spread, world.guess)
    theirs = ability[1:] if design.references else ability
    mean = float(_accuracy(theirs, world.spread, world.guess).mean())
    # The held-out set is moved so that the references find it as hard on average.
    moves = np.linspace(-4, 4, 321)
    mu = float(np.interp(mean, [_accuracy(theirs + x, world.fresh_spread, world.guess).mean() for x in moves], moves))
    there = _accuracy(ability + mu, world.fresh_spread, world.guess) - world.harder
    there[0] -= world.newer
    if design.references and world.touchy:
        there[1] -= world.touchy
    published = accuracy + world.tau * rng.standard_normal(accuracy.size)
    abilities = (
        _ability(published, world.spread, world.guess), _ability(there, world.fresh_spread, world.guess)
    )  # fmt: skip
    sides, like = [], np.zeros(0, dtype=int)
    for side, (n, spread) in enumerate(((design.n, world.spread), (design.fresh, world.fresh_spread))):
        pool = _POOL * n if side and world.chosen else n
        logit = abilities[side][:, None] - spread * rng.standard_normal(pool)
        logit += _OWN_ITEM * rng.standard_normal((accuracy.size, pool))
        right = rng.random((accuracy.size, pool)) < world.guess + (1 - world.guess) * scipy.special.expit(logit)
        if pool > n:
            right = right[:, _chosen(like, right[1:].sum(axis=0), n)]
        if side == 0:
            like = right[1:].sum(axis=0)
            known = rng.random(n) < world.answers
            right[: 1 + world.knowing] |= known
        scores = right.astype(float)
        if world.unparsed:
            scores[rng.random(scores.shape) < world.unparsed] = np.nan
        if world.hidden:
            kind = float((side == 1) != (world.hidden > 0))
            scores[0, np.flatnonzero(scores[0] == kind)[: round(abs(world.hidden) * n)]] = np.nan  # items have no order
        sides.append(scores)
    return sides


def _chosen(published: IntArray, pool: IntArray, m: int) -> IntArray:
    """(m,) places in a pool, so that each number of right references has its share of the published items."""
    share = np.bincount(published, minlength=pool.max() + 1) / published.size
    quota = np.diff(np.rint(m * np.cumsum(share)), prepend=0).astype(int)
    found = np.concatenate([np.flatnonzero(pool == k)[:some] for k, some in enumerate(quota)])
    return np.append(found, np.setdiff1d(np.arange(pool.size), found))[:m]  # others where a pool has too few


def _side(
    design: MemoryDesign,
    world: World,
    scores: FloatArray,
    uses: FloatArray,
    felt: FloatArray,
    fresh: bool,
    rng: np.random.Generator,
) -> list[ModelSet]:
    """Every model on one set of items. Where a world is of scores alone, memory of the text is still looked for."""
    models, n = scores.shape
    texts = {name: _shared(models, (n,), rng) for name in TEXT_SCORES}
    options = _shared(models, (n, OPTION_ORDERS + 1), rng)
    order = _shared(models, (n // design.shard_items, ORDERS + 1), rng)
    found = []
    for k in range(models):
        told = {}
        for name, values in texts.items():
            more = 0.0 if fresh else world.popular * uses[k] + (world.text if k == 0 else 0.0)
            spread = 1.0 if world.even else uses[k]
            told[name] = _BYTE / (1 + 0.25 * (uses[k] - 1)) + _BYTE_SD * (spread * values[k] + more)
        if not fresh:
            for orders in (order, options):
                orders[k] *= uses[k]
                orders[k, :, 0] += world.sequenced * felt[k] * uses[k] + (world.text if k == 0 else 0.0)
        asked = np.ones(n, dtype=bool)
        found.append(ModelSet(f"model {k}", scores[k], told, {}, np.zeros(n), options[k], order[k], {}, asked=asked))
    return found


def _shared(models: int, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    """Standard normal numbers (models, *shape), of which a part is each model's own."""
    own = rng.standard_normal((models, *shape))
    found: FloatArray = np.sqrt(1 - _OWN_TEXT**2) * rng.standard_normal(shape) + _OWN_TEXT * own
    return found
