"""A whole run of one audit: open the run directory, run every model through the pipeline, verify, write the manifest.

The order matters: whatever can be refused is refused before an engine loads; whatever is computed is on disk before
the next thing starts."""

import math
import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ray

from audit.audits import Hooks
from audit.config import as_file, described_models
from audit.engines.config import WEIGHED
from audit.engines.memory import engine_need
from audit.engines.model_files import files_of
from audit.errors import AuditError, ConfigError, EngineError, ShardError, SpentError, SupersededError
from audit.plan_cost import money_spent, spent
from audit.records import Design, Reading
from audit.resolve import ResolvedRun
from audit.runtime.early import affordable, canary_first
from audit.runtime.model_run import ModelRun, engines_of
from audit.runtime.nodes import cluster_nodes
from audit.runtime.pipeline import expected_keys, missing_tasks
from audit.runtime.placement import Steps, may_run_beside, run_in_turns
from audit.runtime.progress import Display
from audit.runtime.room import check_room
from audit.runtime.start import start_ray
from audit.shards.attempt import now
from audit.shards.complete import count_rows, run_cost, scan_once, table_hashes, verify_run
from audit.shards.files import SHARDS, make_folder, write_file
from audit.shards.keys import KeySet
from audit.shards.manifest import RunDir, check_packages, open_run_dir, package_versions
from audit.shards.questions import QuestionFile, write_questions
from audit.shards.read import drop_rows, scan_run
from audit.shards.redact import redact
from audit.shards.shard_file import shard_paths
from audit.shards.working_copy import fetch_shards, named

NO_HOOKS = Hooks()

_IDS_IN_MANIFEST = 10_000  # of a larger sample the manifest has the hash; questions.arrow has the ids of any


@dataclass
class RunResult:
    """`failed` names the models that did not finish, with the reason; `stopped` those of them that the program stopped,
    with the code."""

    run_dir: Path
    rows: int
    failed: dict[str, str] = field(default_factory=dict)
    stopped: dict[str, dict[str, Any]] = field(default_factory=dict)


def run_audit(
    resolved: ResolvedRun, analysis: Mapping[str, Any], display: Display, hooks: Hooks = NO_HOOKS
) -> RunResult:
    """Run (or resume) an audit. Raises AuditError when nothing could be run; a failed model is reported by name.
    analysis: {seed, thresholds, control_benchmark}, what the verdict is reached with, for the manifest. hooks: what the
    command has done when the run starts and when it fails."""
    config, schema = resolved.config, resolved.audit.schema.of_run(resolved.identity)
    resolved = replace(resolved, audit=replace(resolved.audit, schema=schema))
    if len(resolved.failed) == len(config.model):
        raise EngineError(
            "No model can be run.\n" + "\n".join(f"  {name}: {why}" for name, why in resolved.failed.items())
        )
    hooks.on_start(resolved.path)
    facts = {name: resolved.facts(name) for name in config.model}
    with open_run_dir(resolved.path, schema, resolved.identity, resolved.plain, facts, analysis) as run_dir:
        _describe(resolved, run_dir, display)
        run = Start(resolved, run_dir, display)
        try:
            run.ask()
            run.finish()
        except KeyboardInterrupt as stop:
            _record_failure(run_dir, stop, "stopped")
            kept = 0
            with suppress(ShardError):  # before the first shard
                fetch_shards(run_dir.path)
                kept = sum(count_rows(run_dir.path, schema).values())
            raise type(stop)(
                f"Stopped: {kept:,} rows kept in {named(run_dir.path)}; the same command goes on."
            ) from None
        except BaseException as error:
            if _record_failure(run_dir, error):
                hooks.on_failure(run_dir.path, f"{type(error).__name__}: {error}")
            raise
    result = run.result
    if result.failed:
        hooks.on_failure(result.run_dir, "; ".join(f"model {name}: {why}" for name, why in result.failed.items()))
    return result


def _describe(resolved: ResolvedRun, run_dir: RunDir, display: Display) -> None:
    samples = resolved.samples
    # At every start: the rest of a run would be asked whatever became of the file since.
    write_questions(run_dir.path, (q for s in samples for q in s.questions()))
    if resolved.on_open is not None:
        resolved.on_open(run_dir.path)
    for name in described_models().keys() & resolved.config.model.keys():
        make_folder(run_dir.path / "model")
        text = as_file(name, redact(resolved.plain["model"][name]))
        write_file(run_dir.path / "model" / f"{name}.yaml", text.encode())
    run_dir.update(
        prompt_hashes={name: protocol.sha256 for name, protocol in resolved.protocols.items()},
        benchmark={s.benchmark.name: s.facts() for s in samples},
        settings=[asdict(setting) for setting in resolved.design.settings],
        sampled_ids={s.benchmark.name: list(s.sample.ids) for s in samples if s.sample.n <= _IDS_IN_MANIFEST},
        tables=table_hashes(run_dir.path),
        models_failed=resolved.failed,
        models_stopped={},
    )
    for one in samples:
        for warning in one.benchmark.warnings:
            display.note(f"{one.benchmark.name}: {warning}")
    if not resolved.path.is_absolute() and "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ:
        display.note(
            f"run_dir {resolved.path} is relative: in a Ray job it lies in the job's working directory, which Ray "
            "may delete, and other nodes do not see it. Give run_dir=/shared/folder/name."
        )


def _record_failure(run_dir: RunDir, error: BaseException, status: str = "failed") -> bool:
    """Whether this failure is the run's: it is not where a later driver goes on with it."""
    try:
        run_dir.update(status=status, ended=now())
    except SupersededError:
        return False
    except AuditError as also:  # a full disk: the first error is the one to show
        error.add_note(f"The manifest could not be updated either: {also}")
    return True


@dataclass(eq=False)
class Start:
    """One start of a run whose directory is open: every model is asked what is missing, then the rows are verified."""

    resolved: ResolvedRun
    run_dir: RunDir
    display: Display

    def __post_init__(self) -> None:
        self.questions = QuestionFile(self.run_dir.path)
        self.result = RunResult(self.run_dir.path, 0, dict(self.resolved.failed))
        self._going: set[str] = set()

    def ask(self) -> None:
        """Ask every model that can run the questions that have no row yet."""
        config, design = self.resolved.config, self.resolved.design
        runnable = [name for name in config.model if name not in self.result.failed]
        done = self._scan()
        todo = {name: missing_tasks(done, name, design, self.questions) for name in runnable}
        totals = _rows_by_arm(np.arange(len(self.questions) * len(design.parts)), design)
        called = {name: (config.model[name], self.resolved.answering[name]) for name in runnable}
        money = partial(spent, config.cost, called)
        self.display.begin(dict.fromkeys(runnable, totals), money, config.cost.currency)
        for name in runnable:
            left = _rows_by_arm(todo[name], design)
            self.display.resumed(name, {arm: totals[arm] - left[arm] for arm in totals})
        asking = {name: todo[name] for name in runnable if len(todo[name])}  # no engine loads for the others
        self._keep_to_packages(done, asking)
        self._going = set(runnable)
        for name in runnable:
            if name not in asking:
                self._ended(name, None)
        runs = {name: self._steps(name, tasks) for name, tasks in asking.items()}
        for name, error in self._refused(list(runs)).items():
            del runs[name]
            self._ended(name, error)
        if runs:
            self.display.stage("starting or joining Ray (usually 5 to 15 s)")
            start_ray(config.cluster)
            for name, refused in self._without_room(list(runs)).items():
                del runs[name]
                self._ended(name, refused)
            run_in_turns(runs, self._may_join, self._ended)

    def _steps(self, name: str, todo: np.ndarray) -> Steps:
        """Return the steps of a model that is asked the tasks `todo`."""
        config = self.resolved.config
        if config.replicate_restart:
            return self._restarting(name, todo)
        rest = self._batches(name, todo)
        if config.cost.max is not None:
            done = len(self.questions) * len(self.resolved.design.parts) - len(todo)
            rest = self._affordable(config.cost.max, name, rest, done)
        return ModelRun(self.resolved, name, rest, self.questions, self.run_dir, self.display).steps

    def _restarting(self, name: str, tasks: np.ndarray) -> Steps:
        """The steps of a model each of whose replicates is asked of engines of a start of their own."""
        parts = self.resolved.design.parts
        replicate = np.array([part.replicate for part in parts])[tasks % len(parts)]
        left = [(int(k), tasks[replicate == k]) for k in np.unique(replicate)]

        def steps(others: Callable[[], bool]) -> Generator[None]:
            while left:  # what ended is not asked again where the rest has to wait for room
                again, own = left[0]
                asked = self._batches(name, own)
                run = ModelRun(self.resolved, name, asked, self.questions, self.run_dir, self.display, again)
                yield from run.steps(others)
                del left[0]

        return steps

    def _affordable(self, most: float, name: str, batches: Iterator[np.ndarray], done: int) -> Iterator[np.ndarray]:
        """The batches of a model as far as `cost.max` pays for them, shared evenly among the models that still ask."""
        resolved, run_dir = self.resolved, self.run_dir

        def paid() -> dict[str, float]:
            fetch_shards(run_dir.path)
            used = run_cost(run_dir.path, resolved.audit.schema) if shard_paths(run_dir.path / SHARDS) else {}
            return money_spent(resolved.config.cost, used, resolved.answering)

        def left() -> tuple[float, float]:
            found = paid()
            return (most - sum(found.values())) / max(1, len(self._going)), found.get(name, 0.0)

        try:
            yield from affordable(batches, done, len(resolved.design.parts), left)
        except SpentError as error:
            spent = sum(paid().values())
            larger = float(f"{2 * max(most, spent):.2g}")  # the first question is asked before its cost is known
            stop = SpentError(
                f"{spent:.4g} of cost.max={most:g} {resolved.config.cost.currency} are spent, and the "
                f"rest does not pay for another question. The answers stay in {named(run_dir.path)}; the same command "
                f"with a larger amount goes on there, such as cost.max={larger:g}."
            )
            stop.stopped = {"code": "spent", "cost_max": larger}
            raise stop from error

    def _refused(self, names: Sequence[str]) -> dict[str, AuditError]:
        """The models whose endpoints would not serve, found before Ray starts. Not on a cluster: its nodes may reach
        other endpoints than this process does, and engines check theirs when they start."""
        if self.resolved.config.cluster.address is not None:
            return {}
        asked = [(n, one) for n in names for one in engines_of(self.resolved, n) if one.engine == "openai"]
        if not asked:
            return {}
        from audit.engines.openai_engine import probe  # here: a run of weights alone needs no client

        letters = [self.resolved.work(name).reading == Reading.LETTER_LOGPROB for name, _ in asked]
        found = zip(asked, probe([one for _, one in asked], letters), strict=True)
        return {name: error for (name, _), error in found if error is not None}

    def _without_room(self, names: Sequence[str]) -> dict[str, AuditError]:
        """The models that do not fit on the nodes of the cluster, found before anything loads."""
        engines = {(name, one.name): one for name in names for one in engines_of(self.resolved, name)}
        files = {one.name: files_of(one, self.resolved.weights[one.name]) for one in engines.values()}
        sized = any(engine_need(one, files[one.name]).each_gpu is not None for one in engines.values())
        nodes, autoscale = cluster_nodes(with_memory=sized), self.resolved.config.cluster.autoscale
        found: dict[str, AuditError] = {}
        for (name, _), one in engines.items():
            try:
                check_room(one, files[one.name], nodes, autoscale=autoscale)
            except ConfigError as error:
                found.setdefault(name, error)
        return found

    def _batches(self, name: str, tasks: np.ndarray) -> Iterator[np.ndarray]:
        """The first tasks of a model: those that tell whether its answers can be read come first."""
        unread = self.resolved.work(name).reading in (Reading.OPTION_TEXT, Reading.TEXT)
        if not self.resolved.config.canary or unread:
            return iter([tasks])
        paid = any(one.engine == "openai" for one in engines_of(self.resolved, name))
        return canary_first(tasks, len(self.resolved.design.parts), alone=paid)

    def _scan(self) -> KeySet:
        """The keys of the rows that are there and stay."""
        run_dir, schema, design = self.run_dir, self.resolved.audit.schema, self.resolved.design
        scan = scan_once(run_dir.path, schema, run_dir.attempt)
        for name, why in scan.corrupt.items():
            self.display.note(f"shard {name} is set aside in quarantine/, its rows are run again: {why}")
        if not (self.resolved.config.store.retry_errors and len(scan.error_keys)):
            return scan.done
        again = [name for name in self.resolved.config.model if self._any_of([name], scan.error_keys)]
        self._keep_to_packages(scan.done, again)
        dropped = drop_rows(run_dir.path, schema, scan.error_keys, design, attempt=run_dir.attempt)
        self.display.note(f"{dropped} error rows dropped, to be asked again")
        return scan_run(run_dir.path, schema).done

    def _keep_to_packages(self, done: KeySet, asking: Collection[str]) -> None:
        """Before these models are asked: ConfigError where rows of an engine that loads weights are there, and it is
        another version now. Where there are no such rows the manifest has this start's."""
        found, before = package_versions(), self.run_dir.manifest.packages
        if not asking or found == before:
            return
        names = self.resolved.config.model
        weighed = {name for name in names if any(e.engine in WEIGHED for e in engines_of(self.resolved, name))}
        if not self._any_of(weighed, done):
            self.run_dir.update(packages=found)
        elif not weighed.isdisjoint(asking):
            check_packages(self.run_dir.path, before, found)

    def _any_of(self, models: Collection[str], keys: KeySet) -> bool:
        return expected_keys(list(models), self.resolved.design, self.questions).common(keys) > 0

    def _may_join(self, name: str, running: Collection[str]) -> bool:
        cluster = self.resolved.config.cluster
        # Ray Data shares out each node's CPUs as whole numbers among its executions: one that gets none would wait.
        cpus = max((node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]), default=0.0)
        if cluster.autoscale and not cpus:  # the nodes to come bring theirs
            cpus = math.inf
        if len(running) >= min(cluster.models_at_once or math.inf, cpus):
            return False
        engines = [one for other in running for one in engines_of(self.resolved, other)]
        gpus = math.inf if cluster.autoscale else ray.cluster_resources().get("GPU", 0.0)
        return may_run_beside(engines_of(self.resolved, name), engines, gpus)

    def _ended(self, name: str, error: AuditError | None) -> None:
        self._going.remove(name)
        if error is not None:
            self.result.failed[name] = str(error)
            self.result.stopped |= {name: dict(error.stopped)} if error.stopped is not None else {}
            if self._going:  # the command ends with what failed; others are to come first
                self.display.note(f"model {name} failed: {error}")

    def finish(self) -> None:
        """Verify the rows of all models and close the manifest. Raises ShardError where rows are missing."""
        config, design, schema = self.resolved.config, self.resolved.design, self.resolved.audit.schema
        run_dir, result = self.run_dir, self.result
        failures = {"models_failed": result.failed, "models_stopped": result.stopped}
        run_dir.update(**failures)  # and refuses a superseded driver: what follows removes files
        expected = expected_keys(list(config.model), design, self.questions)
        fetch_shards(run_dir.path)
        report = verify_run(run_dir.path, schema, expected, run_dir.attempt)
        result.rows = report.rows
        stopped = result.failed and result.failed.keys() == result.stopped.keys()
        run_dir.update(
            status="stopped" if stopped else "finished" if report.complete and not result.failed else "failed",
            ended=now(),
            **failures,
            shards=[shard.record() for shard in report.shards],
            cost=run_cost(run_dir.path, schema) if report.rows else {},
        )
        if not result.failed:
            report.require_complete()
            return
        for name in (one for one in config.model if one not in result.failed):
            own = expected_keys([name], design, self.questions)
            if own.common(report.done) < len(own):
                raise ShardError(f"Rows of model {name} are missing although it ended. Run the same command again.")


def _rows_by_arm(tasks: np.ndarray, design: Design) -> dict[str, int]:
    """Rows that these tasks produce, per arm of the design."""
    per_part = np.bincount(tasks % len(design.parts), minlength=len(design.parts))
    rows: dict[str, int] = {}
    for part, count in zip(design.parts, per_part, strict=True):
        rows[part.arm] = rows.get(part.arm, 0) + int(count) * len(part.levels)
    return rows
