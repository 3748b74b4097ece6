"""Define the fields of a suite.

`suite.schema.json` documents each field and its values. Every suite is checked against this schema,
and `audit suite --schema` prints it.

Most fields are those of the source's "audit-ready" test suite ("A Router-Worker Evaluation
Harness", section "Operationalizing Governance"). The following fields are additions of this
program: dataset_config.path, dataset_config.domain, governance.approvals_required,
governance.forms_required, governance.rotate_every, audits, domains, gate. Fields that only people
or a registry read are stored with the results and have no other effect.
"""

from dataclasses import dataclass, field
from importlib.resources import files

# conf/rewording/policy.yaml has a window of semantic distance for each domain.
DOMAINS = ("general", "factual", "reasoning", "social", "code")
SCRIPTED = "scripted"  # Version of scripted models, which are part of the program.
_WEIGHTS = f"{SCRIPTED}|[0-9a-f]{{40}}|sha256:[0-9a-f]{{12,64}}"
# Matches a provider's model name with the date of a snapshot, such as gpt-4o-2024-08-06 or
# model-20250514.
_NAME = "[A-Za-z0-9._:/-]*"
_MARK = "[A-Za-z._:/-]"
_DAY = "20[0-9]{2}-?(0[1-9]|1[0-2])-?(0[1-9]|[12][0-9]|3[01])"
WEIGHTS_VERSION = f"^({_WEIGHTS})$"
VERSION = f"^({_WEIGHTS}|({_NAME}{_MARK})?{_DAY}({_MARK}{_NAME})?)$"


@dataclass(frozen=True)
class ModelPin:
    model_id: str
    model_version: str
    endpoint: str | None = None


@dataclass(frozen=True)
class DataPin:
    benchmark_name: str
    dataset_variant: str | None = None
    dataset_version: str | None = None
    sample_size: int | str = 100
    sampling_seed: int = 42
    path: str | None = None
    domain: str | None = None


@dataclass(frozen=True)
class PerturbationPin:
    num_variants_per_item: int = 3
    min_semantic_distance: float | None = None
    max_semantic_distance: float | None = None
    perturbation_strategy: str | None = None
    paraphrase_model: str | None = None


@dataclass(frozen=True)
class Scoring:
    contamination_threshold: float = 0.10
    significance_alpha: float = 0.05
    max_allowed_contaminated_items_pct: float = 5.0


@dataclass(frozen=True)
class Governance:
    audit_owner: str | None = None
    review_required_above_cs: float = 0.25
    block_deployment_above_contaminated_pct: float = 5.0
    result_retention_days: int = 365
    notify_on_failure: list[str] = field(default_factory=list)
    approvals_required: int = 1
    forms_required: dict[str, float] = field(default_factory=dict)
    rotate_every: str | None = None


@dataclass(frozen=True)
class DomainThresholds:
    """Hold the thresholds that replace the suite's thresholds for one domain. None keeps the
    suite's threshold."""

    contamination_threshold: float | None = None
    max_allowed_contaminated_items_pct: float | None = None
    review_required_above_cs: float | None = None
    block_deployment_above_contaminated_pct: float | None = None
    effect_of_interest: float | None = None


@dataclass(frozen=True)
class Suite:
    """Hold the fields of one suite, as `suite.schema.json` documents them."""

    audit_suite_id: str
    model_config: ModelPin
    dataset_config: DataPin
    perturbation_config: PerturbationPin = PerturbationPin()
    scoring_config: Scoring = Scoring()
    governance: Governance = Governance()
    audits: dict[str, list[str]] = field(default_factory=lambda: {"perturb": []})
    domains: dict[str, DomainThresholds] = field(default_factory=dict)
    gate: str = "ours"


def schema_text() -> str:
    """Return the published schema (JSON Schema 2020-12) from the package."""
    return (files("audit.suite") / "suite.schema.json").read_text(encoding="utf-8")
