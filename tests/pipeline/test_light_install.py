"""The wheel with the core alone: no torch, no vLLM, no database, no web framework. An endpoint is audited, and what was
found is reported, gated and imported."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers_here import Quiet, http_here

ROOT = Path(__file__).resolve().parents[2]
ABSENT = ("torch", "vllm", "transformers", "sqlalchemy", "alembic", "apprise", "starlette", "uvicorn")


class Letters(Quiet):
    """An OpenAI-compatible endpoint that says B to everything."""

    def do_GET(self) -> None:
        self.told({"object": "list", "data": [{"id": "m"}]})

    def do_POST(self) -> None:
        self.asked()
        message = {"role": "assistant", "content": "Answer: B"}
        self.told({"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


@pytest.fixture
def url() -> Iterator[str]:
    with http_here(Letters) as address:
        yield f"{address}/v1"


@pytest.fixture
def light(tmp_path: Path) -> Path:
    """The python of an environment with the wheel and what the core asks for."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, timeout=120, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], timeout=120, check=True)
    python = tmp_path / "env" / "bin" / "python"
    pins = ["--constraint", str(ROOT / "requirements" / "cpu.txt")]
    words = [sys.executable, "-m", "uv", "pip", "install", "--python", str(python), *pins, str(wheel)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        pytest.skip(f"the core's packages cannot be had here: {done.stderr.strip().splitlines()[-1:]}")
    return python


def test_the_core_alone_audits_an_endpoint(light: Path, url: str, tmp_path: Path) -> None:
    env = {**os.environ, "OPENAI_API_KEY": "sk-local", "RAY_AUTH_MODE": "disabled"}
    for name in ("PYTHONPATH", "RAY_ADDRESS", "AUDIT_REGISTRY"):
        env.pop(name, None)

    def audit(*words: str, code: int = 0) -> str:
        command = [str(light), "-m", "audit", *words]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    there = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    found = subprocess.run([str(light), "-c", there, *ABSENT], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

    before = os.times()
    shown = audit("demo", "--out", "shown")
    after = os.times()  # of the processor, which a busy machine lengthens less than the clock
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert spent < 30 and "Gap to held-out items" in shown  # a first page in half a minute
    assert (tmp_path / "shown" / "report.html").is_file()

    endpoint = f"model.openai_compatible.endpoints=[{{url: '{url}', model: m}}]"
    asked = ("model=openai_compatible", endpoint, "benchmark=elementary", "n=12", "r=1", "progress=false")
    audit("sweep", *asked, "run_dir=one")
    assert "4" in audit("gate", "one", code=4)
    audit("reanalyze", "--out", "paper")
    assert "benchmark-audit[registry]" in audit("registry", "list", "--registry", "runs.db", code=1)
    (tmp_path / "log.csv").write_text(
        "model,item,correct\n" + "".join(f"m{k},{i},{i % 2}\n" for k in (1, 2) for i in range(60))
    )
    audit("import", "log.csv", "-o", "imported")
