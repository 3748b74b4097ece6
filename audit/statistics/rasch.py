"""A gap between two sets of items on the scale of ability: the Rasch model with normal item difficulty. Pure.

A difference of accuracies hangs on how spread the items' difficulties are, and on how able a model is. On this scale it
does not: each set has its own spread, each model its own ability on it. Where the sets differ by the same number of
*points* for every model, it is this scale that errs. Neither is safe alone; take the hull of both (`without_memory`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.errors import DataError
from audit.statistics.between_models import predictive
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.statistics.priors import TauPrior
from audit.statistics.set_difference import Sets, set_difference

# Difficulties looked at, in standard deviations. Evenly spaced: the error of the sum vanishes exponentially, also where
# many models leave a narrow posterior, which falls between the few nodes of a Gauss-Hermite rule.
_NODES = np.linspace(-6, 6, 61)
_LOG_WEIGHTS = -0.5 * _NODES**2 - np.log(np.exp(-0.5 * _NODES**2).sum())
_USUAL = float(np.log(1.5))  # log of the spread of a benchmark's difficulties, to which that of a set is drawn
_STEPS = 60
_ENOUGH = 1e-9


@dataclass(frozen=True)
class RaschFit:
    """P(model k is right on item i) = expit(ability_k - difficulty_i), difficulty_i normal (0, spread^2).

    ability (K,), in logits. influence (K, n + K): the change of each ability by each item, then by the half answers
    that are added (see `fit_rasch`); rows sum to 0. posterior (n, nodes): of each item's difficulty, spread * nodes.
    """

    ability: FloatArray
    spread: float
    influence: FloatArray
    posterior: FloatArray

    @property
    def difficulty(self) -> FloatArray:
        """(nodes,) values that `posterior` weighs."""
        return self.spread * _NODES

    def accuracy(self, ability: float) -> float:
        """Accuracy 0-1 on these items that a model of this ability would have.

        At a fitted ability it is the model's own accuracy, but for the half answers.
        """
        return float(self.posterior.mean(axis=0) @ scipy.special.expit(ability - self.difficulty))

    def slope(self) -> float:
        """Accuracy a logit, mean over the models: what turns a small difference of abilities into points."""
        chance = scipy.special.expit(self.ability[:, None] - self.difficulty)
        return float((chance * (1 - chance)).mean(axis=0) @ self.posterior.mean(axis=0))


@dataclass(frozen=True, kw_only=True)
class RaschGap:
    """The tested model's ability on published items less that on held-out ones, beyond the references' mean.

    difference, se, low, high, tau, gaps (the references' own differences): logits; pvalue: one-sided, for
    difference > 0. without_memory, without_low, without_high: accuracy 0-1 on the published items at the ability that
    is left without the difference. gap, gap_low, gap_high: score - these. spreads: of the sets' difficulties.
    """

    difference: float
    se: float
    pvalue: float
    low: float
    high: float
    tau: float
    gaps: tuple[float, ...]
    score: float
    without_memory: float
    without_low: float
    without_high: float
    spreads: tuple[float, float]

    @property
    def gap(self) -> float:
        return self.score - self.without_memory

    @property
    def gap_low(self) -> float:
        return self.score - self.without_high

    @property
    def gap_high(self) -> float:
        return self.score - self.without_low


def rasch_gap(
    tested: Sets,
    references: Sequence[Sets],
    clusters: tuple[IntArray, IntArray] | None = None,
    *,
    prior: TauPrior | None = None,
) -> RaschGap:
    """One-sided test that the tested model is abler on published items than a new model like the references would be.

    Parameters
    ----------
    tested, references : (published (n,), held-out (m,)) outcomes 0 to 1 of each model on the same items; between 0 and
        1: an imputed chance. NaN: the answer is missing at random; the others of the item count.
    clusters : as in `set_difference`
    prior : of the spread between models, in points of accuracy; None: the references alone tell, by t with R - 1
        degrees of freedom

    Notes
    -----
    A set's items have normal difficulties around 0, and each model an ability on each set, so what a set is harder by
    for all is in the references' abilities. Both are fitted by marginal likelihood over all models. The error is that
    of `set_difference`, where an item's value is the model's ability and its influence on it (sandwich estimate).
    Raises DataError without references: one model's accuracy does not tell how spread the difficulties are.

    References
    ----------
    Bock & Aitkin (1981), Psychometrika 46, 443 (marginal likelihood); Kolen & Brennan (2014), Test Equating, ch. 6 (two
    sets are put on one scale by the models that took both).
    """
    if not references:
        raise DataError("Abilities are compared with references; found none, expected at least 1.")
    models = (tested, *references)
    fits = [fit_rasch([one[side] for one in models]) for side in (0, 1)]
    groups = None if clusters is None else (_with_own(clusters[0], len(models)), _with_own(clusters[1], len(models)))
    values = [fit.ability[:, None] + fit.influence.shape[1] * fit.influence for fit in fits]
    pairs = list(zip(*values, strict=True))
    found = set_difference(pairs[0], pairs[1:], groups)
    se, tau, pvalue, low, high = found.se, found.tau, found.pvalue, found.low, found.high
    if prior is not None:
        slope = fits[0].slope()  # the prior is in points
        sampling = found.sampling * slope**2, len(references), prior
        told = predictive(
            found.difference * slope, found.items_se * slope, found.items_df, found.spread * slope**2, *sampling
        )
        se, tau, pvalue, low, high = told.se / slope, told.tau / slope, told.pvalue, told.low / slope, told.high / slope
    ability = float(fits[0].ability[0])
    return RaschGap(
        difference=found.difference,
        se=se,
        pvalue=pvalue,
        low=low,
        high=high,
        tau=tau,
        gaps=found.gaps,
        score=fits[0].accuracy(ability),
        without_memory=fits[0].accuracy(ability - found.difference),
        without_low=fits[0].accuracy(ability - high),
        without_high=fits[0].accuracy(ability - low),
        spreads=(fits[0].spread, fits[1].spread),
    )


def fit_rasch(outcomes: Sequence[ArrayLike] | FloatArray) -> RaschFit:
    """The Rasch model of one set, by marginal likelihood. outcomes: (K, n) 0 to 1, NaN where missing; K >= 2.

    Half a right and half a wrong answer to an item of mean difficulty are added for every model (Haldane-Anscombe), so
    that a model that is always right has a finite ability with a large error. The logarithm of the spread has a normal
    (log 1.5, 1) prior, worth less than an item.

    An item's likelihood hangs on the number of right answers and on who answered, so items that share these are counted
    and not repeated: a fit of 1,000 items takes milliseconds.
    """
    x = np.stack([np.asarray(row, dtype=float) for row in outcomes])
    there = ~np.isnan(x)
    if np.any((x < 0) | (x > 1)):
        raise DataError("An outcome is 0 (wrong) to 1 (right), or NaN (missing); found another value.")
    if x.shape[0] < 2 or not there.any(axis=1).all():
        raise DataError("A set needs two models with an answer each to tell how spread its difficulties are.")
    x = np.where(there, x, 0.0)
    answered, right, count, index = _patterns(there, x.sum(axis=0))
    totals = x.sum(axis=1)
    mean = (totals + 0.5) / (there.sum(axis=1) + 1.0)
    start = np.append(1.3 * scipy.special.logit(mean), _USUAL)

    best = _maximised(start, lambda parameters: _at(parameters, answered, right, count, totals))
    k = totals.size
    half = 0.5 - scipy.special.expit(best.ability)
    item = np.zeros((k + 1, x.shape[1] + k))
    item[:k, : x.shape[1]] = np.where(there, x - best.expected[:, index], 0.0)
    item[k, : x.shape[1]] = best.by_spread[index]
    item[np.arange(k), x.shape[1] + np.arange(k)] = half
    influence = np.asarray(np.linalg.solve(best.information, item)[:k], dtype=np.float64)
    # The prior of the spread keeps the sums from exactly 0.
    influence -= influence.mean(axis=1, keepdims=True)
    return RaschFit(best.ability, best.spread, influence, best.posterior[index])


@dataclass(frozen=True)
class _At:
    """The log-likelihood at abilities and log spread, with its gradient and information (both of K + 1 parameters).

    By pattern of answers g: expected (K, G) chance of each model; by_spread (G,) gradient for the log spread.
    """

    ability: FloatArray
    spread: float
    value: float
    gradient: FloatArray
    information: FloatArray
    expected: FloatArray
    by_spread: FloatArray
    posterior: FloatArray


def _at(parameters: FloatArray, answered: FloatArray, right: FloatArray, count: FloatArray, totals: FloatArray) -> _At:
    """answered (G, K), right (G,), count (G,): patterns; totals (K,): right answers of each model."""
    ability, spread = parameters[:-1], float(np.exp(parameters[-1]))
    logit = ability[:, None] - spread * _NODES
    chance = scipy.special.expit(logit)
    log = answered @ -np.logaddexp(0, logit) - np.outer(right, spread * _NODES) + _LOG_WEIGHTS
    top = log.max(axis=1, keepdims=True)
    weight = np.exp(log - top)
    total = weight.sum(axis=1)
    posterior = weight / total[:, None]
    # With the difficulty known, the gradient is (x - chance, spread * node * (sum of chances - right)); without it, its
    # posterior mean; the information is the mean of the complete one less the gradient's posterior variance (Louis).
    pull = spread * _NODES * (answered @ chance - right[:, None])
    expected, by_spread = (posterior @ chance.T * answered).T, (posterior * pull).sum(axis=1)
    half = 0.5 - scipy.special.expit(ability)
    gradient = np.append(totals - expected @ count + half, by_spread @ count - (parameters[-1] - _USUAL))
    value = totals @ ability + (np.log(total) + top[:, 0]) @ count + np.sum(ability / 2 - np.logaddexp(0, ability))
    weights = count[:, None] * posterior
    slope = chance * (1 - chance) * (answered.T @ weights)
    k = ability.size
    information = np.zeros((k + 1, k + 1))
    information[np.arange(k), np.arange(k)] = slope.sum(axis=1) + 0.25 - half**2
    information[k, :k] = information[:k, k] = -slope @ (spread * _NODES)
    information[k, k] = slope.sum(axis=0) @ (spread * _NODES) ** 2 - np.sum(weights * pull) + 1
    complete = np.concatenate([-answered.T[:, :, None] * chance[:, None, :], pull[None]]).reshape(k + 1, -1)
    means = np.concatenate([-expected, by_spread[None]])
    information -= (complete * weights.ravel()) @ complete.T - (means * count) @ means.T
    return _At(
        ability, spread, float(value - (parameters[-1] - _USUAL) ** 2 / 2), gradient, information, expected, by_spread,
        posterior,
    )  # fmt: skip


def _maximised(start: FloatArray, at: Callable[[FloatArray], _At]) -> _At:
    """Newton's method; a step that loses is halved, and the information is made positive where it is not."""
    here, now = start, at(start)
    for _ in range(_STEPS):
        values, vectors = np.linalg.eigh(now.information)
        step = vectors @ (vectors.T @ now.gradient / np.maximum(np.abs(values), 1e-3))
        step *= min(1.0, 2 / max(float(np.abs(step).max()), 1e-300))
        if now.gradient @ step < _ENOUGH:
            return now
        while (there := at(here + step)).value < now.value and now.gradient @ step > _ENOUGH:
            step = step / 2
        here, now = here + step, there
    raise DataError(f"The Rasch model was not fitted in {_STEPS} steps; are there answers of every model?")


def _patterns(there: BoolArray, right: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
    """Distinct (who answered (G, K), how many right (G,)), how often each occurs (G,), and which one each item has."""
    who = np.unique(np.packbits(there, axis=0).T, axis=0, return_inverse=True)[1].ravel()
    key = np.stack([who, right])
    _, first, index, count = np.unique(key, axis=1, return_index=True, return_inverse=True, return_counts=True)
    return there[:, first].T.astype(float), right[first], count.astype(float), index.ravel()


def _with_own(groups: IntArray, models: int) -> IntArray:
    """Clusters of items, and one of its own for each model's half answers."""
    index = np.unique(groups, return_inverse=True)[1]
    return np.append(index, index.max(initial=-1) + 1 + np.arange(models))
