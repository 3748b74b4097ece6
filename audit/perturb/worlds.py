"""Simulate models of known truth for the calibration. `World` defines the facts of a world.

A simulated benchmark has n items, easy for most models or hard for most. The first worlds (WORLDS)
are those of the test's own null: chances are Beta distributed over items
(`audit.statistics.item_response`), references are about as able as the tested model, and harder
variants cost every model the same share of its accuracy. The drop of `harder`, and of those named
memorised_5, is the smallest effect that matters: to clear these is wrong.

In the others (OTHERS), an item's log-odds are normal, and a model's ability is added to them
(`logit`). Harder variants reduce the log-odds of every model equally, so an abler model loses
another share of its accuracy. The effects in LIKE_MEMORY look like memory. The names show that the
references of `family` are of one family, but not those of `family_unnamed`. A person found broken
variants in a random sample, except in `broken_unseen`.

With a control the same models answer held-out items, too, whose variants cost what the benchmark's
do; where those of the benchmark cost more (`fresh_easier`) the control is broken."""

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
    """Define a simulated design.

    checked: the number of variants that a person read. replicates: the number of sampled answers to
    each original. accuracy, flip (the share of wordings that disagree), item_correlation (of latent
    difficulties between models) and reference_spread (half the range of the references' accuracies)
    are 0-1. control: held-out items. The control does not change a design's random numbers, so its
    models are the same with and without it."""

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


# share of the wrong answers that is remembered
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
    r = design.references
    own = design.accuracy if world.accuracy is None else world.accuracy
    if world.others is not None:
        return np.clip([own, *np.linspace(*world.others, r)], 0.05, 0.97)
    away = design.reference_spread * (np.linspace(-1, 1, r) if r > 1 else np.zeros(r))
    return np.clip([own, *(own + away)], 0.05, 0.97)


def simulate(design: PerturbDesign, world: World, rng: np.random.Generator) -> PerturbCell:
    """Simulate one tested model and its references in a world."""
    n, r = design.n, design.references
    accuracies = _accuracies(design, world)
    taste = tastes((r + 1, n), design.item_correlation, rng)
    costs = _costs(design, world, rng)
    chances = []
    for of_model in zip(accuracies.tolist(), costs, taste, strict=True):
        chances.append(_chances(design, world, *of_model))
    shift = world.specific * rng.standard_normal((design.variants, n)) if world.specific else None
    broken = _broken(world, [theta for theta, _ in chances], design.variants, rng)
    published: list[float | FloatArray] = [max(world.answers, world.wording), *[0.0] * r]
    anyhow = [world.answers, *[0.0] * r]
    if world.easier_known:
        known = np.mean([theta for theta, _ in chances], axis=0)
        published[0] = published[0] * known / known.mean()
    if world.tainted and r:
        published[1] = float(rng.uniform(0.15, 0.5))
    pairs = []
    for k in range(r + 1):
        learnt = (published[k], anyhow[k])
        pairs.append(_answers(design, chances[k], learnt, broken, rng, world.group, shift))
    originals, variants = map(list, zip(*pairs, strict=True))
    for share, of in ((world.unparsed_wrong, 0), (world.unparsed_right, 1)):
        variants[0] = unparsed(variants[0], share, rng, of)
    for k in range(1, r + 1):
        variants[k] = unparsed(variants[k], world.references_unparsed, rng, 0)
    models = []
    for k in range(r + 1):
        lost = [unparsed(answers, world.unparsed, rng) for answers in (originals[k], variants[k])]
        models.append(Wordings(f"{world.family if k else 'model'} {k}", lost[0], lost[1]))
    found = 0 if world.broken_unseen else int(rng.binomial(design.checked, world.broken))
    cell = cell_of(models, BrokenShare(design.checked, found), group=world.group)
    if not design.control:
        return cell
    # The control has a separate random stream, so the models do not depend on it.
    rng = rng.spawn(1)[0]
    taste = tastes((1, design.control), design.item_correlation, rng)
    broken = rng.random((design.variants, design.control)) < world.broken
    theta = _chances(design, world, float(accuracies[0]), costs[0] - world.fresh_easier, taste[0])
    fresh = Wordings("model 0", *_answers(design, theta, (0.0, 0.0), broken, rng))
    return replace(cell, control=cell_of([fresh], None, "fresh"))


def _costs(design: PerturbDesign, world: World, rng: np.random.Generator) -> list[float]:
    """Return the loss from variants of each model, if it had the accuracy of the design."""
    between = [world.uneven] + [
        world.uneven if world.uneven_references is None else world.uneven_references
    ] * design.references
    costs = [world.harder + sd * rng.standard_normal() for sd in between]
    if world.touchy:
        costs = [cost + world.touchy * (rng.random() < 1 / 8) for cost in costs]
    return [costs[0] + world.harder_alone, *costs[1:]]


def _chances(
    design: PerturbDesign, world: World, accuracy: float, cost: float, taste: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the chances (n,) of right answers to the originals and variants, of one model."""
    if world.logit:
        items = logistic_items(design.accuracy, design.flip)
        # Losing the ability `lost` costs `cost` points at the accuracy of the design.
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
    """Return the variants that lost their answer, (N, n)."""
    n = theta[0].size
    if world.broken_where == "any":
        return rng.random((variants, n)) < world.broken
    easy = np.mean(theta, axis=0)
    # Else they are on items that the tested model knows and the others do not.
    order = np.argsort(-easy if world.broken_where == "easy" else easy - 2 * theta[0])
    hit = np.zeros(n, dtype=bool)
    hit[order[: round(min(2.5 * world.broken, 1.0) * n)]] = (
        True  # Two in five variants of these items lose their answer.
    )
    return hit & (rng.random((variants, n)) < 0.4)


def _answers(
    design: PerturbDesign,
    chances: tuple[FloatArray, FloatArray],
    remembered: tuple[float | FloatArray, float],
    broken: BoolArray,
    rng: np.random.Generator,
    group: int = 1,
    shift: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Simulate one model's answers to originals and variants.

    chances: (n,) of the originals, of the variants. remembered: share of the items, as published
    and in any words. broken: (N, n). shift: (N, n), what each variant takes from the log-odds of
    all models."""
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
    """Return a cell. `models` begins with the tested model. `group` is the number of items in a
    cluster.
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
