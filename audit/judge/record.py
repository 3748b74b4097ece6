"""Judge the cells of an audit in one loop. A record holds the steps of the audit (pure).

cells -> evidence -> p-values corrected over the panel -> gates -> decision -> result
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from audit.judging.result import Gate
from audit.judging.thresholds import Limits
from audit.statistics.multiplicity import holm

Cell = TypeVar("Cell")
Evidence = TypeVar("Evidence")
Panel = TypeVar("Panel")
Chosen = TypeVar("Chosen", bound=Limits)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Settings(Generic[Chosen]):
    """Hold the thresholds, the seed and the calibration by which cells are judged.

    `table` is the audit's calibration. Without a table no error rate is quoted.
    """

    thresholds: Chosen
    seed: int
    n_resamples: int
    table: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Case(Generic[Cell, Evidence, Panel]):
    """Hold one cell on its way to a verdict.

    Parameters
    ----------
    cell : Cell
        The data.
    settings : Settings
        The thresholds and the seed.
    rng : Generator
        The cell's random numbers, after those that `measure` used.
    evidence : Evidence
        The result of `measure`.
    panel : Panel
        The entry of the cell in the result of `over_panel`.
    gates : tuple of Gate
        The checks.
    """

    cell: Cell
    settings: Any
    rng: np.random.Generator
    evidence: Evidence
    panel: Panel
    gates: tuple[Gate, ...] = ()


@dataclass(frozen=True)
class Judge(Generic[Cell, Evidence, Panel, Result]):
    """Hold the steps that judge a cell.

    Parameters
    ----------
    name : callable
        Returns texts that name the cell. These texts and the seed determine its random numbers.
    measure : callable
        Returns all numbers of a cell.
    over_panel : callable
        Applies Holm's correction to the evidence of all cells, and returns an entry for each cell.
    gates : callable
        Returns the checks of a case.
    result : callable
        Decides, and writes all sentences.
    shipped : str
        The file in `audit/data` with the audit's error rates, or "" if no rates were simulated.
    """

    name: Callable[[Cell], Sequence[str]]
    measure: Callable[[Cell, Any, np.random.Generator], Evidence]
    over_panel: Callable[[Sequence[Evidence]], Sequence[Panel]]
    gates: Callable[[Case[Cell, Evidence, Panel]], tuple[Gate, ...]]
    result: Callable[[Case[Cell, Evidence, Panel]], Result]
    shipped: str = ""


def judge_cells(
    judge: Judge[Cell, Evidence, Panel, Result], cells: Sequence[Cell], settings: Settings[Any]
) -> tuple[Result, ...]:
    """Judge the cells of a panel.

    Parameters
    ----------
    judge : Judge
        The steps.
    cells : sequence of Cell
        The data.
    settings : Settings
        The thresholds and the seed.

    Returns
    -------
    tuple of Result
        The results in the order of the cells. A cell's random numbers depend on the seed and the
        cell's name, not on the other cells.
    """
    streams = [cell_rng(settings.seed, *judge.name(cell)) for cell in cells]
    evidence = []
    for cell, rng in zip(cells, streams, strict=True):
        evidence.append(judge.measure(cell, settings, rng))
    panel = judge.over_panel(evidence)
    results = []
    for cell, rng, numbers, corrected in zip(cells, streams, evidence, panel, strict=True):
        case = Case(cell, settings, rng, numbers, corrected)
        results.append(judge.result(replace(case, gates=judge.gates(case))))
    return tuple(results)


def cell_rng(seed: int, *names: str) -> np.random.Generator:
    """Return the random number generator of a cell.

    Parameters
    ----------
    seed : int
        The seed of the run.
    *names : str
        The texts that name the cell.

    Returns
    -------
    Generator
        The same generator for the same arguments.
    """
    return np.random.default_rng([seed, zlib.crc32("\0".join(names).encode())])


def holm_rows(rows: Sequence[Sequence[float | None]]) -> list[list[float | None]]:
    """Correct p-values by Holm over all cells.

    Parameters
    ----------
    rows : sequence of sequence of float or None
        p-values by cell. None and NaN stand for tests that were not made.

    Returns
    -------
    list of list of float or None
        The adjusted p-values. None stands for a test that was not made.
    """
    flat: list[float] = []
    for row in rows:
        flat += [float("nan") if p is None else p for p in row]
    p_values: list[float] = holm(flat).tolist() if flat else []
    adjusted = [None if np.isnan(p) else p for p in p_values]
    corrected, start = [], 0
    for row in rows:
        corrected.append(adjusted[start : start + len(row)])
        start += len(row)
    return corrected
