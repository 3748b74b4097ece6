"""Measure a model's gap between two sets of items as a difference of Rasch abilities.

The module fits the Rasch model with normally distributed item difficulties. A difference of
accuracies depends on the spread of the items' difficulties and on the model's ability. A difference
of abilities does not depend on them: the spread of difficulties is fitted for each set, and the
ability is fitted for each model and set.

The ability scale is wrong if the sets differ by the same number of *points* of accuracy for every
model. Since it is not known which scale is right, `without_memory` uses the hull of the intervals
of the two scales. The module does no I/O.
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

# Difficulties at which integrals over the difficulty are evaluated, in standard deviations. With
# evenly spaced nodes, the error of the integral decreases exponentially with their number.
# Gauss-Hermite nodes are not used: with many models, the posterior of a difficulty is so narrow
# that it would lie between two Gauss-Hermite nodes.
_NODES = np.linspace(-6, 6, 61)
_LOG_WEIGHTS = -0.5 * _NODES**2 - np.log(np.exp(-0.5 * _NODES**2).sum())
_USUAL = float(np.log(1.5))  # prior mean of the logarithm of the spread of a set's difficulties
# The fit has converged if the squared distance to the maximum, in standard errors, is smaller.
_ENOUGH = 1e-3


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
        Influence on each ability: of each item (the first n columns), and of the half answers that
        `fit_rasch` adds for each model (the last K columns). Each row sums to 0.
    posterior : (n, nodes) array
        Posterior probability of each difficulty on the grid spread * nodes, for each item.
    chance : float
        Probability of a right answer to an item that the model does not know.

    Notes
    -----
    P(model k is right on item i) = chance + (1 - chance) expit(ability_k - difficulty_i), where
    difficulty_i is normal (0, spread^2).
    """

    ability: FloatArray
    spread: float
    influence: FloatArray
    posterior: FloatArray
    chance: float

    @property
    def difficulty(self) -> FloatArray:
        """Return the difficulties (nodes,) of the grid on which `posterior` is defined.

        Returns
        -------
        (nodes,) array
            Difficulties in logits, evenly spaced and in ascending order.
        """
        return self.spread * _NODES

    def accuracy(self, ability: float) -> float:
        """Return the accuracy on these items of a model with a given ability.

        Parameters
        ----------
        ability : float
            Ability, in logits.

        Returns
        -------
        float
            Accuracy 0-1. At a model's fitted ability this is the model's observed accuracy, except
            for the effect of the added half answers.
        """
        known = float(self.posterior.mean(axis=0) @ scipy.special.expit(ability - self.difficulty))
        return self.chance + (1 - self.chance) * known

    def slope(self) -> float:
        """Return the change of accuracy per logit of ability, averaged over the models.

        Returns
        -------
        float
            Factor that converts a small difference of abilities into a difference of accuracies.
        """
        known = scipy.special.expit(self.ability[:, None] - self.difficulty)
        return (1 - self.chance) * float(
            (known * (1 - known)).mean(axis=0) @ self.posterior.mean(axis=0)
        )


@dataclass(frozen=True, kw_only=True)
class RaschGap:
    """Report how much more a model gains on published items than its references, in ability.

    A model's gain is its ability on published items minus its ability on held-out items.

    Attributes
    ----------
    difference, se, low, high : float
        The tested model's gain minus the mean gain of the references, its standard error, and the
        ends of its interval. The unit is the logit.
    pvalue : float
        One-sided p-value of the alternative difference > 0.
    tau : float
        Standard deviation of the true gains between models, in logits.
    gaps : tuple of float
        Gain of each reference, in logits.
    score : float
        The tested model's accuracy on the published items, 0-1.
    without_memory, without_low, without_high : float
        Accuracy that the model would have on the published items if its ability were lower by
        `difference`, and the limits of this accuracy.
    spreads : tuple of float
        Standard deviation of the item difficulties of the published set and of the held-out set.
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
        """Return the gap as an accuracy (0-1): `score` minus `without_memory`.

        Returns
        -------
        float
            Difference of two accuracies, from -1 to 1. The gap is positive if the score is higher
            than the score without memory.
        """
        return self.score - self.without_memory

    @property
    def gap_low(self) -> float:
        """Return the lower limit of the gap, as an accuracy (0-1).

        Returns
        -------
        float
            `score` minus `without_high`: a difference of two accuracies, from -1 to 1.
        """
        return self.score - self.without_high

    @property
    def gap_high(self) -> float:
        """Return the upper limit of the gap, as an accuracy (0-1).

        Returns
        -------
        float
            `score` minus `without_low`: a difference of two accuracies, from -1 to 1.
        """
        return self.score - self.without_low


def rasch_gap(
    tested: Sets,
    references: Sequence[Sets],
    clusters: tuple[IntArray, IntArray] | None = None,
    *,
    prior: TauPrior | None = None,
    chance: tuple[float, float] = (0.0, 0.0),
) -> RaschGap:
    """Test whether the tested model is more able on published items than its references predict.

    Parameters
    ----------
    tested, references : Sets
        Outcomes of each model on the same published (n,) and held-out (m,) items: 0 (wrong), 1
        (right), an imputed probability between 0 and 1, or NaN. NaN marks an answer that is missing
        at random; other models' answers to the same item are still used.
    clusters : tuple of arrays or None
        Clusters of the items, as in `set_difference`.
    prior : TauPrior or None
        Prior of the standard deviation between models, as an accuracy (0-1). Without a prior, the
        standard deviation is estimated from the R references, and the test uses a t distribution
        with R - 1 degrees of freedom.
    chance : tuple of float
        Probability (0 to below 1) of a right answer to an unknown item, for each set. With 0, the
        fitted model has no guessing.

    Returns
    -------
    RaschGap
        One-sided test and interval.

    Raises
    ------
    DataError
        If there are no references: one model's accuracy does not show the spread of difficulties.

    Notes
    -----
    Item difficulties are normally distributed around 0 in each set, and each model has one ability
    on each set. If a set is harder for all models, the references' abilities on this set are lower
    too. All parameters are fitted by marginal likelihood over all models.

    The standard error is computed as in `set_difference`, with one value for each item: the model's
    ability plus the item's influence on this ability (sandwich estimate).

    References
    ----------
    Marginal likelihood: Bock & Aitkin (1981), Psychometrika 46, 443. Equating (putting two sets on
    one scale by means of models that answered the two sets): Kolen & Brennan (2014), Test Equating,
    ch. 6.
    """
    if not references:
        raise DataError(
            "The number of references is 0. Expected at least 1, since one model's answers do not "
            "show the spread of difficulties."
        )
    models = (tested, *references)
    sides = zip(*models, strict=True)
    fits = [fit_rasch(side, guessed) for side, guessed in zip(sides, chance, strict=True)]
    groups = (
        None
        if clusters is None
        else (
            _with_model_clusters(clusters[0], len(models)),
            _with_model_clusters(clusters[1], len(models)),
        )
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
    """Return the standard error, tau, the p-value and the limits of a difference of abilities.

    The unit of the standard error, of tau and of the limits is the logit.

    `slope` is the change of accuracy per logit. It converts the prior from accuracy to logits.
    """
    if prior is None:
        return attributes(difference, "se", "tau", "pvalue", "low", "high")
    predicted = predictive(
        difference.difference * slope,
        difference.items_se * slope,
        difference.items_df,
        difference.spread * slope**2,
        difference.sampling * slope**2,
        references,
        prior,
    )
    in_points = attributes(predicted, "se", "tau", "low", "high")
    return {
        "pvalue": predicted.pvalue,
        **{name: value / slope for name, value in in_points.items()},
    }


def ability_gaps(
    tested: Sets,
    references: Sequence[Sets],
    clusters: tuple[IntArray, IntArray] | None = None,
    *,
    prior: TauPrior | None = None,
    chance: tuple[float, float] = (0.0, 0.0),
) -> tuple[RaschGap, ...]:
    """Return the results of `rasch_gap` without and, if answers can be guessed, with guessing.

    Parameters
    ----------
    tested, references, clusters, prior, chance : object
        Arguments of `rasch_gap`.

    Returns
    -------
    tuple of RaschGap
        One result if `chance` is 0 in each of the two sets. Otherwise two results (without and with
        guessing), because the answers do not show whether models guess.

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
        Outcomes (0 to 1) of K >= 2 models on n items, NaN if missing.
    chance : float
        Probability (below 1) of a right answer to an unknown item. If it is above 0, the model is
        the three-parameter model with equal slopes.

    Returns
    -------
    RaschFit
        Abilities, their influence, and the spread of difficulties.

    Raises
    ------
    DataError
        If an outcome lies outside [0, 1], if fewer than two models have answers, or if the fit does
        not converge.

    Notes
    -----
    For every model, half a right and half a wrong answer to an item of mean difficulty are added
    (Haldane-Anscombe correction). A model that is always right, or not above chance, then has a
    finite ability with a large error. The logarithm of the spread has a normal (log 1.5, 1) prior,
    which weighs less than one item.

    Items with the same pattern of answers are grouped and counted, so a fit of 1,000 items takes
    milliseconds.
    """
    x = np.stack([np.asarray(row, dtype=float) for row in outcomes])
    known_answers = ~np.isnan(x)
    if np.any((x < 0) | (x > 1)):
        raise DataError(
            "An outcome lies outside 0 to 1. Expected 0 (wrong) to 1 (right), or NaN (missing)."
        )
    if x.shape[0] < 2 or not known_answers.any(axis=1).all():
        raise DataError(
            "The answers do not suffice to estimate the spread of difficulties. Expected at least "
            "two models, each with at least one answer."
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
    step = np.linalg.solve(items.information(last), last.gradient)  # one Newton step
    if not abs(last.gradient @ step) < _ENOUGH:
        raise DataError(
            f"The fit of the Rasch model to {x.shape[0]} models did not converge. Expected every "
            "model to have answers to several items."
        )
    best, k = items.at(near + step), x.shape[0]
    item = np.zeros((k + 1, x.shape[1] + k))
    item[:, : x.shape[1]] = best.scores[:, index.ravel()]
    item[np.arange(k), x.shape[1] + np.arange(k)] = 0.5 - scipy.special.expit(best.ability)
    influence = np.asarray(np.linalg.solve(items.information(best), item)[:k], dtype=np.float64)
    # Because of the prior of the spread, the sums of the influences are not exactly 0.
    influence -= influence.mean(axis=1, keepdims=True)
    return RaschFit(best.ability, best.spread, influence, best.posterior[index.ravel()], chance)


@dataclass(frozen=True)
class _At:
    """Hold the log-likelihood at given abilities and log spread, and its derivatives.

    The lengths of the axes are K (models), G (patterns of answers) and nodes (grid of
    difficulties).

    - `gradient` (K + 1,): the gradient of the log-likelihood.
    - `known` (K, nodes): the probability that a model knows an item of each difficulty.
    - `right_weight` (K, nodes): the weight of a right answer in the derivative of the
      log-likelihood. The weight is 1 without guessing.
    - `scores` (K + 1, G): the contribution of one item to the gradient.
    - `posterior` (G, nodes): the posterior distribution of the difficulty.
    - `pull` (G, nodes): the derivative for the log spread, given the difficulty.
    """

    ability: FloatArray
    spread: float
    value: float
    gradient: FloatArray
    known: FloatArray
    right_weight: FloatArray
    scores: FloatArray
    posterior: FloatArray
    pull: FloatArray


@dataclass(frozen=True)
class _Items:
    """Hold the distinct patterns of answers, with the number of items that have each pattern.

    `answered` and `right` (G, K) state which models answered, and which models answered right.
    `count` (G,) is the number of items with each pattern. `chance` is the probability that a guess
    is right.
    """

    answered: BoolArray
    right: FloatArray
    count: FloatArray
    chance: float

    def at(self, parameters: FloatArray) -> _At:
        """Return the log-likelihood and its derivatives at given abilities and log spread.

        If the difficulty is given, an answer's derivative of the log-likelihood is
        right * right_weight - known. If the difficulty is unknown, the derivative is the posterior
        mean of this expression.

        Parameters
        ----------
        parameters : (K + 1,) array
            Abilities of the K models in logits, then the logarithm of the spread.

        Returns
        -------
        _At
            The log-likelihood, and the derivatives for each ability and for the log spread.
        """
        ability, spread = parameters[:-1], float(np.exp(parameters[-1]))
        logit = ability[:, None] - spread * _NODES
        log_known, log_unknown = -np.logaddexp(0, -logit), -np.logaddexp(0, logit)
        log_guess, log_no_guess = (
            np.log(self.chance) if self.chance else -np.inf,
            np.log1p(-self.chance),
        )
        log_right = np.logaddexp(log_guess, log_no_guess + log_known)
        known, right_weight = np.exp(log_known), np.exp(log_known - log_right)
        log = (
            self.right @ (log_right - log_no_guess - log_unknown)
            + self.answered @ log_unknown
            + _LOG_WEIGHTS
        )
        top = log.max(axis=1, keepdims=True)
        weight = np.exp(log - top)
        total = weight.sum(axis=1, keepdims=True)
        posterior = weight / total
        pull = -spread * _NODES * (self.right @ right_weight - self.answered @ known)
        of_models = self.right.T * (right_weight @ posterior.T) - self.answered.T * (
            known @ posterior.T
        )
        scores = np.append(of_models, [(pull * posterior).sum(axis=1)], axis=0)
        halves = np.append(0.5 - scipy.special.expit(ability), _USUAL - parameters[-1])
        added = np.sum(ability / 2 - np.logaddexp(0, ability)) - halves[-1] ** 2 / 2
        value = self.count @ (np.log(total) + top)[:, 0] + added
        gradient = scores @ self.count + halves
        return _At(
            ability, spread, float(value), gradient, known, right_weight, scores, posterior, pull
        )

    def information(self, at: _At) -> FloatArray:
        """Return the observed information matrix.

        By Louis' formula (1982, JRSS B 44, 226), it is the posterior mean of the complete-data
        information minus the posterior variance of the complete-data scores.

        Parameters
        ----------
        at : _At
            The log-likelihood and its derivatives, as computed by the method `at`.

        Returns
        -------
        (K + 1, K + 1) array
            The symmetric matrix; its rows are the K abilities, then the log spread.
        """
        weights = self.count[:, None] * at.posterior
        guessed = (
            at.right_weight * (1 - (1 - self.chance) * at.right_weight) * (self.right.T @ weights)
        )
        curved = (1 - at.known) * (at.known * (self.answered.T @ weights) - guessed)
        k, place, half = at.ability.size, at.spread * _NODES, scipy.special.expit(at.ability)
        matrix = np.zeros((k + 1, k + 1))
        matrix[np.arange(k), np.arange(k)] = curved.sum(axis=1) + half * (1 - half)
        matrix[k, :k] = matrix[:k, k] = -curved @ place
        matrix[k, k] = curved.sum(axis=0) @ place**2 - np.sum(weights * at.pull) + 1
        of_models = (
            self.right.T[:, :, None] * at.right_weight[:, None]
            - self.answered.T[:, :, None] * at.known[:, None]
        )
        complete = np.append(of_models.reshape(k, -1), [at.pull.ravel()], axis=0)
        return (
            matrix
            - (complete * weights.ravel()) @ complete.T
            + (at.scores * self.count) @ at.scores.T
        )


def _with_model_clusters(groups: IntArray, models: int) -> IntArray:
    """Append a separate cluster for each model's added half answers to the items' clusters."""
    index = np.unique(groups, return_inverse=True)[1]
    return np.append(index, index.max(initial=-1) + 1 + np.arange(models))
