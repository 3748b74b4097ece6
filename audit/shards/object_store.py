"""A run directory on object storage: `run_dir=s3://bucket/my_run`. Its objects are the run; a folder here is a copy.

An object store has no rename and no locks. What it has: a PUT shows the whole object or nothing, and a read or listing
after it sees it. Exactly once rests on these alone:

- A stage PUTs its shard straight into the store, as shards/<model>-<hash of its keys>.<attempt>.arrow. A chunk that is
  run again replaces its own object; an attempt never touches the objects of another.
- A run is committed by its manifest. The driver verifies every key of what is there, removes rows that are there twice,
  and then PUTs manifest.json once, `finished`, with the name and sha256 of every shard. Of a finished run nothing else
  counts: the object of a killed attempt's worker that arrives later is not listed, is not read, and is deleted by the
  next start.
- attempt.json names the latest driver. A worker looks there before it PUTs, and stops where it was superseded: a
  courtesy that saves work, on which nothing rests.

The driver works on a copy in this machine's temporary folder: `write_file` writes there and here (write-through), and
`fetch` brings what the stages stored. Commands that read a run fetch it likewise. Credentials are the environment's, or
those that the machine's provider gives it; none is in a URL, so that none reaches a file.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, urlsplit

from audit.errors import ConfigError, ShardError
from audit.shards.redact import redact

_PARAMETERS = {
    "s3": {"region", "scheme", "endpoint_override"},
    "gs": {"scheme", "endpoint_override"},
    "abfs": {"enable_tls", "blob_storage_authority", "dfs_storage_authority"},
    "abfss": {"enable_tls", "blob_storage_authority", "dfs_storage_authority"},
}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_EXAMPLE = "Expected such as run_dir=s3://my-bucket/my_run"
_NOT_FETCHED = ("quarantine/", "tasks/")
_AT_ONCE = 8  # objects that are fetched side by side
_NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|bucket does not exist", re.I)
_REFUSED = re.compile(r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|INVALID_SIGNATURE|\b40[13]\b", re.I)
_SILENT = re.compile(r"NETWORK_CONNECTION|curlCode|timed? ?out", re.I)


def is_url(place: Path | str) -> bool:
    """Whether this names object storage and not a folder."""
    return isinstance(place, str) and _URL.match(place) is not None


@dataclass(frozen=True)
class ObjectStore:
    """The objects below one URL. root: bucket/path. Every method raises ShardError in a sentence where it fails."""

    scheme: str
    root: str
    query: str = ""

    def shown(self, name: str = "") -> str:
        """As people read it."""
        return f"{self.scheme}://{self.root}{'/' if name else ''}{name}"

    def url(self, name: str = "") -> str:
        """As another process opens it."""
        return self.shown(name) + (f"?{self.query}" if self.query else "")

    @property
    def parent(self) -> ObjectStore:
        return replace(self, root=self.root.rpartition("/")[0])

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        """The file system, and bucket/path in it."""
        from pyarrow import fs  # here: what is refused first needs no Arrow

        if self.scheme != "s3":
            found: tuple[Any, str] = fs.FileSystem.from_uri(self.url())
            return found
        options = dict(parse_qsl(self.query))
        if "endpoint_override" not in options and (endpoint := _endpoint()):
            split = urlsplit(endpoint)
            options |= {"endpoint_override": split.netloc + split.path.rstrip("/"), "scheme": split.scheme}
        region = options.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if region is None and "endpoint_override" not in options:
            region = fs.resolve_s3_region(self.root.partition("/")[0])
        # Delayed: an object is one PUT. Otherwise it is a multipart upload of three requests (as whole, but slower).
        options["region"] = region or "us-east-1"
        return fs.S3FileSystem(**options, allow_delayed_open=True), self.root

    def check(self) -> None:
        """ShardError where the bucket is not there, or does not let us look."""
        from pyarrow.fs import FileType

        with self._told("looked at"):
            files, root = self._opened
            bucket = root.partition("/")[0]
            found = files.get_file_info(bucket)
        if found.type == FileType.NotFound:
            raise ShardError(
                f"{self.shown()} cannot be used: the bucket {bucket} does not exist, and none is made here. Create it, "
                f"or name another. {_EXAMPLE}"
            )

    def put(self, name: str, data: bytes | memoryview) -> None:
        """The object whole or not at all; what was there is replaced."""
        with self._told("written", name), ThreadPoolExecutor(1) as aside:  # Ctrl-C there would close a half object
            aside.submit(self._put, name, data).result()

    def _put(self, name: str, data: bytes | memoryview) -> None:
        files, root = self._opened
        with files.open_output_stream(f"{root}/{name}") as stream:
            stream.write(data)

    def get(self, name: str) -> bytes | None:
        """An object's content; None where there is none."""
        whole = io.BytesIO()
        return whole.getvalue() if self.copy(name, whole) else None

    def copy(self, name: str, to: BinaryIO) -> bool:
        """An object's content into a file; False where there is none."""
        try:
            with self._told("read", name):
                files, root = self._opened
                with files.open_input_stream(f"{root}/{name}") as stream:
                    shutil.copyfileobj(stream, to, 1 << 20)
        except FileNotFoundError:
            return False
        return True

    def delete(self, name: str) -> None:
        """No error where there is none."""
        with suppress(FileNotFoundError), self._told("deleted", name):
            files, root = self._opened
            files.delete_file(f"{root}/{name}")

    def objects(self) -> dict[str, tuple[int, int]]:
        """Size and time (ns) of each object by its name below the URL, sorted."""
        from pyarrow.fs import FileSelector, FileType

        with self._told("listed"):
            files, root = self._opened
            found = files.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
        return {
            one.path[len(root) + 1 :]: (one.size, one.mtime_ns or 0)
            for one in sorted(found, key=lambda one: one.path)
            if one.type == FileType.File
        }

    @contextmanager
    def _told(self, done: str, name: str = "") -> Iterator[None]:
        """What the store says as one sentence."""
        from pyarrow import ArrowException

        try:
            yield
        except (OSError, ArrowException) as error:
            if getattr(error, "errno", None) is not None:
                raise  # no such object, or this machine's own disk
            raise ShardError(
                f"{self.shown(name)} could not be {done}: {self._why(redact(' '.join(str(error).split())))} What was "
                "stored before stays valid; the same command again goes on where this one stopped."
            ) from None  # the store's own text is in it

    def _why(self, text: str) -> str:
        if _NO_BUCKET.search(text):
            return "the bucket does not exist (any more)."
        if _REFUSED.search(text):
            variables = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, of a session, AWS_SESSION_TOKEN"
            return (
                f"access was refused ({text}). Credentials are read from the environment of every node"
                f"{f': {variables}' if self.scheme == 's3' else ''}; they need to read, list, write and delete there."
            )
        if _SILENT.search(text):
            return f"the store does not answer ({text})."
        return f"{text}."


def _endpoint() -> str | None:
    """Of an S3 that is not Amazon's, as the AWS command line reads it too."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


@cache
def open_store(url: str) -> ObjectStore:
    """The store that a URL names; nothing is asked of it yet. ConfigError for a URL that cannot be one, or that holds
    a key: it would be written into the manifest."""
    split = urlsplit(url)
    root = (split.netloc + split.path).strip("/")
    holds_login = "@" in split.netloc and (not split.scheme.startswith("abfs") or ":" in split.netloc.split("@")[0])
    if holds_login or re.search(r"key|secret|token|passw|sig", split.query, re.I):
        raise ConfigError(
            f"A {split.scheme}:// URL with a key or password in it is refused: a run_dir is written into files and "
            f"logs. Credentials belong into the environment, such as AWS_ACCESS_KEY_ID. {_EXAMPLE}"
        )
    if split.scheme not in _PARAMETERS:
        more = " Azure is abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/my_run." if split.scheme == "az" else ""
        raise ConfigError(
            f"Object storage is {', '.join(f'{one}://' for one in _PARAMETERS)}, not {split.scheme}://.{more} "
            f"{_EXAMPLE}"
        )
    unknown = sorted({key for key, _ in parse_qsl(split.query, keep_blank_values=True)} - _PARAMETERS[split.scheme])
    if unknown:
        known = ", ".join(sorted(_PARAMETERS[split.scheme]))
        raise ConfigError(f"A {split.scheme}:// URL has no parameter {', '.join(unknown)}. Known: {known}.")
    if "/" not in root or ".." in root.split("/") or split.fragment:
        raise ConfigError(f"{split.scheme}://{root} names no folder in a bucket. {_EXAMPLE}")
    return ObjectStore(split.scheme, root, split.query)


# --- working copies --------------------------------------------------------------------------------------------------

_copies: dict[Path, ObjectStore] = {}  # of this process, by their folder


@cache
def _temporary() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="audit-run-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def working_copy(url: str) -> Path:
    """The folder of this process that stands for a URL: not there until something is put in; gone with the process."""
    store = open_store(url)
    folder = _temporary() / str(len(_copies)) / PurePosixPath(store.root).name
    _copies[folder] = store
    return folder


def run_folder(place: Path | str) -> Path:
    """A run directory to read: the path itself, or a working copy of what a URL holds now. Raises AuditError."""
    if not is_url(place):
        return Path(place)
    store = open_store(str(place))
    if PurePosixPath(store.root).name == "report" and store.parent.get("manifest.json") is not None:
        return run_folder(store.parent.url()) / "report"  # a run's own report stands for the run
    folder = working_copy(store.url())
    fetch(folder)
    if not folder.exists():
        raise ConfigError(f"{store.shown()} holds nothing. Expected the place of a run, such as s3://my-bucket/my_run.")
    return folder


def local_folder(text: str) -> Path:
    """argparse type of a folder on this machine: a URL is refused in a sentence."""
    from argparse import ArgumentTypeError

    if is_url(text):
        raise ArgumentTypeError(_not_here(text))
    return Path(text)


def need_folder(run_dir: str | None, what: str) -> None:
    """ConfigError where `what` is to be run on object storage and needs folders."""
    if run_dir and is_url(run_dir):
        raise ConfigError(f"{what} needs a folder as run_dir: {_not_here(run_dir)}")


def _not_here(url: str) -> str:
    return (
        f"{url.partition('?')[0]} is object storage, which is read and written by a single sweep, perturb, memory or "
        "validity (run_dir=), and read by audit report, audit gate and audit.load. For all else copy the run to a "
        "folder first, such as with: aws s3 sync s3://my-bucket/my_run outputs/my_run"
    )


def store_of(path: Path) -> tuple[ObjectStore, str] | None:
    """The store of which `path` lies in a working copy, and its name there; None for any other path."""
    for folder, store in _copies.items():
        if path.is_relative_to(folder):
            return store, "" if path == folder else path.relative_to(folder).as_posix()
    return None


def publish(path: Path, data: bytes | memoryview | None = None) -> None:
    """PUT a file of a working copy; nothing for any other path. data: its content, where that is at hand."""
    if _copies and (found := store_of(path)) is not None:
        found[0].put(found[1], path.read_bytes() if data is None else data)


def withdraw(path: Path) -> None:
    """DELETE what a file of a working copy was; nothing for any other path."""
    if _copies and (found := store_of(path)) is not None:
        found[0].delete(found[1])


def named(text: object) -> str:
    """A text for people, with the URL in place of every path of a working copy."""
    shown = str(text)
    for folder, store in _copies.items():
        shown = shown.replace(str(folder), store.shown())
    return shown


def where(path: Path) -> str:
    """How another process, maybe on another node, opens a file: by its path, or its URL. See `local_file`."""
    found = store_of(path) if _copies else None
    return str(path.resolve()) if found is None else found[0].url(found[1])


@cache
def local_file(place: str) -> Path:
    """A file of a run to be read here. Of a URL it is fetched once a process, into a file without a name: it is gone
    with the process, however that ends."""
    if not is_url(place):
        return Path(place)
    store = open_store(place)
    file = tempfile.TemporaryFile(prefix="audit-run-")  # noqa: SIM115 - kept open for as long as the process lives
    if not store.parent.copy(PurePosixPath(store.root).name, file):
        raise ShardError(f"{store.shown()} is not there. Type the run's command again: it writes it anew.")
    file.flush()
    return Path(f"/proc/self/fd/{os.dup(file.fileno())}")


# --- fetching ---------------------------------------------------------------------------------------------------------


def fetch(folder: Path, *, only: str = "", clean: bool = False) -> None:
    """Bring a working copy up to date: objects that are new or changed since, and no shard that is gone.

    Of a finished run only the shards that its manifest lists. only: names that begin so. clean: DELETE the shards that
    count no more and the lists of tasks of earlier attempts; for the driver that holds the run.
    """
    store = _copies[folder]
    store.check()
    listed = _committed(store)  # before the objects are: what is committed then stays
    wanted: dict[str, tuple[int, int]] = {}
    for name, facts in store.objects().items():
        late = listed is not None and name.startswith("shards/") and name.removeprefix("shards/") not in listed
        if clean and (late or name.startswith("tasks/")):
            store.delete(name)
        if late or not name.startswith(only) or name.startswith(_NOT_FETCHED):
            continue
        if not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise ShardError(f"{store.shown(name)} has a name that is no path. Expected the objects of a run alone.")
        wanted[name] = facts
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda name: _fetch_one(store, folder, name, wanted[name]), wanted))
    for path in (folder / "shards").glob("*"):
        if path.relative_to(folder).as_posix() not in wanted:
            path.unlink()


def fetch_shards(run_dir: Path) -> None:
    """What the stages stored since, into the driver's working copy; nothing for any other folder."""
    if run_dir in _copies:
        fetch(run_dir, only="shards/")


def _committed(store: ObjectStore) -> set[str] | None:
    """The shards that a finished run's manifest lists; None for a run that is not finished."""
    try:
        manifest = json.loads(store.get("manifest.json") or b"{}")
        finished = manifest.get("status") == "finished"
        return {str(shard["file"]) for shard in manifest["shards"]} if finished else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # not a manifest: who reads the copy says so


def _fetch_one(store: ObjectStore, folder: Path, name: str, facts: tuple[int, int]) -> None:
    path = folder / name
    if path.is_file() and (path.stat().st_size, path.stat().st_mtime_ns) == facts:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.tmp")
    try:
        with beside.open("wb") as file:
            if not store.copy(name, file):
                raise ShardError(f"{store.shown(name)} was deleted while the run was read: type the command again.")
    except OSError as error:
        raise ShardError(
            f"{store.shown(name)} cannot be copied to {folder}: {error}. Set TMPDIR to a larger disk."
        ) from error
    os.utime(beside, ns=(facts[1], facts[1]))
    beside.replace(path)
