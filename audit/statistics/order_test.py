"""Test whether the published order is likelier than others, without a reference model.

Oren, Meister, Chatterji, Ladhak & Hashimoto (2023), "Proving test set contamination in black-box
language models": under no contamination every order of exchangeable items is equally likely to be
the likeliest.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.core.errors import DataError
from audit.statistics.paired import FloatArray

N_RESAMPLES = 9999
_AT_ONCE = 4_000_000  # number of draws in memory at once
_TIE = 1e-9


@dataclass(frozen=True)
class OrderTest:
    """Report the permutation test of the published order.

    Attributes
    ----------
    pvalue : float
        One-sided; its smallest value is 1 / (n_resamples + 1). NaN with n_resamples=0.
    gain : float
        Mean over units of the log-likelihood (nats) of the published order less the mean of the
        others.
    low, high : float
        95 % interval of the gain.
    t, t_pvalue : float
        Form of Oren et al., a t-test of the gain over units.
    units : int
        Number of shards or items that count.
    orders : float
        Mean number of orders of a unit, the published one among them.

    Notes
    -----
    All numbers but the counts are NaN with fewer than two units.
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
    """Test that the published order of each unit is likelier than the others by more than chance.

    Parameters
    ----------
    log_likelihood : (S, K + 1) array
        Nats of each unit (a shard of neighbours, or one item's options) under K + 1 orders, the
        published one first; NaN if a unit has fewer orders. A unit does not count if it lacks the
        published order or any other, or is equally likely under all.
    rng : numpy.random.Generator
        Source of the permutations.
    n_resamples : int
        Number of permutations; 0 gives p = NaN.

    Returns
    -------
    OrderTest
        p, gain and its interval.

    Raises
    ------
    DataError
        If the shape has fewer than two orders, or a log-likelihood is infinite.

    Notes
    -----
    Each unit's values are centred and scaled by their spread over all K + 1 orders, which does not
    tell which of them is the published one, and the published ones are added up. If the order is
    exchangeable, each of a unit's orders is as likely to be the published one, in each unit by
    itself. So p is the share of random choices of one order a unit whose sum is at least as large
    (the observed choice among them), and the test is exact. Oren et al. reorder the shards together
    and count, or test the mean over shards by t; this is the finer form of the first.

    Examples
    --------
    >>> x = np.zeros((20, 4)); x[:, 0] = 1.0
    >>> order_test(x, rng=np.random.default_rng(0)).pvalue
    0.0001
    """
    x = np.array(log_likelihood, dtype=float)
    if x.ndim != 2 or x.shape[1] < 2:
        raise DataError(
            f"Log-likelihoods under orders have shape (units, 2 or more); found {x.shape}."
        )
    if np.any(np.isinf(x)):
        raise DataError("A log-likelihood is infinite: the engine told no finite number.")
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
    """Return the share of sums of one random order a unit that reach the observed sum, itself among
    them.

    NaN if no permutation is drawn.
    """
    if not n_resamples:
        return float("nan")
    units = len(z)
    count = (~np.isnan(z)).sum(axis=1)
    # Sorting puts NaN last: the first `count` values of a row are its orders, without the published
    # one's place.
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
