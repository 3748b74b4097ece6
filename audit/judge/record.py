"""How an audit judges its cells, as a record, and the one loop that does it (pure).

cells -> evidence -> p-values corrected over the panel -> gates -> decision -> result
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from audit.statistics.multiplicity import holm
from audit.verdict.result import Gate
from audit.verdict.thresholds import Limits

Cell = TypeVar("Cell")
Evidence = TypeVar("Evidence")
Panel = TypeVar("Panel")
Chosen = TypeVar("Chosen", bound=Limits)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Settings(Generic[Chosen]):
    """How cells are judged. table: of the audit's calibration; without it no error rate is quoted."""

    thresholds: Chosen
    seed: int
    n_resamples: int
    table: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Case(Generic[Cell, Evidence, Panel]):
    """One cell on its way to a verdict. rng: its own random numbers, after those that `measure` took. panel: what
    `over_panel` says of it."""

    cell: Cell
    settings: Any
    rng: np.random.Generator
    evidence: Evidence
    panel: Panel
    gates: tuple[Gate, ...] = ()


@dataclass(frozen=True)
class Judge(Generic[Cell, Evidence, Panel, Result]):
    """name: the texts that a cell's random numbers depend on, beside the seed. measure: all numbers of a cell.
    over_panel: Holm over the evidence of all cells; one entry a cell. result: decides, and says all that is said.
    shipped: the table of its error rates in `audit/data`; empty where none was simulated."""

    name: Callable[[Cell], Sequence[str]]
    measure: Callable[[Cell, Any, np.random.Generator], Evidence]
    over_panel: Callable[[Sequence[Evidence]], Sequence[Panel]]
    gates: Callable[[Case[Cell, Evidence, Panel]], tuple[Gate, ...]]
    result: Callable[[Case[Cell, Evidence, Panel]], Result]
    shipped: str = ""


def judge_cells(
    judge: Judge[Cell, Evidence, Panel, Result], cells: Sequence[Cell], settings: Settings[Any]
) -> tuple[Result, ...]:
    """One result a cell, in order. A cell's random numbers depend on the seed and its own name, not on the panel."""
    streams = [cell_rng(settings.seed, *judge.name(cell)) for cell in cells]
    evidence = [judge.measure(cell, settings, rng) for cell, rng in zip(cells, streams, strict=True)]
    panel = judge.over_panel(evidence)
    each = zip(cells, streams, evidence, panel, strict=True)
    cases = (Case(cell, settings, rng, own, corrected) for cell, rng, own, corrected in each)
    return tuple(judge.result(replace(case, gates=judge.gates(case))) for case in cases)


def cell_rng(seed: int, *names: str) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32("\0".join(names).encode())])


def holm_rows(rows: Sequence[Sequence[float | None]]) -> list[list[float | None]]:
    """p-values by cell after Holm over all of them; None and NaN are no tests, and None comes back."""
    flat = [float("nan") if p is None else p for row in rows for p in row]
    adjusted = iter(holm(flat).tolist() if flat else [])
    return [[None if np.isnan(p) else p for _, p in zip(row, adjusted, strict=False)] for row in rows]
