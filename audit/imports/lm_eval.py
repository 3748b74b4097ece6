"""Logs of lm-evaluation-harness: samples_TASK_TIME.jsonl, with results_TIME.json beside it where there is one."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from audit.benchmarks.rows import text_key
from audit.errors import ConfigError, DataError
from audit.imports.record import (
    Imported,
    Log,
    Record,
    Wanted,
    checked,
    document,
    field_of,
    letter_index,
    outcome,
    rows_of,
)
from audit.records import ITEM_ID

METRICS = ("acc", "exact_match", "pass@1", "pass_at_1", "mc1", "em")  # the first that a sample has is read
_STEMS = ("question", "problem", "query", "input", "prompt", "ctx", "sentence", "text")
_OPTIONS = ("choices", "options", "endings")
_NAME = re.compile(r"samples_(?P<task>.+?)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]*\d)(\..*)?\.jsonl$")


def read_lm_eval(path: Path, wanted: Wanted) -> Log:
    """ConfigError where neither the name nor a results file tells the model or the task."""
    name = _NAME.search(path.name)
    results: Record = {}
    beside = path.parent / f"results_{name['time']}.json" if name else path
    if name and beside.is_file() and isinstance(found := document(beside), dict):
        results = found
    model = wanted.model or str(results.get("model_name") or "")
    benchmark = wanted.benchmark or (name["task"] if name else "")
    if not model:
        raise ConfigError(f"{path.name} does not tell the model, and no results file lies beside it. Say --model NAME.")
    if not benchmark:
        raise ConfigError(f"{path.name} does not tell the task. Say --benchmark NAME.")
    told = results.get("config")
    revision = str(told.get("model_sha") or "") if isinstance(told, dict) else ""
    version = str(results.get("lm_eval_version") or "")
    return Log("lm-eval", version, _samples(path, model, benchmark, wanted, revision))


_ROUNDED = 1e-3  # nats that a certain option may lie above 0 where it was computed in half precision


def _samples(path: Path, model: str, benchmark: str, wanted: Wanted, revision: str) -> Iterator[Imported]:
    """The samples of the first filter: a document that was read in several ways is one outcome."""
    first: Any = None
    for number, (where, sample) in enumerate(rows_of(path, ".jsonl")):
        doc = sample.get("doc")
        if not isinstance(doc, dict) or "doc_id" not in sample:
            raise DataError(f"{where} is not a sample of lm-eval; expected the fields doc_id and doc.")
        first = sample.get("filter") if number == 0 else first
        if sample.get("filter") != first:
            continue
        score = wanted.score_of(sample, METRICS, where)
        right, of = outcome(sample[score], f"{where}, {score}")
        text = next((checked(doc[one], where) for one in _STEMS if isinstance(doc.get(one), str)), None)
        options = _options_of(doc, where)
        answer = _answer(sample, options, where)
        yield Imported(
            model=model,
            benchmark=benchmark,
            key=_key(sample, doc, text, options, wanted.key, where),
            sample=str(sample["doc_id"]),
            right=None if answer == "[invalid]" else right,
            of=of,
            text=text,
            options=options,
            gold=letter_index(sample.get("target"), len(options)),
            answer=answer,
            revision=revision,
        )


def _key(sample: Record, doc: Record, text: str | None, options: tuple[str, ...], key: str,
         where: str) -> str:  # fmt: skip
    if key == "text":
        if text is None:
            raise DataError(f"{where}: no field holds the item's text ({', '.join(_STEMS)}). Name one: --key FIELD.")
        return text_key(text, options)
    if key:
        return field_of(sample, key if "." in key or key in sample else f"doc.{key}", where)
    if ITEM_ID in doc:
        return checked(doc[ITEM_ID], where)
    if told := sample.get("doc_hash"):
        return str(told)[:24]
    return hashlib.sha256(json.dumps(doc, sort_keys=True, ensure_ascii=True).encode()).hexdigest()[:24]


def _options_of(doc: Record, where: str) -> tuple[str, ...]:
    for found in map(doc.get, _OPTIONS):
        texts = found.get("text") if isinstance(found, dict) else found
        if isinstance(texts, list) and len(texts) > 1:
            return tuple(checked(one, where) for one in texts)
    return ()


def _answer(sample: Record, options: tuple[str, ...], where: str) -> str | None:
    """The reply as the harness filtered it; of likelihoods the letter of the likeliest option."""
    read = sample.get("filtered_resps")
    if not isinstance(read, list) or not read:
        return None
    if len(read) == len(options) > 1 and all(isinstance(one, list) for one in read):
        with suppress(TypeError, ValueError, IndexError):
            likelihoods = [float(one[0]) for one in read]
            if wrong := [one for one in likelihoods if not one <= _ROUNDED]:
                found = f"{where}: the log-likelihood of an option is {wrong[0]:g}"
                raise DataError(f"{found}; expected the logarithm of a probability, such as -12.3.")
            return chr(65 + likelihoods.index(max(likelihoods)))
    return str(read[0])[:200] if isinstance(read[0], str) else None
