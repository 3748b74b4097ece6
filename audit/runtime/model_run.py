"""Run one model: take its engines, send the questions in chunks, and release the engines.

The engines are released even after an error.
"""

import socket
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import ray

from audit.config.resolve import ResolvedRun
from audit.core.errors import AuditError
from audit.engines.config import ModelConfig
from audit.engines.port import BACKEND, drifts
from audit.runtime.actors import EnginePool, cluster_cpus, start_pool
from audit.runtime.early import Canary, refusal
from audit.runtime.keep import ROOM_WAIT_S, give_back, take_pool
from audit.runtime.pipeline import ChunkRun, tasks_per_chunk, write_task_list
from audit.runtime.placement import NoRoom
from audit.runtime.progress import Display, Engines, still, usual_load
from audit.runtime.stages import AuditMetrics, StageContext
from audit.runtime.tasks import engines_of
from audit.shards.manifest import RunDir
from audit.shards.questions import QuestionFile
from audit.shards.working_copy import where, withdraw

_REACH_S = 2.0  # time limit for connecting to a node
_AT_ONCE = 64
_LOOK_S = 2.0  # interval of the checks of the engines' nodes


def waits_for(pools: Sequence[EnginePool], seconds: float) -> str:
    """Describe what a run that has stored no rows for some time is waiting for.

    Parameters
    ----------
    pools : sequence of EnginePool
        The engines of the run.
    seconds : float
        Seconds since rows were last stored.

    Returns
    -------
    str
        A text on the state of the engines, nodes and CPUs.
    """
    try:
        engines = [pool.progress() for pool in dict.fromkeys(pools)]
        nodes, cpus = ray.nodes(), cluster_cpus()
    except ray.exceptions.RayError as error:
        return (
            f"nothing was stored for {seconds:.0f} s; Ray does not answer: {type(error).__name__}."
        )
    alive = []
    for node in nodes:
        if node["Alive"]:
            alive.append(node)
    words = [f"{len(alive)} of {len(nodes)} nodes live"]
    if lost := silent_nodes(alive):
        words.append(
            f"of these {', '.join(lost)} does not answer: Ray gives up such a node after about a minute, and its work "
            "is then done elsewhere"
        )
    return still(seconds, Engines.of(engines), "; ".join([*words, cpus]) + " (see 'ray status').")


def silent_nodes(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the addresses of the nodes to which this machine cannot connect.

    Parameters
    ----------
    nodes : sequence of mapping
        The nodes, as returned by `ray.nodes()`. Ray counts a node as alive until its health check
        has failed for more than a minute.

    Returns
    -------
    list of str
        The addresses of these nodes.
    """
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as threads:
        reached = list(threads.map(_reached, nodes))
    addresses = []
    for node, reachable in zip(nodes, reached, strict=True):
        if not reachable:
            addresses.append(node["NodeManagerAddress"])
    return addresses


def _reached(node: Mapping[str, Any]) -> bool:
    try:
        socket.create_connection(
            (node["NodeManagerAddress"], node["NodeManagerPort"]), _REACH_S
        ).close()
    except OSError:
        return False
    return True


@dataclass(eq=False)
class ModelRun:
    """Run all batches of tasks on one model.

    A batch starts when the rows of the previous batch are stored.

    Parameters
    ----------
    resolved : ResolvedRun
        The resolved run.
    name : str
        Name of the model.
    batches : iterator of array
        At least one batch of task numbers.
    questions : QuestionFile
        File with the questions of the run.
    run_dir : RunDir
        The run directory.
    display : Display
        Shows the progress.
    restart_index : int or None
        Number of the restart. New engines are then started, and this number is part of their names.
        With None, engines may be shared with other runs.
    """

    resolved: ResolvedRun
    name: str
    batches: Iterator[np.ndarray]
    questions: QuestionFile
    run_dir: RunDir
    display: Display
    restart_index: int | None = None

    def __post_init__(self) -> None:
        self._models = engines_of(self.resolved, self.name)
        self._pools: list[EnginePool] = []
        self._tasks: Path | None = None  # the list of tasks that the stages read
        self._chunks: ChunkRun | None = None  # the batch in progress
        self._canary = Canary()
        self._metrics, self._charged = AuditMetrics(self.name), 0.0
        self._counting = False  # whether the counters are exported, which needs Ray
        self._look_at = 0.0  # time of the next check of the nodes (monotonic clock)
        self._timing = f"{self.name}/{self.run_dir.attempt}"
        self._before = (
            self.run_dir.manifest.timings.get(self._timing, {}) if self.restart_index else {}
        )

    def steps(self, others: Callable[[], bool]) -> Generator[None]:
        """Run the model to the end, as a generator that yields whenever it waits.

        Parameters
        ----------
        others : callable
            Returns whether other models are running. If so, this model does not wait for GPUs,
            unless an autoscaler may start nodes with GPUs.

        Raises
        ------
        NoRoom
            If other models are running and the GPUs are not free.
        AuditError
            If the model fails.
        """
        started = time.monotonic()
        ready: float | None = None  # time at which the engines were loaded
        well = False
        try:
            self._take_engines(others)
            for tasks in self.batches:
                self._chunks = chunks = self._begin(tasks)
                if ready is None:
                    yield from self._load(chunks, others)
                    ready = time.monotonic()
                    # the times are stored now, because the run may be killed later
                    self._timed(load_s=ready - started)
                yield from self._follow(chunks)
                chunks.close()
                self._chunks = None
            assert ready is not None  # noqa: S101 - there was a batch
            self._timed(load_s=ready - started, generate_s=time.monotonic() - ready)
            well = True
        finally:
            with ExitStack() as ending:
                ending.callback(self._close, well)
                if ready is not None and well:
                    self._counted()
                elif ready is not None:
                    # people must see the error of the run, not a later error here
                    with suppress(AuditError):
                        self._counted(well=False)

    def _counted(self, *, well: bool = True) -> None:
        """Record the number of retries, and the versions of the backends that answered.

        Both come from the counters of the engines.
        """
        for pool in self._pools:
            stats = pool.stats(well=well)
            retries = stats.get("retries", 0.0)
            self._metrics.add("retries", retries)
            if well:
                self.display.retries(self.name, int(retries))
            backends = {}
            for key, n in stats.items():
                if key.startswith(BACKEND):
                    backends[key.removeprefix(BACKEND)] = int(n)
            before = self.run_dir.manifest.backends
            merged = Counter(before.get(pool.model, {})) + Counter(backends)
            if merged:
                self.run_dir.update(backends={**before, pool.model: dict(sorted(merged.items()))})
            for sentence in drifts(merged):
                self.display.note(f"{pool.model}: {sentence}")

    def _take_engines(self, others: Callable[[], bool]) -> None:
        # If an earlier try found no free GPUs, its engines are released already.
        self._pools = []
        autoscale = self.resolved.config.cluster.autoscale
        start = partial(start_pool, autoscale=autoscale, restart=self.restart_index or 0)
        for model in map(self._as_before, self._models):
            weights = self.resolved.weights[model.name]
            self._pools.append(take_pool(model, weights, where(self.questions.path), start))
        groups = list(chain.from_iterable(pool.groups for pool in self._pools))
        if others() and not autoscale and not all(group.wait(ROOM_WAIT_S) for group in groups):
            raise NoRoom

    def _as_before(self, model: ModelConfig) -> ModelConfig:
        """Return the model's settings with the precision of the stored rows.

        A resumed run must not mix rows of two precisions.
        """
        before = self.run_dir.manifest.precision.get(model.name)
        return replace(model, dtype=before) if before else model

    def _begin(self, tasks: np.ndarray) -> ChunkRun:
        """Start the pipeline for the given tasks.

        The first calls of its stages wait until the engines are loaded.
        """
        resolved, run_dir, config = self.resolved, self.run_dir, self.resolved.config
        design, model, answering = (
            resolved.design,
            config.model[self.name],
            resolved.answering[self.name],
        )
        rows_per_task = len(design.settings) / len(design.parts)
        size = tasks_per_chunk(len(tasks), rows_per_task, config.store.rows_per_shard, model.engine)
        self._tasks = write_task_list(run_dir.path.resolve(), self.name, run_dir.attempt, tasks)
        context = StageContext(
            audit=resolved.audit,
            work=resolved.work(self.name, run_dir.path),
            run_dir=where(run_dir.path),
            questions_path=where(self.questions.path),
            tasks_path=where(self._tasks),
            attempt=run_dir.attempt,
            store_format=config.store.format,
            tasks_per_chunk=size,
            model_revision=resolved.facts(model.name)["revision"] or model.engine,
            option_normalisation=answering.option_normalisation,
            preparing_engines=tuple(self._pools[0].actors),
            answering_engines=tuple(self._pools[-1].actors),
        )
        # Each replica needs at least one chunk. With fewer chunks in flight, some replicas would
        # wait for questions.
        in_flight = max(
            config.cluster.chunks_in_flight, *(len(pool.actors) for pool in self._pools)
        )
        return ChunkRun(
            context, len(tasks), in_flight, max(model.load_timeout_s for model in self._models)
        )

    def _load(self, chunks: ChunkRun, others: Callable[[], bool]) -> Generator[None]:
        timings = self.run_dir.manifest.timings
        earlier = []
        for key, timing in timings.items():
            if key.startswith(f"{self.name}/"):
                earlier.append(timing["load_s"])
        usual = usual_load([model.engine for model in self._models], earlier)
        if all(pool.ready for pool in self._pools):
            self.display.engine_kept(self.name)
        else:
            with self.display.loading(self.name, usual):
                for model, pool in zip(self._models, self._pools, strict=True):
                    for _ in pool.load(model.load_timeout_s, self.display.stage, others):
                        chunks.check()
                        yield
        precisions = {}
        for pool in self._pools:
            if pool.precision:
                precisions[pool.model] = pool.precision
        self.run_dir.update(precision={**self.run_dir.manifest.precision, **precisions})

    def _follow(self, chunks: ChunkRun) -> Generator[None]:
        """Count stored rows until the last chunk is stored."""
        if not self._counting:
            self._counting = True
            self._metrics.begin("retries")
            self._metrics.begin("cost", currency=self.resolved.config.cost.currency)
        with self.display.watching(self.name, partial(waits_for, self._pools)):
            while True:
                ended = chunks.ended  # read before the counts, so that no count is missed
                for counts in chunks.counts():
                    self.display.counts(self.name, counts)
                    spent = self.display.money(self.name) or self._charged
                    self._metrics.add(
                        "cost", spent - self._charged, currency=self.resolved.config.cost.currency
                    )
                    self._charged = spent
                    if self.resolved.config.canary and self._canary.stops(counts):
                        raise refusal(
                            self._canary, self.run_dir.path, self.resolved.audit.schema, self.name
                        )
                if ended:
                    return
                self._look_at_nodes()
                yield

    def _look_at_nodes(self) -> None:
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _LOOK_S
        for pool in dict.fromkeys(self._pools):
            for sentence in pool.lost_nodes():
                self.display.note(sentence)

    def _timed(self, **seconds: float) -> None:
        """Record the times of an attempt.

        If generate_s is missing, the attempt did not end.
        """
        timing = {}
        for name, time_s in seconds.items():
            timing[name] = round(time_s + self._before.get(name, 0.0), 3)
        timings = self.run_dir.manifest.timings
        self.run_dir.update(timings={**timings, self._timing: timing})

    def _close(self, well: bool) -> None:
        # All callbacks are called, from the last to the first, even if one of them raises.
        with ExitStack() as closing:
            if self._tasks is not None:
                closing.callback(withdraw, self._tasks)
                closing.callback(self._tasks.unlink, missing_ok=True)
            if self._chunks is not None:
                closing.callback(self._chunks.close)
            for pool in self._pools:
                closing.callback(give_back, pool, failed=not well or self.restart_index is not None)
            if self._chunks is not None:
                closing.callback(self._chunks.stop)
