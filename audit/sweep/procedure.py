"""How often the sweep's own procedure errs, over models of known truth, and the tables of it.

`audit.sweep.simulation` draws the models; they go through `sweep.evidence` and `sweep.decide`, the code of the real
verdict, panels and run variance included. The gates, which look at texts and faults that a simulation does not have,
are passed by. Every chunk of simulations has a seed of its own, so the result does not depend on the processes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit.statistics.paired import FloatArray
from audit.statistics.permutation import enough_permutations
from audit.statistics.power import discordance_of
from audit.statistics.run_variance import pooled_run_variance
from audit.statistics.values import replicates_of, settings_values
from audit.sweep.decide import decide, over_panel
from audit.sweep.design import Arm
from audit.sweep.evidence import measure
from audit.sweep.record import sweep_of
from audit.sweep.result import Verdict
from audit.sweep.runs import run_contrasts
from audit.sweep.simulation import TRUTHS, Design, World, simulate
from audit.sweep.thresholds import SweepThresholds
from audit.verdict.simulated import rate, shown, table_text

CHUNK = 25  # simulations that share one seed
RESAMPLES = 499  # of every bootstrap and, at least, permutation test; a run has more: their level does not hang on it


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


def judge(design: Design, world: World, rng: np.random.Generator) -> FloatArray:
    """One model (or panel): a number for each of NAMES.

    Verdicts are shares of the panel's cells; any_excess: whether one of them is an excess. paper_*: settings with a
    gain above zero and models with any, of replicate 0. coverage_*: of intervals against the true gain (NaN where there
    is no single one): share of r, the mean over r, and all r at once.
    """
    thresholds = SweepThresholds()
    models = [simulate(design, world, rng) for _ in range(design.panel)]
    variance = pooled_run_variance([run_contrasts(m.cell) for m in models], thresholds.run_sd_plausible)
    permutations = enough_permutations(design.routers * design.panel, thresholds.alpha, RESAMPLES)
    found = [
        measure(
            m.cell,
            rng=rng,
            n_resamples=RESAMPLES,
            n_permutations=permutations,
            without_leak=m.without_leak,
            run_variance=variance,
        )
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


def _chunk(task: tuple[Design, World, int, tuple[int, ...]]) -> FloatArray:
    """(count, len(NAMES)) of one chunk; a top-level function so that a process pool can run it."""
    design, world, count, key = task
    rng = np.random.default_rng(list(key))
    return np.stack([judge(design, world, rng) for _ in range(count)])


def outcomes(
    design: Design,
    world: World,
    total: int,
    *,
    seed: int = 42,
    run: Callable[..., Any] = map,
) -> dict[str, float | None]:
    """Mean and Monte-Carlo standard error (`<name>_se`) of each of NAMES over `total` models or panels.

    run: `map`, or the map of a process pool.
    """
    key = (seed, zlib.crc32(repr((design, world)).encode()))
    sizes = [min(CHUNK, total - at) for at in range(0, total, CHUNK)]
    tasks = [(design, world, size, (*key, k)) for k, size in enumerate(sizes)]
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
        found = outcomes(design, world, total, seed=seed, run=run)
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
