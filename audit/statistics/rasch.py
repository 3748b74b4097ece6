"""Measure a gap between two sets of items on the scale of ability. Pure.

The model is Rasch's with normal item difficulty. A difference of accuracies depends on how spread
the items' difficulties are, and on how able a model is. On this scale it does not: each set has its
own spread, each model its own ability on it. If the sets differ by the same number of *points* for
every model, it is this scale that errs. Neither is safe alone; take the hull of both
(`without_memory`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.core.errors import DataError
from audit.core.json_types import attributes
from audit.statistics.between_models import predictive
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.statistics.priors import TauPrior
from audit.statistics.set_difference import SetDifference, Sets, set_difference

# Difficulties of the grid, in standard deviations. With even spacing the error of the sum vanishes
# exponentially. Many models leave a narrow posterior, which would fall between Gauss-Hermite nodes.
_NODES = np.linspace(-6, 6, 61)
_LOG_WEIGHTS = -0.5 * _NODES**2 - np.log(np.exp(-0.5 * _NODES**2).sum())
_USUAL = float(np.log(1.5))  # prior mean of the log spread of a set's difficulties
_ENOUGH = 1e-3  # largest squared distance to the maximum, in standard errors, before the last step


@dataclass(frozen=True)
class RaschFit:
    """Hold a Rasch model fitted to one set of items.

    Attributes
    ----------
    ability : (K,) array
        Ability of each model, in logits.
    spread : float
        Standard deviation of the item difficulties.
    influence : (K, n + K) array
        Change of each ability by each item, then by the half answers that are added (see
        `fit_rasch`); rows sum to 0.
    posterior : (n, nodes) array
        Posterior of each item's difficulty, over spread * nodes.
    chance : float
        Probability of a right answer to an item that is not known.

    Notes
    -----
    P(model k is right on item i) = chance + (1 - chance) expit(ability_k - difficulty_i), with
    difficulty_i normal (0, spread^2).
    """

    ability: FloatArray
    spread: float
    influence: FloatArray
    posterior: FloatArray
    chance: float

    @property
    def difficulty(self) -> FloatArray:
        """Return the (nodes,) difficulties that `posterior` weighs."""
        return self.spread * _NODES

    def accuracy(self, ability: float) -> float:
        """Return the accuracy on these items that a model of an ability would have.

        Parameters
        ----------
        ability : float
            Ability, in logits.

        Returns
        -------
        float
            Accuracy 0-1. At a fitted ability it is the model's own accuracy, but for the half
            answers.
        """
        known = float(self.posterior.mean(axis=0) @ scipy.special.expit(ability - self.difficulty))
        return self.chance + (1 - self.chance) * known

    def slope(self) -> float:
        """Return the accuracy a logit, as a mean over the models.

        Returns
        -------
        float
            Factor that turns a small difference of abilities into points.
        """
        known = scipy.special.expit(self.ability[:, None] - self.difficulty)
        return (1 - self.chance) * float(
            (known * (1 - known)).mean(axis=0) @ self.posterior.mean(axis=0)
        )


@dataclass(frozen=True, kw_only=True)
class RaschGap:
    """Report the tested model's gain of ability on published items beyond the references' mean.

    Attributes
    ----------
    difference, se, low, high : float
        Ability on published items less that on held-out ones, beyond the references' mean, with its
        error and interval, in logits.
    pvalue : float
        One-sided, for difference > 0.
    tau : float
        Standard deviation between models, in logits.
    gaps : tuple of float
        The references' own differences, in logits.
    score : float
        The tested model's accuracy on the published items, 0-1.
    without_memory, without_low, without_high : float
        Accuracy on the published items at the ability that is left without the difference, and its
        limits.
    spreads : tuple of float
        Spread of the difficulties of each set.
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
        """Return score - `without_memory`, accuracy 0-1."""
        return self.score - self.without_memory

    @property
    def gap_low(self) -> float:
        """Return the lower limit of the gap, accuracy 0-1."""
        return self.score - self.without_high

    @property
    def gap_high(self) -> float:
        """Return the upper limit of the gap, accuracy 0-1."""
        return self.score - self.without_low


def rasch_gap(
    tested: Sets,
    references: Sequence[Sets],
    clusters: tuple[IntArray, IntArray] | None = None,
    *,
    prior: TauPrior | None = None,
    chance: tuple[float, float] = (0.0, 0.0),
) -> RaschGap:
    """Test that the tested model is abler on published items than a new model like the references
    would be.

    Parameters
    ----------
    tested, references : Sets
        Outcomes 0 to 1 of each model on the same published (n,) and held-out (m,) items. A value
        between 0 and 1 is an imputed chance. NaN: the answer is missing at random; the other
        answers to the item count.
    clusters : tuple of arrays or None
        As in `set_difference`.
    prior : TauPrior or None
        Spread between models, in points of accuracy; None: the references alone tell, by t with R -
        1 degrees of freedom.
    chance : tuple of float
        Probability of a right answer on each set if nothing is known (0 to below 1); 0 means that
        nobody guesses.

    Returns
    -------
    RaschGap
        One-sided test and interval.

    Raises
    ------
    DataError
        If there are no references: one model's accuracy does not tell how spread the difficulties
        are.

    Notes
    -----
    A set's items have normal difficulties around 0, and each model an ability on each set, so what
    a set is harder by for all is in the references' abilities. Both are fitted by marginal
    likelihood over all models. The error is that of `set_difference`, where an item's value is the
    model's ability and its influence on it (sandwich estimate).

    References
    ----------
    Bock & Aitkin (1981), Psychometrika 46, 443 (marginal likelihood); Kolen & Brennan (2014), Test
    Equating, ch. 6 (two sets are put on one scale by the models that took both).
    """
    if not references:
        raise DataError("Abilities are compared with references; found none, expected at least 1.")
    models = (tested, *references)
    sides = zip(*models, strict=True)
    fits = [fit_rasch(side, guessed) for side, guessed in zip(sides, chance, strict=True)]
    groups = (
        None
        if clusters is None
        else (_with_own(clusters[0], len(models)), _with_own(clusters[1], len(models)))
    )
    values = [fit.ability[:, None] + fit.influence.shape[1] * fit.influence for fit in fits]
    pairs = list(zip(*values, strict=True))
    gap = set_difference(pairs[0], pairs[1:], groups)
    error = _error(gap, fits[0].slope(), len(references), prior)
    score, without, without_low, without_high = (
        fits[0].accuracy(float(fits[0].ability[0]) - less)
        for less in (0.0, gap.difference, error["high"], error["low"])
    )
    return RaschGap(
        difference=gap.difference,
        **error,
        gaps=gap.gaps,
        score=score,
        without_memory=without,
        without_low=without_low,
        without_high=without_high,
        spreads=(fits[0].spread, fits[1].spread),
    )


def _error(
    difference: SetDifference, slope: float, references: int, prior: TauPrior | None
) -> dict[str, float]:
    """Return the standard error, tau, p and limits in logits. `slope` is points a logit, because
    the prior is in points.
    """
    if prior is None:
        return attributes(difference, "se", "tau", "pvalue", "low", "high")
    told = predictive(
        difference.difference * slope,
        difference.items_se * slope,
        difference.items_df,
        difference.spread * slope**2,
        difference.sampling * slope**2,
        references,
        prior,
    )
    in_points = attributes(told, "se", "tau", "low", "high")
    return {"pvalue": told.pvalue, **{name: value / slope for name, value in in_points.items()}}


def ability_gaps(
    tested: Sets,
    references: Sequence[Sets],
    clusters: tuple[IntArray, IntArray] | None = None,
    *,
    prior: TauPrior | None = None,
    chance: tuple[float, float] = (0.0, 0.0),
) -> tuple[RaschGap, ...]:
    """Return `rasch_gap` without guessing and, if an answer can be guessed, with all models
    guessing.

    Parameters
    ----------
    tested, references, clusters, prior, chance : object
        As in `rasch_gap`.

    Returns
    -------
    tuple of RaschGap
        One result, or two if chance is above 0: answers do not tell which holds.

    Raises
    ------
    DataError
        If there are no references.
    """
    scales = ((0.0, 0.0), chance) if any(chance) else (chance,)
    gaps = []
    for guessing in scales:
        gaps.append(rasch_gap(tested, references, clusters, prior=prior, chance=guessing))
    return tuple(gaps)


def fit_rasch(outcomes: Sequence[ArrayLike] | FloatArray, chance: float = 0.0) -> RaschFit:
    """Fit the Rasch model of one set by marginal likelihood.

    Parameters
    ----------
    outcomes : (K, n) array
        Outcomes 0 to 1 of K >= 2 models, NaN if missing.
    chance : float
        Probability of a right answer if nothing is known, below 1. Above 0 the model is the
        three-parameter model of equal slopes.

    Returns
    -------
    RaschFit
        Abilities, spread and their influence.

    Raises
    ------
    DataError
        If an outcome lies outside [0, 1], fewer than two models have answers, or the fit does not
        converge.

    Notes
    -----
    Half a known and half an unknown item of mean difficulty are added for every model
    (Haldane-Anscombe). A model that is always right, or not above chance, then has a finite ability
    with a large error. The logarithm of the spread has a normal (log 1.5, 1) prior, worth less than
    an item.

    Items with the same answers are counted and not repeated: a fit of 1,000 items takes
    milliseconds.
    """
    x = np.stack([np.asarray(row, dtype=float) for row in outcomes])
    known_answers = ~np.isnan(x)
    if np.any((x < 0) | (x > 1)):
        raise DataError(
            "An outcome is 0 (wrong) to 1 (right), or NaN (missing); found another value."
        )
    if x.shape[0] < 2 or not known_answers.any(axis=1).all():
        raise DataError(
            "A set needs two models with an answer each to tell how spread its difficulties are."
        )
    filled = np.where(known_answers, x, -1.0)
    patterns, index, count = np.unique(filled, axis=1, return_inverse=True, return_counts=True)
    answered, right = patterns.T >= 0, np.maximum(patterns.T, 0)
    known = (np.nanmean(x, axis=1) - chance) / (1 - chance)
    half_an_item = (known * known_answers.sum(axis=1) + 0.5) / (known_answers.sum(axis=1) + 1.0)
    start = np.append(1.3 * scipy.special.logit(np.clip(half_an_item, 0.01, 0.99)), _USUAL)
    items = _Items(answered, right, count.astype(float), chance)

    def minus(parameters: FloatArray) -> tuple[float, FloatArray]:
        at = items.at(parameters)
        return -at.value, -at.gradient

    near = scipy.optimize.minimize(
        minus, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-9}
    ).x
    last = items.at(near)
    step = np.linalg.solve(items.information(last), last.gradient)  # a Newton step
    if not abs(last.gradient @ step) < _ENOUGH:
        raise DataError(
            f"The Rasch model of {x.shape[0]} models was not fitted; are there answers of every one?"
        )
    best, k = items.at(near + step), x.shape[0]
    item = np.zeros((k + 1, x.shape[1] + k))
    item[:, : x.shape[1]] = best.scores[:, index.ravel()]
    item[np.arange(k), x.shape[1] + np.arange(k)] = 0.5 - scipy.special.expit(best.ability)
    influence = np.asarray(np.linalg.solve(items.information(best), item)[:k], dtype=np.float64)
    # The prior of the spread keeps the sums from exactly 0.
    influence -= influence.mean(axis=1, keepdims=True)
    return RaschFit(best.ability, best.spread, influence, best.posterior[index.ravel()], chance)


@dataclass(frozen=True)
class _At:
    """Hold the log-likelihood at abilities and log spread, with its gradient (K + 1).

    known (K, nodes): chance that a model knows an item of a difficulty; told (K, nodes): weight of
    a right answer in its score, 1 if nobody guesses. By pattern of answers g: scores (K + 1, G),
    what one such item adds to the gradient; posterior (G, nodes); pull (G, nodes), the score of the
    log spread with the difficulty known.
    """

    ability: FloatArray
    spread: float
    value: float
    gradient: FloatArray
    known: FloatArray
    told: FloatArray
    scores: FloatArray
    posterior: FloatArray
    pull: FloatArray


@dataclass(frozen=True)
class _Items:
    """Hold the patterns of answers: answered, right (G, K); count (G,), items of each; chance of a
    guess."""

    answered: BoolArray
    right: FloatArray
    count: FloatArray
    chance: float

    def at(self, parameters: FloatArray) -> _At:
        """Return the likelihood at abilities and log spread.

        With the difficulty known, an answer's score is right * told - known; without it, its
        posterior mean.
        """
        ability, spread = parameters[:-1], float(np.exp(parameters[-1]))
        logit = ability[:, None] - spread * _NODES
        log_known, log_unknown = -np.logaddexp(0, -logit), -np.logaddexp(0, logit)
        log_guess, log_no_guess = (
            np.log(self.chance) if self.chance else -np.inf,
            np.log1p(-self.chance),
        )
        log_right = np.logaddexp(log_guess, log_no_guess + log_known)
        known, told = np.exp(log_known), np.exp(log_known - log_right)
        log = (
            self.right @ (log_right - log_no_guess - log_unknown)
            + self.answered @ log_unknown
            + _LOG_WEIGHTS
        )
        top = log.max(axis=1, keepdims=True)
        weight = np.exp(log - top)
        total = weight.sum(axis=1, keepdims=True)
        posterior = weight / total
        pull = -spread * _NODES * (self.right @ told - self.answered @ known)
        of_models = self.right.T * (told @ posterior.T) - self.answered.T * (known @ posterior.T)
        scores = np.append(of_models, [(pull * posterior).sum(axis=1)], axis=0)
        halves = np.append(0.5 - scipy.special.expit(ability), _USUAL - parameters[-1])
        added = np.sum(ability / 2 - np.logaddexp(0, ability)) - halves[-1] ** 2 / 2
        value = self.count @ (np.log(total) + top)[:, 0] + added
        gradient = scores @ self.count + halves
        return _At(ability, spread, float(value), gradient, known, told, scores, posterior, pull)

    def information(self, at: _At) -> FloatArray:
        """Return the observed information.

        It is the mean of the information with the difficulty known, less the variance of the scores
        (Louis 1982, JRSS B 44, 226).
        """
        weights = self.count[:, None] * at.posterior
        guessed = at.told * (1 - (1 - self.chance) * at.told) * (self.right.T @ weights)
        curved = (1 - at.known) * (at.known * (self.answered.T @ weights) - guessed)
        k, place, half = at.ability.size, at.spread * _NODES, scipy.special.expit(at.ability)
        matrix = np.zeros((k + 1, k + 1))
        matrix[np.arange(k), np.arange(k)] = curved.sum(axis=1) + half * (1 - half)
        matrix[k, :k] = matrix[:k, k] = -curved @ place
        matrix[k, k] = curved.sum(axis=0) @ place**2 - np.sum(weights * at.pull) + 1
        of_models = (
            self.right.T[:, :, None] * at.told[:, None]
            - self.answered.T[:, :, None] * at.known[:, None]
        )
        complete = np.append(of_models.reshape(k, -1), [at.pull.ravel()], axis=0)
        return (
            matrix
            - (complete * weights.ravel()) @ complete.T
            + (at.scores * self.count) @ at.scores.T
        )


def _with_own(groups: IntArray, models: int) -> IntArray:
    """Return the clusters of items, and one of its own for each model's half answers."""
    index = np.unique(groups, return_inverse=True)[1]
    return np.append(index, index.max(initial=-1) + 1 + np.arange(models))
