"""Simulated models of known truth for the calibration: designs, worlds, and outcomes drawn from
them (pure).

Question i is answered right with probability theta_i, Beta distributed
(`statistics.item_response`). A world (`judging.world`) says what else is true. In a null world
noisy beats some control by nothing, so that no `excess` is right; if there is a gain, clearing is
wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

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

    Router counts are 1 to `routers`. Accuracies, discordance and correlation are 0-1. `correlation`
    is that of the noisy arm over r on the latent normal scale, for nested draws only. `panel` is
    the number of models that are judged together.
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
    reference: float | None = (
        0.0  # clean accuracy of the hint reference less that of the model; None: none is asked
    )


# The designs that ship: `analyse.nearest` picks from them.
SHIPPED = (
    *(Design(n, r, "independent") for n in (100, 1000) for r in (3, 9)),
    *(Design(n, r, "nested", clean_replicates=3) for n in (100, 300, 1000) for r in (3, 9)),
    *(Design(1000, r, "nested", clean_replicates=3, noisy_replicates=2) for r in (3, 9)),
    Design(3000, 9, "nested", clean_replicates=3, noisy_replicates=2),
    Design(1000, 9, "nested", clean_replicates=3, clean_accuracy=0.85, discordance=0.13),
    Design(1000, 9, "nested", clean_replicates=3, clean_accuracy=0.4, discordance=0.3),
    Design(300, 9, "nested", clean_replicates=3, panel=12),
)

# What is true of the models of a design, by the prefix of their rates.
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
# Worlds in which something other than memory acts, each with the design in which it hurts (name,
# design, world).
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
    """One model's outcomes, and as `measure` takes them where its noisy messages do not leak, and
    its reference's."""

    cell: CellOutcomes
    without_leak: BoolArray | None = None
    reference: CellOutcomes | None = None


def design_of(cell: CellOutcomes, clean_accuracy: float, discordance: float, panel: int) -> Design:
    """Return the design of a cell."""
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
    """Return every setting of the design, sorted."""
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

    The reference has no memory and gets the same messages.
    """
    # The model's own outcomes must not depend on whether there is a reference.
    (other_rng,) = rng.spawn(1)
    told = ranks(design.n, other_rng) < world.hints
    made = _simulate(design, world, told, rng)
    if design.reference is None:
        return made
    accuracy = float(np.clip(design.clean_accuracy + design.reference, 0.05, 0.95))
    other = replace(design, clean_accuracy=accuracy, direct=False, ensemble=False)
    leaking = None if made.without_leak is None else ~made.without_leak[0]
    unlearnt = replace(world, answers=0.0, wording=0.0, gain=min(world.gain, 0.0), gain_one_r=0.0)
    honest = replace(unlearnt, unparsed=0.0, unparsed_wrong=0.0, unparsed_right=0.0)
    return replace(
        made,
        reference=replace(
            _simulate(other, honest, told, other_rng, leaking).cell, model="reference"
        ),
    )


@dataclass(frozen=True)
class Luck:
    """Draw the luck of one setting after another: standard normal, correlated over r if draws are
    nested."""

    n: int
    correlation: float
    rng: Generator
    shared: dict[tuple[str, int], FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shared.update({(arm, 0): self.rng.standard_normal(self.n) for arm in Arm})

    def of(self, s: Setting) -> FloatArray:
        """Return (n,) values. Settings of one arm and replicate share a part, but for the clean
        baseline."""
        own = self.rng.standard_normal(self.n)
        if not self.correlation or (s.arm != Arm.NOISY_REWRITE and s.level <= 1):
            return own
        if (s.arm, s.replicate) not in self.shared:
            self.shared[s.arm, s.replicate] = self.rng.standard_normal(self.n)
        common = self.shared[s.arm, s.replicate]
        return np.sqrt(self.correlation) * common + np.sqrt(1 - self.correlation) * own


def _simulate(
    design: Design, world: World, told: BoolArray, rng: Generator, stated: BoolArray | None = None
) -> Simulated:
    """Draw the outcomes of one model. `stated` marks where the messages state the answer; it is
    drawn if None.
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
        replies = unparsed((right | (noisy & (leaking | told))).astype(float), world.unparsed, rng)
        if noisy:
            replies = unparsed(replies, world.unparsed_wrong, rng, of=0)
            replies = unparsed(replies, world.unparsed_right, rng, of=1)
        scores.append(replies)
    cell = cell_of(settings, scores, design.draws, group if world.grouped else np.arange(n))
    return Simulated(
        cell, np.broadcast_to(~leaking, (design.routers, n)).copy() if leaking.any() else None
    )


def answers(chance: FloatArray, luck: FloatArray) -> BoolArray:
    """Return right answers. `luck` is standard normal, and smaller values are better."""
    return np.asarray(scipy.special.ndtr(luck) < chance)


def cell_of(
    settings: Sequence[Setting], scores: Sequence[FloatArray], draws: str, cluster: IntArray
) -> CellOutcomes:
    """Return a cell. `scores` has n values for each setting: 1 right, 0 wrong, NaN unparsed."""
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
    """Return the chances in one run, which shifts as a whole."""
    own = s.arm == Arm.NOISY_REWRITE and world.noisy_shock is not None
    shock = world.noisy_shock if own else world.shock
    if not shock:
        return chance
    return shift(chance, float(np.clip(rng.normal(0, shock), -0.2, 0.2)), float(chance.mean()))


def _chances(theta: FloatArray, s: Setting, world: World, accuracy: float) -> FloatArray:
    """Return the chances of a right answer under one setting. The noisy arm does not lose what the
    clean router loses.
    """
    lossy = s.arm == Arm.FORWARD_FULL and (s.level == 1 or not world.lossy_alone)
    gain = -world.clean_loss if lossy else 0.0
    gain += world.repetition if s.level > 1 else 0.0
    if s.arm == Arm.NOISY_REWRITE:
        gain += world.gain + (world.gain_one_r if s.level == 1 else 0.0)
        if world.helps_weak:
            weak = theta < 0.5
            theta = np.clip(theta + np.where(weak, world.helps_weak, 0.0), 0, 1)
            # Strong questions lose as much, so that the gain is 0 on average.
            taken = world.helps_weak * weak.mean() / max(float((~weak).mean()), 1e-9)
            theta = np.clip(theta - np.where(weak, 0.0, taken), 0, 1)
            accuracy = float(theta.mean())
    return shift(theta, gain, accuracy)
