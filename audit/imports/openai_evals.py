"""Read logs of openai/evals: a spec, then an event a line, as evals/record.py writes them (openai/evals)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audit.benchmarks.rows import text_key
from audit.errors import ConfigError, DataError
from audit.imports.record import Imported, Log, Record, Wanted, checked, rows_of
from audit.imports.scores import Column, check_total, choose_score, pooled, share

MATCH = "correct"  # of the events of type match


@dataclass
class _Sample:
    """Events of a sample: its first question, the answer, options, values of each score, and what went wrong."""

    text: str = ""
    answer: str | None = None
    options: tuple[str, ...] = ()
    error: str | None = None
    target: str = ""
    values: dict[str, list[Any]] = field(default_factory=dict)


def is_evals(first: Any) -> bool:
    """Return whether a first line is the spec of a run."""
    spec = first.get("spec") if isinstance(first, dict) else None
    return isinstance(spec, dict) and "eval_name" in spec


def read_evals(path: Path, wanted: Wanted) -> Log:
    """Return the log.

    Raises ConfigError if it does not name one model or has no final report, DataError if scores disagree.
    """
    spec: Record = {}
    report: Any = None
    samples: dict[str, _Sample] = {}
    for where, line in rows_of(path, ".jsonl"):
        if "spec" in line and spec:
            raise DataError(f"{where}: the spec is a second one. Expected the log of one run.")
        spec = line.get("spec") or spec
        report = line.get("final_report", report)
        if line.get("sample_id") is not None:
            _add(samples.setdefault(str(line["sample_id"]), _Sample()), line, where)
    if report is None:
        found = f"The run of {path} is unfinished: {len(samples)} samples and no final report"
        raise ConfigError(f"{found}. Expected a finished run. Type its command again.")
    model = wanted.model or _model_of(spec)
    if not model:
        raise ConfigError(f"The model of {path.name} is missing: its spec names none, or several. Say --model NAME.")
    columns = _columns(samples)
    score = choose_score(columns, wanted.metric, str(path))
    totals = report if isinstance(report, dict) else {}
    total = totals.get(score, totals.get("accuracy") if score == MATCH else None)
    check_total(total, columns[score], score, str(path))
    about = wanted.benchmark or str(spec["eval_name"])
    return Log("openai-evals", "", _outcomes(path, samples, columns[score], wanted, model, about), score)


def _model_of(spec: Record) -> str:
    named = spec.get("completion_fns") or (spec.get("model_names") or {}).get("completions") or []
    return str(named[0]) if isinstance(named, list) and len(named) == 1 else ""


def _add(sample: _Sample, line: Record, where: str) -> None:
    """Add an event. An answer is the one that was compared; else the first that was sampled, not a judge's."""
    data = line.get("data")
    if not isinstance(data, dict):
        raise DataError(f"{where}: the data of the event are {data!r:.60}. Expected an object.")
    match line.get("type"):
        case "sampling" | "pick_option":
            sample.text = sample.text or checked(_text(data.get("prompt")), where)
            sample.answer = sample.answer or str(data.get("sampled", data.get("picked")))[:200]
            options = data.get("options")
            if isinstance(options, list) and len(options) > 1:
                sample.options = tuple(checked(one, where) for one in options)
        case "match":
            sample.values.setdefault(MATCH, []).append(data.get("correct"))
            expected = data.get("expected")
            expected = expected[0] if isinstance(expected, list) and len(expected) == 1 else expected
            sample.target = expected[:200] if isinstance(expected, str) else ""
            sample.answer = str(data.get("picked") or data.get("sampled") or sample.answer or "")[:200]
        case "metrics":
            for name, value in data.items():
                sample.values.setdefault(name, []).append(value)
        case "error":
            sample.error = f"{data.get('type')}: {data.get('message')}"[:200]


def _text(prompt: Any) -> str:
    """Return a question: a text, or what the messages hold."""
    turns = prompt if isinstance(prompt, list) else [prompt]
    return "\n".join(str(one.get("content", "") if isinstance(one, dict) else one) for one in turns)


def _columns(samples: dict[str, _Sample]) -> dict[str, Column]:
    """Return the scores by name: those whose every value is a share. Several events of a sample weigh alike."""
    columns: dict[str, Column] = {}
    for name in dict.fromkeys(name for one in samples.values() for name in one.values):
        column: Column = {}
        for key, one in samples.items():
            read = [share(value) for value in one.values.get(name, ())]
            outcomes = [value for value in read if value is not None]
            if len(outcomes) == len(read):
                column[key] = pooled(outcomes)
        if len(column) == len(samples):
            columns[name] = column
    return columns


def _outcomes(
    path: Path, samples: dict[str, _Sample], column: Column, wanted: Wanted, model: str, benchmark: str
) -> Iterator[Imported]:
    """Yield the outcomes. A sample is named by its id: its number in the data file, whatever the order of the run."""
    for key, one in samples.items():
        right, of = (None, 1) if one.error else column[key]
        by_text = text_key(one.text, one.options)
        yield Imported(
            model=model,
            benchmark=benchmark,
            key=by_text if wanted.key == "text" else key,
            sample=key,
            right=right,
            of=of,
            text=one.text or None,
            options=one.options,
            answer=one.answer,
            error=one.error,
            target="" if one.options else one.target,
        )
