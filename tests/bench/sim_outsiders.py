"""What the memory and the perturbation audit say in worlds of somebody who did not write them.

    PYTHONPATH=tests python -m bench.sim_outsiders --models 60

Items have a discrimination of their own, and more of them are easy than hard; none of these worlds
is the null hypothesis of the audits' tests. Five references; 1,000 items, and 500 held-out items of
which the scores alone are known, or three rewordings each. `adds` is what memory adds to the
tested model's score, in points. Per cent of models with the exact 95 % interval."""

import argparse
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy

from audit.judging.forms import Share
from audit.judging.ladder import Grade
from audit.memory import calibrate as memory
from audit.memory.record import ItemSet, MemoryCell
from audit.perturb import calibrate as perturb
from audit.perturb.record import BrokenShare, PerturbCell, Wordings
from audit.statistics.paired import FloatArray
from bench.sim_exams import _scored

N, HELD_OUT, REFERENCES, VARIANTS, READ = 1000, 500, 5, 3, 150
SHOWN = (
    Grade.FOUND_STRONG,
    Grade.FOUND_SUGGESTIVE,
    Grade.CAUSE_UNKNOWN,
    Grade.CLEARED,
)


@dataclass(frozen=True, kw_only=True)
class World:
    """Facts, all 0-1 but for costs, which are in logits; a tuple is of the tested model first.

    easiest: share of the published items, the easiest, whose answers the tested model learnt.
    learnt: share of random ones. taught: of the references the first two learnt this share too.
    cost: of the held-out items or the rewordings to every model. dated: further cost to the tested
    model and the last three references, which are older than the new items. late: largest share of
    wrong keys among the new items, reached at the end of the set. assisted: share of the new items
    whose key is the answer of the first reference. lenient: share of wrong answers that the judge
    passes, of published and new items, as the tested model's answers are long; the references' are
    passed in `lenient_others`.
    """

    accuracy: float = 0.7
    others: tuple[float, float] = (0.6, 0.8)
    easiest: float = 0.0
    learnt: float = 0.0
    taught: float = 0.0
    cost: float = 0.0
    dated: float = 0.0
    late: float = 0.0
    assisted: float = 0.0
    lenient: tuple[float, float] = (0.0, 0.0)
    lenient_others: float = 0.0


@dataclass(frozen=True)
class Items:
    """Discrimination, and difficulty in logits, of a set."""

    slope: FloatArray
    difficulty: FloatArray

    def chances(self, ability: FloatArray, rng: np.random.Generator) -> FloatArray:
        logit = self.slope * (ability[:, None] - self.difficulty)
        return np.asarray(scipy.special.expit(logit + 0.6 * rng.standard_normal(logit.shape)))


def items_of(n: int, rng: np.random.Generator) -> Items:
    """Draw items: skewed difficulties, log-normal discriminations."""
    return Items(np.exp(0.35 * rng.standard_normal(n)), 1.1 * (rng.gamma(2.0, 1.0, n) - 2.0))


def abilities(world: World) -> FloatArray:
    """Return the abilities of the tested model and its references, by their accuracies."""
    rng = np.random.default_rng(0)
    grid, pool = np.linspace(-6, 6, 121), items_of(4000, rng)
    mean = pool.chances(grid, rng).mean(axis=1)
    accuracy = np.append(world.accuracy, np.linspace(*world.others, REFERENCES))
    return np.asarray(np.interp(accuracy, np.maximum.accumulate(mean), grid))


def published(
    world: World, items: Items, ability: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Return right answers (models, n), and what memory adds to the tested model's score."""
    chance = items.chances(ability, rng)
    known = rng.random(items.slope.size) < world.learnt
    known |= items.difficulty < np.quantile(items.difficulty, world.easiest)
    adds = float(np.mean(known * (1 - chance[0])))
    chance[0, known] = 1.0
    for reference in (1, 2):
        chance[reference, rng.random(items.slope.size) < world.taught] = 1.0
    return passed(world, 0, (rng.random(chance.shape) < chance).astype(float), rng), adds


def new(world: World, items: Items, ability: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return right answers (models, n) to held-out items or to a rewording."""
    old = np.isin(np.arange(ability.size), (0, 3, 4, 5))
    right = rng.random((ability.size, items.slope.size)) < items.chances(
        ability - world.cost - world.dated * old, rng
    )
    n = items.slope.size
    wrong = rng.random(n) < world.late * np.arange(n) / n
    right[:, wrong] = rng.random((ability.size, int(wrong.sum()))) < (1 - right[:, wrong]) / 3
    assisted = rng.random(n) < world.assisted
    missed = assisted & ~right[1]
    right[:, missed] = rng.random((ability.size, int(missed.sum()))) < (1 - right[:, missed]) / 3
    right[1] |= assisted
    return passed(world, 1, right.astype(float), rng)


def passed(world: World, side: int, right: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the marks of a judge that passes some wrong answers."""
    share = np.append(world.lenient[side], np.full(REFERENCES, world.lenient_others))
    return np.maximum(right, rng.random(right.shape) < share[:, None])


def memory_cell(world: World, rng: np.random.Generator) -> tuple[MemoryCell, float]:
    """Draw one tested model and its references, asked held-out items."""
    ability = abilities(world)
    seen, adds = published(world, items_of(N, rng), ability, rng)
    held_out = new(world, items_of(HELD_OUT, rng), ability, rng)
    sets = [
        ItemSet(name, tuple(map(str, range(n))), np.arange(n), np.zeros(n, dtype=int))
        for name, n in (("exam", N), ("held_out", HELD_OUT))
    ]
    pairs = [(_scored(k, seen[k]), _scored(k, held_out[k])) for k in range(ability.size)]
    return MemoryCell(sets[0], sets[1], pairs[0], tuple(pairs[1:])), adds


def perturb_cell(world: World, rng: np.random.Generator) -> tuple[PerturbCell, float]:
    """Draw one tested model and its references, asked rewordings."""
    ability, items = abilities(world), items_of(N, rng)
    seen, adds = published(world, items, ability, rng)
    variants = np.stack([new(world, items, ability, rng) for _ in range(VARIANTS)], axis=1)
    wordings = [Wordings(f"maker{k}-m", seen[k][None], variants[k]) for k in range(ability.size)]
    broken = int(rng.binomial(READ, world.late / 2))
    cell = PerturbCell(
        "exam",
        tuple(map(str, range(N))),
        np.arange(N),
        np.zeros(N, dtype=int),
        wordings[0],
        tuple(wordings[1:]),
        BrokenShare(READ, broken),
    )
    return cell, adds


_VERBOSE = World(lenient=(0.3, 0.3), lenient_others=0.05)
WORLDS: Mapping[str, World] = {
    "clean": World(),
    "half": World(learnt=0.5),
    "easiest": World(easiest=0.6),
    "two dates": World(dated=0.7),
    "two dates, references learnt": World(taught=0.2),
    "two dates, half": World(dated=0.7, learnt=0.5),
    "annotator drifts": World(late=0.16, accuracy=0.85, others=(0.65, 0.85)),
    "annotator drifts, half": World(late=0.16, learnt=0.5),
    "assisted keys": World(assisted=0.1),
    "judge likes length": replace(_VERBOSE, cost=0.7),
    "judge likes length, easier": replace(_VERBOSE, cost=-0.5),
    "judge likes length, quarter": replace(_VERBOSE, cost=0.7, learnt=0.25),
    "judge likes length, half": replace(_VERBOSE, cost=0.7, learnt=0.5),
    "judge likes length, published longer": World(lenient=(0.3, 0.15), lenient_others=0.05),
}
DRAWN = {
    "memory": (memory_cell, memory.decision_of),
    "perturb": (perturb_cell, perturb.decision_of),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sim_outsiders", description=__doc__)
    parser.add_argument("--audits", nargs="+", choices=DRAWN, default=[*DRAWN])
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=[*WORLDS])
    parser.add_argument("--models", type=int, default=60)
    asked = parser.parse_args()
    print("| audit, world | adds | strong | suggestive | cause unknown | cleared |")
    print("|---|---|---|---|---|---|", flush=True)
    for audit in asked.audits:
        draw, decision_of = DRAWN[audit]
        for name in asked.worlds:
            rng = np.random.default_rng([2045, len(name), list(WORLDS).index(name)])
            drawn = [draw(WORLDS[name], rng) for _ in range(asked.models)]
            counts = Counter(decision_of(cell, rng).grade for cell, _ in drawn)
            shares = [str(Share(counts[grade], asked.models)) for grade in SHOWN]
            adds = 100 * float(np.mean([points for _, points in drawn]))
            print(f"| {audit}, {name} | {adds:.1f} | {' | '.join(shares)} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
