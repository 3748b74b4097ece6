"""Simulate models whose true gain is known, for the calibration.

The module defines the designs and worlds, and draws outcomes from them without I/O.

- Question i is answered right with probability theta_i, which has a Beta distribution
  (`statistics.item_response`).
- A world (`judging.world`) defines which other effects act on the answers.
- In a null world, the noisy arm does not truly exceed every control. So the verdict `excess` is
  wrong.
- In a world with a gain, a verdict that clears the model is wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import scipy
from numpy.random import Generator

from audit.core.records import Reading, Setting
from audit.judging.world import World
from audit.statistics.item_response import draw_difficulties, ranks, shift, unparsed
from audit.statistics.paired import BoolArray, CellOutcomes, FloatArray, IntArray, State
from audit.statistics.values import levels_of, replicates_of
from audit.sweep.design import Arm, Draws, make_design

N_OPTIONS = 4


@dataclass(frozen=True)
class Design:
    """Describe a simulated sweep.

    Attributes
    ----------
    n : int
        The number of questions.
    routers : int
        The largest router count. The noisy arm is run with each count from 1 to this number.
    draws : str
        "independent" or "nested".
    clean_replicates, noisy_replicates : int
        How often the clean baseline and the noisy arm are run.
    clean_accuracy : float
        The accuracy of the clean baseline, 0-1.
    discordance : float
        The share of questions whose answer changes between two runs, 0-1.
    correlation : float
        The correlation between the noisy answers at two router counts, on the latent normal scale.
        It is used for nested draws only.
    panel : int
        The number of models that are judged together.
    direct, ensemble : bool
        Whether `direct` and the ensemble control are run.
    reference : float or None
        The clean accuracy of the hint reference minus the clean accuracy of the model; None without
        a hint reference.
    """

    n: int
    routers: int
    draws: str = "independent"
    clean_replicates: int = 1
    clean_accuracy: float = 0.7
    discordance: float = 0.2
    correlation: float = 0.5
    panel: int = 1
    direct: bool = True
    ensemble: bool = True
    noisy_replicates: int = 1
    reference: float | None = 0.0


_THREE_CLEAN_RUNS = partial(Design, draws="nested", clean_replicates=3)
# The designs of the shipped table, from which `analyse.nearest` chooses.
SHIPPED = (
    Design(100, 3),
    Design(100, 9),
    Design(1000, 3),
    Design(1000, 9),
    _THREE_CLEAN_RUNS(100, 3),
    _THREE_CLEAN_RUNS(100, 9),
    _THREE_CLEAN_RUNS(300, 3),
    _THREE_CLEAN_RUNS(300, 9),
    _THREE_CLEAN_RUNS(1000, 3),
    _THREE_CLEAN_RUNS(1000, 9),
    _THREE_CLEAN_RUNS(1000, 3, noisy_replicates=2),
    _THREE_CLEAN_RUNS(1000, 9, noisy_replicates=2),
    Design(3000, 9, "nested", clean_replicates=3, noisy_replicates=2),
    Design(1000, 9, "nested", clean_replicates=3, clean_accuracy=0.85, discordance=0.13),
    Design(1000, 9, "nested", clean_replicates=3, clean_accuracy=0.4, discordance=0.3),
    Design(300, 9, "nested", clean_replicates=3, panel=12),
)

# The worlds in which every shipped design is simulated. The names of a world's rates begin with its
# key.
TRUTHS = {
    "clean": World(),
    "gain_one_r": World(gain_one_r=0.05),
    "gain_5": World(gain=0.05),
    "gain_10": World(gain=0.10),
}

_WIDE = Design(1000, 9, "nested", clean_replicates=3)
_SMALL = Design(200, 9, "nested", clean_replicates=3)
_THREE = Design(1000, 3, "nested", clean_replicates=3)
_ONCE = Design(3000, 1)
_TWICE = replace(_THREE, noisy_replicates=2)
_BINDING = World(clean_loss=0.04, lossy_alone=True, repetition=0.06)
# Worlds in which an effect other than memory acts: the name, a design that is sensitive to this
# effect, and the world.
WORLDS: tuple[tuple[str, Design, World], ...] = (
    ("clean router loses 4 points", _WIDE, World(clean_loss=0.04)),
    ("clean router loses 4 points, panel of 12", replace(_WIDE, panel=12), World(clean_loss=0.04)),
    ("repetition gains 8 points", replace(_WIDE, n=500), World(repetition=0.08)),
    (
        "repetition gains 8 points, panel of 12",
        replace(_WIDE, n=600, panel=12),
        World(repetition=0.08),
    ),
    ("another control binds at each r", replace(_WIDE, n=3000, routers=2), _BINDING),
    ("runs shift by 1 point", _WIDE, World(shock=0.01)),
    ("runs shift by 1 point, n=3000", replace(_WIDE, n=3000), World(shock=0.01)),
    ("runs shift by 2 points", _WIDE, World(shock=0.02)),
    (
        "runs shift by 2 points, one clean run",
        replace(_WIDE, clean_replicates=1),
        World(shock=0.02),
    ),
    (
        "noisy runs alone shift by 2 points",
        replace(_WIDE, n=3000),
        World(shock=0.003, noisy_shock=0.02),
    ),
    (
        "noisy runs alone shift by 3 points",
        replace(_WIDE, n=3000),
        World(shock=0.003, noisy_shock=0.03),
    ),
    ("noisy runs alone shift by 2 points, r=1..3", _THREE, World(shock=0.003, noisy_shock=0.02)),
    ("noisy runs alone shift by 3 points, r=1..3", _THREE, World(shock=0.003, noisy_shock=0.03)),
    (
        "noisy runs alone shift by 3 points, two of them",
        _TWICE,
        World(shock=0.003, noisy_shock=0.03),
    ),
    (
        "noisy runs alone shift by 3 points, r=1",
        replace(_ONCE, clean_replicates=3),
        World(noisy_shock=0.03),
    ),
    (
        "noisy runs alone shift by 3 points, r=1, two of them",
        replace(_ONCE, clean_replicates=3, noisy_replicates=2),
        World(noisy_shock=0.03),
    ),
    ("nothing repeated, runs shift by 2 points", _ONCE, World(shock=0.02)),
    ("nothing repeated, runs shift by 2 points, n=1000", replace(_ONCE, n=1000), World(shock=0.02)),
    ("nothing repeated, runs shift by 3 points", _ONCE, World(shock=0.03)),
    ("runs shift by 2 points, r=1..2, one clean run", replace(_ONCE, routers=2), World(shock=0.02)),
    ("20 % hints", _THREE, World(hints=0.2)),
    ("20 % hints, two noisy runs", _TWICE, World(hints=0.2)),
    ("8 % hints, two noisy runs", _TWICE, World(hints=0.08)),
    ("20 % hints, two noisy runs, n=3000", replace(_TWICE, n=3000), World(hints=0.2)),
    ("20 % hints, an abler hint reference", replace(_TWICE, reference=0.15), World(hints=0.2)),
    ("20 % hints, a weaker hint reference", replace(_TWICE, reference=-0.1), World(hints=0.2)),
    ("20 % hints, no hint reference", replace(_TWICE, reference=None), World(hints=0.2)),
    (
        "15 % leaks, clean router loses 4 points",
        replace(_WIDE, routers=3),
        World(leak=0.15, clean_loss=0.04),
    ),
    (
        "nine answers in ten always the same, one clean run",
        replace(_SMALL, clean_replicates=1),
        World(repeats=0.9),
    ),
    ("nine answers in ten always the same", _WIDE, World(repeats=0.9)),
    ("noise helps weak items, hurts strong ones", _SMALL, World(helps_weak=0.1)),
    ("20 groups of 10, known", _SMALL, World(group=10, group_sd=0.5)),
    ("10 groups of 20, known", _SMALL, World(group=20, group_sd=0.5)),
    ("100 groups of 10, not known", _WIDE, World(group=10, group_sd=0.5, grouped=False)),
    ("4 % unread, at random", _WIDE, World(unparsed=0.04)),
    ("2 % unread, at random", _WIDE, World(unparsed=0.02)),
    ("4 % unread, at random, r=1..3", _THREE, World(unparsed=0.04)),
    ("+5 points at one r, 4 % unread, at random", _WIDE, World(gain_one_r=0.05, unparsed=0.04)),
    ("+10 points, 4 % unread, at random", _WIDE, World(gain=0.1, unparsed=0.04)),
    ("4 % unread, wrong noisy answers", _WIDE, World(unparsed_wrong=0.04)),
    (
        "+5 points, 2 % unread, right noisy answers",
        _WIDE,
        World(gain=0.05, unparsed_right=0.02),
    ),
    ("+5 points at one r, runs shift by 2 points", _WIDE, World(gain_one_r=0.05, shock=0.02)),
    ("noise costs 2 points", _WIDE, World(gain=-0.02)),
    ("noise costs 5 points", _WIDE, World(gain=-0.05)),
)


@dataclass(frozen=True)
class Simulated:
    """Hold the simulated outcomes of one model.

    Attributes
    ----------
    cell : CellOutcomes
        The outcomes of the model.
    without_leak : array (R, n) of bool or None
        Whether the noisy messages of a question never state its answer, as an argument for
        `measure`.
    reference : CellOutcomes or None
        The outcomes of the hint reference.
    """

    cell: CellOutcomes
    without_leak: BoolArray | None = None
    reference: CellOutcomes | None = None


def design_of(cell: CellOutcomes, clean_accuracy: float, discordance: float, panel: int) -> Design:
    """Return the design of a measured cell.

    Parameters
    ----------
    cell : CellOutcomes
        The cell.
    clean_accuracy, discordance : float
        Values that were estimated from the cell, 0-1.
    panel : int
        The number of models that are judged together.

    Returns
    -------
    Design
        The design that has the settings and the number of replicates of the cell.
    """
    routers = levels_of(cell, Arm.NOISY_REWRITE)
    return Design(
        n=cell.n,
        routers=len(routers),
        draws=cell.draws,
        clean_replicates=max(len(replicates_of(cell, Arm.FORWARD_FULL, 1)), 1),
        clean_accuracy=clean_accuracy,
        discordance=discordance,
        panel=panel,
        direct=bool(replicates_of(cell, Arm.DIRECT, 0)),
        ensemble=any(s.level > 1 for s in cell.settings_of(Arm.FORWARD_FULL)),
        noisy_replicates=max(len(replicates_of(cell, Arm.NOISY_REWRITE, r)) for r in routers),
    )


def settings_of(design: Design) -> tuple[Setting, ...]:
    """Return every setting of a simulated design.

    Parameters
    ----------
    design : Design
        The simulated sweep.

    Returns
    -------
    tuple of Setting
        The settings in ascending order.
    """
    made = make_design(
        range(1, design.routers + 1),
        arms=[arm for arm in Arm if design.direct or arm != Arm.DIRECT],
        draws=Draws(design.draws),
        clean_replicates=design.clean_replicates,
        noisy_replicates=design.noisy_replicates,
        ensemble_control=design.ensemble,
    )
    return tuple(sorted(made.settings))


def simulate(design: Design, world: World, rng: Generator) -> Simulated:
    """Draw the outcomes of one model and of its hint reference under every setting.

    Parameters
    ----------
    design : Design
        The simulated sweep.
    world : World
        The effects that act on the answers.
    rng : Generator
        Source of randomness.

    Returns
    -------
    Simulated
        The outcomes. The reference has no memory and reads the same messages as the model.
    """
    # The reference uses a separate generator, so that it does not change the model's outcomes.
    (other_rng,) = rng.spawn(1)
    hinted = ranks(design.n, other_rng) < world.hints
    simulated = _simulate(design, world, hinted, rng)
    if design.reference is None:
        return simulated
    accuracy = float(np.clip(design.clean_accuracy + design.reference, 0.05, 0.95))
    other = replace(design, clean_accuracy=accuracy, direct=False, ensemble=False)
    leaking = None if simulated.without_leak is None else ~simulated.without_leak[0]
    no_memory = replace(world, answers=0.0, wording=0.0, gain=min(world.gain, 0.0), gain_one_r=0.0)
    all_parsed = replace(no_memory, unparsed=0.0, unparsed_wrong=0.0, unparsed_right=0.0)
    reference = _simulate(other, all_parsed, hinted, other_rng, leaking).cell
    return replace(simulated, reference=replace(reference, model="reference"))


@dataclass(frozen=True)
class Luck:
    """Draw the random part of each answer, for each setting in turn.

    The values are standard normal. With nested draws they are correlated over r.

    Attributes
    ----------
    n : int
        The number of questions.
    correlation : float
        The correlation between router counts; 0 for independent draws.
    rng : Generator
        Source of randomness.
    shared : dict
        Maps (arm, replicate) to the random part that all router counts share.
    """

    n: int
    correlation: float
    rng: Generator
    shared: dict[tuple[str, int], FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for arm in Arm:
            self.shared[arm, 0] = self.rng.standard_normal(self.n)

    def of(self, s: Setting) -> FloatArray:
        """Draw the values of one setting.

        Parameters
        ----------
        s : Setting
            The setting.

        Returns
        -------
        array (n,)
            The values. All settings of one arm and replicate, except the clean baseline, share a
            random part.
        """
        separate = self.rng.standard_normal(self.n)
        if not self.correlation or (s.arm != Arm.NOISY_REWRITE and s.level <= 1):
            return separate
        if (s.arm, s.replicate) not in self.shared:
            self.shared[s.arm, s.replicate] = self.rng.standard_normal(self.n)
        common = self.shared[s.arm, s.replicate]
        return np.sqrt(self.correlation) * common + np.sqrt(1 - self.correlation) * separate


def _simulate(
    design: Design, world: World, hinted: BoolArray, rng: Generator, stated: BoolArray | None = None
) -> Simulated:
    """Draw the outcomes of one model.

    `hinted` marks the questions whose messages hint at the answer. `stated` marks the questions
    whose messages state the answer. If `stated` is None, these questions are drawn at random.
    """
    n, accuracy = design.n, design.clean_accuracy
    theta = draw_difficulties(n, accuracy, design.discordance, rng)
    group = np.arange(n) // world.group
    same = rng.random(n) < world.repeats
    fixed = rng.standard_normal(n)
    drawn = ranks(n, rng) < world.leak
    leaking = drawn if stated is None else stated
    (memory_rng,) = rng.spawn(1)
    known = world.known(n, memory_rng)
    luck = Luck(n, design.correlation if Draws(design.draws) == Draws.NESTED else 0.0, rng)
    settings = settings_of(design)
    scores = []
    for s in settings:
        noisy = s.arm == Arm.NOISY_REWRITE
        chance = _shocked(_chances(theta, s, world, accuracy), s, world, rng)
        latent = luck.of(s)
        if world.group > 1:
            common = world.group_sd**2 / (1 + world.group_sd**2)
            of_group = rng.standard_normal(int(group.max()) + 1)[group]
            latent = np.sqrt(common) * of_group + np.sqrt(1 - common) * latent
        latent = latent if noisy else np.where(same, fixed, latent)
        right = answers(chance, latent) | (known.anyhow if noisy else known.published)
        scored = right | (noisy & (leaking | hinted))
        replies = unparsed(scored.astype(float), world.unparsed, rng)
        if noisy:
            replies = unparsed(replies, world.unparsed_wrong, rng, of=0)
            replies = unparsed(replies, world.unparsed_right, rng, of=1)
        scores.append(replies)
    cell = cell_of(settings, scores, design.draws, group if world.grouped else np.arange(n))
    without_leak = None
    if leaking.any():
        without_leak = np.broadcast_to(~leaking, (design.routers, n)).copy()
    return Simulated(cell, without_leak)


def answers(chance: FloatArray, luck: FloatArray) -> BoolArray:
    """Return which questions are answered right.

    Parameters
    ----------
    chance : array (n,)
        The probability of a right answer.
    luck : array (n,)
        Standard normal values. Smaller values are more likely to give a right answer.

    Returns
    -------
    array (n,) of bool
        True for a right answer.
    """
    return np.asarray(scipy.special.ndtr(luck) < chance)


def cell_of(
    settings: Sequence[Setting], scores: Sequence[FloatArray], draws: str, cluster: IntArray
) -> CellOutcomes:
    """Build a cell from simulated scores.

    Parameters
    ----------
    settings : sequence of Setting
        The settings.
    scores : sequence of array (n,)
        The values of each setting: 1 right, 0 wrong, NaN unparsed.
    draws : str
        "independent" or "nested".
    cluster : array (n,)
        The index of each question's group.

    Returns
    -------
    CellOutcomes
        A cell of the model "simulated", with N_OPTIONS options for each question.
    """
    table = np.stack(scores)
    state = np.where(table > 0, State.CORRECT, State.WRONG)
    return CellOutcomes(
        model="simulated",
        benchmark="simulated",
        draws=draws,
        reading=Reading.LETTER.value,
        question_ids=tuple(map(str, range(cluster.size))),
        cluster=cluster,
        n_options=np.full(cluster.size, N_OPTIONS),
        settings=tuple(settings),
        state=np.where(np.isnan(table), State.UNPARSED, state).astype(np.int8),
    )


def _shocked(chance: FloatArray, s: Setting, world: World, rng: Generator) -> FloatArray:
    """Return the probabilities of right answers in one run, with a random shift of the whole run
    added.
    """
    noisy = s.arm == Arm.NOISY_REWRITE and world.noisy_shock is not None
    shock = world.noisy_shock if noisy else world.shock
    if not shock:
        return chance
    return shift(chance, float(np.clip(rng.normal(0, shock), -0.2, 0.2)), float(chance.mean()))


def _chances(theta: FloatArray, s: Setting, world: World, accuracy: float) -> FloatArray:
    """Return the probability of a right answer to each question under one setting.

    `clean_loss` lowers the clean baseline and the ensemble control, but not the noisy arm.
    """
    lossy = s.arm == Arm.FORWARD_FULL and (s.level == 1 or not world.lossy_alone)
    gain = -world.clean_loss if lossy else 0.0
    gain += world.repetition if s.level > 1 else 0.0
    if s.arm == Arm.NOISY_REWRITE:
        gain += world.gain + (world.gain_one_r if s.level == 1 else 0.0)
        if world.helps_weak:
            weak = theta < 0.5
            theta = np.clip(theta + np.where(weak, world.helps_weak, 0.0), 0, 1)
            # The other questions lose the same amount in total, so that the mean gain is 0.
            loss = world.helps_weak * weak.mean() / max(float((~weak).mean()), 1e-9)
            theta = np.clip(theta - np.where(weak, 0.0, loss), 0, 1)
            accuracy = float(theta.mean())
    return shift(theta, gain, accuracy)
