"""Logs of pythia-14m, a model at chance: whatever is asked of them, no verdict may follow."""

import contextlib
import io
import json
import tempfile
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

from commands_here import import_logs

FOLDER = "eval_logs/lm_eval_metabench"


def verdict(words: list[str]) -> str:
    """Of the one cell that an import judges."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        if import_logs([*words, "--model", "pythia-14m", "-o", f"{folder}/run"]) != 0:
            raise RuntimeError("audit import refused the log")
        (cell,) = json.loads(Path(folder, "run", "report", "verdict.json").read_text())["cells"]
    return str(cell["verdict"])


def report(data: Path) -> Iterator[str]:
    """Lines of markdown: each log alone, and each as held-out items of each other."""
    logs = sorted((data / FOLDER).glob("samples_*.jsonl"))
    alone = [verdict([str(log)]) for log in logs]
    pairs = [verdict([str(log), "--held-out", str(other)]) for log, other in permutations(logs, 2)]
    yield "| asked of pythia-14m's logs | withheld |\n|---|---|"
    yield f"| each of {len(logs)} logs alone | {alone.count('withheld')} of {len(alone)} |"
    yield f"| each against each other as held-out items | {pairs.count('withheld')} of {len(pairs)} |"
