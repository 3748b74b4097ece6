"""Read logs of openai/evals: a spec in the first line, then one event per line, as evals/record.py
writes them (openai/evals).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audit.core.errors import ConfigError, DataError
from audit.imports.graded import Sample, graded_log
from audit.imports.record import Log, Record, Wanted, messages, rows_of, single, texts_of
from audit.imports.scores import pooled, share

MATCH = "correct"  # the field of an event of type match that is read as a score


@dataclass
class _Events:
    """Collect facts from the events of one sample.

    The facts are the first question, the answer, the options, the values of each score, and the
    error.
    """

    text: str = ""
    answer: str = ""
    options: tuple[str, ...] = ()
    error: str | None = None
    target: str = ""
    values: dict[str, list[Any]] = field(default_factory=dict)


def is_evals(first: Any) -> bool:
    """Return whether a file's first line is the spec of a run of openai/evals."""
    spec = first.get("spec") if isinstance(first, dict) else None
    return isinstance(spec, dict) and "eval_name" in spec


def read_evals(path: Path, wanted: Wanted) -> Log:
    """Return the log of a run.

    Parameters
    ----------
    path : Path
        The file, which has a spec in the first line and then one event per line.
    wanted : Wanted
        How to read it.

    Raises
    ------
    ConfigError
        If the log does not name one model or has no final report.
    DataError
        If two scores disagree and the user chose no score.
    """
    spec: Record = {}
    report: Any = None
    events: dict[str, _Events] = {}
    for where, line in rows_of(path, ".jsonl"):
        if "spec" in line and spec:
            raise DataError(f"{where}: this is a second spec. Expected the log of a single run.")
        spec = line.get("spec") or spec
        report = line.get("final_report", report)
        if line.get("sample_id") is not None:
            _add(events.setdefault(str(line["sample_id"]), _Events()), line, where)
    if report is None:
        state = f"The run of {path} is unfinished: {len(events)} samples and no final report"
        raise ConfigError(f"{state}. Expected a finished run. Type its command again.")
    names = spec.get("completion_fns") or (spec.get("model_names") or {}).get("completions") or []
    alone = isinstance(names, list) and len(names) == 1
    model = wanted.model_of(alone and names[0], path.name, "its spec names none, or several")
    samples = list(_samples(path, events, model, wanted.benchmark or str(spec["eval_name"])))
    totals = report if isinstance(report, dict) else {}
    return graded_log(
        "openai-evals",
        path,
        lambda: samples,
        wanted,
        totals={MATCH: totals.get("accuracy"), **totals},
    )


def _add(events: _Events, line: Record, where: str) -> None:
    """Add the facts of an event to those of its sample.

    The sample's answer is the answer that was compared with the key. Without a comparison, it is
    the first sampled reply, since a later reply may come from a judge.
    """
    data = line.get("data")
    if not isinstance(data, dict):
        raise DataError(f"{where}: the data of the event are {data!r:.60}. Expected an object.")
    match line.get("type"):
        case "sampling" | "pick_option":
            _add_reply(events, data, where)
        case "match":
            _add_match(events, data)
        case "metrics":
            for name, value in data.items():
                events.values.setdefault(name, []).append(value)
        case "error":
            events.error = f"{data.get('type')}: {data.get('message')}"


def _add_reply(events: _Events, data: Record, where: str) -> None:
    events.text = events.text or messages(data.get("prompt"), where)
    events.answer = events.answer or single(data.get("sampled", data.get("picked")))
    options = data.get("options")
    if isinstance(options, list) and len(options) > 1:
        events.options = texts_of(options, where)


def _add_match(events: _Events, data: Record) -> None:
    events.values.setdefault(MATCH, []).append(data.get("correct"))
    expected = data.get("expected")
    several = isinstance(expected, list) and len(expected) > 1
    events.target = "" if several else single(expected)
    events.answer = single(data.get("picked") or data.get("sampled")) or events.answer


def _samples(
    path: Path, events: dict[str, _Events], model: str, benchmark: str
) -> Iterator[Sample]:
    """Yield the samples. The name of a sample is its number in the data file.

    A metric is used as a score if its value is between 0 and 1 in every event. If a sample has
    several events, they have equal weights.
    """
    names: dict[str, bool] = {}  # maps each metric to whether all its values are shares
    for event in events.values():
        for name, each in event.values.items():
            names[name] = names.get(name, True) and None not in map(share, each)
    for key, event in events.items():
        scores = {}
        for name, is_share in names.items():
            if is_share:
                scores[name] = pooled(filter(None, map(share, event.values.get(name, ()))))
        yield Sample(
            model,
            benchmark,
            key,
            f"{path}, sample {key}",
            scores,
            {},
            same=key,
            text=event.text,
            options=event.options,
            answer=event.answer,
            error=event.error,
            target=event.target,
        )
