"""Allow only one driver of a run at a time.

A driver holds a lock on the run directory. In addition, a fence stops the writers of earlier
drivers.

Every start of a driver writes a new attempt id to RUN_DIR/attempt.json. A writer is a Ray task. It
may run on another node, and it may still write after its driver was killed. So a writer renames its
shard only while its attempt is the current attempt. It checks the attempt and renames the shard
under a shared flock. A new attempt takes this flock exclusively, so it cannot start between a
writer's check and rename.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from audit.core.errors import ShardError, SupersededError
from audit.core.guarded_files import read_bytes, read_json
from audit.shards.files import disk_error, write_file
from audit.shards.object_store import ObjectStore
from audit.shards.working_copy import store_of

ATTEMPT = "attempt.json"
LOCK = ".lock"
DRIVER = "driver.json"  # on object storage, this record takes the place of the lock file
_MAX_RECORD = 1 << 16
_FENCE = ".attempt.lock"
# This lock is held while LOCK is taken, so that two drivers never replace a stale LOCK at the same
# time.
_TAKING = ".lock.taking"
# A lock is held for milliseconds. A process that hangs must not block a new driver for longer.
_FENCE_WAIT_S = 30.0

_NO_FLOCK = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_HELD = {errno.EAGAIN, errno.EACCES}


def now() -> str:
    """Return the present time in UTC, in ISO 8601 format, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


# --- fencing -------------------------------------------------------------------------------------


def start_attempt(run_dir: Path) -> str:
    """Start a new attempt, whose writers alone may add shards to a run directory.

    Parameters
    ----------
    run_dir : Path
        Run directory.

    Returns
    -------
    str
        Id of the new attempt.

    Raises
    ------
    ShardError
        If attempt.json cannot be written.
    """
    attempt = uuid.uuid4().hex
    record = {"attempt": attempt, "started": now(), **_identity()}
    with _locked(run_dir / _FENCE, fcntl.LOCK_EX):
        write_file(run_dir / ATTEMPT, json.dumps(record, indent=1).encode())
    return attempt


def current_attempt(run_dir: Path) -> str:
    """Return the id of the current attempt, from attempt.json.

    Parameters
    ----------
    run_dir : Path
        Run directory.

    Returns
    -------
    str
        Id of the latest attempt.

    Raises
    ------
    ShardError
        If attempt.json does not exist or cannot be read.
    """
    path = run_dir / ATTEMPT
    try:
        return str(read_json(path)["attempt"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ShardError(
            f"{path} cannot be read ({error}), so no shard can be written here. Type the run's "
            "command again. On a cluster, run_dir must be on a file system that all nodes share."
        ) from error


def check_attempt(run_dir: Path, attempt: str) -> None:
    """Raise SupersededError if an attempt is not the current attempt.

    Parameters
    ----------
    run_dir : Path
        Run directory.
    attempt : str
        Attempt id of the writer.

    Raises
    ------
    SupersededError
        If a newer driver has started.
    ShardError
        If attempt.json cannot be read.
    """
    _compare(str(run_dir), attempt, current_attempt(run_dir))


def check_stored_attempt(store: ObjectStore, attempt: str) -> None:
    """Raise SupersededError if an attempt is not the current attempt of a run on object storage.

    Parameters
    ----------
    store : ObjectStore
        Store with the objects of the run.
    attempt : str
        Attempt id of the writer.

    Raises
    ------
    SupersededError
        If a newer driver has started.

    Notes
    -----
    Object storage has no fence, so a newer driver may start between this check and a write.
    """
    # "" differs from every attempt id, so every writer counts as superseded until the next start
    # writes an id.
    current = _record_in(store.get(ATTEMPT)).get("attempt", "")
    _compare(store.shown(), attempt, str(current))


def _compare(place: str, attempt: str, current: str) -> None:
    if current != attempt:
        whose = (
            f"attempt {current[:8]}, a later start of the run"
            if current
            else "no attempt: its files were deleted"
        )
        raise SupersededError(
            f"This writer was superseded: it belongs to attempt {attempt[:8]}, and {place} now "
            f"belongs to {whose}. Nothing was written; the later driver does this work itself."
        )


@contextmanager
def as_attempt(run_dir: Path, attempt: str) -> Iterator[None]:
    """Hold the fence of an attempt while files are changed in the `with` block.

    Parameters
    ----------
    run_dir : Path
        Run directory.
    attempt : str
        Attempt id of the writer.

    Raises
    ------
    SupersededError
        If the attempt is not the current attempt when the `with` block begins.
    """
    with _locked(run_dir / _FENCE, fcntl.LOCK_SH):
        check_attempt(run_dir, attempt)
        yield


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    fd = _opened(path)
    try:
        _lock_within(fd, kind, path)
        yield
    finally:
        os.close(fd)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise disk_error(path, error) from error


def _lock_within(fd: int, kind: int, path: Path) -> None:
    deadline = time.monotonic() + _FENCE_WAIT_S
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno in _NO_FLOCK:
                # The file system has no locks, so only the check of the attempt is left. The final
                # verification removes rows that were written too late.
                return
            if error.errno not in _HELD:
                raise disk_error(path, error) from error
        if time.monotonic() > deadline:
            warnings.warn(
                f"{path} stayed locked for {_FENCE_WAIT_S:.0f} s. The program goes on without it.",
                stacklevel=4,
            )
            return
        time.sleep(0.01)


# --- the lock on a run directory -----------------------------------------------------------------


@dataclass
class RunLock:
    """Represent the lock on a run directory, which at most one live driver can hold.

    The lock is held from `take` until `release` or the end of the process.

    Attributes
    ----------
    path : Path
        Path of the lock file.
    """

    path: Path
    _fd: int | None = field(default=None, repr=False)
    _claimed: ObjectStore | None = field(default=None, repr=False)

    @classmethod
    def take(cls, run_dir: Path) -> RunLock:
        """Lock a run directory, and replace the lock of a dead driver.

        Parameters
        ----------
        run_dir : Path
            Run directory.

        Returns
        -------
        RunLock
            The lock, held by this process.

        Raises
        ------
        ShardError
            If another live driver holds the lock.
        """
        with _locked(run_dir / _TAKING, fcntl.LOCK_EX):
            lock = cls._take(run_dir)
        try:
            lock._claim(run_dir)
        except BaseException:
            lock.release()
            raise
        return lock

    @classmethod
    def _take(cls, run_dir: Path) -> RunLock:
        """Take the lock, and record this process in the lock file as the holder.

        Only one driver at a time may call this method. Otherwise two drivers might both find that
        the holder of the lock is dead. The first driver might then remove the new, valid lock file
        of the second.
        """
        lock = cls(run_dir / LOCK)
        for _ in range(3):  # A stale lock file is replaced, and then locked again.
            fd = _opened(lock.path)
            holder = _record_in(os.pread(fd, 4096, 0))
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in _HELD and _lives(holder) is False:
                    # The driver was killed, but one of its child processes still holds the
                    # inherited lock.
                    os.close(fd)
                    lock.path.unlink(missing_ok=True)
                    continue
                if error.errno in _HELD or (error.errno in _NO_FLOCK and _lives(holder)):
                    os.close(fd)
                    raise _in_use(run_dir, holder) from error
                if error.errno not in _NO_FLOCK:
                    os.close(fd)
                    raise disk_error(lock.path, error) from error
                warnings.warn(
                    f"The file system of {run_dir} has no file locks. A second driver on another "
                    "machine would not be noticed at once (its start supersedes this one). Run "
                    "one driver per run directory.",
                    stacklevel=3,
                )
            if not _same_file(fd, lock.path):
                os.close(fd)
                continue
            lock._write_holder(fd)
            lock._fd = fd
            return lock
        raise ShardError(
            f"{lock.path} is replaced too quickly by other drivers. Expected a single driver for "
            f"{run_dir}: start one only."
        )

    def release(self) -> None:
        """Release the lock on the directory; a second call has no effect."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None
        if self._claimed is not None:
            store, self._claimed = self._claimed, None
            # If the record stays, the next start treats it as the record of a dead driver.
            with suppress(ShardError):
                # The record is kept if a later start on another machine wrote it.
                if _record_in(store.get(DRIVER)) == _identity():
                    store.delete(DRIVER)

    def _claim(self, run_dir: Path) -> None:
        """Record in object storage, which has no locks, which process drives the run.

        If the recorded driver lives on this machine, this method raises ShardError. If the recorded
        driver is on another machine, this process cannot check it, and supersedes it.
        """
        stored = store_of(run_dir)
        if stored is None:
            return
        store = stored[0]
        store.check()
        holder = _record_in(store.get(DRIVER))
        if _lives(holder):
            raise _in_use(run_dir, holder)
        if holder and _lives(holder) is None:
            warnings.warn(
                f"{store.shown()} was last driven by {_who(holder)}, on another machine. If that "
                "driver still runs, this start replaces it: it stops at its next shard, and no "
                "row is counted twice.",
                stacklevel=3,
            )
        store.put(DRIVER, json.dumps(_identity()).encode())
        self._claimed = store

    def _write_holder(self, fd: int) -> None:
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({**_identity(), "since": now()}).encode(), 0)
        except OSError as error:
            os.close(fd)
            raise disk_error(self.path, error) from error


def may_live(run_dir: Path) -> bool:
    """Return whether a live driver may hold a run directory.

    Parameters
    ----------
    run_dir : Path
        Run directory.

    Returns
    -------
    bool
        False if no driver holds the directory, or if the last driver is known to be dead. True
        otherwise.
    """
    try:
        holder = _record_in(read_bytes(run_dir / LOCK, _MAX_RECORD))
    except OSError:
        return False
    return bool(holder) and _lives(holder) is not False


def _in_use(run_dir: Path, holder: dict[str, Any]) -> ShardError:
    return ShardError(
        f"{run_dir} is in use by another run ({_who(holder)}). Wait for that run or stop it, then "
        "type this command again: it continues there. Or choose another directory, such as "
        f"run_dir={run_dir}_2"
    )


def _who(holder: dict[str, Any]) -> str:
    since = f" since {holder['since']}" if "since" in holder else ""
    return f"process {holder.get('pid', '?')} on {holder.get('host', '?')}{since}"


def _identity() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "pid_space": _pid_space(),
        "born": _born(os.getpid()),
    }


def _pid_space() -> str:
    """Return an identifier of the process namespace.

    Two containers may have the same host name although the process ids in one are unrelated to
    those in the other.
    """
    link = Path("/proc/self/ns/pid")
    return str(link.readlink()) if link.is_symlink() else ""


def _born(pid: int) -> str:
    """Return the start time of a process in clock ticks; "" if it is unknown or the process is
    dead.

    The start time distinguishes two processes that had the same id at different times.
    """
    try:
        fields = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()
        )
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]  # A zombie process holds no lock.


def _record_in(data: bytes | None) -> dict[str, Any]:
    try:
        record = json.loads(data or b"{}")
    except ValueError:  # The process that wrote the record died before the record was complete.
        return {}
    return record if isinstance(record, dict) else {}


def _lives(holder: dict[str, Any]) -> bool | None:
    """Return whether the recorded holder lives on this machine; None if this cannot be checked."""
    here = holder.get("host") == socket.gethostname() and holder.get("pid_space") == _pid_space()
    return _born(int(holder["pid"])) == holder["born"] if here and holder.get("born") else None


def _same_file(fd: int, path: Path) -> bool:
    """Return False if the lock file was replaced between opening it and locking it."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
