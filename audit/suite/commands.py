"""Build the command of each audit of a suite, and its configuration, and plan its cost.

Every configuration is checked before anything runs.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.config.audits import part_of
from audit.config.base import RunConfig, described_models, known_models, load_group
from audit.config.command_line import configured
from audit.config.plan_cost import PlannedCalls
from audit.config.short_forms import HF, hub_name, quoted, safe_name
from audit.core.errors import ConfigError, unknown_name
from audit.engines.config import WEIGHED, ModelConfig
from audit.suite.read import commit_of
from audit.suite.schema import DOMAINS, SCRIPTED, DomainThresholds, Suite

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
    """One audit of a suite. words: the arguments of its command, without run_dir. config: their
    configuration.
    """

    audit: str
    words: tuple[str, ...]
    config: RunConfig


def model_name(suite: Suite) -> str:
    """Return the configuration in conf/model of a suite's model.

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
        If there is none.
    """
    pin = suite.model_config
    if pin.endpoint is not None:
        return safe_name(pin.model_id)
    if "/" in pin.model_id:
        return hub_name(pin.model_id)
    if pin.model_id not in (*known_models(), *described_models()):
        raise ConfigError(
            f"{unknown_name('model_config.model_id', pin.model_id, known_models())} Or a hub id, such as "
            "Qwen/Qwen3-8B; for an endpoint model_config.endpoint beside it."
        )
    return pin.model_id


def domain_of(suite: Suite) -> str | None:
    """Return the domain of a suite: its own, else the benchmark's in conf/rewording/policy.yaml,
    else None.
    """
    data = suite.dataset_config
    known: Mapping[str, Any] = load_group("rewording", "policy")["benchmarks"].get(
        data.benchmark_name, {}
    )
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
            f"The domain of {suite.dataset_config.benchmark_name} is unknown, and this suite sets thresholds by "
            f"domain. Expected one of {', '.join(DOMAINS)}. Example: dataset_config.domain={next(iter(suite.domains))}"
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
    asked = suite.perturbation_config
    stated = (asked.min_semantic_distance, asked.max_semantic_distance)
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
    found = {}
    for audit, own in suite.audits.items():
        given = [*own, *(changed or {}).get(audit, ())]
        for word in (*given, *more):
            key = key_of(word)
            # One engine serves all audits, so its configuration may be changed for all of them
            # alone.
            if key in _DECIDED or (key.startswith("model.") and word in given):
                instead = _DECIDED.get(
                    key, f"{word} without an audit's name, which changes it for all"
                )
                raise ConfigError(f"{audit}: {word} is decided by the suite. Use {instead}.")
        found[audit] = list(
            {key_of(word): word for word in (*_words(suite, audit), *given, *more)}.values()
        )
    return found


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
    found = []
    for audit, given in words.items():
        own = [*given, f"run_dir={quoted(f'{run_dir}/{audit}')}", "report=false", "gate=false"]
        try:
            config = configured(audit, own)
        except ConfigError as error:
            raise ConfigError(f"{audit}: {error}") from error
        _check_pinned(suite, config, audit)
        found.append(Step(audit, tuple(given), config))
    return found


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
        stated, found, and claimed (by an endpoint's operator).

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
            f"model_version is {stated!r:.24}, which is not a version of {model.name}. The suite pins another model. "
            f"Expected the version of the model that is named. Example: model={model.name} model_version={version}"
        )
    found = resolve(model) if model.engine in WEIGHED else SCRIPTED
    if not found.startswith(stated):
        raise ConfigError(
            f"model_config.model_version: the suite states {stated}, and the weights of {model.name} that are here are "
            f"{found}. To audit these, write that; to audit the others, give their folder: "
            f"model.{model.name}.path=/weights/folder."
        )
    return {"stated": stated, "found": found, "claimed": False}


def _words(suite: Suite, audit: str) -> list[str]:
    """Return the arguments that the suite's fields give to one audit."""
    name, data, pin = model_name(suite), suite.dataset_config, suite.model_config
    model = [
        f"model={name if name in (*known_models(), *described_models()) else HF + pin.model_id}"
    ]
    if pin.endpoint is not None:
        model = [f"endpoint={pin.endpoint}", f"model_id={pin.model_id}"]
    words = [
        *model,
        f"benchmark={data.benchmark_name}",
        f"n={data.sample_size}",
        f"seed={data.sampling_seed}",
    ]
    if pin.endpoint is None and (commit := commit_of(pin.model_version)) is not None:
        words.append(f"model.{name}.revision={commit}")
    words.append(f"verdict.alpha={suite.scoring_config.significance_alpha:g}")
    effect = domain_thresholds(suite).effect_of_interest
    if effect is not None and audit != "validity":
        words.append(f"verdict.effect_of_interest={effect:g}")
    if any(key_of(word) == "benchmark" for word in suite.audits[audit]):
        return [
            word for word in words if key_of(word) != "benchmark"
        ]  # of another benchmark nothing more is said
    if data.path is not None:
        words.append(f"benchmark.path={quoted(data.path)}")
    if data.dataset_variant is not None:
        words.append(f"benchmark.hub_config={quoted(data.dataset_variant)}")
    if (commit := commit_of(data.dataset_version)) is not None:
        words.append(f"benchmark.revision={commit}")
    if audit == "perturb":
        words.append(f"num_variants={suite.perturbation_config.num_variants_per_item}")
    return words


def _check_pinned(suite: Suite, config: RunConfig, audit: str) -> None:
    data = config.benchmark
    if data.hub is not None and data.path is None and commit_of(data.revision) is None:
        raise ConfigError(
            f"{audit}: benchmark {data.name} is read from the hub at no fixed revision ({data.revision}). Write its "
            "commit (40 hexadecimal digits) as dataset_config.dataset_version, or benchmark.revision= of the audit."
        )
    same = data.name == suite.dataset_config.benchmark_name
    if suite.dataset_config.dataset_variant is not None and data.hub is None and same:
        raise ConfigError(
            f"dataset_config.dataset_variant={suite.dataset_config.dataset_variant}: {data.name} is no data set of the "
            "hub, so it has no such configuration. Leave it out."
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
    asked = [
        (step, one.planned)
        for step in plan
        for one in part_of(step.audit, "plan").planned(step.config).asked()
    ]
    rows = [(step.audit, one.model, one.benchmark, *_figures([one])) for step, one in asked]
    rows.append(("all", "", "", *_figures([one for _, one in asked])))
    widths = [max(len(row[k]) for row in (_HEAD, *rows)) for k in range(len(_HEAD))]
    lines = [
        f"run directory  {run_dir}{'  (exists: it would be resumed)' if run_dir.exists() else ''}"
    ]
    for row in (_HEAD, *rows):
        cells = [
            f"{text:{'<' if k < 3 else '>'}{widths[k]}}" for k, text in enumerate(row)
        ]  # three columns of words
        lines.append("  ".join(cells).rstrip())
    lines += [f"({one})" for one in dict.fromkeys(call.cost.basis for _, call in asked) if one]
    lines += ["", "What each could find: the same words with plan=true, such as"]
    lines += [f"  audit {step.audit} plan=true {shlex.join(step.words)}" for step in plan]
    return lines


def _figures(calls: Sequence[PlannedCalls]) -> tuple[str, ...]:
    """Return sums of the calls; "?" if a summand is unknown."""

    def total(values: Sequence[float | None], form: str) -> str:
        known = [value for value in values if value is not None]
        return form.format(sum(known)) if len(known) == len(values) else "?"

    currency = "/".join(sorted({one.cost.currency for one in calls}))
    return (
        total([one.calls for one in calls], "{:,}"),
        total([one.tokens.prompt for one in calls], "{:,}"),
        total([one.tokens.generated for one in calls], "{:,}"),
        total([one.cost.hours for one in calls], "{:,.2g}"),
        total([one.cost.gpu_hours for one in calls], "{:,.2g}"),
        total([one.cost.money for one in calls], f"{{:,.2f}} {currency}"),
    )
