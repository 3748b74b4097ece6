"""Run an experiment: train the planted models, serve them, and measure the indicators.

Finished steps are stored on disk and are not repeated.
"""

import json
import sys
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from audit.core.errors import ConfigError, EngineError, TrainError
from audit.core.json_types import attributes
from audit.engines.config import ModelConfig
from audit.engines.vllm_engine import is_cpu_build
from audit.engines.weights import local_path
from audit.plant.config import SERVED_RANKS, learning_rate
from audit.plant.measure import BASE, Reading, read, resolved, todo
from audit.plant.resolve import Experiment, planted_doses
from audit.plant.texts import Form, Method, pass_examples
from audit.plant.train import REFUSED, Job
from audit.runtime.keep import keep_engines
from audit.runtime.progress import Display
from audit.runtime.run import run_audit
from audit.runtime.start import run_command, start_ray
from audit.variants.arrow import FILE, write_library

_IDENTITY = "identity.json"
_LOG_CHARS = 2000


def open_folder(experiment: Experiment) -> None:
    """Create the directory of an experiment, or open it if it exists.

    Parameters
    ----------
    experiment : Experiment
        The resolved experiment, which names its directory.

    Raises
    ------
    ConfigError
        If the directory contains another experiment.
    """
    path = experiment.path / _IDENTITY
    if path.is_file():
        if json.loads(path.read_text(encoding="utf-8"))["identity"] != experiment.identity:
            raise ConfigError(
                f"{experiment.path} contains another experiment (other weights, items, training or "
                "seed). Choose another run_dir, or leave run_dir out."
            )
        return
    experiment.path.mkdir(parents=True, exist_ok=True)
    if experiment.library is not None:
        write_library(experiment.library, experiment.path / FILE)
    path.write_text(json.dumps({"identity": experiment.identity}) + "\n", encoding="utf-8")


def run_experiment(experiment: Experiment, display: Display) -> dict[str, Reading]:
    """Run the steps of an experiment that are not finished yet.

    Parameters
    ----------
    experiment : Experiment
        The resolved experiment: model, items, training texts and directory.
    display : Display
        Shows the progress on the terminal.

    Returns
    -------
    dict of str to Reading
        Maps the label of each model to its results. The labels are "base", and "<form>-<passes>"
        for each planted model.

    Raises
    ------
    AuditError
        If a step fails. The results of finished steps are kept.
    """
    open_folder(experiment)
    if _unfinished(experiment):
        start_ray(experiment.config.cluster)
        for form in experiment.forms:
            _train(experiment, form, display)
        _measure(experiment, display)
    return {label: read(experiment, label) for label in labels(experiment)}


def _unfinished(experiment: Experiment) -> list[str]:
    """Return the labels of the models with at least one unfinished audit."""
    return [label for label in labels(experiment) if todo(experiment, label)]


def labels(experiment: Experiment) -> list[str]:
    """Return the label of the base model, then the labels of the planted models.

    Planted models are sorted by dose, the highest dose first. If the experiment is stopped early,
    the highest dose is the most informative result.
    """
    names = [BASE]
    for dose in sorted(planted_doses(experiment), reverse=True):
        names += [f"{form}-{dose}" for form in experiment.forms]
    return names


def _train(experiment: Experiment, form: Form, display: Display) -> None:
    config, train = experiment.config, experiment.config.train
    doses = planted_doses(experiment)
    plants = [f"{form}-{dose}" for dose in doses]
    if not any(_lacks_weights(experiment, label) for label in plants):
        return
    shown: dict[str, Any] = {
        "seed": config.seed,
        **attributes(train, "items_per_sequence", "dilution"),
        **attributes(experiment, "variants", "other"),
    }
    learnt = experiment.halves.learnt
    passes = []
    for k in range(max(doses)):
        passes.append(tuple(pass_examples(form, learnt, k, **shown)))
    target = experiment.path / "weights" / form
    job = Job(
        path=local_path(experiment.model, experiment.weights),
        revision=experiment.weights.hub_revision,
        target=str(target.resolve()),
        passes=tuple(passes),
        doses=tuple(doses),
        lr=learning_rate(config),
        batch=max(1, train.batch // train.items_per_sequence) if form == Form.RAW else train.batch,
        seed=config.seed,
        **attributes(train, "method", "max_tokens", "rank", "modules"),
        facts={
            "model": experiment.model.name,
            "model_revision": experiment.weights.revision,
            "benchmark": config.benchmark.name,
            "benchmark_revision": experiment.benchmark_revision,
            "form": form,
            "learnt_items": len(learnt),
            "learnt_sha256": experiment.halves.learnt_sha256,
        },
    )
    target.mkdir(parents=True, exist_ok=True)
    path, log = target / "job.json", target / "train.log"
    path.write_text(job.to_json(), encoding="utf-8")
    display.stage(f"training {form}, {max(doses)} passes over {len(learnt)} items: {log}")
    _run_train([str(path.resolve())], log, f"Form {form} was not taught")


def _lacks_weights(experiment: Experiment, label: str) -> bool:
    """Return whether an unfinished audit needs weights that are missing on disk."""
    return bool(todo(experiment, label)) and not experiment.folder_of(label).is_dir()


def _run_train(arguments: list[str], log: Path, failed: str) -> None:
    """Run `audit.plant.train` in a new process.

    Raises TrainError with the reason if the training fails.
    """
    code = run_command([sys.executable, "-m", "audit.plant.train", *arguments], log.resolve())
    if code:
        log_text = log.read_text(encoding="utf-8", errors="replace").strip()
        why = log_text[-_LOG_CHARS:]
        if code == REFUSED and log_text:
            why = log_text.splitlines()[-1].removeprefix("error: ")
        raise TrainError(f"{failed}: {why or f'audit.plant.train ended with exit code {code}'}")


def _measure(experiment: Experiment, display: Display) -> None:
    """Run every configured audit on each half of the benchmark, for every model.

    All planted models with an adapter share one engine. A model needs a separate engine if all its
    weights were trained, or if its adapter was merged.
    """
    left = _unfinished(experiment)
    plants = [experiment.folder_of(label) for label in left if label != BASE]
    served = experiment.model
    # The CPU build of vLLM copies an adapter's weights for every token of a prompt.
    lora = experiment.config.train.method == Method.LORA and not is_cpu_build()
    if lora and plants:
        smallest = bisect_left(SERVED_RANKS, experiment.config.train.rank)
        args = {
            **served.engine_args,
            "enable_lora": True,
            "max_lora_rank": SERVED_RANKS[smallest],
            "max_loras": 1,
            # Without this list, vLLM 0.32 also wraps the output layer, and prompt_logprobs in a
            # batch then crash.
            "lora_target_modules": adapted_modules(plants),
        }
        served = replace(served, engine_args=args)
    with keep_engines():
        for label in left:
            planted = label != BASE
            model = _with_weights(experiment, label) if planted and not lora else served
            adapter = str(experiment.folder_of(label).resolve()) if planted and lora else ""
            for audit, half in todo(experiment, label):
                display.stage(f"asking {label}: {audit}, {half}")
                audit_run = resolved(experiment, label, audit, half, model, adapter)
                with display:
                    run = run_audit(audit_run, {}, display)
                if run.failed:
                    raise EngineError(f"{label}: {run.failed[model.name]}")


def adapted_modules(folders: Sequence[Path]) -> list[str]:
    """Return the names of the modules that have an adapter, as recorded by peft.

    Parameters
    ----------
    folders : sequence of Path
        Folders of adapters.

    Returns
    -------
    list of str
        Names of the modules in all folders, sorted.

    Raises
    ------
    TrainError
        If a folder contains no adapter.
    """
    modules: set[str] = set()
    for folder in folders:
        try:
            text = (folder / "adapter_config.json").read_text(encoding="utf-8")
            modules |= set(json.loads(text)["target_modules"])
        except (OSError, ValueError, KeyError) as error:
            raise TrainError(
                f"{folder} contains no adapter: {error}. Delete the folder, and run the command "
                "again."
            ) from error
    return sorted(modules)


def _with_weights(experiment: Experiment, label: str) -> ModelConfig:
    """Return the settings of a model that uses the weights of a planted model.

    If needed, the adapter is merged into the weights first.
    """
    folder = experiment.folder_of(label)
    if experiment.config.train.method == Method.LORA:
        job, dose = folder.parent / "job.json", int(folder.name.removeprefix("passes-"))
        merged = Job.load(job).merged(dose)
        if not merged.is_dir():
            _run_train(
                [str(job.resolve()), str(dose)],
                folder.parent / "merge.log",
                f"{folder} was not merged",
            )
        folder = merged
    return replace(
        experiment.model, name=f"{experiment.model.name}-{label}", path=str(folder), revision=None
    )
