"""Stream one model's questions through the Ray Data stages prepare and answer, with bounded memory
on the driver.

The driver holds task numbers (8 bytes each) and counts. The stages read questions from the run
directory.
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

# A real engine serves the earliest chunk first. So small chunks reach the disk while later chunks
# wait, and a kill loses little. The scripted engine answers at once, so only the overhead of a
# chunk matters.
_TASKS_PER_CHUNK = 32
_TASKS_PER_CHUNK_SCRIPTED = 256
# Ray Data ends an execution without progress for 30 minutes. A model that loads again after its
# process died also needs its load timeout.
_NO_PROGRESS_S = 1800.0
_CLOSE_S = 10.0  # time limit for stages that still wait
_RETRY_NOTE = "\nFailed to apply UDF transform"  # Ray Data appends lines about its settings to an error's text
# This number of chunks overlaps enough, and a kill loses little. More chunks would add overhead.
_CHUNKS_WANTED = 64
_CHUNKS_MOST = 8192  # each chunk needs about 12 KB in the driver, and a file


def tasks_per_chunk(
    tasks: int, settings_per_task: float, rows_per_shard: int | None, engine: str
) -> int:
    """Return how many tasks share a shard.

    Parameters
    ----------
    tasks : int
        Number of all tasks.

    settings_per_task : float
        Rows of a task.
    rows_per_shard : int or None
        The configured size; None chooses one.
    engine : str
        The model's engine.

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
    """Run every chunk. The stages start at once, in the background, while an engine loads.

    Stage processes need some seconds to start. Their first calls wait in the engine actors until the
    engines are loaded.
    """

    def __init__(
        self, context: StageContext, n_tasks: int, chunks_in_flight: int, load_timeout_s: float
    ) -> None:
        self._still_s = load_timeout_s + _NO_PROGRESS_S
        self._stored = _dataset(context, n_tasks, chunks_in_flight, self._still_s)
        self._counts: deque[pa.Table] = deque()
        self._error: BaseException | None = None
        # The thread is a daemon: stages that wait, for example for a CPU, must not keep the driver
        # alive.
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        try:  # the request for a result starts Ray Data
            self._counts.extend(self._stored.iter_batches(batch_size=None, batch_format="pyarrow"))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that asks
            self._error = error

    @property
    def ended(self) -> bool:
        """Return whether all chunks are stored, or the run was stopped."""
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raise the AuditError that has stopped the run, for example because another driver took
        over its directory.
        """
        error = self._error
        if isinstance(error, ExecutionTimeoutError):
            raise EngineError(
                f"Nothing moved for {self._still_s / 60:.0f} minutes, so the run was stopped. 'ray status' shows what "
                "waits for resources. Type the same command again: the run continues where it stopped."
            ) from error
        if isinstance(error, ray.exceptions.RayError):
            raise _audit_error(error) from error
        if error is not None:
            raise error

    def counts(self) -> Iterator[pa.Table]:
        """Yield the counts of each shard stored since the last call. Raises the AuditError that
        stopped the run."""
        while self._counts:
            yield self._counts.popleft()
        self.check()

    def stop(self) -> None:
        """End the stages before their engines, so that Ray neither repeats nor reports their last
        requests.
        """
        # Ray Data has no public way to end an execution in another thread. The executor is None
        # before the first result.
        if (executor := self._stored._current_executor) is not None:
            executor.shutdown(force=False)

    def close(self) -> None:
        """End the stages. Call this after the engines are closed, so that no call waits for
        them."""
        self._thread.join(_CLOSE_S)


def _dataset(
    context: StageContext, n_tasks: int, chunks_in_flight: int, still_s: float
) -> ray.data.Dataset:
    """Return the lazy dataset: chunk ids -> prepare (if the audit makes calls before the answer) ->
    answer -> counts of each shard.
    """
    n_chunks = -(-n_tasks // context.tasks_per_chunk)
    for handler in logging.getLogger("ray.data").handlers:
        # The display reports progress; Ray's log file has the rest.
        if isinstance(handler, logging.StreamHandler):
            handler.setLevel(logging.CRITICAL)
    settings = DataContext.get_current()
    settings.print_on_execution_start = False
    settings.enable_progress_bars = False
    settings.enable_operator_progress_bars = False
    # The detectors warn about the memory that a stage process needs to start.
    settings.issue_detectors_config.detectors = []
    settings.execution_options.preserve_order = False
    settings.execution_no_progress_timeout_s = still_s
    settings.raise_original_map_exception = True  # if Ray Data wraps the error, the cause is lost
    # A stage waits for engines nearly all the time. So it uses threads, and reserves almost no CPU.
    pool = ActorPoolStrategy(
        size=1,
        max_tasks_in_flight_per_actor=2 * chunks_in_flight,
        max_concurrent_calls_per_actor=chunks_in_flight,
        enable_true_multi_threading=True,
    )
    light = {"num_cpus": 0.1, "batch_format": "pyarrow", "batch_size": None, "compute": pool}
    # The blocks exist already. The read tasks of ray.data.range would start another process and
    # need a CPU.
    chunks = ray.data.from_blocks([pa.table({"id": [chunk]}) for chunk in range(n_chunks)])
    run = f"{context.audit.name} {context.work.model}"
    if context.audit.prepare is not None:
        prepare = _named(PrepareStage, f"{run} {context.audit.prepare_role}")
        chunks = chunks.map_batches(prepare, fn_constructor_args=(context,), **light)
    stored = chunks.map_batches(
        _named(AnswerStage, f"{run} answer"), fn_constructor_args=(context,), **light
    )
    # The name is part of file names too.
    stored.set_name(f"{context.audit.name}-{context.work.model}")
    return stored


def _named(stage: type[Stage], name: str) -> type[Stage]:
    """Return the stage class with another name. Ray's dashboard shows the name of an operator's
    class.
    """
    return type(name, (stage,), {"__module__": stage.__module__})


def _audit_error(error: BaseException) -> AuditError:
    """Return the AuditError that a stage or engine raised, without Ray's wrappers.

    Any other error becomes an EngineError with the cause.
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
        # Ray makes a remote error an instance of its class too, with the whole remote traceback as
        # text.
        if isinstance(current, AuditError) and not isinstance(current, ray.exceptions.RayTaskError):
            return type(current)(str(current).split(_RETRY_NOTE)[0])
        deepest = current
        pending += [current.__context__, current.__cause__, wrapped]
    return EngineError(f"The run stopped: {type(deepest).__name__}: {deepest}")


def write_task_list(run_dir: Path, model: str, attempt: str, tasks: NDArray[np.int64]) -> Path:
    """Write the remaining tasks to a file that the stages map into memory.

    Parameters
    ----------
    run_dir : Path
        The run directory.
    model, attempt : str
        The model and the attempt, which name the file. Files of killed attempts are deleted.
    tasks : array of int
        Task numbers.

    Returns
    -------
    Path
        The file.
    """
    path = run_dir / "tasks" / f"{model}-{attempt}.npy"
    make_folder(path.parent)
    for old in path.parent.iterdir():
        if old.name.rpartition("-")[0] == model:
            old.unlink()
    with whole_file(path) as file:
        np.save(file, tasks)
    return path
