"""How many decisions people signed on a run, and the hash of the last: what the folder of decisions cannot show alone.

Each decision names the one before it, so one that is taken out of the middle is found there. That the last one was
deleted, or all of them, is found here. The row is of what was decided on (the bytes that a decision binds), wherever it
lies; it only ever grows, but for `forget`, of which people are told.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, RowMapping, delete, select

from audit.errors import ConfigError, SignatureError
from audit.governance.reviews import Bound, decision_hashes
from audit.printable import one_line
from audit.registry.database import Registry
from audit.registry.entry import digest
from audit.registry.schema import at, decisions
from audit.registry.store import INSERT, Notice, write_notice


def check_decisions(registry: Registry, run_dir: Path, bound: Bound) -> None:
    """SignatureError where decisions that the registry knows of are not there; RegistryError where it cannot be asked.

    bound: what a decision on the run binds now.
    """
    registry.read(lambda connection: _check(connection, run_dir, bound, decision_hashes(run_dir)))


def note_decisions(registry: Registry, run_dir: Path, bound: Bound, now: datetime) -> int:
    """Note the decisions that are there; how many. Raises as `check_decisions`, and then notes nothing."""

    def change(connection: Connection) -> int:
        found = decision_hashes(run_dir)  # here: whoever decides at the same time waits for this transaction
        _check(connection, run_dir, bound, found)
        if found:
            row = {"run_dir": str(run_dir.resolve()), "count": len(found), "last_sha256": found[-1], "noted": at(now)}
            asked = INSERT[connection.dialect.name](decisions).values(about=_about(bound), **row)
            connection.execute(asked.on_conflict_do_update(index_elements=[decisions.c.about], set_=row))
        return len(found)

    return registry.write(change)


def forget_decisions(registry: Registry, run_dir: Path, bound: Bound, reason: str, now: datetime) -> int:
    """Begin anew, such as after a key was stolen: how many decisions the registry knew of. People are told.

    ConfigError where it knows of none, or decisions are there.
    """
    if decision_hashes(run_dir):
        raise ConfigError(f"{run_dir} has decisions. Move its folder of decisions away first, where it is kept.")

    def change(connection: Connection) -> int:
        row = _row(connection, bound)
        if row is None:
            raise ConfigError(f"The registry knows of no decision on {run_dir}.")
        connection.execute(delete(decisions).where(decisions.c.about == _about(bound)))
        body = f"{row['count']} decisions on {run_dir}, the last of {row['last_sha256']}, count no more: {reason}"
        about = f"{row['about']} {row['last_sha256'][:40]}"
        write_notice(connection, Notice(about, "forgotten", "Audit decisions forgotten", one_line(body)), now)
        return int(row["count"])

    return registry.write(change)


def _check(connection: Connection, run_dir: Path, bound: Bound, found: Sequence[str]) -> None:
    row = _row(connection, bound)
    if row is not None and (len(found) < row["count"] or found[row["count"] - 1] != row["last_sha256"]):
        raise SignatureError(
            f"The registry knows of {row['count']} decisions on {run_dir}, the last of sha256 "
            f"{row['last_sha256'][:12]}, and {len(found)} are there: one was deleted or replaced. Put it back, or "
            f"begin anew: audit registry forget {run_dir} --reason '...'"
        )


def _row(connection: Connection, bound: Bound) -> RowMapping | None:
    return connection.execute(select(decisions).where(decisions.c.about == _about(bound))).mappings().first()


def _about(bound: Bound) -> str:
    return digest(bound.subjects)
