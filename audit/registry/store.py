"""Write and read the rows of the registry.

Rows describe runs with their cells and indicators, legal holds, notices, and decisions of people.
The registry also reveals two changes that a run directory alone cannot reveal: changed bytes, and
deleted decisions.

A row of decisions holds two hashes: one of the bytes to which the decisions apply, and one of the
run's questions and answers. So the decisions on a run are found even if its bytes were changed or
its directory was moved. Rows of decisions are deleted only by `forget_decisions`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, delete, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from audit.core.errors import ConfigError, SignatureError
from audit.core.exits import one_line
from audit.core.json_types import attributes
from audit.governance.reviews import Bound, at, decision_hashes
from audit.registry.database import Registry, check_clock
from audit.registry.entry import Entry, Row, answers_sha256, digest
from audit.registry.schema import cells, decisions, indicators, notices, runs
from audit.shards.files import file_sha256
from audit.shards.manifest import MANIFEST, Manifest
from audit.shards.panel import panel_runs, verdict_path

# For each database, the insert function that can ignore a row whose key exists.
INSERT: dict[str, Any] = {
    "postgresql": postgresql.insert,
    "sqlite": sqlite.insert,
}


@dataclass(frozen=True)
class Notice:
    """Hold a message to people.

    Attributes
    ----------
    about, kind : str
        The subject of the message, such as a run's key, and its kind. At most one message of a kind
        is sent about a subject.
    title, body : str
        The text of the message.
    to : tuple of str
        The mail addresses that the suite names, in addition to the addresses in AUDIT_NOTIFY.
    """

    about: str
    kind: str
    title: str
    body: str
    to: tuple[str, ...] = ()


@dataclass(frozen=True)
class CellRecord:
    """Hold the stored rows of one cell: the cell, its run, and its indicators.

    Attributes
    ----------
    run, cell : Row
        The columns of the run, and those of the cell.
    indicators : mapping
        Maps the name of each indicator to (estimate, lower limit, upper limit).
    """

    run: Row
    cell: Row
    indicators: Mapping[str, tuple[Any, Any, Any]]


def add(registry: Registry, entry: Entry, now: datetime, notice: Notice | None = None) -> bool:
    """Register a run and its notice in one transaction.

    Parameters
    ----------
    registry : Registry
        The open registry database.
    entry : Entry
        The facts about the run.
    now : datetime
        Time of registration.
    notice : Notice or None
        Message about the run.

    Returns
    -------
    bool
        Whether the run is new. If the run is registered already, only its directory and the hash of
        its manifest are updated. Both can change when a finished run is started again without new
        questions.

    Raises
    ------
    RegistryError
        If the clock went backwards.
    """

    def change(db: Connection) -> bool:
        check_clock(db, now)
        row = {name: value for name, value in vars(entry).items() if name in runs.c} | {
            "registered": at(now)
        }
        row |= {"decision": str(entry.ruling.verdict_decision), "exit_code": entry.ruling.exit_code}
        inserted = INSERT[db.dialect.name](runs).values(row).on_conflict_do_nothing()
        new = db.scalar(inserted.returning(runs.c.key)) is not None
        if not new:
            changes = {"run_dir": entry.run_dir, "manifest_sha256": entry.manifest_sha256}
            db.execute(update(runs).where(runs.c.key == entry.key).values(changes))
            return False
        for cell in entry.cells:
            cell_key = {"run_key": entry.key, **attributes(cell, "model", "benchmark", "context")}
            columns = {}
            for name, value in vars(cell).items():
                if name in cells.c:
                    columns[name] = value
            db.execute(insert(cells).values(columns | cell_key))
            for indicator in cell.indicators:
                figure = attributes(indicator, "name", "estimate", "low", "high")
                db.execute(insert(indicators).values(cell_key | figure))
        if notice is not None:
            write_notice(db, notice, now)
        return True

    return registry.write(change)


def write_notice(db: Connection, notice: Notice, now: datetime) -> None:
    """Add a notice, unless the registry has a notice of the same kind and subject.

    Parameters
    ----------
    db : Connection
        Open connection to the database.
    notice : Notice
        The message to add.
    now : datetime
        Current time.
    """
    row = attributes(notice, "about", "kind", "title", "body") | {"recipients": [*notice.to]}
    row |= {"created": at(now), "tries": 0, "problem": ""}
    db.execute(INSERT[db.dialect.name](notices).values(row).on_conflict_do_nothing())


def find(registry: Registry, given: str) -> Row:
    """Return the run with the given key.

    The first characters of a key suffice if only one key begins with these characters.

    Parameters
    ----------
    registry : Registry
        The open registry database.
    given : str
        Key or its first characters.

    Returns
    -------
    Row
        Row of the run.

    Raises
    ------
    ConfigError
        If no run matches, or if several runs match.
    """
    if not given or not set(given) <= set("0123456789abcdef"):
        raise ConfigError(
            f"The key is {given!r}. Expected the first characters of a key in audit registry list."
        )
    matches = _runs(registry, select(runs).where(runs.c.key.startswith(given, autoescape=True)))
    if len(matches) != 1:
        count = (
            "No run has a key that begins"
            if not matches
            else f"{len(matches)} runs have keys that begin"
        )
        raise ConfigError(f"{count} with {given!r}. audit registry list shows the keys.")
    return matches[0]


def cell_records(registry: Registry, **wanted: Sequence[str] | str | None) -> list[CellRecord]:
    """Return the stored cells that match, in the order in which the runs started.

    Parameters
    ----------
    registry : Registry
        The open registry database.
    **wanted : sequence of str, str or None
        Conditions: names of columns of runs or cells, with the wanted values. None matches any
        value.

    Returns
    -------
    list of CellRecord
        One entry for each cell.
    """

    def ask(db: Connection) -> list[CellRecord]:
        query = select(runs, cells).join(cells, cells.c.run_key == runs.c.key)
        for name, values in wanted.items():
            if values:
                column = cells.c[name] if name in cells.c else runs.c[name]
                query = query.where(
                    column.in_([values] if isinstance(values, str) else list(values))
                )
        order = (
            runs.c.started,
            runs.c.registered,
            runs.c.key,
            cells.c.model,
            cells.c.benchmark,
            cells.c.context,
        )
        figures: dict[tuple[str, ...], dict[str, tuple[Any, Any, Any]]] = {}
        for row in db.execute(select(indicators)):
            by_name = figures.setdefault((row.run_key, row.model, row.benchmark, row.context), {})
            by_name[row.name] = (row.estimate, row.low, row.high)
        width = len(runs.c)
        records = []
        for row in db.execute(query.order_by(*order)):
            run = dict(zip(runs.c.keys(), row[:width], strict=True))
            cell = dict(zip(cells.c.keys(), row[width:], strict=True))
            of_cell = tuple(cell[name] for name in ("run_key", "model", "benchmark", "context"))
            records.append(CellRecord(run, cell, figures.get(of_cell, {})))
        return records

    return registry.read(ask)


def all_runs(registry: Registry) -> list[Row]:
    """Return every run, in the order in which they were registered."""
    return _runs(registry, select(runs).order_by(runs.c.registered, runs.c.started, runs.c.key))


def set_hold(registry: Registry, key: str, reason: str | None) -> None:
    """Put a run under legal hold, or release it.

    Parameters
    ----------
    registry : Registry
        The open registry database.
    key : str
        Key of the run.
    reason : str or None
        The reason for the hold. None releases the run.
    """
    registry.write(lambda db: db.execute(update(runs).where(runs.c.key == key).values(hold=reason)))


def _runs(registry: Registry, query: Select[Any]) -> list[Row]:
    return registry.read(lambda db: [dict(row) for row in db.execute(query).mappings()])


def check_decisions(registry: Registry, run_dir: Path, bound: Bound) -> None:
    """Raise an error if registered decisions on a run are missing in the run's folder.

    Parameters
    ----------
    registry : Registry
        The open registry database.
    run_dir : Path
        Directory with the files of the run.
    bound : Bound
        Hashes of the run's current files, to which a decision applies.

    Raises
    ------
    SignatureError
        If a registered decision was deleted from the run's folder or replaced.
    RegistryError
        If the database does not answer.
    """
    registry.read(lambda db: _check(db, run_dir, bound, decision_hashes(run_dir)))


def check_hashes(registry: Registry, run_dir: Path) -> None:
    """Raise an error if the bytes of a registered run have changed.

    The registered run is found by its directory, its fingerprint or its answers.

    Parameters
    ----------
    registry : Registry
        The open registry database.
    run_dir : Path
        Directory with the files of the run.

    Raises
    ------
    SignatureError
        If the bytes of the run have changed.
    """

    def look(db: Connection) -> None:
        for run, manifest in _manifests(run_dir):
            verdict = verdict_path(run)
            now = {
                "answers_sha256": answers_sha256(manifest),
                "manifest_sha256": file_sha256(run / MANIFEST),
            }
            if verdict.is_file():
                now["verdict_sha256"] = file_sha256(verdict)
            identity = {"run_dir": str(run.resolve()), "fingerprint": manifest.fingerprint}
            identity["answers_sha256"] = now["answers_sha256"]
            same = or_(*(runs.c[name] == value for name, value in identity.items()))
            known = (
                db.execute(select(runs).where(same).order_by(runs.c.registered)).mappings().all()
            )
            # For each registered verdict on the run, the parts that have changed since.
            changed: list[list[str]] = []
            for row in known:
                edited = []
                for name, value in now.items():
                    if row[name] != value:
                        edited.append(name.split("_")[0])
                changed.append(edited)
            if changed and all(changed):
                raise SignatureError(
                    f"{run} is registered as {known[-1]['key'][:12]}, but its "
                    f"{' and '.join(changed[-1])} "
                    "changed afterwards. If you judged or ran it again, register the result: "
                    f"audit registry add {run}"
                )

    registry.read(look)


def note_decisions(registry: Registry, run_dir: Path, bound: Bound, now: datetime) -> int:
    """Register the decisions on a run.

    Parameters
    ----------
    registry : Registry
        The open registry database.
    run_dir : Path
        Directory with the files of the run.
    bound : Bound
        Hashes of the run's current files, to which a decision applies.
    now : datetime
        Current time.

    Returns
    -------
    int
        Number of decisions.

    Raises
    ------
    SignatureError
        If a registered decision was deleted or replaced. No decision is registered then.
    """

    def change(db: Connection) -> int:
        # The decisions are read within the transaction, so another process that registers decisions
        # must wait.
        hashes = decision_hashes(run_dir)
        _check(db, run_dir, bound, hashes)
        if hashes:
            row = {
                "run_dir": str(run_dir.resolve()),
                "count": len(hashes),
                "last_sha256": hashes[-1],
                "noted": at(now),
            }
            for about in _about(run_dir, bound):
                inserted = INSERT[db.dialect.name](decisions).values(about=about, **row)
                db.execute(
                    inserted.on_conflict_do_update(index_elements=[decisions.c.about], set_=row)
                )
        return len(hashes)

    return registry.write(change)


def forget_decisions(
    registry: Registry, run_dir: Path, bound: Bound, reason: str, now: datetime
) -> int:
    """Delete the registered decisions on a run, for example after a key was stolen.

    Parameters
    ----------
    registry : Registry
        The open registry database.
    run_dir : Path
        Directory with the files of the run.
    bound : Bound
        Hashes of the run's current files, to which a decision applies.
    reason : str
        The reason, which is stated in the notice to people.
    now : datetime
        Current time.

    Returns
    -------
    int
        The number of deleted decisions.

    Raises
    ------
    ConfigError
        If no decision on the run is registered, or if the run's folder still has decisions.
    """
    if decision_hashes(run_dir):
        raise ConfigError(
            f"{run_dir} still has decisions. Move its folder of decisions to a safe place first."
        )

    def change(db: Connection) -> int:
        rows = _rows(db, run_dir, bound)
        if not rows:
            raise ConfigError(f"No decision on {run_dir} is registered.")
        first = rows[0]
        gone = {row["last_sha256"] for row in rows}
        db.execute(delete(decisions).where(decisions.c.last_sha256.in_(gone)))
        body = (
            f"{first['count']} decisions on {run_dir}, the last of {first['last_sha256']}, no "
            f"longer count: {reason}"
        )
        about = f"{first['about']} {first['last_sha256'][:40]}"
        write_notice(
            db, Notice(about, "forgotten", "Audit decisions forgotten", one_line(body)), now
        )
        return int(first["count"])

    return registry.write(change)


def _check(db: Connection, run_dir: Path, bound: Bound, hashes: Sequence[str]) -> None:
    for row in _rows(db, run_dir, bound):
        if len(hashes) < row["count"] or hashes[row["count"] - 1] != row["last_sha256"]:
            raise SignatureError(
                f"The registry holds {row['count']} decisions on {run_dir}, the last with sha256 "
                f"{row['last_sha256'][:12]}. The run's folder has {len(hashes)}, so a decision was "
                "deleted or replaced. "
                f"Restore it, or delete the registered decisions: audit registry forget {run_dir} --reason '...'"
            )


def _rows(db: Connection, run_dir: Path, bound: Bound) -> Sequence[RowMapping]:
    return (
        db.execute(select(decisions).where(decisions.c.about.in_(_about(run_dir, bound))))
        .mappings()
        .all()
    )


def _about(run_dir: Path, bound: Bound) -> list[str]:
    """Return two hashes under which decisions are registered.

    The first is a hash of the bytes to which a decision applies. The second is a hash of the
    fingerprints and answers of the runs.
    """
    answers = []
    for _, manifest in _manifests(run_dir):
        answers.append([manifest.fingerprint, answers_sha256(manifest)])
    judged = sorted(answers)
    panel = panel_runs(run_dir) is not None
    hashes = [digest(bound.subjects)]
    if judged:
        hashes.append(digest({"panel": panel, "runs": judged}))
    return hashes


def _manifests(run_dir: Path) -> list[tuple[Path, Manifest]]:
    """Return pairs (directory, manifest): one for a run, or one for each run of a panel."""
    manifests = []
    for run in panel_runs(run_dir) or [run_dir]:
        if (run / MANIFEST).is_file():
            manifests.append((run, Manifest.load(run)))
    return manifests
