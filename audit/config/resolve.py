"""Resolve names to pinned samples, prompts, weights and the run directory, before anything
starts."""

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
    """A benchmark and the questions drawn from it."""

    benchmark: Source
    sample: Sample

    def questions(self) -> Iterator[Item]:
        """Yield the drawn questions."""
        return sampled_questions(self.benchmark, self.sample)

    def facts(self) -> dict[str, Any]:
        """Return what the manifest keeps of the sample."""
        return {
            "revision": self.benchmark.revision,
            "n": self.sample.n,
            # The ids themselves are in questions.arrow.
            "ids_sha256": hashlib.sha256("\n".join(self.sample.ids).encode()).hexdigest(),
            **attributes(self.sample, "n_total", "n_distinct", "chance", "duplicates"),
            "warnings": self.benchmark.warnings,
        }


@dataclass(frozen=True)
class ResolvedRun:
    """A configuration with everything it names pinned.

    answering: the model that answers, by the audited model's name. weights: of every model that is
    loaded; None without any. failed: models that cannot be run, with the reason. own: returns
    `Work.own` for a run directory; what decides rows must be in the configuration too. on_open:
    writes the audit's own files into the run directory before anything is run. analysis: what a
    verdict needs besides shards and configuration, for the manifest. adapter: of the answers.
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
    own: Callable[[Path], Any] | None = None
    on_open: Callable[[Path], None] | None = None
    analysis: Mapping[str, Any] = field(default_factory=dict)
    adapter: str = ""

    def work(self, name: str, place: Path | None = None) -> Work:
        """Return the run context of one model.

        Parameters
        ----------
        name : str
            The audited model.
        place : Path, optional
            Directory of its files, if not the run directory.

        Returns
        -------
        Work
            The arguments of the audit's functions.
        """
        config, answering = self.config, self.answering[name]
        reading = reading_of(config, answering)
        own = None if self.own is None else self.own(place or self.path)
        return Work(
            self.design,
            self.protocols[name],
            name,
            reading,
            config.model[name].preparing,
            sampling_of(reading, answering),
            config.seed,
            own,
            reask_of(config, answering),
            self.adapter,
        )

    @property
    def models(self) -> dict[str, dict[str, Any]]:
        """Return `facts` of every model."""
        return {name: self.facts(name) for name in self.config.model}

    @property
    def revisions(self) -> dict[str, str | None]:
        """Return the revision of every benchmark, the audited one first."""
        return {s.benchmark.name: s.benchmark.revision for s in self.samples}

    def facts(self, name: str) -> dict[str, Any]:
        """Return what the manifest keeps of a model."""
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
    """Return what identifies a version of a model.

    Parameters
    ----------
    model : ModelConfig
        The model.
    weights : Weights or None
        Its resolved weights.

    Returns
    -------
    str or None
        None for weights that could not be resolved.
    """
    if weights is not None:
        return weights.revision
    if model.engine == "openai":
        return "endpoint:" + ",".join(sorted({endpoint.model for endpoint in model.endpoints}))
    return None if model.engine in WEIGHED else model.engine


def resolve_run(
    audit: Audit,
    config: RunConfig,
    *,
    samples: Sequence[BenchmarkSample] | None = None,
    only: Mapping[str, frozenset[str]] | None = None,
) -> ResolvedRun:
    """Resolve a run, with every check that can be made before an engine loads. Writes nothing.

    Parameters
    ----------
    audit : Audit
        The audit.
    config : RunConfig
        The options.
    samples : sequence of BenchmarkSample, optional
        The questions, if they are not drawn from the configured benchmark.
    only : mapping, optional
        Ids from which the sample is drawn, by benchmark.

    Returns
    -------
    ResolvedRun
        Everything pinned.

    Raises
    ------
    AuditError
        If something cannot be resolved.
    """
    design = audit.design(config)
    samples = _open_samples(config, only) if samples is None else list(samples)
    answering = {name: audit.answering(config, model) for name, model in config.model.items()}
    protocols = {
        name: load_protocol(
            protocol_of(config, model), audit.templates, reading_of(config, answering[name])
        )
        for name, model in config.model.items()
    }
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
    else:  # The same command again resumes the run in this folder.
        path = OUTPUTS / f"{default_prefix(audit.name, config)}{identity[:10]}"
    return ResolvedRun(
        audit, config, design, samples, protocols, answering, weights, failed, plain, identity, path
    )


def default_prefix(audit: str, config: RunConfig) -> str:
    """Return how the name of a run's folder begins if `run_dir` is not set."""
    models = "+".join(config.model) if len(config.model) <= 3 else f"{len(config.model)}models"
    return f"{audit}-{config.benchmark.name}-{models}-"


def sized(config: Config, needed: int | None, there: int) -> Config:
    """Replace n=null by a number.

    Parameters
    ----------
    config : RunConfig
        The options.
    needed : int or None
        Questions that a plan needs; None if no number is enough.
    there : int
        Questions of the benchmark.

    Returns
    -------
    RunConfig
        At most all questions.
    """
    if config.n is not None:
        return config
    return replace(config, n="all" if needed is None or needed >= there else needed)


def _open_samples(
    config: RunConfig, only: Mapping[str, frozenset[str]] | None
) -> list[BenchmarkSample]:
    """Return the sample of the benchmark, and of the control benchmark if one is configured.

    A control with fewer than n questions is asked in full.
    """
    configs = [one for one in (config.benchmark, config.control_benchmark) if one is not None]
    for one in configs:
        if not format_of(one.format).answerable:
            raise ConfigError(
                f"benchmark={one.name} is for audit validity alone. Expected such as benchmark=arc_easy."
            )
    if len({format_of(one.format).reading for one in configs}) > 1:
        both = " and ".join(one.name for one in configs)
        raise ConfigError(
            f"Answers to {both} are of two kinds (options, number, code). Name another control_benchmark."
        )
    samples: list[BenchmarkSample] = []
    for one in configs:
        benchmark = replace(open_benchmark(one, seed=config.seed), only=(only or {}).get(one.name))
        n = sample_size(config)
        if samples and n is not None:
            n = min(n, len(benchmark.census.frame))
        samples.append(BenchmarkSample(benchmark, draw_sample(benchmark, n, config.seed)))
    names = [s.benchmark.name for s in samples]
    if len(set(names)) != len(names):
        own = "such as control_benchmark.name=fresh where both are files"
        raise ConfigError(
            f"control_benchmark is the benchmark itself ({names[0]}). Expected another name, {own}."
        )
    return samples


def _resolve_weights(
    config: RunConfig, answering: dict[str, ModelConfig]
) -> tuple[dict[str, Weights | None], dict[str, str]]:
    """Return every model's weights by name, and the models whose weights cannot be resolved."""
    weights: dict[str, Weights | None] = {}
    failed: dict[str, str] = {}
    for name, model in config.model.items():
        try:
            for one in (model, answering[name]):
                if one.name not in weights:
                    weights[one.name] = resolve_weights(one) if one.engine in WEIGHED else None
        except EngineError as error:
            failed[name] = str(error)
    return weights, failed
