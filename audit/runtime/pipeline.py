"""Stream one model's questions through two stages of Ray Data, `prepare` and `answer`.

The driver process needs little memory, since it holds only task numbers (8 bytes each) and counts.
The stages read the questions from the run directory.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import ray
from numpy.typing import NDArray
from ray.data import ActorPoolStrategy, DataContext
from ray.data.exceptions import ExecutionTimeoutError

from audit.core.errors import AuditError, EngineError
from audit.runtime.stages import AnswerStage, PrepareStage, StageContext
from audit.shards.files import make_folder, whole_file

# A real engine answers the earliest chunk first. So small chunks are stored while later chunks
# wait, and little is lost if the run is killed. The scripted engine answers at once, so its chunks
# are larger, which reduces the overhead.
_TASKS_PER_CHUNK = 32
_TASKS_PER_CHUNK_SCRIPTED = 256
# Ray Data ends an execution that makes no progress for this time (30 minutes). The model's load
# timeout is added, since a model whose process died is loaded again.
_NO_PROGRESS_S = 1800.0
_CLOSE_S = 10.0  # time limit for the end of stages that still wait
_RETRY_NOTE = "\nFailed to apply UDF transform"  # Ray Data appends lines about its settings to an error's text
# With this number of chunks, enough chunks are processed at the same time, and little is lost if
# the run is killed. More chunks would add overhead.
_CHUNKS_WANTED = 64
_CHUNKS_MOST = 8192  # largest number of chunks: each needs about 12 KB in the driver, and a file


def tasks_per_chunk(
    tasks: int, settings_per_task: float, rows_per_shard: int | None, engine: str
) -> int:
    """Return the number of tasks in a chunk, whose rows are stored in one shard.

    Parameters
    ----------
    tasks : int
        Number of all tasks.
    settings_per_task : float
        Number of rows of a task.
    rows_per_shard : int or None
        The configured number of rows in a shard; None lets this function choose.
    engine : str
        The type of the model's engine, such as "scripted".

    Returns
    -------
    int
        The number of tasks for each shard.
    """
    if rows_per_shard is not None:
        return max(1, int(rows_per_shard / settings_per_task))
    most = _TASKS_PER_CHUNK_SCRIPTED if engine == "scripted" else _TASKS_PER_CHUNK
    return max(1, min(most, -(-tasks // _CHUNKS_WANTED)), -(-tasks // _CHUNKS_MOST))


Stage = TypeVar("Stage")


class ChunkRun:
    """Run all chunks of tasks in the background.

    The stages start while the engines are still loading, because starting their processes takes
    some seconds. The first calls of the stages wait in the engine actors until the engines are
    loaded.
    """

    def __init__(
        self, context: StageContext, n_tasks: int, chunks_in_flight: int, load_timeout_s: float
    ) -> None:
        self._still_s = load_timeout_s + _NO_PROGRESS_S
        self._stored = _dataset(context, n_tasks, chunks_in_flight, self._still_s)
        self._counts: deque[pa.Table] = deque()
        self._error: BaseException | None = None
        # The thread is a daemon, so that the driver can end while stages wait, for example for a
        # CPU.
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        try:  # Ray Data starts when results are requested
            self._counts.extend(self._stored.iter_batches(batch_size=None, batch_format="pyarrow"))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that asks
            self._error = error

    @property
    def ended(self) -> bool:
        """Return whether all chunks are stored or the run was stopped."""
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raise the AuditError that has stopped the run, if any.

        For example, another process may have taken over the run directory.
        """
        error = self._error
        if isinstance(error, ExecutionTimeoutError):
            raise EngineError(
                f"The run made no progress for {self._still_s / 60:.0f} minutes, so it was "
                "stopped. 'ray status' shows what "
                "waits for resources. Type the same command again: the run continues where it stopped."
            ) from error
        if isinstance(error, ray.exceptions.RayError):
            raise _audit_error(error) from error
        if error is not None:
            raise error

    def counts(self) -> Iterator[pa.Table]:
        """Yield the counts of each shard that was stored since the last call.

        Raises the AuditError that has stopped the run, if any.
        """
        while self._counts:
            yield self._counts.popleft()
        self.check()

    def stop(self) -> None:
        """End the stages.

        This method must be called before the engines are closed. Otherwise Ray would repeat or
        report the last requests of the stages.
        """
        # Ray Data has no public function that ends an execution in another thread, so its private
        # executor is used. The executor is None before the first result.
        if (executor := self._stored._current_executor) is not None:
            executor.shutdown(force=False)

    def close(self) -> None:
        """Wait until the stages have ended.

        This method must be called after the engines are closed, so that no stage waits for an
        engine.
        """
        self._thread.join(_CLOSE_S)


def _dataset(
    context: StageContext, n_tasks: int, chunks_in_flight: int, still_s: float
) -> ray.data.Dataset:
    """Return the dataset of the counts of all shards. Reading the dataset runs the stages.

    Its input is the numbers of the chunks. If the audit makes calls before the answer, chunks first
    pass through the stage `prepare`. The stage `answer` then returns the counts of each shard.
    """
    n_chunks = -(-n_tasks // context.tasks_per_chunk)
    for handler in logging.getLogger("ray.data").handlers:
        # The display shows the progress. Ray's messages are only in its log file.
        if isinstance(handler, logging.StreamHandler):
            handler.setLevel(logging.CRITICAL)
    settings = DataContext.get_current()
    settings.print_on_execution_start = False
    settings.enable_progress_bars = False
    settings.enable_operator_progress_bars = False
    # Ray's issue detectors would warn about the memory that each process of a stage needs to start.
    settings.issue_detectors_config.detectors = []
    settings.execution_options.preserve_order = False
    settings.execution_no_progress_timeout_s = still_s
    # without this setting, Ray Data wraps the error and its cause is lost
    settings.raise_original_map_exception = True
    # A stage waits for engines nearly all the time. So it runs in threads and reserves almost no
    # CPU.
    pool = ActorPoolStrategy(
        size=1,
        max_tasks_in_flight_per_actor=2 * chunks_in_flight,
        max_concurrent_calls_per_actor=chunks_in_flight,
        enable_true_multi_threading=True,
    )
    light = {"num_cpus": 0.1, "batch_format": "pyarrow", "batch_size": None, "compute": pool}
    # These blocks are in memory already. With ray.data.range, read tasks would start another
    # process and need a CPU.
    chunks = ray.data.from_blocks([pa.table({"id": [chunk]}) for chunk in range(n_chunks)])
    run = f"{context.audit.name} {context.work.model}"
    if context.audit.prepare is not None:
        prepare = _named(PrepareStage, f"{run} {context.audit.prepare_role}")
        chunks = chunks.map_batches(prepare, fn_constructor_args=(context,), **light)
    stored = chunks.map_batches(
        _named(AnswerStage, f"{run} answer"), fn_constructor_args=(context,), **light
    )
    # Ray also uses this name in file names, so it contains no spaces.
    stored.set_name(f"{context.audit.name}-{context.work.model}")
    return stored


def _named(stage: type[Stage], name: str) -> type[Stage]:
    """Return the stage class under another name, for Ray's dashboard."""
    return type(name, (stage,), {"__module__": stage.__module__})


def _audit_error(error: BaseException) -> AuditError:
    """Return the AuditError that a stage or engine raised, without Ray's wrappers.

    An error of another type is returned as an EngineError that names the cause.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    deepest: BaseException = error
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        cause = getattr(current, "cause", None)
        wrapped = cause if isinstance(cause, BaseException) else None
        # Ray's wrapper of a remote error is also an instance of the error's class, but its text is
        # the whole remote traceback.
        if isinstance(current, AuditError) and not isinstance(current, ray.exceptions.RayTaskError):
            return type(current)(str(current).split(_RETRY_NOTE)[0])
        deepest = current
        pending += [current.__context__, current.__cause__, wrapped]
    return EngineError(f"The run stopped: {type(deepest).__name__}: {deepest}")


def write_task_list(run_dir: Path, model: str, attempt: str, tasks: NDArray[np.int64]) -> Path:
    """Write the indices of the remaining tasks to a file, which the stages map into memory.

    Files that killed attempts of this model left behind are deleted.

    Parameters
    ----------
    run_dir : Path
        Directory with the files of the run.
    model, attempt : str
        Names of the model and of the attempt, which are part of the file's name.
    tasks : array of int
        Indices of the remaining tasks.

    Returns
    -------
    Path
        Path of the written file.
    """
    path = run_dir / "tasks" / f"{model}-{attempt}.npy"
    make_folder(path.parent)
    for old in path.parent.iterdir():
        if old.name.rpartition("-")[0] == model:
            old.unlink()
    with whole_file(path) as file:
        np.save(file, tasks)
    return path
