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
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from bench.sim_exams import _scored

N, HELD_OUT, REFERENCES, VARIANTS, READ = 1000, 500, 5, 3, 150
LONG = 0.2, 0.5  # share of long questions, of the published and of the new ones
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

    copies: neighbours that say the same in other words, among the held-out items or, if they are
    reworded, among the published ones; nobody says so. misread: share of the tested model's right
    answers to long questions that are read as another option; LONG: share of long questions.
    picked: runs of the tested model, of which the best on the published items is judged. peeked:
    share of the held-out items that the tested model learnt. exam_keys: share of wrong published
    keys, which memory repeats. suits: logits by which new items or rewordings suit the tested
    model. kin: references that learnt the same items as the tested model.
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
    copies: int = 1
    misread: float = 0.0
    picked: int = 1
    peeked: float = 0.0
    exam_keys: float = 0.0
    suits: float = 0.0
    kin: int = 0


@dataclass(frozen=True)
class Items:
    """Discrimination, and difficulty in logits, of a set."""

    slope: FloatArray
    difficulty: FloatArray

    def chances(self, ability: FloatArray, rng: np.random.Generator) -> FloatArray:
        logit = self.slope * (ability[:, None] - self.difficulty)
        return np.asarray(scipy.special.expit(logit + 0.6 * rng.standard_normal(logit.shape)))


def items_of(n: int, rng: np.random.Generator, copies: int = 1) -> Items:
    """Draw items: skewed difficulties, log-normal discriminations."""
    slope, difficulty = np.exp(0.35 * rng.standard_normal(n)), 1.1 * (rng.gamma(2.0, 1.0, n) - 2.0)
    first = firsts(n, copies)
    return Items(slope[first], difficulty[first])


def abilities(world: World) -> FloatArray:
    """Return the abilities of the tested model and its references, by their accuracies."""
    rng = np.random.default_rng(0)
    grid, pool = np.linspace(-6, 6, 121), items_of(4000, rng)
    mean = pool.chances(grid, rng).mean(axis=1)
    accuracy = np.append(world.accuracy, np.linspace(*world.others, REFERENCES))
    return np.asarray(np.interp(accuracy, np.maximum.accumulate(mean), grid))


def published(
    world: World, items: Items, ability: FloatArray, copies: int, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Return right answers (models, n), and what memory adds to the tested model's score."""
    n = items.slope.size
    chance = as_keyed(world, items.chances(ability, rng))
    known = rng.random(n) < world.learnt
    known |= items.difficulty < np.quantile(items.difficulty, world.easiest)
    adds = float(np.mean(known * (1 - chance[0])))
    chance[: 1 + world.kin, known] = 1.0
    for reference in (1, 2):
        chance[reference, rng.random(n) < world.taught] = 1.0
    right = answered(rng.random(chance.shape), chance, copies, rng)
    if world.picked > 1:
        runs = rng.random((world.picked, n)) < chance[0]
        right[0] = runs[runs.mean(axis=1).argmax()]
    return passed(world, 0, right.astype(float), rng), adds


def as_keyed(world: World, chance: FloatArray) -> FloatArray:
    """Return the chances of the key, of published items or of rewordings with the same keys."""
    wrong = np.arange(chance.shape[1]) < world.exam_keys * chance.shape[1]
    return np.where(wrong, (1 - chance) / 3, chance)


def answered(
    drawn: FloatArray, chance: FloatArray, copies: int, rng: np.random.Generator
) -> BoolArray:
    """Return right answers. Of items that say the same, four in five are answered alike."""
    if copies == 1:
        return np.asarray(drawn < chance)
    first = firsts(chance.shape[1], copies)
    drawn = np.where(rng.random(drawn.shape) < 0.8, drawn[:, first], drawn)
    return np.asarray(drawn < chance[:, first])


def firsts(n: int, copies: int) -> IntArray:
    """Return for each item the first that says the same."""
    return np.arange(n) // copies * copies


def new(
    world: World, items: Items, ability: FloatArray, rng: np.random.Generator, *, reworded: bool
) -> FloatArray:
    """Return right answers (models, n) to held-out items or to a rewording."""
    tested = np.arange(ability.size) == 0
    old = np.isin(np.arange(ability.size), (0, 3, 4, 5))
    n = items.slope.size
    drawn = rng.random((ability.size, n))
    chance = items.chances(ability - world.cost - world.dated * old + world.suits * tested, rng)
    chance = as_keyed(world, chance) if reworded else chance
    right = answered(drawn, chance, world.copies, rng)
    if world.peeked and not reworded:
        right[0] |= rng.random(n) < world.peeked
    wrong = rng.random(n) < world.late * np.arange(n) / n
    right[:, wrong] = rng.random((ability.size, int(wrong.sum()))) < (1 - right[:, wrong]) / 3
    assisted = rng.random(n) < world.assisted
    missed = assisted & ~right[1]
    right[:, missed] = rng.random((ability.size, int(missed.sum()))) < (1 - right[:, missed]) / 3
    right[1] |= assisted
    return passed(world, 1, right.astype(float), rng)


def passed(world: World, side: int, right: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the marks of a judge that passes some wrong answers and misreads long ones."""
    share = np.append(world.lenient[side], np.full(REFERENCES, world.lenient_others))
    marks = np.maximum(right, rng.random(right.shape) < share[:, None])
    if world.misread:
        marks[0, rng.random(right.shape[1]) < LONG[side] * world.misread] = 0.0
    return marks


def memory_cell(world: World, rng: np.random.Generator) -> tuple[MemoryCell, float]:
    """Draw one tested model and its references, asked held-out items."""
    ability = abilities(world)
    seen, adds = published(world, items_of(N, rng), ability, 1, rng)
    drawn = items_of(HELD_OUT, rng, world.copies)
    held_out = new(world, drawn, ability, rng, reworded=False)
    sets = [
        ItemSet(name, tuple(map(str, range(n))), np.arange(n), np.zeros(n, dtype=int))
        for name, n in (("exam", N), ("held_out", HELD_OUT))
    ]
    pairs = [(_scored(k, seen[k]), _scored(k, held_out[k])) for k in range(ability.size)]
    return MemoryCell(sets[0], sets[1], pairs[0], tuple(pairs[1:])), adds


def perturb_cell(world: World, rng: np.random.Generator) -> tuple[PerturbCell, float]:
    """Draw one tested model and its references, asked rewordings."""
    ability, items = abilities(world), items_of(N, rng, world.copies)
    seen, adds = published(world, items, ability, world.copies, rng)
    reworded = [new(world, items, ability, rng, reworded=True) for _ in range(VARIANTS)]
    variants = np.stack(reworded, axis=1)
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
    "copies": World(copies=5),
    "copies, half": World(copies=5, learnt=0.5),
    "long questions misread": World(misread=0.2),
    "best of twenty runs": World(picked=20),
    "held-out items learnt": World(learnt=0.25, peeked=0.5),
    "wrong exam keys, abler": World(exam_keys=0.1, accuracy=0.85, others=(0.6, 0.7)),
    "wrong exam keys, quarter": World(exam_keys=0.1, learnt=0.25),
    "new items suit, quarter": World(suits=0.5, learnt=0.25),
    "kin, half": World(learnt=0.5, kin=3),
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
    arguments = parser.parse_args()
    print("| audit, world | adds | strong | suggestive | cause unknown | cleared |")
    print("|---|---|---|---|---|---|", flush=True)
    for audit in arguments.audits:
        draw, decision_of = DRAWN[audit]
        for name in arguments.worlds:
            rng = np.random.default_rng([2045, len(name), list(WORLDS).index(name)])
            drawn = [draw(WORLDS[name], rng) for _ in range(arguments.models)]
            counts = Counter(decision_of(cell, rng).grade for cell, _ in drawn)
            shares = [str(Share(counts[grade], arguments.models)) for grade in SHOWN]
            adds = 100 * float(np.mean([points for _, points in drawn]))
            print(f"| {audit}, {name} | {adds:.1f} | {' | '.join(shares)} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
