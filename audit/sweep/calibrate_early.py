"""What does stopping early cost and save? Simulated models of known truth, looked at as `audit.sweep stop=early` does.

    audit calibrate audit=early --out audit/data/early_stopping.json      docs/early_stopping.md's table

Every model is drawn with all its questions and looked at by `audit.sweep.decide`, the code of the real run. The verdict
on the questions that it was asked stands beside that on all of them.
"""

from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from audit.statistics.paired import CellOutcomes
from audit.sweep.calibrate import RESAMPLES, chunks, decided
from audit.sweep.decide import BATCHES, look
from audit.sweep.design import SweepThresholds
from audit.sweep.simulation import Design, World, simulate
from audit.sweep.vocabulary import Verdict
from audit.verdict.shipped import apart
from audit.verdict.simulated import Case, Entries, Entry, Procedure, table_text

SHIPPED = "early_stopping.json"
MODELS = 300
_THREE = Design(1000, 3, "nested", clean_replicates=3, noisy_replicates=2)
# What is true (name, design, world). What `expected` quotes is in QUOTED.
CASES: tuple[tuple[str, Design, World], ...] = (
    ("clean", _THREE, World()),
    ("+5 points at r=1", _THREE, World(gain_one_r=0.05)),
    ("+10 points", _THREE, World(gain=0.10)),
    ("20 % hints", _THREE, World(hints=0.2)),
    ("noisy runs shift by 4 points", _THREE, World(noisy_shock=0.04)),
    ("+15 points", _THREE, World(gain=0.15)),
    ("clean", replace(_THREE, panel=12), World()),
)
QUOTED = ("clean", "+10 points")
_SHOWN = {
    Verdict.EXCESS: "excess",
    Verdict.UNCONTROLLED: "uncontrolled",
    Verdict.NO_EXCESS: "cleared",
    Verdict.BRITTLE: "brittle",
    Verdict.UNDERPOWERED: "underpowered",
}


def stopped(design: Design, world: World, rng: np.random.Generator) -> tuple[list[int], list[Verdict], list[Verdict]]:
    """Of each model of a panel: the batches that it was asked, its verdict on these, and that on all questions."""
    size = -(-design.n // BATCHES)

    def first(cell: CellOutcomes, batches: int) -> CellOutcomes:
        return cell.kept(np.arange(cell.n) < batches * size)

    def ended(cell: CellOutcomes) -> int:
        looks = (k for k in range(1, BATCHES) if look(first(cell, k), SweepThresholds(), RESAMPLES))
        return next(looks, BATCHES)

    models = [simulate(design, world, rng) for _ in range(design.panel)]
    batches = [ended(m.cell) for m in models]
    _, verdicts = decided(models, design.routers, rng)
    if min(batches) == BATCHES:
        return batches, verdicts, verdicts
    asked = [replace(m, cell=first(m.cell, k)) for m, k in zip(models, batches, strict=True)]
    return batches, decided(asked, design.routers, rng)[1], verdicts


def procedures(options: Namespace, cases: Sequence[tuple[str, Design, World]] = CASES) -> tuple[Procedure, ...]:
    """One row of the table a case: how much was asked of how many models, and the verdicts on that and on all."""
    models = options.simulations or MODELS

    def entries(case: Case, found: Sequence[Sequence[Any]]) -> list[Entry]:
        panels = [panel for stream in found for panel in stream]
        batches = Counter(k for panel, _, _ in panels for k in panel)
        entry = {
            "name": case.name,
            "design": asdict(case.design),
            "models": batches.total(),
            "asked": [batches[k] for k in range(1, BATCHES + 1)],
            "verdicts": _counted(early for _, early, _ in panels),
            "with_all": _counted(every for _, _, every in panels),
            "panels_with_excess": sum(Verdict.EXCESS in early for _, early, _ in panels),
        }
        return [entry]

    made = [Case(design, name, world, chunks(design, world, models, options.seed)) for name, design, world in cases]
    return (Procedure(made, stopped, entries, markdown),)


def _counted(panels: Iterable[Sequence[Verdict]]) -> dict[str, int]:
    return dict(sorted(Counter(str(verdict) for panel in panels for verdict in panel).items()))


def asked(row: Mapping[str, Any]) -> float:
    """The mean share of its questions that a model is asked."""
    return float(np.dot(row["asked"], np.arange(1, BATCHES + 1)) / BATCHES / row["models"])


def expected(n: int, routers: int, table: Entries) -> list[str]:
    """The share of n questions that a run with stop=early would ask, a line a truth, from the nearest rows."""
    lines = []
    for name in QUOTED:
        rows = [row for row in table if row["name"] == name]
        near = min(rows, key=lambda row: apart(row["design"]["n"], n) + apart(row["design"]["routers"], routers) / 2)
        lines.append(f"{name}: {asked(near):.0%} of the questions (simulated with {near['design']['n']:,})")
    return lines


def markdown(table: Entries) -> str:
    """One line a case, per cent of models; with all: of the same models, asked every question."""
    words = [f"{word}: early, with all" for word in _SHOWN.values()]
    head = ["what is true", "n", "r", "panel", "models", "asked", *words]
    lines = []
    for row in table:
        d, n = row["design"], row["models"]
        counts = ((row["verdicts"].get(v, 0), row["with_all"].get(v, 0)) for v in _SHOWN)
        shares = [f"{100 * early / n:.1f}, {100 * every / n:.1f}" for early, every in counts]
        sizes = [str(d["n"]), f"1..{d['routers']}", str(d["panel"]), str(n)]
        lines.append([row["name"], *sizes, f"{100 * asked(row):.0f}", *shares])
    return table_text(head, lines)
