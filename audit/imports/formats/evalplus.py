"""Read results of EvalPlus and BigCodeBench from the file NAME_eval_results.json.

The formats are those that evalplus/evaluate.py (evalplus/evalplus) and bigcodebench/evaluate.py
(bigcode-project/bigcodebench) write.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from operator import and_
from pathlib import Path
from typing import Any

from audit.core.errors import DataError
from audit.imports.graded import Sample, graded_log
from audit.imports.record import Log, Record, Wanted, checked, trials

# Status of passed tests. The first value is used in current versions, the second in versions up to
# 0.2.
_PASSED = ("pass", "success")
_NAME = re.compile(
    r"(?P<bigcode>.+?)(?:--main)?--bigcodebench-(?:hard-)?(?P<split>complete|instruct)?|"
    r"(?P<model>.+)_(?:vllm|hf|openai|anthropic|google|bedrock|ollama|gptqmodel)_temp_[\d.]+"
)
BASE, PLUS = "base", "plus"


def is_evalplus(document: Any) -> bool:
    """Return whether a JSON document holds results of EvalPlus or BigCodeBench."""
    each = document.get("eval") if isinstance(document, dict) else None
    first = next(iter(each.values()), None) if isinstance(each, dict) else None
    first = first[0] if isinstance(first, list) and first else first
    if not isinstance(first, dict):
        return False
    return bool({"base_status", "base"} & first.keys()) or {"task_id", "status"} <= first.keys()


def read_evalplus(path: Path, results: Record, wanted: Wanted) -> Log:
    """Return the log of a document.

    The score `base` means that a solution passed the base tests, or all tests of BigCodeBench. The
    score `plus` means that it also passed the extra tests.

    Parameters
    ----------
    path : Path
        The file, whose name contains the model's name.
    results : dict
        The JSON document in the file.
    wanted : Wanted
        How to read it.

    Raises
    ------
    ConfigError
        If the file's name does not contain the model's name.
    DataError
        If the scores base and plus differ and the user chose no metric.
    """
    name = _NAME.match(path.name)
    model = wanted.model_of(
        name and (name["model"] or name["bigcode"]).replace("--", "/"),
        path.name,
        "the file's name has none",
    )
    # The prompts of the two splits of BigCodeBench differ, but their items have the same names.
    split = f"-{name['split']}" if name and name["split"] else ""
    samples = partial(_samples, path, results["eval"], model, split, wanted)
    log = graded_log("evalplus", path, samples, wanted)
    return replace(log, version=str(results.get("hash") or ""))


def _samples(path: Path, tasks: Record, model: str, split: str, wanted: Wanted) -> Iterator[Sample]:
    for task, result in tasks.items():
        where = f"{path}, {task}"
        base, plus = _passed(result, where)
        scores = {BASE: trials(sum(base), len(base), where)}
        if plus is not None:
            scores[PLUS] = trials(sum(map(and_, base, plus)), len(base), where)
        yield Sample(
            model=model,
            benchmark=wanted.benchmark or checked(task, task).partition("/")[0].lower() + split,
            name=task,
            where=where,
            scores=scores,
            record=result,
            same=task,
            answer=(isinstance(result, list) and result[0].get("solution")) or None,
        )


def _passed(result: Any, where: str) -> tuple[list[bool], list[bool] | None]:
    """Return two lists of bool: whether each solution passed the base tests, and the extra tests.

    The second list is None if the extra tests were not run for some solution.
    """
    base, plus = [], []
    if isinstance(result, list):
        for solution in result:
            base.append(solution["base_status" if "base_status" in solution else "status"])
            plus.append(solution.get("plus_status"))
    else:  # In versions up to 0.2 the result is two lists of (status, tests).
        extra = result.get("plus") or [[None]] * len(result["base"])
        for tests, extra_tests in zip(result["base"], extra, strict=True):
            base.append(tests[0])
            plus.append(extra_tests[0])
    if not base:
        raise DataError(
            f"{where}: the number of solutions is 0. Expected a result. Evaluate the samples again."
        )
    passed = [status in _PASSED for status in base]
    return passed, None if None in plus else [status in _PASSED for status in plus]
