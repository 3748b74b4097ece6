"""Build the command and the configuration of each audit of a suite, and plan its cost.

Every configuration is checked before an audit is run.
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

# The suite sets these options, so the arguments of a single audit must not set them.
_DECIDED = {
    "model": "model_config.model_id, or model=NAME of the command",
    "run_dir": "run_dir=DIR of the command, below which each audit has a directory",
    "report": "nothing: the suite makes one report of all audits",
    "gate": "gate: ours or source of the suite",
    "plan": "plan=true of the command",
    "seed": "dataset_config.sampling_seed",
    "verdict.alpha": "scoring_config.significance_alpha",
}


@dataclass(frozen=True)
class Step:
    """Hold the command and the configuration of one audit of a suite.

    Attributes
    ----------
    audit : str
        Name of the audit.
    words : tuple of str
        Arguments of the audit's command, without run_dir.
    config : RunConfig
        Configuration composed from these arguments.
    """

    audit: str
    words: tuple[str, ...]
    config: RunConfig


def model_name(suite: Suite) -> str:
    """Return the name of the suite's model in conf/model.

    Parameters
    ----------
    suite : Suite
        The suite, which pins the model.

    Returns
    -------
    str
        Name of the model's configuration.

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
            f"{unknown} A hub id, such as Qwen/Qwen3-8B, is also possible. A model of an endpoint "
            "also needs model_config.endpoint."
        )
    return pin.model_id


def domain_of(suite: Suite) -> str | None:
    """Return the domain (subject area) of the suite's benchmark; None if the domain is unknown.

    The domain is taken from the suite, or else from the entry of the benchmark in
    conf/rewording/policy.yaml.
    """
    data = suite.dataset_config
    policies = load_group("rewording", "policy")["benchmarks"]
    known: Mapping[str, Any] = policies.get(data.benchmark_name, {})
    return data.domain or known.get("domain")


def domain_thresholds(suite: Suite) -> DomainThresholds:
    """Return the suite's thresholds for the domain of its benchmark.

    Parameters
    ----------
    suite : Suite
        The suite, which may set thresholds by domain.

    Returns
    -------
    DomainThresholds
        The thresholds; all None if the suite sets none for the domain.

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
    """Return the ranges (windows) of semantic distance that the suite's variants may have.

    Parameters
    ----------
    suite : Suite
        The suite, which states a window.

    Returns
    -------
    list of (float or None, float or None)
        Smallest and largest distance of each window. The first window is the suite's. If the
        suite's window is the general window, the window of the benchmark's domain is also allowed.
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
        Arguments that are added to every command, such as progress=false.
    changed : mapping, optional
        Maps the name of an audit to further arguments.

    Returns
    -------
    dict of list of str
        Arguments by the name of the audit.

    Raises
    ------
    ConfigError
        If an argument sets an option that the suite sets.
    """
    words = {}
    for audit, of_suite in suite.audits.items():
        of_audit = [*of_suite, *(changed or {}).get(audit, ())]
        by_key = {key_of(word): word for word in _words(suite, audit)}
        for word in (*of_audit, *more):
            key = key_of(word)
            # All audits use the same engine, so a change of its configuration must apply to all
            # audits. A fact about a model changes no engine.
            of_engine = key.startswith("model.") and not key.endswith((".released", ".family"))
            if key in _DECIDED or (of_engine and word in of_audit):
                instead = _DECIDED.get(
                    key, f"{word} without an audit's name, which changes it for all audits"
                )
                raise ConfigError(f"{audit}: {word} is set by the suite. Use {instead}.")
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
        Arguments of each audit, by the name of the audit, as returned by `audit_words`.
    run_dir : str
        Directory of the suite.

    Returns
    -------
    list of Step
        One step for each audit, in the order of the suite.

    Raises
    ------
    ConfigError
        If a configuration is invalid, or if its model or data is not pinned to a version.
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
    """Check that the model version in the suite is the version of the weights.

    Parameters
    ----------
    suite : Suite
        The suite, which states the version.
    model : ModelConfig
        The model.
    resolve : callable
        Function from the model to the revision of its weights.

    Returns
    -------
    dict
        A dict with three keys. "stated" is the version that the suite states. "found" is the
        revision of the weights. "claimed" is True if the version is known only from a statement of
        the endpoint's operator.

    Raises
    ------
    ConfigError
        If the weights have another version.
    EngineLoadError
        If the weights cannot be found.
    """
    stated = suite.model_config.model_version
    if model.engine == "openai":
        return {"stated": stated, "found": None, "claimed": True}
    if (stated == SCRIPTED) != (model.engine == "scripted"):
        version = SCRIPTED if model.engine == "scripted" else "VERSION"
        raise ConfigError(
            f"model_version is {stated[:19]}, which is not a version of {model.name}. The suite "
            "pins the version of another model. Expected a version of the named model. "
            f"Example: model={model.name} model_version={version}"
        )
    revision = resolve(model) if model.engine in WEIGHED else SCRIPTED
    if not revision.startswith(stated):
        raise ConfigError(
            f"model_config.model_version is {stated}, but the installed weights of {model.name} "
            f"have the version {revision}. Expected the version of the weights, or a path to other "
            "weights. "
            f"Example: model.{model.name}.path=/weights/folder"
        )
    return {"stated": stated, "found": revision, "claimed": False}


def _words(suite: Suite, audit: str) -> list[str]:
    """Return the arguments of one audit that follow from the fields of the suite."""
    name, data, pin = model_name(suite), suite.dataset_config, suite.model_config
    known = name in (*known_models(), *described_models())
    model = [f"model={name if known else HF + pin.model_id}"]
    if pin.endpoint is not None:
        model = [f"endpoint={pin.endpoint}", f"model_id={pin.model_id}"]
    # If the arguments of an audit name a benchmark, it replaces the benchmark of the suite.
    own_benchmark = "benchmark" in map(key_of, suite.audits[audit])
    words = [
        *model,
        *([] if own_benchmark else _benchmark_words(data)),
        f"n={data.sample_size}",
        f"seed={data.sampling_seed}",
    ]
    # The version of an endpoint's model is what the endpoint's operator claims. There are no
    # weights with which it could be compared.
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
    """Return the arguments that select a benchmark.

    A benchmark from a user's file may have any name.
    """
    if data.path is not None and data.benchmark_name not in options_of("benchmark"):
        return ["benchmark=mcq_file", f"benchmark.name={quoted(data.benchmark_name)}"]
    return [f"benchmark={data.benchmark_name}"]


def _check_pinned(suite: Suite, config: RunConfig, audit: str) -> None:
    data = config.benchmark
    if data.hub is not None and data.path is None and commit_of(data.revision) is None:
        raise ConfigError(
            f"{audit}: the revision of benchmark {data.name} on the hub is {data.revision}, which "
            "may change. Expected a commit (40 hexadecimal digits) as "
            "dataset_config.dataset_version, or as benchmark.revision= of the audit."
        )
    same = data.name == suite.dataset_config.benchmark_name
    if suite.dataset_config.dataset_variant is not None and data.hub is None and same:
        raise ConfigError(
            f"dataset_config.dataset_variant is {suite.dataset_config.dataset_variant}. "
            f"{data.name} is not a data set of the hub, so it has no variants. Expected no "
            "dataset_variant."
        )


def key_of(word: str) -> str:
    """Return the key of an argument `key=value`, without a plus sign before the key."""
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
    """Return the planned cost of a suite as lines of a table.

    Parameters
    ----------
    plan : sequence of Step
        The audits of the suite.
    run_dir : Path
        Directory of the suite.

    Returns
    -------
    list of str
        A line for each audit and model, a line with the totals, and lines with the sources of the
        figures.

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
        align = str.ljust if k < 3 else str.rjust  # The first three columns contain names.
        columns.append([align(text, width) for text in column])
    for cells in zip(*columns, strict=True):
        lines.append("  ".join(cells).rstrip())
    sources = dict.fromkeys(planned.cost.basis for planned in calls)
    lines += [f"({source})" for source in sources if source]
    lines += ["", "To see what each audit could find, add plan=true to its command:"]
    lines += [f"  audit {step.audit} plan=true {shlex.join(step.words)}" for step in plan]
    return lines


def _figures(calls: Sequence[PlannedCalls]) -> tuple[str, ...]:
    """Return the totals over the calls, such as tokens and cost, as texts.

    A total is "?" if one of its terms is unknown.
    """

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
