"""Read logs of lm-evaluation-harness from samples_TASK_TIME.jsonl, and from results_TIME.json if it
is in the same folder.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import sub
from pathlib import Path
from typing import Any

from audit.benchmarks.answers import LETTERS
from audit.benchmarks.rows import text_key
from audit.core.errors import ConfigError, DataError
from audit.core.records import ITEM_ID
from audit.imports.nested import at
from audit.imports.record import (
    Imported,
    Log,
    Record,
    Wanted,
    checked,
    document,
    field_of,
    first_of,
    letter_index,
    outcome,
    rows_of,
    sampling_of,
    texts_of,
)
from audit.imports.scores import Column, check_means, differ_by_more_than_chance, mean_of, shown

# The first of these metrics that a sample has is read.
METRICS = (
    "acc",
    "exact_match",
    "pass@1",
    "pass_at_1",
    "mc1",
    "em",
)
# Scores that count right answers. A note names each of these scores if it differs from the score
# that is read.
_COUNTS = (
    *METRICS,
    "acc_norm",
    "acc_mutual_info",
    "acc_bytes",
)
_STEMS = (
    "question",
    "problem",
    "query",
    "input",
    "prompt",
    "ctx",
    "sentence",
    "text",
    "goal",
    "premise",
)
_OPTIONS = ("choices", "options", "endings", "mc1_targets", "mc2_targets")
# Regex that matches a list of two or more option numbers.
_SEVERAL = re.compile(r"\[\s*\d+(\s*,\s*\d+)+\s*\]")
_INVALID = "[invalid]"  # the value that a filter gives to a reply in which it finds no answer
_NAME = re.compile(r"samples_(?P<task>.+?)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]*\d)(\..*)?\.jsonl$")


def read_lm_eval(path: Path, wanted: Wanted) -> Log:
    """Return the log of a file of samples of lm-eval.

    Parameters
    ----------
    path : Path
        The file of samples. The results file in the same folder is read too.
    wanted : Wanted
        How to read it.

    Raises
    ------
    ConfigError
        If neither the file's name nor a results file names the model and the task.
    """
    name = _NAME.search(path.name)
    task = name["task"] if name else ""
    results: Record = {}
    beside = path.parent / _results_beside(name)
    if beside.is_file():
        content = document(beside)
        results = content if isinstance(content, dict) else {}
    model = wanted.model or str(results.get("model_name") or "")
    benchmark = wanted.benchmark or task
    if not model:
        raise ConfigError(
            f"{path.name} does not tell the model, and {_results_beside(name)} is not beside it. Say --model NAME."
        )
    if not benchmark:
        raise ConfigError(f"{path.name} does not name the task. Add --benchmark NAME.")
    config = results.get("config")
    revision = str(config.get("model_sha") or "") if isinstance(config, dict) else ""
    version = str(results.get("lm_eval_version") or "")
    _, first = next(rows_of(path, ".jsonl"), ("", {}))
    chosen = wanted.filter or str(first.get("filter") or "")
    score = wanted.score_of(first, METRICS, str(path))
    read = f"{score} of filter {chosen}" if chosen not in ("", "none") else score
    log = Log(
        "lm-eval",
        version,
        iter(()),
        read,
        sampling=_sampling(results, task),
    )
    wanted = replace(wanted, model=model, benchmark=benchmark, metric=score)
    samples = _samples(path, task, wanted, revision, chosen, log.notes)
    recorded = _Recorded(results, task, score, chosen)
    return replace(log, outcomes=_compared(samples, recorded, beside.name, path.name, log.notes))


def _results_beside(name: re.Match[str] | None) -> str:
    """Return the name of the results file that belongs to a file of samples."""
    return f"results_{name['time'] if name else 'TIME'}.json"


def _sampling(results: Record, task: str) -> str:
    """Describe how replies of a task were sampled, by the task's settings; "" if the settings do
    not state it.
    """
    tasks = results.get("configs")
    settings = tasks.get(task) if isinstance(tasks, dict) else None
    return sampling_of(settings.get("generation_kwargs")) if isinstance(settings, dict) else ""


class _Recorded:
    """Hold the facts that a results file states about the task of a log.

    Attributes
    ----------
    counted, original : int
        Number of evaluated samples, and number of samples in the whole task; 0 if unknown.
    mean : float or None
        Mean of the score that is read; None if the file states no mean over samples.
    """

    def __init__(self, results: Record, task: str, score: str, chosen: str) -> None:
        samples, means = at(results, f"n-samples.{task}", {}), at(results, f"results.{task}", {})
        self.counted = _whole(at(samples, "effective"))
        self.original = _whole(at(samples, "original"))
        mean = None
        if isinstance(means, dict):
            mean = first_of(means, (f"{score},{chosen or 'none'}", score))
        self.mean = mean if isinstance(mean, int | float) and score in METRICS else None


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _compared(
    samples: Iterator[Imported], recorded: _Recorded, results: str, log: str, notes: list[str]
) -> Iterator[Imported]:
    """Yield the samples, and compare them with the results file.

    At the end a note is added if the number of samples differs from the results file, or if the log
    covers only a part of the task.

    Raises DataError if the number of samples is the same, but the mean score differs.
    """
    number = unscored = 0
    total = 0.0
    for sample in samples:
        number += 1
        unscored += sample.right is None
        total += (sample.right or 0) / sample.of
        yield sample
    if recorded.counted and number != recorded.counted:
        notes.append(
            f"{log} holds {number} samples and {results} counts {recorded.counted}: the log may be cut off"
        )
    elif number and not unscored:
        check_means(recorded.mean, total / number, log, results)
    if 0 < recorded.counted < recorded.original:
        part = f"the first {recorded.counted} of {recorded.original} items of the benchmark"
        notes.append(f"{log} is of {part} (--limit)")


# Largest log-likelihood (in nats) that is accepted as a rounding error. With half precision, the
# log-likelihood of an option with probability 1 may be above 0.
_ROUNDED = 1e-3


def _samples(
    path: Path,
    task: str,
    wanted: Wanted,
    revision: str,
    chosen: str,
    notes: list[str],
) -> Iterator[Imported]:
    """Yield the samples of one filter, so that each document occurs once.

    At the end, notes about the scores are added to `notes`.

    Raises DataError if the user chose no filter and the scores of two filters differ significantly.
    """
    others: set[str] = set()
    scores = _Scores(wanted.metric)
    invalid = number = 0
    for where, sample in rows_of(path, ".jsonl"):
        doc = sample.get("doc")
        if not isinstance(doc, dict) or "doc_id" not in sample:
            raise DataError(
                f"{where} is not a sample of lm-eval; expected the fields doc_id and doc."
            )
        filter_name = str(sample.get("filter") or "")
        if filter_name != chosen:
            others.add(filter_name)
            continue
        number += 1
        score = wanted.score_of(sample, METRICS, where)
        right, of = outcome(sample[score], f"{where}, {score}")
        scores.add(sample)
        text = _text(doc, where)
        scored = _scored(sample)
        options = _options_of(sample, doc, scored, where)
        answer = _answer(sample, options, score, where)
        invalid += answer == _INVALID
        yield Imported(
            model=wanted.model,
            benchmark=wanted.benchmark,
            key=_key(sample, doc, text, options, wanted.key, where),
            sample=str(sample["doc_id"]),
            right=right,
            of=of,
            text=text,
            options=options,
            gold=_gold(sample, doc, options, answer if scored else None, right, where),
            target="" if options else str(sample.get("target") or "")[:200],
            answer=answer,
            revision=revision,
            measure=of > 1 and scored > 1,
            task=task,
        )
    if not number:
        raise DataError(
            f"The filter is {chosen!r}. Expected one of {path.name}: {', '.join(sorted(others))}."
        )
    if others:
        notes.append(_filters(path, {chosen, *others}, wanted, chosen))
    notes += scores.notes(path)
    if invalid:
        notes.append(
            f"{invalid} of {number} replies of {wanted.benchmark} are {_INVALID}: they count as lm-eval counts them"
        )


@dataclass
class _Scores:
    """Sum all scores of a log that count right answers.

    `read` is the name of the score that is used for the outcomes.
    """

    read: str
    sums: dict[str, float] = field(default_factory=dict)
    differ: set[str] = field(default_factory=set)
    items: int = 0
    names: tuple[str, ...] = ()

    def add(self, sample: Record) -> None:
        """Add the scores of a sample.

        The names of the scores are the metrics that the first sample lists, and the names in
        `_COUNTS`.
        """
        if not self.items:
            listed = sample.get("metrics")
            names: dict[str, None] = {}
            for name in (*(listed if isinstance(listed, list) else ()), *_COUNTS):
                if isinstance(name, str) and name in sample:
                    names[name] = None
            self.names = tuple(names)
        self.items += 1
        for name in self.names if len(self.names) > 1 else ():
            value = sample.get(name)
            if isinstance(value, int | float) and 0 <= value <= 1:
                self.sums[name] = self.sums.get(name, 0.0) + value
                if value != sample[self.read]:
                    self.differ.add(name)

    def notes(self, path: Path) -> list[str]:
        """Return a note with the scores that differ from the score that is read.

        The returned list holds this single sentence; it is empty if all scores agree.
        """
        other = []
        for name, total in self.sums.items():
            if name in self.differ:
                other.append(f"{name} {total / self.items:.3f}")
        read = f"{path.name}: {self.read} {self.sums.get(self.read, 0.0) / max(self.items, 1):.3f} is read"
        return (
            [f"{read}; other scores differ ({', '.join(other)}): choose by --metric"]
            if other
            else []
        )


def _filters(path: Path, filters: Collection[str], wanted: Wanted, chosen: str) -> str:
    """Describe the mean score of every filter of a log.

    Raises DataError if the user chose no filter, and the score of another filter differs
    significantly from the score of the filter `chosen`.
    """
    columns: dict[str, Column] = {name: {} for name in sorted(filters)}
    for where, sample in rows_of(path, ".jsonl"):
        if wanted.metric in sample:
            column = columns[str(sample.get("filter") or "")]
            column[str(sample["doc_id"])] = outcome(sample[wanted.metric], where)
    means = [f"{name} {shown(mean_of(column.values()))}" for name, column in columns.items()]
    listed = ", ".join(means)
    if not wanted.filter:
        for name, column in columns.items():
            if name != chosen and differ_by_more_than_chance(columns[chosen], column):
                raise DataError(
                    f"The filters of {path.name} differ: {listed}. Expected one. Example: --filter {chosen}"
                )
    return f"{path.name} has several filters ({listed}); {chosen} is read"


def _text(doc: Record, where: str) -> str | None:
    """Return the item's text. The name of the text's field may be in upper or lower case."""
    for name in _stems(tuple(doc)):
        if isinstance(doc[name], str):
            return checked(doc[name], where)
    return None


@lru_cache(maxsize=64)  # All documents of a log have the same fields.
def _stems(names: tuple[str, ...]) -> list[str]:
    """Return the names of a document's fields that may hold its text, the most usual name first."""
    lower = {name.casefold(): name for name in names}
    return [lower[stem] for stem in _STEMS if stem in lower]


def _key(
    sample: Record, doc: Record, text: str | None, options: tuple[str, ...], key: str, where: str
) -> str:
    if key == "text":
        if text is None:
            raise DataError(
                f"{where}: no field holds the item's text ({', '.join(_STEMS)}). Name one: --key FIELD."
            )
        return text_key(text, options)
    if key:
        return field_of(sample, key if "." in key or key in sample else f"doc.{key}", where)
    if ITEM_ID in doc:
        return checked(doc[ITEM_ID], where)
    doc_hash = sample.get("doc_hash")
    if not doc_hash:
        content = json.dumps(doc, sort_keys=True, ensure_ascii=True)
        doc_hash = hashlib.sha256(content.encode()).hexdigest()
    return str(doc_hash)[:24]


def _options_of(sample: Record, doc: Record, many: int, where: str) -> tuple[str, ...]:
    """Return the options of an item.

    These are the options that a field of the document lists. Otherwise they are the texts whose
    likelihood was computed, or else letters.

    `many` is the number of options that have a likelihood.
    """
    requests = _requests(sample)[:many] if sample.get("arguments") else []
    if many > 2 and _halves_agree(requests):
        # For acc_mutual_info, each option is scored once with the question and once without the
        # question.
        many //= 2
        requests = requests[:many]
    for value in map(doc.get, _OPTIONS):
        texts = value.get("text", value.get("choices")) if isinstance(value, dict) else value
        if isinstance(texts, list) and len(texts) > 1 and many in (0, len(texts)):
            return texts_of(texts, where)
    if many < 2:
        return ()
    # The options are the continuations. If all continuations are equal, the options are the texts
    # before the continuation.
    for side in (1, 0):
        texts = [str(request[side]).strip() for request in requests if len(request) > 1]
        if len(set(texts)) == len(texts) == many:
            return texts_of(texts, where)
    return tuple(LETTERS[:many])


def _scored(sample: Record) -> int:
    """Return the number of options that have a likelihood; 0 if the reply was generated."""
    read = sample.get("filtered_resps")
    if not isinstance(read, list):
        return 0
    for pair in read:
        if not isinstance(pair, list) or len(pair) != 2:
            return 0
    return len(read) if len(read) <= len(LETTERS) else 0


def _requests(sample: Record) -> list[list[Any]]:
    """Return the list of arguments of each request.

    In logs of newer versions, the arguments of a request are an object {arg_0, arg_1, ...}.
    """
    arguments = sample.get("arguments")
    each = list(arguments.values()) if isinstance(arguments, dict) else arguments
    requests: list[list[Any]] = []
    for request in each if isinstance(each, list) else ():
        if isinstance(request, dict):
            requests.append(list(request.values()))
        else:
            requests.append(request if isinstance(request, list) else [])
    return requests


def _halves_agree(requests: list[list[Any]]) -> bool:
    """Return whether the second half of the requests scores the options without the question.

    Such a half has the same continuations as the first half. All of them follow one common text,
    which differs from the text in the first half.
    """
    half, odd = divmod(len(requests), 2)
    if odd or half < 2 or min(map(len, requests)) < 2:
        return False
    first, second = requests[:half], requests[half:]
    for before, after in zip(first, second, strict=True):
        if before[1] != after[1] or str(after[0]) != str(second[0][0]):
            return False
    return bool(first[0][0] != second[0][0])


def _gold(
    sample: Record,
    doc: Record,
    options: tuple[str, ...],
    likeliest: str | None,
    right: int | None,
    where: str,
) -> int | None:
    """Return the index of the right option; None if the log does not state it, or if the score
    contradicts it.

    Raises DataError if the item has several keys.
    """
    if not options:
        return None
    targets = doc.get("mc1_targets")
    labels = targets.get("labels") if isinstance(targets, dict) else None
    target = str(sample.get("target")).strip()
    if _SEVERAL.fullmatch(target):
        raise DataError(
            f"{where}: the keys of one item are {target}. Expected one key: with several keys, guessing is right "
            "more often than 1 / (number of options). Example: leave such items out of the log."
        )
    place = letter_index(target.strip("()"), len(options))
    if isinstance(labels, list) and len(labels) == len(options) and labels.count(1) == 1:
        place = labels.index(1)
    elif place is None and options.count(target) == 1:
        place = options.index(target)
    chosen = letter_index(likeliest, len(options))
    contradicted = (
        place is not None
        and right is not None
        and chosen is not None
        and (chosen == place) != (right == 1)
    )
    return None if contradicted else place


def _answer(sample: Record, options: tuple[str, ...], score: str, where: str) -> str | None:
    """Return the filtered reply. If likelihoods were compared, return the letter of the chosen
    option.

    The chosen option is the option with the largest value by the score that is read.
    """
    read = sample.get("filtered_resps")
    if not isinstance(read, list) or not read:
        return None
    as_options = len(options) > 1 and len(read) in (len(options), 2 * len(options))
    if as_options and all(isinstance(pair, list) for pair in read):
        with suppress(TypeError, ValueError, IndexError):
            likelihoods = [float(pair[0]) for pair in read]
            for value in likelihoods:
                if not value <= _ROUNDED:  # this form also refuses NaN
                    raise DataError(
                        f"{where}: the log-likelihood of an option is {value:g}; expected the logarithm of a "
                        "probability, such as -12.3."
                    )
            weighed = _weighed(likelihoods, options, score)
            return LETTERS[weighed.index(max(weighed))]
    return str(read[0])[:200] if isinstance(read[0], str) else None


def _weighed(likelihoods: list[float], options: tuple[str, ...], score: str) -> list[float]:
    """Return a value for each option. The option with the largest value is the model's answer.

    - acc_norm: the log-likelihood of the option / its number of characters.
    - acc_mutual_info: the log-likelihood with the question minus the log-likelihood without it.
    - Any other score: the log-likelihood.
    """
    n = len(options)
    if score == "acc_norm":
        return [likelihoods[k] / max(1, len(options[k])) for k in range(n)]
    if score == "acc_mutual_info" and len(likelihoods) == 2 * n:
        return list(map(sub, likelihoods[:n], likelihoods[n:]))
    return likelihoods[:n]
