"""Clocks that jump, certificates that nobody vouches for, webhooks, weights that are pickles, and
links."""

import ipaddress
import json
import os
import pickle
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands_here import gate
from governed import NOW, TOKEN, Patch, reviewing
from servers_here import Quiet, http_here
from starlette.testclient import TestClient

from audit.benchmarks.files import read_rows
from audit.core.errors import (
    BenchmarkError,
    ConfigError,
    EngineLoadError,
    LibraryError,
    SignatureError,
)
from audit.engines.config import ModelConfig
from audit.engines.openai_config import EndpointConfig
from audit.engines.probe import probe
from audit.engines.weights import find_model, resolve_weights
from audit.governance.pack import write_pack
from audit.governance.serve import create_app
from audit.registry import notify
from audit.registry.notify import send
from audit.registry.store import Notice
from audit.variants.arrow import FILE, METADATA, read_library, shipped_folder

# --- clocks
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hours", "status"), [(0, 200), (12, 200), (13, 401), (-1, 401), (-24 * 365, 401)]
)
def test_no_jump_of_the_clock_makes_a_session_longer(
    hours: int, status: int, built: Path, keys: Path
) -> None:
    passed = [0]
    site = reviewing(built.parent, keys, "h:1", now=lambda: NOW + timedelta(hours=passed[0]))
    page = TestClient(create_app(site), base_url="http://h:1", follow_redirects=False)
    assert page.get(f"/login?token={TOKEN}").status_code == 303
    passed[0] = hours
    assert page.get("/home/").status_code == status


# --- servers
# ---------------------------------------------------------------------------------------------------------


def keeper(
    received: list[bytes], status: int = 200, headers: dict[str, str] | None = None
) -> type[Quiet]:
    """Keeps what is sent to it; answers with a status and headers."""

    class Handler(Quiet):
        def do_POST(self) -> None:
            received.append(self.request_body())
            self.reply(status, headers=headers)

        do_GET = do_HEAD = lambda self: (received.append(b"GET"), self.send_error(404))

    return Handler


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Key and certificate of 127.0.0.1, signed by itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    today = datetime.now(UTC)
    number, until = x509.random_serial_number(), today + timedelta(days=1)
    made = x509.CertificateBuilder(
        name, name, key.public_key(), number, today - timedelta(days=1), until
    )
    made = made.add_extension(
        x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
        critical=True,
    )
    pem = made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    path = tmp_path / "server.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + pem)
    return path


def test_a_certificate_that_nobody_vouches_for_gets_no_key_and_no_question(
    certificate: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("K", "sk-secret-0123456789")
    received: list[bytes] = []
    with http_here(keeper(received), certificate) as address:
        endpoint = EndpointConfig(f"{address}/v1", "m", api_key_env="K")
        (problem,) = probe([ModelConfig(name="e", engine="openai", endpoints=[endpoint])], [False])
    assert (
        problem is not None and "sk-secret" not in str(problem) and "SSL_CERT_FILE=" in str(problem)
    )
    assert received == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_webhook_takes_a_message_nowhere_else(status: int, monkeypatch: Patch) -> None:
    monkeypatch.setattr(notify, "_WAIT_S", 0.0)
    received: list[bytes] = []
    elsewhere: list[bytes] = []
    with (
        http_here(keeper(elsewhere)) as other,
        http_here(keeper(received, status, {"Location": other})) as hook,
    ):
        notice = Notice("k", "block", "Audit blocks: m", "secret of the run")
        assert "did not accept it" in send(notice, [hook.replace("http", "json") + "/x"])
    assert received and elsewhere == []


# --- weights
# ---------------------------------------------------------------------------------------------------------


class Boom:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ["BOOM"],)


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "model.pt", "model.pth", "weights.pkl", "last.ckpt"]
)
def test_weights_that_are_a_pickle_are_refused_unread(
    name: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("BOOM", str(tmp_path / "boom"))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / name).write_bytes(pickle.dumps(Boom()))
    for load in (
        lambda: resolve_weights(ModelConfig(name="m", path=str(folder))),
        lambda: find_model(str(folder)),
    ):
        with pytest.raises(EngineLoadError, match="pickle"):
            load()
    assert not (tmp_path / "boom").exists()
    (folder / "model.safetensors").write_bytes(b"")  # what is loaded then is not the pickle
    assert resolve_weights(ModelConfig(name="m", path=str(folder))).revision.startswith("sha256:")


# --- links
# -----------------------------------------------------------------------------------------------------------


def test_a_run_directory_by_a_link_is_that_run(built: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(built)
    assert gate([str(tmp_path / "link")]) == gate([str(built)]) == 5


@pytest.mark.parametrize(
    ("at", "to"),
    [
        *product(
            ["manifest.json", "report/verdict.json", "shards/*"],
            ["/dev/zero", "/nowhere", "/etc/passwd"],
        ),
        ("manifest.json", "manifest.json"),
    ],
)
def test_a_link_in_a_run_lets_nothing_pass(at: str, to: str, run_dir: Path) -> None:
    path = next(run_dir.glob(at))
    path.unlink()
    path.symlink_to(to)
    assert gate([str(run_dir)]) == 1


def test_a_pipe_in_a_run_holds_nobody_up(run_dir: Path) -> None:
    (run_dir / "manifest.json").unlink()
    os.mkfifo(run_dir / "manifest.json")
    assert gate([str(run_dir)]) == 1


@pytest.mark.parametrize(
    "name", ["report/report.html", "notes.txt", "suite.yaml", "decisions/0001.dsse.json"]
)
def test_nothing_from_elsewhere_gets_into_a_pack(name: str, run_dir: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("{}")
    (run_dir / "decisions").mkdir()
    (run_dir / name).unlink(missing_ok=True)
    (run_dir / name).symlink_to(secret)
    with pytest.raises((ConfigError, SignatureError), match="is a link"):
        write_pack(run_dir, tmp_path / "pack.zip", with_shards=True, signer=None)
    assert not (tmp_path / "pack.zip").exists()


# --- files that unfold
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 100])
def test_a_small_file_does_not_unfold_to_a_question_of_gigabytes(rows: int, tmp_path: Path) -> None:
    """One row of 40 MB in 2 kB: found before it is read where it is the only one, and else when it
    is."""
    path = tmp_path / "exam.parquet"
    texts = ["a" * (40 << 20), *["b"] * (rows - 1)]
    pq.write_table(pa.table({"question": texts}), path, compression="zstd")
    assert path.stat().st_size < 20_000
    with pytest.raises(BenchmarkError, match="no question is that long"):
        list(read_rows(path))


def test_a_line_without_an_end_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "exam.jsonl"
    path.write_bytes(b'{"question": "' + b"a" * (20 << 20))
    with pytest.raises(BenchmarkError, match="line 1: a text has more than"):
        list(read_rows(path))
    with path.open("wb") as file:
        file.truncate(1 << 34)  # sixteen gigabytes of nothing, which fit in no memory here
    with pytest.raises(BenchmarkError, match="is not UTF-8"):
        list(read_rows(path))


# --- Arrow files
# -----------------------------------------------------------------------------------------------------


def damaged(texts: int) -> pa.Array:
    """Strings whose middle ones begin far outside of what is there: Arrow's own quick check looks
    at the ends alone."""
    ends = np.full(texts + 1, 2**30, dtype=np.int32)
    ends[0], ends[-1] = 0, 3
    return pa.StringArray.from_buffers(texts, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"abc"))


@pytest.mark.parametrize("kind", ["library", "exam"])
def test_a_file_whose_texts_lie_nowhere_is_refused_and_ends_no_process(
    kind: str, tmp_path: Path
) -> None:
    """Read in a process of its own: it was killed by a signal."""
    path = tmp_path / "damaged.arrow"
    table = pa.table({"context": damaged(200)})
    if kind == "library":
        table = pa.ipc.open_file(str(shipped_folder() / "elementary" / FILE)).read_all()
        table = table.set_column(
            table.schema.names.index("context"), "context", damaged(table.num_rows)
        )
    with pa.ipc.new_file(str(path), table.schema) as file:
        file.write_table(table)
    code = {
        "library": "from audit.variants.arrow import read_library as read",
        "exam": "from audit.benchmarks.files import read_rows; read = lambda path: list(read_rows(path))",
    }[kind]
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys, pathlib; {code}; read(pathlib.Path(sys.argv[1]))",
            str(path),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 1
    assert re.search("LibraryError|BenchmarkError", ended.stderr)


@pytest.mark.parametrize("about", ["[" * 100_000, '{"header": {"schema_version": 0}}', None])
def test_a_header_of_anything_is_no_librarys(about: str | None, tmp_path: Path) -> None:
    table = pa.ipc.open_file(str(shipped_folder() / "elementary" / FILE)).read_all()
    if about is None:  # all is well but for the hash
        about = json.dumps({**json.loads(table.schema.metadata[METADATA]), "sha256": 3})
    with pa.ipc.new_file(
        str(tmp_path / FILE), table.schema.with_metadata({METADATA: about.encode()})
    ) as file:
        file.write_table(table.replace_schema_metadata({METADATA: about.encode()}))
    with pytest.raises(LibraryError):
        read_library(tmp_path / FILE)
