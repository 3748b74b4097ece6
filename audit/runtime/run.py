"""A whole run of one audit: open the run directory, run every model through the pipeline, verify, write the manifest.

The order matters: whatever can be refused is refused before an engine loads; whatever is computed is on disk before
the next thing starts.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import ray

from audit.audits import Work
from audit.config import reading_of, sampling_of
from audit.engines.config import WEIGHED, ModelConfig
from audit.errors import AuditError, ConfigError, EngineError, ShardError, SupersededError
from audit.records import Design
from audit.registry import finish
from audit.resolve import ResolvedRun
from audit.runtime.actors import EnginePool, start_pool
from audit.runtime.early import EarlyStop, Looks
from audit.runtime.keep import give_back, take_pool
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
from audit.runtime.placement import may_run_beside
from audit.runtime.progress import Display, usual_load
from audit.runtime.stages import StageContext
from audit.runtime.start import hush_ray, start_ray
from audit.runtime.turns import NoRoom, run_in_turns
from audit.runtime.waiting import waits_for
from audit.shards.attempt import now
from audit.shards.complete import count_rows
from audit.shards.cost import run_cost
from audit.shards.keys import KeySet
from audit.shards.manifest import RunDir, check_packages, open_run_dir, package_versions
from audit.shards.questions import QUESTIONS, QuestionFile, write_questions
from audit.shards.read import drop_rows, scan_run
from audit.shards.verify import verify_run
from audit.shards.working_copy import fetch_shards, named, store_of, where, withdraw

_ROOM_WAIT_S = 2.0  # for the GPUs of a model that joins others to be reserved
_IDS_IN_MANIFEST = 10_000  # of a larger sample the manifest has the hash; questions.arrow has the ids of any


@dataclass
class RunResult:
    """What came of a run. `failed` names the models that did not finish, with the reason."""

    run_dir: Path
    rows: int
    failed: dict[str, str] = field(default_factory=dict)


def run_audit(
    resolved: ResolvedRun, analysis: Mapping[str, Any], display: Display, early: EarlyStop | None = None
) -> RunResult:
    """Run (or resume) an audit. Raises AuditError when nothing could be run; a failed model is reported by name.

    analysis: {seed, thresholds, control_benchmark}, what the verdict is reached with, for the manifest.
    early: the rule that may stop a model before its last question; None asks all.
    """
    config = resolved.config
    if len(resolved.failed) == len(config.model):
        raise EngineError(
            "No model can be run.\n" + "\n".join(f"  {name}: {why}" for name, why in resolved.failed.items())
        )
    if store_of(resolved.path) is not None and (config.registry or os.environ.get("AUDIT_REGISTRY")):
        raise ConfigError(
            "A registry keeps runs that lie in folders, and this run_dir is object storage. Leave registry= and "
            "AUDIT_REGISTRY out; or copy the finished run to a folder, and register it: audit registry add FOLDER."
        )
    finish.check(config.registry)
    facts = {name: resolved.facts(name) for name in config.model}
    schema = resolved.audit.schema
    with open_run_dir(resolved.path, schema, resolved.identity, resolved.plain, facts, analysis) as run_dir:
        if not (run_dir.path / QUESTIONS).is_file():
            write_questions(run_dir.path, (q for s in resolved.samples for q in s.questions()))
        if resolved.on_open is not None:
            resolved.on_open(run_dir.path)
        run_dir.update(
            prompt_hashes={name: protocol.sha256 for name, protocol in resolved.protocols.items()},
            benchmark={s.benchmark.name: s.facts() for s in resolved.samples},
            settings=[asdict(setting) for setting in resolved.design.settings],
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
        result = RunResult(run_dir.path, 0, dict(resolved.failed))
        questions = QuestionFile(run_dir.path)
        try:
            looks = None
            if early is not None:
                looks = Looks(early, run_dir.path, schema, resolved.design, questions, config.seed)
                run_dir.update(stop=looks.facts())
            _run_models(resolved, questions, run_dir, result, display, looks)
            _finish(resolved, questions, run_dir, result, looks)
        except KeyboardInterrupt as stop:
            _record_failure(run_dir, stop)
            raise type(stop)(_kept(resolved, run_dir)) from None
        except BaseException as error:
            if _record_failure(run_dir, error):
                finish.failed(config.registry, run_dir.path, f"{type(error).__name__}: {error}")
            raise
    if result.failed:
        finish.failed(
            config.registry, result.run_dir, "; ".join(f"model {name}: {why}" for name, why in result.failed.items())
        )
    return result


def _kept(resolved: ResolvedRun, run_dir: RunDir) -> str:
    """What a person who stopped the run is told."""
    try:
        fetch_shards(run_dir.path)
        kept = sum(count_rows(run_dir.path, resolved.audit.schema).values())
    except ShardError:  # before the first shard
        kept = 0
    return f"Stopped: {kept:,} rows kept in {named(run_dir.path)}; the same command goes on."


def _record_failure(run_dir: RunDir, error: BaseException) -> bool:
    """Whether this failure is the run's: it is not where a later driver goes on with it."""
    try:
        run_dir.update(status="failed", ended=now())
    except SupersededError:
        return False
    except AuditError as also:  # a full disk: the first error is the one to show
        error.add_note(f"The manifest could not be updated either: {also}")
    return True


def _run_models(
    resolved: ResolvedRun,
    questions: QuestionFile,
    run_dir: RunDir,
    result: RunResult,
    display: Display,
    looks: Looks | None,
) -> None:
    config, design, schema = resolved.config, resolved.design, resolved.audit.schema
    runnable = [name for name in config.model if name not in result.failed]
    scan = scan_run(run_dir.path, schema)
    for corrupt in scan.corrupt:
        display.note(f"shard {corrupt.path.name} is set aside in quarantine/, its rows are run again: {corrupt.reason}")
    if config.store.retry_errors and len(scan.error_keys):
        again = [name for name in config.model if _any_of([name], scan.error_keys, design, questions)]
        _keep_to_packages(resolved, questions, run_dir, scan.done, again)
        dropped = drop_rows(run_dir.path, schema, scan.error_keys, design, attempt=run_dir.attempt)
        display.note(f"{dropped} error rows dropped, to be asked again")
        scan = scan_run(run_dir.path, schema)
    todo = {name: missing_tasks(scan.done, name, design, questions) for name in runnable}
    totals = _rows_by_arm(np.arange(len(questions) * len(design.parts)), design)
    display.begin(dict.fromkeys(runnable, totals))
    for name in runnable:
        left = _rows_by_arm(todo[name], design)
        display.resumed(name, {arm: totals[arm] - left[arm] for arm in totals})
    batches = {name: looks.batches(name) if looks else iter([todo[name]][: len(todo[name])]) for name in runnable}
    first = {name: next(batches[name], None) for name in runnable}  # before an engine loads: nothing may be left to ask
    asking = [name for name, tasks in first.items() if tasks is not None]
    _keep_to_packages(resolved, questions, run_dir, scan.done, asking)

    def ended(name: str, error: AuditError | None) -> None:
        going.remove(name)
        if error is not None:
            result.failed[name] = str(error)
            if going:  # the command ends with what failed; others are to come first
                display.note(f"model {name} failed: {error}")
        elif looks is not None:
            run_dir.update(stop=looks.facts())
            if looks.stopped_early(name):
                display.note(f"{name}: stopped after {looks.asked(name).sum():,} of {len(questions):,} questions")

    def may_join(name: str, running: Collection[str]) -> bool:
        # Ray Data shares out each node's CPUs as whole numbers among its executions: one that gets none would wait.
        cpus = max((node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]), default=0.0)
        if config.cluster.autoscale and not cpus:  # the nodes to come bring theirs
            cpus = math.inf
        if len(running) >= min(config.cluster.models_at_once or math.inf, cpus):
            return False
        engines = [one for other in running for one in _engines(resolved, other)]
        gpus = math.inf if config.cluster.autoscale else ray.cluster_resources().get("GPU", 0.0)
        return may_run_beside(_engines(resolved, name), engines, gpus)

    going = set(runnable)
    runs = {}
    for name, tasks in first.items():
        if tasks is None:
            ended(name, None)
        else:
            rest = chain([tasks], batches[name])
            runs[name] = partial(_run_model, resolved, name, rest, questions, run_dir, display)
    if runs:
        display.stage("starting or joining Ray (usually 5 to 15 s)")
        start_ray(config.cluster)
        run_in_turns(runs, may_join, ended)


def _keep_to_packages(
    resolved: ResolvedRun, questions: QuestionFile, run_dir: RunDir, done: KeySet, asking: Collection[str]
) -> None:
    """Before these models are asked: ConfigError where one of them has an engine that loads weights, rows of such an
    engine are there, and it is another version now. Where there are no such rows the manifest has this start's."""
    found = package_versions()
    if not asking or found == run_dir.manifest.packages:
        return
    weighed = {name for name in resolved.config.model if any(e.engine in WEIGHED for e in _engines(resolved, name))}
    if not _any_of(weighed, done, resolved.design, questions):
        run_dir.update(packages=found)
    elif not weighed.isdisjoint(asking):
        check_packages(run_dir.path, run_dir.manifest.packages, found)


def _any_of(models: Collection[str], keys: KeySet, design: Design, questions: QuestionFile) -> bool:
    """Whether a row of these models is among the keys."""
    return bool(expected_keys(list(models), design, questions).contains(keys.digests()).any())


def _engines(resolved: ResolvedRun, name: str) -> list[ModelConfig]:
    """What a model's run loads. One pool serves both roles where the model answers itself; one that only answers needs
    no other."""
    model, answering = resolved.config.model[name], resolved.answering[name]
    return [answering] if resolved.audit.prepare is None or answering is model else [model, answering]


def _run_model(
    resolved: ResolvedRun,
    name: str,
    batches: Iterator[np.ndarray],
    questions: QuestionFile,
    run_dir: RunDir,
    display: Display,
    others: Callable[[], bool],
) -> Generator[None]:
    """Yields wherever it waits (`turns`). batches: of tasks, at least one; the next is asked for when the rows of one
    are on disk. others: do others run? Then GPUs that are not free at once are not waited for (NoRoom), unless an
    autoscaler may start them."""
    audit, config, design, weights = resolved.audit, resolved.config, resolved.design, resolved.weights
    model = config.model[name]
    answering = resolved.answering[name]
    reading = reading_of(config, answering)
    pools: list[EnginePool] = []
    run: ChunkRun | None = None
    path: Path | None = None
    well = False
    started = time.monotonic()
    try:
        models = _engines(resolved, name)
        for one in models:
            start = partial(start_pool, autoscale=config.cluster.autoscale)
            pools.append(take_pool(one, weights[one.name], where(questions.path), start))
        if others() and not config.cluster.autoscale and not all(pool.placed(_ROOM_WAIT_S) for pool in pools):
            raise NoRoom
        longest = max(one.load_timeout_s for one in models)
        ready: float | None = None  # when the engines were
        for tasks in batches:
            size = tasks_per_chunk(
                len(tasks),
                len(design.settings) / len(design.parts),
                config.store.rows_per_shard,
                MAX_TASKS_PER_CHUNK_SCRIPTED if model.engine == "scripted" else MAX_TASKS_PER_CHUNK,
            )
            path = write_task_list(run_dir.path.resolve(), name, run_dir.attempt, tasks)
            context = StageContext(
                audit=audit,
                work=Work(
                    design=design,
                    protocol=resolved.protocols[name],
                    model=name,
                    reading=reading,
                    preparing=model.preparing,
                    answering=sampling_of(reading, answering),
                    seed=config.seed,
                    own=resolved.own,
                ),
                run_dir=where(run_dir.path),
                questions_path=where(questions.path),
                tasks_path=where(path),
                attempt=run_dir.attempt,
                store_format=config.store.format,
                tasks_per_chunk=size,
                model_revision=resolved.revision(model) or model.engine,
                option_normalisation=answering.option_normalisation,
                preparing_engines=tuple(pools[0].actors),
                answering_engines=tuple(pools[-1].actors),
            )
            # A chunk a replica at least, or a large fleet waits for questions.
            in_flight = max(config.cluster.chunks_in_flight, *(len(pool.actors) for pool in pools))
            run = ChunkRun(context, len(tasks), in_flight, longest)
            if ready is None:
                earlier = [t["load_s"] for k, t in run_dir.manifest.timings.items() if k.startswith(f"{name}/")]
                kept = all(pool.ready for pool in pools)
                usual = usual_load([one.engine for one in models], earlier)
                with display.kept(name) if kept else display.loading(name, usual):
                    for one, pool in zip(models, pools, strict=True):
                        for _ in pool.load(one.load_timeout_s, display.stage, others):
                            run.check()
                            yield
                ready = time.monotonic()
                _timed(run_dir, name, load_s=ready - started)  # before it is killed, if it is
            with display.watching(name, partial(waits_for, pools)):
                while True:
                    ended = run.ended  # before what it stored is read
                    for counts in run.counts():
                        display.counts(name, counts)
                    if ended:
                        break
                    yield
            run.close()
            run = None
        assert ready is not None  # noqa: S101 - there was a batch
        _timed(run_dir, name, load_s=ready - started, generate_s=time.monotonic() - ready)
        for pool in pools:
            retries = pool.stats().get("retries", 0.0)
            AuditMetrics(name).retries(retries)
            display.retries(name, int(retries))
        well = True
    except (GeneratorExit, KeyboardInterrupt):
        hush_ray()
        raise
    finally:
        with ExitStack() as closing:  # from the last to the first, whatever one of them does
            if path is not None:
                closing.callback(withdraw, path)
                closing.callback(path.unlink, missing_ok=True)
            if run is not None:
                closing.callback(run.close)
            for pool in pools:
                closing.callback(give_back, pool, failed=not well)
            if run is not None:
                closing.callback(run.stop)


def _timed(run_dir: RunDir, model: str, **seconds: float) -> None:
    """What an attempt took: without generate_s one that did not end."""
    timing = {what: round(took, 3) for what, took in seconds.items()}
    run_dir.update(timings={**run_dir.manifest.timings, f"{model}/{run_dir.attempt}": timing})


def _finish(
    resolved: ResolvedRun, questions: QuestionFile, run_dir: RunDir, result: RunResult, looks: Looks | None
) -> None:
    config, design, schema = resolved.config, resolved.design, resolved.audit.schema
    run_dir.update(models_failed=result.failed)  # and refuses a superseded driver: what follows removes files
    asked = {name: looks.asked(name) for name in config.model} if looks else {}
    expected = expected_keys(list(config.model), design, questions, asked)
    fetch_shards(run_dir.path)
    report = verify_run(run_dir.path, schema, expected, run_dir.attempt)
    result.rows = report.rows
    run_dir.update(
        status="finished" if report.complete and not result.failed else "failed",
        ended=now(),
        models_failed=result.failed,
        shards=[shard.record() for shard in report.shards],
        cost=run_cost(run_dir.path, schema) if report.rows else {},
    )
    if not result.failed:
        report.require_complete()
        return
    done = scan_run(run_dir.path, schema).done
    for name in config.model:
        if name in result.failed:
            continue
        missing = missing_tasks(done, name, design, questions)
        if name in asked:
            missing = missing[asked[name][missing // len(design.parts)]]
        if len(missing):
            raise ShardError(f"Rows of model {name} are missing although it ended. Run the same command again.")


def _rows_by_arm(tasks: np.ndarray, design: Design) -> dict[str, int]:
    """Rows that these tasks produce, per arm of the design."""
    per_part = np.bincount(tasks % len(design.parts), minlength=len(design.parts))
    rows: dict[str, int] = {}
    for part, count in zip(design.parts, per_part, strict=True):
        rows[part.arm] = rows.get(part.arm, 0) + int(count) * len(part.levels)
    return rows
