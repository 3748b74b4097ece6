"""Judge the cells of any audit in one loop.

A cell is one model on one benchmark. An audit supplies a record (`Judge`) with a function for each
of these steps:

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
    """Hold the thresholds, the seed and the calibration with which cells are judged.

    `table` is the calibration table of the audit. If it is None, no error rate is quoted.
    """

    thresholds: Chosen
    seed: int
    n_resamples: int
    table: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Case(Generic[Cell, Evidence, Panel]):
    """Hold one cell and the results of the steps that have been run on this cell.

    Parameters
    ----------
    cell : Cell
        Data of the cell.
    settings : Settings
        Thresholds and seed.
    rng : Generator
        Random generator of the cell, in its state after the step `measure`.
    evidence : Evidence
        Result of the step `measure`.
    panel : Panel
        Result of the step `over_panel` for this cell, such as its corrected p-values.
    gates : tuple of Gate
        Results of the checks.
    """

    cell: Cell
    settings: Any
    rng: np.random.Generator
    evidence: Evidence
    panel: Panel
    gates: tuple[Gate, ...] = ()


@dataclass(frozen=True)
class Judge(Generic[Cell, Evidence, Panel, Result]):
    """Hold an audit's functions for the steps that judge a cell.

    Parameters
    ----------
    name : callable
        Function from a cell to the texts that identify the cell. These texts and the seed determine
        the random numbers of the cell.
    measure : callable
        Function from (cell, settings, random generator) to the evidence, which holds all statistics
        of the cell.
    over_panel : callable
        Function from the evidence of all cells to one entry for each cell, with p-values corrected
        by Holm's procedure.
    gates : callable
        Function from a case to the results of its checks.
    result : callable
        Function from a case to the result of the cell: the decision and all sentences.
    shipped : str
        Name of the file in `audit/data` with the audit's error rates; "" if no rates were
        simulated.
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
        The audit's function for each step.
    cells : sequence of Cell
        Cells of the panel.
    settings : Settings
        Thresholds and seed.

    Returns
    -------
    tuple of Result
        Result of each cell, in the order of `cells`. The random numbers for a cell depend only on
        the seed and the name of this cell.
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
        Seed of the run.
    *names : str
        Texts that identify the cell.

    Returns
    -------
    Generator
        A generator. Equal arguments give generators in the same state.
    """
    return np.random.default_rng([seed, zlib.crc32("\0".join(names).encode())])


def holm_rows(rows: Sequence[Sequence[float | None]]) -> list[list[float | None]]:
    """Return p-values corrected by Holm's procedure over all cells together.

    Parameters
    ----------
    rows : sequence of sequence of float or None
        p-values of each cell. None and NaN stand for tests that were not made.

    Returns
    -------
    list of list of float or None
        The adjusted p-value of each entry of `rows`. None stands for a test that was not made.
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
