"""A whole sweep: resolve, open the run directory, run every model through the pipeline, verify, write the manifest.

The order matters: whatever can be refused is refused before an engine loads; whatever is computed is on disk before
the next thing starts.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import ray

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import Benchmark, open_benchmark
from audit.benchmarks.sample import Sample, draw_sample, sampled_questions
from audit.config import (
    ClusterConfig,
    SweepConfig,
    design_of,
    load_group,
    plain_config,
    protocol_of,
    reading_of,
    sample_size,
    worker_of,
)
from audit.design import Design
from audit.engines.config import ModelConfig
from audit.engines.weights import Weights, resolve_weights
from audit.errors import AuditError, ConfigError, EngineError, ShardError
from audit.prompting.templates import load_protocol
from audit.records import Arm, Protocol, Question
from audit.runtime.actors import EnginePool, start_pool
from audit.runtime.metrics import AuditMetrics
from audit.runtime.pipeline import (
    MAX_TASKS_PER_CHUNK,
    MAX_TASKS_PER_CHUNK_SCRIPTED,
    ChunkRun,
    expected_keys,
    missing_tasks,
    tasks_per_chunk,
    write_task_list,
)
from audit.runtime.progress import Display
from audit.runtime.stages import Sampling, StageContext
from audit.shards.attempt import now
from audit.shards.cost import run_cost
from audit.shards.manifest import RunDir, fingerprint, open_run_dir
from audit.shards.questions import QUESTIONS, QuestionFile, write_questions
from audit.shards.read import drop_rows, scan_run
from audit.shards.verify import verify_run

_IDS_IN_MANIFEST = 10_000  # of a larger sample the manifest has the hash; questions.arrow has the ids of any


@dataclass
class SweepResult:
    """What came of a sweep. `failed` names the models that did not finish, with the reason."""

    run_dir: Path
    rows: int
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BenchmarkSample:
    """A benchmark and the questions drawn from it."""

    benchmark: Benchmark
    sample: Sample

    def questions(self) -> Iterator[Question]:
        return sampled_questions(self.benchmark, self.sample)


def open_samples(config: SweepConfig) -> list[BenchmarkSample]:
    """The benchmark, and the control benchmark when one is asked for, each with its fixed sample."""
    configs = [config.benchmark]
    if config.control_benchmark is not None:
        configs.append(BenchmarkConfig(**load_group("benchmark", config.control_benchmark)))
    samples = []
    for one in configs:
        benchmark = open_benchmark(one, seed=config.seed)
        samples.append(BenchmarkSample(benchmark, draw_sample(benchmark, sample_size(config), config.seed)))
    names = [s.benchmark.name for s in samples]
    if len(set(names)) != len(names):
        raise ConfigError(f"control_benchmark is the benchmark itself ({names[0]}). Name another.")
    return samples


def default_run_dir(config: SweepConfig, identity: str) -> Path:
    """The same command gives the same directory: that is what makes it resume."""
    models = "+".join(config.model) if len(config.model) <= 3 else f"{len(config.model)}models"
    return Path("outputs") / f"{config.benchmark.name}-{models}-{identity[:10]}"


@dataclass(frozen=True)
class ResolvedRun:
    """A configuration with everything it points to pinned: samples, prompts, weights, and so the run directory."""

    config: SweepConfig
    design: Design
    samples: list[BenchmarkSample]
    protocols: dict[str, Protocol]
    weights: dict[str, Weights | None]
    failed: dict[str, str]
    plain: dict[str, Any]
    identity: str
    path: Path


def resolve_run(config: SweepConfig) -> ResolvedRun:
    """Everything that can go wrong before an engine loads. Writes nothing. Raises AuditError."""
    design = design_of(config)
    samples = open_samples(config)
    protocols = {name: load_protocol(protocol_of(config, model)) for name, model in config.model.items()}
    weights, failed = _resolve_all(config)
    plain = plain_config(config)
    identity = fingerprint(
        plain,
        prompts={name: protocol.sha256 for name, protocol in protocols.items()},
        benchmarks={s.benchmark.name: s.benchmark.revision for s in samples},
    )
    path = Path(config.run_dir) if config.run_dir else default_run_dir(config, identity)
    return ResolvedRun(config, design, samples, protocols, weights, failed, plain, identity, path)


def run_sweep(config: SweepConfig, display: Display) -> SweepResult:
    """Run (or resume) a sweep. Raises AuditError when nothing could be run; a failed model is reported by name."""
    display.stage("reading the benchmark and resolving models")
    resolved = resolve_run(config)
    if len(resolved.failed) == len(config.model):
        raise EngineError(
            "No model can be run.\n" + "\n".join(f"  {name}: {why}" for name, why in resolved.failed.items())
        )
    facts = {name: _facts(config, name, resolved.weights) for name in config.model}
    with open_run_dir(resolved.path, resolved.identity, resolved.plain, facts) as run_dir:
        if not (run_dir.path / QUESTIONS).is_file():
            write_questions(run_dir.path, (q for s in resolved.samples for q in s.questions()))
        run_dir.update(
            prompt_hashes={name: protocol.sha256 for name, protocol in resolved.protocols.items()},
            benchmark={s.benchmark.name: _benchmark_facts(s) for s in resolved.samples},
            sampled_ids={
                s.benchmark.name: list(s.sample.ids) for s in resolved.samples if s.sample.n <= _IDS_IN_MANIFEST
            },
            models_failed=resolved.failed,
        )
        for one in resolved.samples:
            for warning in one.benchmark.warnings:
                display.note(f"{one.benchmark.name}: {warning}")
        if not resolved.path.is_absolute() and "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ:
            display.note(
                f"run_dir {resolved.path} is relative: in a Ray job it lies in the job's working directory, which Ray "
                "may delete, and other nodes do not see it. Give run_dir=/shared/folder/name."
            )
        result = SweepResult(run_dir.path, 0, dict(resolved.failed))
        questions = QuestionFile(run_dir.path)
        try:
            _run_models(resolved, questions, run_dir, result, display)
            _finish(resolved, questions, run_dir, result)
        except BaseException as error:
            _record_failure(run_dir, error)
            raise
    return result


def _record_failure(run_dir: RunDir, error: BaseException) -> None:
    try:
        run_dir.update(status="failed", ended=now())
    except AuditError as also:  # a full disk: the first error is the one to show
        error.add_note(f"The manifest could not be updated either: {also}")


def _run_models(
    resolved: ResolvedRun, questions: QuestionFile, run_dir: RunDir, result: SweepResult, display: Display
) -> None:
    config, design = resolved.config, resolved.design
    runnable = [name for name in config.model if name not in result.failed]
    scan = scan_run(run_dir.path)
    for corrupt in scan.corrupt:
        display.note(f"shard {corrupt.path.name} is set aside in quarantine/, its rows are run again: {corrupt.reason}")
    if config.store.retry_errors and len(scan.error_keys):
        dropped = drop_rows(run_dir.path, scan.error_keys, attempt=run_dir.attempt)
        display.note(f"{dropped} error rows dropped, to be asked again")
        scan = scan_run(run_dir.path)
    todo = {name: missing_tasks(scan.done, name, design, questions) for name in runnable}
    totals = _rows_by_arm(np.arange(len(questions) * len(design.sets)), design)
    display.begin(dict.fromkeys(runnable, totals))
    for name in runnable:
        left = _rows_by_arm(todo[name], design)
        display.resumed(name, {arm: totals[arm] - left[arm] for arm in totals})
    if any(len(tasks) for tasks in todo.values()):
        _start_ray(config)
    for name in runnable:
        if not len(todo[name]):
            continue
        try:
            _run_model(resolved, name, todo[name], questions, run_dir, display)
        except ShardError:
            raise  # the disk or the run directory: no model can go on
        except AuditError as error:
            result.failed[name] = str(error)
            display.note(f"model {name} failed: {error}")


def _run_model(
    resolved: ResolvedRun, name: str, tasks: np.ndarray, questions: QuestionFile, run_dir: RunDir, display: Display
) -> None:
    config, design, weights = resolved.config, resolved.design, resolved.weights
    model = config.model[name]
    answering = worker_of(config, model)
    pools: list[EnginePool] = []
    run: ChunkRun | None = None
    path: Path | None = None
    started = time.monotonic()
    try:
        router_pool = start_pool(model, weights[name], str(questions.path.resolve()))
        pools.append(router_pool)
        worker_pool = router_pool
        if answering is not model:
            worker_pool = start_pool(answering, weights[answering.name], str(questions.path.resolve()))
            pools.append(worker_pool)
        size = tasks_per_chunk(
            len(tasks),
            len(design.settings) / len(design.sets),
            config.store.rows_per_shard,
            MAX_TASKS_PER_CHUNK_SCRIPTED if model.engine == "scripted" else MAX_TASKS_PER_CHUNK,
        )
        path = write_task_list(run_dir.path.resolve(), name, run_dir.attempt, tasks)
        context = StageContext(
            run_dir=str(run_dir.path.resolve()),
            questions_path=str(questions.path.resolve()),
            tasks_path=str(path),
            attempt=run_dir.attempt,
            store_format=config.store.format,
            tasks_per_chunk=size,
            design=design,
            protocol=resolved.protocols[name],
            model=name,
            model_revision=_revision(model, weights[name]),
            reading=reading_of(config, answering),
            option_normalisation=answering.option_normalisation,
            router=Sampling(model.router.max_tokens, model.router.temperature, model.router.top_p),
            worker=Sampling(answering.worker.max_tokens, answering.worker.temperature, answering.worker.top_p),
            seed=config.seed,
            router_engines=tuple(router_pool.actors),
            worker_engines=tuple(worker_pool.actors),
        )
        longest = max(model.load_timeout_s, answering.load_timeout_s)
        run = ChunkRun(context, len(tasks), config.cluster.chunks_in_flight, longest)
        with display.loading(name):
            for one, pool in zip((model, answering), pools, strict=False):
                pool.wait_ready(one.load_timeout_s, display.stage, run.check)
        generating = time.monotonic()
        for counts in run.counts():
            display.counts(name, counts)
        timing = {
            "load_s": round(generating - started, 3),
            "generate_s": round(time.monotonic() - generating, 3),
        }
        run_dir.update(timings={**run_dir.manifest.timings, f"{name}/{run_dir.attempt}": timing})
        for pool in pools:
            retries = pool.stats().get("retries", 0.0)
            AuditMetrics(name).retries(retries)
            display.retries(name, int(retries))
    finally:
        try:
            for pool in pools:
                pool.close()
        finally:
            if run is not None:
                run.close()
            if path is not None:
                path.unlink(missing_ok=True)


def _finish(resolved: ResolvedRun, questions: QuestionFile, run_dir: RunDir, result: SweepResult) -> None:
    config, design = resolved.config, resolved.design
    report = verify_run(run_dir.path, expected_keys(list(config.model), design, questions), run_dir.attempt)
    result.rows = report.rows
    run_dir.update(
        status="failed" if result.failed else "finished",
        ended=now(),
        models_failed=result.failed,
        shards=[shard.record() for shard in report.shards],
        cost=run_cost(run_dir.path) if report.rows else {},
    )
    if not result.failed:
        report.require_complete()
        return
    done = scan_run(run_dir.path).done
    for name in config.model:
        if name not in result.failed and len(missing_tasks(done, name, design, questions)):
            raise ShardError(f"Rows of model {name} are missing although it ended. Run the same command again.")


def _resolve_all(config: SweepConfig) -> tuple[dict[str, Weights | None], dict[str, str]]:
    """Every vLLM model's weights by name; those that cannot be resolved are reported, the others go on."""
    weights: dict[str, Weights | None] = {}
    failed: dict[str, str] = {}
    for name, model in config.model.items():
        answering = worker_of(config, model)
        try:
            for one in (model, answering):
                if one.name not in weights:
                    weights[one.name] = resolve_weights(one) if one.engine == "vllm" else None
        except EngineError as error:
            failed[name] = str(error)
    return weights, failed


def _revision(model: ModelConfig, weights: Weights | None) -> str:
    if weights is not None:
        return weights.revision
    if model.engine == "openai":
        return "endpoint:" + ",".join(sorted({endpoint.model for endpoint in model.endpoints}))
    return model.engine


def _facts(config: SweepConfig, name: str, weights: dict[str, Weights | None]) -> dict[str, Any]:
    model = config.model[name]
    answering = worker_of(config, model)

    def known(one: ModelConfig) -> str | None:
        unresolved = one.engine == "vllm" and weights.get(one.name) is None
        return None if unresolved else _revision(one, weights.get(one.name))

    return {
        "revision": known(model),
        "engine": model.engine,
        "path": model.path,
        "reading": str(reading_of(config, answering)),
        "worker": answering.name,
        "worker_revision": known(answering),
    }


def _benchmark_facts(one: BenchmarkSample) -> dict[str, Any]:
    sample = one.sample
    return {
        "revision": one.benchmark.revision,
        "n": sample.n,
        "ids_sha256": hashlib.sha256("\n".join(sample.ids).encode()).hexdigest(),  # the ids: questions.arrow
        "n_total": sample.n_total,
        "chance": sample.chance,
        "duplicates": sample.duplicates,
        "warnings": one.benchmark.warnings,
    }


def _rows_by_arm(tasks: np.ndarray, design: Design) -> dict[Arm, int]:
    """Rows that these tasks produce, per arm of the design."""
    per_set = np.bincount(tasks % len(design.sets), minlength=len(design.sets))
    rows: dict[Arm, int] = {}
    for part, count in zip(design.sets, per_set, strict=True):
        rows[part.arm] = rows.get(part.arm, 0) + int(count) * len(part.routers)
    return rows


def _start_ray(config: SweepConfig) -> None:
    if ray.is_initialized():
        return
    try:
        _init_ray(config.cluster)
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        address = config.cluster.address or os.environ.get("RAY_ADDRESS") or "a Ray of its own"
        raise ConfigError(
            f"Ray could not be reached or started ({address}): {type(error).__name__}: {error}\nExpected cluster=local "
            "without RAY_ADDRESS to start Ray here, cluster=ray_address on a node of a running cluster, or "
            "'ray job submit' from outside (jobs/README.md)."
        ) from error


# For a Ray of our own, unless the environment says otherwise.
_LOCAL_RAY = {
    # An engine's own child processes (vLLM's EngineCore) end with its actor, also after a kill -9.
    "RAY_process_group_cleanup_enabled": "1",
    # Ray starts its workers at 15: there an engine that computes on the CPUs would wait for whatever else runs.
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def _init_ray(cluster: ClusterConfig) -> None:
    os.environ.setdefault("RAY_DATA_USAGE_DISABLED", "1")  # it reports to nobody, and saves a process that collects
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if cluster.runtime_env:
        options["runtime_env"] = dict(cluster.runtime_env)
    if cluster.address is not None:
        ray.init(address=cluster.address, **options)
        return
    # Inside `ray job submit` an address is set in the environment, and ray.init takes it.
    if os.environ.get("RAY_ADDRESS"):
        ray.init(**options)
        return
    for name, value in _LOCAL_RAY.items():
        os.environ.setdefault(name, value)
    # "local": without it Ray joins whatever cluster was last started on this machine.
    ray.init(
        address="local",
        num_cpus=cluster.num_cpus,
        num_gpus=cluster.num_gpus,
        include_dashboard=cluster.dashboard,
        **options,
    )
