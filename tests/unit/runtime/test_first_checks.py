"""A run that cannot begin is refused before anything heavy is imported, and leaves nothing behind."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from servers_here import Quiet, free_port, http_here

KEY = "sk-test-0123456789-do-not-leak"
HEAVY = ("ray", "torch", "vllm", "openai", "pandas", "scipy.stats", "sqlalchemy", "boto3")
# The command's exit code, the heavy packages that it loaded, and its CPU seconds.
_COMMAND = f"""
import json, resource, sys
from audit.__main__ import main
try:
    code = main()
except SystemExit as end:
    code = end.code
used = resource.getrusage(resource.RUSAGE_SELF)
loaded = [name for name in {HEAVY!r} if name in sys.modules]
print(json.dumps([code, loaded, used.ru_utime + used.ru_stime]))
"""
AUDITS = {
    "sweep": ["data=exam.jsonl"],
    "memory": ["data=exam.jsonl", "control_data=unseen.jsonl"],
    "perturb": ["data=exam.jsonl"],
    "validity": ["benchmark=truthfulqa"],
}


class WrongKey(Quiet):
    """Refuses every key."""

    def do_GET(self) -> None:
        self.reply_json({"error": {"message": f"{KEY} is wrong", "code": "invalid_api_key"}}, 401)


@contextmanager
def silent() -> Iterator[str]:
    """A server that accepts connections and never sends a byte."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections = []
        thread = threading.Thread(target=lambda: connections.append(server.accept()), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("exam", "unseen"):
        rows = []
        for k in range(8):
            rows.append({"question": f"{name} {k}?", "choices": ["a", "b"], "answer": k % 2})
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return tmp_path


def refused(folder: Path, *words: str) -> tuple[str, float]:
    """(stderr, CPU seconds) of a command that must fail without a heavy import."""
    env = {"PYTHONPATH": str(Path(__file__).parents[3]), "PATH": "", "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, *words],
        cwd=folder,
        env={**env, "OPENAI_API_KEY": KEY},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    code, loaded, cpu_s = json.loads(done.stdout)
    assert (code, loaded) == (1, []), done.stderr
    assert KEY not in done.stderr
    return done.stderr, cpu_s


def on(url: str, audit: str, run_dir: str = "run") -> list[str]:
    return [audit, f"endpoint={url}", "model_id=mine", f"run_dir={run_dir}", *AUDITS[audit]]


@pytest.mark.parametrize("audit", AUDITS)
def test_an_address_where_nothing_listens(place: Path, audit: str) -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    error, _ = refused(place, *on(url, audit))
    assert url in error and "vllm serve" in error
    assert not (place / "run").exists()


def test_a_wrong_key(place: Path) -> None:
    with http_here(WrongKey) as url:
        error, _ = refused(place, *on(f"{url}/v1", "sweep"))
    assert "OPENAI_API_KEY" in error and "401" in error


def test_a_server_that_hangs_is_given_ten_seconds(place: Path) -> None:
    with silent() as url:
        error, _ = refused(place, *on(url, "memory"))
    assert url in error and "within 10 s" in error


def test_a_directory_that_cannot_be_made(place: Path) -> None:
    (place / "file").write_text("")
    error, _ = refused(
        place, "memory", "model=scripted", "data=exam.jsonl", "run_dir=file/deeper/run"
    )
    assert "file/deeper/run" in error and "run_dir=outputs/my_run" in error
    assert (place / "file").read_text() == ""


@pytest.mark.parametrize(
    "words",
    [
        ["sweep", "model=smollm2_135m", "data=exam.jsonl"],
        ["sweep", "model=scripted", "data=unseen.jsonl"],
        ["memory", "model=scripted", "data=exam.jsonl"],
    ],
)
def test_the_directory_of_another_run(place: Path, words: list[str]) -> None:
    """A run of sweep, scripted and exam.jsonl is there; one of the three differs."""
    words_of_run = ["sweep", "model=scripted", "data=exam.jsonl", "n=4", "run_dir=run"]
    start = "import sys, pathlib\n" + _OPEN
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run([sys.executable, "-c", start, *words_of_run], cwd=place, env=env, check=True)
    before = sorted(place.rglob("*"))
    error, _ = refused(place, *words, "run_dir=run")
    assert "run_2" in error
    assert sorted(place.rglob("*")) == before


# Opens the run directory of a command, as its start does.
_OPEN = """
from audit.config.command_line import configured
from audit.shards.manifest import open_run_dir
from audit.sweep.replay import resolve_sweep
resolved = resolve_sweep(configured("sweep", sys.argv[2:]))
schema = resolved.audit.schema.of_run(resolved.identity)
with open_run_dir(resolved.path, schema, resolved.identity, resolved.plain):
    pass
"""


def test_a_refusal_costs_little_beside_what_composing_its_options_costs(place: Path) -> None:
    """Both are measured here, one after the other: a refusal loads at most as much again."""
    url = f"http://127.0.0.1:{free_port()}/v1"
    refused(place, *on(url, "sweep"))  # compiles what is imported
    _, seconds = refused(place, *on(url, "sweep"))
    _, options = refused(place, *on(url, "sweep"), "seed=abc")
    assert seconds < 2 * options + 0.5
