"""Engines as Ray actors, pinned to their GPUs. All roles call the same actors: one copy of the model."""

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import ray
from ray.util import metrics
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from audit.engines.config import ModelConfig
from audit.engines.port import Engine
from audit.engines.precision import computes_in_bfloat16_here, dtype_on_cpu
from audit.engines.processes import explain
from audit.engines.vllm_engine import VllmEngine, engine_environment, is_cpu_build
from audit.engines.weights import Weights, local_path
from audit.errors import EngineDiedError, EngineError, EngineLoadError, EngineLoadingError
from audit.records import Generation, GenerationRequest
from audit.runtime.nodes import cluster_nodes
from audit.runtime.placement import Placement, plan_placement
from audit.runtime.progress import Engines

_GPU_WAIT_FIRST_S = 5.0  # before a person is told that GPUs are waited for
_GPU_WAIT_NOTED_S = 30.0  # how often from then on
_CPUS = 0.1  # that an engine without a GPU asks for
_CPU_WAIT_NOTED_S = 45.0  # how often a person is told that there are none
_CLOSE_S = 60.0  # for all replicas together
_ANSWER_S = 4.0  # for an engine to say how it does
_COUNTED_S = 10.0  # for the counters of a run that broke off; a dead engine says so at once
_DYING_S = 10.0  # for a dead engine to be cleared away
_AGAIN_S = 1.0  # before an engine that is started again is called again
_LOOK_S = 1.0  # between two looks at the nodes while engines load


@dataclass(frozen=True)
class EngineSpec:
    """All that an engine actor needs to build its engine, also after a restart."""

    model: ModelConfig
    weights: Weights | None
    engine_id: str
    on_gpu: bool
    questions_path: str  # the scripted engine reads its script (gold answers) from here


def build_engine(spec: EngineSpec) -> Engine:
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
    # Of this machine, and before vllm is imported. Ray has set one thread, the actor's share of the CPUs.
    os.environ |= engine_environment(spec.model, spec.on_gpu, len(os.sched_getaffinity(0)), is_cpu_build())
    path = local_path(spec.model, spec.weights)
    exported = metrics if spec.model.engine_metrics else None
    return VllmEngine(spec.model, path, spec.weights.hub_revision, spec.engine_id, spec.on_gpu, exported)


class EngineActor:
    """One engine in a process of its own. After a restart by Ray it loads the engine again before it answers."""

    def __init__(self, spec: EngineSpec) -> None:
        self._spec = spec
        self._engine: Engine | None = None
        self._failed: EngineError | None = None
        self._starting = asyncio.Lock()
        self._loading: asyncio.Task[Engine] | None = None  # of one that was started again
        self._in_flight = 0

    def __repr__(self) -> str:
        return self._spec.engine_id  # in Ray's dashboard and logs

    async def start(self) -> str:
        """Load, and return the engine's precision. Raises EngineLoadError or EndpointAuthError."""
        return (await self._ready()).precision

    async def run(self, requests: Sequence[GenerationRequest], priority: int = 0) -> list[Generation]:
        """Return the replies. Raises EngineLoadingError while an engine that was started again loads: its requests are
        answered by others meanwhile, if there are any."""
        self._in_flight += len(requests)
        try:
            if self._engine is None and ray.get_runtime_context().was_current_actor_reconstructed:
                self._loading = self._loading or asyncio.create_task(self._ready())
                if not self._loading.done():
                    raise EngineLoadingError(f"The engine {self._spec.engine_id} was started again and loads.")
            engine = await self._ready()
            return await engine.run(requests, priority)
        except EngineDiedError as error:
            # The process holds a dead engine. Ray starts a new one, once, and what was not answered is asked again;
            # should that one's engine die as well, the run stops and says why.
            if self._spec.model.max_restarts == 0 or ray.get_runtime_context().was_current_actor_reconstructed:
                raise
            print(f"{error} This process ends, so that Ray starts another.", flush=True)
            threading.Timer(_DYING_S, os._exit, (1,)).start()
            await self.close()  # what is left of the engine gives its GPUs back
            os._exit(1)
        finally:
            self._in_flight -= len(requests)

    async def ask_of(self, questions_path: str) -> None:
        """The questions of the next run: a scripted engine takes its script from them."""
        async with self._starting:
            self._spec = replace(self._spec, questions_path=questions_path)
            if self._spec.model.engine == "scripted":
                self._engine = None  # built anew by the next call, which takes no time

    async def stats(self) -> dict[str, float]:
        return {} if self._engine is None else self._engine.stats()  # a restarted one need not load for this

    async def progress(self) -> Engines:
        """done: since it was loaded."""
        trouble: str = getattr(self._engine, "trouble", str)()  # of endpoints alone
        return Engines(1, 1, 0, self._in_flight, int((await self.stats()).get("requests", 0)), trouble)

    async def close(self) -> None:
        if self._engine is not None:
            await self._engine.close()

    async def _ready(self) -> Engine:
        async with self._starting:
            if self._failed is not None:  # calls that waited for the engine need not load it again to know
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
    """The actors of one model, one a replica."""

    model: str
    actors: list[Any]
    groups: list[PlacementGroup]  # one for each actor, or none without GPUs
    ready: bool = False
    places: list[dict[str, float]] = field(default_factory=list)  # GPUs of each group by node; empty without all
    precision: str = ""  # of every replica, once they are loaded
    told: dict[str, float] = field(default_factory=dict)  # the counters that `stats` gave before
    done: int = 0  # requests that `progress` counted before

    def load(self, timeout_s: float, note: Callable[[str], None], others: Callable[[], bool]) -> Iterator[None]:
        """Load every replica; yields while it has to be waited for. Raises EngineError that says why one is not. `note`
        is told while GPUs are waited for: they may be another job's, or an autoscaler's to come. While `others` of this
        job run the wait has no end: theirs come free when they are done."""
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
            raise EngineLoadError(f"Model {self.model}: its engine process died while loading: {error}") from error
        except ray.exceptions.RayError as error:  # such as a runtime_env that could not be set up
            raise EngineLoadError(f"Model {self.model}: its engine process did not start: {error}") from error

    def _wait_for_engines(
        self, began: float, timeout_s: float, note: Callable[[str], None]
    ) -> Generator[None, None, set[str]]:
        """As in `load`; gives the precisions. Engines whose node is gone are not waited for if another one is loaded:
        they load when there are GPUs again, and are then called."""
        calls = {actor.start.remote(): actor for actor in self.actors}
        absent: list[Any] = []  # actors that Ray starts again
        precisions: set[str] = set()
        told = called = looked = time.monotonic()
        while calls or absent:
            absent += self._answers(calls, precisions)
            if (now := time.monotonic()) - looked >= _LOOK_S:
                looked = now
                for sentence in self.lost_nodes():
                    note(sentence)
            if precisions and all(map(self._on_lost_node, [*calls.values(), *absent])):
                break
            if absent and now - called >= _AGAIN_S:
                called = now
                calls |= {actor.start.remote(): actor for actor in absent}
                absent = []
            if now - told >= _CPU_WAIT_NOTED_S:
                told = now
                if ray.available_resources().get("CPU", 0.0) < _CPUS:
                    note(f"{self.model}: still loading; {cpus_there()} (see 'ray status').")
            if (calls or absent) and now - began >= timeout_s:
                raise EngineLoadError(
                    f"Model {self.model} was not loaded after {timeout_s:g} s (load_timeout_s). What its engine is "
                    "doing stands in the dashboard, or on its node in session_latest/logs of Ray's folder (/tmp/ray; "
                    "of a Ray of our own /tmp/ray-USERID/ray)."
                )
            if calls or absent:
                yield
        return precisions

    def _answers(self, calls: dict[Any, Any], precisions: set[str]) -> list[Any]:
        """Take the calls that ended out of `calls`, and add the precisions of the engines that are loaded; return the
        actors that Ray starts again. Raises what an engine raised while it loaded."""
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

    def lost_nodes(self) -> list[str]:
        """Return what a person is to know of nodes that are gone since the last call, with the GPUs that were used
        there. The engines there are started again where such GPUs are free."""
        if not self.groups:
            return []
        try:
            nodes = {node["NodeID"]: node for node in ray.nodes()}
            alive = {name for name, node in nodes.items() if node["Alive"]}
            places = [_place(group, alive) for group in self.groups]
        except ray.exceptions.RayError:
            return []  # the head does not answer: nothing is known of the nodes
        before, self.places = self.places, places
        gone = sorted({name for place in before for name in place} - alive)
        return [self._gone(name, before, nodes.get(name, {}).get("NodeManagerAddress", name)) for name in gone]

    def _gone(self, node: str, before: Sequence[Mapping[str, float]], address: str) -> str:
        engines = [f"{self.model}/{i}" for i, place in enumerate(before) if node in place]
        gpus, others = sum(place.get(node, 0.0) for place in before), sum(map(bool, self.places))
        rest = f"The other {others} answer its requests" if others else "No other engine is left"
        return (
            f"{self.model}: node {address} is gone, with {gpus:g} GPUs and {', '.join(engines)}. {rest}; it is started "
            "again when such GPUs are free or a node joins (see 'ray status')."
        )

    def _on_lost_node(self, actor: Any) -> bool:
        """Return whether an actor's GPUs are gone and no others were given to it yet."""
        return bool(self.places) and not self.places[self.actors.index(actor)]

    def _wait_for_gpus(
        self, timeout_s: float, note: Callable[[str], None], others: Callable[[], bool]
    ) -> Generator[None, None, float]:
        """As in `load`; gives the moment from which `timeout_s` counts."""
        began, told, pause_s = time.monotonic(), time.monotonic(), _GPU_WAIT_FIRST_S
        while not all(placement_group_table(group)["state"] == "CREATED" for group in self.groups):
            if others():
                began = time.monotonic()
            elif time.monotonic() - began >= timeout_s:
                raise EngineLoadError(
                    f"Model {self.model} got no GPUs within load_timeout_s={timeout_s:g}: {self._gpus_wanted()}"
                )
            if time.monotonic() - told >= pause_s:
                note(f"{self.model}: {self._gpus_wanted()}")
                told, pause_s = time.monotonic(), _GPU_WAIT_NOTED_S
            yield
        self.lost_nodes()  # notes the places
        return began

    def _gpus_wanted(self) -> str:
        asked = sum(bundle.get("GPU", 0.0) for group in self.groups for bundle in group.bundle_specs)
        free, there = ray.available_resources().get("GPU", 0.0), ray.cluster_resources().get("GPU", 0.0)
        have = f"the cluster has {there:g}, of which {free:g} are free"
        more = "; an autoscaler has to start more" if asked > there else ""
        return f"waiting for {asked:g} GPUs; {have}{more} (see 'ray status')."

    def progress(self) -> Engines:
        """What the engines do, and what they did since this was last asked."""
        asked = [actor.progress.remote() for actor in self.actors]
        told, silent = ray.wait(asked, num_returns=len(asked), timeout=_ANSWER_S)
        found = [Engines(1, 0, 0, 0, 0) for _ in silent]
        for reference in told:
            try:
                found.append(ray.get(reference))
            except ray.exceptions.RayError:
                found.append(Engines(1, 0, 1, 0, 0))
        whole = Engines.of(found)
        before, self.done = self.done, whole.done
        return replace(whole, done=max(0, whole.done - before))  # less where one started again

    def ask_of(self, questions_path: str) -> None:
        """Before another run's questions are asked (`EngineActor.ask_of`). Raises EngineError where an engine died."""
        try:
            ray.get([actor.ask_of.remote(questions_path) for actor in self.actors])
        except ray.exceptions.RayError as error:
            raise EngineDiedError(f"Model {self.model}: its engine ended between two runs: {error}") from error

    def stats(self, *, well: bool = True) -> dict[str, float]:
        """Counters since the last call, summed over the replicas that answer: the rows are stored, so a dead engine
        fails nothing now. well: False after a run that broke off, which nobody waits for."""
        total: dict[str, float] = {}
        for actor in self.actors:
            try:
                found = ray.get(actor.stats.remote(), timeout=60 if well else _COUNTED_S)
            except ray.exceptions.RayError as error:
                if well:
                    print(f"engine of {self.model} gave no counters: {type(error).__name__}", flush=True)
                continue
            for name, value in found.items():
                total[name] = total.get(name, 0.0) + value
        new = {name: value - self.told.get(name, 0.0) for name, value in total.items()}
        self.told = total
        return new

    def close(self) -> None:
        deadline = time.monotonic() + _CLOSE_S
        try:  # an engine that still loads hears nothing
            for closed in [actor.close.remote() for actor in self.actors if self.ready]:
                try:
                    ray.get(closed, timeout=max(1.0, deadline - time.monotonic()))
                except ray.exceptions.RayError as error:
                    print(f"engine of {self.model} did not close cleanly: {type(error).__name__}", flush=True)
        finally:
            for actor in self.actors:
                ray.kill(actor)
            for group in self.groups:
                remove_placement_group(group)


def _place(group: PlacementGroup, alive: Set[str]) -> dict[str, float]:
    """Return the GPUs of a placement group by node; {} while one of its nodes is gone."""
    table = placement_group_table(group)
    nodes = table.get("bundles_to_node_id") or {}
    if table["state"] != "CREATED" or not alive >= set(nodes.values()):
        return {}
    found: dict[str, float] = {}
    for bundle, node in nodes.items():
        found[node] = found.get(node, 0.0) + group.bundle_specs[bundle].get("GPU", 0.0)
    return found


def cpus_there() -> str:
    cpus, free = (found.get("CPU", 0.0) for found in (ray.cluster_resources(), ray.available_resources()))
    if not cpus:
        return "no node offers a CPU, which an engine without a GPU and the stages need: a worker node has to join"
    return f"{free:g} of the cluster's {cpus:g} CPUs are free"


def one_precision(model: str, precisions: Collection[str]) -> str:
    """Return the precision of all replicas. EngineLoadError where they differ: their rows must not be mixed."""
    if len(precisions) > 1:
        raise EngineLoadError(
            f"The precision of the replicas of model {model} is {' and '.join(sorted(precisions))}, because their "
            f"nodes differ. Expected one for all. Example: model.{model}.dtype={max(precisions)}."
        )
    return "".join(precisions)


def on_cpus(model: ModelConfig) -> ModelConfig:
    """Return the model with the dtype that the CPUs of every node compute in."""
    return replace(model, dtype=dtype_on_cpu(model.dtype, model.dtype != "auto" or _all_in_bfloat16()))


def _all_in_bfloat16() -> bool:
    """Whether every node that offers CPUs computes in bfloat16: an engine may start again on any of them."""
    here, task = ray.get_runtime_context().get_node_id(), ray.remote(computes_in_bfloat16_here)
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0.0)]
    others = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=True) for node in nodes if node["NodeID"] != here]
    asked = [task.options(num_cpus=0, scheduling_strategy=other).remote() for other in others]
    own = len(others) == len(nodes) or computes_in_bfloat16_here()
    return own and all(ray.get(asked))


def start_pool(
    model: ModelConfig, weights: Weights | None, questions_path: str, autoscale: bool = False, again: int = 0
) -> EnginePool:
    """Create the engine actors of one model (they load when `load` is stepped through). again: of a restart, which."""
    placement = None
    if model.engine == "vllm" or model.scripted.on_gpu:
        placement = plan_placement(model, cluster_nodes(), autoscale=autoscale)
    if model.engine == "vllm" and (placement is None or is_cpu_build()):
        model = on_cpus(model)
    pool = EnginePool(model.name, [], [])
    start = f"#{again}" if again else ""
    try:
        for replica in range(model.replicas if model.engine != "openai" else 1):
            engine_id = f"{model.name}/{replica}{start}"
            spec = EngineSpec(model, weights, engine_id, placement is not None, questions_path)
            pool.actors.append(_start_actor(spec, placement, pool.groups))
    except BaseException:
        pool.close()  # GPUs that were reserved already
        raise
    return pool


_names: Counter[str] = Counter()


def _unique(engine_id: str) -> str:
    """Return a name for an actor; Ray gives one back only some time after its actor is killed."""
    _names[engine_id] += 1
    return engine_id if _names[engine_id] == 1 else f"{engine_id} ({_names[engine_id]})"


def _start_actor(spec: EngineSpec, placement: Placement | None, groups: list[PlacementGroup]) -> Any:
    options: dict[str, Any] = {
        # A model on CPUs asks for some, so that it does not land on a head node that offers none.
        "num_cpus": _CPUS if spec.model.engine == "vllm" and placement is None else 0,
        "max_concurrency": 10_000,
        "max_restarts": spec.model.max_restarts,
        # A call to an engine that is being started again fails, and the caller asks another one: with retries it would
        # wait for GPUs that may never come.
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
