"""Draw items at random for the bootstrap, and random signs for the sign-flip tests.

Items that have the same outcomes in every arm are interchangeable. The draws therefore use the
distinct patterns of outcomes, and the number of items with each pattern:

- The bootstrap, which draws n items with replacement, is one multinomial draw over the patterns.
- The sign-flip test, which flips the sign of items, is one binomial draw for each pattern.

These draws have exactly the distribution of n single draws, and need much less work. If most
patterns are distinct (clusters, averaged replicates), items are drawn one by one instead.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np

from audit.statistics.paired import FloatArray, IntArray

_CHUNK_NUMBERS = 2_000_000  # number of weights that a thread holds in memory (16 MB)
_WORTH_A_THREAD = 200_000  # With fewer draws, starting threads costs more than it saves.
ITEMS = 1 << 14  # number of columns that are compared at a time
_DRAW_COST = 4  # Drawing the count of one pattern takes as long as drawing about 4 single items.


def flip_totals(
    pattern: FloatArray, count: IntArray, n_permutations: int, rng: np.random.Generator
) -> FloatArray:
    """Return sums over items, in random permutations that flip the sign of some items.

    Parameters
    ----------
    pattern : (K, P) array
        K values for each of P distinct patterns.
    count : (P,) array
        Number of items with each pattern.
    n_permutations : int
        Number of sums.
    rng : numpy.random.Generator
        Source of the signs.

    Returns
    -------
    (n_permutations, K) array
        Sum of each of the K values in each permutation.

    Notes
    -----
    If c items have the same pattern, its values are multiplied by 2 * B - c, where B is drawn from
    Binomial(c, 1/2).
    """
    p = count.size
    single = bool(np.all(count == 1))

    def draw(rows: int, stream: np.random.Generator) -> FloatArray:
        if single:
            net = stream.integers(0, 2, size=(rows, p), dtype=np.int8).astype(np.float64)
        else:
            net = np.empty((rows, p))
            # With this shape, NumPy prepares a draw once per pattern and not once per row.
            for j, c in enumerate(count):
                net[:, j] = stream.binomial(c, 0.5, size=rows)
        net *= 2
        net -= count
        return net @ pattern.T

    return _in_chunks(draw, n_permutations, p, rng)


def choice_totals(
    pattern: FloatArray, count: IntArray, n_permutations: int, rng: np.random.Generator
) -> FloatArray:
    """Return sums over items; each item takes one of its A values at random.

    Parameters
    ----------
    pattern : (S, A, P) array
        The A equally likely values of each of S statistics and P patterns.
    count : (P,) array
        Number of items with each pattern.
    n_permutations : int
        Number of sums.
    rng : numpy.random.Generator
        Source of the choices.

    Returns
    -------
    (n_permutations, S) array
        Sum of each statistic in each permutation.

    Notes
    -----
    If c items have the same pattern, one multinomial draw determines how many of these items take
    each of the A values.
    """
    statistics, choices, p = pattern.shape
    flat = pattern.transpose(2, 1, 0).reshape(p * choices, statistics)
    many = np.flatnonzero(count > 1)
    single = np.flatnonzero(count == 1)

    def draw(rows: int, stream: np.random.Generator) -> FloatArray:
        total = np.zeros((rows, statistics))
        for j in many:
            times = stream.multinomial(int(count[j]), np.full(choices, 1 / choices), size=rows)
            total += times @ pattern[:, :, j].T
        if single.size:
            drawn = stream.integers(0, choices, size=(rows, single.size)) + single * choices
            total += flat[drawn].sum(axis=1)
        return total

    return _in_chunks(draw, n_permutations, many.size * choices + single.size * statistics, rng)


def bootstrap_totals(
    pattern: FloatArray, count: IntArray, n_resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Return sums over G units drawn with replacement, where G = sum(count).

    Parameters
    ----------
    pattern : (K, P) array
        K values for each of P distinct patterns.
    count : (P,) array
        Number of units with each pattern.
    n_resamples : int
        Number of sums.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    (n_resamples, K) array
        Sum of each of the K values in each resample.
    """
    p, g = count.size, int(count.sum())
    label = np.repeat(np.arange(p), count)

    def draw(rows: int, stream: np.random.Generator) -> FloatArray:
        if p * _DRAW_COST <= g:
            weight = stream.multinomial(g, count / g, size=rows)
        else:
            drawn = label[stream.integers(0, g, size=(rows, g), dtype=np.uint32)]
            drawn += np.arange(rows)[:, None] * p
            weight = np.bincount(drawn.ravel(), minlength=rows * p).reshape(rows, p)
        return weight.astype(np.float64) @ pattern.T

    return _in_chunks(draw, n_resamples, p if p * _DRAW_COST <= g else max(p, g), rng)


def _in_chunks(
    draw: Callable[[int, np.random.Generator], FloatArray],
    n: int,
    width: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Return n rows of random draws, drawn on two threads in chunks of bounded memory.

    NumPy releases the interpreter lock while it draws. There are always two random streams, so
    that a seed gives the same numbers on any machine.
    """
    chunk = max(1, _CHUNK_NUMBERS // max(width, 1))

    def run(rows: int, stream: np.random.Generator) -> list[FloatArray]:
        return [draw(min(chunk, rows - start), stream) for start in range(0, rows, chunk)]

    streams = [np.random.default_rng(rng.integers(0, 2**63, size=4)) for _ in range(2)]
    if n * width < _WORTH_A_THREAD:
        parts = [run(n - n // 2, streams[0]), run(n // 2, streams[1])]
    else:
        with ThreadPoolExecutor(2) as pool:
            parts = list(pool.map(run, (n - n // 2, n // 2), streams))
    return np.concatenate(list(chain.from_iterable(parts)))


def patterns(columns: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the distinct columns of an array, and how often each column occurs.

    Parameters
    ----------
    columns : (K, G) array
        Columns to count.

    Returns
    -------
    pattern : (K, P) array
        Distinct columns.
    count : (P,) array
        Number of times each distinct column occurs.
    """
    return patterns_of(
        columns[:, start : start + ITEMS] for start in range(0, max(columns.shape[1], 1), ITEMS)
    )


def patterns_of(blocks: Iterable[FloatArray]) -> tuple[FloatArray, IntArray]:
    """Return the distinct columns of an array in blocks, and how often each column occurs.

    Parameters
    ----------
    blocks : iterable of (K, g) arrays
        Blocks of columns; their widths g may differ.

    Returns
    -------
    pattern : (K, P) array
        Distinct columns.
    count : (P,) array
        Number of times each distinct column occurs in all blocks together.

    Notes
    -----
    There are few distinct columns, so the rows of a million questions need not be in memory
    together.
    """
    counted = [_patterns(block, np.ones(block.shape[1], dtype=np.int64)) for block in blocks]
    if len(counted) == 1:
        return counted[0]
    columns, times = zip(*counted, strict=True)
    return _patterns(np.concatenate(columns, axis=1), np.concatenate(times))


def _patterns(columns: FloatArray, times: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the distinct columns, ordered by their bytes, and how often each column occurs.

    An occurrence counts as many times as `times` states.
    """
    if columns.shape[1] == 0:
        return columns, np.zeros(0, dtype=np.int64)
    # Comparing whole columns as bytes is much faster than np.unique(axis=1). Adding 0.0 turns -0.0
    # into 0.0.
    flat = np.ascontiguousarray(columns.T + 0.0)
    keys = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    count = np.bincount(inverse, weights=times, minlength=first.size)
    return flat[first].T, count.astype(np.int64)


def cluster_df(cluster: IntArray) -> float:
    """Return the degrees of freedom of a variance that is estimated over clusters.

    Parameters
    ----------
    cluster : (n,) array
        Cluster label of each item.

    Returns
    -------
    float
        Kish's effective number of clusters, minus 1: sum(sizes)^2 / sum(sizes^2) - 1. If all
        clusters have the same size, this is the number of clusters minus 1. The result is at least
        1 with two or more clusters, and 0 with fewer clusters.

    Notes
    -----
    A cluster with many items has a large part in the error, so unequal sizes reduce the degrees of
    freedom (Carter, Schnepel & Steigerwald 2017, Rev Econ Stat 99).

    Examples
    --------
    >>> cluster_df(np.repeat(np.arange(20), 5)), round(cluster_df(np.r_[np.zeros(60), np.arange(60) + 1]), 2)
    (19.0, 2.93)
    """
    sizes = np.unique(cluster, return_counts=True)[1].astype(float)
    return max(float(sizes.sum() ** 2 / np.sum(sizes**2)) - 1, 1.0) if sizes.size > 1 else 0.0


def influence(rows: FloatArray, cluster: IntArray) -> FloatArray:
    """Return the influence of each cluster on the mean of each row.

    Parameters
    ----------
    rows : (K, n) array
        Values of n items in K rows.
    cluster : (n,) array
        Cluster label of each item.

    Returns
    -------
    (K, G) array
        Influences, scaled so that sum(influence^2) * G / (G - 1) is the variance of the row's mean.

    Notes
    -----
    The variance is CR2 (Bell & McCaffrey 2002, Survey Methodology 28). A large cluster pulls the
    mean towards itself, so its residuals are too small by the factor sqrt(1 - share). Here `share`
    is the cluster's share of the items. CR2 corrects for this factor. If all clusters have the same
    size, CR2 equals the plain robust variance.
    """
    n, (_, index) = cluster.size, np.unique(cluster, return_inverse=True)
    sizes = np.bincount(index)
    off = cluster_sums(rows - rows.mean(axis=1, keepdims=True), index)
    if sizes.size < 2:
        return off / n
    return off / n * np.sqrt((1 - 1 / sizes.size) / (1 - sizes / n))


def shared_se(values: FloatArray, cluster: IntArray) -> float:
    """Return the standard error of a mean if all items of a cluster share a random effect.

    Parameters
    ----------
    values : (n,) array
        Value of each item.
    cluster : (n,) array
        Cluster label of each item.

    Returns
    -------
    float
        Standard error; 0 if all clusters have the same size.

    Notes
    -----
    The variance components are ANOVA estimates for unequal sizes (Searle, Casella & McCulloch 1992,
    section 3.6). A cluster-robust error is computed from residuals, and a large cluster in which no
    value changed has no residuals. Intervals therefore use the larger of this error and the
    cluster-robust error.
    """
    _, place, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
    n, g = values.size, sizes.size
    if g < 2 or np.ptp(sizes) == 0:
        return 0.0
    means = np.bincount(place, values) / sizes
    within = float(np.sum((values - means[place]) ** 2)) / (n - g)
    between = float(np.sum(sizes * (means - values.mean()) ** 2)) / (g - 1)
    shared = max(0.0, (between - within) * (g - 1) / (n - np.sum(sizes**2) / n))
    return float(np.sqrt(np.sum(sizes**2 * shared + sizes * within)) / n)


def cluster_sums(rows: FloatArray, cluster: IntArray) -> FloatArray:
    """Return the sum of each row's values within each cluster.

    Parameters
    ----------
    rows : (K, n) array
        Values of n items in K rows.
    cluster : (n,) array
        Cluster label of each item.

    Returns
    -------
    (K, G) array
        Sum over each cluster; the clusters are in the order of their labels.
    """
    _, index = np.unique(cluster, return_inverse=True)
    groups = int(index.max()) + 1
    if groups == index.size:
        return np.asarray(rows, dtype=float)
    return np.stack(
        [np.bincount(index, weights=row, minlength=groups) for row in np.asarray(rows, dtype=float)]
    )
