"""How often `rate_interval` misses the true rate: a table of docs/findings/validity_calibration.md.

    PYTHONPATH=. python tests/golden/statistics/rate_misses.py

Beta-binomial clusters of one size: rates P, correlations RHO within a cluster. Wilson's interval
over the effective number of items, with the normal quantile (as it was) and with Student's (as it
is). Printed: misses in per cent on one side (2.5 is promised), in the worst world and on average,
and the mean width."""

import numpy as np
import scipy

from audit.statistics.contracts import rate_interval

SEED, SAMPLES = 1, 6000
P, RHO, SIZES = (0.5, 0.7, 0.9), (0.0, 0.1, 0.3), (2, 4, 8)
CLUSTERS, SINGLE = (6, 8, 10, 15, 25), (10, 15, 24, 40)
NORMAL = float(scipy.special.ndtri(0.975))


def ends(rate: np.ndarray, n: np.ndarray, quantile: float) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's limits; n: effective numbers."""
    centre = (rate + quantile**2 / (2 * n)) / (1 + quantile**2 / n)
    reach = (
        quantile / (1 + quantile**2 / n) * np.sqrt(rate * (1 - rate) / n + quantile**2 / (4 * n**2))
    )
    return np.clip(np.minimum(centre - reach, rate), 0, 1), np.clip(
        np.maximum(centre + reach, rate), 0, 1
    )


def world(clusters: int, size: int, p: float, rho: float) -> np.ndarray:
    """(2 quantiles, 3): misses below, misses above, mean width."""
    rng = np.random.default_rng([SEED, clusters, size, round(100 * p), round(100 * rho)])
    shape = (SAMPLES, clusters)
    chance = (
        rng.beta(p * (1 / rho - 1), (1 - p) * (1 / rho - 1), shape) if rho else np.full(shape, p)
    )
    right = rng.binomial(size, chance)
    n = clusters * size
    rate = right.sum(axis=1) / n
    variance = clusters / (clusters - 1) * ((right - size * rate[:, None]) ** 2).sum(axis=1) / n**2
    binomial = rate * (1 - rate) / n
    spread = np.divide(variance, binomial, out=np.full(SAMPLES, n / clusters), where=binomial > 0)
    effective = n / np.maximum(1.0, spread)
    _same(
        right[0],
        size,
        rate[0],
        ends(rate, effective, float(scipy.special.stdtrit(clusters - 1, 0.975))),
    )
    rows = []
    for quantile in (NORMAL, float(scipy.special.stdtrit(clusters - 1, 0.975))):
        low, high = ends(rate, effective, quantile)
        rows.append([np.mean(p < low), np.mean(p > high), np.mean(high - low)])
    return np.array(rows)


def _same(
    right: np.ndarray, size: int, rate: float, student: tuple[np.ndarray, np.ndarray]
) -> None:
    """The package's own interval of the first sample."""
    values = np.concatenate([np.arange(size) < k for k in right]).astype(float)
    interval = rate_interval(values, np.repeat(np.arange(len(right)), size))
    np.testing.assert_allclose(
        (interval.estimate, interval.low, interval.high),
        (rate, student[0][0], student[1][0]),
        atol=1e-9,
    )


def row(label: str, worlds: list[np.ndarray]) -> str:
    cells = [label]
    for quantile in (0, 1):
        misses = 100 * np.array([world[quantile, :2] for world in worlds])
        width = np.mean([world[quantile, 2] for world in worlds])
        cells += [f"{misses.max():.1f}", f"{misses.mean():.1f}", f"{width:.3f}"]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    print(
        "| clusters | before: worst | before: mean | before: width | now: worst | now: mean | now: width |"
    )
    print("|---|---|---|---|---|---|---|")
    for clusters in CLUSTERS:
        print(
            row(
                str(clusters),
                [world(clusters, size, p, rho) for size in SIZES for p in P for rho in RHO],
            )
        )
    for n in SINGLE:
        print(row(f"{n} single items", [world(n, 1, p, 0.0) for p in P]))


if __name__ == "__main__":
    main()
