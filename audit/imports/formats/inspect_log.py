"""Read logs of Inspect (https://inspect.aisi.org.uk/eval-logs.html): one JSON document, or an
`.eval` zip of JSON documents.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from audit.benchmarks.rows import text_key
from audit.core.errors import ConfigError, DataError
from audit.core.records import ITEM_ID
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
    sampling_of,
    texts_of,
)
from audit.imports.scores import Column, choose_score

# The name of a sample's member is samples/ID_epoch_N.json. If the log was converted to chunks, it is
# samples/ID_epoch_N/sample.json, with messages and events in other members below the same folder.
_SAMPLE = re.compile(r"samples/(?:(?!.*_epoch_\d+/).*\.json|.*_epoch_\d+/sample\.json)", re.DOTALL)


def is_inspect(content: Any) -> bool:
    """Return whether a JSON document is a log of Inspect."""
    about = content.get("eval") if isinstance(content, dict) else None
    return isinstance(about, dict) and "model" in about


def read_json(path: Path, wanted: Wanted) -> Log:
    """Return the log of one JSON document.

    Parameters
    ----------
    path : Path
        Path of the log file.
    wanted : Wanted
        How to read it.

    Raises
    ------
    ConfigError
        If the samples were not logged.
    DataError
        If the samples are not a list.
    """
    content = document(path)
    samples = content.get("samples") or []
    if not isinstance(samples, list):
        raise DataError(f"{path}: samples is {type(samples).__name__}; expected a list.")

    def each() -> Iterator[tuple[str, Any]]:
        for number, sample in enumerate(samples, 1):
            yield f"{path}, sample {number}", sample

    return _log(path, content, each, len(samples), content.get("reductions"), wanted)


def read_eval(path: Path, wanted: Wanted) -> Log:
    """Return the log of an .eval archive. Only one sample is in memory at a time.

    Parameters
    ----------
    path : Path
        Path of the archive.
    wanted : Wanted
        How to read it.

    Raises
    ------
    ConfigError
        If the archive holds no samples.
    DataError
        If the file is not an archive of Inspect.
    """
    archive = open_zip(path)
    names = archive.namelist()
    if any(name.startswith("xl/") for name in names):
        raise DataError(f"{path} is a workbook. Expected a table in UTF-8: save its sheet as csv.")
    whole = "header.json" in names  # Inspect writes header.json when the evaluation ends.
    header = member(archive, "header.json" if whole else "_journal/start.json")
    samples = sorted(filter(_SAMPLE.fullmatch, names))
    if not is_inspect(header):
        raise DataError(f"{path}: its header names no model. Expected an .eval log of Inspect.")
    if not whole:
        header |= {"status": "started"}
    reductions = member(archive, "reductions.json") if "reductions.json" in names else None

    def each() -> Iterator[tuple[str, Any]]:
        for name in samples:
            yield f"{path}, {name}", member(archive, name)

    return _log(path, header, each, len(samples), reductions, wanted)


# A function of this type yields pairs (place, sample). The place is for messages. The function can
# be called several times.
Samples = Callable[[], Iterator[tuple[str, Any]]]
Reduced = dict[str, dict[str, Any]]  # maps the id of a sample to {scorer: value}


def _log(
    path: Path, header: Record, samples: Samples, n: int, reductions: Any, wanted: Wanted
) -> Log:
    if not n:
        raise ConfigError(
            f"{path} holds no samples, only totals. Expected a log with samples: inspect log dump."
        )
    about = header["eval"]
    model = wanted.model or about["model"]
    task = str(about.get("task") or path)
    benchmark = wanted.benchmark or task
    if not isinstance(model, str) or not model:
        raise ConfigError(
            f"{path} states {model!r:.80} as its model. Expected the model's name. Add --model "
            "NAME."
        )
    packages = about.get("packages")
    version = str(packages.get("inspect_ai") or "") if isinstance(packages, dict) else ""
    reduced = _reduced(reductions)
    score = _chosen(path, samples, reduced, wanted)
    wanted = replace(wanted, model=model, benchmark=benchmark, metric=score)
    log = Log(
        "inspect",
        version,
        iter(()),
        score,
        unfinished=_unfinished(header, n),
        sampling=_sampling(header),
    )
    return replace(log, outcomes=_outcomes(samples, reduced, wanted, task, log.notes))


def _sampling(header: Record) -> str:
    """Describe how replies were sampled.

    The settings come from the log's plan, or else from the log's model.
    """
    plan = header.get("plan")
    settings = [
        plan.get("config") if isinstance(plan, dict) else None,
        header["eval"].get("model_generate_config"),
    ]
    return next(filter(None, map(sampling_of, settings)), "")


def _cut_off(sample: Record) -> bool | None:
    """Return whether a reply ended at its token limit; None if the log does not state it."""
    output = sample.get("output")
    choices = output.get("choices") if isinstance(output, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    stop = first.get("stop_reason") if isinstance(first, dict) else None
    return stop in ("max_tokens", "model_length") if isinstance(stop, str) else None


def _outcomes(
    samples: Samples, reduced: Reduced, wanted: Wanted, task: str, notes: list[str]
) -> Iterator[Imported]:
    invalidated = 0
    for where, sample in samples():
        if isinstance(sample, dict) and sample.get("invalidation"):
            invalidated += 1
        elif not _repeats(sample, reduced):
            yield replace(_read(sample, reduced, wanted, where), task=task)
    if invalidated:
        notes.append(
            f"{invalidated} samples of {wanted.benchmark} were invalidated by their authors and are left out"
        )


def _repeats(sample: Any, reduced: Reduced) -> bool:
    """Return whether a sample is a later epoch without its own score.

    The score of all epochs together is then stored with the first epoch.
    """
    if (
        not isinstance(sample, dict)
        or sample.get("scores")
        or sample.get("score")
        or sample.get("error")
    ):
        return False
    return epoch(str(sample.get("epoch"))) > 1 and str(sample.get("id")) in reduced


def _unfinished(header: Record, n: int) -> str:
    """Describe what an unfinished evaluation contains, such as "6 of 400 samples, cancelled".

    Return "" if the evaluation succeeded and the log contains every completed sample.
    """
    status = str(header.get("status") or "success")
    if status == "success":
        results = header.get("results")
        completed = results.get("completed_samples") if isinstance(results, dict) else None
        lacks = isinstance(completed, int) and n < completed
        return f"the log holds {n} of {completed} completed samples" if lacks else ""
    dataset, config = header["eval"].get("dataset"), header["eval"].get("config")
    many = dataset.get("samples") if isinstance(dataset, dict) else None
    epochs = config.get("epochs") if isinstance(config, dict) else None
    of = f" of {many * (epochs or 1)}" if isinstance(many, int) else ""
    return f"{n}{of} samples, {status}"


def _reduced(reductions: Any) -> Reduced:
    """Map the id of each sample to the scores that the log stores outside the samples.

    Such a score is one value for all epochs of the sample.

    If a scorer has several reducers, such as mean and pass_at_2, the score of each reducer is named
    scorer.reducer.
    """
    listed = reductions if isinstance(reductions, list) else []
    times = Counter(str(reduction.get("scorer")) for reduction in listed)
    reduced: Reduced = {}
    for reduction in listed:
        scorer = str(reduction.get("scorer"))
        name = scorer if times[scorer] == 1 else f"{scorer}.{reduction.get('reducer')}"
        for sample in reduction.get("samples") or ():
            reduced.setdefault(str(sample.get("sample_id")), {})[name] = sample.get("value")
    return reduced


def _scores(sample: Any, reduced: Reduced) -> dict[str, Record]:
    """Map the name of each score of a sample to the score.

    If a scorer returns an object with several parts, each part becomes a score named scorer.part.
    """
    if not isinstance(sample, dict):
        return {}
    scores = sample.get("scores") or ({"score": sample["score"]} if sample.get("score") else {})
    if not scores:
        beside = reduced.get(str(sample.get("id")), {})
        scores = {scorer: {"value": value} for scorer, value in beside.items()}
    parts: dict[str, Record] = {}
    for name, score in scores.items() if isinstance(scores, dict) else ():
        value = score.get("value") if isinstance(score, dict) else score
        if isinstance(value, dict):
            for part, part_value in value.items():
                parts[f"{name}.{part}"] = {**score, "value": part_value}
        elif isinstance(score, dict):
            parts[name] = score
        else:
            parts[name] = {"value": score}
    return parts


def _chosen(path: Path, samples: Samples, reduced: Reduced, wanted: Wanted) -> str:
    """Return the name of the score to read; "" if no sample has a score.

    Raises DataError if two scores disagree on a sample and the user chose no score.
    """
    names = _names_of_scores(samples, reduced)
    if len(names) == 1 and not wanted.metric:
        return names[0]
    columns: dict[str, Column] = {}
    for where, sample in samples():
        if isinstance(sample, dict) and not sample.get("error") and not sample.get("invalidation"):
            trial = f"{sample.get('id')}#{sample.get('epoch')}"
            for name, score in _scores(sample, reduced).items():
                # A score that is not a share of right answers, such as a number of tokens, is left
                # out.
                with suppress(DataError):
                    columns.setdefault(name, {})[trial] = _value(score, where)
    return choose_score(columns, wanted.metric, str(path)) if columns or wanted.metric else ""


def _names_of_scores(samples: Samples, reduced: Reduced) -> list[str]:
    """Return the names of the scores of the first sample that has any score."""
    for _, sample in samples():
        if scores := _scores(sample, reduced):
            return list(scores)
    return []


def _value(score: Record, where: str) -> tuple[int | None, int]:
    """Return the outcome of a score. Inspect writes NaN for a sample that was not scored."""
    value = score.get("value")
    if isinstance(value, float) and math.isnan(value):
        return None, 1
    return outcome(value, where)


def _read(sample: Any, reduced: Reduced, wanted: Wanted, where: str) -> Imported:
    if not isinstance(sample, dict) or "id" not in sample or "epoch" not in sample:
        raise DataError(
            f"{where} is not a sample of Inspect; expected the fields id, epoch and input."
        )
    text = checked(_text(sample.get("input")), where)
    choices = sample.get("choices")
    options = texts_of(choices, where) if isinstance(choices, list) else ()
    target = sample.get("target")
    target = target[0] if isinstance(target, list) and len(target) == 1 else target
    failed, about = sample.get("error"), sample.get("metadata")
    home = about.get(ITEM_ID) if isinstance(about, dict) else None
    right, of, answer = (
        (None, 1, None) if failed else _score(sample, reduced, bool(options), wanted, where)
    )
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
        target=target[:200] if isinstance(target, str) and not options else "",
        cut_off=_cut_off(sample),
    )


def _text(given: Any) -> str:
    """Return the text of the question.

    The log has the question as a text, or as a list of messages.
    """
    if not isinstance(given, list):
        return str(given or "")
    texts = []
    for message in given:
        if isinstance(message, dict) and message.get("role") == "user":
            content = message.get("content")
            for part in content if isinstance(content, list) else [content]:
                texts.append(str(part.get("text", "") if isinstance(part, dict) else part))
    return "\n".join(texts)


def _score(
    sample: Record, reduced: Reduced, choice: bool, wanted: Wanted, where: str
) -> tuple[int | None, int, Any]:
    """Return k, n and the answer, where k of n trials are right by the chosen score.

    A multiple-choice answer without a letter is unparsed, so k is None.
    """
    score = _scores(sample, reduced).get(wanted.metric)
    if score is None:
        return None, 1, None
    answer = score.get("answer")
    return (None, 1, answer) if choice and answer == "" else (*_value(score, where), answer)
