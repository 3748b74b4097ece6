"""`make gpu`: does the engine do on this machine's GPUs what it does on CPUs, and how fast? Writes
a page of a table.

Each part is a command of its own; one that fails is a row, and the others go on. Without a GPU the
same parts run on CPUs, so that the way is tried before there is one; the page then says so. Exit
codes: 0 each part ran and reached its target; 1 one did not."""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.common import json_line, on_gpu

ROOT = Path(__file__).resolve().parents[2]
EFFICIENCY, APART_NATS = 0.97, 0.5
HEAD = "| what | figure | target | reached | seconds | command |\n|---|---|---|---|---|---|\n"


@dataclass(frozen=True)
class Part:
    """figure: of what the command printed, in words, and whether it is as wanted."""

    name: str
    command: Sequence[str]
    target: str
    figure: Callable[[str], tuple[str, bool]]


def parts(gpus: int, folder: Path, n: int, large: str, options: Sequence[str]) -> Iterator[Part]:
    python = sys.executable
    real = ["tests/real/test_real_engine.py", "--color=no"]
    yield Part(
        "likelihoods, letters, given texts, seeds, beside transformers",
        [python, "-m", "pytest", "-q", "-rA", *real],
        "all pass",
        _passed,
    )
    speed = ["bench.engine", "--n", str(n), "--only-efficiency"]
    yield Part(
        "sweep beside raw vLLM, same requests",
        [python, "-m", *speed],
        f">= {EFFICIENCY}",
        _efficiency,
    )
    lora = ["forms=[qa]", "doses=[0,1]", "audits=[perturb]", f"run_dir={folder / 'lora'}"]
    yield Part(
        "adapters (LoRA) trained and asked", [python, "-m", "audit.plant", *lora], "runs", _ran
    )
    if options:
        yield Part(
            "option likelihoods beside lm-eval",
            [python, "-m", "bench.options", *options],
            f"within {APART_NATS} nats",
            _options,
        )
    if gpus > 1:
        two = [
            "model.smollm2_135m.tensor_parallel_size=2",
            f"n={n}",
            "r=1",
            f"run_dir={folder / 'two'}",
        ]
        yield Part("tensor parallel on two GPUs", [python, "-m", "audit.sweep", *two], "runs", _ran)
    if large:
        yield Part(
            f"sweep of {large} beside raw vLLM",
            [python, "-m", *speed, "--model", large],
            f">= {EFFICIENCY}",
            _efficiency,
        )


def _passed(out: str) -> tuple[str, bool]:
    passed, failed = (
        sum(line.startswith(word) for line in out.splitlines()) for word in ("PASSED", "FAILED")
    )
    return f"{passed} pass, {failed} fail", passed > 0 and not failed


def _efficiency(out: str) -> tuple[str, bool]:
    figures = json_line(out)
    took = (
        f"{figures['raw_generate_s']:.1f} s raw, {figures['sweep_generate_s']:.1f} s in the sweep"
    )
    return (
        f"{figures['efficiency']:.2f} ({took}; {figures['raw_requests']:,.0f} requests)",
        figures["efficiency"] >= EFFICIENCY,
    )


def _ran(out: str) -> tuple[str, bool]:
    return "ran", True


def _options(out: str) -> tuple[str, bool]:
    kinds = json.loads(out[out.index("{") :])
    largest = max(nats for kind in kinds.values() for nats in _numbers(kind["apart_nats"]))
    return f"{largest:.2f} nats at most", largest <= APART_NATS


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [x for member in value.values() for x in _numbers(member)]
    return (
        [x for member in value for x in _numbers(member)]
        if isinstance(value, list)
        else [float(value)]
    )


def row(part: Part) -> tuple[str, bool]:
    """The part's line of the table."""
    started = time.monotonic()
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT)])}
    done = subprocess.run(
        part.command, capture_output=True, text=True, cwd=ROOT, env=env, check=False
    )
    if done.returncode == 0:
        figure, reached = part.figure(done.stdout)
    else:
        print("\n".join(done.stderr.splitlines()[-40:]), file=sys.stderr)
        output = (done.stderr.strip() or done.stdout.strip() or "nothing was printed").splitlines()[
            -1
        ]
        figure, reached = f"failed: {output[:160]}", False
    words = shlex.join(["python", *part.command[1:]])
    cells = (
        part.name,
        figure,
        part.target,
        "yes" if reached else "no",
        f"{time.monotonic() - started:.0f}",
        f"`{words}`",
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n", reached


def machine() -> str:
    """What was measured on: GPUs by name, and the packages that decide a figure."""
    gpus = _gpus()
    packages = [f"{name} {metadata.version(name)}" for name in ("ray", "torch", "transformers")]
    return f"{', '.join(gpus) if gpus else f'no GPU; {os.cpu_count()} CPU cores'}. {', '.join(packages)}."


def _gpus() -> list[str]:
    if not on_gpu():
        return []
    command = [
        "nvidia-smi",
        "--query-gpu=name,memory.total,driver_version",
        "--format=csv,noheader",
    ]
    return (
        subprocess.run(command, capture_output=True, text=True, check=True)
        .stdout.strip()
        .splitlines()
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument("--n", type=int, default=100, help="questions")
    parser.add_argument(
        "--large", default="", help="a model of conf/model to sweep too, such as qwen3_8b (network)"
    )
    parser.add_argument(
        "--options", nargs=argparse.REMAINDER, default=[], help="last: the words of bench.options"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="default: docs/findings/measured_gpu.md, without a GPU outputs/measured_cpu.md",
    )
    arguments = parser.parse_args()
    out = arguments.out or ROOT / (
        "docs/findings/measured_gpu.md" if on_gpu() else "outputs/measured_cpu.md"
    )
    page, well = (
        f"# Measured by `make gpu`\n\n{time.strftime('%Y-%m-%d')}. {machine()}\n\n{HEAD}",
        True,
    )
    with tempfile.TemporaryDirectory() as folder:
        for part in parts(
            len(_gpus()), Path(folder), arguments.n, arguments.large, arguments.options
        ):
            line, reached = row(part)
            page, well = page + line, well and reached
            print(line, end="", flush=True)
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(
                page, encoding="utf-8"
            )  # after each: what is measured stays if the next is stopped
    print(out)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
