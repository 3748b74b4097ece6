"""Test whether a difference between models exceeds the usual differences between clean models.

A clean model, too, differs from its references. The standard deviation of the differences between
clean models is tau. Three to eight references give only a poor estimate of tau. Many public models
were compared in the same way, and the differences between these models give a prior distribution of
tau. The module does no I/O.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.paired import FloatArray
from audit.statistics.priors import TauPrior

_SAME = 10  # Two models that agree on 10 right and 10 wrong answers do not agree by coincidence.
_GRID = 400  # number of values of tau at which the posterior is computed
# The largest tau in the grid is this many times the prior scale or the references' spread.
_REACH = 6.0


@dataclass(frozen=True)
class Predictive:
    """Report a difference, tested against the differences that clean models show.

    Attributes
    ----------
    pvalue : float
        One-sided p-value: the probability that a clean model's difference is larger than this
        difference.
    low, high : float
        Interval of the tested model's true excess over its references. Differences between clean
        models count as error.
    tau : float
        Posterior mean of tau, the standard deviation between clean models.
    se : float
        Standard error of the difference, due to item sampling and to differences between models
        together. It is the root mean square over the posterior of tau.
    """

    pvalue: float
    low: float
    high: float
    tau: float
    se: float


def predictive(
    difference: float,
    items_se: float,
    items_df: float,
    spread: float,
    sampling: float,
    references: int,
    prior: TauPrior,
    level: float = 0.95,
) -> Predictive:
    """Test whether a difference is larger than the differences between clean models.

    The null hypothesis is that the tested model is one more clean model.

    Parameters
    ----------
    difference : float
        Value of the tested model minus the mean of the references' values.
    items_se, items_df : float
        Standard error of the difference due to item sampling, and its degrees of freedom.
    spread : float
        Variance (ddof 1) of the references' values; ignored with one reference.
    sampling : float
        Part of `spread` that is due to item sampling, as a variance.
    references : int
        Number of references.
    prior : TauPrior
        Prior of tau. With one reference the prior alone determines tau. The prior's standard
        deviation between sets is added to the error for any number of references.
    level : float
        Coverage of the interval.

    Returns
    -------
    Predictive
        The p-value and the interval of the difference.

    Raises
    ------
    DataError
        If there is no reference.

    Notes
    -----
    The likelihood of tau follows from the references' spread. With R references,

          (R - 1) * spread / (tau^2 + sampling)

    is chi-squared with R - 1 degrees of freedom. The p-value and the interval are averages of
    Student's t over the posterior of tau (Roever 2020, J Stat Softw 93). The average is the
    predictive distribution of Higgins et al. 2009, JRSS A 172. With a flat prior and no error due
    to items, the result is a t test with R - 1 degrees of freedom.

    Examples
    --------
    >>> beyond = predictive(0.10, 0.02, 400, 0.0004, 0.0004, 3, TauPrior(0.03))
    >>> round(beyond.pvalue, 4) < 0.01 < 0.02 < beyond.low < 0.10
    True
    """
    if references < 1:
        raise DataError(
            "The number of references is 0. Expected at least 1, because the tested model alone "
            "does not show how much models differ."
        )
    tau, weight = _posterior(spread, sampling, references, prior)
    errors = np.sqrt(items_se**2 + tau**2 * (1 + 1 / references) + prior.between_sets**2)

    def beyond(x: float) -> float:
        """Return the probability that the difference of a clean model exceeds x.

        Parameters
        ----------
        x : float
            A difference, in the unit of `difference`.

        Returns
        -------
        float
            The probability (0-1), averaged over the posterior of tau.
        """
        return float(weight @ scipy.special.stdtr(items_df, -x / errors))

    half = _root(lambda x: beyond(x) - (1 - level) / 2, float(errors.max()))
    se = float(np.sqrt(weight @ errors**2))
    return Predictive(
        beyond(difference), difference - half, difference + half, float(weight @ tau), se
    )


def _posterior(
    spread: float, sampling: float, references: int, prior: TauPrior
) -> tuple[FloatArray, FloatArray]:
    """Return a grid of values of tau, and their posterior probabilities, which sum to 1."""
    top = _REACH * max(prior.scale, float(np.sqrt(spread)) if references > 1 else 0.0)
    u = (np.arange(_GRID) + 0.5) / _GRID
    # The grid is denser near 0, where tau lies if many references have a small spread.
    tau = top * u**2
    ratio = (tau / prior.scale) ** 2
    density = (
        -0.5 * ratio if np.isinf(prior.df) else -(prior.df + 1) / 2 * np.log1p(ratio / prior.df)
    )
    log = np.log(u) + density
    if references > 1:
        variance = tau**2 + sampling
        log = log - (references - 1) / 2 * (np.log(variance) + spread / variance)
    weight = np.exp(log - log.max())
    return tau, weight / weight.sum()


def _root(function: Callable[[float], float], scale: float) -> float:
    high = 4 * scale
    while function(high) > 0:
        high *= 2
    return float(scipy.optimize.brentq(function, 0.0, high, xtol=1e-5))


def one_family(tested: str, references: Sequence[str], known_families: Mapping[str, str]) -> str:
    """Return the model family of all references, if the tested model is of another family.

    Parameters
    ----------
    tested : str
        Name of the tested model.
    references : sequence of str
        Names of the references.
    known_families : mapping of str to str
        Maps each model to its family. If a model is not in the mapping, the letters at the start of
        its name are taken as the family.

    Returns
    -------
    str
        Name of the family. It is "" if there are fewer than two references, or if the references
        are of several families. It is also "" if the tested model is of the same family.

    Notes
    -----
    Differences between references of one family do not show how much models of other families
    differ.

    Examples
    --------
    >>> one_family("qwen3_8b", ["llama3", "llama3_70b"], {}), one_family("llama2_7b", ["llama3", "llama3_70b"], {})
    ('llama', '')
    >>> one_family("qwen3_8b", ["vicuna", "alpaca"], {"vicuna": "Llama", "alpaca": "llama"})
    'llama'
    """
    names = []
    for name in (tested, *references):
        names.append(known_families.get(name) or re.split(r"[^A-Za-z]", name.rpartition("/")[2])[0])
    tested_family, *families = [name.casefold() for name in names]
    return (
        families[0]
        if len(families) > 1 and len(set(families)) == 1 and tested_family != families[0]
        else ""
    )


def repeats(models: Sequence[FloatArray]) -> list[int]:
    """Return the positions of models whose answers are those of an earlier model in the list.

    If two models give the same answer to every item, they are taken to be one model under two
    names.

    Parameters
    ----------
    models : sequence of arrays
        Answers of each model to the same items (any shape): 1, 0 or NaN.

    Returns
    -------
    list of int
        Positions of the repeated models. A model with fewer than ten right answers, or fewer than
        ten wrong ones, is never called a repeat.

    Examples
    --------
    >>> first = np.repeat([0.0, 1.0], 10)
    >>> repeats([first, 1 - first, first, np.ones(20), np.ones(20)])  # all right shows nothing
    [2]
    """
    repeated = []
    for k, answers in enumerate(models):
        varied = min(np.sum(answers == 0), np.sum(answers == 1)) >= _SAME
        if varied and any(np.array_equal(answers, other, equal_nan=True) for other in models[:k]):
            repeated.append(k)
    return repeated
