"""How often does D call a clean model selective where clusters are of unequal size? `PYTHONPATH=.
python` this file.

Items of a cluster share a rate of change (Beta distributed), the attribute family's and the
surface's drawn apart."""

from itertools import product

import numpy as np

from audit.statistics.selectivity import selectivity

MODELS = 1_500
SIZES = {
    "60 of 4": [4] * 60,
    "20 of 10": [10] * 20,
    "5 of 20": [20] * 5,
    "one of 60, 60 single": [60] + [1] * 60,
    "one of 200, 60 single": [200] + [1] * 60,
    "three of 40, 60 single": [40] * 3 + [1] * 60,
    "100 / k": [max(1, 100 // k) for k in range(1, 41)],
}


def rates(
    sizes: list[int], change: float, icc: float, wordings: bool, rng: np.random.Generator
) -> tuple[float, float]:
    """Shares of models called selective and non-selective, each at 2.5 %."""
    cluster, scale, counts = np.repeat(np.arange(len(sizes)), sizes), 1 / icc - 1, np.zeros(2)
    for _ in range(MODELS):
        content, surface = (
            rng.beta(change * scale, (1 - change) * scale, len(sizes))[cluster] for _ in range(2)
        )
        fmt, sem = (
            (rng.random((3, cluster.size)) < surface * factor).mean(axis=0)
            for factor in (True, wordings)
        )
        d = selectivity((rng.random(cluster.size) < content).astype(float), fmt, sem, cluster)
        counts += [d.above_p <= 0.025, d.below_p <= 0.025]
    return tuple(counts / MODELS)


if __name__ == "__main__":
    rng = np.random.default_rng(4)
    for name, sizes in SIZES.items():
        every = [
            rates(sizes, *world, rng)
            for world in product((0.1, 0.3, 0.5), (0.2, 0.5), (False, True))
        ]
        print(
            f"{name}: selective at most {max(a for a, _ in every):.1%}, not {max(b for _, b in every):.1%}",
            flush=True,
        )
