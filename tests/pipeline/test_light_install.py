"""The wheel with the core alone: no torch, no vLLM, no database, no web framework. An endpoint is
audited, and what was found is reported, gated and imported."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers_here import Quiet, http_here
from typed_here import built_wheel

ROOT = Path(__file__).resolve().parents[2]
ABSENT = (
    "torch",
    "vllm",
    "transformers",
    "sqlalchemy",
    "alembic",
    "apprise",
    "starlette",
    "uvicorn",
)


class Letters(Quiet):
    """An OpenAI-compatible endpoint that says B to everything."""

    def do_GET(self) -> None:
        self.reply_json({"object": "list", "data": [{"id": "m"}]})

    def do_POST(self) -> None:
        self.request_body()
        message = {"role": "assistant", "content": "Answer: B"}
        self.reply_json(
            {
                "id": "c",
                "model": "m",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            }
        )


AFTERWARDS = (
    "gate one",
    "reanalyze --out paper",
    "registry list --registry runs.db",
    "import log.csv -o imported",
)
# Commands in one process: each import of the core takes a second.
SEVERAL = """
import sys
from audit.__main__ import main
from audit.core.exits import run_command
codes = []
for words in sys.argv[1:]:
    try:
        run_command(lambda: main(words.split()))
    except SystemExit as ended:
        codes.append(ended.code)
print("codes", *codes)
"""


def started(words: list[str], folder: Path, python: Path, env: dict[str, str]) -> str:
    command = [str(python), *words]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr + done.stdout


@pytest.fixture
def url() -> Iterator[str]:
    with http_here(Letters) as address:
        yield f"{address}/v1"


@pytest.fixture
def light(tmp_path: Path) -> Path:
    """The python of an environment with the wheel and what the core asks for."""
    wheel = built_wheel(tmp_path, ROOT)
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")],
        timeout=120,
        check=True,
    )
    python = tmp_path / "env" / "bin" / "python"
    pins = ["--constraint", str(ROOT / "requirements" / "cpu.txt")]
    words = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--python",
        str(python),
        *pins,
        str(wheel),
    ]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode != 0:
        pytest.skip(
            f"the core's packages cannot be had here: {done.stderr.strip().splitlines()[-1:]}"
        )
    return python


@pytest.mark.long
def test_the_core_alone_audits_an_endpoint(light: Path, url: str, tmp_path: Path) -> None:
    env = {**os.environ, "OPENAI_API_KEY": "sk-local", "RAY_AUTH_MODE": "disabled"}
    for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "RAY_ADDRESS", "AUDIT_REGISTRY"):
        env.pop(name, None)

    def audit(*words: str) -> str:
        return started(["-m", "audit", *words], tmp_path, light, env)

    search = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    assert started(["-c", search, *ABSENT], tmp_path, light, env).strip() == "[]"

    before = os.times()
    shown = audit("demo", "--out", "shown")
    after = os.times()  # of the processor, which a busy machine lengthens less than the clock
    spent = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    assert spent < 30 and "Gap to held-out items" in shown  # a first page in half a minute
    assert (tmp_path / "shown" / "report.html").is_file()

    endpoint = f"model.openai_compatible.endpoints=[{{url: '{url}', model: m}}]"
    arguments = (
        "model=openai_compatible",
        endpoint,
        "benchmark=elementary",
        "n=12",
        "r=1",
        "progress=false",
    )
    with tempfile.TemporaryDirectory(
        prefix="r-", dir="/tmp"
    ) as place:  # Ray's sockets lie here: short paths
        env["RAY_TMPDIR"] = place
        audit("sweep", *arguments, "run_dir=one")
        folder = Path(place, f"ray-{os.getuid()}")  # no other user of the machine is let into it
        assert list(folder.glob("ray/session_*")) and folder.stat().st_mode & 0o777 == 0o700
    (tmp_path / "log.csv").write_text(
        "model,item,correct\n" + "".join(f"m{k},{i},{i % 2}\n" for k in (1, 2) for i in range(60))
    )
    out = started(["-c", SEVERAL, *AFTERWARDS], tmp_path, light, env)
    assert out.splitlines()[-1] == "codes 5 0 1 0" and "benchmark-audit[registry]" in out, out
