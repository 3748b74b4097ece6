"""What does stopping early cost and save? Simulated models of known truth, looked at as `audit.sweep stop=early` does.

    audit calibrate audit=early --out audit/data/early_stopping.json      docs/early_stopping.md's table

Every model is drawn with all its questions and looked at after each batch, by `audit.sweep.decide`, the code of the
real run. Gates, which look at texts and faults that a simulation does not have, are passed by.
"""

import zlib
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from audit.sweep.decide import SETTLED, look
from audit.sweep.design import SweepThresholds
from audit.sweep.simulation import Design, World, simulate
from audit.sweep.vocabulary import Verdict
from audit.verdict.simulated import Case, Entries, Entry, Procedure, table_text

SHIPPED = "early_stopping.json"
BATCH, MODELS = 100, 200
_DESIGN = Design(1000, 3, "nested", clean_replicates=3)
# What is true (name, router counts, world). The names of the first three are read by `expected`.
CASES: tuple[tuple[str, int, World], ...] = (
    ("clean", 3, World()),
    ("+5 points at r=1", 3, World(gain_one_r=0.05)),
    ("+10 points", 3, World(gain=0.10)),
    ("clean router loses 4 points", 3, World(clean_loss=0.04)),
    ("repetition gains 8 points", 3, World(repetition=0.08)),
    ("runs shift by 1 point", 3, World(shock=0.01)),
    ("noise costs 8 points", 3, World(gain=-0.08)),
    ("clean", 9, World()),
    ("+5 points at r=1", 9, World(gain_one_r=0.05)),
    ("+10 points", 9, World(gain=0.10)),
)


def stopped(design: Design, world: World, rng: np.random.Generator) -> tuple[int, Verdict]:
    """(questions asked, verdict) of one simulated model, looked at after each batch."""
    thresholds = SweepThresholds()
    cell = simulate(design, world, rng).cell
    largest = int(np.bincount(cell.cluster).max())
    verdict = Verdict.UNDERPOWERED
    for n in range(BATCH, design.n + 1, BATCH):
        verdict = look(cell.kept(np.arange(cell.n) < n), largest, thresholds)
        if verdict in SETTLED:
            return n, verdict
    return design.n, verdict


def procedures(options: Namespace, cases: Sequence[tuple[str, int, World]] = CASES) -> tuple[Procedure, ...]:
    """One row of the table a case: how many models had a verdict after so many questions, and which."""
    models = options.simulations or MODELS

    def entries(case: Case, found: Sequence[Sequence[Any]]) -> list[Entry]:
        n, ends = case.design.n, found[0]
        settled = Counter(at for at, verdict in ends if verdict in SETTLED)
        entry = {
            "name": case.name,
            "design": {"n": n, "routers": case.design.routers, "batch": BATCH},
            "models": models,
            "settled": [settled[at] for at in range(BATCH, n + 1, BATCH)],
            "verdicts": dict(sorted(Counter(str(verdict) for _, verdict in ends).items())),
        }
        return [entry]

    def case(name: str, routers: int, world: World) -> Case:
        key = (options.seed, zlib.crc32(f"{name} {routers}".encode()))
        return Case(replace(_DESIGN, routers=routers), name, world, [(key, models)])

    return (Procedure([case(*one) for one in cases], stopped, entries, markdown),)


def asked(row: Mapping[str, Any], n: int) -> tuple[float, float]:
    """(mean questions asked of at most n, share of models with a verdict by then)."""
    ends = np.arange(1, len(row["settled"]) + 1) * row["design"]["batch"]
    counts = np.asarray(row["settled"])
    by_then = ends <= n
    done = counts[by_then].sum()
    total = float((counts * ends)[by_then].sum() + (row["models"] - done) * n)
    return total / row["models"], float(done / row["models"])


def expected(n: int, routers: int, table: Entries) -> list[str]:
    """What stopping early would save of n questions, a line a truth, from the rows with the nearest router count."""
    near = min({row["design"]["routers"] for row in table}, key=lambda r: abs(r - routers))
    named = [name for name, _, _ in CASES[:3]]
    lines = []
    for row in (one for one in table if one["design"]["routers"] == near and one["name"] in named):
        most = min(n, row["design"]["n"])
        mean, share = asked(row, most)
        lines.append(f"{row['name']}: {mean:,.0f} of {most:,} questions on average, {share:.0%} decided")
    return lines


def markdown(table: Entries) -> str:
    """One line a case; rates in per cent with their Monte-Carlo standard error."""
    head = ["what is true", "r", "gain", "cleared", "explained", "brittle", "undecided", "mean asked", "median"]
    lines = []
    for row in table:
        mean, _ = asked(row, row["design"]["n"])
        total = np.cumsum(row["settled"])
        half = int(np.searchsorted(total, row["models"] / 2))
        median = f"{(half + 1) * row['design']['batch']}" if half < total.size else f"> {row['design']['n']}"
        n: int = row["models"]
        counts: Counter[str] = Counter(row["verdicts"])
        gain = counts[Verdict.EXCESS] + counts[Verdict.UNCONTROLLED]
        others = (counts[v] for v in (Verdict.NO_EXCESS, Verdict.EXCESS_EXPLAINED, Verdict.BRITTLE))
        shares = [found / n for found in (gain, *others, n - sum(row["settled"]))]
        errors = [np.sqrt(max(p * (1 - p), n / (n + 1) ** 2) / n) for p in shares]
        cells = [f"{100 * p:.1f} ± {100 * e:.1f}" for p, e in zip(shares, errors, strict=True)]
        lines.append([row["name"], f"1..{row['design']['routers']}", *cells, f"{mean:.0f}", median])
    return table_text(head, lines)
