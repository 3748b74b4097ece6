"""Judge a difference by what is known of how much models differ. Pure.

A clean model differs from its references because it is another model. That spread, tau, is badly
known from three to eight references. The same kind of comparison was made with many public models,
so tau has a prior.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.paired import FloatArray
from audit.statistics.priors import TauPrior

_SAME = 10  # as many equal right answers, and equal wrong ones, are not a coincidence
_GRID = 400  # number of values of tau that the posterior averages over
_REACH = 6.0  # the grid of tau ends at so many prior scales, or spreads of the references


@dataclass(frozen=True)
class Predictive:
    """Report a difference, judged as that of one more model, in the unit of the difference.

    Attributes
    ----------
    pvalue : float
        One-sided, for a difference > 0.
    low, high : float
        Interval of the difference beyond what another clean model would show.
    tau : float
        Posterior mean of tau.
    se : float
        Root mean square error, of items and between models.
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
    """Test whether one more clean model could lie so far above the mean of its references.

    Parameters
    ----------
    difference : float
        Of the tested model, beyond the references' mean.
    items_se, items_df : float
        Error of the difference by the items, and its degrees of freedom.
    spread : float
        Variance (ddof 1) of the references' own differences; ignored with one reference.
    sampling : float
        Part of `spread` that the items explain.
    references : int
        Number of references.
    prior : TauPrior
        Prior of tau, which is all that is known of it with one reference. Its error between sets is
        added, whatever the number of references.
    level : float
        Coverage of the interval.

    Returns
    -------
    Predictive
        p and interval of the difference.

    Raises
    ------
    DataError
        If there is no reference.

    Notes
    -----
    (R - 1) spread / (tau^2 + sampling) is chi-squared with R - 1 degrees of freedom, which is tau's
    likelihood. The p and the interval average Student's t over tau's posterior (Roever 2020, J Stat
    Softw 93; Higgins et al. 2009, JRSS A 172, the predictive distribution). A t with R - 1 degrees
    of freedom is this with a flat prior and no items' error.

    Examples
    --------
    >>> beyond = predictive(0.10, 0.02, 400, 0.0004, 0.0004, 3, TauPrior(0.03))
    >>> round(beyond.pvalue, 4) < 0.01 < 0.02 < beyond.low < 0.10
    True
    """
    if references < 1:
        raise DataError(
            "Nothing is known of how models differ without a reference; found 0, expected at least 1."
        )
    tau, weight = _posterior(spread, sampling, references, prior)
    errors = np.sqrt(items_se**2 + tau**2 * (1 + 1 / references) + prior.between_sets**2)

    def beyond(x: float) -> float:
        """Return the probability that a clean model's difference is above x."""
        return float(weight @ scipy.special.stdtr(items_df, -x / errors))

    half = _root(lambda x: beyond(x) - (1 - level) / 2, float(errors.max()))
    se = float(np.sqrt(weight @ errors**2))
    return Predictive(
        beyond(difference), difference - half, difference + half, float(weight @ tau), se
    )


def _posterior(
    spread: float, sampling: float, references: int, prior: TauPrior
) -> tuple[FloatArray, FloatArray]:
    """Return a grid of tau, its cells' midpoints, and the posterior weights (they sum to 1)."""
    top = _REACH * max(prior.scale, float(np.sqrt(spread)) if references > 1 else 0.0)
    u = (np.arange(_GRID) + 0.5) / _GRID
    tau = top * u**2  # many values near 0, where a small spread of many references puts it
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
    """Return the family of references that are all of one, unless it is the tested model's.

    Parameters
    ----------
    tested : str
        Name of the tested model.
    references : sequence of str
        Names of the references.
    known_families : mapping of str to str
        Family of each model; a model that it lacks has the letters that its name begins with.

    Returns
    -------
    str
        Name of the family; "" with fewer than two references, several families, or the tested
        model's own.

    Notes
    -----
    What references of one family differ by tells nothing of a model of another family.

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
    """Return which models answer every item as an earlier one does: one model under two names.

    Parameters
    ----------
    models : sequence of arrays
        Answers of each model to the same items (any shape), 1, 0 or NaN.

    Returns
    -------
    list of int
        Positions of the repeated models. A model with fewer than ten right, or ten wrong, answers
        is never one.

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
