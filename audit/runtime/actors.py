"""Run engines as Ray actors, each with fixed GPUs.

All roles of a model call the same actors, so the model's weights are loaded only once.
"""

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import ray
from ray.util import metrics
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

from audit.core.errors import EngineDiedError, EngineError, EngineLoadError, EngineLoadingError
from audit.core.records import Generation, GenerationRequest
from audit.engines.config import ModelConfig
from audit.engines.port import Engine
from audit.engines.precision import computes_in_bfloat16_here, dtype_on_cpu
from audit.engines.processes import explain
from audit.engines.vllm_engine import VllmEngine, engine_environment, is_cpu_build
from audit.engines.weights import Weights, local_path
from audit.runtime.nodes import cluster_nodes
from audit.runtime.placement import Placement, plan_placement
from audit.runtime.progress import Engines

_GPU_WAIT_FIRST_S = 5.0  # a wait for GPUs is first reported after this time
_GPU_WAIT_NOTED_S = 30.0  # interval of the further reports of a wait for GPUs
_CPUS = 0.1  # share of a CPU that an engine without a GPU requests
_CPU_WAIT_NOTED_S = 45.0  # interval of the reports that no CPU is free
_CLOSE_S = 60.0  # time limit for closing all replicas
_ANSWER_S = 4.0  # time limit for an engine to report its state
_COUNTED_S = 10.0  # time limit for the counters of an interrupted run; a dead engine fails at once
_DYING_S = 10.0  # time limit for closing a dead engine
_RETRY_S = 1.0  # time to wait before a restarted engine is called again
_LOOK_S = 1.0  # interval of the checks of the nodes while engines load


@dataclass(frozen=True)
class EngineSpec:
    """Hold the settings from which an engine actor builds its engine, also after a restart."""

    model: ModelConfig
    weights: Weights | None
    engine_id: str
    on_gpu: bool
    questions_path: str  # the scripted engine reads its script (gold answers) from here


def build_engine(spec: EngineSpec) -> Engine:
    """Build an engine from its specification.

    Parameters
    ----------
    spec : EngineSpec
        Settings of the engine.

    Returns
    -------
    Engine
        The engine, which is not started yet.

    Raises
    ------
    EngineLoadError
        If the model needs weights and its weights are not resolved.
    """
    if spec.model.engine == "scripted":
        from audit.engines.scripted import ScriptedEngine
        from audit.shards.questions import QuestionFile

        script = {question.id: question for question in QuestionFile(spec.questions_path)}
        return ScriptedEngine(spec.model, spec.engine_id, script)
    if spec.model.engine == "openai":
        from audit.engines.openai_engine import OpenAIEngine

        return OpenAIEngine(spec.model)
    if spec.weights is None:
        raise EngineLoadError(f"Model {spec.model.name} has no resolved weights.")
    if spec.model.engine == "masked_lm":
        from audit.engines.masked_engine import MaskedEngine

        return MaskedEngine(spec.model, spec.weights, spec.engine_id)
    # vllm reads these variables when it is imported. Ray has limited the threads to one, since the
    # actor requests less than one CPU.
    os.environ |= engine_environment(
        spec.model, spec.on_gpu, len(os.sched_getaffinity(0)), is_cpu_build()
    )
    path = local_path(spec.model, spec.weights)
    exported = metrics if spec.model.engine_metrics else None
    return VllmEngine(
        spec.model, path, spec.weights.hub_revision, spec.engine_id, spec.on_gpu, exported
    )


class EngineActor:
    """Run one engine in a separate process.

    After Ray has restarted the actor, the actor loads the engine again before it answers.
    """

    def __init__(self, spec: EngineSpec) -> None:
        self._spec = spec
        self._engine: Engine | None = None
        self._failed: EngineError | None = None
        self._starting = asyncio.Lock()
        # the loading of the engine after a restart
        self._loading: asyncio.Task[Engine] | None = None
        self._in_flight = 0

    def __repr__(self) -> str:
        return self._spec.engine_id  # this name is shown in Ray's dashboard and logs

    async def start(self) -> str:
        """Load the engine, and return the precision of its weights.

        Raises EngineLoadError or EndpointAuthError.
        """
        return (await self._ready()).precision

    async def run(
        self, requests: Sequence[GenerationRequest], priority: int = 0
    ) -> list[Generation]:
        """Send requests to the engine, and return its replies in the order of the requests.

        Parameters
        ----------
        requests : sequence of GenerationRequest
            Requests to the model.
        priority : int
            Priority of the requests, as in `Engine.run`.

        Returns
        -------
        list of Generation
            One reply for each request.

        Raises
        ------
        EngineLoadingError
            If the engine was restarted and is still loading. The caller sends the requests to other
            replicas.
        EngineDiedError
            If the engine died and cannot be restarted.
        """
        self._in_flight += len(requests)
        try:
            if self._engine is None and ray.get_runtime_context().was_current_actor_reconstructed:
                self._loading = self._loading or asyncio.create_task(self._ready())
                if not self._loading.done():
                    raise EngineLoadingError(
                        f"The engine {self._spec.engine_id} was restarted and is loading."
                    )
            engine = await self._ready()
            return await engine.run(requests, priority)
        except EngineDiedError as error:
            # The engine of this process is dead. Ray starts one new process, and repeats the
            # unanswered requests. If the new engine dies too, the run stops with the reason.
            if (
                self._spec.model.max_restarts == 0
                or ray.get_runtime_context().was_current_actor_reconstructed
            ):
                raise
            print(f"{error} This process ends, so that Ray starts a new process.", flush=True)
            threading.Timer(_DYING_S, os._exit, (1,)).start()
            await self.close()  # closing releases the engine's GPUs
            os._exit(1)
        finally:
            self._in_flight -= len(requests)

    async def ask_of(self, questions_path: str) -> None:
        """Set the file of questions of the next run. A scripted engine reads its replies from this
        file.
        """
        async with self._starting:
            self._spec = replace(self._spec, questions_path=questions_path)
            if self._spec.model.engine == "scripted":
                # The next call builds the scripted engine again, which is fast.
                self._engine = None

    async def stats(self) -> dict[str, float]:
        """Return the engine's counters; {} if the engine is not loaded.

        This call does not load the engine after a restart.
        """
        return {} if self._engine is None else self._engine.stats()

    async def progress(self) -> Engines:
        """Return the engine's state, and the number of requests finished since loading."""
        # only engines that call endpoints have this attribute
        trouble: str = getattr(self._engine, "trouble", str)()
        return Engines(
            1, 1, 0, self._in_flight, int((await self.stats()).get("requests", 0)), trouble
        )

    async def close(self) -> None:
        """Close the engine."""
        if self._engine is not None:
            await self._engine.close()

    async def _ready(self) -> Engine:
        async with self._starting:
            # waiting calls must not load the closed engine again
            if self._failed is not None:
                raise self._failed
            if self._engine is None:
                try:
                    engine = build_engine(self._spec)
                    await engine.start()
                except EngineError as error:
                    self._failed = error
                    if self._spec.model.engine == "vllm":
                        self._failed = EngineLoadError(f"{error}{explain()}")
                    raise self._failed from None
                self._engine = engine
            return self._engine


@dataclass(eq=False)
class EnginePool:
    """Hold the engine actors of one model, one actor for each replica."""

    model: str
    actors: list[Any]
    groups: list[PlacementGroup]  # one placement group for each actor; empty without GPUs
    ready: bool = False
    # For each placement group, maps each node to its number of GPUs; {} while a node of the group
    # is lost.
    places: list[dict[str, float]] = field(default_factory=list)
    precision: str = ""  # the precision of all replicas, once they are loaded
    # Values of the counters at the last call of `stats`.
    counted: dict[str, float] = field(default_factory=dict)
    done: int = 0  # number of finished requests at the last call of `progress`

    def load(
        self, timeout_s: float, note: Callable[[str], None], others: Callable[[], bool]
    ) -> Iterator[None]:
        """Load every replica. The generator yields while the replicas are loading.

        Parameters
        ----------
        timeout_s : float
            Time limit in seconds.
        note : callable
            Is called with sentences to display while the pool waits for GPUs. Another job may use
            the GPUs, or an autoscaler may still have to start nodes.
        others : callable
            Returns whether other models of this job are running. While other models run, there is
            no time limit for GPUs, since these models release their GPUs when they end.

        Raises
        ------
        EngineError
            If a replica cannot be loaded. The message states the cause.
        """
        try:
            began = yield from self._wait_for_gpus(timeout_s, note, others)
            precisions = yield from self._wait_for_engines(began, timeout_s, note)
            self.precision = one_precision(self.model, precisions)
            self.ready = True
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, EngineError):
                raise error.cause from error
            raise EngineLoadError(f"Model {self.model}: {error.cause or error}") from error
        except ray.exceptions.RayActorError as error:
            raise EngineLoadError(
                f"Model {self.model}: its engine process died while loading: {error}"
            ) from error
        # for example, Ray could not set up the runtime_env
        except ray.exceptions.RayError as error:
            raise EngineLoadError(
                f"Model {self.model}: its engine process did not start: {error}"
            ) from error

    def _wait_for_engines(
        self, began: float, timeout_s: float, note: Callable[[str], None]
    ) -> Generator[None, None, set[str]]:
        """Wait for the engines as described in `load`, and return their precisions.

        If at least one engine is loaded, the method does not wait for engines on lost nodes. Such
        engines load later, when GPUs are free again, and receive requests from then on.
        """
        calls = _started(self.actors)
        absent: list[Any] = []  # Ray restarts these actors
        precisions: set[str] = set()
        noted = called = looked = time.monotonic()
        while calls or absent:
            absent += self._answers(calls, precisions)
            now = time.monotonic()
            if now - looked >= _LOOK_S:
                looked = now
                for sentence in self.lost_nodes():
                    note(sentence)
            if precisions and all(map(self._on_lost_node, [*calls.values(), *absent])):
                break
            if absent and now - called >= _RETRY_S:
                called = now
                calls |= _started(absent)
                absent = []
            if now - noted >= _CPU_WAIT_NOTED_S:
                noted = now
                self._note_cpus(note)
            if (calls or absent) and now - began >= timeout_s:
                raise EngineLoadError(
                    f"Model {self.model} was not loaded after {timeout_s:g} s (load_timeout_s). Its engine's log is in "
                    "the dashboard, or on its node in session_latest/logs of Ray's folder (/tmp/ray; for a Ray that "
                    "this program started, /tmp/ray-USERID/ray)."
                )
            if calls or absent:
                yield
        return precisions

    def _answers(self, calls: dict[Any, Any], precisions: set[str]) -> list[Any]:
        """Handle the finished calls of `start`, and return the actors that Ray is restarting.

        Finished calls are removed from `calls`, and the precisions of loaded engines are added to
        `precisions`. If an engine failed to load, its error is raised.
        """
        ended, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0) if calls else ([], [])
        absent = []
        for reference in ended:
            actor = calls.pop(reference)
            try:
                precisions.add(ray.get(reference))
            except ray.exceptions.ActorUnavailableError:
                absent.append(actor)
            except ray.exceptions.ActorDiedError:
                if len(self.actors) == 1 or not self._on_lost_node(actor):
                    raise
        return absent

    def _note_cpus(self, note: Callable[[str], None]) -> None:
        """Report with `note` if the cluster has no free CPU for the engines that are loading."""
        if ray.available_resources().get("CPU", 0.0) < _CPUS:
            note(f"{self.model}: still loading; {cluster_cpus()} (see 'ray status').")

    def lost_nodes(self) -> list[str]:
        """Describe the nodes that were lost since the last call.

        Returns
        -------
        list of str
            A sentence for each lost node, with the number of GPUs that the pool used on it. The
            engines of the node are restarted when enough GPUs are free on other nodes.
        """
        if not self.groups:
            return []
        try:
            nodes = {node["NodeID"]: node for node in ray.nodes()}
            alive = set()
            for name, node in nodes.items():
                if node["Alive"]:
                    alive.add(name)
            places = [_place(group, alive) for group in self.groups]
        except ray.exceptions.RayError:
            return []  # Ray's head node does not answer, so the state of the nodes is unknown
        before, self.places = self.places, places
        gone = sorted(set[str]().union(*before) - alive)
        losses = []
        for name in gone:
            losses.append(
                self._gone(name, before, nodes.get(name, {}).get("NodeManagerAddress", name))
            )
        return losses

    def _gone(self, node: str, before: Sequence[Mapping[str, float]], address: str) -> str:
        engines = []
        for i, place in enumerate(before):
            if node in place:
                engines.append(f"{self.model}/{i}")
        gpus, others = sum(place.get(node, 0.0) for place in before), sum(map(bool, self.places))
        rest = f"The other {others} answer its requests" if others else "No other engine is left"
        return (
            f"{self.model}: node {address} is gone, with {gpus:g} GPUs and {', '.join(engines)}. {rest}; it is "
            "restarted when such GPUs are free or a node joins (see 'ray status')."
        )

    def _on_lost_node(self, actor: Any) -> bool:
        """Return whether an actor has lost its GPUs and has no other GPUs yet."""
        return bool(self.places) and not self.places[self.actors.index(actor)]

    def _wait_for_gpus(
        self, timeout_s: float, note: Callable[[str], None], others: Callable[[], bool]
    ) -> Generator[None, None, float]:
        """Wait for GPUs as described in `load`, and return when the time limit began."""
        began, noted, pause_s = time.monotonic(), time.monotonic(), _GPU_WAIT_FIRST_S
        while not all(placement_group_table(group)["state"] == "CREATED" for group in self.groups):
            if others():
                began = time.monotonic()
            elif time.monotonic() - began >= timeout_s:
                raise EngineLoadError(
                    f"Model {self.model} got no GPUs within load_timeout_s={timeout_s:g}: {self._gpus_wanted()}"
                )
            if time.monotonic() - noted >= pause_s:
                note(f"{self.model}: {self._gpus_wanted()}")
                noted, pause_s = time.monotonic(), _GPU_WAIT_NOTED_S
            yield
        self.lost_nodes()  # the call records which nodes hold the GPUs
        return began

    def _gpus_wanted(self) -> str:
        bundles = chain.from_iterable(group.bundle_specs for group in self.groups)
        wanted = sum(bundle.get("GPU", 0.0) for bundle in bundles)
        free, total = (
            ray.available_resources().get("GPU", 0.0),
            ray.cluster_resources().get("GPU", 0.0),
        )
        have = f"the cluster has {total:g}, of which {free:g} are free"
        more = "; an autoscaler has to start more" if wanted > total else ""
        return f"waiting for {wanted:g} GPUs; {have}{more} (see 'ray status')."

    def progress(self) -> Engines:
        """Return the engines' state, and the number of requests finished since the last call."""
        calls = [actor.progress.remote() for actor in self.actors]
        answered, silent = ray.wait(calls, num_returns=len(calls), timeout=_ANSWER_S)
        states = [Engines(1, 0, 0, 0, 0) for _ in silent]
        for reference in answered:
            try:
                states.append(ray.get(reference))
            except ray.exceptions.RayError:
                states.append(Engines(1, 0, 1, 0, 0))
        total = Engines.of(states)
        before, self.done = self.done, total.done
        return replace(total, done=max(0, total.done - before))  # a restarted engine counts from 0

    def ask_of(self, questions_path: str) -> None:
        """Set the questions of the next run in every actor (`EngineActor.ask_of`).

        Raises EngineError if an engine died.
        """
        try:
            ray.get([actor.ask_of.remote(questions_path) for actor in self.actors])
        except ray.exceptions.RayError as error:
            raise EngineDiedError(
                f"Model {self.model}: its engine ended between two runs: {error}"
            ) from error

    def stats(self, *, well: bool = True) -> dict[str, float]:
        """Return the increase of the counters since the last call, summed over the replicas.

        Parameters
        ----------
        well : bool
            False for an interrupted run. The time limit for the engines' answers is then short.

        Returns
        -------
        dict
            The increase of each counter. Replicas that do not answer are left out. A dead engine
            raises no error, since all rows are already stored.
        """
        total: dict[str, float] = {}
        for actor in self.actors:
            try:
                counters = ray.get(actor.stats.remote(), timeout=60 if well else _COUNTED_S)
            except ray.exceptions.RayError as error:
                if well:
                    print(
                        f"engine of {self.model} returned no counters: {type(error).__name__}",
                        flush=True,
                    )
                continue
            for name, value in counters.items():
                total[name] = total.get(name, 0.0) + value
        new = {name: value - self.counted.get(name, 0.0) for name, value in total.items()}
        self.counted = total
        return new

    def close(self) -> None:
        """Close the engines, end their processes and release their GPUs."""
        deadline = time.monotonic() + _CLOSE_S
        try:  # an engine that is still loading cannot answer
            for closed in [actor.close.remote() for actor in self.actors if self.ready]:
                try:
                    ray.get(closed, timeout=max(1.0, deadline - time.monotonic()))
                except ray.exceptions.RayError as error:
                    print(
                        f"engine of {self.model} did not close cleanly: {type(error).__name__}",
                        flush=True,
                    )
        finally:
            for actor in self.actors:
                ray.kill(actor)
            for group in self.groups:
                remove_placement_group(group)


def _place(group: PlacementGroup, alive: Set[str]) -> dict[str, float]:
    """Map each node of a placement group to its number of GPUs; {} while a node is lost."""
    table = placement_group_table(group)
    nodes = table.get("bundles_to_node_id") or {}
    if table["state"] != "CREATED" or not alive >= set(nodes.values()):
        return {}
    gpus: dict[str, float] = {}
    for bundle, node in nodes.items():
        gpus[node] = gpus.get(node, 0.0) + group.bundle_specs[bundle].get("GPU", 0.0)
    return gpus


def cluster_cpus() -> str:
    """Describe the number of free CPUs in the cluster."""
    cpus, free = ray.cluster_resources().get("CPU", 0.0), ray.available_resources().get("CPU", 0.0)
    if not cpus:
        return "no node offers a CPU, which an engine without a GPU and the stages need: a worker node must join"
    return f"{free:g} of the cluster's {cpus:g} CPUs are free"


def one_precision(model: str, precisions: Collection[str]) -> str:
    """Check that all replicas have the same precision, and return this precision.

    Parameters
    ----------
    model : str
        Name of the model, for the error message.
    precisions : collection of str
        The precisions of the model's replicas.

    Returns
    -------
    str
        The precision; "" for a model without weights.

    Raises
    ------
    EngineLoadError
        If the precisions differ, because answers of two precisions must not be mixed.
    """
    if len(precisions) > 1:
        raise EngineLoadError(
            f"The precision of the replicas of model {model} is {' and '.join(sorted(precisions))}, because their "
            f"nodes differ. Expected one precision. Example: model.{model}.dtype={max(precisions)}."
        )
    return "".join(precisions)


def on_cpus(model: ModelConfig) -> ModelConfig:
    """Return the model's settings with a data type that the CPUs of all nodes support."""
    return replace(
        model, dtype=dtype_on_cpu(model.dtype, model.dtype != "auto" or _all_in_bfloat16())
    )


def _started(actors: Sequence[Any]) -> dict[Any, Any]:
    """Call `start` of the given actors, and map each call to its actor."""
    return {actor.start.remote(): actor for actor in actors}


def _all_in_bfloat16() -> bool:
    """Return whether the CPUs of all nodes can compute in bfloat16.

    All nodes must be able to, since an engine may restart on any node.
    """
    here, task = ray.get_runtime_context().get_node_id(), ray.remote(computes_in_bfloat16_here)
    calls, is_here = [], False
    for node in ray.nodes():
        if not node["Alive"] or not node["Resources"].get("CPU", 0.0):
            continue
        if node["NodeID"] == here:
            is_here = True
        else:
            other = NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)
            calls.append(task.options(num_cpus=0, scheduling_strategy=other).remote())
    return (not is_here or computes_in_bfloat16_here()) and all(ray.get(calls))


def start_pool(
    model: ModelConfig,
    weights: Weights | None,
    questions_path: str,
    autoscale: bool = False,
    restart: int = 0,
) -> EnginePool:
    """Create the engine actors of one model. The engines are loaded by `EnginePool.load`.

    Parameters
    ----------
    model : ModelConfig
        Settings of the model.
    weights : Weights or None
        The resolved weights of the model.
    questions_path : str
        Path of the file with the run's questions.
    autoscale : bool
        Whether an autoscaler may start nodes.
    restart : int
        Number of the restart; 0 for the first start.

    Returns
    -------
    EnginePool
        The pool with the actors.

    Raises
    ------
    ConfigError
        If the replicas cannot fit on the cluster.
    """
    placement = None
    if model.engine == "vllm" or model.scripted.on_gpu:
        placement = plan_placement(model, cluster_nodes(), autoscale=autoscale)
    if model.engine == "vllm" and (placement is None or is_cpu_build()):
        model = on_cpus(model)
    pool = EnginePool(model.name, [], [])
    start = f"#{restart}" if restart else ""
    try:
        for replica in range(model.replicas if model.engine != "openai" else 1):
            engine_id = f"{model.name}/{replica}{start}"
            spec = EngineSpec(model, weights, engine_id, placement is not None, questions_path)
            pool.actors.append(_start_actor(spec, placement, pool.groups))
    except BaseException:
        pool.close()  # closing the pool releases the GPUs that are already reserved
        raise
    return pool


_names: Counter[str] = Counter()


def _unique(engine_id: str) -> str:
    """Return an unused name for an actor.

    The name of an ended actor cannot be used again at once, since Ray releases the name with a
    delay.
    """
    _names[engine_id] += 1
    return engine_id if _names[engine_id] == 1 else f"{engine_id} ({_names[engine_id]})"


def _start_actor(
    spec: EngineSpec, placement: Placement | None, groups: list[PlacementGroup]
) -> Any:
    options: dict[str, Any] = {
        # A model on CPUs requests a share of a CPU, so that Ray does not place it on a head node
        # without CPUs.
        "num_cpus": _CPUS if spec.model.engine == "vllm" and placement is None else 0,
        "max_concurrency": 10_000,
        "max_restarts": spec.model.max_restarts,
        # Without retries, a call to a restarting engine fails at once, and the caller uses another
        # engine. With retries, the call would wait for GPUs that may never be free.
        "max_task_retries": 0,
        "name": _unique(spec.engine_id),
    }
    if placement is not None:
        group = placement_group(list(placement.bundles), strategy=placement.strategy)
        groups.append(group)
        options |= {
            "num_gpus": placement.actor_gpus,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=0, placement_group_capture_child_tasks=True
            ),
        }
    return ray.remote(EngineActor).options(**options).remote(spec)
