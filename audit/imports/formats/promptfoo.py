"""Read results of promptfoo: one JSON document, or a file with one result per line.

The format is defined in src/types/index.ts (promptfoo/promptfoo).
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.benchmarks.rows import QUESTION_NAMES
from audit.imports.graded import Sample, graded_log
from audit.imports.nested import at
from audit.imports.record import Log, Record, Wanted, checked, first_of
from audit.imports.scores import Outcome, shares

# The value of ResultFailureReason.ERROR. A failed assertion also has a text in the field `error`,
# but its failure reason is 1.
_ERROR = 2
_SCORES = ("success", "score")
_NONE = "No assertions"  # the reason that promptfoo states for a result that was not graded


def is_promptfoo(content: Any) -> bool:
    """Return whether a JSON document holds results of promptfoo."""
    results = at(content, "results.results")
    return isinstance(results, list) and bool(results) and is_result(results[0])


def is_result(first: Any) -> bool:
    """Return whether an object is a single result of promptfoo."""
    return isinstance(first, dict) and {"provider", "success", "vars"} <= first.keys()


def read_promptfoo(path: Path, results: list[Record], wanted: Wanted, description: str = "") -> Log:
    """Read evaluation results of promptfoo, and return them as a log.

    Each provider is read as a model. If there are several prompts, each prompt is read as a
    benchmark.

    Parameters
    ----------
    path : Path
        Path of the log file.
    results : list of dict
        The results in the file.
    wanted : Wanted
        How to read the results. A score other than `success` is read only if the user chose it
        as metric.
    description : str
        Name of the benchmark; "" uses the file's name.

    Raises
    ------
    DataError
        If the fields success and score differ and the user chose neither.
    """
    samples = list(_samples(path, results, wanted, description or path.stem))
    return graded_log("promptfoo", path, lambda: samples, wanted)


def _samples(path: Path, results: list[Record], wanted: Wanted, about: str) -> Iterator[Sample]:
    prompts = list(dict.fromkeys(map(_prompt, results)))
    times: Counter[tuple[str, str, str]] = Counter()
    first: dict[tuple[str, str, str], str] = {}
    for number, result in enumerate(results, 1):
        prompt = f"{about}, prompt {prompts.index(_prompt(result)) + 1}" if len(prompts) > 1 else ""
        benchmark = prompt or wanted.benchmark or about
        if prompt and wanted.benchmark not in ("", prompt):
            continue
        where = f"{path}, result {number}"
        model = _model(result["provider"], where, wanted)
        text = checked(_text(result.get("vars") or {}), where)
        test = (model, benchmark, _test(result))
        times[test] += 1
        sample = first.setdefault(test, str(result.get("testIdx", text)))
        epoch = times[test]
        if "testIdx" not in result:
            sample, epoch = f"{sample}#{epoch}", 1
        grading = result.get("gradingResult")
        yield Sample(
            model=model,
            benchmark=benchmark,
            name=sample,
            where=where,
            scores=_scores(result, wanted),
            record=result,
            text=text,
            answer=(result.get("response") or {}).get("output"),
            epoch=epoch,
            error=_error(result),
            unscored=isinstance(grading, dict) and grading.get("reason") == _NONE,
        )


def _model(provider: Any, where: str, wanted: Wanted) -> str:
    name = provider
    if isinstance(provider, dict):
        name = provider.get("label") or provider.get("id")
    return wanted.model_of(name, where, f"the provider is {provider!r:.60}")


def _scores(result: Record, wanted: Wanted) -> dict[str, Outcome]:
    """Return a mapping from the names of a result's scores to the scores.

    Named scores are included only if the user chose a metric.
    """
    values = {name: result.get(name) for name in _SCORES}
    by_name = result.get("namedScores")
    if wanted.metric and isinstance(by_name, dict):
        values |= by_name
    return shares(values)


def _error(result: Record) -> str | None:
    """Return the error of a result that could not be graded; None if no such error occurred."""
    failed = at(result, "response.error")
    if result.get("failureReason") == _ERROR or failed or result.get("response") is None:
        return str(failed or result.get("error") or "no response")
    return None


def _prompt(result: Record) -> str:
    """Return the label or id of a prompt's template.

    Other fields do not identify the template: `raw` differs between tests, and promptIdx differs
    between providers.
    """
    prompt = result.get("prompt")
    label = prompt.get("label") if isinstance(prompt, dict) else prompt
    return str(label or result.get("promptId") or "")


def _test(result: Record) -> str:
    """Return a text that identifies a test.

    The text contains the variables and assertions of the test. If the result lacks them, the text
    is the number of the test.

    The number alone does not identify a test, since a repetition of the test (--repeat) has a new
    number.
    """
    if not _text(result.get("vars") or {}) or "testCase" not in result:
        return str(result.get("testIdx", ""))
    return json.dumps([result.get("vars"), at(result, "testCase.assert")], sort_keys=True)


def _text(variables: Record) -> str:
    """Return the variable of a test that holds the question.

    If no variable has a usual name of a question, all variables are returned as JSON.
    """
    texts = {name: value for name, value in variables.items() if isinstance(value, str)}
    every = json.dumps(variables, sort_keys=True, ensure_ascii=False) if variables else ""
    return str(first_of(texts, QUESTION_NAMES) or every)
