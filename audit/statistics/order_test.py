"""Test whether a model finds the published order of items likelier than other orders.

The test needs no reference model.

The method is that of Oren, Meister, Chatterji, Ladhak & Hashimoto (2023), "Proving test set
contamination in black-box language models". If items are exchangeable and the model is not
contaminated, every order has the same probability of being the likeliest order.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.core.errors import DataError
from audit.statistics.paired import FloatArray

N_RESAMPLES = 9999
_AT_ONCE = 4_000_000  # largest number of random draws in memory at the same time
_TIE = 1e-9


@dataclass(frozen=True)
class OrderTest:
    """Report the permutation test of the published order against other orders of the items.

    Attributes
    ----------
    pvalue : float
        One-sided p-value, at least 1 / (n_resamples + 1). It is NaN if n_resamples is 0.
    gain : float
        Log-likelihood (nats) of the published order minus the mean log-likelihood of the other
        orders, averaged over units.
    low, high : float
        95 % interval of the gain.
    t, t_pvalue : float
        t statistic and p-value of a t-test of the gain over units. Oren et al. use this test.
    units : int
        Number of shards or items that are used in the test.
    orders : float
        Mean number of orders per unit, including the published order.

    Notes
    -----
    With fewer than two units, every number is NaN except `units` and `orders`.
    """

    pvalue: float
    gain: float
    low: float
    high: float
    t: float
    t_pvalue: float
    units: int
    orders: float


def order_test(
    log_likelihood: ArrayLike, *, rng: np.random.Generator, n_resamples: int = N_RESAMPLES
) -> OrderTest:
    """Test whether the published order of the units is likelier than other orders.

    Parameters
    ----------
    log_likelihood : (S, K + 1) array
        Log-likelihood (nats) of each unit under K + 1 orders, the published order first. A unit is
        a shard of neighbouring items, or the options of one item. NaN if a unit has fewer orders. A
        unit is not used if the published order or all other orders are NaN, or if all its orders
        are equally likely.
    rng : numpy.random.Generator
        Source of the permutations.
    n_resamples : int
        Number of permutations; 0 gives p = NaN.

    Returns
    -------
    OrderTest
        The p-value, and the gain with its interval.

    Raises
    ------
    DataError
        If the array has fewer than two orders, or if a log-likelihood is infinite.

    Notes
    -----
    The values of each unit are centred and divided by their standard deviation over all K + 1
    orders. This standard deviation does not depend on which order is the published one. The
    statistic is the sum of the published orders' values. If orders are exchangeable, each order of
    a unit is equally likely to be the published one, independently of other units. Each permutation
    chooses one order of every unit at random. p is the share of permutations whose sum is at least
    the observed sum; the observed choice counts as a permutation. The test is exact. Oren et al.
    give two tests: they reorder all shards together and count, or they apply a t-test to the mean
    over shards. The test here is a finer form of their first test.

    Examples
    --------
    >>> x = np.zeros((20, 4)); x[:, 0] = 1.0
    >>> order_test(x, rng=np.random.default_rng(0)).pvalue
    0.0001
    """
    x = np.array(log_likelihood, dtype=float)
    if x.ndim != 2 or x.shape[1] < 2:
        raise DataError(
            f"The log-likelihoods have shape {x.shape}. Expected (units, orders) with at least 2 "
            "orders."
        )
    if np.any(np.isinf(x)):
        raise DataError("A log-likelihood is infinite. Expected a finite number from the engine.")
    known = ~np.isnan(x)
    x = x[known[:, 0] & (known.sum(axis=1) > 1)]
    spread = np.nanstd(x, axis=1) if x.size else np.zeros(0)
    x, spread = x[spread > 0], spread[spread > 0]
    units = len(x)
    orders = float((~np.isnan(x)).sum(axis=1).mean()) if units else float("nan")
    if units < 2:
        nan = float("nan")
        return OrderTest(nan, nan, nan, nan, nan, nan, units, orders)
    gains = x[:, 0] - np.nanmean(x[:, 1:], axis=1)
    mean, se = float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(units))
    half = float(scipy.stats.t.ppf(0.975, units - 1)) * se
    t = mean / se if se > 0 else float("nan")
    z = (x - np.nanmean(x, axis=1, keepdims=True)) / spread[:, None]
    return OrderTest(
        pvalue=_permuted(z, n_resamples, rng),
        gain=mean,
        low=mean - half,
        high=mean + half,
        t=t,
        t_pvalue=float(scipy.stats.t.sf(t, units - 1)) if se > 0 else float("nan"),
        units=units,
        orders=orders,
    )


def _permuted(z: FloatArray, n_resamples: int, rng: np.random.Generator) -> float:
    """Return the p-value: the share of random choices whose sum is at least the observed sum.

    A choice takes one order of each unit. The observed choice is one of the counted choices. The
    p-value is NaN if no permutation is drawn.
    """
    if not n_resamples:
        return float("nan")
    units = len(z)
    count = (~np.isnan(z)).sum(axis=1)
    # Sorting puts NaN last: the first `count` values of a row are then its orders.
    packed = np.sort(z, axis=1)
    observed = float(z[:, 0].sum())
    reached, left = 1, n_resamples
    first = np.arange(units) * z.shape[1]
    while left:
        step = min(left, max(1, _AT_ONCE // units))
        chosen = (rng.random((step, units)) * count).astype(np.int64)
        drawn = packed.take(chosen + first).sum(axis=1)
        reached += int((drawn >= observed - _TIE).sum())
        left -= step
    return reached / (n_resamples + 1)
