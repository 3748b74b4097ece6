"""Worlds of the sweep that its authors did not write, judged with all gates.

A model answers a question right with probability expit(logit); nested messages share luck. 1,000
questions, r=1..3, three clean and two noisy runs, and a hint reference."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import scipy

from audit.core.records import Setting
from audit.judge.record import judge_cells
from audit.judging.ladder import Grade
from audit.statistics.paired import BoolArray, CellOutcomes, FloatArray, IntArray
from audit.sweep.analyse import JUDGE, CellInputs, SweepSettings
from audit.sweep.design import Arm, SweepThresholds
from audit.sweep.gates import noise_floor_p
from audit.sweep.messages import TextMeasures
from audit.sweep.record import run_shifts
from audit.sweep.simulation import Design, Luck, answers, cell_of, settings_of
from bench.sim_outsiders import World, abilities, items_of
from bench.strangers.truth import Right, Stranger

N, ROUTERS, RESAMPLES, CORRELATION = 1000, 3, 499, 0.5
DESIGN = Design(N, ROUTERS, "nested", clean_replicates=3, noisy_replicates=2)
Rng = np.random.Generator
Effect = Callable[[Setting], FloatArray | float]  # what a setting adds to the log-odds
Scored = Callable[[Setting, BoolArray], FloatArray | BoolArray]  # what becomes of right answers


@dataclass
class Messages:
    """One exam that two models answer from the same messages. logit: (2, n), the tested model and
    the hint reference; effect, scored: of each; texts: what is measured of the messages; control:
    the tested model on held-out questions."""

    logit: FloatArray
    rng: Rng
    effect: list[Effect] = field(default_factory=lambda: [_nothing, _nothing])
    scored: list[Scored] = field(default_factory=lambda: [_as_it_is, _as_it_is])
    cluster: IntArray = field(default_factory=lambda: np.arange(N))
    guess: float = 0.0
    cached: float = 0.0
    texts: TextMeasures | None = None
    control: CellOutcomes | None = None

    def outcomes(self, k: int) -> CellOutcomes:
        """Draw the answers of one model."""
        luck, rows = Luck(N, CORRELATION, self.rng), []
        design = DESIGN if not k else replace(DESIGN, direct=False, ensemble=False)
        first: dict[int, FloatArray] = {}
        settings = settings_of(design)
        for s in settings:
            chance = scipy.special.expit(self.logit[k] + self.effect[k](s))
            chance = self.guess + (1 - self.guess) * chance
            row = np.asarray(self.scored[k](s, answers(chance, luck.of(s))), dtype=float)
            if self.cached and s.arm == Arm.NOISY_REWRITE:
                again = self.rng.random(N) >= self.cached
                row = np.where(again, row, first.setdefault(s.level, row))
            rows.append(row)
        cell = cell_of(settings, rows, "nested", self.cluster)
        return replace(cell, model="reference") if k else cell


def _nothing(s: Setting) -> float:
    return 0.0


def _as_it_is(s: Setting, right: BoolArray) -> BoolArray:
    return right


def messages(
    rng: Rng, accuracy: float = 0.7, reference: float = 0.7, guess: float = 0.0
) -> Messages:
    """Draw questions on which noise changes nothing."""
    known = (np.array([accuracy, reference]) - guess) / (1 - guess)
    ability = abilities(World(accuracy=known[0], others=(known[1], 0.99)))[:2]
    items = items_of(N, rng)
    taste = 0.6 * rng.standard_normal((2, N))
    logit = items.slope * (ability[:, None] - items.difficulty) + taste
    return Messages(logit, rng, guess=guess)


def verdict(drawn: Messages) -> Grade:
    """Return the grade of the audit, with its gates."""
    tested, reference = drawn.outcomes(0), drawn.outcomes(1)
    limits = SweepThresholds()
    settings = SweepSettings(
        limits,
        int(drawn.rng.integers(2**31)),
        RESAMPLES,
        shifts=run_shifts([tested], limits.run_sd_plausible),
        tests=ROUTERS,
    )
    inputs = CellInputs(tested, drawn.texts, drawn.control, reference, noise_floor_p(tested))
    (result,) = judge_cells(JUDGE, [inputs], settings)
    return result.decision.grade


def noisy(s: Setting) -> bool:
    return s.arm == Arm.NOISY_REWRITE


def noise_adds(logit: FloatArray | float) -> Effect:
    return lambda s: logit if noisy(s) else 0.0


def made_right(mask: BoolArray, also: BoolArray | None = None) -> Scored:
    """Return answers that noise makes right, and others that it makes wrong."""

    def scored(s: Setting, right: BoolArray) -> BoolArray:
        if not noisy(s):
            return right
        return (right | mask) & ~also if also is not None else right | mask

    return scored


def texts(**counts: object) -> TextMeasures:
    return TextMeasures(
        messages=10 * N,
        messages_noisy=6 * N,
        noisy_presentations=6 * N,
        clean_messages=3 * N,
        **counts,
    )


def leaks_if_known(rng: Rng) -> Messages:
    """Let each noisy message state the answer if the router knows it, in three of ten cases."""
    drawn = messages(rng)
    knows = rng.random(N) < scipy.special.expit(drawn.logit[0])
    first = np.where(knows & (rng.random(N) < 0.6), rng.integers(1, 4, N), 4)

    def scored(s: Setting, right: BoolArray) -> BoolArray:
        return right | (first <= s.level) if noisy(s) else right

    leaks = []
    for r in range(1, ROUTERS + 1):
        leaks += [(r, str(q)) for q in np.flatnonzero(first <= r)]
    drawn.scored = [scored, scored]
    drawn.texts = texts(leaks=frozenset(leaks), leaking=900, leaking_noisy=900)
    return drawn


def wrong_statements(rng: Rng) -> Messages:
    """Let noise release 8 points of memory, and let its messages state wrong answers to others."""
    drawn = messages(rng)
    chance = scipy.special.expit(drawn.logit[0])
    released = rng.random(N) < 0.09 / np.mean(1 - chance) * (1 - chance)
    misled = ~released & (rng.random(N) < 0.11)
    drawn.scored = [made_right(released, misled), made_right(np.zeros(N, dtype=bool), misled)]
    stated = {(r, str(q)) for r in range(1, ROUTERS + 1) for q in np.flatnonzero(misled)}
    drawn.texts = texts(stated_wrong=round(0.11 * 6 * N), noisy_stated=frozenset(stated))
    return drawn


def short_messages(rng: Rng, *, control: float | None = None, adds: float = 0.6) -> Messages:
    """Let the tested model answer better from short messages, of held-out questions too."""
    drawn = messages(rng)
    drawn.effect[0] = noise_adds(adds)
    if control is not None:
        other = messages(rng)
        other.effect[0] = noise_adds(control)
        drawn.control = replace(other.outcomes(0), benchmark="held_out")
    return drawn


def distractors(rng: Rng, accuracy: float, reference: float) -> Messages:
    """Let noise remove wrong options of three questions in ten: of what is not known, a third more
    is guessed right."""
    drawn = messages(rng, accuracy, reference)
    where, easier = rng.random(N) < 0.3, [rng.random(N) < 0.35 for _ in range(2)]
    drawn.scored = [made_right(where & each) for each in easier]
    return drawn


def hints(rng: Rng, share: float, noticed: float) -> Messages:
    """Let messages hint at answers; the hint reference notices a share of the hints."""
    drawn = messages(rng)
    hinted = rng.random(N) < share
    drawn.scored = [made_right(hinted), made_right(hinted & (rng.random(N) < noticed))]
    return drawn


def hints_known(rng: Rng) -> Messages:
    """Let messages hint at 25 % of the answers, which the reference knows anyway."""
    drawn = messages(rng)
    hinted = drawn.logit[1] > np.quantile(drawn.logit[1], 0.75)
    drawn.logit[0, hinted] -= 1.5
    drawn.logit[0] += 0.35
    drawn.scored = [made_right(hinted), made_right(hinted)]
    return drawn


def cached(rng: Rng) -> Messages:
    """Let the second noisy run repeat 99 % of the first, and all noisy calls shift together."""
    drawn = messages(rng)
    shift = noise_adds(0.16 * float(rng.standard_normal()))
    drawn.effect, drawn.cached = [shift, _nothing], 0.99
    return drawn


def groups_gain(rng: Rng) -> Messages:
    """Let noise release all that is not known in 4 of 20 known groups: 6 points on average."""
    drawn = messages(rng)
    drawn.cluster = np.arange(N) // 50
    drawn.scored[0] = made_right(drawn.cluster < 4)
    return drawn


def long_questions_cut(rng: Rng) -> Messages:
    """Let a single clean message cut long questions, which are harder; all else transmits them."""
    drawn = messages(rng)
    long = drawn.logit[0] + rng.standard_normal(N) < np.quantile(drawn.logit[0], 0.25)

    def effect(s: Setting) -> FloatArray:
        return -0.9 * long * (s.arm == Arm.FORWARD_FULL and s.level == 1)

    drawn.effect = [effect, effect]
    drawn.texts = texts(clean_lossy=round(0.15 * 3 * N))
    return drawn


def unread_wrong(rng: Rng) -> Messages:
    """Let noise release 7 points; 4 % of the controls' answers are unread, all of them wrong."""
    drawn = messages(rng)
    adds = noise_adds(0.52)

    def scored(s: Setting, right: BoolArray) -> FloatArray:
        lost = ~right & (rng.random(N) < 0.04 / max(float(np.mean(~right)), 0.04))
        return np.where(lost & ~np.array(noisy(s)), np.nan, right.astype(float))

    drawn.effect, drawn.scored = [adds, _nothing], [scored, scored]
    return drawn


def one_count(rng: Rng) -> Messages:
    """Let noise add 7 points at r=1 and cost as much at other r."""
    drawn = messages(rng)
    drawn.effect = [lambda s: (0.52 if s.level == 1 else -0.45) if noisy(s) else 0.0, _nothing]
    return drawn


def ceiling(rng: Rng) -> Messages:
    """Let noise release 5 of the 6 points that are left."""
    drawn = messages(rng, 0.94, 0.94)
    drawn.scored[0] = made_right(rng.random(N) < 0.9)
    return drawn


_F, _NOT, _U = Right.FOUND, Right.NOT_FOUND, Right.UNKNOWN
_DRAWN: Mapping[str, tuple[Right, str, Callable[[Rng], Messages]]] = {
    "leaks if known": (_NOT, "noisy messages state answers that the router knows", leaks_if_known),
    "wrong statements": (
        _F,
        "noise releases 8 points, and messages state wrong answers to 11 % of the questions",
        wrong_statements,
    ),
    "short messages": (_U, "short messages suit the tested model alone", short_messages),
    "short messages, held-out": (
        _NOT,
        "the same, and on held-out questions, which are asked, it gains as much",
        lambda rng: short_messages(rng, control=0.6),
    ),
    "memory, held-out": (
        _F,
        "noise releases memory, and none on held-out questions, which are asked",
        lambda rng: short_messages(rng, control=0.0, adds=0.9),
    ),
    "distractors": (
        _NOT,
        "noise removes wrong options; the hint reference is as able",
        lambda rng: distractors(rng, 0.7, 0.7),
    ),
    "distractors, weaker reference": (
        _NOT,
        "the same, the reference 2.5 points weaker",
        lambda rng: distractors(rng, 0.7, 0.675),
    ),
    "distractors, abler reference": (
        _NOT,
        "the same, the reference 15 points abler",
        lambda rng: distractors(rng, 0.7, 0.85),
    ),
    "floor": (
        _NOT,
        "accuracy .32 where guessing gives .25",
        lambda rng: messages(rng, 0.32, 0.32, 0.25),
    ),
    "ceiling": (_F, "accuracy .94, and noise releases 5 points", ceiling),
    "deaf reference": (
        _U,
        "15 % of the messages hint, and the hint reference notices one hint in five",
        lambda rng: hints(rng, 0.15, 0.2),
    ),
    "reference knows the hints": (
        _U,
        "messages hint at a quarter of the answers, which the reference knows anyway",
        hints_known,
    ),
    "cached second run": (
        _NOT,
        "the second noisy run repeats the first; noisy calls shift (SD 2.5 points)",
        cached,
    ),
    "groups gain": (_F, "noise releases memory in 4 of 20 groups", groups_gain),
    "long questions cut": (_NOT, "one clean message cuts long, hard questions", long_questions_cut),
    "wrong answers unread": (
        _F,
        "noise releases 7 points; 4 % of the controls' answers are unread, all wrong",
        unread_wrong,
    ),
    "one count": (_F, "noise adds 7 points at r=1 and costs as much at other r", one_count),
}


def _of(draw: Callable[[Rng], Messages]) -> Callable[[Rng], Grade]:
    return lambda rng: verdict(draw(rng))


WORLDS: Mapping[str, Stranger] = {
    name: Stranger(right, what, _of(draw)) for name, (right, what, draw) in _DRAWN.items()
}
