"""Store a run as objects (`run_dir=s3://bucket/my_run`); the driver works on a local copy.

A PUT stores a complete object or nothing, and every later read or listing shows the object. The
following rules ensure that each key is stored exactly once:

- A stage PUTs its shard directly into the store, under the name shards/<model>-<hash of its
  keys>.<attempt>.arrow. If a chunk is run again, it replaces its own object. An attempt never
  changes the objects of another attempt.
- A run is committed by its manifest. The driver verifies every key and removes rows that occur
  twice. It then PUTs manifest.json once, as `finished`, with the name and the sha256 of every
  shard. In a finished run, only these shards count. A worker of a killed attempt may store an
  object later. That object is not listed and not read, and the next start deletes it.
- attempt.json names the latest driver. A worker reads this file before a PUT, and stops if its
  attempt is not the latest. This check only saves work; no guarantee depends on it.

The local copy is in the temporary folder of the machine (`working_copy`). Credentials come from the
environment or from the provider of the machine. A URL must not contain credentials, so they are
never written into a file.
"""

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

from audit.core.errors import ConfigError, ShardError
from audit.shards.redact import redact

_PARAMETERS = {
    "s3": {"region", "scheme", "endpoint_override"},
    "gs": {"scheme", "endpoint_override"},
    "abfs": {"enable_tls", "blob_storage_authority", "dfs_storage_authority"},
    "abfss": {"enable_tls", "blob_storage_authority", "dfs_storage_authority"},
}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_EXAMPLE = "Example: run_dir=s3://my-bucket/my_run"
_NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|bucket does not exist", re.I)
_REFUSED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|INVALID_SIGNATURE|\b40[13]\b", re.I
)
_SILENT = re.compile(r"NETWORK_CONNECTION|curlCode|timed? ?out", re.I)


def is_url(place: Path | str) -> bool:
    """Return True if a place is a URL of object storage, and False if it is a folder."""
    return isinstance(place, str) and _URL.match(place) is not None


@dataclass(frozen=True)
class ObjectStore:
    """Access the objects below one URL.

    A method that fails raises ShardError.

    Attributes
    ----------
    scheme : str
        Scheme of the URL, such as s3.
    root : str
        The bucket and the path in it, as bucket/path.
    query : str
        Parameters of the URL.
    """

    scheme: str
    root: str
    query: str = ""

    def shown(self, name: str = "") -> str:
        """Return the URL of an object without its parameters, for display."""
        return f"{self.scheme}://{self.root}{'/' if name else ''}{name}"

    def url(self, name: str = "") -> str:
        """Return the URL with which another process can open an object."""
        return self.shown(name) + (f"?{self.query}" if self.query else "")

    @property
    def parent(self) -> ObjectStore:
        """Return the store of the parent folder."""
        return replace(self, root=self.root.rpartition("/")[0])

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        """Return the file system of the store, and the store's bucket/path in this file system."""
        # Arrow is imported here, because an invalid URL is refused without it.
        from pyarrow import fs

        if self.scheme != "s3":
            return fs.FileSystem.from_uri(self.url())
        options = dict(parse_qsl(self.query))
        # The AWS command line also reads these variables, with which a user selects the S3 service
        # of another provider.
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if "endpoint_override" not in options and endpoint:
            split = urlsplit(endpoint)
            options |= {
                "endpoint_override": split.netloc + split.path.rstrip("/"),
                "scheme": split.scheme,
            }
        region = (
            options.get("region")
            or os.environ.get("AWS_REGION")
            or os.environ.get("AWS_DEFAULT_REGION")
        )
        if region is None and "endpoint_override" not in options:
            region = fs.resolve_s3_region(self.root.partition("/")[0])
        # Delayed opening makes each object a single PUT. A multipart upload needs three requests
        # and is slower.
        options["region"] = region or "us-east-1"
        return fs.S3FileSystem(**options, allow_delayed_open=True), self.root

    def check(self) -> None:
        """Raise ShardError if the bucket does not exist or cannot be read.

        Raises
        ------
        ShardError
            If the bucket cannot be used.
        """
        from pyarrow.fs import FileType

        with self._explained("looked at"):
            files, root = self._opened
            bucket = root.partition("/")[0]
            info = files.get_file_info(bucket)
        if info.type == FileType.NotFound:
            raise ShardError(
                f"{self.shown()} cannot be used: the bucket {bucket} does not exist, and this "
                f"program creates none. Create this bucket, or name another bucket. {_EXAMPLE}"
            )

    def put(self, name: str, data: bytes | memoryview) -> None:
        """Write an object completely or not at all; an existing object is replaced.

        Parameters
        ----------
        name : str
            Name of the object below the URL.
        data : bytes or memoryview
            Contents of the object.
        """
        # The object is written in another thread, because Ctrl-C in this thread would store an
        # incomplete object.
        with self._explained("written", name), ThreadPoolExecutor(1) as aside:
            aside.submit(self._put, name, data).result()

    def _put(self, name: str, data: bytes | memoryview) -> None:
        files, root = self._opened
        with files.open_output_stream(f"{root}/{name}") as stream:
            stream.write(data)

    def get(self, name: str) -> bytes | None:
        """Return the contents of an object; None if it does not exist."""
        whole = io.BytesIO()
        return whole.getvalue() if self.copy(name, whole) else None

    def copy(self, name: str, to: BinaryIO) -> bool:
        """Copy the contents of an object into a file.

        Parameters
        ----------
        name : str
            Name of the object below the URL.
        to : BinaryIO
            File to write to.

        Returns
        -------
        bool
            False if the object does not exist.
        """
        try:
            with self._explained("read", name):
                files, root = self._opened
                with files.open_input_stream(f"{root}/{name}") as stream:
                    shutil.copyfileobj(stream, to, 1 << 20)
        except FileNotFoundError:
            return False
        return True

    def delete(self, name: str) -> None:
        """Delete an object; a missing object is not an error."""
        with suppress(FileNotFoundError), self._explained("deleted", name):
            files, root = self._opened
            files.delete_file(f"{root}/{name}")

    def objects(self) -> dict[str, tuple[int, int]]:
        """Return the objects below the URL.

        Returns
        -------
        dict of str to (int, int)
            Size and time (ns) of each object, sorted by name.
        """
        from pyarrow.fs import FileSelector, FileType

        with self._explained("listed"):
            files, root = self._opened
            infos = files.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
        objects = {}
        for info in sorted(infos, key=lambda info: str(info.path)):
            if info.type == FileType.File:
                objects[info.path[len(root) + 1 :]] = (info.size, info.mtime_ns or 0)
        return objects

    @contextmanager
    def _explained(self, done: str, name: str = "") -> Iterator[None]:
        """Convert an error of the store to a ShardError whose message explains the cause."""
        from pyarrow import ArrowException

        try:
            yield
        except (OSError, ArrowException) as error:
            if getattr(error, "errno", None) is not None:
                raise  # The object does not exist, or the disk of this machine failed.
            # The message contains the text of the store's error.
            raise ShardError(
                f"{self.shown(name)} could not be {done}: "
                f"{self._why(redact(' '.join(str(error).split())))} All stored objects remain "
                "valid. Run the same command again to continue."
            ) from None

    def _why(self, text: str) -> str:
        if _NO_BUCKET.search(text):
            return "the bucket does not exist, or was deleted."
        if _REFUSED.search(text):
            variables = (
                "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, of a session, AWS_SESSION_TOKEN"
            )
            return (
                f"access was refused ({text}). Credentials are read from the environment of every node"
                f"{f': {variables}' if self.scheme == 's3' else ''}; they need to read, list, write and delete there."
            )
        if _SILENT.search(text):
            return f"the store does not answer ({text})."
        return f"{text}."


@cache
def open_store(url: str) -> ObjectStore:
    """Return the store at a URL, without connecting to the store.

    Parameters
    ----------
    url : str
        URL of a run.

    Returns
    -------
    ObjectStore
        The store.

    Raises
    ------
    ConfigError
        If the URL is invalid, or contains a key, which would be written into the manifest.
    """
    split = urlsplit(url)
    root = (split.netloc + split.path).strip("/")
    holds_login = "@" in split.netloc and (
        not split.scheme.startswith("abfs") or ":" in split.netloc.split("@")[0]
    )
    if holds_login or re.search(r"key|secret|token|passw|sig", split.query, re.I):
        raise ConfigError(
            f"The {split.scheme}:// URL contains a key or password. A run_dir is written into "
            "files and logs, so credentials belong in the environment, such as AWS_ACCESS_KEY_ID. "
            f"{_EXAMPLE}"
        )
    if split.scheme not in _PARAMETERS:
        more = (
            " Azure is abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/my_run."
            if split.scheme == "az"
            else ""
        )
        raise ConfigError(
            f"The scheme of the run_dir is {split.scheme}://. Expected one of "
            f"{', '.join(f'{scheme}://' for scheme in _PARAMETERS)}.{more} {_EXAMPLE}"
        )
    unknown = sorted(
        {key for key, _ in parse_qsl(split.query, keep_blank_values=True)}
        - _PARAMETERS[split.scheme]
    )
    if unknown:
        known = ", ".join(sorted(_PARAMETERS[split.scheme]))
        raise ConfigError(
            f"A {split.scheme}:// URL has no parameter {', '.join(unknown)}. Expected one of "
            f"{known}."
        )
    if "/" not in root or ".." in root.split("/") or split.fragment:
        raise ConfigError(
            f"{split.scheme}://{root} is not a folder in a bucket. "
            f"Expected a bucket and a folder. {_EXAMPLE}"
        )
    return ObjectStore(split.scheme, root, split.query)
