"""Logs of Inspect (https://inspect.aisi.org.uk/eval-logs.html): one JSON document, or an `.eval` zip of them."""

from collections.abc import Iterator
from dataclasses import replace
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
    epoch,
    letter_index,
    member,
    open_zip,
    outcome,
)
from audit.records import ITEM_ID


def is_inspect(found: Any) -> bool:
    """Whether a JSON document is a log of Inspect."""
    return isinstance(found, dict) and isinstance(found.get("eval"), dict) and "model" in found["eval"]


def read_json(path: Path, wanted: Wanted) -> Log:
    """ConfigError where the samples were not logged."""
    found = document(path)
    samples = found.get("samples") or []
    if not isinstance(samples, list):
        raise DataError(f"{path}: samples is {type(samples).__name__}; expected a list.")
    each = ((f"{path}, sample {k}", one) for k, one in enumerate(samples, 1))
    return _log(path, found, each, len(samples), wanted)


def read_eval(path: Path, wanted: Wanted) -> Log:
    """As `read_json`, one sample in memory at a time."""
    archive = open_zip(path)
    names = archive.namelist()
    header = member(archive, "header.json" if "header.json" in names else "_journal/start.json")
    samples = sorted(name for name in names if name.startswith("samples/") and name.endswith(".json"))
    if not is_inspect(header):
        raise DataError(f"{path}: its header names no model. Expected an .eval log of Inspect.")
    each = ((f"{path}, {name}", member(archive, name)) for name in samples)
    return _log(path, header, each, len(samples), wanted)


def _log(path: Path, header: Record, samples: Iterator[tuple[str, Any]], n: int, wanted: Wanted) -> Log:
    if not n:
        raise ConfigError(f"{path} holds no samples, only totals. Expected a log with samples: inspect log dump.")
    about = header["eval"]
    model, benchmark = wanted.model or about["model"], wanted.benchmark or str(about.get("task") or path)
    if not isinstance(model, str) or not model:
        raise ConfigError(f"{path} says of its model: {model!r:.80}. Expected its name. Say --model NAME.")
    packages = about.get("packages")
    version = str(packages.get("inspect_ai") or "") if isinstance(packages, dict) else ""
    wanted = replace(wanted, model=model, benchmark=benchmark)
    return Log("inspect", version, (_read(sample, wanted, where) for where, sample in samples))


def _read(sample: Any, wanted: Wanted, where: str) -> Imported:
    if not isinstance(sample, dict) or "id" not in sample or "epoch" not in sample:
        raise DataError(f"{where} is not a sample of Inspect; expected the fields id, epoch and input.")
    text = checked(_text(sample.get("input")), where)
    choices = sample.get("choices")
    options = tuple(checked(one, where) for one in choices) if isinstance(choices, list) else ()
    target = sample.get("target")
    target = target[0] if isinstance(target, list) and len(target) == 1 else target
    failed, about = sample.get("error"), sample.get("metadata")
    home = about.get(ITEM_ID) if isinstance(about, dict) else None
    right, of, answer = (None, 1, None) if failed else _score(sample, bool(options), wanted, where)
    message = failed.get("message") if isinstance(failed, dict) else failed
    return Imported(
        model=wanted.model,
        benchmark=wanted.benchmark,
        key=wanted.key_of(sample, text_key(text, options), where, home),
        sample=str(sample["id"]),
        right=right,
        of=of,
        text=text,
        options=options,
        gold=letter_index(target, len(options)) if options else None,
        answer=None if answer is None else str(answer)[:200],
        epoch=epoch(str(sample["epoch"])),
        error=str(message)[:200] if failed else None,
    )


def _text(given: Any) -> str:
    """The question: a text, or what the user says in a list of messages."""
    if not isinstance(given, list):
        return str(given or "")
    said = [one.get("content") for one in given if isinstance(one, dict) and one.get("role") == "user"]
    parts = [part for one in said for part in (one if isinstance(one, list) else [one])]
    return "\n".join(str(one.get("text", "")) if isinstance(one, dict) else str(one) for one in parts)


def _score(sample: Record, choice: bool, wanted: Wanted, where: str) -> tuple[int | None, int, Any]:
    """(k, n, answer) by the scorer that is asked for, or the first. A choice without a letter is unparsed."""
    scores = sample.get("scores") or ({"score": sample["score"]} if sample.get("score") else {})
    if not isinstance(scores, dict) or not scores:
        return None, 1, None
    score = scores[wanted.score_of(scores, list(scores), where)]
    if not isinstance(score, dict):
        raise DataError(f"{where}: a score is {type(score).__name__}; expected an object with a value.")
    right, of = outcome(score.get("value"), where)
    answer = score.get("answer")
    return (None, 1, answer) if choice and answer == "" else (right, of, answer)
