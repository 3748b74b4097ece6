"""How often is the procedure itself wrong, in both directions? Simulated models of known truth, the real verdict.

    python -m audit.calibrate                                     designs and worlds that ship (`make calibrate`)
    python -m audit.calibrate --n 300 --routers 1..5 --draws nested --simulations 500
    python -m audit.calibrate --observed outputs/my_run           difficulties and sizes of a finished run

`audit.sweep.simulation` draws the models; they go through `sweep.evidence` and `sweep.decide`, the code of the real
verdict, panels and run variance included. The gates, which look at texts and faults that a simulation does not have,
are passed by. Every chunk of simulations has a seed of its own, so the result does not depend on --jobs.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from audit.errors import AuditError, ConfigError
from audit.statistics.difficulty import beta_shape
from audit.statistics.paired import FloatArray
from audit.statistics.power import discordance_of
from audit.statistics.run_variance import pooled_run_variance
from audit.statistics.values import replicates_of, settings_values
from audit.sweep.decide import decide, over_panel
from audit.sweep.design import Arm, Draws, parse_routers
from audit.sweep.evidence import measure
from audit.sweep.record import sweep_of
from audit.sweep.result import Verdict
from audit.sweep.runs import run_contrasts
from audit.sweep.simulation import SHIPPED, TRUTHS, WORLDS, Design, World, simulate
from audit.sweep.thresholds import SweepThresholds
from audit.verdict.simulated import keep, make_parser, rate, shown, table_text

CHUNK = 25  # simulations that share one seed
RESAMPLES = 499  # of every permutation test and bootstrap; a run has more, on which their level does not depend


@dataclass(frozen=True)
class Effort:
    """How many models (in panels, where a design has one) are simulated of the clean truth, each other, and a world."""

    clean: int = 400
    other: int = 200
    world: int = 200


NAMES = (
    "excess", "any_excess", "cleared", "uncontrolled", "explained", "brittle", "withheld",
    "paper_setting", "paper_model", "coverage_gain", "coverage_mean", "coverage_simultaneous",
)  # fmt: skip


def judge(design: Design, world: World, thresholds: SweepThresholds, rng: np.random.Generator) -> FloatArray:
    """One model (or panel): a number for each of NAMES.

    Verdicts are shares of the panel's cells; any_excess: whether one of them is an excess. paper_*: settings with a
    gain above zero and models with any, of replicate 0. coverage_*: of intervals against the true gain (NaN where there
    is no single one): share of r, the mean over r, and all r at once.
    """
    models = [simulate(design, world, rng) for _ in range(design.panel)]
    variance = pooled_run_variance([run_contrasts(m.cell) for m in models], thresholds.run_sd_plausible)
    found = [
        measure(m.cell, rng=rng, n_resamples=RESAMPLES, without_leak=m.without_leak, run_variance=variance)
        for m in models
    ]
    verdicts = [
        decide(e, (), thresholds, corrected).verdict for e, corrected in zip(found, over_panel(found), strict=True)
    ]

    def share(verdict: Verdict) -> float:
        return float(np.mean([v == verdict for v in verdicts]))

    first = [sweep_of(m.cell, first_only=True) for m in models]
    gains = np.stack([np.nanmean(s.noisy - s.clean, axis=1) for s in first])
    covered = np.full(3, np.nan)
    if world in (World(), World(gain=world.gain)):
        c, truth = found[0].clean, world.gain
        held = [i.low - 1e-12 <= truth <= i.high + 1e-12 for i in c.pointwise]
        together = bool(np.all((c.low - 1e-12 <= truth) & (truth <= c.high + 1e-12)))
        covered = np.array([np.mean(held), c.mean.low <= truth <= c.mean.high, together], dtype=float)
    of_verdicts = [
        share(v)
        for v in (
            Verdict.EXCESS,
            Verdict.NO_EXCESS,
            Verdict.UNCONTROLLED,
            Verdict.EXCESS_EXPLAINED,
            Verdict.BRITTLE,
            Verdict.WITHHELD,
        )
    ]
    paper = [float(np.mean(gains > 0)), float(np.mean(np.any(gains > 0, axis=1)))]
    return np.array([of_verdicts[0], Verdict.EXCESS in verdicts, *of_verdicts[1:], *paper, *covered], dtype=float)


def _chunk(task: tuple[Design, World, SweepThresholds, int, tuple[int, ...]]) -> FloatArray:
    """(count, len(NAMES)) of one chunk; a top-level function so that a process pool can run it."""
    design, world, thresholds, count, key = task
    rng = np.random.default_rng(list(key))
    return np.stack([judge(design, world, thresholds, rng) for _ in range(count)])


def outcomes(
    design: Design,
    world: World,
    total: int,
    *,
    thresholds: SweepThresholds | None = None,
    seed: int = 42,
    run: Callable[..., Any] = map,
) -> dict[str, float | None]:
    """Mean and Monte-Carlo standard error (`<name>_se`) of each of NAMES over `total` models or panels.

    run: `map`, or the map of a process pool.
    """
    key = (seed, zlib.crc32(repr((design, world)).encode()))
    sizes = [min(CHUNK, total - at) for at in range(0, total, CHUNK)]
    tasks = [(design, world, thresholds or SweepThresholds(), size, (*key, k)) for k, size in enumerate(sizes)]
    values = np.concatenate(list(run(_chunk, tasks)))
    rates: dict[str, float | None] = {"simulations": float(total)}
    for k, name in enumerate(NAMES):
        if not np.isnan(values[:, k]).all():
            rates |= rate(name, values[:, k])
    return rates


def calibrate(
    design: Design,
    *,
    effort: Effort | None = None,
    thresholds: SweepThresholds | None = None,
    seed: int = 42,
    run: Callable[..., Any] = map,
) -> dict[str, Any]:
    """{"design": ..., "rates": ...}: `<truth>_<name>` for each of TRUTHS, 0-1, with its standard error.

    clean_excess (of a panel: clean_any_excess) is the false-alarm rate, gain_one_r_cleared and gain_5_cleared the
    false-clearance rate, clean_cleared and gain_*_excess what the procedure is able to do. paper_*: the paper's rule on
    clean models.
    """
    effort = effort or Effort()
    rates: dict[str, float | None] = {}
    for name, world in TRUTHS.items():
        total = max((effort.clean if name == "clean" else effort.other) // design.panel, 20)
        found = outcomes(design, world, total, thresholds=thresholds, seed=seed, run=run)
        rates[f"{name}_simulations"] = found["simulations"]
        kept = ("excess", "any_excess", "cleared", "brittle")
        rates |= {f"{name}_{k}{end}": found[k + end] for k in kept for end in ("", "_se")}
        if name == "clean":
            rates |= {f"{k}_fpr{end}": found[k + end] for k in ("paper_setting", "paper_model") for end in ("", "_se")}
            covered = ("coverage_gain", "coverage_mean", "coverage_simultaneous")
            rates |= {k + end: found[k + end] for k in covered for end in ("", "_se")}
    return {"design": asdict(design), "rates": rates}


def observed_design(run_dir: Path) -> Iterator[Design]:
    """One design a cell of a finished run: sizes and draws, with accuracy and discordance as observed."""
    from audit.shards.read import load_cells  # Arrow is needed for this option only
    from audit.sweep.columns import SCHEMA

    cells = load_cells(run_dir, SCHEMA)
    for cell in cells:
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
            panel=len(cells),
            direct=bool(replicates_of(cell, Arm.DIRECT, 0)),
            ensemble=any(s.level > 1 for s in cell.settings_of(Arm.FORWARD_FULL)),
        )


def markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """The table of designs: one row each, per cent."""
    head = ["n", "r", "draws", "clean runs", "accuracy", "panel", "paper: settings", "paper: models", "false alarm"]
    head += ["false clearance, +5 at one r", "+5 at every r", "clean: cleared", "+5: excess", "+10: excess"]
    head += ["coverage: gain", "mean", "all r"]
    columns = ["paper_setting_fpr", "paper_model_fpr", "clean_any_excess", "gain_one_r_cleared", "gain_5_cleared"]
    columns += ["clean_cleared", "gain_5_excess", "gain_10_excess"]
    columns += ["coverage_gain", "coverage_mean", "coverage_simultaneous"]
    rows = []
    for e in entries:
        d, r = e["design"], e["rates"]
        cells = [str(d["n"]), f"1..{d['routers']}", d["draws"], str(d["clean_replicates"]), f"{d['clean_accuracy']:g}"]
        rows.append([*cells, str(d["panel"]), *(shown(r, c) for c in columns)])
    return table_text(head, rows)


def worlds_markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """The table of worlds: one row each, per cent of models (any excess: of panels)."""
    head = ["what acts", "n", "r", "clean runs", "panel", "any excess", "cleared", "explained", "brittle", "withheld"]
    columns = ["any_excess", "cleared", "explained", "brittle", "withheld"]
    rows = []
    for e in entries:
        d, r = e["design"], e["rates"]
        cells = [e["name"], str(d["n"]), f"1..{d['routers']}", str(d["clean_replicates"]), str(d["panel"])]
        rows.append([*cells, *(shown(r, c) for c in columns)])
    return table_text(head, rows)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser(
        "sweep", __doc__, "Without --n and --observed, every design and world that ships is simulated (an hour or so)."
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
    parser.add_argument("--panel", type=int, default=1, help="models judged together (default 1)")
    parser.add_argument(
        "--observed", type=Path, metavar="RUN_DIR", help="take sizes and difficulties from a finished run"
    )
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1); the result does not depend on it")
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
            n=n,
            routers=len(routers),
            draws=options.draws,
            clean_replicates=options.replicates,
            clean_accuracy=options.clean_accuracy,
            discordance=options.discordance,
            correlation=options.correlation,
            panel=options.panel,
        )
        for n in sizes
    ]


def _whole(text: str) -> int:
    if not text.strip().isdigit() or int(text) < 2:
        raise ConfigError(f"Invalid --n {text!r}: expected whole numbers of at least 2, such as 100 or 100,500.")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print one line a design and world, and write the tables where asked."""
    options = _arguments(arguments)
    try:
        designs = _designs(options)
    except (AuditError, ValueError) as error:
        print(f"audit.calibrate: {error}", file=sys.stderr)
        return 1
    total = options.simulations
    effort = Effort() if total is None else Effort(total, max(total // 2, 20), max(total // 2, 20))
    table: dict[str, Any] = {
        "seed": options.seed,
        "thresholds": SweepThresholds().to_dict(),
        "designs": [],
        "worlds": [],
    }
    with ProcessPoolExecutor(options.jobs) if options.jobs > 1 else _Serial() as pool:
        run = partial(pool.map)
        for design in designs:
            table["designs"].append(calibrate(design, effort=effort, seed=options.seed, run=run))
            keep(markdown(table["designs"]), options.out, table)
        for name, design, world in WORLDS if designs == list(SHIPPED) else ():
            count = max(effort.world // design.panel, 20)
            rates = outcomes(design, world, count, seed=options.seed, run=run)
            table["worlds"].append({"name": name, "design": asdict(design), "world": asdict(world), "rates": rates})
            keep(worlds_markdown(table["worlds"]), options.out, table)
    return 0


class _Serial:
    """A pool of one: this process."""

    map = staticmethod(map)

    def __enter__(self) -> _Serial:
        return self

    def __exit__(self, *_: object) -> None:
        return None
