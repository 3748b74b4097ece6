"""Worlds of the perturbation audit that its authors did not write, judged with all gates.

A model answers an item right with probability expit(slope * (ability - difficulty) + its own
taste); `GUESS` is added where a world guesses. 1,000 items, three rewordings, five references."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from audit.judge.record import Settings
from audit.judging.ladder import Grade
from audit.perturb.analyse import analyse
from audit.perturb.design import PerturbThresholds
from audit.perturb.record import BrokenShare, PerturbCell, Wordings
from audit.statistics.paired import BoolArray, FloatArray
from bench.sim_outsiders import World, abilities, items_of
from bench.strangers.truth import Right, Stranger

N, VARIANTS, READ, RESAMPLES = 1000, 3, 150, 499
Rng = np.random.Generator
_abilities = lru_cache(abilities)


@dataclass
class Exam:
    """One exam. logit: (models, n), the tested model first; difficulty: (n,); shift: (models,
    VARIANTS, n), what a rewording adds to the log-odds; learnt, anyhow: (models, n), answers that
    are known as published, and under any wording; spoilt: (VARIANTS, n), rewordings whose key is
    wrong; guess: chance of what is not known, as published and reworded, of the tested model and
    of the others."""

    logit: FloatArray
    difficulty: FloatArray
    shift: FloatArray
    learnt: BoolArray
    anyhow: BoolArray
    spoilt: BoolArray
    guess: tuple[float, float, float] = (0.0, 0.0, 0.0)
    read_broken: int = 0
    group: int = 1

    def cell(self, rng: Rng) -> PerturbCell:
        models = self.logit.shape[0]
        published, reworded, others = self.guess
        right = _right(self.logit, [published] + [others] * (models - 1), rng) | self.learnt
        chances = self.logit[:, None] + self.shift
        variants = _right(chances, [reworded] + [others] * (models - 1), rng)
        variants |= self.anyhow[:, None]
        wrong_key = np.broadcast_to(self.spoilt, variants.shape)
        variants = np.where(wrong_key, rng.random(variants.shape) < 0.25, variants)
        wordings = []
        for k in range(models):
            pair = right[k][None].astype(float), variants[k].astype(float)
            wordings.append(Wordings(f"maker{k}-m", *pair))
        return PerturbCell(
            "exam",
            tuple(map(str, range(N))),
            np.arange(N) // self.group,
            np.zeros(N, dtype=int) if not any(self.guess) else np.full(N, 4),
            wordings[0],
            tuple(wordings[1:]),
            BrokenShare(READ, self.read_broken),
        )


def _right(logit: FloatArray, guess: list[float], rng: Rng) -> BoolArray:
    knows = rng.random(logit.shape) < scipy.special.expit(logit)
    each = np.array(guess).reshape(-1, *[1] * (logit.ndim - 1))
    return np.asarray(knows | (rng.random(logit.shape) < each))


def exam(
    rng: Rng,
    accuracy: float = 0.7,
    others: tuple[float, float] = (0.6, 0.8),
    ability: FloatArray | None = None,
    guess: tuple[float, float, float] = (0.0, 0.0, 0.0),
    group: int = 1,
) -> Exam:
    """Draw an exam without memory, on which rewording costs nobody anything on average."""
    if ability is None:
        floor = guess[2]
        known = (np.array([accuracy, *others]) - floor) / (1 - floor)
        ability = _abilities(World(accuracy=known[0], others=(known[1], known[2])))
    items, models = items_of(N, rng), ability.size
    taste = 0.6 * rng.standard_normal((models, N))
    wordings = 0.4 * rng.standard_normal((VARIANTS, N))
    nothing = np.zeros((models, N), dtype=bool)
    return Exam(
        logit=items.slope * (ability[:, None] - items.difficulty) + taste,
        difficulty=items.difficulty,
        shift=wordings + 0.2 * rng.standard_normal((models, VARIANTS, N)),
        learnt=nothing,
        anyhow=nothing.copy(),
        spoilt=np.zeros((VARIANTS, N), dtype=bool),
        guess=guess,
        group=group,
    )


def learns(drawn: Exam, share: float, rng: Rng, anyhow: float = 0.0) -> Exam:
    """Let the tested model learn a share of the answers, and some of these under any wording."""
    drawn.learnt = drawn.learnt.copy()
    drawn.learnt[0] |= rng.random(N) < share
    drawn.anyhow[0] = drawn.learnt[0] & (rng.random(N) < anyhow)
    return drawn


def costs(drawn: Exam, *logits: float) -> Exam:
    """Let rewording cost each model some log-odds: one number for all, or one for each."""
    each = np.broadcast_to(logits, drawn.logit.shape[0]) if len(logits) == 1 else np.array(logits)
    drawn.shift = drawn.shift - each[:, None, None]
    return drawn


def costs_hard(drawn: Exam, models: list[int], logit: float) -> Exam:
    """Let rewording of the hardest 40 % of the items cost some models log-odds."""
    hard = drawn.difficulty > np.quantile(drawn.difficulty, 0.6)
    shift = drawn.shift.copy()
    for k in models:
        shift[k] -= logit * hard
    drawn.shift = shift
    return drawn


def verdict(cell: PerturbCell, rng: Rng) -> Grade:
    """Return the grade of the audit, with its gates."""
    settings = Settings(PerturbThresholds(), int(rng.integers(2**31)), RESAMPLES)
    (result,) = analyse([cell], settings)
    return result.decision.grade


def _peers(others: float, n: int) -> FloatArray:
    """Return abilities: the tested model, one reference as able, and n - 1 much weaker ones."""
    weak = _abilities(World(accuracy=0.8, others=(others - 0.02, others + 0.02)))
    return np.array([weak[0], weak[0], *np.resize(weak[1:], n - 1)])


def hard_broken(rng: Rng) -> Exam:
    drawn = exam(rng, 0.85, (0.6, 0.85))
    hard = drawn.difficulty > np.quantile(drawn.difficulty, 0.6)
    drawn.spoilt = hard & (rng.random((VARIANTS, N)) < 0.1)
    drawn.read_broken = int(rng.binomial(READ, 0.04))
    return drawn


def cluster_broken(rng: Rng) -> Exam:
    drawn = exam(rng, group=50)
    drawn.spoilt = np.broadcast_to(np.arange(N) < 50, (VARIANTS, N))
    drawn.read_broken = int(rng.binomial(READ, 0.05))
    return drawn


def subjects(rng: Rng) -> Exam:
    drawn = exam(rng, group=50)
    drawn.learnt = drawn.learnt.copy()
    drawn.learnt[0] = np.arange(N) < 200
    return drawn


def library_leaked(rng: Rng) -> Exam:
    drawn = costs(exam(rng), 0.35)
    drawn.anyhow[1:] = rng.random((5, N)) < 0.3
    return drawn


def references_read_badly(rng: Rng, published: float, reworded: float, harder: float) -> Exam:
    """Let a fault cost all references log-odds, as published and reworded."""
    drawn = exam(rng)
    drawn.logit = drawn.logit.copy()
    drawn.logit[1:] -= published
    return costs(drawn, harder, *[harder + reworded - published] * 5)


def one_peer(rng: Rng, n: int, hard: bool) -> Exam:
    drawn = exam(rng, ability=_peers(0.58, n))
    return costs_hard(drawn, [0, 1], 1.2) if hard else costs(drawn, 0.7, 0.7, *[0.0] * (n - 1))


def unread(rng: Rng) -> PerturbCell:
    cell = costs(exam(rng), 0.2).cell(rng)
    tested = cell.tested.variants
    lost = (tested == 1) & (rng.random(tested.shape) < 0.04 / tested.mean())
    tested[lost] = np.nan
    return cell


def run_shifts(rng: Rng) -> Exam:
    drawn = exam(rng)
    drawn.logit = drawn.logit + 0.2 * rng.standard_normal((6, 1))
    drawn.shift = drawn.shift - 0.2 * rng.standard_normal((6, 1, 1))
    return drawn


def changed(rng: Rng) -> Exam:
    """Let a smaller model answer the rewordings of the tested one: worse, on hard items alone."""
    return costs_hard(exam(rng), [0], 1.5)


def _style_suits_references(rng: Rng) -> Exam:
    return costs(exam(rng), 0.3, -0.1, -0.1, -0.1, 0.3, 0.3)


_F, _NOT, _U = Right.FOUND, Right.NOT_FOUND, Right.UNKNOWN
_GUESS = (0.25, 0.25, 0.25)
_LONGEST = (0.55, 0.25, 0.25)
_EXAMS: Mapping[str, tuple[Right, str, Callable[[Rng], Exam]]] = {
    "rewordings learnt": (
        _F,
        "half learnt, half of it under any wording",
        lambda rng: learns(exam(rng), 0.5, rng, 0.5),
    ),
    "rewordings learnt, nearly all": (
        _U,
        "half learnt, nine tenths of it under any wording",
        lambda rng: learns(exam(rng), 0.5, rng, 0.9),
    ),
    "style suits references": (
        _NOT,
        "the reworder's style gives three references 0.4 logits; no memory",
        _style_suits_references,
    ),
    "easier for the weak": (
        _NOT,
        "the ablest model loses 0.5 logits, the weakest gains as much; the tested is the ablest",
        lambda rng: costs(exam(rng, 0.8), 0.5, -0.5, -0.25, 0.0, 0.25, 0.5),
    ),
    "one peer of five": (
        _NOT,
        "rewording costs the able 0.7 logits; one reference of five is as able",
        lambda rng: one_peer(rng, 5, False),
    ),
    "one peer of eight": (
        _NOT,
        "the same, one of eight",
        lambda rng: one_peer(rng, 8, False),
    ),
    "one peer of eight, hard items": (
        _NOT,
        "rewording of hard items costs the able 1.2 logits; one reference of eight is as able",
        lambda rng: one_peer(rng, 8, True),
    ),
    "references misread the published": (
        _U,
        "a fault costs all references 0.7 logits as published alone; rewordings are harder",
        lambda rng: references_read_badly(rng, 0.7, 0.0, 0.3),
    ),
    "references misread rewordings": (
        _U,
        "a fault costs references what easier rewordings give; a quarter is learnt",
        lambda rng: learns(references_read_badly(rng, 0.0, 0.5, -0.5), 0.25, rng),
    ),
    "library learnt by references": (
        _U,
        "references learnt 30 % of the rewordings, which are harder",
        library_leaked,
    ),
    "a cluster is broken": (
        _NOT,
        "all rewordings of one of 20 clusters are broken",
        cluster_broken,
    ),
    "a cluster is broken, half": (
        _F,
        "the same, and half is learnt",
        lambda rng: learns(cluster_broken(rng), 0.5, rng),
    ),
    "four subjects learnt": (_F, "four of 20 clusters are learnt whole", subjects),
    "hard rewordings broken": (
        _NOT,
        "every tenth rewording of hard items is broken; the tested model is the ablest",
        hard_broken,
    ),
    "longest option": (
        _U,
        "what the tested model does not know it guesses by length: 55 % right as published",
        lambda rng: exam(rng, 0.75, (0.65, 0.85), guess=_LONGEST),
    ),
    "model changed": (
        _U,
        "rewordings went to a later version, worse on hard items",
        changed,
    ),
    "runs shift": (
        _NOT,
        "each model's runs shift by 0.2 logits, of both wordings",
        run_shifts,
    ),
    "floor": (
        _NOT,
        "accuracy .33 where guessing gives .25",
        lambda rng: exam(rng, 0.33, (0.30, 0.42), guess=_GUESS),
    ),
    "floor, half": (
        _F,
        "the same, and half is learnt",
        lambda rng: learns(exam(rng, 0.33, (0.30, 0.42), guess=_GUESS), 0.5, rng),
    ),
    "ceiling, most learnt": (
        _F,
        "accuracy .92, and 70 % is learnt",
        lambda rng: learns(exam(rng, 0.92, (0.88, 0.95)), 0.7, rng),
    ),
}


def _of(draw: Callable[[Rng], Exam]) -> Callable[[Rng], Grade]:
    return lambda rng: verdict(draw(rng).cell(rng), rng)


WORLDS: Mapping[str, Stranger] = {
    **{name: Stranger(right, what, _of(draw)) for name, (right, what, draw) in _EXAMS.items()},
    "right rewordings unread": Stranger(
        _NOT,
        "of the tested model 4 % of the answers to rewordings are unread, all right",
        lambda rng: verdict(unread(rng), rng),
    ),
}
