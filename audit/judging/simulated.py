"""Calibrate any audit: simulate models with known contamination, and count right and wrong
verdicts.

The records (`Procedure`) of an audit are returned by the function `procedures` in the audit's
module `calibrate`.
"""

import argparse
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from audit.core.errors import UsageError
from audit.core.number_text import percent
from audit.judging.result import rounded

SEED = 42
CHUNK = 25  # number of models that are drawn from one seed
PANEL = 12  # Number of models in a simulated panel. Each model is judged alone and in such a panel.

Rates = Mapping[str, float | None]
Entry = dict[str, Any]
Entries = Sequence[Mapping[str, Any]]
# A stream: the seed of a random generator, and the number of models drawn from this generator.
Stream = tuple[tuple[int, ...], int]


class Case(NamedTuple):
    """Hold one design in one simulated world, with the seeds of the simulated models."""

    design: Any
    name: str  # name of the world
    world: Any
    streams: Sequence[Stream]


@dataclass(frozen=True)
class Procedure:
    """Describe one section of a calibration table.

    Attributes
    ----------
    cases : sequence of Case
        Cases in the order of the table.
    judge : callable
        Function from (design, world, generator) to the counts of one simulated model. The function
        must be importable by other processes.
    entries : callable
        Function from a case and the counts of its models to parts of table entries. The counts are
        grouped by stream. Parts with the same design and name are merged.
    table : callable
        Function from entries to a markdown table, which is printed after each design.
    closing : sequence of callable
        Functions from entries to texts that are printed at the end.
    section : str
        Key of the section in the table.
    head : mapping
        Keys of the table that are not sections, with their values.
    """

    cases: Sequence[Case]
    judge: Callable[[Any, Any, np.random.Generator], Any]
    entries: Callable[[Case, Sequence[Sequence[Any]]], Sequence[Entry]]
    table: Callable[[Entries], str]
    closing: Sequence[Callable[[Entries], str]] = ()
    section: str = "designs"
    head: Mapping[str, Any] = field(default_factory=dict)


def seed_of(seed: int, case: Any) -> tuple[int, int]:
    """Return the seed of a case's generator.

    Parameters
    ----------
    seed : int
        Seed of the calibration.
    case : object
        The simulated case; its `repr` identifies it.

    Returns
    -------
    tuple of int
        The seed, which depends only on the two arguments.
    """
    return seed, zlib.crc32(repr(case).encode())


def streams(seed: int, design: Any, name: str, models: int) -> list[Stream]:
    """Split the simulated models of a world into streams with one seed each.

    Parameters
    ----------
    seed : int
        Seed of the calibration.
    design : object
        The design.
    name : str
        Name of the world.
    models : int
        Number of models to simulate.

    Returns
    -------
    list of Stream
        For each stream, the seed and the number of models, at most CHUNK.
    """
    key = seed_of(seed, (design, name))
    return [((*key, k), min(CHUNK, models - at)) for k, at in enumerate(range(0, models, CHUNK))]


def _models(task: tuple[Callable[..., Any], Any, Any, tuple[int, ...], int]) -> list[Any]:
    """Simulate the models of a stream, and return the counts of each model.

    The function is at the top level of the module so that a process pool can run it.
    """
    judge, design, world, key, count = task
    rng = np.random.default_rng(list(key))
    return [judge(design, world, rng) for _ in range(count)]


def calibrate(
    procedure: Procedure, run: Callable[..., Any] = map
) -> Iterator[tuple[list[Entry], bool]]:
    """Simulate the cases of a section, and yield the table entries of a design after each of its
    worlds.

    Parameters
    ----------
    procedure : Procedure
        A section of the table.
    run : callable
        `map`, or the map of a process pool. The results do not depend on this choice.

    Yields
    ------
    tuple of list and bool
        The entries of a design so far, and True if the design is complete.
    """
    for _, group in groupby(procedure.cases, key=lambda case: case.design):
        cases, entries = list(group), list[Entry]()
        for case in cases:
            outcomes = list(
                run(
                    _models,
                    [
                        (procedure.judge, case.design, case.world, *stream)
                        for stream in case.streams
                    ],
                )
            )
            for part in procedure.entries(case, outcomes):
                _merge(entries, part)
            yield entries, case is cases[-1]


def _merge(entries: list[Entry], part: Entry) -> None:
    same = next(
        (e for e in entries if (e["design"], e.get("name")) == (part["design"], part.get("name"))),
        None,
    )
    if same is None:
        entries.append(part)
    for key, value in part.items():
        if same is not None and isinstance(value, dict) and key != "design":
            same[key].update(value)


def rate(name: str, values: NDArray[np.float64]) -> dict[str, float | None]:
    """Return the mean of a count over simulated models, and the standard error of this mean.

    The mean has the key `name`, and its standard error has the key `name` + "_se".

    Parameters
    ----------
    name : str
        Name of the count.
    values : (models,) array
        The count in each simulated model, 0-1; not NaN.

    Returns
    -------
    dict
        The mean (0-1) and its standard error, rounded as in verdict.json. A number that is not
        finite is None.

    Notes
    -----
    The models are independent, but the counts within a model are not. The standard error is
    therefore computed from the spread between models. If the rate is exactly 0 or 1, the spread is
    computed with one additional model that has the other outcome.
    """
    n, mean = values.size, float(values.mean())
    spread = (
        float(values.std(ddof=1)) if n > 1 and values.std() > 0 else float(np.sqrt(n) / (n + 1))
    )
    return {name: rounded(mean), f"{name}_se": rounded(spread / np.sqrt(n))}


def rates(names: Sequence[str], streams: Sequence[Sequence[Any]]) -> dict[str, float | None]:
    """Return the rate of each named count over all simulated models (`rate`).

    Parameters
    ----------
    names : sequence of str
        Names of the counts, in the order in which a model has them.
    streams : sequence of sequence
        For each stream, the counts of each of its models.

    Returns
    -------
    dict
        Rate and standard error of each count, by name. A count that is undefined (NaN) in this
        world is left out.
    """
    by_name: dict[str, float | None] = {}
    for name, values in zip(
        names, np.concatenate([np.array(part, dtype=float) for part in streams]).T, strict=True
    ):
        if not np.isnan(values).any():
            by_name |= rate(name, values)
    return by_name


def by_world(names: Sequence[str]) -> Callable[[Case, Sequence[Sequence[Any]]], list[Entry]]:
    """Return a function that makes one table entry for each design, with the rates of all its
    worlds.

    Parameters
    ----------
    names : sequence of str
        Names of the counts.

    Returns
    -------
    callable
        Function for `Procedure.entries`. The name of a rate consists of the world and the count,
        such as "clean_found". The number of simulated models has the name of the world and
        "_simulations".
    """

    def entries(case: Case, streams: Sequence[Sequence[Any]]) -> list[Entry]:
        measured = rates([f"{case.name}{name}" for name in names], streams)
        count = {f"{case.name}_simulations": sum(map(len, streams))}
        return [{"design": asdict(case.design), "rates": {**count, **measured}}]

    return entries


def by_name(names: Sequence[str]) -> Callable[[Case, Sequence[Sequence[Any]]], list[Entry]]:
    """Return a function that makes one table entry for each combination of design and world.

    Parameters
    ----------
    names : sequence of str
        Names of the counts.

    Returns
    -------
    callable
        Function for `Procedure.entries`.
    """

    def entries(case: Case, streams: Sequence[Sequence[Any]]) -> list[Entry]:
        measured = {"simulations": sum(map(len, streams)), **rates(names, streams)}
        about = {"design": asdict(case.design), "world": case.world.facts()}
        return [{"name": case.name, **about, "rates": measured}]

    return entries


def shown(rates: Rates, name: str) -> str:
    """Return a rate as a cell of a table.

    Parameters
    ----------
    rates : mapping
        Rates of a table entry.
    name : str
        Name of the rate.

    Returns
    -------
    str
        The rate and its standard error in per cent; "-" if the rate was not measured.
    """
    value, error = rates.get(name), rates.get(f"{name}_se")
    return "-" if value is None or error is None else f"{100 * value:.1f} ± {100 * error:.1f}"


def rate_text(rates: Rates, name: str) -> str:
    """Return a rate as part of a sentence.

    Parameters
    ----------
    rates : mapping
        Rates of a table entry.
    name : str
        Name of the rate.

    Returns
    -------
    str
        The rate in per cent. The standard error follows in brackets if it is known.
    """
    value, error = rates.get(name), rates.get(f"{name}_se")
    if value is None:
        return "an unmeasured share"
    return percent(value) + (f" (± {percent(error)})" if error is not None else "")


def table_text(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in markdown.

    Parameters
    ----------
    head : sequence of str
        Names of the columns.
    rows : sequence of sequence of str
        Cells of each row.

    Returns
    -------
    str
        The markdown text: the header, and one line for each row.
    """
    lines = [" | ".join(head), " | ".join(["---"] * len(head)), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def add_arguments(parser: argparse.ArgumentParser, audit: Any) -> None:
    """Add the options of a calibration to a parser.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser.
    audit : module
        The audit's module `calibrate`. If it has a function `add_options`, this function adds
        more options.
    """
    parser.description = audit.__doc__.split("\n")[0]
    parser.add_argument(
        "--simulations", type=int, help="clean models per design (default: set by the audit)"
    )
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="number of processes (default 1); the result does not depend on it",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table as json")
    if hasattr(audit, "add_options"):
        audit.add_options(parser)


def run_calibration(audit: Any, options: argparse.Namespace, **arguments: Any) -> int:
    """Simulate all sections of an audit's calibration table, and print each design when it is
    complete.

    Parameters
    ----------
    audit : module
        The audit's module `calibrate`, with its function `procedures`.
    options : argparse.Namespace
        Options as defined by `add_arguments`.
    **arguments
        Arguments of `procedures` that replace the shipped designs and worlds.

    Returns
    -------
    int
        Exit code.

    Raises
    ------
    UsageError
        If an option is out of range.
    """
    for name in ("simulations", "worlds", "jobs"):
        value = getattr(options, name, None)
        if value is not None and value < 1:
            raise UsageError(f"--{name} is {value}. Expected at least 1.")
    try:
        procedures = audit.procedures(options, **arguments)
    except ValueError as error:
        raise UsageError(str(error)) from error
    table: dict[str, Any] = {"seed": options.seed} | {p.section: [] for p in procedures}
    for procedure in procedures:
        table |= procedure.head
    with ProcessPoolExecutor(options.jobs) if options.jobs > 1 else nullcontext() as pool:
        for procedure in procedures:
            _fill(table, procedure, options.out, pool.map if pool else map)
    return 0


def _fill(
    table: dict[str, Any], procedure: Procedure, out: Path | None, run: Callable[..., Any]
) -> None:
    """Simulate one section, and add its entries to the table.

    The file is written after each world, so that an interrupted calibration keeps its results.
    """
    done: list[Entry] = []
    head: list[str] = []
    for entries, complete in calibrate(procedure, run):
        table[procedure.section] = done + entries
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        if complete:
            lines = procedure.table(entries).splitlines()
            print("\n".join(lines[2:] if lines[:2] == head else lines), flush=True)
            done, head = done + entries, lines[:2]
    for text in procedure.closing:
        print(f"\n{text(done)}", end="", flush=True)
