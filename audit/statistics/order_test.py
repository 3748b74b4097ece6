"""Is the published order likelier than others? A permutation test that needs no reference model.

Oren, Meister, Chatterji, Ladhak & Hashimoto (2023), "Proving test set contamination in black-box language models":
under no contamination every order of exchangeable items is equally likely to be the likeliest.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.errors import DataError
from audit.statistics.paired import FloatArray

N_RESAMPLES = 9999
_AT_ONCE = 4_000_000  # draws in memory together
_TIE = 1e-9


@dataclass(frozen=True)
class OrderTest:
    """pvalue: one-sided, of the permutation test; its smallest value is 1 / (n_resamples + 1). NaN with n_resamples=0.

    gain: mean over units of the log-likelihood (nats) of the published order less the mean of the others, with its 95 %
    interval (low, high). t, t_pvalue: Oren et al.'s own form, a t-test of that mean over units. units: shards or items
    that count; orders: of a unit, on average, the published one among them. All NaN but the counts with fewer than two
    units.
    """

    pvalue: float
    gain: float
    low: float
    high: float
    t: float
    t_pvalue: float
    units: int
    orders: float


def order_test(log_likelihood: ArrayLike, *, rng: np.random.Generator, n_resamples: int = N_RESAMPLES) -> OrderTest:
    """Test that the published order of each unit is likelier than the others by more than chance.

    Parameters
    ----------
    log_likelihood : (S, K + 1) nats of each unit (a shard of neighbours, or one item's options) under K + 1 orders, the
        published one first; NaN where a unit has fewer orders. A unit without the published order, or without another,
        does not count, nor does one that is equally likely under all.
    rng : of the permutations

    Notes
    -----
    Each unit's values are centred and scaled by their own spread over all K + 1 orders, which does not tell which of
    them is the published one, and the published ones are added up. If the order is exchangeable, each of a unit's
    orders is as likely to be the published one, in each unit by itself: p is the share of random choices of one order a
    unit whose sum is at least as large (the observed choice among them), so the test is exact. Oren et al. reorder the
    shards together and count, or test the mean over shards by t; this is the finer form of the first.

    >>> x = np.zeros((20, 4)); x[:, 0] = 1.0
    >>> order_test(x, rng=np.random.default_rng(0)).pvalue
    0.0001
    """
    x = np.array(log_likelihood, dtype=float)
    if x.ndim != 2 or x.shape[1] < 2:
        raise DataError(f"Log-likelihoods under orders have shape (units, 2 or more); found {x.shape}.")
    if np.any(np.isinf(x)):
        raise DataError("A log-likelihood is infinite: the engine told no finite number.")
    there = ~np.isnan(x)
    x = x[there[:, 0] & (there.sum(axis=1) > 1)]
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
    """Share of sums of one random order a unit, the observed one among them, that reach the observed sum. NaN where
    none is drawn."""
    if not n_resamples:
        return float("nan")
    units = len(z)
    count = (~np.isnan(z)).sum(axis=1)
    # NaN last, so that the first `count` values of a row are its orders: which is the published one is forgotten.
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
