"""A run directory on object storage: `run_dir=s3://bucket/my_run`. Its objects are the run; a folder here is a copy.

A PUT shows the whole object or nothing, and a read or listing after it sees it. Exactly once rests on these alone:

- A stage PUTs its shard straight into the store, as shards/<model>-<hash of its keys>.<attempt>.arrow. A chunk that is
  run again replaces its own object; an attempt never touches the objects of another.
- A run is committed by its manifest. The driver verifies every key of what is there, removes rows that are there twice,
  and then PUTs manifest.json once, `finished`, with the name and sha256 of every shard. Of a finished run nothing else
  counts: the object of a killed attempt's worker that arrives later is not listed, is not read, and is deleted by the
  next start.
- attempt.json names the latest driver. A worker looks there before it PUTs, and stops where it was superseded: a
  courtesy that saves work, on which nothing rests.

The driver works on a copy in this machine's temporary folder (`working_copy`). Credentials are the environment's, or
those that the machine's provider gives it; none is in a URL, so that none reaches a file."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
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
            return fs.FileSystem.from_uri(self.url())
        options = dict(parse_qsl(self.query))
        # Of an S3 that is not Amazon's, as the AWS command line reads it too.
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if "endpoint_override" not in options and endpoint:
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
