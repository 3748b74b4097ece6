"""Resolve a configuration to pinned samples, prompts, weights and a run directory.

This happens before an engine starts.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from audit.benchmarks.load import open_benchmark
from audit.benchmarks.registry import format_of
from audit.benchmarks.sample import Sample, Source, draw_sample, sampled_questions
from audit.config.audits import Audit, Work
from audit.config.base import (
    RunConfig,
    plain_config,
    protocol_of,
    reading_of,
    reask_of,
    sample_size,
    sampling_of,
)
from audit.core.errors import ConfigError, EngineError
from audit.core.json_types import attributes
from audit.core.prompting import load_protocol
from audit.core.records import Design, Item, Protocol
from audit.engines.config import WEIGHED, ModelConfig
from audit.engines.weights import Weights, resolve_weights
from audit.shards.manifest import fingerprint
from audit.shards.object_store import is_url
from audit.shards.working_copy import working_copy

Config = TypeVar("Config", bound=RunConfig)
OUTPUTS = Path("outputs")


@dataclass(frozen=True)
class BenchmarkSample:
    """Hold a benchmark and the questions that were drawn from it."""

    benchmark: Source
    sample: Sample

    def questions(self) -> Iterator[Item]:
        """Yield the drawn questions."""
        return sampled_questions(self.benchmark, self.sample)

    def facts(self) -> dict[str, Any]:
        """Return the facts about the sample that the manifest stores."""
        return {
            "revision": self.benchmark.revision,
            "n": self.sample.n,
            # The file questions.arrow holds the ids.
            "ids_sha256": hashlib.sha256("\n".join(self.sample.ids).encode()).hexdigest(),
            **attributes(self.sample, "n_total", "n_distinct", "chance", "duplicates"),
            "warnings": self.benchmark.warnings,
        }


@dataclass(frozen=True)
class ResolvedRun:
    """Hold a configuration whose benchmarks, prompts and models are pinned.

    Attributes
    ----------
    audit : Audit
        The audit, with its functions and arms.
    config : RunConfig
        The options of the run.
    design : Design
        The parts of every question.
    samples : list of BenchmarkSample
        The drawn questions, those of the audited benchmark first.
    protocols : dict[str, Protocol]
        The prompt templates by model.
    answering : dict[str, ModelConfig]
        The model that answers, by the name of the audited model.
    weights : dict[str, Weights | None]
        The weights of every model that is loaded. None for engines without weights.
    failed : dict[str, str]
        The reason for each model that cannot run.
    plain : dict[str, Any]
        The complete configuration as plain data.
    identity : str
        The fingerprint of the run.
    path : Path
        The directory to which the run is written.
    state_of : Callable or None
        Returns `Work.state` for a run directory. State that changes rows must be in the configuration
        too.
    on_open : Callable or None
        Writes files of the audit into the run directory before the run starts.
    analysis : Mapping
        Facts that the verdict needs in addition to shards and configuration. The manifest stores
        them.
    adapter : str
        The adapter of the answers.
    """

    audit: Audit
    config: RunConfig
    design: Design
    samples: list[BenchmarkSample]
    protocols: dict[str, Protocol]
    answering: dict[str, ModelConfig]
    weights: dict[str, Weights | None]
    failed: dict[str, str]
    plain: dict[str, Any]
    identity: str
    path: Path
    state_of: Callable[[Path], Any] | None = None
    on_open: Callable[[Path], None] | None = None
    analysis: Mapping[str, Any] = field(default_factory=dict)
    adapter: str = ""

    def work(self, name: str, place: Path | None = None) -> Work:
        """Return the run context of one model.

        Parameters
        ----------
        name : str
            The name of the audited model.
        place : Path, optional
            Directory with the model's files, if this is not the run directory.

        Returns
        -------
        Work
            The arguments of the audit's functions.
        """
        config, answering = self.config, self.answering[name]
        reading = reading_of(config, answering)
        state = None if self.state_of is None else self.state_of(place or self.path)
        return Work(
            self.design,
            self.protocols[name],
            name,
            reading,
            config.model[name].preparing,
            sampling_of(reading, answering),
            config.seed,
            state,
            reask_of(config, answering),
            self.adapter,
        )

    @property
    def models(self) -> dict[str, dict[str, Any]]:
        """Map each model to the facts about it that the manifest stores."""
        return {name: self.facts(name) for name in self.config.model}

    @property
    def revisions(self) -> dict[str, str | None]:
        """Map each benchmark to its revision, the audited benchmark first."""
        return {s.benchmark.name: s.benchmark.revision for s in self.samples}

    def facts(self, name: str) -> dict[str, Any]:
        """Return the facts about a model that the manifest stores."""
        model, answering = self.config.model[name], self.answering[name]
        return {
            "revision": revision_of(model, self.weights.get(name)),
            "engine": model.engine,
            "path": model.path,
            "reading": str(reading_of(self.config, answering)),
            "worker": answering.name,
            "worker_revision": revision_of(answering, self.weights.get(answering.name)),
        }


def revision_of(model: ModelConfig, weights: Weights | None) -> str | None:
    """Return a text that identifies the version of a model.

    The text depends on the engine:

    - for loaded weights, the revision of the weights;
    - for an endpoint, the ids of its models, and the version that its operator claims;
    - for any other engine, such as the scripted one, the name of the engine.

    Parameters
    ----------
    model : ModelConfig
        The configuration of the model.
    weights : Weights or None
        The resolved weights of the model; None without weights.

    Returns
    -------
    str or None
        The revision. None if the weights could not be resolved.
    """
    if weights is not None:
        return weights.revision
    if model.engine == "openai":
        ids = ",".join(sorted({endpoint.model for endpoint in model.endpoints}))
        claimed = f"@{model.revision}" if model.revision else ""
        return f"endpoint:{ids}{claimed}"
    return None if model.engine in WEIGHED else model.engine


def resolve_run(
    audit: Audit,
    config: RunConfig,
    *,
    samples: Sequence[BenchmarkSample] | None = None,
    only: Mapping[str, frozenset[str]] | None = None,
) -> ResolvedRun:
    """Resolve a run, with every check that is possible before an engine loads.

    No file is written.

    Parameters
    ----------
    audit : Audit
        The audit, with its functions and arms.
    config : RunConfig
        The options of the run.
    samples : sequence of BenchmarkSample, optional
        The questions, if they are not drawn from the configured benchmark.
    only : mapping, optional
        Maps a benchmark to the ids from which its sample is drawn.

    Returns
    -------
    ResolvedRun
        The pinned run.

    Raises
    ------
    AuditError
        If a benchmark, a prompt or an option cannot be resolved.
    """
    design = audit.design(config)
    samples = _open_samples(config, only) if samples is None else list(samples)
    answering = {name: audit.answering(config, model) for name, model in config.model.items()}
    protocols = {}
    for name, model in config.model.items():
        reading = reading_of(config, answering[name])
        protocols[name] = load_protocol(protocol_of(config, model), audit.templates, reading)
    weights, failed = _resolve_weights(config, answering)
    plain = plain_config(config, answering)
    identity = fingerprint(
        plain,
        audit.schema,
        prompts={name: protocol.sha256 for name, protocol in protocols.items()},
        benchmarks={s.benchmark.name: s.benchmark.revision for s in samples},
    )
    if config.run_dir:
        path = working_copy(config.run_dir) if is_url(config.run_dir) else Path(config.run_dir)
    else:  # The name of the directory stays the same, so that the repeated command resumes the run.
        path = OUTPUTS / f"{default_prefix(audit.name, config)}{identity[:10]}"
    return ResolvedRun(
        audit, config, design, samples, protocols, answering, weights, failed, plain, identity, path
    )


def default_prefix(audit: str, config: RunConfig) -> str:
    """Return the beginning of the name of a run's folder if `run_dir` is not set.

    Parameters
    ----------
    audit : str
        The name of the audit.
    config : RunConfig
        The options of the run.

    Returns
    -------
    str
        The text before the fingerprint of the run.
    """
    models = "+".join(config.model) if len(config.model) <= 3 else f"{len(config.model)}models"
    return f"{audit}-{config.benchmark.name}-{models}-"


def sized(config: Config, needed: int | None, available: int) -> Config:
    """Replace n=null by the number of questions that a verdict needs.

    Parameters
    ----------
    config : RunConfig
        The options of the run.
    needed : int or None
        Number of questions that a plan needs. None if no number is enough.
    available : int
        Number of questions of the benchmark.

    Returns
    -------
    RunConfig
        The options with n, which is "all" if the benchmark has no more questions than needed.
    """
    if config.n is not None:
        return config
    return replace(config, n="all" if needed is None or needed >= available else needed)


def _open_samples(
    config: RunConfig, only: Mapping[str, frozenset[str]] | None
) -> list[BenchmarkSample]:
    """Return the samples of the benchmark and, if it is set, of the control benchmark.

    All questions of a control benchmark are used if it has fewer than n.
    """
    configs = [config.benchmark]
    if config.control_benchmark is not None:
        configs.append(config.control_benchmark)
    for about in configs:
        if not format_of(about.format).answerable:
            raise ConfigError(
                f"benchmark is {about.name}, which only audit validity reads. "
                "Expected a benchmark with answers. Example: benchmark=arc_easy"
            )
    if len({format_of(about.format).reading for about in configs}) > 1:
        both = " and ".join(about.name for about in configs)
        raise ConfigError(
            f"{both} have answers of two kinds (options, number, code). "
            "Expected a control_benchmark with answers of the same kind."
        )
    samples: list[BenchmarkSample] = []
    for about in configs:
        allowed = (only or {}).get(about.name)
        benchmark = replace(open_benchmark(about, seed=config.seed), only=allowed)
        n = sample_size(config)
        if samples and n is not None:
            n = min(n, len(benchmark.census.frame))
        samples.append(BenchmarkSample(benchmark, draw_sample(benchmark, n, config.seed)))
    names = [s.benchmark.name for s in samples]
    if len(set(names)) != len(names):
        raise ConfigError(
            f"control_benchmark is the benchmark itself ({names[0]}). Expected another name. "
            "Example for two files: control_benchmark.name=fresh"
        )
    return samples


def _resolve_weights(
    config: RunConfig, answering: dict[str, ModelConfig]
) -> tuple[dict[str, Weights | None], dict[str, str]]:
    """Return two mappings by model name.

    The first has the weights. The second has the reason why the weights of a model could not be
    found.
    """
    weights: dict[str, Weights | None] = {}
    failed: dict[str, str] = {}
    for name, model in config.model.items():
        try:
            for loaded in (model, answering[name]):
                if loaded.name not in weights:
                    weighed = loaded.engine in WEIGHED
                    weights[loaded.name] = resolve_weights(loaded) if weighed else None
        except EngineError as error:
            failed[name] = str(error)
    return weights, failed
