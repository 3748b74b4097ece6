"""How often is this audit wrong? Models that shouting costs nothing, or ten points."""

from argparse import Namespace
from dataclasses import dataclass

import numpy as np

from audit.core.records import Setting
from audit.judge.record import Settings, judge_cells
from audit.judging.simulated import Case, Entries, Procedure, by_world, shown, streams, table_text
from audit.judging.thresholds import Thresholds
from audit.statistics.paired import CellOutcomes
from shouting.analyse import JUDGE
from shouting.vocabulary import Verdict

WORLDS = {"clean": 0.0, "costs_10": 0.10}


@dataclass(frozen=True)
class Design:
    n: int


def judge(design: Design, cost: float, rng: np.random.Generator) -> tuple[float, float]:
    """(found, cleared) of one model: items differ in difficulty, and each answer is drawn by
    itself."""
    able = rng.beta(3, 2, design.n)
    state = (rng.random((2, design.n)) < [able, np.clip(able - cost, 0, 1)]).astype(np.int8)
    ids = tuple(f"q{k:04}" for k in range(design.n))
    settings = (Setting("original", 0, 0), Setting("variant", 1, 0))
    cell = CellOutcomes(
        "m", "b", "", "letter", ids, np.arange(design.n), np.full(design.n, 4), settings, state
    )
    (result,) = judge_cells(JUDGE, [cell], Settings(Thresholds(), 0, 0))
    return float(result.verdict == Verdict.MATTERS), float(result.verdict == Verdict.NOTHING)


def table(entries: Entries) -> str:
    names = [f"{world}_{outcome}" for world in WORLDS for outcome in ("found", "cleared")]
    rows = [[str(e["design"]["n"]), *(shown(e["rates"], name) for name in names)] for e in entries]
    return table_text(["n", *names], rows)


def procedures(options: Namespace) -> tuple[Procedure, ...]:
    count = options.simulations or 300
    cases = [
        Case(design, name, cost, streams(options.seed, design, name, count))
        for design in (Design(300), Design(1000))
        for name, cost in WORLDS.items()
    ]
    head = {"thresholds": Thresholds().to_dict()}
    return (Procedure(cases, judge, by_world(["_found", "_cleared"]), table, head=head),)
