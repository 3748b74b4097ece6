"""What a run directory cannot show alone: the hashes that it was registered with, and how many decisions people signed
on it, with the hash of the last.

Each decision names the one before it, so one that is taken out of the middle is found there. That the last one was
deleted, or all of them, is found here. A row is of what was decided on, wherever it lies: of the bytes that a decision
binds, and of what was asked and answered, so that a changed byte makes no new run. It only ever grows but for `forget`,
of which people are told.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, RowMapping, delete, or_, select

from audit.errors import ConfigError, SignatureError
from audit.exits import one_line
from audit.governance.reviews import Bound, decision_hashes
from audit.governance.ruling import verdict_path
from audit.panel import panel_runs
from audit.registry.database import Registry, open_registry
from audit.registry.entry import answers_sha256, digest
from audit.registry.schema import at, decisions, runs
from audit.registry.store import INSERT, Notice, write_notice
from audit.shards.files import file_sha256
from audit.shards.manifest import MANIFEST, Manifest


@dataclass(frozen=True)
class Noted:
    """A registry as a decision knows it (`governance.queue.Register`). place: its file or address."""

    place: str

    def check(self, run_dir: Path, bound: Bound) -> None:
        check_decisions(open_registry(self.place), run_dir, bound)

    def note(self, run_dir: Path, bound: Bound, now: datetime) -> None:
        note_decisions(open_registry(self.place), run_dir, bound, now)


def check_decisions(registry: Registry, run_dir: Path, bound: Bound) -> None:
    """SignatureError where decisions that the registry knows of are not there; RegistryError where it cannot be asked.

    bound: what a decision on the run binds now.
    """
    registry.read(lambda connection: _check(connection, run_dir, bound, decision_hashes(run_dir)))


def check_hashes(registry: Registry, run_dir: Path) -> None:
    """SignatureError where a run was registered (its place, its fingerprint or its answers) and is another one now."""

    def look(connection: Connection) -> None:
        for run, manifest in _manifests(run_dir):
            verdict = verdict_path(run)
            now = {"answers_sha256": answers_sha256(manifest), "manifest_sha256": file_sha256(run / MANIFEST)}
            now |= {"verdict_sha256": file_sha256(verdict)} if verdict.is_file() else {}
            same = or_(
                runs.c.run_dir == str(run.resolve()),
                runs.c.fingerprint == manifest.fingerprint,
                runs.c.answers_sha256 == now["answers_sha256"],
            )
            known = connection.execute(select(runs).where(same).order_by(runs.c.registered)).mappings().all()
            odd = [[name.split("_")[0] for name, value in now.items() if row[name] != value] for row in known]
            if odd and all(odd):
                raise SignatureError(
                    f"The registry has {run} as {known[-1]['key'][:12]}, with {' and '.join(odd[-1])} of other bytes: "
                    f"the run was changed since. If it was judged or run again: audit registry add {run}"
                )

    registry.read(look)


def note_decisions(registry: Registry, run_dir: Path, bound: Bound, now: datetime) -> int:
    """Note the decisions that are there; how many. Raises as `check_decisions`, and then notes nothing."""

    def change(connection: Connection) -> int:
        found = decision_hashes(run_dir)  # here: whoever decides at the same time waits for this transaction
        _check(connection, run_dir, bound, found)
        if found:
            row = {"run_dir": str(run_dir.resolve()), "count": len(found), "last_sha256": found[-1], "noted": at(now)}
            for about in _about(run_dir, bound):
                asked = INSERT[connection.dialect.name](decisions).values(about=about, **row)
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
        rows = _rows(connection, run_dir, bound)
        if not rows:
            raise ConfigError(f"The registry knows of no decision on {run_dir}.")
        row, gone = rows[0], {one["last_sha256"] for one in rows}
        connection.execute(delete(decisions).where(decisions.c.last_sha256.in_(gone)))
        body = f"{row['count']} decisions on {run_dir}, the last of {row['last_sha256']}, count no more: {reason}"
        about = f"{row['about']} {row['last_sha256'][:40]}"
        write_notice(connection, Notice(about, "forgotten", "Audit decisions forgotten", one_line(body)), now)
        return int(row["count"])

    return registry.write(change)


def _check(connection: Connection, run_dir: Path, bound: Bound, found: Sequence[str]) -> None:
    for row in _rows(connection, run_dir, bound):
        if len(found) < row["count"] or found[row["count"] - 1] != row["last_sha256"]:
            raise SignatureError(
                f"The registry knows of {row['count']} decisions on {run_dir}, the last of sha256 "
                f"{row['last_sha256'][:12]}, and {len(found)} are there: one was deleted or replaced. Put it back, or "
                f"begin anew: audit registry forget {run_dir} --reason '...'"
            )


def _rows(connection: Connection, run_dir: Path, bound: Bound) -> Sequence[RowMapping]:
    return connection.execute(select(decisions).where(decisions.c.about.in_(_about(run_dir, bound)))).mappings().all()


def _about(run_dir: Path, bound: Bound) -> list[str]:
    """Of the bytes that a decision binds; and of fingerprints and answers, of a run or of a panel's."""
    asked = sorted([one.fingerprint, answers_sha256(one)] for _, one in _manifests(run_dir))
    panel = panel_runs(run_dir) is not None
    return [digest(bound.subjects), *([digest({"panel": panel, "runs": asked})] if asked else [])]


def _manifests(run_dir: Path) -> list[tuple[Path, Manifest]]:
    """Of a run, or of each of a panel's."""
    return [(run, Manifest.load(run)) for run in panel_runs(run_dir) or [run_dir] if (run / MANIFEST).is_file()]
