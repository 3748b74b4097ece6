"""Random draws of items, fast: what the bootstrap and the sign-flip tests share.

Items that have the same outcomes in every arm are interchangeable, so both schemes work on the distinct outcome
patterns and their counts: drawing n items with replacement is a multinomial draw over patterns, and flipping the sign
of every item is a binomial draw a pattern. That is exact, not an approximation, and much less work than n items.
Where most patterns are distinct (clusters, averaged replicates), items are drawn one by one instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.statistics.paired import FloatArray, IntArray

_CHUNK_NUMBERS = 4_000_000  # weights held at once: 32 MB
_DRAW_COST = 4  # drawing a pattern's count costs about as much as drawing 4 items one by one


def flip_totals(
    pattern: FloatArray, count: IntArray, n_permutations: int, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Sums (chunk, K) over items with random signs: a pattern held by c items contributes 2 Binomial(c, 1/2) - c."""
    p = count.size
    chunk = max(1, _CHUNK_NUMBERS // max(p, 1))
    single = bool(np.all(count == 1))
    for start in range(0, n_permutations, chunk):
        rows = min(chunk, n_permutations - start)
        if single:
            net = rng.integers(0, 2, size=(rows, p), dtype=np.int8).astype(np.float64)
        else:
            net = np.empty((rows, p))
            for j, c in enumerate(count):  # one count at a time: NumPy's set-up is paid once a pattern, not once a draw
                net[:, j] = rng.binomial(c, 0.5, size=rows)
        net *= 2
        net -= count
        yield net @ pattern.T


def bootstrap_totals(
    pattern: FloatArray, count: IntArray, n_resamples: int, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Column sums (chunk, K) of G units drawn with replacement, G = sum(count)."""
    p, g = count.size, int(count.sum())
    chunk = max(1, _CHUNK_NUMBERS // max(p, g))
    label = np.repeat(np.arange(p), count)
    for start in range(0, n_resamples, chunk):
        rows = min(chunk, n_resamples - start)
        if p * _DRAW_COST <= g:
            weight = rng.multinomial(g, count / g, size=rows)
        else:
            drawn = label[rng.integers(0, g, size=(rows, g), dtype=np.uint32)]
            drawn += np.arange(rows)[:, None] * p
            weight = np.bincount(drawn.ravel(), minlength=rows * p).reshape(rows, p)
        yield weight.astype(np.float64) @ pattern.T


def patterns(columns: FloatArray) -> tuple[FloatArray, IntArray]:
    """Distinct columns of (K, G) and how often each occurs."""
    if columns.shape[1] == 0:
        return columns, np.zeros(0, dtype=np.int64)
    # Comparing whole columns as bytes is much faster than np.unique(axis=1); + 0.0 makes -0.0 equal to 0.0.
    flat = np.ascontiguousarray(columns.T + 0.0)
    keys = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()
    _, first, count = np.unique(keys, return_index=True, return_counts=True)
    return flat[first].T, count.astype(np.int64)


def cluster_sums(rows: FloatArray, cluster: IntArray) -> FloatArray:
    """Rows (K, n) summed within clusters -> (K, G)."""
    _, index = np.unique(cluster, return_inverse=True)
    groups = int(index.max()) + 1
    if groups == index.size:
        return np.asarray(rows, dtype=float)
    return np.stack([np.bincount(index, weights=row, minlength=groups) for row in np.asarray(rows, dtype=float)])
