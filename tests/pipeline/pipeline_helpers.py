"""Starting a command as a user does, and reading a run as any Arrow reader sees it."""

import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow.dataset as ds
import ray
from commands_here import report as rebuild
from paths import ROOT
from ray._private.state import state


def launch(words: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
    """A command of its own process, from the repository's root, that can be interrupted and
    killed."""
    return subprocess.Popen(
        words,
        cwd=ROOT,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=_interruptible,
    )


def until(
    true: Callable[[], object], process: subprocess.Popen[str] | None = None, timeout: float = 900
) -> None:
    """Wait for it, as long as the process lives. A busy machine takes what it takes."""
    deadline = time.monotonic() + timeout
    while (
        not true() and time.monotonic() < deadline and (process is None or process.poll() is None)
    ):
        time.sleep(0.02)


def write_model(folder: Path, name: str, body: str) -> None:
    """A model configuration of one's own: FOLDER/model/<name>.yaml, for Hydra's search path."""
    (folder / "model").mkdir(parents=True, exist_ok=True)
    (folder / "model" / f"{name}.yaml").write_text(
        f"# @package model.{name}\nname: {name}\nengine: scripted\n{body}\n"
    )


def _interruptible() -> None:
    """Ctrl-C is ignored by what was started by a shell in the background, as tests may be."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def rows_of(run_dir: Path) -> list[dict]:
    """Every row of a run, as any Arrow reader sees it."""
    return ds.dataset(run_dir / "shards", format="ipc").to_table().to_pylist()


def by_key(run_dir: Path, *names: str) -> dict[tuple, dict]:
    """Every row by the columns that make it one."""
    rows = rows_of(run_dir)
    by_columns = {tuple(row[name] for name in names): row for row in rows}
    assert len(by_columns) == len(rows)
    return by_columns


def stamps(paths: Iterable[Path]) -> dict[Path, int]:
    """When each was written."""
    return {path: path.stat().st_mtime_ns for path in paths}


def lose_a_shard(run_dir: Path) -> dict[Path, int]:
    """The stamps of the shards that are left."""
    first, *others = sorted((run_dir / "shards").iterdir())
    first.unlink()
    return stamps(others)


def rebuilt_alike(finished: Path, copy: Path, needed: str) -> None:
    """A report that is built again is the same to the byte, and is refused without a file that it
    needs."""
    shutil.copytree(finished, copy)
    shutil.rmtree(copy / "report")
    assert rebuild([str(copy)]) == 0
    assert (copy / "report/verdict.json").read_bytes() == (
        finished / "report/verdict.json"
    ).read_bytes()
    (copy / needed).unlink()
    assert rebuild([str(copy)]) == 1


def engines() -> Counter[str]:
    """Engine actors that this process started, by state."""
    mine = ray.JobID(bytes.fromhex(ray.get_runtime_context().get_job_id()))
    # From the head's own table. The public list comes from the dashboard, which takes up a core
    # for some seconds.
    actors = state.actor_table(None, mine).values()
    return Counter(actor["State"] for actor in actors if actor["ActorClassName"] == "EngineActor")


def keys_of(run_dir: Path, empty: bool = False) -> list[tuple]:
    """Sorted. empty: none where no shard is there yet."""
    if empty and not list((run_dir / "shards").glob("[!.]*")):
        return []
    columns = ["model", "benchmark", "question_id", "arm", "routers", "replicate"]
    table = ds.dataset(run_dir / "shards", format="ipc").to_table(columns=columns)
    return sorted(tuple(row.values()) for row in table.to_pylist())
