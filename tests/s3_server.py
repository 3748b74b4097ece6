"""A real S3 server of this machine: moto's, in a process of its own. Its objects are looked at with
pyarrow alone."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs
from servers_here import free_port

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIATESTTESTTESTTEST",
    "AWS_SECRET_ACCESS_KEY": "not-a-secret-of-anybody",
}


@dataclass
class S3Server:
    """endpoint: host:port."""

    endpoint: str
    process: subprocess.Popen[bytes]

    def url(self, path: str) -> str:
        return f"s3://{path}?endpoint_override={self.endpoint}&scheme=http"

    def ask(self, method: str, path: str, data: bytes = b"") -> None:
        headers = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(
            f"http://{self.endpoint}/{path}", data=data, headers=headers, method=method
        )
        urllib.request.urlopen(request, timeout=60).close()

    @property
    def files(self) -> fs.S3FileSystem:
        return fs.S3FileSystem(
            endpoint_override=self.endpoint,
            scheme="http",
            region="us-east-1",
            access_key=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            secret_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )

    def names(self, path: str) -> list[str]:
        """Objects below bucket/path, without it."""
        files = self.files.get_file_info(
            fs.FileSelector(path, recursive=True, allow_not_found=True)
        )
        return sorted(file.path[len(path) + 1 :] for file in files if file.type == fs.FileType.File)

    def read(self, path: str) -> bytes:
        return self.files.open_input_file(path).read()

    def manifest(self, run: str) -> dict[str, Any]:
        return json.loads(self.read(f"{run}/manifest.json"))

    def keys(self, run: str) -> list[tuple[Any, ...]]:
        """The key of every row in the shards that the manifest lists, sorted."""
        keys: list[tuple[Any, ...]] = []
        for shard in self.manifest(run)["shards"]:
            table = pa.ipc.open_file(
                pa.BufferReader(self.read(f"{run}/shards/{shard['file']}"))
            ).read_all()
            names = ["model", "benchmark", "question_id", "arm", "routers", "replicate"]
            keys += [tuple(row.values()) for row in table.select(names).to_pylist()]
        return sorted(keys)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Running, with an empty bucket `bucket`."""
    port = free_port()
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    env = {**os.environ, **CREDENTIALS}
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = S3Server(f"127.0.0.1:{port}", process)
    try:
        deadline = time.monotonic() + 600
        while True:
            try:
                server.ask("PUT", "bucket")
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < deadline, (
                    "moto's server did not start"
                )
                time.sleep(0.1)
        yield server
    finally:
        process.kill()
        process.wait()
