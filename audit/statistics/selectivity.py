"""Test whether an attribute edit changes answers more often than a surface edit does.

Let attr, fmt and sem be the shares of answers that change under attribute edits, format edits and
semantic edits. Format and semantic edits are the two families of surface edits. There are two
measures:

  D = attr - max(fmt, sem)
  CSR = attr / max(fmt, sem, epsilon)

The conclusion is based on an intersection-union test of D. CSR is only reported, for three reasons:

- CSR, as li2026 defines it, is biased downwards by the max() in its denominator.
- If both surface families are near 0, CSR is determined by epsilon, the floor of the denominator.
- At a true ratio of 1, the interval of CSR calls 6.7-7.7 % of cells "non-selective". The nominal
  rate is 2.5 %.

If nearly no answers or nearly all answers change, the sample variance is too small, and a t-test
rejects too often. With 60 items, it rejects for 10 % of clean models. If no item changes, as in one
cell of 24 items, the confidence limit is 0. So every difference is tested with two added clusters:
one changes by +1, the other by -1. Agresti & Min (2005, Statistics in Medicine 24) add half a unit
of each kind to paired proportions; half a unit is too little here.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.contracts import Mean, clustered_mean
from audit.statistics.drawing import cluster_df
from audit.statistics.estimate import Estimate, fieller
from audit.statistics.paired import FloatArray, IntArray

EPSILON = 0.01  # li2026, section 3: floor of the ratio's denominator
# Least denominator in li2026, G3; here the denominator's lower limit must reach it.
DENOMINATOR_MIN = 0.02
N_RESAMPLES = 1000  # number of resamples in li2026, section 3
_ADDED = 1  # number of added clusters that change by +1, and of added clusters that change by -1


@dataclass(frozen=True)
class Selectivity:
    """Report the difference D = attr - max(fmt, sem) with its tests.

    Attributes
    ----------
    difference : float
        D.
    low, high : float
        95 % interval of D, within -1 to 1. It agrees with the two tests at the level 2.5 %. For
        example, low > margin if and only if above_p < .025.
    above_p : float
        One-sided p-value. Alternative: attr exceeds both surface families by more than the margin
        (intersection-union test, which needs no correction).
    below_p : float
        One-sided p-value. Alternative: attr exceeds at least one surface family by less than the
        margin (Bonferroni correction for two families).
    over_format, over_semantic : Mean
        The differences attr - fmt and attr - sem, each with a t interval.
    without : str
        Name of the surface family that has no values, so that only the other family is used; "" if
        both families have values.
    """

    difference: float
    low: float
    high: float
    above_p: float
    below_p: float
    over_format: Mean
    over_semantic: Mean
    without: str = ""


@dataclass(frozen=True)
class Ratio:
    """Report the ratio CSR = attr / max(fmt, sem, epsilon).

    Attributes
    ----------
    estimate, low, high : float
        CSR as the paper defines it, with a paired percentile interval over resampled clusters.
    support : float
        Share of the resamples with a ratio above 1. This share is not a p-value.
    floored : float
        Share of the resamples in which the denominator is the floor epsilon.
    reported : bool
        True if the denominator's lower 95 % limit is at least .02, so that the ratio is meaningful.
    denominator_low : float
        Lower 95 % limit of the denominator.
    fieller_low, fieller_high : float or None
        Interval of the ratio by `ratio_limits`. Quote this interval. It is None unless `reported`
        is True. The upper end is infinite if the data do not bound the ratio.
    """

    estimate: float
    low: float
    high: float
    support: float
    floored: float
    reported: bool
    denominator_low: float
    fieller_low: float | None
    fieller_high: float | None


def selectivity(
    attr: FloatArray, fmt: FloatArray, sem: FloatArray, cluster: IntArray, margin: float = 0.0
) -> Selectivity:
    """Test whether attribute edits change answers more often than each family of surface edits.

    Parameters
    ----------
    attr, fmt, sem : (n,) array
        Change (0-1) of each item under attribute, format and semantic edits, NaN if missing.
    cluster : (n,) array
        Cluster of each item.
    margin : float
        Value that D must exceed (0-1).

    Returns
    -------
    Selectivity
        D with its interval and tests.

    Raises
    ------
    DataError
        If no item was answered under an attribute edit and under a surface edit.
    """
    values = {"format": attr - fmt, "semantic": attr - sem}
    pairs = {name: clustered_mean(value, cluster) for name, value in values.items()}
    padded = []
    for name, mean in pairs.items():
        if mean.n:
            padded.append(_padded(values[name], cluster, 1.0, -1.0))
    if not padded:
        raise DataError(
            "The number of items with an answer to an attribute edit and to a surface edit is 0. "
            "Expected at least 1, since the two are compared."
        )
    # The alternative "above both families" is tested at 2.5 % for each family (intersection-union).
    # The alternative "below one of k families" is tested at 2.5 % / k (Bonferroni).
    alpha, k = 0.025, len(padded)
    lows = [_value(mean) - _reach(mean, alpha) for mean in padded]
    highs = [_value(mean) + _reach(mean, alpha / k) for mean in padded]
    above = [_p_above(mean, margin) for mean in padded]
    return Selectivity(
        difference=min(mean.estimate for mean in pairs.values() if mean.n),
        low=max(-1.0, min(lows)),
        high=min(1.0, *highs),
        above_p=max(above),
        below_p=min(1.0, k * min(1 - p for p in above)),
        over_format=pairs["format"],
        over_semantic=pairs["semantic"],
        without=next((name for name, mean in pairs.items() if not mean.n), ""),
    )


def _padded(values: FloatArray, cluster: IntArray, up: float, down: float) -> Estimate | None:
    """Return the mean after two clusters of average size are added.

    All values are `up` in the first added cluster, and `down` in the second added cluster.

    The degrees of freedom do not include the added clusters. Return None if there are fewer than
    two clusters.
    """
    known = ~np.isnan(values)
    x, c = values[known], cluster[known]
    _, place, sizes = np.unique(c, return_inverse=True, return_counts=True)
    g = sizes.size
    if g < 2:
        return None
    size, total = x.size / g, g + 2 * _ADDED
    n = x.size + 2 * _ADDED * size
    mean = float((x.sum() + _ADDED * size * (up + down)) / n)
    # The factor of `drawing.influence`; it is 1 if all clusters have the same size.
    large = np.sqrt((1 - 1 / total) / (1 - sizes / n))
    more = np.repeat([up - mean, down - mean], _ADDED) * size
    parts = np.append(np.bincount(place, x - mean, g) * large, more) / n
    return Estimate(mean, parts, uneven=total - 1 - cluster_df(c))


def _value(mean: Estimate | None) -> float:
    return mean.value if mean else 0.0


def _reach(mean: Estimate | None, alpha: float) -> float:
    return float(scipy.special.stdtrit(mean.df, 1 - alpha)) * mean.se if mean else float("inf")


def _p_above(mean: Estimate | None, margin: float) -> float:
    """Return the one-sided p-value for a mean above the margin.

    If there is only one cluster, there is no estimate, and the result is .5.
    """
    return float(scipy.special.stdtr(mean.df, (margin - mean.value) / mean.se)) if mean else 0.5


def csr(attr: float, fmt: float, sem: float, epsilon: float = EPSILON) -> float:
    """Return CSR, the ratio of li2026, from three mean changes.

    Parameters
    ----------
    attr, fmt, sem : float
        Mean changes of the families.
    epsilon : float
        Floor of the denominator.

    Returns
    -------
    float
        attr / max(fmt, sem, epsilon).

    Examples
    --------
    >>> round(csr(594 / 600, 7 / 600, 5 / 600), 2)
    84.86
    """
    return attr / max(fmt, sem, epsilon)


def ratio(
    attr: FloatArray,
    fmt: FloatArray,
    sem: FloatArray,
    cluster: IntArray,
    *,
    rng: np.random.Generator,
    epsilon: float = EPSILON,
    n_resamples: int = N_RESAMPLES,
) -> Ratio:
    """Return CSR with intervals. All edits of an item are resampled together.

    Parameters
    ----------
    attr, fmt, sem : (n,) array
        Change (0-1) of each item under attribute, format and semantic edits, NaN if missing.
    cluster : (n,) array
        Cluster of each item, the unit of resampling.
    rng : numpy.random.Generator
        Source of the resamples.
    epsilon : float
        Floor of the denominator.
    n_resamples : int
        Number of resamples.

    Returns
    -------
    Ratio
        CSR, its intervals, and the share of resamples in which the denominator is at the floor.

    Raises
    ------
    DataError
        If the shapes differ or there are no items.
    """
    families = (attr, fmt, sem)
    if any(family.shape != cluster.shape for family in families):
        raise DataError(
            "The shapes of attr, fmt, sem and cluster differ. Expected one value of each for the "
            "same items, in the same order."
        )
    _, place = np.unique(cluster, return_inverse=True)
    g = int(place.max()) + 1 if place.size else 0
    if not g:
        raise DataError("The number of items is 0. Expected at least 1 to compute CSR.")
    sums = np.stack([np.bincount(place, np.nan_to_num(family), g) for family in families])
    counts = np.stack([np.bincount(place, ~np.isnan(family), g) for family in families])
    weights = rng.multinomial(g, np.full(g, 1 / g), size=n_resamples)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (weights @ sums.T) / (weights @ counts.T)
        point = sums.sum(axis=1) / counts.sum(axis=1)
    surface = np.nan_to_num(means[:, 1:], nan=0.0).max(axis=1)
    drawn = means[:, 0] / np.maximum(surface, epsilon)
    drawn = drawn[np.isfinite(drawn)]
    a, f, s = point.tolist()
    low, high = np.quantile(drawn, [0.025, 0.975]) if drawn.size else (np.nan, np.nan)
    denominator = denominator_low(fmt, sem, cluster)
    reported = denominator >= DENOMINATOR_MIN
    limits = ratio_limits(attr, fmt, sem, cluster) if reported else None
    return Ratio(
        estimate=csr(a, np.nan_to_num(f), np.nan_to_num(s), epsilon),
        low=float(low),
        high=float(high),
        support=float(np.mean(drawn > 1)) if drawn.size else float("nan"),
        floored=float(np.mean(surface <= epsilon)),
        reported=reported,
        denominator_low=denominator,
        fieller_low=limits[0] if limits else None,
        fieller_high=limits[1] if limits else None,
    )


def denominator_low(fmt: FloatArray, sem: FloatArray, cluster: IntArray) -> float:
    """Return the lower 95 % limit of the denominator of CSR.

    The denominator is the mean change under the surface family that changes more answers.

    Parameters
    ----------
    fmt, sem : (n,) array
        Change of each item under format and semantic edits, NaN if missing.
    cluster : (n,) array
        Cluster of each item.

    Returns
    -------
    float
        The limit; NaN if neither family has values.
    """
    means = [clustered_mean(values, cluster) for values in (fmt, sem)]
    return max(
        (mean for mean in means if mean.n), key=lambda mean: mean.estimate, default=means[0]
    ).low


def ratio_limits(
    attr: FloatArray, fmt: FloatArray, sem: FloatArray, cluster: IntArray
) -> tuple[float, float]:
    """Return a 95 % interval of CSR that agrees with the tests of D.

    Parameters
    ----------
    attr, fmt, sem : (n,) array
        Change (0-1) of each item under attribute, format and semantic edits, NaN if missing.
    cluster : (n,) array
        Cluster of each item.

    Returns
    -------
    tuple of float
        Limits of min(attr / fmt, attr / sem). The interval lies above 1 if and only if D is above 0
        at 2.5 %. It lies below 1 if and only if D is below 0.

    Notes
    -----
    CSR is above a value v if both attr / fmt and attr / sem are above v (intersection-union). CSR
    is below v if at least one of these two ratios is below v (Bonferroni). Each ratio is tested by
    Fieller's interval, with the added clusters of `selectivity`.

    Two simpler intervals are not used. Fieller's interval of the larger surface family alone
    ignores that this family was selected because it is larger: it calls 5 to 6 % of models with a
    true ratio of 1 non-selective. A bootstrap interval calls 9 % of these models non-selective.
    """
    families = []
    for family in (fmt, sem):
        if not np.isnan(attr - family).all():
            families.append(family)
    alpha = (0.025, 0.025 / len(families))
    limits = [_ratio_of(attr, family, cluster, alpha) for family in families]
    lows, highs = zip(*limits, strict=True)
    return min(lows), min(highs)


def _ratio_of(
    numerator: FloatArray, denominator: FloatArray, cluster: IntArray, alpha: tuple[float, float]
) -> tuple[float, float]:
    """Return Fieller's interval of a ratio of paired means, at the one-sided levels in `alpha`.

    The ends are 0 and infinity if the data do not bound the ratio. Before, two clusters are added:
    a cluster with numerator 1 and denominator 0, and a cluster with numerator 0 and denominator 1.
    """
    both = ~np.isnan(numerator) & ~np.isnan(denominator)
    above = _padded(numerator[both], cluster[both], 1.0, 0.0)
    below = _padded(denominator[both], cluster[both], 0.0, 1.0)
    if above is None or below is None:
        return 0.0, float("inf")
    quantiles = tuple(float(scipy.special.stdtrit(above.df, 1 - level)) for level in alpha)
    low, high = fieller(above, below, (quantiles[0], quantiles[1]))
    return max(low, 0.0), high
