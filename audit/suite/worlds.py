"""Simulate one model that every audit of a suite judges, for `audit calibrate audit=suite`.

A model has one ability, a deviation for each item (by how much the model finds the item easier than
other models do), and one set of remembered items. These numbers determine the log-odds of a right
answer to each item, and each answer is an independent draw. A clean model also deviates from its
references.

The simulations of the single audits build their inputs (outcomes and likelihoods) from these
answers. Likelihoods and answers are related only through the items whose text the model has read.
The module does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from audit.judging.forms import DOSES, FORMS, world_of
from audit.judging.world import Known, World
from audit.memory import worlds as memory
from audit.memory.record import MemoryCell
from audit.perturb import worlds as perturb
from audit.perturb.record import BrokenShare, PerturbCell, Wordings
from audit.statistics.item_response import tastes
from audit.statistics.paired import BoolArray, CellOutcomes, FloatArray
from audit.sweep import simulation as sweep
from audit.sweep.design import Arm, Draws, make_design
from audit.sweep.simulation import Luck, answers

# Ability of each reference minus the ability of the tested model, in logits.
REFERENCES = (0.5, -0.5, 0.0, 0.25, -0.25, 0.4, -0.4, 0.1)

# Ability of the tested model in logits. With the standard deviations below, this model answers 70 %
# of the items right.
_CENTRE = 1.25
# Two standard deviations in logits: that of the items' difficulties, and that of a model's
# deviations from these difficulties.
_DIFFICULTY, _TASTE = 1.6, 0.7
# Loss of log-odds under rewording: its mean, and its standard deviation between models (which
# corresponds to 1.5 points of accuracy).
_REWORDED, _REWORDED_SD = -0.06, 0.09
# Standard deviation of models' abilities on held-out items, in logits (about 2 points).
_HELD_OUT_SD = 0.12
_DAMAGE = -0.12  # change of the log-odds of a right answer that a damaged message causes
_NESTED = 0.5  # correlation of answers at different r that share their first messages
_SPREAD = float(np.hypot(_DIFFICULTY, _TASTE))
# _POPULAR: mean log-likelihood of published texts minus that of held-out texts, in standard
# deviations between texts. _SLOPE_SD: in each model, the effect of a text on the log-likelihood is
# multiplied by a random factor with mean 1 and this standard deviation.
_POPULAR, _SLOPE_SD = 0.3, 0.1


@dataclass(frozen=True)
class SuiteDesign:
    """Set the sizes of a simulated suite.

    Attributes
    ----------
    n, fresh : int
        Number of published items and of held-out items.
    references : int
        Number of references, which are the first ones of REFERENCES.
    variants, checked : int
        Number of variants of each item, and number of variants that a person has checked.
    routers, noisy_replicates, clean_replicates : int
        Largest number of routers in the sweep, and number of replicates of its noisy and clean
        arms.
    """

    n: int = 1000
    fresh: int = 500
    references: int = 5
    variants: int = 3
    checked: int = 150
    routers: int = 3
    noisy_replicates: int = 2
    clean_replicates: int = 3


def _learnt(form: str, dose: float) -> World:
    """Return the scenario in which the tested model remembers a share (dose) of the items.

    The scenario also states the form of this memory.
    """
    shares: dict[str, Any] = {form: dose}
    return World(**shares)


WORLDS: Mapping[str, World] = {
    "clean": World(),
    "clean_abler_references": World(abler=0.8),
    "clean_larger": World(abler=-0.8, uses=1.5),
    **{world_of(form, dose): _learnt(form, dose) for form in FORMS for dose in DOSES},
    "all_15": World(answers=0.15, wording=0.15, text=0.15),
}


@dataclass(frozen=True)
class Simulated:
    """Hold the simulated outcomes for three audits: of one tested model and of all REFERENCES."""

    sweep: CellOutcomes
    perturb: PerturbCell
    memory: MemoryCell

    def with_references(self, count: int) -> Simulated:
        """Return the same tested model with only the first `count` references."""
        perturb = replace(self.perturb, references=self.perturb.references[:count])
        memory = replace(self.memory, references=self.memory.references[:count])
        return replace(self, perturb=perturb, memory=memory)


def simulate(design: SuiteDesign, world: World, rng: np.random.Generator) -> Simulated:
    """Draw the answers of a tested model and of all REFERENCES for three audits."""
    of_references = world.abler + np.array(REFERENCES)
    ability = _CENTRE + np.concatenate([[0.0], of_references])
    published = _logits(ability, design.n, rng)
    held_out = _logits(
        ability + _HELD_OUT_SD * rng.standard_normal(ability.size), design.fresh, rng
    )
    known = world.known(design.n, rng)
    return Simulated(
        _sweep(design, published[0], known, rng),
        _perturb(design, published, known, rng),
        _memory((published, held_out), known, world.uses, rng),
    )


def _logits(ability: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    """Return the logits (models, n) of a right answer."""
    return ability[:, None] + _SPREAD * tastes((ability.size, n), (_DIFFICULTY / _SPREAD) ** 2, rng)


def _drawn(logits: FloatArray, rng: np.random.Generator, *times: int) -> BoolArray:
    """Draw independently which of n items one model answers right, as an array (*times, n)."""
    return rng.random((*times, *logits.shape)) < scipy.special.expit(logits)


def _sweep(
    design: SuiteDesign, logits: FloatArray, known: Known, rng: np.random.Generator
) -> CellOutcomes:
    """Return the answers of the tested model in the router-worker sweep.

    The clean router transmits questions without loss. Clean messages and the direct question have
    the published wording.
    """
    made = make_design(
        range(1, design.routers + 1),
        draws=Draws.NESTED,
        replicates=design.noisy_replicates,
        clean_replicates=design.clean_replicates,
        ensemble_control=True,
    )
    luck, settings, scores = Luck(design.n, _NESTED, rng), sorted(made.settings), []
    for s in settings:
        noisy = s.arm == Arm.NOISY_REWRITE
        chance = scipy.special.expit(logits + (_DAMAGE if noisy else 0.0))
        remembered = known.anyhow if noisy else known.published
        scores.append((answers(chance, luck.of(s)) | remembered).astype(float))
    return sweep.cell_of(settings, scores, Draws.NESTED, np.arange(design.n))


def _perturb(
    design: SuiteDesign, logits: FloatArray, known: Known, rng: np.random.Generator
) -> PerturbCell:
    models = []
    for k, of_model in enumerate(logits):
        cost = _REWORDED + _REWORDED_SD * rng.standard_normal()
        original = _drawn(of_model, rng, 1) | (known.published & (k == 0))
        variants = _drawn(of_model + cost, rng, design.variants) | (known.anyhow & (k == 0))
        models.append(Wordings(f"model {k}", original.astype(float), variants.astype(float)))
    return perturb.cell_of(models, BrokenShare(design.checked, 0))


def _memory(
    logits: tuple[FloatArray, FloatArray],
    known: Known,
    uses: float,
    rng: np.random.Generator,
) -> MemoryCell:
    slopes: FloatArray = 1 + _SLOPE_SD * rng.standard_normal(logits[0][:, 0].shape)
    slopes[0] *= uses
    published, held_out = (_drawn(side, rng).astype(float) for side in logits)
    published[0][known.published] = 1.0
    return memory.cell_of(
        memory.side_of(
            published, slopes, rng, popular=_POPULAR, read=memory.READ * known.read.astype(float)
        ),
        memory.side_of(held_out, slopes, rng),
    )
