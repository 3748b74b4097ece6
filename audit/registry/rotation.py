"""Find benchmarks and libraries that are due for replacement, and draw held-out samples.

In this module, held-out questions are questions that no registered run and no earlier sample used.
If the benchmark is published, a model may still have been trained on the questions.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import OmegaConf
from sqlalchemy import Connection, select

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import Benchmark, open_benchmark
from audit.config.base import load_group
from audit.core.errors import ConfigError, ShardError
from audit.core.records import Item
from audit.governance.reviews import at
from audit.registry.database import Registry, check_clock
from audit.registry.entry import digest
from audit.registry.schema import draws
from audit.registry.store import INSERT, CellRecord, cell_records
from audit.shards.questions import QUESTIONS, QuestionFile


class Due(NamedTuple):
    """State since when a benchmark or library has been used, and whether it must be replaced.

    It belongs to a suite with the setting rotate_every.

    Attributes
    ----------
    kind, name : str
        "benchmark" or "library", and its name.
    since : str
        The period in which the present version was first used.
    due : bool
        Whether the period of use is over, so that a new version is due.
    """

    kind: str
    name: str
    since: str
    due: bool


@dataclass(frozen=True)
class Draw:
    """Hold a sample of held-out questions that was drawn from a benchmark.

    Attributes
    ----------
    name, period : str
        The name of the benchmark, and the quarter, such as 2026-Q4.
    questions : tuple of Item
        Questions of the sample.
    left : int
        Number of questions that no run and no sample has used.
    new : bool
        Whether this call drew the sample. False if an earlier call in the same period drew it.
    """

    name: str
    period: str
    questions: tuple[Item, ...]
    left: int
    new: bool


def period_of(when: datetime | str) -> str:
    """Return the quarter to which a time belongs, such as 2026-Q4."""
    date = datetime.fromisoformat(when) if isinstance(when, str) else when
    return f"{date.year}-Q{(date.month - 1) // 3 + 1}"


def rotation(registry: Registry, now: datetime) -> list[Due]:
    """Return the newest version of each benchmark and library that must be replaced regularly.

    These are the benchmarks and libraries of suites with the setting rotate_every.

    Parameters
    ----------
    registry : Registry
        The open registry database.
    now : datetime
        Current time.

    Returns
    -------
    list of Due
        One entry for each benchmark and library.

    Raises
    ------
    RegistryError
        If the clock went backwards.
    """
    registry.read(lambda db: check_clock(db, now))
    first: dict[tuple[str, str], dict[str, str]] = {}
    for record in cell_records(registry):
        if not record.run["rotate_every"]:
            continue
        cell, hashes = record.cell, record.cell["comparable"]
        used = [
            (
                "benchmark",
                cell["benchmark"],
                cell["benchmark_revision"] + hashes.get("questions", ""),
            )
        ]
        if cell["library"]:
            used.append(("library", cell["library"], hashes.get("library", "")))
        for kind, name, version in used:
            first.setdefault((kind, name), {}).setdefault(version, record.run["started"])
    since = {used: period_of(max(versions.values())) for used, versions in sorted(first.items())}
    return [Due(*used, period, period < period_of(now)) for used, period in since.items()]


def draw(registry: Registry, given: str, n: int, now: datetime) -> Draw:
    """Draw the held-out sample of a benchmark for the current quarter.

    Parameters
    ----------
    registry : Registry
        The open registry database.
    given : str
        Name of a configuration in conf/benchmark, or path of a file.
    n : int
        Size of the sample.
    now : datetime
        Current time.

    Returns
    -------
    Draw
        The sample. It depends only on the benchmark, the period, and the questions used before.

    Raises
    ------
    ConfigError
        If no sample can be drawn from the benchmark, or if a sample of another size was drawn in
        this period.

    Notes
    -----
    Unused questions are sorted by a hash of the benchmark's revision, the period and the id. The
    first n of these questions are the sample, returned in the order of their ids.
    """
    if n < 1:
        raise ConfigError(f"--n is {n}. Expected at least 1.")
    benchmark = _benchmark(given)
    period = period_of(now)
    pool = _pool(benchmark)
    pool_sha256 = digest(sorted(pool))
    used_ids = _used_ids(registry, benchmark.name)

    def change(db: Connection) -> tuple[Mapping[str, Any], list[str], bool]:
        check_clock(db, now)
        drawn = db.execute(select(draws).where(draws.c.name == benchmark.name)).mappings()
        earlier = {row["period"]: dict(row) for row in drawn}
        this_period = earlier.pop(period, None)
        used = used_ids.union(*(row["ids"] for row in earlier.values()))
        free = [i for i in pool if i not in used]
        if this_period:
            return this_period, free, False
        if len(free) < n:
            raise ConfigError(
                f"{benchmark.name} has only {len(free)} questions that were never asked, but --n "
                f"is {n}. Draw fewer."
            )
        chosen = sorted(
            free,
            key=lambda i: hashlib.sha256(f"{benchmark.revision}\0{period}\0{i}".encode()).digest(),
        )
        row = {
            "name": benchmark.name,
            "period": period,
            "drawn": at(now),
            "revision": benchmark.revision,
            "pool_sha256": pool_sha256,
            "ids": sorted(chosen[:n]),
        }
        inserted = INSERT[db.dialect.name](draws).values(**row).on_conflict_do_nothing()
        if (
            db.scalar(inserted.returning(draws.c.name)) is None
        ):  # Another process has drawn a sample at the same time.
            other = select(draws).where(draws.c.name == benchmark.name, draws.c.period == period)
            return dict(db.execute(other).mappings().one()), free, False
        return row, free, True

    row, free, new = registry.write(change)
    if (row["revision"], row["pool_sha256"], len(row["ids"])) != (
        benchmark.revision,
        pool_sha256,
        n,
    ):
        raise ConfigError(
            f"{benchmark.name} was drawn in {period} already: {len(row['ids'])} questions of "
            f"revision {row['revision']}. This command would draw {n} questions of revision "
            f"{benchmark.revision}."
        )
    left = len(set(free) - set(row["ids"]))
    return Draw(benchmark.name, period, tuple(pool[i] for i in row["ids"]), left, new)


def _pool(benchmark: Benchmark) -> dict[str, Item]:
    """Return the questions that can be drawn, as a mapping from id to question."""
    census = set(benchmark.census.frame.tolist())
    pool = {q.id: q for k, q in enumerate(benchmark.iter_questions()) if k in census}
    if not all(q.options for q in pool.values()):
        raise ConfigError(
            f"{benchmark.name} has numeric answers. `registry draw` can only write multiple-choice items."
        )
    return pool


def _used_ids(registry: Registry, benchmark: str) -> set[str]:
    """Return the ids of all questions that were used in registered runs."""
    used: set[str] = set()
    for record in cell_records(registry, benchmark=benchmark):
        ids = record.cell["ids"]
        used.update(_ids_in(record, benchmark) if ids is None else ids)
    return used


def as_file(drawn: Draw) -> bytes:
    """Return the sample as the text of a file for benchmark=mcq_file.

    To read the file, use the options id_column=id answer_as=index group_column=group.
    """
    lines = []
    for q in drawn.questions:
        row = {
            "id": q.id,
            "question": q.text,
            "choices": q.options,
            "answer": q.gold,
            "group": q.group,
        }
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines).encode("utf-8", "backslashreplace")


def _benchmark(given: str) -> Benchmark:
    path = Path(given)
    file = {"path": given, "name": path.stem} if path.suffix and path.is_file() else {}
    group = load_group("benchmark", "mcq_file" if file else given)
    config = OmegaConf.merge(OmegaConf.structured(BenchmarkConfig), group, file)
    return open_benchmark(OmegaConf.to_object(config))


def _ids_in(record: CellRecord, benchmark: str) -> Sequence[str]:
    """Return the question ids of a large sample, which are stored only in the run directory."""
    path = Path(record.run["run_dir"]) / QUESTIONS
    try:
        batches = QuestionFile(path).names()
    except ShardError as error:
        raise ConfigError(
            f"{path} cannot be read, and only it holds the questions of run {record.run['key'][:12]}. Restore it."
        ) from error
    ids = []
    for names in batches:
        for name, id_ in names:
            if name == benchmark:
                ids.append(id_)
    return ids
