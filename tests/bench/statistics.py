"""How fast are the statistics? `python -m bench.statistics [--items 10000] [--models 12]
[--resamples 10000]`, as JSON.

Times all that a panel needs (12 models x 9 r x 10,000 items, 10,000 bootstrap and 10,000
permutation resamples) on at most two cores, with the peak memory, and `scipy.stats.bootstrap` and
`scipy.stats.permutation_test` called for single cells of the same data (that both agree is a unit
test). SciPy runs with all resamples on `--scipy-cells` cells, between our models so that both meet
the same load, and its mean time is multiplied by the number of cells; it runs its cheaper
percentile method while ours is BCa. Both are given in wall and in CPU seconds; on a busy machine
only the latter compare."""

import argparse
import json
import os
import resource
import time
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # before NumPy starts its threads
    os.environ.setdefault(_name, "2")

import numpy as np  # noqa: E402
from outcome_tables import sweep_with  # noqa: E402
from scipy import stats  # noqa: E402

from audit.statistics.mcnemar import mcnemar_exact  # noqa: E402
from audit.statistics.multiplicity import false_discovery, holm  # noqa: E402
from audit.statistics.permutation import max_statistic_exchange  # noqa: E402
from audit.statistics.resampling import bootstrap_sweep  # noqa: E402
from audit.sweep.paper import (  # noqa: E402
    h1_any_excess,
    h2_heterogeneity,
    h3_direction,
    model_summary,
    router_summary,
    sensitivity_slope,
    setting_rows,
)
from audit.sweep.record import Sweep  # noqa: E402


class Clock:
    """Wall and CPU seconds spent inside `with clock:`, summed."""

    def __init__(self) -> None:
        self.spent = np.zeros(2)

    def __enter__(self) -> None:
        self.spent -= (time.perf_counter(), time.process_time())

    def __exit__(self, *_: object) -> None:
        self.spent += (time.perf_counter(), time.process_time())


def panel(models: int, routers: int, items: int, rng: np.random.Generator) -> list[Sweep]:
    """Models that answer the same items; some gain a little at high r."""
    theta, out = rng.beta(2, 1.5, size=items), []
    for k in range(models):
        gain = np.linspace(0, 0.01 * (k % 3), routers)[:, None]
        noisy = rng.random((routers, items)) < np.clip(theta + gain, 0, 1)
        out.append(
            sweep_with(rng.random(items) < theta, noisy, model=f"model_{k:02d}", benchmark="bench")
        )
    return out


def measure(
    models: int, routers: int, items: int, resamples: int, scipy_cells: int, seed: int = 42
) -> dict[str, Any]:
    """Seconds (wall, CPU) of all statistics, of the resampling among them, and of SciPy, scaled to
    all cells; bytes."""
    rng = np.random.default_rng(seed)
    sweeps = panel(models, routers, items, rng)
    resampling, rest, scipy = Clock(), Clock(), Clock()
    pvalues: dict[str, float] = {}
    peak = 0
    compare = set(np.linspace(0, models - 1, min(scipy_cells, models)).round().astype(int).tolist())
    for k, s in enumerate(sweeps):
        with resampling:
            drawn = bootstrap_sweep(s.clean, s.noisy, s.cluster, n_resamples=resamples, rng=rng)
            for sample in (drawn.clean, drawn.noisy, drawn.gain, drawn.mean_gain):
                sample.intervals()
            pvalues[s.model] = max_statistic_exchange(
                s.noisy[None], s.clean[None, None], s.cluster, n_permutations=resamples, rng=rng
            ).pvalue
        with rest:
            sensitivity_slope(s, n_resamples=resamples, rng=rng)
        peak = (
            peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        )  # before SciPy has run; Linux: KiB
        if k in compare:
            with scipy:
                by_scipy(s.noisy[k % routers], s.clean, resamples, rng)
    with rest:
        rows = [row for s in sweeps for row in setting_rows(s)]
        p = mcnemar_exact([r.improve for r in rows], [r.degrade for r in rows])
        holm(p), false_discovery(p), model_summary(rows), router_summary(rows)
        (
            h1_any_excess(pvalues, []),
            h2_heterogeneity(sweeps),
            h3_direction(sweeps, n_permutations=resamples, rng=rng),
        )
    scaled = scipy.spent * models * routers / len(compare)
    measured: dict[str, Any] = {
        "models": models,
        "routers": routers,
        "items": items,
        "resamples": resamples,
    }
    spent = {
        "total": resampling.spent + rest.spent,
        "resampling": resampling.spent,
        "scipy_scaled": scaled,
    }
    for name, (wall, cpu) in spent.items():
        measured |= {f"{name}_wall_s": wall, f"{name}_cpu_s": cpu}
    wall, cpu = scaled / resampling.spent
    return measured | {"peak_rss_bytes": peak, "speedup_wall": wall, "speedup_cpu": cpu}


def by_scipy(
    noisy: np.ndarray, clean: np.ndarray, resamples: int, rng: np.random.Generator
) -> None:
    """Interval and p of one cell."""

    def difference(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
        gap: np.ndarray = np.mean(x, axis=axis) - np.mean(y, axis=axis)
        return gap

    common: dict[str, Any] = {"vectorized": True, "n_resamples": resamples, "rng": rng}
    stats.bootstrap(
        (noisy, clean), difference, paired=True, method="percentile", batch=100, **common
    )
    how = {"permutation_type": "samples", "alternative": "greater", "batch": 500}
    stats.permutation_test((noisy, clean), difference, **how, **common)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.statistics", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--models", type=int, default=12)
    parser.add_argument("--routers", type=int, default=9)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--scipy-cells", type=int, default=3)
    o = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    print(json.dumps(measure(o.models, o.routers, o.items, o.resamples, o.scipy_cells), indent=2))


if __name__ == "__main__":
    main()
