"""Run an audit.

The run directory is opened, every model is run through the pipeline, the rows are verified, and the
manifest is written.

The order matters. Every check that can refuse a run comes before an engine loads. Every result is
on disk before the next step starts. Imports of Ray are inside functions, since the run directory
and the endpoints are checked before Ray is loaded.
"""

import math
import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from audit.config.audits import Hooks
from audit.config.base import as_file, described_models
from audit.config.plan_cost import money_spent, spent
from audit.config.resolve import ResolvedRun
from audit.core.aliases import named
from audit.core.errors import (
    AuditError,
    ConfigError,
    EngineError,
    ShardError,
    SpentError,
    SupersededError,
)
from audit.core.records import Design, Reading
from audit.engines.config import WEIGHED, ModelConfig
from audit.engines.memory import engine_need
from audit.engines.model_files import files_of
from audit.engines.probe import probe
from audit.runtime.early import affordable, canary_first, check_panel
from audit.runtime.placement import Steps, may_run_beside, run_in_turns
from audit.runtime.progress import Display
from audit.runtime.room import check_room
from audit.runtime.tasks import engines_of, expected_keys, missing_tasks
from audit.shards.attempt import now
from audit.shards.complete import count_rows, run_cost, scan_once, table_hashes, verify_run
from audit.shards.files import SHARDS, make_folder, write_file
from audit.shards.keys import KeySet
from audit.shards.manifest import RunDir, check_packages, open_run_dir, package_versions
from audit.shards.questions import QuestionFile, write_questions
from audit.shards.read import drop_rows, scan_run
from audit.shards.redact import redact
from audit.shards.shard_file import shard_paths
from audit.shards.working_copy import fetch_shards

NO_HOOKS = Hooks()

_IDS_IN_MANIFEST = (
    # For a larger sample the manifest stores only the hash of the ids; questions.arrow stores all
    # ids.
    10_000
)


@dataclass
class RunResult:
    """Hold the result of a run.

    Parameters
    ----------
    run_dir : Path
        The run directory.
    rows : int
        Number of stored rows.
    failed : dict
        Maps the name of each model that did not finish to the reason.
    stopped : dict
        Maps the name of each model that the program stopped to a code, which states the reason.
    """

    run_dir: Path
    rows: int
    failed: dict[str, str] = field(default_factory=dict)
    stopped: dict[str, dict[str, Any]] = field(default_factory=dict)


def run_audit(
    resolved: ResolvedRun,
    analysis: Mapping[str, Any],
    display: Display,
    hooks: Hooks = NO_HOOKS,
    before_asking: Callable[[], None] = lambda: None,
) -> RunResult:
    """Run or resume an audit.

    Parameters
    ----------
    resolved : ResolvedRun
        Resolved configuration of the run: its options, models, questions and design.
    analysis : mapping
        The settings of the verdict, {seed, thresholds, control_benchmark}, which the manifest
        stores.
    display : Display
        The display that shows the progress.
    hooks : Hooks
        Functions that are called when the run starts and when it fails.
    before_asking : callable
        Function that is called after all checks, before Ray starts. If no row is missing, Ray does
        not start, and the function is called before the run ends.

    Returns
    -------
    RunResult
        The result, with the failed models by name.

    Raises
    ------
    AuditError
        If no model could be run.
    """
    config, schema = resolved.config, resolved.audit.schema.of_run(resolved.identity)
    resolved = replace(resolved, audit=replace(resolved.audit, schema=schema))
    if len(resolved.failed) == len(config.model):
        raise EngineError(
            "No model can be run.\n"
            + "\n".join(f"  {name}: {why}" for name, why in resolved.failed.items())
        )
    hooks.on_start(resolved.path)
    facts = {name: resolved.facts(name) for name in config.model}
    with open_run_dir(
        resolved.path, schema, resolved.identity, resolved.plain, facts, analysis
    ) as run_dir:
        _describe(resolved, run_dir, display)
        run = Start(resolved, run_dir, display, before_asking)
        try:
            run.ask()
            run.finish()
        except KeyboardInterrupt as stop:
            _record_failure(run_dir, stop, "stopped")
            stored = 0
            with suppress(ShardError):  # the run may have no shard yet
                fetch_shards(run_dir.path)
                stored = sum(count_rows(run_dir.path, schema).values())
            raise type(stop)(
                f"Stopped: {stored:,} rows kept in {named(run_dir.path)}; the same command goes on, "
                "and answers of unfinished questions are asked again."
            ) from None
        except BaseException as error:
            if _record_failure(run_dir, error):
                hooks.on_failure(run_dir.path, f"{type(error).__name__}: {error}")
            raise
    result = run.result
    if result.failed:
        hooks.on_failure(
            result.run_dir, "; ".join(f"model {name}: {why}" for name, why in result.failed.items())
        )
    return result


def _describe(resolved: ResolvedRun, run_dir: RunDir, display: Display) -> None:
    samples = resolved.samples
    # The questions are written at every start, since the existing file may have been changed.
    questions = chain.from_iterable(sample.questions() for sample in samples)
    write_questions(run_dir.path, questions)
    if resolved.on_open is not None:
        resolved.on_open(run_dir.path)
    for name in described_models().keys() & resolved.config.model.keys():
        make_folder(run_dir.path / "model")
        text = as_file(name, redact(resolved.plain["model"][name]))
        write_file(run_dir.path / "model" / f"{name}.yaml", text.encode())
    prompt_hashes = {}
    for name, protocol in resolved.protocols.items():
        prompt_hashes[name] = protocol.sha256
    benchmark_facts = {}
    for sample in samples:
        benchmark_facts[sample.benchmark.name] = sample.facts()
    settings = []
    for setting in resolved.design.settings:
        settings.append(asdict(setting))
    sampled_ids = {}
    for sample in samples:
        if sample.sample.n <= _IDS_IN_MANIFEST:
            sampled_ids[sample.benchmark.name] = list(sample.sample.ids)
    run_dir.update(
        prompt_hashes=prompt_hashes,
        benchmark=benchmark_facts,
        settings=settings,
        sampled_ids=sampled_ids,
        tables=table_hashes(run_dir.path),
        models_failed=resolved.failed,
        models_stopped={},
    )
    for sample in samples:
        for warning in sample.benchmark.warnings:
            display.note(f"{sample.benchmark.name}: {warning}")
    if not resolved.path.is_absolute() and "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ:
        display.note(
            f"run_dir {resolved.path} is relative: in a Ray job it is in the job's working directory, which Ray may "
            "delete and other nodes do not see. Give run_dir=/shared/folder/name."
        )


def _record_failure(run_dir: RunDir, error: BaseException, status: str = "failed") -> bool:
    """Record in the manifest that the run failed.

    Return False if a later driver continues the run, because then the run itself has not failed.
    """
    try:
        run_dir.update(status=status, ended=now())
    except SupersededError:
        return False
    except AuditError as also:  # for example a full disk; the first error is shown
        error.add_note(f"The manifest could not be updated either: {also}")
    return True


@dataclass(eq=False)
class Start:
    """Perform one start of a run; a run may be started several times until it is complete.

    The run directory is already open. A start asks every model the questions that it has not
    answered, and verifies the rows.
    """

    resolved: ResolvedRun
    run_dir: RunDir
    display: Display
    before_asking: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.questions = QuestionFile(self.run_dir.path)
        self.result = RunResult(self.run_dir.path, 0, dict(self.resolved.failed))
        self._going: set[str] = set()

    def ask(self) -> None:
        """Ask the questions whose rows are not stored yet, for every model that can be run."""
        config, design = self.resolved.config, self.resolved.design
        runnable = []
        for name in config.model:
            if name not in self.result.failed:
                runnable.append(name)
        done = self._scan()
        totals = _rows_by_arm(np.arange(len(self.questions) * len(design.parts)), design)
        called = {name: (config.model[name], self.resolved.answering[name]) for name in runnable}
        money = partial(spent, config.cost, called)
        self.display.begin(dict.fromkeys(runnable, totals), money, config.cost.currency)
        # Engines are loaded only for the models in `asking`.
        asking = {}
        for name in runnable:
            tasks = missing_tasks(done, name, design, self.questions)
            left = _rows_by_arm(tasks, design)
            self.display.resumed(name, {arm: totals[arm] - left[arm] for arm in totals})
            if len(tasks):
                asking[name] = tasks
        self._keep_to_packages(done, asking)
        self._going = set(runnable)
        for name in runnable:
            if name not in asking:
                self._ended(name, None)
        refused_probe = self._refused(list(asking))
        check_panel(refused_probe, asking, self.run_dir.manifest.analysis.get("judged"))
        for name, error in refused_probe.items():
            del asking[name]
            self._ended(name, error)
        if asking or not refused_probe:
            self.before_asking()
        if asking:
            self._ask_in_turns(asking)

    def _ask_in_turns(self, asking: Mapping[str, np.ndarray]) -> None:
        """Start or join Ray, and ask the models that fit on its nodes."""
        self.display.stage("starting or joining Ray (usually 5 to 15 s)")
        from audit.runtime.start import start_ray

        runs = {name: self._steps(name, tasks) for name, tasks in asking.items()}
        start_ray(self.resolved.config.cluster)
        for name, refused in self._without_room(list(runs)).items():
            del runs[name]
            self._ended(name, refused)
        run_in_turns(runs, self._may_join, self._ended)

    def _steps(self, name: str, todo: np.ndarray) -> Steps:
        """Return the function that runs the tasks `todo` of a model step by step."""
        from audit.runtime.model_run import ModelRun

        config = self.resolved.config
        if config.replicate_restart:
            return self._restarting(name, todo)
        rest = self._batches(name, todo)
        if config.cost.max is not None:
            done = len(self.questions) * len(self.resolved.design.parts) - len(todo)
            rest = self._affordable(config.cost.max, name, rest, done)
        return ModelRun(self.resolved, name, rest, self.questions, self.run_dir, self.display).steps

    def _restarting(self, name: str, tasks: np.ndarray) -> Steps:
        """Return the function that runs a model step by step, with new engines per replicate."""
        from audit.runtime.model_run import ModelRun

        parts = self.resolved.design.parts
        replicate = np.array([part.replicate for part in parts])[tasks % len(parts)]
        left = [(int(k), tasks[replicate == k]) for k in np.unique(replicate)]

        def steps(others: Callable[[], bool]) -> Generator[None]:
            while left:  # A finished replicate is not repeated if the next ones must wait for GPUs.
                index, replicate_tasks = left[0]
                batches = self._batches(name, replicate_tasks)
                run = ModelRun(
                    self.resolved, name, batches, self.questions, self.run_dir, self.display, index
                )
                yield from run.steps(others)
                del left[0]

        return steps

    def _affordable(
        self, most: float, name: str, batches: Iterator[np.ndarray], done: int
    ) -> Iterator[np.ndarray]:
        """Yield batches of tasks while `cost.max` covers their cost.

        The remaining money is divided evenly among the running models.
        """
        resolved, run_dir = self.resolved, self.run_dir

        def paid() -> dict[str, float]:
            fetch_shards(run_dir.path)
            used = (
                run_cost(run_dir.path, resolved.audit.schema)
                if shard_paths(run_dir.path / SHARDS)
                else {}
            )
            return money_spent(resolved.config.cost, used, resolved.answering)

        def left() -> tuple[float, float]:
            by_model = paid()
            return (most - sum(by_model.values())) / max(1, len(self._going)), by_model.get(
                name, 0.0
            )

        try:
            yield from affordable(batches, done, len(resolved.design.parts), left)
        except SpentError as error:
            spent = sum(paid().values())
            # The cost of a question is unknown before the first answer, so the example doubles the
            # amount.
            larger = float(f"{2 * max(most, spent):.2g}")
            stop = SpentError(
                f"{spent:.4g} of cost.max={most:g} {resolved.config.cost.currency} are spent, and the "
                f"rest does not pay for another question. The answers stay in {named(run_dir.path)}. To continue, type "
                f"the same command with a larger amount. Example: cost.max={larger:g}"
            )
            stop.stopped = {"code": "spent", "cost_max": larger}
            raise stop from error

    def _refused(self, names: Sequence[str]) -> dict[str, AuditError]:
        """Return the models whose endpoints cannot be used, as a mapping from model to error.

        The endpoints are checked before Ray starts.

        This check is skipped on a cluster, because its nodes may reach other endpoints than this
        process. Engines check their endpoints when they start.
        """
        if self.resolved.config.cluster.address is not None:
            return {}
        probed, models, letters = [], [], []
        for name in names:
            for model in engines_of(self.resolved, name):
                if model.engine == "openai":
                    probed.append(name)
                    models.append(model)
                    letters.append(self.resolved.work(name).reading == Reading.LETTER_LOGPROB)
        if not probed:
            return {}
        refused = {}
        for name, error in zip(probed, probe(models, letters), strict=True):
            if error is not None:
                refused[name] = error
        return refused

    def _without_room(self, names: Sequence[str]) -> dict[str, AuditError]:
        """Return the models that do not fit on the cluster, as a mapping from model to error.

        This check runs before an engine loads.
        """
        from audit.runtime.nodes import cluster_nodes

        engines: dict[tuple[str, str], ModelConfig] = {}
        for name in names:
            engines |= {(name, model.name): model for model in engines_of(self.resolved, name)}
        models = engines.values()
        files = {model.name: files_of(model, self.resolved.weights[model.name]) for model in models}
        sized = any(engine_need(model, files[model.name]).each_gpu is not None for model in models)
        nodes, autoscale = cluster_nodes(with_memory=sized), self.resolved.config.cluster.autoscale
        errors: dict[str, AuditError] = {}
        for (name, _), model in engines.items():
            try:
                check_room(model, files[model.name], nodes, autoscale=autoscale)
            except ConfigError as error:
                errors.setdefault(name, error)
        return errors

    def _batches(self, name: str, tasks: np.ndarray) -> Iterator[np.ndarray]:
        """Return the batches of a model's tasks.

        The first batches are small, so that they soon show whether the model's answers can be read.
        """
        unread = self.resolved.work(name).reading in (Reading.OPTION_TEXT, Reading.TEXT)
        if not self.resolved.config.canary or unread:
            return iter([tasks])
        paid = any(model.engine == "openai" for model in engines_of(self.resolved, name))
        return canary_first(tasks, len(self.resolved.design.parts), alone=paid)

    def _scan(self) -> KeySet:
        """Return the keys of the stored rows, after dropping the rows that must be run again."""
        run_dir, schema, design = self.run_dir, self.resolved.audit.schema, self.resolved.design
        scan = scan_once(run_dir.path, schema, run_dir.attempt)
        for name, why in scan.corrupt.items():
            self.display.note(
                f"shard {name} was moved to quarantine/, and its rows are run again: {why}"
            )
        if not (self.resolved.config.store.retry_errors and len(scan.error_keys)):
            return scan.done
        affected = []
        for name in self.resolved.config.model:
            if self._any_of([name], scan.error_keys):
                affected.append(name)
        self._keep_to_packages(scan.done, affected)
        dropped = drop_rows(run_dir.path, schema, scan.error_keys, design, attempt=run_dir.attempt)
        self.display.note(f"{dropped} error rows were dropped and are asked again")
        return scan_run(run_dir.path, schema).done

    def _keep_to_packages(self, done: KeySet, asking: Collection[str]) -> None:
        """Raise ConfigError if an engine that loads weights has another version than when the rows
        were made.

        If no engine with weights has stored rows, the present versions are written to the manifest.
        """
        present, before = package_versions(), self.run_dir.manifest.packages
        if not asking or present == before:
            return
        names = self.resolved.config.model
        weighed = set()
        for name in names:
            if any(e.engine in WEIGHED for e in engines_of(self.resolved, name)):
                weighed.add(name)
        if not self._any_of(weighed, done):
            self.run_dir.update(packages=present)
        elif not weighed.isdisjoint(asking):
            check_packages(self.run_dir.path, before, present)

    def _any_of(self, models: Collection[str], keys: KeySet) -> bool:
        return expected_keys(list(models), self.resolved.design, self.questions).common(keys) > 0

    def _may_join(self, name: str, running: Collection[str]) -> bool:
        import ray

        cluster = self.resolved.config.cluster
        # Ray Data divides each node's CPUs among its executions in whole numbers. An execution that
        # gets no CPU would wait.
        cpus = 0.0
        for node in ray.nodes():
            if node["Alive"]:
                cpus = max(cpus, node["Resources"].get("CPU", 0.0))
        if cluster.autoscale and not cpus:  # the nodes that will be added have CPUs
            cpus = math.inf
        if len(running) >= min(cluster.models_at_once or math.inf, cpus):
            return False
        engines = list(chain.from_iterable(engines_of(self.resolved, other) for other in running))
        gpus = math.inf if cluster.autoscale else ray.cluster_resources().get("GPU", 0.0)
        return may_run_beside(engines_of(self.resolved, name), engines, gpus)

    def _ended(self, name: str, error: AuditError | None) -> None:
        self._going.remove(name)
        if error is not None:
            self.result.failed[name] = str(error)
            self.result.stopped |= {name: dict(error.stopped)} if error.stopped is not None else {}
            # The failures are printed at the end of the command, because other models may still
            # run.
            if self._going:
                self.display.note(f"model {name} failed: {error}")

    def finish(self) -> None:
        """Verify the rows of all models, and record the end of the run in the manifest.

        Raises ShardError if rows are missing.
        """
        config, design, schema = (
            self.resolved.config,
            self.resolved.design,
            self.resolved.audit.schema,
        )
        run_dir, result = self.run_dir, self.result
        failures = {"models_failed": result.failed, "models_stopped": result.stopped}
        # This raises an error for a superseded driver, before files are removed.
        run_dir.update(**failures)
        expected = expected_keys(list(config.model), design, self.questions)
        fetch_shards(run_dir.path)
        report = verify_run(run_dir.path, schema, expected, run_dir.attempt)
        result.rows = report.rows
        status = "finished" if report.complete and not result.failed else "failed"
        if result.failed and result.failed.keys() == result.stopped.keys():
            status = "stopped"
        run_dir.update(
            status=status,
            ended=now(),
            **failures,
            shards=[shard.record() for shard in report.shards],
            cost=run_cost(run_dir.path, schema) if report.rows else {},
        )
        if not result.failed:
            report.require_complete()
            return
        for name in config.model:
            if name in result.failed:
                continue
            keys = expected_keys([name], design, self.questions)
            if keys.common(report.done) < len(keys):
                raise ShardError(
                    f"Rows of model {name} are missing although the run ended. Type the same command again."
                )


def _rows_by_arm(tasks: np.ndarray, design: Design) -> dict[str, int]:
    """Map each arm to the number of rows that the tasks produce in this arm."""
    per_part = np.bincount(tasks % len(design.parts), minlength=len(design.parts))
    rows: dict[str, int] = {}
    for part, count in zip(design.parts, per_part, strict=True):
        rows[part.arm] = rows.get(part.arm, 0) + int(count) * len(part.levels)
    return rows
