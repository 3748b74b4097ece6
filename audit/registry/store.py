"""Written and read: runs with their cells and indicators, holds, and the notices about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from audit.errors import ConfigError
from audit.registry.database import Registry, check_clock
from audit.registry.entry import Entry
from audit.registry.schema import at, cells, indicators, notices, runs

INSERT: dict[str, Any] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}  # they know of conflicts


@dataclass(frozen=True)
class Notice:
    """A message to people. about and kind: one message of a kind about one thing is sent once. to: mail addresses of
    those whom a suite names, beside everybody of AUDIT_NOTIFY."""

    about: str
    kind: str
    title: str
    body: str
    to: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kept:
    """A cell as the registry has it: columns of its run and of itself; indicators: name -> (estimate, low, high)."""

    run: Mapping[str, Any]
    cell: Mapping[str, Any]
    indicators: Mapping[str, tuple[float | None, float | None, float | None]]


def add(registry: Registry, entry: Entry, now: datetime, notice: Notice | None = None) -> bool:
    """Register a run with the notice about it, all or nothing; whether it is new.

    What is there already is left as it is, but for where the run directory is now and its manifest: a start that asked
    nothing changes it. RegistryError for a clock that went
    backwards.
    """

    def change(connection: Connection) -> bool:
        check_clock(connection, now)
        asked = INSERT[connection.dialect.name](runs).values(**_row(entry, now)).on_conflict_do_nothing()
        new = connection.scalar(asked.returning(runs.c.key)) is not None
        if not new:
            now_there = {"run_dir": entry.run_dir, "manifest_sha256": entry.manifest_sha256}
            connection.execute(update(runs).where(runs.c.key == entry.key).values(now_there))
            return False
        if entry.cells:
            connection.execute(insert(cells), [_cell_row(entry, one) for one in entry.cells])
        rows = [
            {"run_key": entry.key, "model": one.model, "benchmark": one.benchmark, "context": one.context,
             "name": f.name, "estimate": f.estimate, "low": f.low, "high": f.high}
            for one in entry.cells for f in one.indicators
        ]  # fmt: skip
        if rows:
            connection.execute(insert(indicators), rows)
        if notice is not None:
            write_notice(connection, notice, now)
        return True

    return registry.write(change)


def write_notice(connection: Connection, notice: Notice, now: datetime) -> bool:
    """Add a notice to be sent, unless one of its kind about this was written before; whether it is new."""
    asked = INSERT[connection.dialect.name](notices).values(
        about=notice.about, kind=notice.kind, title=notice.title, body=notice.body, created=at(now), tries=0,
        problem="", recipients=[*notice.to],
    )  # fmt: skip
    return connection.scalar(asked.on_conflict_do_nothing().returning(notices.c.id)) is not None


def find(registry: Registry, given: str) -> Mapping[str, Any]:
    """The run of a key, or of the first characters of one. ConfigError where there is none, or several."""

    def ask(connection: Connection) -> list[Mapping[str, Any]]:
        found = connection.execute(select(runs).where(runs.c.key.startswith(given, autoescape=True))).mappings()
        return [dict(row) for row in found]

    if not given or not set(given) <= set("0123456789abcdef"):
        raise ConfigError(f"{given!r} is no key of a run. Expected its first characters, as audit registry list shows.")
    found = registry.read(ask)
    if len(found) != 1:
        what = "No run has a key that begins" if not found else f"{len(found)} runs have keys that begin"
        raise ConfigError(f"{what} with {given!r}. audit registry list shows the keys.")
    return found[0]


def kept(registry: Registry, **wanted: Sequence[str] | str | None) -> list[Kept]:
    """Every cell, in the order in which the runs started. wanted: columns of runs or cells -> values; None: any."""

    def ask(connection: Connection) -> list[Kept]:
        asked = select(runs, cells).join(cells, cells.c.run_key == runs.c.key)
        for name, values in wanted.items():
            if values:
                column = cells.c[name] if name in cells.c else runs.c[name]
                asked = asked.where(column.in_([values] if isinstance(values, str) else list(values)))
        asked = asked.order_by(
            runs.c.started, runs.c.registered, runs.c.key, cells.c.model, cells.c.benchmark, cells.c.context
        )
        rows = connection.execute(asked).all()
        figures: dict[tuple[str, ...], dict[str, tuple[Any, Any, Any]]] = {}
        for row in connection.execute(select(indicators)):
            of = figures.setdefault((row.run_key, row.model, row.benchmark, row.context), {})
            of[row.name] = (row.estimate, row.low, row.high)
        width = len(runs.c)
        found = []
        for row in rows:
            run = dict(zip(runs.c.keys(), row[:width], strict=True))
            cell = dict(zip(cells.c.keys(), row[width:], strict=True))
            of_cell = tuple(cell[name] for name in ("run_key", "model", "benchmark", "context"))
            found.append(Kept(run, cell, figures.get(of_cell, {})))
        return found

    return registry.read(ask)


def all_runs(registry: Registry) -> list[Mapping[str, Any]]:
    """Every run, in the order in which they were registered."""

    def ask(connection: Connection) -> list[Mapping[str, Any]]:
        asked = select(runs).order_by(runs.c.registered, runs.c.started, runs.c.key)
        return [dict(row) for row in connection.execute(asked).mappings()]

    return registry.read(ask)


def set_hold(registry: Registry, key: str, reason: str | None) -> None:
    """Put a run under legal hold, or release it (None)."""

    def change(connection: Connection) -> None:
        connection.execute(update(runs).where(runs.c.key == key).values(hold=reason))

    registry.write(change)


def _row(entry: Entry, now: datetime) -> dict[str, Any]:
    """What has a column of its name, and what follows from the ruling."""
    return {name: value for name, value in vars(entry).items() if name in runs.c} | {
        "decision": str(entry.ruling.verdict_decision),
        "exit_code": entry.ruling.exit_code,
        "registered": at(now),
        "run_by": list(entry.run_by),
    }


def _cell_row(entry: Entry, cell: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(cell).items() if name in cells.c} | {
        "run_key": entry.key,
        "ids": None if cell.ids is None else list(cell.ids),
    }
