"""Read the report of a run of SWE-bench from MODEL.RUN_ID.json, as swebench/harness/reporting.py
writes it (SWE-bench/SWE-bench).
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from audit.imports.graded import Sample, graded_log
from audit.imports.record import Log, Record, Wanted
from audit.imports.scores import Outcome

RESOLVED, BENCHMARK = "resolved", "swe-bench"
# The outcome and the error of the instances in each list. A later list has precedence.
_LISTS: dict[str, tuple[Outcome, str | None]] = {
    "resolved_ids": ((1, 1), None),
    "unresolved_ids": ((0, 1), None),
    "empty_patch_ids": ((None, 1), None),
    "error_ids": ((None, 1), "the tests were not run to their end"),
    "infra_failure_ids": ((None, 1), "likely a failure of the infrastructure"),
}


def is_swe_bench(content: Any) -> bool:
    """Return whether a JSON document is the report of a run of SWE-bench."""
    return isinstance(content, dict) and {"resolved_ids", "unresolved_ids"} <= content.keys()


def read_swe_bench(path: Path, report: Record, wanted: Wanted) -> Log:
    """Return the log of a report.

    An instance with an empty patch has no answer. Instances that were not submitted are left out.

    Parameters
    ----------
    path : Path
        The file, whose name contains the model's name.
    report : dict
        The JSON document in the file.
    wanted : Wanted
        How to read it.

    Raises
    ------
    DataError
        If the number of resolved instances differs from the number that the report states.
    """
    name = path.stem.rpartition(".")[0].replace("__", "/")
    model = wanted.model_of(name, path.name, "the file's name is not MODEL.RUN_ID.json")
    scored = len(report["resolved_ids"]) + len(report["unresolved_ids"])
    lost = set(report.get("infra_failure_ids") or ()) & set(report["unresolved_ids"])
    stated, of = report.get("resolved_instances"), scored - len(lost)
    total = stated / of if isinstance(stated, int) and of else None
    samples = partial(_samples, path, report, model, wanted)
    return graded_log("swe-bench", path, samples, wanted, totals={RESOLVED: total})


def _samples(path: Path, report: Record, model: str, wanted: Wanted) -> Iterator[Sample]:
    states: dict[str, tuple[Outcome, str | None]] = {}
    for name, state in _LISTS.items():
        states |= dict.fromkeys(map(str, report.get(name) or ()), state)
    for instance, (outcome, error) in states.items():
        yield Sample(
            model=model,
            benchmark=wanted.benchmark or BENCHMARK,
            name=instance,
            where=f"{path}, {instance}",
            scores={RESOLVED: outcome},
            record={},
            same=instance,
            error=error,
        )
