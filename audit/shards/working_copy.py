"""Keep local working copies of runs whose files are on object storage.

`publish` uploads a file of the driver's copy, and `fetch` downloads the objects that stages have
stored. A command that reads a run first fetches the run. All other code works on local paths. The
docstring of `object_store` states which objects count, and why.
"""

import atexit
import json
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path, PurePosixPath

from audit.core.aliases import register_alias
from audit.core.errors import ConfigError, ShardError
from audit.shards.object_store import ObjectStore, is_url, open_store

_NOT_FETCHED = ("quarantine/", "tasks/")
_AT_ONCE = 8  # number of objects fetched in parallel

# maps the folder of each working copy of this process to its store
_copies: dict[Path, ObjectStore] = {}


@cache
def _temporary() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="audit-run-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def working_copy(url: str) -> Path:
    """Return the folder in which this process keeps its working copy of a URL.

    The folder is created when the first file is written into it. It is removed when the process
    ends.
    """
    store = open_store(url)
    folder = _temporary() / str(len(_copies)) / PurePosixPath(store.root).name
    _copies[folder] = store
    register_alias(folder, store.shown())
    return folder


def own_run(path: Path) -> Path:
    """Return the directory of an inner run, such as a judge's run inside the run that it judges.

    Parameters
    ----------
    path : Path
        The inner directory.

    Returns
    -------
    Path
        The path itself. If the path lies in a working copy, the folder of a separate working copy
        for the inner run.
    """
    stored = store_of(path)
    return path if stored is None else working_copy(stored[0].url(stored[1]))


def run_folder(place: Path | str) -> Path:
    """Return a run directory from which a run can be read.

    Parameters
    ----------
    place : Path or str
        A folder, or a URL of object storage.

    Returns
    -------
    Path
        The folder itself, or a working copy with the present contents of the URL.

    Raises
    ------
    AuditError
        If the place contains no run, or cannot be read.
    """
    if not is_url(place):
        path = Path(place)
        if path.is_file():
            is_report = path.parent.name == "report"
            run = path.parent.parent if is_report else path.parent
            example = f"{run}"
            if not is_report and not (run / "manifest.json").is_file():
                example = (
                    f"outputs/my_run. A log becomes a run by audit import {path} -o outputs/my_run"
                )
            raise ConfigError(
                f"RUN_DIR is {path}, a file. Expected the folder of a run. Example: {example}"
            )
        return path
    store = open_store(str(place))
    if PurePosixPath(store.root).name == "report" and store.parent.get("manifest.json") is not None:
        # The folder `report` belongs to the run in the folder above it.
        return run_folder(store.parent.url()) / "report"
    folder = working_copy(store.url())
    fetch(folder)
    if not folder.exists():
        raise ConfigError(
            f"{store.shown()} contains nothing. Expected the place of a run. Example: "
            "s3://my-bucket/my_run."
        )
    return folder


def local_folder(text: str) -> Path:
    """Return a folder on this machine (an argparse type); a URL is refused."""
    from argparse import ArgumentTypeError

    if is_url(text):
        raise ArgumentTypeError(_not_here(text))
    return Path(text)


def need_folder(run_dir: str | None, run_name: str) -> None:
    """Raise ConfigError if a run that needs a local folder has a URL as run_dir.

    Parameters
    ----------
    run_dir : str or None
        A folder or a URL.
    run_name : str
        Name of the run, for the error message.

    Raises
    ------
    ConfigError
        If run_dir is a URL.
    """
    if run_dir and is_url(run_dir):
        raise ConfigError(f"{run_name} needs a folder as run_dir: {_not_here(run_dir)}")


def _not_here(url: str) -> str:
    return (
        f"{url.partition('?')[0]} is object storage. It can be written by single sweep, perturb, "
        "memory or validity runs (run_dir=), and read by audit report, audit gate and audit.load. "
        "For other commands, copy the run to a folder first, such as with: aws s3 sync "
        "s3://my-bucket/my_run outputs/my_run"
    )


def store_of(path: Path) -> tuple[ObjectStore, str] | None:
    """Return the store and the object name that belong to a path in a working copy.

    Parameters
    ----------
    path : Path
        Any path.

    Returns
    -------
    tuple of (ObjectStore, str) or None
        The store and the name; None if the path does not lie in a working copy.
    """
    for folder, store in _copies.items():
        if path.is_relative_to(folder):
            return store, "" if path == folder else path.relative_to(folder).as_posix()
    return None


def publish(path: Path) -> None:
    """Upload a file of a working copy (PUT); do nothing for any other path."""
    if (stored := store_of(path)) is not None:
        stored[0].put(stored[1], path.read_bytes())


def withdraw(path: Path) -> None:
    """Delete the object that belongs to a file of a working copy; do nothing for any other path."""
    if (stored := store_of(path)) is not None:
        stored[0].delete(stored[1])


def where(path: Path) -> str:
    """Return the path or URL with which another process, possibly on another node, can open a file.

    The other process passes this path or URL to `local_file`.
    """
    stored = store_of(path)
    return str(path.resolve()) if stored is None else stored[0].url(stored[1])


@cache
def local_file(place: str) -> Path:
    """Return a local file for a path or URL of a file of a run.

    A URL is fetched once per process, into a file without a name. The file is deleted when the
    process ends, even if it is killed.
    """
    if not is_url(place):
        return Path(place)
    store = open_store(place)
    file = tempfile.TemporaryFile(prefix="audit-run-")  # noqa: SIM115 - kept open for as long as the process lives
    if not store.parent.copy(PurePosixPath(store.root).name, file):
        raise ShardError(
            f"{store.shown()} does not exist. Type the run's command again to write it anew."
        )
    file.flush()
    return Path(f"/proc/self/fd/{os.dup(file.fileno())}")


def fetch(folder: Path, *, only: str = "", clean: bool = False) -> None:
    """Update a working copy from object storage.

    Parameters
    ----------
    folder : Path
        The working copy.
    only : str
        Prefix of the names to fetch.
    clean : bool
        True also deletes the shards that the manifest of a finished run does not list, and the task
        lists of earlier attempts. Only the driver that holds the run may set this.

    Raises
    ------
    ShardError
        If the store fails, or if the name of an object is not a path.

    Notes
    -----
    New and changed objects are fetched, and shards that no longer exist are removed. If the run is
    finished, only the shards that its manifest lists are fetched.
    """
    store = _copies[folder]
    store.check()
    # The manifest's list is read before the objects are listed, so that no shard is lost if the run
    # is committed in between.
    listed = _committed(store)
    wanted: dict[str, tuple[int, int]] = {}
    for name, facts in store.objects().items():
        late = (
            listed is not None
            and name.startswith("shards/")
            and name.removeprefix("shards/") not in listed
        )
        if clean and (late or name.startswith("tasks/")):
            store.delete(name)
        if late or not name.startswith(only) or name.startswith(_NOT_FETCHED):
            continue
        if not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise ShardError(
                f"{store.shown(name)} has a name that is not a path. Expected only the objects of "
                "a run."
            )
        wanted[name] = facts
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda name: _fetch_one(store, folder, name, wanted[name]), wanted))
    for path in (folder / "shards").glob("*") if "shards/".startswith(only) else ():
        if path.relative_to(folder).as_posix() not in wanted:
            path.unlink()


def fetch_shards(run_dir: Path) -> None:
    """Fetch the shards that stages have stored, into the driver's working copy.

    A folder that is not a working copy is left unchanged.
    """
    if run_dir in _copies:
        fetch(run_dir, only="shards/")


def _committed(store: ObjectStore) -> set[str] | None:
    """Return the names of the shards that the manifest of a finished run lists.

    Return None if the run is not finished.
    """
    try:
        manifest = json.loads(store.get("manifest.json") or b"{}")
        finished = manifest.get("status") == "finished"
        return {str(shard["file"]) for shard in manifest["shards"]} if finished else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _fetch_one(store: ObjectStore, folder: Path, name: str, facts: tuple[int, int]) -> None:
    path = folder / name
    if path.is_file() and (path.stat().st_size, path.stat().st_mtime_ns) == facts:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.tmp")
    try:
        with beside.open("wb") as file:
            if not store.copy(name, file):
                raise ShardError(
                    f"{store.shown(name)} was deleted while the run was read. Run the same command "
                    "again."
                )
    except OSError as error:
        raise ShardError(
            f"{store.shown(name)} cannot be copied to {folder}: {error}. Set TMPDIR to a larger disk."
        ) from error
    os.utime(beside, ns=(facts[1], facts[1]))
    beside.replace(path)
