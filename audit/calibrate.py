"""How often is the procedure itself wrong? Simulated models of known truth through the paper's rule and this verdict.

    python -m audit.calibrate                                     every design that ships, as `make calibrate` does
    python -m audit.calibrate --n 300 --routers 1..5 --draws nested --simulations 500
    python -m audit.calibrate --observed outputs/my_run           difficulties and sizes of a finished run

A simulated model is `audit.synthetic`'s: Beta difficulties with the given clean accuracy and discordance, nested draws
correlated over r. Clean models have no effect in any arm; contaminated ones gain in the noisy arm alone. They go
through `verdict.evidence` and `verdict.decide`, the code of the real verdict; the gates, which look at texts and faults
that a simulation does not have, are bypassed by passing none. Every chunk of simulations has a seed of its own, so the
result does not depend on --jobs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError, ConfigError
from audit.records import Reading, Setting
from audit.statistics.mcnemar import mcnemar_exact
from audit.statistics.paired import CellOutcomes, FloatArray
from audit.statistics.permutation import max_statistic_exchange
from audit.statistics.power import discordance_of
from audit.statistics.values import replicates_of, router_counts, runs_of, settings_values, sweep_of
from audit.sweep.design import Arm, Draws, parse_routers
from audit.synthetic import beta_shape, draw_difficulties, draw_latent, shift
from audit.verdict.decide import decide
from audit.verdict.evidence import compare, measure
from audit.verdict.result import Verdict, rounded
from audit.verdict.thresholds import Thresholds

CHUNK = 25  # simulations that share one seed
N_OPTIONS = 4


@dataclass(frozen=True)
class Design:
    """What is simulated. routers: how many router counts (1..routers); accuracies, discordance and correlation 0-1."""

    n: int
    routers: int
    draws: str = "independent"
    clean_replicates: int = 1
    clean_accuracy: float = 0.7
    discordance: float = 0.2
    correlation: float = 0.5  # of the noisy arm over r, on the latent normal scale; nested draws only
    controls: str = "direct and ensemble"


# The designs that ship: `verdict.calibrated.nearest` picks from them.
SHIPPED = (
    *(Design(n, r, d) for n in (100, 200, 500, 1000) for r in (3, 9) for d in ("independent", "nested")),
    *(Design(n, r, "nested", clean_replicates=3) for n in (100, 200) for r in (3, 9)),
)


@dataclass(frozen=True)
class Effort:
    """How much is simulated per design: clean models, contaminated models per gain, models for coverage, resamples."""

    clean: int = 2000
    power: int = 200
    coverage: int = 400
    permutations: int = 499
    resamples: int = 999


def load_calibration() -> dict[str, Any] | None:
    """The table that ships with the package; None where it was not built in."""
    path = files("audit") / "data" / "calibration.json"
    if not path.is_file():
        return None
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table


def simulate(design: Design, gain: float, rng: np.random.Generator) -> CellOutcomes:
    """One model's outcomes under every setting; `gain` moves the noisy arm alone."""
    theta = draw_difficulties(design.n, design.clean_accuracy, design.discordance, rng)
    rows: dict[Setting, NDArray[np.bool_]] = {Setting(Arm.DIRECT, 0): rng.random(design.n) < theta}
    for k in range(design.clean_replicates):
        rows[Setting(Arm.FORWARD_FULL, 1, k)] = rng.random(design.n) < theta
    rho = design.correlation if Draws(design.draws) == Draws.NESTED else 0.0
    noisy = draw_latent((design.routers, design.n), rho, rng) < shift(theta, gain, design.clean_accuracy)
    ensemble = draw_latent((design.routers, design.n), rho, rng) < theta
    for k in range(design.routers):
        rows[Setting(Arm.NOISY_REWRITE, k + 1)] = noisy[k]
        if k:
            rows[Setting(Arm.FORWARD_FULL, k + 1)] = ensemble[k]
    settings = tuple(sorted(rows))
    return CellOutcomes(
        model="simulated",
        benchmark="simulated",
        draws=design.draws,
        reading=Reading.LETTER.value,
        question_ids=tuple(map(str, range(design.n))),
        cluster=np.arange(design.n),
        n_options=np.full(design.n, N_OPTIONS),
        settings=settings,
        state=np.stack([rows[s] for s in settings]).astype(np.int8),
    )


def judge(design: Design, gain: float, effort: Effort, thresholds: Thresholds, rng: np.random.Generator) -> FloatArray:
    """One model: share of violations, any, share of r with McNemar p <= alpha, excess without controls, excess.

    Intervals and controls can only turn an excess away, so they are computed where the test speaks for one.
    """
    cell = simulate(design, gain, rng)
    paper = sweep_of(cell, first_only=True)
    change = paper.noisy - paper.clean
    single = mcnemar_exact((change > 0).sum(axis=1), (change < 0).sum(axis=1)).pvalue
    noisy, base = runs_of(cell, Arm.NOISY_REWRITE, paper.routers), runs_of(cell, Arm.FORWARD_FULL, (1,))
    test = max_statistic_exchange(noisy, base, cell.cluster, n_permutations=effort.permutations, rng=rng)
    alone = full = False
    if test.pvalue <= thresholds.alpha:
        evidence = measure(
            cell, thresholds, rng=rng, n_resamples=effort.permutations, mde=thresholds.effect_of_interest
        )
        # the same permutations are not drawn again: the decision is taken on the first comparison with clean
        clean = replace(evidence.clean, family_p=test.pvalue, pvalues=test.pvalues, adjusted=test.adjusted)
        evidence = replace(evidence, clean=clean)
        without = replace(evidence, direct=None, ensemble=None, ensemble_gain=None)
        alone = decide(without, (), thresholds).verdict == Verdict.EXCESS
        full = decide(evidence, (), thresholds).verdict == Verdict.EXCESS
    violations = change.mean(axis=1) > 0
    share = float(np.mean(np.asarray(single) <= thresholds.alpha))
    return np.array([violations.mean(), violations.any(), share, alone, full], dtype=float)


def cover(design: Design, gain: float, effort: Effort, rng: np.random.Generator) -> FloatArray:
    """One model: share of r whose interval holds the true gain, the mean's interval holds it, all r hold together."""
    cell = simulate(design, gain, rng)
    routers = router_counts(cell, Arm.NOISY_REWRITE)
    noisy, base = runs_of(cell, Arm.NOISY_REWRITE, routers), runs_of(cell, Arm.FORWARD_FULL, (1,))
    c = compare(noisy, base, routers, cell.cluster, rng=rng, n_resamples=effort.resamples)
    held = [i.low - 1e-12 <= gain <= i.high + 1e-12 for i in c.pointwise]
    together = np.all((c.low - 1e-12 <= gain) & (gain <= c.high + 1e-12))
    return np.array([np.mean(held), c.mean.low <= gain <= c.mean.high, together], dtype=float)


def _chunk(task: tuple[str, Design, float, Effort, Thresholds, int, tuple[int, ...]]) -> FloatArray:
    """(count, K) outcomes of one chunk; a top-level function so that a process pool can run it."""
    kind, design, gain, effort, thresholds, count, key = task
    rng = np.random.default_rng(list(key))
    if kind == "cover":
        return np.stack([cover(design, gain, effort, rng) for _ in range(count)])
    return np.stack([judge(design, gain, effort, thresholds, rng) for _ in range(count)])


def calibrate(
    design: Design,
    *,
    gains: Sequence[float] = (0.0, 0.05, 0.1),
    effort: Effort | None = None,
    thresholds: Thresholds | None = None,
    seed: int = 42,
    run: Callable[..., Any] = map,
) -> dict[str, Any]:
    """{"design": ..., "rates": ...}: every rate 0-1, `<name>_se` its Monte-Carlo standard error.

    run: `map`, or the map of a process pool. Gain 0 is always simulated: it is what the error rates are about.

    paper_setting_fpr, paper_model_fpr: settings with gain > 0 and models with any, of clean models.
    mcnemar_setting_fpr: settings with an uncorrected exact p <= alpha. excess_fpr: clean models called `excess`;
    excess_no_controls_fpr: the same when neither direct nor the ensemble control was run.
    power_G: models with true gain G called `excess`.
    coverage_*: of 95 % intervals, under no gain and under the largest gain together.
    """
    effort, thresholds = effort or Effort(), thresholds or Thresholds()
    name = [design.n, design.routers, int(design.draws == Draws.NESTED), round(1000 * design.discordance)]

    def outcomes(kind: str, gain: float, total: int) -> FloatArray:
        base = [seed, *name, {"judge": 0, "cover": 1}[kind], round(10000 * gain) + 20000]
        sizes = [min(CHUNK, total - at) for at in range(0, total, CHUNK)]
        tasks = [(kind, design, gain, effort, thresholds, s, (*base, k)) for k, s in enumerate(sizes)]
        return np.concatenate(list(run(_chunk, tasks)))

    rates: dict[str, float | None] = {"simulations_clean": effort.clean, "simulations_power": effort.power}
    rates["simulations_coverage"] = effort.coverage
    clean = outcomes("judge", 0.0, effort.clean)
    for k, label in enumerate(
        ("paper_setting_fpr", "paper_model_fpr", "mcnemar_setting_fpr", "excess_no_controls_fpr", "excess_fpr")
    ):
        rates |= _rate(label, clean[:, k])
    for gain in sorted({g for g in gains if g > 0}):
        rates |= _rate(f"power_{gain:g}", outcomes("judge", gain, effort.power)[:, 4])
    half = max(effort.coverage // 2, 1)
    covered = np.concatenate([outcomes("cover", g, half) for g in (0.0, max(gains))])
    for k, label in enumerate(("coverage_gain", "coverage_mean", "coverage_simultaneous")):
        rates |= _rate(label, covered[:, k])
    return {"design": asdict(design), "rates": rates}


def _rate(name: str, values: FloatArray) -> dict[str, float | None]:
    """Mean over models and its standard error. Models are independent; the settings of one are not, so the spread over
    models is used; for a rate of exactly 0 or 1 the error is that of one more model with the other outcome."""
    n = values.size
    mean = float(values.mean())
    spread = float(values.std(ddof=1)) if n > 1 and values.std() > 0 else float(np.sqrt(n) / (n + 1))
    return {name: rounded(mean), f"{name}_se": rounded(spread / np.sqrt(n))}


def observed_design(run_dir: Path) -> Iterator[Design]:
    """One design a cell of a finished run: sizes and draws, with accuracy and discordance as observed."""
    from audit.shards.read import load_cells  # Arrow is needed for this option only
    from audit.sweep.columns import SCHEMA

    for cell in load_cells(run_dir, SCHEMA):
        clean = [settings_values(cell, [s]) for s in replicates_of(cell, Arm.FORWARD_FULL, 1)]
        sweep = sweep_of(cell)
        accuracy = float(np.clip(np.nanmean(sweep.clean), 0.02, 0.98))
        ceiling = 2 * accuracy * (1 - accuracy)
        # Clean against clean where there are replicates; else against noisy, which a true effect would inflate.
        pair = discordance_of(clean[0], clean[1]) if len(clean) > 1 else discordance_of(sweep.clean, sweep.noisy)
        yield Design(
            n=cell.n,
            routers=len(sweep.routers),
            draws=cell.draws,
            clean_replicates=max(len(clean), 1),
            clean_accuracy=round(accuracy, 4),
            discordance=round(float(np.clip(pair, 0.02 * ceiling, 0.98 * ceiling)), 4),
        )


def markdown(table: Mapping[str, Any]) -> str:
    """The table of the documentation: one row a design."""
    entries = table["designs"]
    gains = sorted({k for e in entries for k in e["rates"] if k.startswith("power_") and not k.endswith("_se")})
    head = ["n", "r", "draws", "clean runs", "paper: settings", "paper: models", "excess, no controls", "excess"]
    head += [*gains, "coverage: gain", "mean", "all r together"]
    columns = ["paper_setting_fpr", "paper_model_fpr", "excess_no_controls_fpr", "excess_fpr", *gains]
    columns += ["coverage_gain", "coverage_mean", "coverage_simultaneous"]
    lines = [" | ".join(head), " | ".join(["---"] * len(head))]
    for e in entries:
        d, r = e["design"], e["rates"]
        cells = [str(d["n"]), f"1..{d['routers']}", d["draws"], str(d["clean_replicates"])]
        cells += [f"{100 * r[c]:.1f} ± {100 * r[c + '_se']:.1f}" if r.get(c) is not None else "-" for c in columns]
        lines.append(" | ".join(cells))
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m audit.calibrate",
        description="Measure the error rates of the paper's rule and of this verdict on simulated models.",
        epilog="Without --n and --observed, every design that ships is simulated (minutes).",
    )
    parser.add_argument("--n", help="questions, such as 100 or 100,500")
    parser.add_argument("--routers", default="1..9", help="router counts, such as 1..9 (default)")
    parser.add_argument("--draws", default="independent", choices=[d.value for d in Draws])
    parser.add_argument("--replicates", type=int, default=1, help="clean replicates (default 1)")
    parser.add_argument("--clean-accuracy", type=float, default=0.7)
    parser.add_argument(
        "--discordance", type=float, default=0.2, help="share of answers that differ, clean against clean"
    )
    parser.add_argument("--correlation", type=float, default=0.5, help="of nested draws over r (default 0.5)")
    parser.add_argument(
        "--observed", type=Path, metavar="RUN_DIR", help="take sizes and difficulties from a finished run"
    )
    parser.add_argument("--gain", default="0,0.05,0.1", help="true gains (default 0,0.05,0.1)")
    parser.add_argument("--simulations", type=int, help="clean models a design (default 2000; a tenth for power)")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1); the result does not depend on it")
    parser.add_argument("--out", type=Path, help="write the table as json")
    return parser.parse_args(arguments)


def _designs(options: argparse.Namespace) -> list[Design]:
    if options.observed:
        return list(observed_design(options.observed))
    if not options.n:
        return list(SHIPPED)
    routers = parse_routers(options.routers)
    if routers != tuple(range(1, len(routers) + 1)):
        raise ConfigError(f"Invalid --routers {options.routers!r}: a calibration simulates r=1..R, such as 1..9.")
    beta_shape(options.clean_accuracy, options.discordance)  # raises where no model has these
    sizes = [_whole(part) for part in options.n.split(",")]
    return [
        Design(
            n,
            len(routers),
            options.draws,
            options.replicates,
            options.clean_accuracy,
            options.discordance,
            options.correlation,
        )
        for n in sizes
    ]


def _whole(text: str) -> int:
    if not text.strip().isdigit() or int(text) < 2:
        raise ConfigError(f"Invalid --n {text!r}: expected whole numbers of at least 2, such as 100 or 100,500.")
    return int(text)


def _effort(options: argparse.Namespace, design: Design) -> Effort:
    """Fewer models where one takes longer, unless --simulations says how many."""
    total = options.simulations
    if total is not None:
        return Effort(clean=total, power=max(total // 10, 20), coverage=max(total // 5, 20))
    small = design.n <= 200
    return Effort(clean=2000 if small else 1000, power=200 if small else 100, coverage=1000 if small else 400)


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print one line a design, and write the table where asked."""
    options = _arguments(arguments)
    try:
        gains = [float(g) for g in options.gain.split(",")]
        designs = _designs(options)
    except (AuditError, ValueError) as error:
        print(f"audit.calibrate: {error}", file=sys.stderr)
        return 1
    entries = []
    with ProcessPoolExecutor(options.jobs) if options.jobs > 1 else _Serial() as pool:
        for design in designs:
            entry = calibrate(
                design, gains=gains, effort=_effort(options, design), seed=options.seed, run=partial(pool.map)
            )
            entries.append(entry)
            table = {"seed": options.seed, "thresholds": Thresholds().to_dict(), "designs": entries}
            print(
                markdown({"designs": [entry]}) if len(entries) == 1 else markdown({"designs": [entry]}).split("\n")[2]
            )
            sys.stdout.flush()
            if options.out:  # after every design, so that an interrupted calibration keeps what it has
                options.out.parent.mkdir(parents=True, exist_ok=True)
                options.out.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


class _Serial:
    """A pool of one: this process."""

    map = staticmethod(map)

    def __enter__(self) -> _Serial:
        return self

    def __exit__(self, *_: object) -> None:
        return None


if __name__ == "__main__":
    sys.exit(main())
