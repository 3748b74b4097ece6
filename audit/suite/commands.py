"""Build the command of each audit of a suite, and its configuration, and plan its cost.

Every configuration is checked before anything runs.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from audit.config.audits import part_of
from audit.config.base import RunConfig, described_models, known_models, load_group, options_of
from audit.config.command_line import configured
from audit.config.plan_cost import PlannedCalls
from audit.config.short_forms import HF, hub_name, quoted, safe_name
from audit.core.errors import ConfigError, unknown_name
from audit.engines.config import WEIGHED, ModelConfig
from audit.suite.read import commit_of
from audit.suite.schema import DOMAINS, SCRIPTED, DataPin, DomainThresholds, Suite

# The suite decides these options, so the arguments of an audit may not set them.
_DECIDED = {
    "model": "model_config.model_id, or model=NAME of the command",
    "run_dir": "run_dir=DIR of the command, below which each audit has a directory",
    "report": "nothing: the suite makes one report of all",
    "gate": "gate: ours or source of the suite",
    "plan": "plan=true of the command",
    "seed": "dataset_config.sampling_seed",
    "verdict.alpha": "scoring_config.significance_alpha",
}


@dataclass(frozen=True)
class Step:
    """Describe one audit of a suite.

    Attributes
    ----------
    audit : str
        Name of the audit.
    words : tuple of str
        Arguments of its command, without run_dir.
    config : RunConfig
        The configuration that these arguments compose.
    """

    audit: str
    words: tuple[str, ...]
    config: RunConfig


def model_name(suite: Suite) -> str:
    """Return the name of the suite's model in conf/model.

    Parameters
    ----------
    suite : Suite
        Pins the model.

    Returns
    -------
    str
        Name of the configuration.

    Raises
    ------
    ConfigError
        If no such configuration exists.
    """
    pin = suite.model_config
    if pin.endpoint is not None:
        return safe_name(pin.model_id)
    if "/" in pin.model_id:
        return hub_name(pin.model_id)
    if pin.model_id not in (*known_models(), *described_models()):
        unknown = unknown_name("model_config.model_id", pin.model_id, known_models())
        raise ConfigError(
            f"{unknown} Or a hub id, such as Qwen/Qwen3-8B; "
            "for an endpoint model_config.endpoint beside it."
        )
    return pin.model_id


def domain_of(suite: Suite) -> str | None:
    """Return the domain that the suite states, else that of the benchmark, else None.

    Domains of benchmarks are in conf/rewording/policy.yaml.
    """
    data = suite.dataset_config
    policies = load_group("rewording", "policy")["benchmarks"]
    known: Mapping[str, Any] = policies.get(data.benchmark_name, {})
    return data.domain or known.get("domain")


def domain_thresholds(suite: Suite) -> DomainThresholds:
    """Return the thresholds of the benchmark's domain.

    Parameters
    ----------
    suite : Suite
        May set thresholds by domain.

    Returns
    -------
    DomainThresholds
        Empty if the suite sets none for the domain.

    Raises
    ------
    ConfigError
        If the suite sets thresholds by domain and the domain of the benchmark is unknown.
    """
    domain = domain_of(suite)
    if domain is None and suite.domains:
        raise ConfigError(
            f"The domain of {suite.dataset_config.benchmark_name} is unknown, "
            "and this suite sets thresholds by domain. "
            f"Expected one of {', '.join(DOMAINS)}. "
            f"Example: dataset_config.domain={next(iter(suite.domains))}"
        )
    return suite.domains.get(domain or "", DomainThresholds())


def windows_of(suite: Suite) -> list[tuple[float | None, float | None]]:
    """Return the distance windows that a library may have.

    Parameters
    ----------
    suite : Suite
        States a window.

    Returns
    -------
    list of (float or None, float or None)
        The suite's window. If that is the general one, also that of the benchmark's domain.
    """
    pin = suite.perturbation_config
    stated = (pin.min_semantic_distance, pin.max_semantic_distance)
    windows = load_group("rewording", "policy")["windows"]
    general = stated == tuple(windows["general"])
    return [stated, tuple(windows.get(domain_of(suite), stated))] if general else [stated]


def audit_words(
    suite: Suite, more: Sequence[str] = (), changed: Mapping[str, Sequence[str]] | None = None
) -> dict[str, list[str]]:
    """Return the arguments of each audit's command, without its run_dir.

    Parameters
    ----------
    suite : Suite
        The suite.
    more : sequence of str
        Arguments for every command, such as progress=false.
    changed : mapping, optional
        Further arguments by audit.

    Returns
    -------
    dict of list of str
        By audit.

    Raises
    ------
    ConfigError
        If an argument sets an option that the suite decides.
    """
    words = {}
    for audit, of_suite in suite.audits.items():
        of_audit = [*of_suite, *(changed or {}).get(audit, ())]
        by_key = {key_of(word): word for word in _words(suite, audit)}
        for word in (*of_audit, *more):
            key = key_of(word)
            # One engine serves all audits, so a change of its configuration applies to all.
            if key in _DECIDED or (key.startswith("model.") and word in of_audit):
                instead = _DECIDED.get(
                    key, f"{word} without an audit's name, which changes it for all"
                )
                raise ConfigError(f"{audit}: {word} is decided by the suite. Use {instead}.")
            by_key[key] = word
        words[audit] = list(by_key.values())
    return words


def steps(suite: Suite, words: Mapping[str, Sequence[str]], run_dir: str) -> list[Step]:
    """Compose and validate the configuration of each audit.

    Parameters
    ----------
    suite : Suite
        The suite.
    words : mapping
        Arguments by audit, as `audit_words` returns.
    run_dir : str
        Directory of the suite.

    Returns
    -------
    list of Step
        In the order of the audits.

    Raises
    ------
    ConfigError
        If a configuration is invalid or not pinned.
    """
    plan = []
    for audit, given in words.items():
        directory = f"run_dir={quoted(f'{run_dir}/{audit}')}"
        try:
            config = configured(audit, [*given, directory, "report=false", "gate=false"])
        except ConfigError as error:
            raise ConfigError(f"{audit}: {error}") from error
        _check_pinned(suite, config, audit)
        plan.append(Step(audit, tuple(given), config))
    return plan


def check_version(
    suite: Suite, model: ModelConfig, resolve: Callable[[ModelConfig], str]
) -> dict[str, Any]:
    """Compare the stated version of the model with that of the weights.

    Parameters
    ----------
    suite : Suite
        States the version.
    model : ModelConfig
        The model.
    resolve : callable
        Returns the revision of its weights.

    Returns
    -------
    dict
        The version "stated", the revision "found", and whether it is "claimed" by the operator of
        an endpoint.

    Raises
    ------
    ConfigError
        If the weights have another version.
    EngineLoadError
        If there are no weights.
    """
    stated = suite.model_config.model_version
    if model.engine == "openai":
        return {"stated": stated, "found": None, "claimed": True}
    if (stated == SCRIPTED) != (model.engine == "scripted"):
        version = SCRIPTED if model.engine == "scripted" else "VERSION"
        raise ConfigError(
            f"model_version is {stated[:19]}, which is not a version of {model.name}. "
            "The suite pins another model. Expected the version of the model that is named. "
            f"Example: model={model.name} model_version={version}"
        )
    revision = resolve(model) if model.engine in WEIGHED else SCRIPTED
    if not revision.startswith(stated):
        raise ConfigError(
            f"model_config.model_version is {stated}, and the installed weights of {model.name} are "
            f"{revision}. Expected the version of the weights, or the folder of other weights. "
            f"Example: model.{model.name}.path=/weights/folder"
        )
    return {"stated": stated, "found": revision, "claimed": False}


def _words(suite: Suite, audit: str) -> list[str]:
    """Return the arguments that the suite's fields give to one audit."""
    name, data, pin = model_name(suite), suite.dataset_config, suite.model_config
    known = name in (*known_models(), *described_models())
    model = [f"model={name if known else HF + pin.model_id}"]
    if pin.endpoint is not None:
        model = [f"endpoint={pin.endpoint}", f"model_id={pin.model_id}"]
    # An audit that names its own benchmark does not get the fields of the suite's benchmark.
    own_benchmark = "benchmark" in map(key_of, suite.audits[audit])
    words = [
        *model,
        *([] if own_benchmark else _benchmark_words(data)),
        f"n={data.sample_size}",
        f"seed={data.sampling_seed}",
    ]
    # Of an endpoint the version is what its operator claims, and no weights are compared with it.
    revision = commit_of(pin.model_version) if pin.endpoint is None else pin.model_version
    if revision is not None:
        words.append(f"model.{name}.revision={quoted(revision)}")
    words.append(f"verdict.alpha={suite.scoring_config.significance_alpha:g}")
    effect = domain_thresholds(suite).effect_of_interest
    if effect is not None and audit != "validity":
        words.append(f"verdict.effect_of_interest={effect:g}")
    if own_benchmark:
        return words
    if data.path is not None:
        words.append(f"benchmark.path={quoted(data.path)}")
    if data.dataset_variant is not None:
        words.append(f"benchmark.hub_config={quoted(data.dataset_variant)}")
    if (commit := commit_of(data.dataset_version)) is not None:
        words.append(f"benchmark.revision={commit}")
    if audit == "perturb":
        words.append(f"num_variants={suite.perturbation_config.num_variants_per_item}")
    return words


def _benchmark_words(data: DataPin) -> list[str]:
    """Return the arguments that select a benchmark. A file of the user's own may have any name."""
    if data.path is not None and data.benchmark_name not in options_of("benchmark"):
        return ["benchmark=mcq_file", f"benchmark.name={quoted(data.benchmark_name)}"]
    return [f"benchmark={data.benchmark_name}"]


def _check_pinned(suite: Suite, config: RunConfig, audit: str) -> None:
    data = config.benchmark
    if data.hub is not None and data.path is None and commit_of(data.revision) is None:
        raise ConfigError(
            f"{audit}: benchmark {data.name} is read from the hub at no fixed revision "
            f"({data.revision}). Expected its commit (40 hexadecimal digits) as "
            "dataset_config.dataset_version, or as benchmark.revision= of the audit."
        )
    same = data.name == suite.dataset_config.benchmark_name
    if suite.dataset_config.dataset_variant is not None and data.hub is None and same:
        raise ConfigError(
            f"dataset_config.dataset_variant is {suite.dataset_config.dataset_variant}, and "
            f"{data.name} is no data set of the hub, so it has no such configuration. Leave it out."
        )


def key_of(word: str) -> str:
    """Return the key of an argument `key=value`, which may begin with a plus."""
    return word.lstrip("+").partition("=")[0]


_HEAD = (
    "audit",
    "model",
    "benchmark",
    "calls",
    "prompt tokens",
    "generated at most",
    "hours",
    "GPU-hours",
    "cost",
)


def describe(plan: Sequence[Step], run_dir: Path) -> list[str]:
    """Return the plan of a suite as a table.

    Parameters
    ----------
    plan : sequence of Step
        The audits.
    run_dir : Path
        Directory of the suite.

    Returns
    -------
    list of str
        A line for each audit and model, their sum, and the sources of the figures.

    Raises
    ------
    AuditError
        If an audit cannot be planned.
    """
    rows: list[tuple[str, ...]] = [_HEAD]
    calls = []
    for step in plan:
        for arm in part_of(step.audit, "plan").planned(step.config).counts():
            planned = arm.planned
            calls.append(planned)
            rows.append((step.audit, planned.model, planned.benchmark, *_figures([planned])))
    rows.append(("all", "", "", *_figures(calls)))
    resumed = "  (exists: it would be resumed)" if run_dir.exists() else ""
    lines = [f"run directory  {run_dir}{resumed}"]
    columns = []
    for k, column in enumerate(zip(*rows, strict=True)):
        width = max(map(len, column))
        align = str.ljust if k < 3 else str.rjust  # The first three columns hold names.
        columns.append([align(text, width) for text in column])
    for cells in zip(*columns, strict=True):
        lines.append("  ".join(cells).rstrip())
    sources = dict.fromkeys(planned.cost.basis for planned in calls)
    lines += [f"({source})" for source in sources if source]
    lines += ["", "What each could find: the same command with plan=true, such as"]
    lines += [f"  audit {step.audit} plan=true {shlex.join(step.words)}" for step in plan]
    return lines


def _figures(calls: Sequence[PlannedCalls]) -> tuple[str, ...]:
    """Return sums of the calls; "?" if a summand is unknown."""

    def total(attribute: str, form: str) -> str:
        values = list(map(attrgetter(attribute), calls))
        return "?" if None in values else form.format(sum(values))

    currency = "/".join(sorted({planned.cost.currency for planned in calls}))
    return (
        total("calls", "{:,}"),
        total("tokens.prompt", "{:,}"),
        total("tokens.generated", "{:,}"),
        total("cost.hours", "{:,.2g}"),
        total("cost.gpu_hours", "{:,.2g}"),
        total("cost.money", f"{{:,.2f}} {currency}"),
    )
