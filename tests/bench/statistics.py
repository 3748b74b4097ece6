"""How fast are the statistics? `python -m bench.statistics [--json] [--items 10000] [--models 12] [--resamples 10000]`

Times all that a panel needs (12 models x 9 r x 10,000 items, 10,000 bootstrap and 10,000 permutation resamples) on at
most two cores, with the peak memory, and `scipy.stats.bootstrap` and `scipy.stats.permutation_test` called for single
cells of the same data. SciPy runs with all resamples on `--scipy-cells` cells, between our models so that both meet the
same load, and its mean time is multiplied by the number of cells; it runs its cheaper percentile method while ours is
BCa. Both are given in wall and in CPU seconds; on a busy machine only the latter compare. Agreement is checked on those
cells: interval ends and p-values may differ by no more than Monte-Carlo error.
"""

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # before NumPy starts its threads
    os.environ.setdefault(_name, "2")

import numpy as np  # noqa: E402
from bootstrap_intervals import BootstrapResult, sweep_intervals  # noqa: E402
from scipy import stats  # noqa: E402

from audit.statistics.mcnemar import mcnemar_exact  # noqa: E402
from audit.statistics.multiplicity import benjamini_hochberg, holm  # noqa: E402
from audit.statistics.permutation import MaxStatResult, max_statistic_exchange  # noqa: E402
from audit.statistics.resampling import bootstrap_sweep  # noqa: E402
from audit.sweep.paper import (  #  noqa: E402  #  noqa: E402
    h1_any_excess,
    h2_heterogeneity,
    h3_direction,
    model_summary,
    router_summary,
    sensitivity_slope,
    setting_rows,
)
from audit.sweep.record import Sweep  #  noqa: E402

TARGET_S, TARGET_BYTES, TARGET_SPEEDUP = 60.0, 2_000_000_000, 20.0
MONTE_CARLO_SDS = 5.0  # how many Monte-Carlo standard errors two estimates of one number may differ by


@dataclass(frozen=True)
class Measured:
    """Times in seconds, memory in bytes.

    total: everything. resampling: of this, bootstrap and permutation, which SciPy is compared with.
    speedup: scipy (scaled to all cells) / resampling.
    """

    models: int
    routers: int
    items: int
    resamples: int
    total_wall_s: float
    total_cpu_s: float
    resampling_wall_s: float
    resampling_cpu_s: float
    peak_rss_bytes: int
    scipy_cells_measured: int
    scipy_bootstrap_wall_s_per_cell: float
    scipy_permutation_wall_s_per_cell: float
    scipy_wall_s_scaled: float
    scipy_cpu_s_scaled: float
    speedup_wall: float
    speedup_cpu: float
    agreement: dict[str, float]
    agrees: bool
    meets_targets: bool


class Clock:
    """Wall and CPU seconds spent inside `with clock:`, summed."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def __enter__(self) -> None:
        self._begin = (time.perf_counter(), time.process_time())

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self._begin[0]
        self.cpu += time.process_time() - self._begin[1]


def panel(models: int, routers: int, items: int, rng: np.random.Generator) -> list[Sweep]:
    """Models that answer the same items; some gain a little at high r."""
    theta = rng.beta(2, 1.5, size=items)
    out = []
    for k in range(models):
        gain = np.linspace(0, 0.01 * (k % 3), routers)[:, None]
        out.append(
            Sweep(
                model=f"model_{k:02d}",
                benchmark="bench",
                routers=tuple(range(1, routers + 1)),
                question_ids=tuple(f"q{i:06d}" for i in range(items)),
                clean=(rng.random(items) < theta).astype(float),
                noisy=(rng.random((routers, items)) < np.clip(theta + gain, 0, 1)).astype(float),
                cluster=np.arange(items),
            )
        )
    return out


def measure(models: int, routers: int, items: int, resamples: int, scipy_cells: int, seed: int = 42) -> Measured:
    rng = np.random.default_rng(seed)
    sweeps = panel(models, routers, items, rng)
    resampling, rest = Clock(), Clock()
    tests: dict[str, MaxStatResult] = {}
    gaps: list[dict[str, float]] = []
    scipy = (Clock(), Clock())
    peak = 0
    compare = set(np.linspace(0, models - 1, min(scipy_cells, models)).round().astype(int).tolist())
    for k, s in enumerate(sweeps):
        with resampling:
            drawn = bootstrap_sweep(s.clean, s.noisy, s.cluster, n_resamples=resamples, rng=rng)
            intervals = sweep_intervals(drawn)
            tests[s.model] = max_statistic_exchange(
                s.noisy[None], s.clean[None, None], s.cluster, n_permutations=resamples, rng=rng
            )
        with rest:
            sensitivity_slope(s, n_resamples=resamples, rng=rng)
        if not gaps:  # SciPy has not run yet: this is our own memory
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
        if k in compare:
            gaps.append(against_scipy(s, k % routers, intervals, tests[s.model], resamples, rng, scipy))
    with rest:
        rows = [row for s in sweeps for row in setting_rows(s)]
        p = mcnemar_exact([r.improve for r in rows], [r.degrade for r in rows]).pvalue
        holm(p), benjamini_hochberg(p), model_summary(rows), router_summary(rows)
        h1_any_excess(tests), h2_heterogeneity(sweeps), h3_direction(sweeps, n_permutations=resamples, rng=rng)
    cells = models * routers / len(gaps)
    scipy_wall, scipy_cpu = (scipy[0].wall + scipy[1].wall) * cells, (scipy[0].cpu + scipy[1].cpu) * cells
    agreement = {name: max(g[name] for g in gaps) for name in gaps[0]}
    agrees = max(agreement.values()) <= 1
    total = resampling.wall + rest.wall
    # The stricter of the two: what a user waits for, and what the work costs.
    speedup = min(scipy_wall / resampling.wall, scipy_cpu / resampling.cpu)
    return Measured(
        models=models,
        routers=routers,
        items=items,
        resamples=resamples,
        total_wall_s=total,
        total_cpu_s=resampling.cpu + rest.cpu,
        resampling_wall_s=resampling.wall,
        resampling_cpu_s=resampling.cpu,
        peak_rss_bytes=peak,
        scipy_cells_measured=len(gaps),
        scipy_bootstrap_wall_s_per_cell=scipy[0].wall / len(gaps),
        scipy_permutation_wall_s_per_cell=scipy[1].wall / len(gaps),
        scipy_wall_s_scaled=scipy_wall,
        scipy_cpu_s_scaled=scipy_cpu,
        speedup_wall=scipy_wall / resampling.wall,
        speedup_cpu=scipy_cpu / resampling.cpu,
        agreement=agreement,
        agrees=agrees,
        meets_targets=total <= TARGET_S and peak <= TARGET_BYTES and speedup >= TARGET_SPEEDUP and agrees,
    )


def against_scipy(
    sweep: Sweep,
    r: int,
    intervals: BootstrapResult,
    test: MaxStatResult,
    resamples: int,
    rng: np.random.Generator,
    clocks: tuple[Clock, Clock],
) -> dict[str, float]:
    """Run SciPy on one cell; differences from ours as shares of what Monte-Carlo error allows (1 is the limit)."""
    clean, noisy = sweep.clean, sweep.noisy[r]
    with clocks[0]:
        b = stats.bootstrap(
            (noisy, clean), _mean_difference, paired=True, vectorized=True, method="percentile",
            n_resamples=resamples, batch=100, rng=rng,
        )  # fmt: skip
    with clocks[1]:
        q = stats.permutation_test(
            (noisy, clean), _mean_difference, permutation_type="samples", vectorized=True, alternative="greater",
            n_resamples=resamples, batch=500, rng=rng,
        )  # fmt: skip
    ours, p = intervals.gain[r], test.pvalues[r]
    # A 2.5 % quantile of B normal draws has standard error sqrt(.025 * .975 / B) / phi(1.96) sd; both sides vary.
    # A gain moves in steps of 1 / items, and BCa may differ from percentile by its small correction: one step more.
    quantile_se = np.sqrt(2 * 0.025 * 0.975 / resamples) / stats.norm.pdf(1.96) * ours.se
    allowed = MONTE_CARLO_SDS * quantile_se + 2 / sweep.n
    p_allowed = MONTE_CARLO_SDS * np.sqrt(2 * max(p * (1 - p), 1 / resamples) / resamples)
    return {
        "low": float(abs(ours.low - b.confidence_interval.low) / allowed),
        "high": float(abs(ours.high - b.confidence_interval.high) / allowed),
        "pvalue": float(abs(p - q.pvalue) / p_allowed),
    }


def table(m: Measured) -> str:
    return "\n".join(
        [
            f"{m.models} models x {m.routers} r x {m.items} items, {m.resamples} bootstrap and permutation resamples",
            "                          wall s    CPU s",
            f"  all statistics        {m.total_wall_s:8.1f} {m.total_cpu_s:8.1f}   (target {TARGET_S:.0f} s wall)",
            f"    of it, resampling   {m.resampling_wall_s:8.1f} {m.resampling_cpu_s:8.1f}",
            f"  scipy, all cells      {m.scipy_wall_s_scaled:8.1f} {m.scipy_cpu_s_scaled:8.1f}   (scaled from "
            f"{m.scipy_cells_measured} cells: {m.scipy_bootstrap_wall_s_per_cell:.1f} s bootstrap, "
            f"{m.scipy_permutation_wall_s_per_cell:.1f} s permutation_test each)",
            f"  times faster          {m.speedup_wall:8.1f} {m.speedup_cpu:8.1f}   (target {TARGET_SPEEDUP:.0f})",
            f"  peak memory           {m.peak_rss_bytes / 1e6:8.0f} MB        (target {TARGET_BYTES / 1e6:.0f})",
            f"  largest disagreement  {max(m.agreement.values()):8.2f} of what Monte-Carlo error allows",
            f"  targets               {'met' if m.meets_targets else 'NOT MET'}",
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.statistics", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print json to stdout and the table to stderr")
    parser.add_argument("--models", type=int, default=12)
    parser.add_argument("--routers", type=int, default=9)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--scipy-cells", type=int, default=3)
    o = parser.parse_args(argv)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    measured = measure(o.models, o.routers, o.items, o.resamples, o.scipy_cells)
    if o.json:
        print(json.dumps(asdict(measured), indent=2))
    print(table(measured), file=sys.stderr if o.json else sys.stdout)
    return 0


def _mean_difference(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
    difference: np.ndarray = np.mean(x, axis=axis) - np.mean(y, axis=axis)
    return difference


if __name__ == "__main__":
    sys.exit(main())
