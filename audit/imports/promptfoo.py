"""Read results of promptfoo: one document or a result a line, as src/types/index.ts has them (promptfoo/promptfoo)."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.benchmarks.rows import QUESTION_NAMES, text_key
from audit.errors import DataError
from audit.imports.record import Imported, Log, Record, Wanted, checked
from audit.imports.scores import Column, choose_score, share

_ERROR = 2  # ResultFailureReason.ERROR; 1 is a failed assertion, whose reason stands in `error` too
_SCORES = ("success", "score")
_NONE = "No assertions"  # the reason of a result that nothing was compared with


def is_promptfoo(found: Any) -> bool:
    """Return whether a JSON document holds results of promptfoo."""
    results = found.get("results") if isinstance(found, dict) else None
    results = results.get("results") if isinstance(results, dict) else None
    return isinstance(results, list) and bool(results) and is_result(results[0])


def is_result(first: Any) -> bool:
    """Return whether an object is one result of promptfoo."""
    return isinstance(first, dict) and {"provider", "success", "vars"} <= first.keys()


def read_promptfoo(path: Path, results: list[Record], wanted: Wanted, description: str = "") -> Log:
    """Return the log. A provider is a model; of several prompts, each is a benchmark.

    Raises DataError if success and score differ and none is asked for.
    """
    columns: dict[str, Column] = {}
    for number, one in enumerate(results):
        for name, value in _scores(one).items():
            if (read := share(value)) is not None:
                columns.setdefault(name, {})[str(number)] = (None, 1) if _unscored(one) else read
    usual = {name: column for name, column in columns.items() if name in _SCORES}
    score = choose_score(columns if wanted.metric else usual, wanted.metric, str(path))
    log = _outcomes(path, results, columns[score], wanted, description or path.stem)
    return Log("promptfoo", "", log, score)


def _scores(result: Record) -> Record:
    named = result.get("namedScores")
    return {name: result.get(name) for name in _SCORES} | (named if isinstance(named, dict) else {})


def _unscored(result: Record) -> bool:
    grading = result.get("gradingResult")
    return _error(result) is not None or (isinstance(grading, dict) and grading.get("reason") == _NONE)


def _error(result: Record) -> str | None:
    """Return what went wrong before an answer was graded."""
    response = result.get("response")
    failed = response.get("error") if isinstance(response, dict) else None
    if result.get("failureReason") == _ERROR or failed or response is None:
        return str(failed or result.get("error") or "no response")[:200]
    return None


def _outcomes(path: Path, results: list[Record], column: Column, wanted: Wanted, about: str) -> Iterator[Imported]:
    prompts = list(dict.fromkeys(_prompt(one) for one in results))
    times: Counter[tuple[str, str, str]] = Counter()
    first: dict[tuple[str, str, str], str] = {}
    for number, one in enumerate(results):
        where = f"{path}, result {number + 1}"
        benchmark = about if len(prompts) < 2 else f"{about}, prompt {prompts.index(_prompt(one)) + 1}"
        if len(prompts) > 1 and wanted.benchmark not in ("", benchmark):
            continue
        provider = one["provider"]
        named = (provider.get("label") or provider.get("id")) if isinstance(provider, dict) else provider
        model = wanted.model or str(named or "")
        if not model:
            raise DataError(f"{where}: the provider is {provider!r:.60}. Expected its id. Say --model NAME.")
        text = checked(_text(one.get("vars") or {}), where)
        test = (model, benchmark, _test(one))
        times[test] += 1
        sample = first.setdefault(test, str(one.get("testIdx", text)))
        right, of = column.get(str(number), (None, 1))
        output = (one.get("response") or {}).get("output")
        yield Imported(
            model=model,
            benchmark=benchmark if len(prompts) > 1 else wanted.benchmark or about,
            key=wanted.key_of(one, text_key(text) if text else sample, where),
            sample=sample if "testIdx" in one else f"{sample}#{times[test]}",
            epoch=times[test] if "testIdx" in one else 1,
            right=right,
            of=of,
            text=text or None,
            answer=None if output is None else str(output)[:200],
            error=_error(one),
        )


def _prompt(result: Record) -> str:
    """Return what names a prompt's template: `raw` is another in every test, promptIdx for every provider."""
    prompt = result.get("prompt")
    return str((prompt.get("label") if isinstance(prompt, dict) else prompt) or result.get("promptId") or "")


def _test(result: Record) -> str:
    """Return what a test is: its variables and assertions; its number if the result lacks them.

    A repeat (--repeat) of a test has a number of its own.
    """
    if not _text(result.get("vars") or {}) or "testCase" not in result:
        return str(result.get("testIdx", ""))
    case = result.get("testCase")
    asserted = case.get("assert") if isinstance(case, dict) else None
    return json.dumps([result.get("vars"), asserted], sort_keys=True)


def _text(variables: Record) -> str:
    """Return the question among the variables of a test, else all of them."""
    named = [variables[one] for one in QUESTION_NAMES if isinstance(variables.get(one), str)]
    return named[0] if named else json.dumps(variables, sort_keys=True, ensure_ascii=False) if variables else ""
