"""What is known of how much models differ, used beside what the references of a run show. Pure.

A clean model differs from its references because it is another model. That spread, tau, is badly known from three to
eight references. The same kind of comparison was made with many public models, so tau has a prior.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from audit.errors import DataError
from audit.statistics.paired import FloatArray
from audit.statistics.priors import TauPrior

_SAME = 10  # right answers, and wrong ones, that are no coincidence where another model has the same
_GRID = 400  # values of tau over which is averaged
_REACH = 6.0  # prior scales, and spreads of the references, up to which tau is looked at


@dataclass(frozen=True)
class Predictive:
    """A difference, judged as that of one more model. All in the unit of the difference.

    pvalue: one-sided, for a difference > 0. low, high: interval of the difference beyond what another clean model
    would show. tau: posterior mean. se: root mean square error, of items and between models.
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
    """Could one more clean model lie so far above the mean of its references?

    Parameters
    ----------
    difference : of the tested model, beyond the references' mean
    items_se, items_df : its error by the items, and the degrees of freedom of that error
    spread : variance (ddof 1) of the references' own differences; ignored with one reference
    sampling : what of `spread` the items explain
    references : how many; DataError below 1
    prior : of tau; with one reference tau has nothing else. Its error between sets is added, whatever R is

    Notes
    -----
    (R - 1) spread / (tau^2 + sampling) is chi-squared with R - 1 degrees of freedom, which is tau's likelihood. The p
    and the interval average Student's t over tau's posterior (Roever 2020, J Stat Softw 93; Higgins et al. 2009, JRSS A
    172, the predictive distribution). A t with R - 1 degrees of freedom is this with a flat prior and no items' error.

    >>> found = predictive(0.10, 0.02, 400, 0.0004, 0.0004, 3, TauPrior(0.03))
    >>> round(found.pvalue, 4) < 0.01 < 0.02 < found.low < 0.10
    True
    """
    if references < 1:
        raise DataError("Nothing is known of how models differ without a reference; found 0, expected at least 1.")
    tau, weight = _posterior(spread, sampling, references, prior)
    errors = np.sqrt(items_se**2 + tau**2 * (1 + 1 / references) + prior.between_sets**2)

    def beyond(x: float) -> float:
        """P(a clean model's difference > x)."""
        return float(weight @ scipy.special.stdtr(items_df, -x / errors))

    half = _root(lambda x: beyond(x) - (1 - level) / 2, float(errors.max()))
    se = float(np.sqrt(weight @ errors**2))
    return Predictive(beyond(difference), difference - half, difference + half, float(weight @ tau), se)


def _posterior(spread: float, sampling: float, references: int, prior: TauPrior) -> tuple[FloatArray, FloatArray]:
    """A grid of tau, its cells' midpoints, and the posterior weights (they sum to 1)."""
    top = _REACH * max(prior.scale, float(np.sqrt(spread)) if references > 1 else 0.0)
    u = (np.arange(_GRID) + 0.5) / _GRID
    tau = top * u**2  # many values near 0, where a small spread of many references puts it
    ratio = (tau / prior.scale) ** 2
    density = -0.5 * ratio if np.isinf(prior.df) else -(prior.df + 1) / 2 * np.log1p(ratio / prior.df)
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


def one_family(tested: str, references: Sequence[str], told: Mapping[str, str]) -> str:
    """The family of several references that are all of one, which the tested model is not; else empty.

    What such references differ by tells nothing of a model of another family. told: families by model; of one that it
    lacks, the letters that its name begins with.

    >>> one_family("qwen3_8b", ["llama3", "llama3_70b"], {}), one_family("llama2_7b", ["llama3", "llama3_70b"], {})
    ('llama', '')
    >>> one_family("qwen3_8b", ["vicuna", "alpaca"], {"vicuna": "Llama", "alpaca": "llama"})
    'llama'
    """
    names = [told.get(name) or re.split(r"[^A-Za-z]", name.rpartition("/")[2])[0] for name in (tested, *references)]
    own, *families = [name.casefold() for name in names]
    return families[0] if len(families) > 1 and len(set(families)) == 1 and own != families[0] else ""


def repeats(models: Sequence[FloatArray]) -> list[int]:
    """Which models answer as an earlier one does, to every item: one model under two names. models: of each its
    answers (any shape), 1, 0 or NaN, to the same items.

    >>> one = np.repeat([0.0, 1.0], 10)
    >>> repeats([one, 1 - one, one, np.ones(20), np.ones(20)])  # that all is right is no sign
    [2]
    """
    return [
        k
        for k, one in enumerate(models)
        if min(np.sum(one == 0), np.sum(one == 1)) >= _SAME
        and any(np.array_equal(one, other, equal_nan=True) for other in models[:k])
    ]
