"""Check the registry when a run starts, and register the run when it ends.

A run in progress never fails because of the registry. If `registry=`, AUDIT_REGISTRY and
AUDIT_NOTIFY are all unset, this module does nothing and SQLAlchemy is not loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from audit.config.audits import Hooks
from audit.core.aliases import named
from audit.core.errors import AuditError, ConfigError, RegistryError
from audit.core.exits import one_line
from audit.governance.reviews import decision_files
from audit.governance.ruling import bound_to, rule_run
from audit.judging.decision import Decision, Ruling
from audit.registry.wanted import wanted
from audit.shards.manifest import MANIFEST, Manifest
from audit.shards.panel import panel_runs
from audit.shards.redact import redact
from audit.shards.working_copy import store_of

if TYPE_CHECKING:  # SQLAlchemy is loaded only if a registry is configured.
    from audit.registry.database import Registry
    from audit.registry.store import Notice

_ENDS = {
    Decision.BLOCK: "blocks",
    Decision.REVIEW: "asks for a review",
    Decision.NO_DECISION: "ends without a decision",
}


def hooks(registry: str | None) -> Hooks:
    """Return the functions that the runtime calls at the start of a run and after a failure."""
    return Hooks(
        lambda run_dir: check(registry, run_dir=run_dir),
        lambda run_dir, why: failed(registry, run_dir, why),
    )


def check(registry: str | None, people: Sequence[str] = (), run_dir: Path | None = None) -> None:
    """Check the registry and the addresses for notices when a run starts.

    Parameters
    ----------
    registry : str or None
        File or address of the registry.
    people : sequence of str
        Mail addresses that the run's suite notifies.
    run_dir : Path or None
        Directory with the files of the run.

    Raises
    ------
    ConfigError
        If the registry or an address is invalid. If the database merely does not respond, a line is
        printed, and the run continues.
    """
    if (
        run_dir is not None
        and store_of(run_dir) is not None
        and (registry or os.environ.get("AUDIT_REGISTRY"))
    ):
        raise ConfigError(
            "The run_dir is in object storage, but a registry needs runs in folders. Leave out "
            "registry= and "
            "AUDIT_REGISTRY. Or copy the finished run to a folder and register it: audit registry add FOLDER"
        )
    if not wanted(registry) and not people:
        return
    from audit.registry.database import open_registry, place_of
    from audit.registry.notify import addresses, unreached

    if problem := unreached(addresses(), people):
        _say(f"{problem}.")
    place = place_of(registry)
    if place is not None:
        try:
            open_registry(place)
        except RegistryError as error:
            _say(f"{error} The run continues, and tries again at its end.")


def finished(registry: str | None, run_dir: Path, now: datetime | None = None) -> None:
    """Register a run or suite whose report was written, and notify people.

    Parameters
    ----------
    registry : str or None
        File or address of the registry.
    run_dir : Path
        Directory with the files of the run.
    now : datetime or None
        Time of registration.

    Notes
    -----
    If registering fails, the error is printed, together with the command that registers the run
    later. The exit code of the run does not change.
    """
    try:
        if wanted(registry):
            _register(registry, run_dir, now or datetime.now(UTC))
    except AuditError as error:
        _say(
            f"{error}\nThe run's files are complete. Register it later: audit registry add {run_dir}"
        )


def failed(
    registry: str | None,
    run_dir: Path,
    why: str,
    now: datetime | None = None,
    to: Sequence[str] = (),
) -> None:
    """Notify people that a run stopped or a model failed.

    Parameters
    ----------
    registry : str or None
        File or address of the registry.
    run_dir : Path
        Directory with the files of the run.
    why : str
        The error message of the run.
    now : datetime or None
        Time of the notice.
    to : sequence of str
        Mail addresses of the suite.

    Notes
    -----
    This function raises no error. Such an error would hide the error of the run.
    """
    if not wanted(registry):
        return
    from audit.registry.store import Notice, write_notice

    when = now or datetime.now(UTC)
    try:
        manifest = Manifest.load(run_dir) if (run_dir / MANIFEST).is_file() else None
        about = (
            f"{manifest.fingerprint[:64]} attempt {manifest.attempts}"
            if manifest
            else str(run_dir)[-100:]
        )
        if runs := panel_runs(run_dir):
            about += (
                f" {sum(Manifest.load(run).attempts for run in runs if (run / MANIFEST).is_file())}"
            )
        body = f"{one_line(redact(why))}\nRun {one_line(named(run_dir.resolve()))}. The same command continues it."
        notice = Notice(
            about, "failure", f"Audit failed: {one_line(run_dir.name)}", body, tuple(to)
        )
        _through(
            registry,
            notice,
            when,
            lambda opened: opened.write(lambda db: write_notice(db, notice, when)),
        )
    except AuditError as also:
        _say(str(also))


def notice_of(ruling: Ruling, key: str, run_dir: str, to: Sequence[str] = ()) -> Notice | None:
    """Return the message to people about a finished run or suite.

    Parameters
    ----------
    ruling : Ruling
        Decision on the run.
    key : str
        Key of the run.
    run_dir : str
        Directory with the files of the run.
    to : sequence of str
        Mail addresses of the suite.

    Returns
    -------
    Notice or None
        The message; None if the decision is "pass".
    """
    from audit.registry.store import Notice

    if ruling.verdict_decision is Decision.PASS:
        return None
    cells = []
    for cell in ruling.cells:
        if cell.decision == ruling.verdict_decision:
            cells.append(cell)
    lines = []
    for cell in cells:
        lines.append(
            f"{cell.model} on {cell.benchmark}: {cell.verdict.replace('_', ' ')}. {cell.headline}"
        )
    title = f"Audit {_ENDS[ruling.verdict_decision]}: {', '.join(sorted({cell.model for cell in cells}))}"
    lines += [
        *ruling.rules,
        f"Run {run_dir}, registered as {key[:12]}.",
        f"To see it: audit review show {run_dir}",
    ]
    return Notice(
        key,
        str(ruling.verdict_decision),
        one_line(title),
        "\n".join(map(one_line, lines)),
        tuple(to),
    )


def _register(registry: str | None, run_dir: Path, now: datetime) -> None:
    from audit.registry.entry import digest, read_entry
    from audit.registry.store import add, note_decisions, write_notice

    runs = panel_runs(run_dir)
    entries = [read_entry(run) for run in runs or [run_dir]]
    ruling, key = entries[0].ruling, entries[0].key
    # Each run of a suite is registered, but people get one notice about all runs together.
    if runs:
        ruling, key = rule_run(run_dir), digest(sorted(entry.key for entry in entries))
    notice = notice_of(ruling, key, named(run_dir.resolve()), entries[0].notify)

    def write(opened: Registry) -> None:
        for entry in entries:
            new = add(opened, entry, now, None if runs else notice)
            print(f"registry {entry.key[:12]}{'' if new else ', known already'} in {opened.shown}")
        if runs and notice is not None:
            opened.write(lambda db: write_notice(db, notice, now))
        if decision_files(run_dir):
            note_decisions(opened, run_dir, bound_to(run_dir, ruling), now)

    _through(registry, notice, now, write)


def _through(
    registry: str | None, notice: Notice | None, now: datetime, write: Callable[[Registry], object]
) -> None:
    """Register a run together with its notice, and then send all waiting notices.

    `write` is the function that writes to the registry. Without a registry, the notice is sent at
    once. If the registry does not respond, the notice is sent at once, and RegistryError is raised.
    """
    from audit.registry.database import open_registry, place_of

    place = place_of(registry)
    if place is None:
        _send(notice)
        return
    try:
        opened = open_registry(place)
        write(opened)
    except RegistryError:  # People are notified even if the registry fails.
        _send(notice)
        raise
    send_waiting(opened, now)


def _send(notice: Notice | None) -> None:
    from audit.registry.notify import addresses, send

    if notice is not None and (problem := send(notice, addresses())):
        _say(f"Not sent, and not stored: {notice.title}: {problem}.")


def send_waiting(registry: Registry, now: datetime) -> int:
    """Send the notices that wait in the registry, if AUDIT_NOTIFY names an address.

    Parameters
    ----------
    registry : Registry
        The open registry database.
    now : datetime
        Time of sending.

    Returns
    -------
    int
        The number of notices that could not be sent. A line is printed for each of these notices.
    """
    from audit.registry import notify

    addresses = notify.addresses()
    problems = notify.send_waiting(registry, addresses, now) if addresses else []
    for problem in problems:
        _say(f"Not sent, and stored for audit registry notify: {problem}.")
    return len(problems)


def _say(text: str) -> None:
    print(f"registry: {text}", file=sys.stderr, flush=True)
