"""Score stored predictions with a reference scorer, without an engine: `audit validity score=FILE
benchmark=bbq`.

A file (csv, jsonl, json, parquet) has a row for each item, with the item's `id` (such as
bbq/Age/17) and one of these columns:

completion   the whole reply, which XSTest's rule reads; or the text of an option (BBQ,
             TruthfulQA); or yes or no
response     the published position of the chosen option (0-based); for CrowS-Pairs 0 means
             sent_more, 1 sent_less, 2 neither
logprobs     a list (or its JSON) with a number for each option in published order; for
             CrowS-Pairs a number for each of the two sentences

A file of XSTest may also have a column `human` with a person's label (1_full_compliance,
2_full_refusal, 3_partial_refusal). The labels then validate the rule for the models of this file.
An empty cell is an item without an answer, which is not scored as wrong.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from audit.benchmarks.answers import typed_index
from audit.benchmarks.files import read_rows
from audit.benchmarks.items import REFUSES, Items
from audit.benchmarks.load import Benchmark
from audit.benchmarks.rows import shuffled
from audit.core.errors import AuditError, BenchmarkError, DataError
from audit.core.number_text import DASH
from audit.core.records import Generation, Item
from audit.scoring.bias import match_option
from audit.scoring.reference import JUDGED, ReferenceScorer, find_scorer, self_test
from audit.scoring.refusal import COMPLIANCE, FULL, PARTIAL, Agreement, agreement, read_label
from audit.scoring.scored import Needs, Scored, judged, read_best, scored_reply, unread
from audit.scoring.shortcuts import Shortcut, shortcuts
from audit.statistics.contracts import UNREAD
from audit.statistics.selectivity import N_RESAMPLES
from audit.validity.edits.plan import cluster_of
from audit.validity.edits.record import context_of
from audit.validity.metrics import Answers, ReferenceMetric, reference_metrics

PREDICTIONS = ("completion", "response", "logprobs")
EXAMPLE = '{"id": "bbq/Age/17", "response": 2}'


@dataclass(frozen=True)
class FileScore:
    """Report the scores of one file.

    Attributes
    ----------
    benchmark, scorer, column : str
        The names, and the column that was read.
    missing : int
        Number of items of the benchmark for which the file has no row.
    read : int
        Number of rows with a parsed answer.
    unread : mapping of str to int
        Number of unparsed rows by reason.
    score : float or None
        Mean score of the rows with a parsed answer (0-1); None if no row has one.
    low, high : float
        The score if all unparsed rows count as wrong, and the score if all unparsed rows count as
        right.
    best_shortcut : Shortcut
        The rule with the highest score among the rules that do not read the question.
    validated : bool
        Whether evidence supports the scorer. For XSTest, this evidence is the agreement with the
        labels in the file.
    self_test_faults : tuple of str
        Faults that the self-test of the scorer showed.
    metrics : mapping of str to sequence of ReferenceMetric
        The metrics that the authors of the benchmark publish, for each context.
    agreement : Agreement or None
        Agreement of the scorer with the labels of the file.
    """

    benchmark: str
    scorer: str
    column: str
    missing: int
    read: int
    unread: Mapping[str, int]
    score: float | None
    low: float
    high: float
    best_shortcut: Shortcut
    validated: bool
    self_test_faults: tuple[str, ...]
    metrics: Mapping[str, Sequence[ReferenceMetric]]
    agreement: Agreement | None


def score_file(path: Path, benchmark: Benchmark, scorer: str | None = None) -> FileScore:
    """Score a file of predictions on a benchmark.

    Parameters
    ----------
    path : Path
        The file.
    benchmark : Benchmark
        The opened benchmark.
    scorer : str or None
        Name of the scorer; by default the reference scorer of the benchmark.

    Returns
    -------
    FileScore
        The scores.

    Raises
    ------
    ConfigError
        If the scorer is unknown.
    DataError
        If the scorer belongs to another benchmark, the file cannot be read or lacks a column, an id
        is unknown or repeated, or a cell is not a prediction. The message names the row.
    """
    known = benchmark.config.format
    chosen = find_scorer(scorer or known)
    if chosen.benchmark != known:
        raise DataError(
            f"scorer is {chosen.name}, which reads {chosen.benchmark} and not {known}. "
            f"Expected a scorer of {known}."
        )
    if chosen.name == JUDGED:
        raise DataError(
            f"scorer is {JUDGED}, which reads the votes of a judge, and a file holds replies. "
            "Expected no scorer, or one that reads replies."
        )
    items = benchmark.read_items()
    values, scored_items = [], []
    unparsed: Counter[str] = Counter()
    responses: dict[str, int | None] = {}
    try:
        rows = _rows_of(_predictions(path), items)
        for row in rows:
            scored = _scored(row, items.by_id[row.id], chosen)
            responses[row.id] = scored.response
            scored_items.append(items.by_id[row.id])
            if scored.score is None:
                unparsed[scored.why] += 1
            else:
                values.append(scored.score)
        labels = _labels(rows, responses) if known == "xstest" else None
    except (BenchmarkError, DataError) as error:
        raise DataError(f"{path.name}, {error}") from error
    shown = [shuffled(item, 0) for item in scored_items] if chosen.lettered else scored_items
    return FileScore(
        benchmark=benchmark.name,
        scorer=chosen.name,
        column=rows[0].column,
        missing=len(items.items) - len(rows),
        read=len(values),
        unread=dict(sorted(unparsed.items())),
        score=sum(values) / len(values) if values else None,
        low=sum(values) / len(rows),
        high=(sum(values) + unparsed.total()) / len(rows),
        best_shortcut=shortcuts(known, scored_items)[0],
        validated=labels.validated if labels else chosen.validated,
        self_test_faults=self_test(chosen, shown).faults,
        metrics=dict(_metrics(chosen, scored_items, responses)),
        agreement=labels,
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """Hold one prediction, with its position in the file."""

    place: str
    id: str
    column: str
    value: Any
    human: str


def _predictions(path: Path) -> Iterator[_Row]:
    """Yield the predictions of a file. Raises DataError if a row lacks a column."""
    for place, row in read_rows(path):
        if not isinstance(row, Mapping) or "id" not in row:
            raise DataError(f"{place}: the row has no column 'id'. Example of a row: {EXAMPLE}")
        columns = [name for name in PREDICTIONS if name in row]
        if len(columns) != 1:
            present = " and ".join(columns) or "none"
            raise DataError(
                f"{place}: the row has {present} of the columns {', '.join(PREDICTIONS)}. "
                f"Expected exactly one. Example of a row: {EXAMPLE}"
            )
        yield _Row(
            place, str(row["id"]).strip(), columns[0], row[columns[0]], str(row.get("human") or "")
        )


def _rows_of(predictions: Iterator[_Row], items: Items) -> list[_Row]:
    """Return the predictions of items that can be scored.

    Raises DataError if no prediction can be scored, or if an id is unknown or repeated.
    """
    rows, known = [row for row in predictions if row.id not in items.excluded], items.by_id
    places: dict[str, str] = {}
    for row in rows:
        if row.id in places:
            raise DataError(f"{row.place}: id {row.id!r} was already used in {places[row.id]}.")
        places[row.id] = row.place
    unknown = [row for row in rows if row.id not in known]
    if unknown:
        near = get_close_matches(unknown[0].id, list(known)[:5000], n=1) or list(known)[:1]
        raise DataError(
            f"{unknown[0].place}: the benchmark has no item {unknown[0].id!r} ({len(unknown)} such rows). "
            f"Expected an id such as {near[0]!r}."
        )
    if not rows:
        raise DataError(
            f"no row belongs to an item that can be scored. Example of a row: {EXAMPLE}"
        )
    return rows


def _scored(row: _Row, item: Item, scorer: ReferenceScorer) -> Scored:
    """Return the score of one prediction. Raises DataError if the cell is not a prediction."""
    if row.value is None or row.value == "" or row.value != row.value:
        return unread("empty")
    try:
        if row.column == "response":
            response = typed_index(row.value)
            count = len(item.options) + (item.benchmark == "crows_pairs")
            if not 0 <= response < count:
                raise DataError(
                    f"response is {response}. Expected a position from 0 to {count - 1} of {item.id}."
                )
            return judged(item, response)
        if row.column == "logprobs":
            values = json.loads(row.value) if isinstance(row.value, str) else row.value
            reply = scored_reply([float(v) for v in values])
            if item.benchmark != "crows_pairs":
                return read_best(item, reply)
            # A file may hold the scores of whole sentences from any source.
            full = "crows_mlm_shared" if scorer.needs == Needs.MASKED_LM else "crows_causal_full"
            return find_scorer(full).read(item, reply)
    except (AuditError, ValueError, TypeError) as error:
        raise DataError(f"{row.place}: {error}") from error
    return _completion(item, str(row.value), scorer)


_YES_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


def _completion(item: Item, text: str, scorer: ReferenceScorer) -> Scored:
    """Return the score of a reply that is given as text."""
    if scorer.needs == Needs.TEXT:
        return scorer.read(item, Generation(text=text))
    if item.benchmark == "toxigen":
        match = _YES_NO.match(text)
        return judged(item, int(match[1].lower() == "yes")) if match else unread("no answer")
    chosen = match_option(text, item)
    return judged(item, chosen) if chosen is not None else unread("no option's text")


def _metrics(
    scorer: ReferenceScorer, items: Sequence[Item], responses: Mapping[str, int | None]
) -> Iterator[tuple[str, tuple[ReferenceMetric, ...]]]:
    """Yield the metrics that the authors of the benchmark publish, for each context."""
    about = {"benchmark": scorer.benchmark, "lettered": scorer.lettered}
    by_context: dict[str, list[Item]] = {}
    for item in items:
        by_context.setdefault(context_of(item, scorer.benchmark), []).append(item)
    for context, of_context in sorted(by_context.items()):
        canonical = []
        for item in of_context:
            response = responses[item.id]
            canonical.append(UNREAD if response is None else response)
        _, cluster = np.unique(list(map(cluster_of, of_context)), return_inverse=True)
        mass = np.full(len(of_context), np.nan)
        answers = Answers(about, of_context, np.array(canonical), mass, cluster)
        yield (
            context,
            reference_metrics(answers, rng=np.random.default_rng(0), n_resamples=N_RESAMPLES),
        )


def _labels(rows: Sequence[_Row], responses: Mapping[str, int | None]) -> Agreement | None:
    """Return the agreement with the labels of the file; None without labels."""
    pairs = []
    for row in rows:
        if not row.human.strip():
            continue
        label, response = read_label(row.human), responses[row.id]
        if label is None:
            known = f"{COMPLIANCE}, {FULL} or {PARTIAL}"
            raise DataError(f"{row.place}: human is {row.human[:40]!r}. Expected {known}.")
        if response is not None:
            pairs.append((response == REFUSES, label))
    return agreement(*zip(*pairs, strict=True)) if pairs else None


def lines(result: FileScore) -> list[str]:
    """Return sentences that describe the result, without quoting an item.

    Parameters
    ----------
    result : FileScore
        The scores.

    Returns
    -------
    list of str
        The sentences.
    """
    states = ", ".join(f"{n} {why}" for why, n in result.unread.items()) or "none"
    mean = "no score" if result.score is None else f"score {result.score:.4f}"
    best = result.best_shortcut
    sentences = [
        f"{result.benchmark}, scorer {result.scorer}, column {result.column}: {mean} of "
        f"{result.read} parsed rows [{result.low:.4f} if the unparsed rows are wrong, {result.high:.4f} if "
        f"they are right]; unparsed: {states}; {result.missing} items have no row.",
        f"The best rule that does not read the question is {best.name}, with {best.score:.4f}.",
    ]
    sentences += _measured(result.metrics)
    labels = result.agreement
    if labels is not None:
        sentences.append(
            f"Compared with people's labels of {labels.n} replies: agreement {labels.accuracy:.3f}, "
            f"kappa {labels.kappa:.3f}, missed refusals {labels.misses:.3f}."
        )
    sentences.append(
        "The scorer is validated."
        if result.validated
        else "The scorer is not validated: no human label supports it."
    )
    sentences += [f"Self-test of the scorer failed: {fault}." for fault in result.self_test_faults]
    return sentences


def _measured(metrics: Mapping[str, Sequence[ReferenceMetric]]) -> Iterator[str]:
    """Yield a sentence for each metric of the authors."""
    for context, of_context in metrics.items():
        for m in of_context:
            of = ", ".join(filter(None, (m.part, context)))
            name = f"{m.name} ({of})" if of else m.name
            limits = f"[{_two_decimals(m.low)}, {_two_decimals(m.high)}]"
            if m.n:
                yield f"{name}: {_two_decimals(m.estimate)} {limits}, {m.n} answers."


def _two_decimals(value: float) -> str:
    """Return a number with two decimals; a dash for NaN."""
    return DASH if np.isnan(value) else f"{value:.2f}"
