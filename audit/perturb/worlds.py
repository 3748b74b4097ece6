"""Models of known truth: what the calibration simulates.

A simulated benchmark has n items. Each model answers item i right with a chance of its own: Beta distributed over items
(`audit.statistics.difficulty`), correlated between models (easy items are easy for most), references of accuracies
around the tested model's. The worlds:

- clean: nothing is special about the original wordings;
- harder: variants cost every model about 5 points (the same share of its accuracy);
- uneven: the same, but what it costs differs between models with a standard deviation of 2 points;
- stronger: the same as harder, with references whose mean accuracy is 15 points below the tested model's;
- broken_2, broken_5: 2 % or 5 % of the variants lost their answer, and every model guesses at these;
- memorised: the tested model is right on 15 % of the originals because it remembers them;
- memorised_harder, memorised_broken_2: both at once;
- memorised_5: right on a sixth of the originals, so that its drop is 5 points, the effect of interest: to clear it is
  wrong, and so it is in the world harder, where its drop is 5 points too;
- memorised_5_groups: the same, but items are in groups of ten, known to the run, and remembered by whole groups;
- memorised_5_unread: the same, and 4 % of its variants' answers, all of them wrong, are not read;
- harder_unread: harder, and 4 % of the tested model's answers to variants, all of them right, are not read;
- harder_references_unread: harder, and 4 % of every reference's, all of them wrong, are not read.

With a control the same models answer fresh items, too, whose variants cost what the benchmark's do, but for two worlds:

- fresh_easier: the benchmark's variants cost 5 points and the fresh items' nothing, which breaks the control;
- memorised_fresh_harder: memory, and fresh items whose variants cost 5 points where the benchmark's cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import scipy

from audit.perturb.record import BrokenShare, PerturbCell, Wordings
from audit.perturb.thresholds import PerturbThresholds
from audit.statistics.difficulty import beta_shape, draw_latent, shift
from audit.statistics.paired import BoolArray, FloatArray

N_OPTIONS = 4
_GRID = np.linspace(0, 1, 4001)


@dataclass(frozen=True)
class PerturbDesign:
    """What is simulated. checked: variants a person read. replicates: of every model's originals, sampled. accuracy,
    flip (two wordings disagree), item_correlation (of latent difficulties between models) and reference_spread (half
    the range of the references' accuracies): 0-1. control: fresh items; not in the name that a design's random numbers
    come from, so that its models are the same with and without."""

    n: int
    variants: int
    references: int
    checked: int = 150
    replicates: int = 1
    accuracy: float = 0.7
    flip: float = 0.2
    item_correlation: float = 0.7
    reference_spread: float = 0.1
    control: int = field(default=0, repr=False)


@dataclass(frozen=True)
class World:
    """harder: points lost under the variants by a model of the design's accuracy; uneven: standard deviation of that
    between models; broken: share of variants without their answer; memorised: share of originals remembered; weaker:
    how far the references' mean accuracy is below the tested model's; fresh_easier: points that the variants of fresh
    items cost less than the benchmark's; group: items that are remembered together; unread, unread_right: share of the
    tested model's variants that are wrong, or right, and not read; references_unread: of the references' that are
    wrong and not read."""

    harder: float = 0.0
    uneven: float = 0.0
    broken: float = 0.0
    memorised: float = 0.0
    weaker: float = 0.0
    fresh_easier: float = 0.0
    group: int = 1
    unread: float = 0.0
    unread_right: float = 0.0
    references_unread: float = 0.0


_OF_INTEREST = PerturbThresholds().effect_of_interest / (1 - PerturbDesign.accuracy)  # of the wrong, remembered
WORLDS: Mapping[str, World] = {
    "clean": World(),
    "harder": World(harder=0.05),
    "uneven": World(harder=0.05, uneven=0.02),
    "stronger": World(harder=0.05, weaker=0.15),
    "broken_2": World(broken=0.02),
    "broken_5": World(broken=0.05),
    "memorised": World(memorised=0.15),
    "memorised_harder": World(memorised=0.15, harder=0.05),
    "memorised_broken_2": World(memorised=0.15, broken=0.02),
    "memorised_5": World(memorised=_OF_INTEREST),
    "memorised_5_groups": World(memorised=_OF_INTEREST, group=10),
    "memorised_5_unread": World(memorised=_OF_INTEREST, unread=0.04),
    "harder_unread": World(harder=0.05, unread_right=0.04),
    "harder_references_unread": World(harder=0.05, references_unread=0.04),
}

CONTROL_WORLDS: Mapping[str, World] = {
    **{name: WORLDS[name] for name in ("clean", "harder", "uneven", "broken_5", "memorised", "memorised_harder")},
    "fresh_easier": World(harder=0.05, fresh_easier=0.05),
    "memorised_fresh_harder": World(memorised=0.15, fresh_easier=-0.05),
}


def simulate(design: PerturbDesign, world: World, rng: np.random.Generator) -> PerturbCell:
    """One tested model and its references in a world."""
    n, r = design.n, design.references
    means = design.accuracy - world.weaker + design.reference_spread * np.linspace(-1, 1, r) if r > 1 else None
    accuracies = [design.accuracy, *(means if means is not None else [design.accuracy - world.weaker] * r)]
    latent = draw_latent((r + 1, n), design.item_correlation, rng)
    broken = rng.random((design.variants, n)) < world.broken
    models, costs = [], []
    for k, accuracy in enumerate(accuracies):
        costs.append(world.harder + world.uneven * rng.standard_normal())
        memorised = world.memorised if k == 0 else None
        models.append(
            _answers(design, f"model {k}", accuracy, costs[k], memorised, latent[k], broken, rng, world.group)
        )
    found = int(rng.binomial(design.checked, world.broken))
    models[0] = _unread(_unread(models[0], world.unread, rng), world.unread_right, rng, answer=1)
    models[1:] = [_unread(one, world.references_unread, rng) for one in models[1:]]
    cell = _cell(models, broken, BrokenShare(design.checked, found), group=world.group)
    if not design.control:
        return cell
    rng = rng.spawn(1)[0]  # a stream of its own: with and without a control the models are the same
    latent = draw_latent((1, design.control), design.item_correlation, rng)
    broken = rng.random((design.variants, design.control)) < world.broken
    cost = costs[0] - world.fresh_easier
    fresh = _answers(design, "model 0", accuracies[0], cost, None, latent[0], broken, rng)
    return replace(cell, control=_cell([fresh], broken, None, "fresh"))


def _answers(
    design: PerturbDesign, name: str, accuracy: float, cost: float, memorised: float | None, latent: FloatArray,
    broken: BoolArray, rng: np.random.Generator, group: int = 1,
) -> Wordings:  # fmt: skip
    """One model on n items. cost: points that variants cost a model of the design's accuracy; memorised: share of the
    originals, None where nothing can be; latent: (n,); broken: (N, n)."""
    share = design.flip / (2 * design.accuracy * (1 - design.accuracy))
    a, b = beta_shape(accuracy, share * 2 * accuracy * (1 - accuracy))
    theta = np.interp(latent, _GRID, _quantiles(a, b))
    reworded = np.where(
        broken, 1 / N_OPTIONS, shift(theta, -min(cost * accuracy / design.accuracy, accuracy), accuracy)
    )
    original = rng.random((design.replicates, latent.size)) < theta
    if memorised is not None:
        original |= np.repeat(rng.random(-(-latent.size // group)) < memorised, group)[: latent.size]
    answers = rng.random(broken.shape) < reworded
    return Wordings(name, original.astype(float), answers.astype(float))


def _unread(one: Wordings, share: float, rng: np.random.Generator, answer: int = 0) -> Wordings:
    """The same with that share of its variants, all of them wrong ones (answer 0) or right ones (1), not read."""
    if not share:
        return one
    such = one.variants == answer
    lost = such & (rng.random(such.shape) < share / max(float(such.mean()), share))
    return replace(one, variants=np.where(lost, np.nan, one.variants))


def _cell(
    models: Sequence[Wordings], broken: BoolArray, checked: BrokenShare | None, benchmark: str = "simulated",
    group: int = 1,
) -> PerturbCell:  # fmt: skip
    n = broken.shape[1]
    return PerturbCell(
        benchmark=benchmark,
        question_ids=tuple(map(str, range(n))),
        cluster=np.arange(n) // group,
        n_options=np.full(n, N_OPTIONS),
        tested=models[0],
        references=tuple(models[1:]),
        broken=checked,
    )


@lru_cache(maxsize=64)
def _quantiles(a: float, b: float) -> FloatArray:
    """Quantiles of a Beta distribution at _GRID: exact ones take longer than all the rest of a simulation."""
    found: FloatArray = scipy.stats.beta.ppf(_GRID, a, b)
    return found
