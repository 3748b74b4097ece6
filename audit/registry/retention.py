"""Remove results that are older than the retention time of their suite.

Results that are still needed are not removed. A dry run lists the results to remove and prints a
token. If a person confirms this token, exactly the listed results are removed. A run is marked
"removing" in the registry before its first file is deleted, and "removed" after the last. If the
process is killed between, the next call finishes the removal.
"""

import base64
import json
import shutil
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, update

from audit.core.errors import AuditError, ConfigError, RegistryError, ShardError
from audit.core.guarded_files import parse_json, read_json
from audit.governance.reviews import DECISIONS, at, decision_files
from audit.governance.ruling import rule_run
from audit.judging.decision import Decision
from audit.registry.database import Registry, check_clock
from audit.registry.entry import Row, digest, key_of
from audit.registry.schema import runs
from audit.registry.store import Notice, all_runs, write_notice
from audit.shards.attempt import LOCK, RunLock
from audit.shards.files import QUARANTINE, SHARDS, disk_error, file_sha256, write_file
from audit.shards.manifest import MANIFEST, TOMBSTONE
from audit.shards.panel import panel_of, panel_runs

# Files that this program writes into a run directory. Only these files are removed.
_FOLDERS = (SHARDS, QUARANTINE, "report", "tasks", "inspect", "every_eval_ever", "hub")
_FILES = (
    "attempt.json",
    ".attempt.lock",
    ".lock.taking",
    "*.arrow",
    "sensitivity.json",
    ".*.tmp",
    MANIFEST,
)
REMOVING, REMOVED = "removing", "removed"


class Past(NamedTuple):
    """Describe a run that is older than its suite's retention time.

    Attributes
    ----------
    run : Row
        Row of the run in the registry.
    age_days : int
        Days since the run ended.
    stays : str
        The reason why the run is not removed; "" if it can be removed.
    """

    run: Row
    age_days: int
    stays: str


def past_retention(registry: Registry, now: datetime) -> list[Past]:
    """Return every run whose age exceeds result_retention_days of its suite.

    Parameters
    ----------
    registry : Registry
        The open registry database.
    now : datetime
        Current time.

    Returns
    -------
    list of Past
        One entry for each such run.

    Raises
    ------
    RegistryError
        If the clock went backwards.
    """
    registry.read(lambda db: check_clock(db, now))
    everything = all_runs(registry)
    past = []
    for run in everything:
        days = run["retention_days"]
        age = now - datetime.fromisoformat(run["ended"])
        if days is not None and run["removed"] is None and age > timedelta(days=days):
            same = []
            for other in everything:
                if other["answers_sha256"] == run["answers_sha256"]:
                    same.append(other)
            past.append(Past(run, age.days, _why_it_stays(run, same, now)))
    return past


def token_of(past: Sequence[Past]) -> str:
    """Return the token of a list of results. A person confirms this token to remove the results."""
    return digest(sorted(result.run["key"] for result in past if not result.stays))[:16]


def expire(registry: Registry, token: str, now: datetime) -> list[tuple[Past, str]]:
    """Remove the results that a dry run listed.

    Parameters
    ----------
    registry : Registry
        The open registry database.
    token : str
        Token that the dry run printed.
    now : datetime
        Current time.

    Returns
    -------
    list of (Past, str)
        Each run, with the reason why it could not be removed, or "" if it was removed.

    Raises
    ------
    ConfigError
        If the list of results to remove has changed since the dry run.
    """
    past = past_retention(registry, now)
    if token != token_of(past):
        raise ConfigError(
            f"The results to remove have changed since the dry run with token {token!r}. Repeat "
            "it: audit registry expire --dry-run"
        )
    done = []
    for result in past:
        if result.stays:
            continue
        problem = ""
        try:
            _remove(registry, result.run, now)
        except (AuditError, OSError) as error:
            problem = str(error)
        done.append((result, problem))
    return done


def _why_it_stays(run: Row, same: Sequence[Row], now: datetime) -> str:
    """Return why a run is not removed, or "" if it can be removed.

    `same` holds the registry rows of all verdicts on the run's answers. These verdicts share the
    run's directory.
    """
    holds = []
    for judgement in same:
        if judgement["hold"] is not None:
            holds.append(judgement["hold"])
    if holds:
        return f"on hold: {holds[0]}"
    if run["removal"] == REMOVING:
        return ""
    newest = max(same, key=lambda judgement: (judgement["registered"], judgement["key"]))
    if newest["key"] != run["key"]:
        retention_days = newest["retention_days"]
        if newest["removed"] is None and retention_days is None:
            return "the same answers were judged again, in a run that is kept"
        return (
            ""
            if newest["removed"] is not None
            else f"the same answers were judged again: removed with {newest['key'][:12]}"
        )
    run_dir = Path(run["run_dir"])
    if not (run_dir / MANIFEST).is_file():
        return "its directory cannot be reached from this machine"
    try:
        if key_of(run_dir) != run["key"]:
            return "its directory holds another result now"
        return _under_review(run, run_dir, now)
    except (AuditError, OSError) as error:
        return f"it cannot be read ({error})"


def _under_review(run: Row, run_dir: Path, now: datetime) -> str:
    """Return why a review or a decision requires that a run is kept; "" without a reason.

    Decisions on the suite of the run count too. Signatures are not checked, so a run is kept even
    if the decision on the run is not signed correctly.
    """
    suite = panel_of(run_dir)
    files = decision_files(run_dir)
    if suite:
        files += decision_files(suite)
    asks = rule_run(suite).verdict_decision if suite else run["decision"]
    if not files and asks == Decision.REVIEW:
        return f"under review{' with its suite' if suite else ''}: nobody has decided"
    for path in files:
        try:
            payload = parse_json(base64.b64decode(read_json(path)["payload"]))
            expires = payload["predicate"]["expires"]
            if expires is not None and datetime.fromisoformat(expires) > now:
                return f"a decision on it holds until {expires}"
        except (ValueError, KeyError, TypeError) as error:
            raise ShardError(f"{path} is not a decision: {error!r}") from error
    return ""


def _remove(registry: Registry, run: Row, now: datetime) -> None:
    run_dir = Path(run["run_dir"])
    key = run["key"]

    def mark(db: Connection) -> None:
        check_clock(db, now)
        db.execute(
            update(runs).where(runs.c.key == key, runs.c.removed.is_(None)).values(removal=REMOVING)
        )

    def finish(db: Connection) -> None:
        db.execute(update(runs).where(runs.c.key == key).values(removal=REMOVED, removed=at(now)))
        body = f"{run['run_dir']}: its results were kept for {run['retention_days']} days. Figures and hashes stay."
        write_notice(db, Notice(key, "expiry", f"Audit results removed: {key[:12]}", body), now)

    registry.write(mark)
    if any((run_dir / name).is_file() for name in (MANIFEST, TOMBSTONE)):
        lock = RunLock.take(run_dir)  # raises an error if a run is in progress in the folder
        try:
            _bury(run, run_dir, now)
            (run_dir / LOCK).unlink(missing_ok=True)  # this process still holds the lock
        finally:
            lock.release()
    registry.write(finish)


def _bury(run: Row, run_dir: Path, now: datetime) -> None:
    """Mark a run as removed, and then remove its files.

    The mark is a file, the tombstone. It is written first, so that a partly removed run can be
    recognised.
    """
    stone = run_dir / TOMBSTONE
    if stone.is_file():
        if read_json(stone).get("key") != run["key"]:
            raise RegistryError(f"{stone} belongs to another run. Nothing was removed.")
    elif key_of(run_dir) != run["key"]:
        raise RegistryError(f"{run_dir} holds another result now. Nothing was removed.")
    else:
        decided = {}
        for path in sorted((run_dir / DECISIONS).glob("*.json")):
            decided[path.name] = file_sha256(path)
        names = (
            "key",
            "audit",
            "fingerprint",
            "answers_sha256",
            "verdict_sha256",
            "manifest_sha256",
            "suite",
            "suite_sha256",
            "decision",
            "started",
            "ended",
            "registered",
            "retention_days",
        )
        content = {name: run[name] for name in names} | {"removed": at(now), "decisions": decided}
        write_file(stone, (json.dumps(content, indent=1, sort_keys=True) + "\n").encode())
    _clear(run_dir)


def _clear(run_dir: Path) -> None:
    """Remove the files that this program wrote, except the decisions, the tombstone and the lock."""
    try:
        for name in _FOLDERS:
            folder = run_dir / name
            if folder.is_symlink():
                folder.unlink()
            elif folder.is_dir():
                shutil.rmtree(folder)
        for pattern in _FILES:
            for path in run_dir.glob(pattern):
                path.unlink(missing_ok=True)
        suite = panel_of(run_dir)
        if suite and not any((run / MANIFEST).is_file() for run in panel_runs(suite) or []):
            # The joint page of a suite is removed together with its last run.
            shutil.rmtree(suite / "report", ignore_errors=True)
    except OSError as error:
        raise disk_error(run_dir, error) from error
