"""What the memory audit says of models in worlds that its calibration does not have: how two exams
are asked differs.

    PYTHONPATH=tests python -m bench.sim_exams equal_abler equal_weaker --models 40

A model knows an item with probability expit(ability - difficulty); an item that it does not know is
guessed. Accuracy is stated on the published set. Per cent of models with the exact 95 % interval;
the score alone, R=5, 1,000 items."""

import argparse
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy

from audit.judging.forms import LETTERS, Share
from audit.memory.calibrate import decided
from audit.memory.design import MemoryThresholds
from audit.memory.evidence import correct, measure
from audit.memory.record import TEXT_SCORES, ItemSet, MemoryCell, ModelSet
from audit.statistics.paired import FloatArray

_SPREAD, _OWN = (
    1.8,
    0.7,
)  # logits: of the items' difficulties; of what an item is to one model alone
_THETA = np.linspace(-8, 8, 641)
_ITEMS = scipy.stats.norm.ppf((np.arange(201) + 0.5) / 201)
_KNOWN = scipy.special.expit(_THETA[:, None] - np.hypot(_SPREAD, _OWN) * _ITEMS).mean(axis=1)


@dataclass(frozen=True, kw_only=True)
class Exams:
    """A world. guess: chance of a right answer to an item that is not known, on the benchmark and
    on held-out items; options: of an item, as the audit is given them. learnt: share of the
    benchmark's answers that the tested model knows. harder: logits by which held-out items are
    harder for all. bimodal: items are easy or hard, and none lies between. slope: how much steeper
    than the references' the tested model's curve is. wrong_keys: share of held-out items whose key
    is wrong. twice: every published item is there twice, and nobody says so. filtered: items were
    kept for the held-out set twice as often if a twin of the tested model was wrong. second: share
    of the published and of the held-out items that need a second skill, in which the tested model
    is a logit better."""

    accuracy: float = 0.7
    others: tuple[float, float] = (0.65, 0.75)
    guess: tuple[float, float] = (0.25, 0.25)
    options: tuple[int, int] = (4, 4)
    learnt: float = 0.0
    harder: float = 0.0
    bimodal: bool = False
    slope: float = 1.0
    wrong_keys: float = 0.0
    twice: bool = False
    filtered: bool = False
    second: tuple[float, float] = (0.0, 0.0)


def simulate(
    world: Exams, rng: np.random.Generator, *, n: int = 1000, m: int = 500, references: int = 5
) -> MemoryCell:
    """Return one tested model and its references, of which the score alone was asked."""
    accuracy = np.append(world.accuracy, np.linspace(*world.others, references))
    ability = np.interp((accuracy - world.guess[0]) / (1 - world.guess[0]), _KNOWN, _THETA)
    sets = [_answers(world, side, size, ability, rng) for side, size in enumerate((n, m))]
    items = [
        ItemSet(name, tuple(map(str, range(size))), np.arange(size), np.full(size, options))
        for name, size, options in zip(("exam", "held_out"), (n, m), world.options, strict=True)
    ]
    pairs = [(_scored(k, sets[0][k]), _scored(k, sets[1][k])) for k in range(len(ability))]
    return MemoryCell(items[0], items[1], pairs[0], tuple(pairs[1:]))


def _answers(
    world: Exams, side: int, size: int, ability: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return the right answers (models, size) of a set: 0 the published, 1 the held-out one."""
    drawn = 3 * size if side and world.filtered else size // 2 if not side and world.twice else size
    difficulty = _SPREAD * (
        rng.choice([-1.0, 1.0], drawn) if world.bimodal else rng.standard_normal(drawn)
    )
    logit = ability[:, None] - difficulty - side * world.harder
    logit += _OWN * rng.standard_normal(logit.shape)
    logit[0] = world.slope * logit[0] + (rng.random(drawn) < world.second[side])
    right = world.guess[side] + (1 - world.guess[side]) * scipy.special.expit(logit)
    if side and world.filtered:
        twin = rng.random(drawn) < right[0]
        right = right[:, np.argsort(rng.random(drawn) ** np.where(twin, 1.0, 0.5))[::-1][:size]]
    if side == 0:
        right[0, rng.random(drawn) < world.learnt] = 1.0
    if side and world.wrong_keys:
        wrong = rng.random(right.shape[1]) < world.wrong_keys
        right[:, wrong] = (1 - right[:, wrong]) / (world.options[1] - 1)
    scores = (rng.random(right.shape) < right).astype(float)
    return np.repeat(scores, 2, axis=1) if not side and world.twice else scores


def _scored(k: int, score: FloatArray) -> ModelSet:
    nothing = np.full(score.size, np.nan)
    texts = dict.fromkeys(TEXT_SCORES, nothing)
    orders = np.full((score.size, 1), np.nan), np.full((0, 1), np.nan)
    return ModelSet(
        f"model {k}",
        score,
        texts,
        {},
        nothing,
        *orders,
        {},
        requested=np.ones(score.size, dtype=bool),
    )


def letter(world: Exams, rng: np.random.Generator) -> str:
    """Return the letter of the grade of one model."""
    limits = MemoryThresholds()
    cell = simulate(world, rng)
    (evidence,) = correct(
        [measure(cell, limits, rng=rng, n_resamples=199, gammas=(), describe=False)]
    )
    return LETTERS[decided(evidence, limits).grade]


_TEN = {"guess": (0.25, 0.10), "options": (4, 10)}
_FOUR = {"guess": (0.10, 0.25), "options": (10, 4)}
_ABLE, _WEAK = (
    {"accuracy": 0.85, "others": (0.55, 0.65)},
    {"accuracy": 0.45, "others": (0.70, 0.80)},
)
WORLDS: Mapping[str, Exams] = {
    "as_told": Exams(),
    "equal": Exams(**_TEN),  # four options and ten; every model is as able on both
    "equal_abler": Exams(**_TEN, **_ABLE),
    "equal_weaker": Exams(**_TEN, **_WEAK),
    "equal_half": Exams(**_TEN, learnt=0.5),
    "equal_back": Exams(**_FOUR),
    "equal_back_abler": Exams(**_FOUR, **_ABLE),
    "equal_back_weaker": Exams(**_FOUR, **_WEAK),
    "bimodal_abler": Exams(**_ABLE, bimodal=True, harder=0.5),
    "steep": Exams(slope=1.8, harder=0.7),
    "wrong_keys_abler": Exams(**_ABLE, wrong_keys=0.10),
    "twice": Exams(twice=True),
    "filtered": Exams(filtered=True),
    "second_skill": Exams(
        second=(0.2, 0.5), learnt=0.15
    ),  # memory, hidden by a skill that held-out items need more
    "second_half": Exams(second=(0.2, 0.5), learnt=0.5),
    "drift": Exams(harder=1.0),  # 14 points or so harder for all
    "drift_half": Exams(harder=1.0, learnt=0.5),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sim_exams", description=__doc__)
    parser.add_argument("worlds", nargs="+", choices=WORLDS)
    parser.add_argument("--models", type=int, default=40)
    arguments = parser.parse_args()
    print(
        "| world | found | cleared | cause unknown | no decision |\n|---|---|---|---|---|",
        flush=True,
    )
    for name in arguments.worlds:
        rng = np.random.default_rng([9, len(name)])
        counts = Counter(letter(WORLDS[name], rng) for _ in range(arguments.models))
        shares = [
            Share(sum(counts[symbol] for symbol in group), arguments.models)
            for group in ("FS", "C", "R", "O")
        ]
        print(f"| {name} | {' | '.join(map(str, shares))} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
