"""Starting a command as a user does, and reading a run as any Arrow reader sees it."""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.dataset as ds
from paths import ROOT


def launch(words: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
    """A command of its own process, from the repository's root, that can be interrupted and killed."""
    return subprocess.Popen(
        words, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        preexec_fn=_interruptible,
    )  # fmt: skip


def _interruptible() -> None:
    """Ctrl-C is ignored by what was started by a shell in the background, as tests may be."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def rows_of(run_dir: Path) -> list[dict]:
    """Every row of a run, as any Arrow reader sees it."""
    return ds.dataset(run_dir / "shards", format="ipc").to_table().to_pylist()


def keys_of(run_dir: Path, empty: bool = False) -> list[tuple]:
    """Sorted. empty: none where no shard is there yet."""
    if empty and not list((run_dir / "shards").glob("[!.]*")):
        return []
    columns = ["model", "benchmark", "question_id", "arm", "routers", "replicate"]
    table = ds.dataset(run_dir / "shards", format="ipc").to_table(columns=columns)
    return sorted(tuple(row.values()) for row in table.to_pylist())
