"""Simulate models with known memory, for the calibration of the perturbation audit.

A world is a set of simulation settings (see `World`). There are three groups of worlds:

- WORLDS: the probability of a right answer varies over items with a Beta distribution
  (`audit.statistics.item_response`). The references are about as able as the tested model. Harder
  variants cost every model the same share of its accuracy. In `harder` and in the worlds named
  memorised_5, the drop equals the smallest effect that matters, so a verdict that excludes this
  effect is an error.
- OTHERS: the log-odds of a right answer are the model's ability plus a normally distributed value
  of the item (`logit`). Harder variants reduce the log-odds of every model equally, so abler models
  lose a different share of their accuracy.
- LIKE_MEMORY: another effect looks like memory. In `family` and `family_unnamed`, all references
  belong to one model family. The models' names reveal this only in `family`. In `broken_unseen`,
  some variants are broken, but the person who read a sample found no broken variants.

In a design with a control, the tested model also answers held-out items. Rewording costs the same
accuracy on held-out items as on the benchmark. The exception is worlds with `fresh_easier`: there
it costs less on held-out items, so the control misleads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy

from audit.judging.world import World
from audit.perturb.design import PerturbThresholds
from audit.perturb.record import BrokenShare, PerturbCell, Wordings
from audit.statistics.item_response import (
    beta_chances,
    logistic_items,
    ranks,
    shift,
    tastes,
    unparsed,
)
from audit.statistics.paired import BoolArray, FloatArray

N_OPTIONS = 4


@dataclass(frozen=True)
class PerturbDesign:
    """Describe the size of a simulated audit and the accuracy of its models.

    Attributes
    ----------
    n, variants, references : int
        Numbers of items, of variants of each item, and of references.
    checked : int
        Number of variants that a person reviewed.
    replicates : int
        Number of runs of the originals.
    accuracy : float
        Accuracy of the tested model (0-1), unless the world sets another accuracy.
    flip : float
        Probability that the answers to two wordings of an item disagree.
    item_correlation : float
        Correlation of the items' latent difficulties between two models.
    reference_spread : float
        Half the difference between the highest and the lowest accuracy of the references.
    control : int
        Number of held-out items. They have separate random numbers, so the answers to the benchmark
        are the same with and without a control.
    """

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


# If the tested model remembers this share of the items, it loses the smallest effect that matters
# under rewording.
_OF_INTEREST = PerturbThresholds().effect_of_interest / (1 - PerturbDesign.accuracy)
WORLDS: Mapping[str, World] = {
    "clean": World(),
    "clean_unparsed": World(unparsed=0.04),
    "harder": World(harder=0.05),
    "uneven": World(harder=0.05, uneven=0.02),
    "uneven_4": World(harder=0.05, uneven=0.04),
    "broken_5": World(broken=0.05),
    "memorised": World(wording=0.15),
    "memorised_unparsed": World(wording=0.15, unparsed=0.04),
    "memorised_harder": World(wording=0.15, harder=0.05),
    "memorised_half": World(wording=0.5),
    "memorised_5": World(wording=_OF_INTEREST),
    "memorised_5_unparsed": World(wording=_OF_INTEREST, unparsed=0.04),
    "memorised_5_groups": World(wording=_OF_INTEREST, group=10),
    "memorised_5_unread": World(wording=_OF_INTEREST, unparsed_wrong=0.04),
    "harder_unread": World(harder=0.05, unparsed_right=0.04),
    "harder_references_unread": World(harder=0.05, references_unparsed=0.04),
}
_ABLER = World(logit=True, accuracy=0.65, others=(0.75, 0.95), harder=0.05)
_WEAKER = World(logit=True, accuracy=0.80, others=(0.50, 0.70), harder=0.10)
_FAMILY = World(logit=True, harder=0.05, uneven=0.025, uneven_references=0.003, family="kin")
OTHERS: Mapping[str, World] = {
    "logit": World(logit=True, harder=0.05),
    "abler": _ABLER,
    "abler_10": replace(_ABLER, harder=0.10),
    "abler_near": World(logit=True, others=(0.70, 0.90), harder=0.10),
    "weaker": _WEAKER,
    "family": _FAMILY,
    "easy_broken": World(logit=True, broken=0.04, broken_where="easy"),
    "broken_alone": World(logit=True, broken=0.04, broken_where="alone"),
    "specific": World(logit=True, harder=0.05, specific=1.0),
    "tainted": World(logit=True, tainted=True),
    "logit_memorised": World(logit=True, harder=0.05, wording=0.15),
    "memorised_easier": World(logit=True, harder=0.05, wording=0.3, easier_known=True),
    "abler_memorised": replace(_ABLER, wording=0.15),
    "weaker_memorised": replace(_WEAKER, wording=0.15),
    "tainted_memorised": World(logit=True, wording=0.15, tainted=True),
    "softer": World(logit=True, harder=-0.05),
    "softer_memorised": World(logit=True, harder=-0.05, wording=0.15),
}
LIKE_MEMORY: Mapping[str, World] = {
    "touchy": World(logit=True, harder=0.03, touchy=0.08),
    "touchy_itself": World(logit=True, harder=0.03, harder_alone=0.05),
    "family_unnamed": replace(_FAMILY, family="model"),
    "broken_unseen": World(logit=True, broken=0.04, broken_where="alone", broken_unseen=True),
}

_SAME = ("clean", "harder", "uneven", "broken_5", "memorised", "memorised_harder")
_LIKE_MEMORY = ("touchy", "touchy_itself", "family_unnamed")
CONTROL_WORLDS: Mapping[str, World] = {
    **{name: WORLDS[name] for name in _SAME},
    **{name: LIKE_MEMORY[name] for name in _LIKE_MEMORY},
    "memorised_easier": OTHERS["memorised_easier"],
    "fresh_easier": World(harder=0.05, fresh_easier=0.05),
    "memorised_fresh_harder": World(wording=0.15, fresh_easier=-0.05),
}


def _accuracies(design: PerturbDesign, world: World) -> FloatArray:
    """Return an array (1 + R,): the accuracies of the tested model and its R references."""
    r = design.references
    tested_accuracy = design.accuracy if world.accuracy is None else world.accuracy
    if world.others is not None:
        return np.clip([tested_accuracy, *np.linspace(*world.others, r)], 0.05, 0.97)
    away = design.reference_spread * (np.linspace(-1, 1, r) if r > 1 else np.zeros(r))
    return np.clip([tested_accuracy, *(tested_accuracy + away)], 0.05, 0.97)


def simulate(design: PerturbDesign, world: World, rng: np.random.Generator) -> PerturbCell:
    """Draw the answers of one tested model and its references in a world.

    Parameters
    ----------
    design : PerturbDesign
        Size of the simulated audit.
    world : World
        The settings of the simulation.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    PerturbCell
        The simulated cell, with held-out items if the design has a control.
    """
    n, r = design.n, design.references
    accuracies = _accuracies(design, world)
    taste = tastes((r + 1, n), design.item_correlation, rng)
    costs = _costs(design, world, rng)
    chances = []
    for accuracy, cost, of_model in zip(accuracies.tolist(), costs, taste, strict=True):
        chances.append(_chances(design, world, accuracy, cost, of_model))
    shift = world.specific * rng.standard_normal((design.variants, n)) if world.specific else None
    thetas = [theta for theta, _ in chances]
    broken = _broken(world, thetas, design.variants, rng)
    originals, variants = [], []
    for learnt, chance in zip(_learnt(world, thetas, rng), chances, strict=True):
        pair = _answers(design, chance, learnt, broken, rng, world.group, shift)
        originals.append(pair[0])
        variants.append(pair[1])
    variants[0] = unparsed(variants[0], world.unparsed_wrong, rng, 0)
    variants[0] = unparsed(variants[0], world.unparsed_right, rng, 1)
    for k in range(1, r + 1):
        variants[k] = unparsed(variants[k], world.references_unparsed, rng, 0)
    models = []
    for k in range(r + 1):
        original = unparsed(originals[k], world.unparsed, rng)
        reworded = unparsed(variants[k], world.unparsed, rng)
        models.append(Wordings(f"{world.family if k else 'model'} {k}", original, reworded))
    n_broken = 0 if world.broken_unseen else int(rng.binomial(design.checked, world.broken))
    cell = cell_of(models, BrokenShare(design.checked, n_broken), group=world.group)
    if not design.control:
        return cell
    # The control has a separate random stream, so the answers above do not depend on it.
    rng = rng.spawn(1)[0]
    taste = tastes((1, design.control), design.item_correlation, rng)
    broken = rng.random((design.variants, design.control)) < world.broken
    chance = _chances(design, world, float(accuracies[0]), costs[0] - world.fresh_easier, taste[0])
    fresh = Wordings("model 0", *_answers(design, chance, (0.0, 0.0), broken, rng))
    return replace(cell, control=cell_of([fresh], None, "fresh"))


def _learnt(
    world: World, thetas: Sequence[FloatArray], rng: np.random.Generator
) -> list[tuple[float | FloatArray, float]]:
    """Return two shares of remembered items (0-1) for each model.

    The first share counts items that the model remembers in the published wording. The second
    counts items that the model remembers in any wording.
    """
    published: float | FloatArray = max(world.answers, world.wording)
    if world.easier_known:
        known = np.mean(thetas, axis=0)
        published = published * known / known.mean()
    learnt: list[tuple[float | FloatArray, float]] = [(published, world.answers)]
    for k in range(1, len(thetas)):
        tainted = world.tainted and k == 1
        learnt.append((float(rng.uniform(0.15, 0.5)) if tainted else 0.0, 0.0))
    return learnt


def _costs(design: PerturbDesign, world: World, rng: np.random.Generator) -> list[float]:
    """Return the accuracy (0-1) that rewording costs each model.

    The cost is stated for a model with the accuracy of the design.
    """
    uneven = world.uneven if world.uneven_references is None else world.uneven_references
    deviations = [world.uneven, *[uneven] * design.references]
    costs = [world.harder + sd * rng.standard_normal() for sd in deviations]
    if world.touchy:
        costs = [cost + world.touchy * (rng.random() < 1 / 8) for cost in costs]
    return [costs[0] + world.harder_alone, *costs[1:]]


def _chances(
    design: PerturbDesign, world: World, accuracy: float, cost: float, taste: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the probabilities that one model answers originals and variants right, as two arrays
    (n,).
    """
    if world.logit:
        items = logistic_items(design.accuracy, design.flip)
        # Lowering the ability by `lost` reduces the accuracy by `cost` for a model with the
        # accuracy of the design.
        left = float(np.clip(design.accuracy - cost, 0.02, 0.98))
        lost = items.ability(design.accuracy) - items.ability(left)
        ability = items.ability(accuracy)
        return items.chances(ability, taste), items.chances(ability - lost, taste)
    share = design.flip / (2 * design.accuracy * (1 - design.accuracy))
    theta = beta_chances(taste, accuracy, share * 2 * accuracy * (1 - accuracy))
    return theta, shift(theta, -min(cost * accuracy / design.accuracy, accuracy), accuracy)


def _broken(
    world: World, theta: Sequence[FloatArray], variants: int, rng: np.random.Generator
) -> BoolArray:
    """Return a boolean array (N, n): whether the gold answer of each variant is no longer right."""
    n = theta[0].size
    if world.broken_where == "any":
        return rng.random((variants, n)) < world.broken
    easy = np.mean(theta, axis=0)
    # Broken variants belong to easy items, or ("alone") to items that only the tested model knows.
    order = np.argsort(-easy if world.broken_where == "easy" else easy - 2 * theta[0])
    affected = np.zeros(n, dtype=bool)
    affected[order[: round(min(2.5 * world.broken, 1.0) * n)]] = True
    # Two in five variants of the affected items are broken.
    return affected & (rng.random((variants, n)) < 0.4)


def _answers(
    design: PerturbDesign,
    chances: tuple[FloatArray, FloatArray],
    remembered: tuple[float | FloatArray, float],
    broken: BoolArray,
    rng: np.random.Generator,
    group: int = 1,
    shift: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Draw the answers of one model to originals and variants.

    - `chances`: two arrays (n,), the probabilities of right answers to originals and to variants.
    - `remembered`: the share of items that the model remembers as published, and the share that it
      remembers in any wording.
    - `shift`: array (N, n), subtracted from the log-odds of each variant. It is equal for all
      models.
    """
    theta, reworded = chances
    if shift is not None:
        reworded = scipy.special.expit(
            scipy.special.logit(np.clip(reworded, 1e-9, 1 - 1e-9)) - shift
        )
    original = rng.random((design.replicates, theta.size)) < theta
    published, anyhow = remembered
    rank = ranks(theta.size, rng, group) if np.any(published) else np.ones(theta.size)
    variants = rng.random(broken.shape) < np.where(broken, 1 / N_OPTIONS, reworded)
    variants |= (rank < anyhow) & ~broken
    return (original | (rank < published)).astype(float), variants.astype(float)


def cell_of(
    models: Sequence[Wordings],
    checked: BrokenShare | None,
    benchmark: str = "simulated",
    group: int = 1,
) -> PerturbCell:
    """Return a cell of simulated answers.

    Parameters
    ----------
    models : sequence of Wordings
        The answers of the tested model, then those of the references.
    checked : BrokenShare or None
        Result of a person's review of sampled variants.
    benchmark : str
        Name of the benchmark.
    group : int
        Number of items in each cluster.

    Returns
    -------
    PerturbCell
        The cell with these answers.
    """
    n = models[0].variants.shape[1]
    return PerturbCell(
        benchmark=benchmark,
        question_ids=tuple(map(str, range(n))),
        cluster=np.arange(n) // group,
        n_options=np.full(n, N_OPTIONS),
        tested=models[0],
        references=tuple(models[1:]),
        broken=checked,
    )
