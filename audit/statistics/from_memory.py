"""Which published items were answered from memory? Each against held-out items, false discoveries controlled. Pure.

An item speaks for memory where the tested model is right though it should rarely be, going by the references' answers
and its ability without memory, and where the item's text is likelier to it than to the references. One binary answer
says little, so what can be named is few items: those of a text that was read, or hard ones where much was learnt.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from audit.errors import DataError
from audit.statistics.paired import BoolArray, FloatArray
from audit.statistics.rasch import RaschFit, fit_rasch, rasch_gap
from audit.statistics.set_difference import Sets, in_own_spread, set_difference
from audit.statistics.values import average

FDR = 0.10
_ALLOWED = 2.0  # standard deviations between clean models that a text's likelihood is moved by before it speaks


@dataclass(frozen=True)
class FromMemory:
    """Of each of n published items; NaN where the tested model has no answer.

    chance: of a right answer without memory. text: how much likelier the text is than to the references, in standard
    deviations of held-out items; None where likelihoods were not told. pvalue: share of held-out items that speak for
    memory as much (conformal). qvalue: after Benjamini & Hochberg; named: at most FDR.
    """

    chance: FloatArray
    text: FloatArray | None
    pvalue: FloatArray
    qvalue: FloatArray

    @property
    def named(self) -> BoolArray:
        """(n,) true where the item is named."""
        return np.nan_to_num(self.qvalue, nan=1.0) <= FDR

    @property
    def order(self) -> list[int]:
        """Items that were answered, the likeliest from memory first; right answers that should be rarest break ties."""
        there = np.flatnonzero(~np.isnan(self.pvalue))
        return sorted(there.tolist(), key=lambda i: (self.pvalue[i], self.chance[i], i))


def from_memory(tested: Sets, references: Sequence[Sets], texts: Sequence[Sets] = ()) -> FromMemory:
    """Items that were likely answered from memory, against held-out items.

    tested, references: as in `rasch_gap`. texts: log-likelihoods (published (n,), held-out (m,)) of the tested model,
    then of each reference; empty where they were not told.

    Notes
    -----
    An item's value is 0 for a wrong answer, else -log(chance) of the right one plus z^2 / 2 of a likelier text (z > 0):
    a log likelihood ratio. The p-value is (1 + held-out items of at least that value) / (1 + held-out items), which is
    exact where a published item that was not learnt is exchangeable with the held-out ones, however wrong chances and
    the normal z are; so Benjamini & Hochberg's procedure controls the false discovery rate (Bates et al. 2023, Annals
    of Statistics 51, 149). That models suit two sets differently breaks the exchange, so a published item is judged at
    the highest ability without memory that the interval holds, and its text less two standard deviations of models, in
    a spread as much wider than the held-out items' as the references' is.
    """
    models = (tested, *references)
    gap = rasch_gap(tested, references)
    fits = [fit_rasch([one[side] for one in models]) for side in (0, 1)]
    own = [np.asarray(side, dtype=float) for side in tested]
    ability = float(fits[0].ability[0]) - min(gap.low, gap.difference), float(fits[1].ability[0])
    chance = [_chance(fit, x, a) for fit, x, a in zip(fits, own, ability, strict=True)]
    z = _texts(texts) if texts else (np.zeros(own[0].size), np.zeros(own[1].size))
    values = [
        np.where(x > 0.5, -np.log(c) + np.maximum(np.nan_to_num(t), 0) ** 2 / 2, 0.0)
        for x, c, t in zip(own, chance, z, strict=True)
    ]
    there = [~np.isnan(x) for x in own]
    null = np.sort(values[1][there[1]])
    reached = null.size - np.searchsorted(null, values[0], side="left")
    pvalue = np.where(there[0], (1 + reached) / (1 + null.size), np.nan)
    qvalue = np.full_like(pvalue, np.nan)
    qvalue[there[0]] = scipy.stats.false_discovery_control(pvalue[there[0]])
    return FromMemory(np.where(there[0], chance[0], np.nan), z[0] if texts else None, pvalue, qvalue)


def _chance(fit: RaschFit, own: FloatArray, ability: float) -> FloatArray:
    """(n,) of a right answer at this ability, by the references' answers alone: the own one is taken out again."""
    at_own = np.clip(scipy.special.expit(fit.ability[0] - fit.difficulty), 1e-12, 1 - 1e-12)
    x = np.nan_to_num(own)[:, None]
    weight = fit.posterior / np.where(np.isnan(own)[:, None], 1.0, at_own**x * (1 - at_own) ** (1 - x))
    return weight @ scipy.special.expit(ability - fit.difficulty) / weight.sum(axis=1)


def _texts(texts: Sequence[Sets]) -> tuple[FloatArray, FloatArray]:
    """(n,), (m,) the tested model's likelihood less the references' mean, in standard deviations of held-out items."""
    scaled = [in_own_spread(one) for one in texts]
    beyond = [scaled[0][side] - np.mean([one[side] for one in scaled[1:]], axis=0) for side in (0, 1)]
    try:
        found = set_difference(scaled[0], scaled[1:])
    except DataError:  # not two items of each set have the likelihoods of all models
        return np.full(beyond[0].size, np.nan), np.full(beyond[1].size, np.nan)
    models = len(scaled) - 1
    allowed = _ALLOWED * np.nan_to_num(found.tau) * np.sqrt(1 + 1 / models)
    there = beyond[1][~np.isnan(beyond[1])]
    sd = there.std(ddof=1) if there.size > 1 and np.ptp(there) > 0 else float("nan")  # NaN: nothing is told
    return (beyond[0] - there.mean() - allowed) / (sd * _wider(scaled[1:])), (beyond[1] - there.mean()) / sd


def _wider(references: Sequence[Sets]) -> float:
    """How much wider published texts spread than held-out ones, at least 1, by each reference beside the others: a
    single one cannot tell."""
    if len(references) < 2:
        return 1.0
    ratios = []
    for k, one in enumerate(references):
        others = [*references[:k], *references[k + 1 :]]
        beyond = [np.asarray(one[side]) - average(np.stack([o[side] for o in others])) for side in (0, 1)]
        published, held_out = (float(np.nanstd(side)) for side in beyond)
        ratios.append(published / held_out if held_out > 0 else 1.0)
    return max(1.0, float(np.mean(ratios)))
