"""Read results of EvalPlus: NAME_eval_results.json, as evalplus/evaluate.py writes it (evalplus/evalplus)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.errors import ConfigError, DataError
from audit.imports.record import Imported, Log, Record, Wanted, checked, trials
from audit.imports.scores import Column, choose_score

_PASSED = ("pass", "success")  # today, and until 0.2
_NAME = re.compile(r"(?P<model>.+)_(?:vllm|hf|openai|anthropic|google|bedrock|ollama|gptqmodel)_temp_[\d.]+")
BASE, PLUS = "base", "plus"


def is_evalplus(found: Any) -> bool:
    """Return whether a JSON document holds results of EvalPlus."""
    each = found.get("eval") if isinstance(found, dict) else None
    first = next(iter(each.values()), None) if isinstance(each, dict) else None
    first = first[0] if isinstance(first, list) and first else first
    return isinstance(first, dict) and bool({"base_status", "base"} & first.keys())


def read_evalplus(path: Path, found: Record, wanted: Wanted) -> Log:
    """Return the log. The scores are base, and plus: the base tests and the extra ones.

    Raises ConfigError if the file's name has no model, DataError if base and plus differ and none is asked for.
    """
    name = _NAME.match(path.name)
    model = wanted.model or (name["model"].replace("--", "/") if name else "")
    if not model:
        raise ConfigError(f"The model of {path.name} is missing. Say --model NAME.")
    columns: dict[str, Column] = {BASE: {}, PLUS: {}}
    for task, result in found["eval"].items():
        passed = _passed(result, f"{path}, {task}")
        columns[BASE][task] = trials(sum(base for base, _ in passed), len(passed), f"{path}, {task}")
        if all(plus is not None for _, plus in passed):
            both = sum(bool(base and plus) for base, plus in passed)
            columns[PLUS][task] = trials(both, len(passed), f"{path}, {task}")
    columns = {name: column for name, column in columns.items() if column}
    score = choose_score(columns, wanted.metric, str(path))
    return Log("evalplus", str(found.get("hash") or ""), _outcomes(found, columns[score], wanted, model), score)


def _passed(result: Any, where: str) -> list[tuple[bool, bool | None]]:
    """Return (base, plus) of each solution; plus is None if its tests were not run."""
    if isinstance(result, list):
        pairs = [(one["base_status"], one.get("plus_status")) for one in result]
    else:  # until 0.2: two lists of (status, tests)
        plus = result.get("plus") or [[None]] * len(result["base"])
        pairs = [(one[0], other[0]) for one, other in zip(result["base"], plus, strict=True)]
    if not pairs:
        raise DataError(f"{where}: the number of solutions is 0. Expected a result. Evaluate the samples again.")
    return [(base in _PASSED, None if plus is None else plus in _PASSED) for base, plus in pairs]


def _outcomes(found: Record, column: Column, wanted: Wanted, model: str) -> Iterator[Imported]:
    for task, (right, of) in column.items():
        result = found["eval"][task]
        solution = result[0].get("solution") if isinstance(result, list) else None
        yield Imported(
            model=model,
            benchmark=wanted.benchmark or checked(task, task).partition("/")[0].lower(),
            key=task,
            sample=task,
            right=right,
            of=of,
            answer=str(solution)[:200] if solution else None,
        )
