"""Read results of EvalPlus: NAME_eval_results.json, as evalplus/evaluate.py writes it
(evalplus/evalplus)."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from audit.core.errors import DataError
from audit.imports.graded import Sample, graded_log
from audit.imports.record import Log, Record, Wanted, checked, trials

_PASSED = ("pass", "success")  # status of passed tests: in current versions, and until version 0.2
_NAME = re.compile(
    r"(?P<model>.+)_(?:vllm|hf|openai|anthropic|google|bedrock|ollama|gptqmodel)_temp_[\d.]+"
)
BASE, PLUS = "base", "plus"


def is_evalplus(found: Any) -> bool:
    """Return whether a JSON document holds results of EvalPlus."""
    each = found.get("eval") if isinstance(found, dict) else None
    first = next(iter(each.values()), None) if isinstance(each, dict) else None
    first = first[0] if isinstance(first, list) and first else first
    return isinstance(first, dict) and bool({"base_status", "base"} & first.keys())


def read_evalplus(path: Path, found: Record, wanted: Wanted) -> Log:
    """Return the log. The scores are base, and plus: the base tests and the extra ones.

    Raises ConfigError if the file's name has no model, DataError if base and plus differ and none
    is asked for."""
    name = _NAME.match(path.name)
    model = wanted.model_of(
        name and name["model"].replace("--", "/"), path.name, "the file's name has none"
    )
    log = graded_log(
        "evalplus", path, partial(_samples, path, found["eval"], model, wanted), wanted
    )
    return replace(log, version=str(found.get("hash") or ""))


def _samples(path: Path, tasks: Record, model: str, wanted: Wanted) -> Iterator[Sample]:
    for task, result in tasks.items():
        where = f"{path}, {task}"
        passed = _passed(result, where)
        scores = {BASE: trials(sum(base for base, _ in passed), len(passed), where)}
        if all(plus is not None for _, plus in passed):
            scores[PLUS] = trials(
                sum(bool(base and plus) for base, plus in passed), len(passed), where
            )
        yield Sample(
            model=model,
            benchmark=wanted.benchmark or checked(task, task).partition("/")[0].lower(),
            name=task,
            where=where,
            scores=scores,
            record=result,
            same=task,
            answer=(isinstance(result, list) and result[0].get("solution")) or None,
        )


def _passed(result: Any, where: str) -> list[tuple[bool, bool | None]]:
    """Return (base, plus) of each solution; plus is None if its tests were not run."""
    if isinstance(result, list):
        pairs = [(one["base_status"], one.get("plus_status")) for one in result]
    else:  # Until version 0.2 the result is two lists of (status, tests).
        plus = result.get("plus") or [[None]] * len(result["base"])
        pairs = [(one[0], other[0]) for one, other in zip(result["base"], plus, strict=True)]
    if not pairs:
        raise DataError(
            f"{where}: the number of solutions is 0. Expected a result. Evaluate the samples again."
        )
    return [(base in _PASSED, None if plus is None else plus in _PASSED) for base, plus in pairs]
