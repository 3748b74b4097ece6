"""A small suite of the scripted model and the embedded benchmark, for what tests suites."""

from typing import Any

from audit.suite.read import suite_of
from audit.suite.schema import Suite


def small(**changes: Any) -> dict[str, Any]:
    """As a file holds it."""
    plain = {
        "audit_suite_id": "s",
        "model_config": {"model_id": "scripted", "model_version": "scripted"},
        "dataset_config": {"benchmark_name": "elementary", "sample_size": 20},
    }
    return {**plain, **changes}


def suite(**changes: Any) -> Suite:
    return suite_of(small(**changes))
