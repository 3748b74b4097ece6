"""What a suite says, field by field; `suite.schema.json` is made from these classes (`json_schema`).

The fields are those of the source's "audit-ready" test suite ("A Router-Worker Evaluation Harness", section
"Operationalizing Governance"), and the few that are ours: dataset_config.path, dataset_config.domain,
governance.approvals_required, governance.rotate_every, audits, domains, gate. Every one says what it does; what only
people or a registry read is kept beside the results.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from importlib.resources import files
from typing import Any, Union, get_args, get_origin, get_type_hints

from audit.audits import AUDITS
from audit.verdict.forms import FORMS

SCHEMA_FILE = "suite.schema.json"
SCHEMA_ID = "urn:benchmark-audit:suite:v1"
DOMAINS = ("general", "factual", "reasoning", "social", "code")  # the windows of conf/rewording/policy.yaml
GATES = ("ours", "source")
SCRIPTED = "scripted"  # the version of a script, which the program itself is
VERSION = f"^({SCRIPTED}|[0-9a-f]{{40}}|sha256:[0-9a-f]{{12,64}})$"


def _is(text: str, default: Any = MISSING, **rules: Any) -> Any:
    """A field with its description, and what JSON Schema says of its values."""
    about = {"description": text, **rules}
    if default is MISSING:
        return field(metadata=about)
    if isinstance(default, dict | list):
        return field(default_factory=lambda: type(default)(default), metadata=about)
    return field(default=default, metadata=about)


_PERCENT = {"minimum": 0, "maximum": 100}
_SHARE = {"minimum": 0, "maximum": 1}
_DISTANCE = {"minimum": 0, "maximum": 2}


@dataclass(frozen=True)
class ModelPin:
    model_id: str = _is("A name in conf/model, the hub id of one of them, or the id that an endpoint serves.")
    model_version: str = _is(
        "Immutable: a commit of the hub (40 hexadecimal digits) or sha256:<digits of the weights' hash, 12 or more>. "
        "Of an endpoint it is what its operator states, and is recorded as claimed.",
        pattern=VERSION,
    )
    endpoint: str | None = _is("URL of an OpenAI-compatible endpoint; null: the weights are loaded.", None)


@dataclass(frozen=True)
class DataPin:
    benchmark_name: str = _is("A name in conf/benchmark.")
    dataset_variant: str | None = _is("Configuration of the hub's data set, such as main; null: the benchmark's.", None)
    dataset_version: str | None = _is(
        "A commit of the hub, which is read; or a version's name, which is recorded beside the revision that is read.",
        None,
    )
    sample_size: int | str = _is(
        'Questions, drawn with sampling_seed, or "all".',
        100,
        anyOf=[{"type": "integer", "minimum": 1}, {"const": "all"}],
    )
    sampling_seed: int = _is("Seed of the sample, of every request and of the resamples.", 42, minimum=0)
    path: str | None = _is("Ours: the benchmark's file or folder, in place of the hub.", None)
    domain: str | None = _is("Ours: which of domains holds; null: the benchmark's own.", None, enum=[*DOMAINS, None])


@dataclass(frozen=True)
class PerturbationPin:
    num_variants_per_item: int = _is("Rewordings that are asked of each question.", 3, minimum=1)
    min_semantic_distance: float | None = _is("The variant library's window has to begin there.", None, **_DISTANCE)
    max_semantic_distance: float | None = _is("The variant library's window has to end there.", None, **_DISTANCE)
    perturbation_strategy: str | None = _is(
        "How the library's variants were made: file, paraphrase (or paraphrase_llm) or template.", None
    )
    paraphrase_model: str | None = _is("Who reworded: the library's header has to name it.", None)


@dataclass(frozen=True)
class Scoring:
    contamination_threshold: float = _is("The source's: CS of an item above which it may count.", 0.10, **_SHARE)
    significance_alpha: float = _is(
        "Error rate of our findings, and the source's level of its t-test of one item.",
        0.05, exclusiveMinimum=0, exclusiveMaximum=1,
    )  # fmt: skip
    max_allowed_contaminated_items_pct: float = _is(
        "The source's deployment gate: percentage of items that may be flagged.", 5.0, **_PERCENT
    )


@dataclass(frozen=True)
class Governance:
    audit_owner: str | None = _is("Who is responsible. Recorded.", None)
    review_required_above_cs: float = _is("The source's: CS above which people decide.", 0.25, **_SHARE)
    block_deployment_above_contaminated_pct: float = _is(
        "The source's: percentage of flagged items above which the deployment is blocked.", 5.0, **_PERCENT
    )
    result_retention_days: int = _is("How long results are kept: audit registry expire.", 365, minimum=1)
    notify_on_failure: list[str] = _is(
        "Mail addresses that hear of a failure, a block and a review, by the mail server of AUDIT_NOTIFY.", []
    )
    approvals_required: int = _is(
        "Ours: so many different people let pass what the verdict does not; audit gate --approvals may want more.",
        1,
        minimum=1,
    )
    forms_required: dict[str, float] = _is(
        "Ours: a pass has to speak of these forms of contamination (answers, wording, text), each at this share of the "
        "items or a smaller one; else there is no decision.",
        {}, keys=FORMS, additionalProperties={"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    )  # fmt: skip
    rotate_every: str | None = _is(
        "Ours: after which benchmark and library are due for new questions: audit registry due.",
        None, enum=["quarter", None],
    )  # fmt: skip


@dataclass(frozen=True)
class DomainThresholds:
    """What holds in one domain instead of the suite's own; null: the suite's own."""

    contamination_threshold: float | None = _is("As in scoring_config.", None, **_SHARE)
    max_allowed_contaminated_items_pct: float | None = _is("As in scoring_config.", None, **_PERCENT)
    review_required_above_cs: float | None = _is("As in governance.", None, **_SHARE)
    block_deployment_above_contaminated_pct: float | None = _is("As in governance.", None, **_PERCENT)
    effect_of_interest: float | None = _is(
        "Ours: the gain, drop or gap (0-1) to exclude.",
        None,
        exclusiveMinimum=0,
        exclusiveMaximum=1,
    )


@dataclass(frozen=True)
class Suite:
    """One suite."""

    audit_suite_id: str = _is("Its name, with its version.", pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")
    model_config: ModelPin = _is("The model.")
    dataset_config: DataPin = _is("The benchmark.")
    perturbation_config: PerturbationPin = _is("The rewordings.", PerturbationPin())
    scoring_config: Scoring = _is("Thresholds of measuring.", Scoring())
    governance: Governance = _is("Thresholds of deciding, and who decides.", Governance())
    audits: dict[str, list[str]] = _is(
        "Ours: the audits in the order in which they are run, each with what its command is given beside.",
        {"perturb": []}, minProperties=1, keys=AUDITS,
    )  # fmt: skip
    domains: dict[str, DomainThresholds] = _is("Ours: thresholds by the benchmark's domain.", {}, keys=DOMAINS)
    gate: str = _is(
        "Ours: what decides of the perturbation audit, our verdict or the source's thresholds. Both are printed.",
        "ours", enum=list(GATES),
    )  # fmt: skip


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of `Suite`."""
    found = _of_class(Suite)
    # The source's own files name a schema; which one is theirs to say.
    found["properties"] = {"$schema": {"type": "string"}, **found["properties"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "audit suite",
        "description": "What `audit suite` takes, as JSON or as YAML.",
        **found,
    }


def schema_text() -> str:
    """The published schema, as it lies in the package."""
    return (files("audit.suite") / SCHEMA_FILE).read_text(encoding="utf-8")


def _of_class(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    mine = fields(kind)
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [f.name for f in mine if f.default is MISSING and f.default_factory is MISSING],
        "properties": {f.name: _of_field(f, hints[f.name]) for f in mine},
    }


def _of_field(one: Field[Any], kind: Any) -> dict[str, Any]:
    rules: Mapping[str, Any] = {k: v for k, v in one.metadata.items() if k != "keys"}
    found = {} if "anyOf" in rules else _of_type(kind, one.metadata.get("keys"))
    default: Any = one.default
    factory: Any = one.default_factory
    if factory is not MISSING:
        default = factory()
    if default is not MISSING and not is_dataclass(default):
        found["default"] = default
    return {**found, **rules}


def _of_type(kind: Any, keys: Any = None) -> dict[str, Any]:
    if is_dataclass(kind) and isinstance(kind, type):
        return _of_class(kind)
    if get_origin(kind) in (types.UnionType, Union):
        (given,) = [one for one in get_args(kind) if one is not type(None)]
        return {"type": [_of_type(given)["type"], "null"]}
    if get_origin(kind) is list:
        return {"type": "array", "items": _of_type(get_args(kind)[0])}
    if get_origin(kind) is dict:
        found: dict[str, Any] = {"type": "object", "additionalProperties": _of_type(get_args(kind)[1])}
        return {**found, "propertyNames": {"enum": list(keys)}} if keys else found
    return {"type": {str: "string", int: "integer", float: "number", bool: "boolean"}[kind]}
