"""One simulated model as every audit of a suite meets it: what `audit calibrate audit=suite` judges (pure).

A model has one ability, one taste for every item, and one set of items that it knows. Given the chance of a right
answer, every asking is a draw of its own. The generator is not that of any audit's own calibration: it is logistic,
where theirs are Beta distributed, and in no world is anything of a clean model exactly equal to its references.
Likelihoods share nothing with the answers but the items that were read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy

from audit.memory.record import TEXT_SCORES, ItemSet, MemoryCell, ModelSet
from audit.perturb.record import BrokenShare, PerturbCell, Wordings
from audit.records import Reading, Setting
from audit.statistics.paired import BoolArray, CellOutcomes, FloatArray, State
from audit.sweep.design import Arm, Draws, make_design
from audit.verdict.forms import DOSES, FORMS, world_of

OPTIONS = 4
REFERENCES = (0.5, -0.5, 0.0, 0.25, -0.25, 0.4, -0.4, 0.1)  # abilities beside the tested model's, in logits

_CENTRE = 1.25  # logit of the tested model's ability: with the spreads below, 70 % of the items right
_DIFFICULTY, _TASTE = 1.6, 0.7  # standard deviations, in logits: of items, and of one model's own on them
_REWORDED, _REWORDED_SD = -0.06, 0.09  # logits that rewording costs: the mean, and between models (1.5 points)
_HELD_OUT_SD = 0.12  # logits between models in what suits them of the held-out items (2 points)
_DAMAGE = -0.12  # logits that a damaged message costs
_NESTED = 0.5  # correlation over r of answers to the first r messages of one set
_POPULAR, _SLOPE_SD, _OWN = 0.3, 0.1, 0.3  # of likelihoods: published texts' lead, models' scales, a model's own part
_READ = 1.5  # spreads of likelihood by which a text that was read is likelier
_SHARD, _ORDERS, _OPTION_ORDERS = 5, 10, 5


@dataclass(frozen=True)
class SuiteDesign:
    """n, fresh: published and held-out items. references: the first of REFERENCES. checked: variants a person read."""

    n: int = 1000
    fresh: int = 500
    references: int = 5
    variants: int = 3
    checked: int = 150
    routers: int = 3
    noisy_replicates: int = 2
    clean_replicates: int = 3


@dataclass(frozen=True)
class World:
    """answers, wording, text: shares of the published items of which the tested model knows the answers, whatever the
    words; the answers in the published wording alone; the text. abler: logits by which every reference is above
    REFERENCES; scale: of the tested model's likelihoods."""

    answers: float = 0.0
    wording: float = 0.0
    text: float = 0.0
    abler: float = 0.0
    scale: float = 1.0


WORLDS: Mapping[str, World] = {
    "clean": World(),
    "clean_abler_references": World(abler=0.8),
    "clean_larger": World(abler=-0.8, scale=1.5),
    **{world_of(form, dose): World(**{form: dose}) for form in FORMS for dose in DOSES},
    "all_15": World(0.15, 0.15, 0.15),
}


@dataclass(frozen=True)
class Simulated:
    """The same model in the three audits' terms, with as many references as REFERENCES has."""

    sweep: CellOutcomes
    perturb: PerturbCell
    memory: MemoryCell

    def with_references(self, count: int) -> Simulated:
        perturb = replace(self.perturb, references=self.perturb.references[:count])
        return replace(self, perturb=perturb, memory=replace(self.memory, references=self.memory.references[:count]))


def simulate(design: SuiteDesign, world: World, rng: np.random.Generator) -> Simulated:
    """A tested model and all REFERENCES."""
    ability = _CENTRE + np.array([0.0, *(world.abler + own for own in REFERENCES)])
    published = _logits(ability, design.n, rng)
    held_out = _logits(ability + _HELD_OUT_SD * rng.standard_normal(ability.size), design.fresh, rng)
    rank = rng.random(design.n)  # one set of items that are known, more of them at a larger share
    right = rank < world.answers
    as_published = right | (rank < world.wording)
    return Simulated(
        _sweep(design, published[0], right, as_published, rng),
        _perturb(design, published, right, as_published, rng),
        _memory(design, (published, held_out), as_published, rank < world.text, world.scale, rng),
    )


def _logits(ability: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    """(models, n) logits of a right answer."""
    own = _TASTE * rng.standard_normal((ability.size, n))
    return ability[:, None] - _DIFFICULTY * rng.standard_normal(n) + own


def _asked(logits: FloatArray, known: BoolArray, latent: FloatArray) -> FloatArray:
    """Answers, 1 or 0. latent: standard normal."""
    return (known | (scipy.special.ndtr(latent) < scipy.special.expit(logits))).astype(float)


def _sweep(
    design: SuiteDesign, logits: FloatArray, right: BoolArray, as_published: BoolArray, rng: np.random.Generator
) -> CellOutcomes:
    """The tested model, routed by a faithful clean router. Clean messages and the question itself are as published."""
    settings = make_design(
        range(1, design.routers + 1),
        draws=Draws.NESTED,
        replicates=design.noisy_replicates,
        clean_replicates=design.clean_replicates,
        ensemble_control=True,
    ).settings
    shared: dict[tuple[str, int], FloatArray] = {}

    def answers(s: Setting) -> FloatArray:
        noisy = s.arm == Arm.NOISY_REWRITE
        latent = rng.standard_normal(design.n)
        if noisy or s.level > 1:
            common = shared.setdefault((s.arm, s.replicate), rng.standard_normal(design.n))
            latent = np.sqrt(_NESTED) * common + np.sqrt(1 - _NESTED) * latent
        return _asked(logits + (_DAMAGE if noisy else 0.0), right if noisy else as_published, latent)

    ordered = tuple(sorted(settings))
    return CellOutcomes(
        model="model 0",
        benchmark="simulated",
        draws=Draws.NESTED,
        reading=Reading.LETTER.value,
        question_ids=tuple(map(str, range(design.n))),
        cluster=np.arange(design.n),
        n_options=np.full(design.n, OPTIONS),
        settings=ordered,
        state=np.stack([np.where(answers(s) > 0, State.CORRECT, State.WRONG) for s in ordered]).astype(np.int8),
    )


def _perturb(
    design: SuiteDesign, logits: FloatArray, right: BoolArray, as_published: BoolArray, rng: np.random.Generator
) -> PerturbCell:
    nothing = np.zeros(design.n, dtype=bool)
    models = []
    for k, own in enumerate(logits):
        cost = _REWORDED + _REWORDED_SD * rng.standard_normal()
        original = _asked(own, nothing if k else as_published, rng.standard_normal((1, design.n)))
        variants = _asked(own + cost, nothing if k else right, rng.standard_normal((design.variants, design.n)))
        models.append(Wordings(f"model {k}", original, variants))
    return PerturbCell(
        benchmark="simulated",
        question_ids=tuple(map(str, range(design.n))),
        cluster=np.arange(design.n),
        n_options=np.full(design.n, OPTIONS),
        tested=models[0],
        references=tuple(models[1:]),
        broken=BrokenShare(design.checked, 0),
    )


def _memory(
    design: SuiteDesign,
    logits: tuple[FloatArray, FloatArray],
    as_published: BoolArray,
    read: BoolArray,
    scale: float,
    rng: np.random.Generator,
) -> MemoryCell:
    slopes = np.asarray(1 + _SLOPE_SD * rng.standard_normal(logits[0].shape[0]))
    slopes[0] *= scale
    sides = []
    for fresh, side in enumerate(logits):
        n = side.shape[1]
        texts = {name: _likelihoods(slopes, (n,), 0.0 if fresh else _POPULAR, rng) for name in TEXT_SCORES}
        options = _likelihoods(slopes, (n, _OPTION_ORDERS + 1), 0.0, rng)
        order = _likelihoods(slopes, (n // _SHARD, _ORDERS + 1), 0.0, rng)
        if not fresh:
            options[0, :, 0] += _READ * read
            for values in texts.values():
                values[0] += _READ * read
        models = []
        for k, own in enumerate(side):
            known = np.zeros(n, dtype=bool) if k or fresh else as_published
            score = _asked(own, known, rng.standard_normal(n))
            told = {name: values[k] for name, values in texts.items()}
            models.append(ModelSet(f"model {k}", score, told, {}, np.zeros(n), options[k], order[k], {}))
        sides.append(models)
    sets = [
        ItemSet(name, tuple(map(str, range(len(one[0].score)))), np.arange(n), np.full(n, OPTIONS))
        for name, one, n in zip(("simulated", "held-out"), sides, (design.n, design.fresh), strict=True)
    ]
    pairs = list(zip(*sides, strict=True))
    return MemoryCell(sets[0], sets[1], pairs[0], tuple(pairs[1:]))


def _likelihoods(slopes: FloatArray, shape: tuple[int, ...], lead: float, rng: np.random.Generator) -> FloatArray:
    """(models, *shape) in spreads between texts: shared by all models but for a part of their own."""
    own = rng.standard_normal((slopes.size, *shape))
    shared = np.sqrt(1 - _OWN**2) * rng.standard_normal(shape)
    return slopes.reshape(-1, *(1 for _ in shape)) * (lead + shared + _OWN * own)
