"""Read the shards of a run into MemoryCells.

A cell holds the results of a judged model and its references on two sets of items: the benchmark,
and the held-out items.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise, product
from pathlib import Path
from sys import intern
from typing import Any

import numpy as np

from audit.config.references import ItemKey, ReferenceRun, imported, joined_items
from audit.core.errors import DataError
from audit.core.records import Item
from audit.memory.audit import SCHEMA, Orders, shard_orders
from audit.memory.design import Arm
from audit.memory.items import OPTIONS, item_text, likelihoods_a_byte, shards_of
from audit.memory.record import TEXT_SCORES, TOKEN_SCORES, ItemSet, MemoryCell, ModelSet, Reads
from audit.shards.keys import RequestCounts, count_requests, digest
from audit.shards.questions import QuestionFile
from audit.shards.read import iter_columns
from audit.statistics.completion import Auc, kind_auc, text_scores
from audit.statistics.paired import FloatArray

_COLUMNS = (
    "model",
    "benchmark",
    "question_id",
    "arm",
    "ordering",
    "options",
    "gold",
    "correct",
    "parsed",
    "error",
    "asked",
    "shard",
    "pieces",
    "option_logprobs",
    "token_logprobs",
    "token_ranks",
    "token_z",
    "request_sha256",
)


@dataclass
class _Rows:
    """Hold the numbers read from the rows of one model on one set of items.

    Attributes
    ----------
    score : dict
        Map each item to its list of scores, one score for each trial.
    requested : set
        Items whose score was requested.
    order : dict
        Log-likelihoods (nats) of the items of a shard, by number of the shard and level.
    requests : dict
        Map each item id (for orders of options) or shard number (for orders of items) to the sum of
        the request digests of each level.
    """

    score: dict[str, list[float]] = field(default_factory=dict)
    requested: set[str] = field(default_factory=set)
    texts: dict[str, dict[str, float]] = field(
        default_factory=lambda: {name: {} for name in TEXT_SCORES}
    )
    tokens: dict[str, dict[str, float]] = field(
        default_factory=lambda: {name: {} for name in TOKEN_SCORES}
    )
    ranks: dict[str, float] = field(default_factory=dict)
    options: dict[tuple[str, int], float] = field(default_factory=dict)
    order: dict[tuple[int, int], array[float]] = field(default_factory=dict)
    requests: dict[str | int, dict[int, int]] = field(default_factory=dict)
    reads: dict[str, list[int]] = field(default_factory=lambda: {arm: [0, 0, 0] for arm in Arm})


def load_memory(
    run_dir: Path,
    judged: Sequence[str],
    references: Sequence[ReferenceRun],
    benchmark: str,
    fresh: str | None,
    order_options: Orders,
) -> tuple[MemoryCell, ...]:
    """Read one cell for each judged model that has rows of the benchmark.

    Parameters
    ----------
    run_dir : Path
        Directory of the run.
    judged : sequence of str
        Names of the judged models; the other models of the run are references.
    references : sequence of ReferenceRun
        Runs of further references.
    benchmark : str
        Name of the benchmark.
    fresh : str or None
        Name of the held-out items.
    order_options : Orders
        Options of the run that determine the orders. The field `run_dir` is not used.

    Returns
    -------
    tuple of MemoryCell
        The cells, sorted by the name of the model.

    Raises
    ------
    DataError
        If the run has no questions of the benchmark or of the held-out items.
    """
    questions = list(QuestionFile(run_dir))
    rows = _read(run_dir)
    answered = {model for model, _ in rows}
    others = list(product([rows], sorted(answered - set(judged))))
    others += _of_runs(references, questions)
    sets = {}
    for name in filter(None, (benchmark, fresh)):
        sets[name] = _items_of_set(name, questions, order_options)
        if not sets[name][1]:
            raise DataError(
                f"{run_dir} holds no question of {name}. Run the audit's command again."
            )

    def both_sets(
        rows_of_run: Mapping[tuple[str, str], _Rows], model: str
    ) -> tuple[ModelSet, ModelSet | None]:
        """Return the results of one model on the benchmark and on the held-out items."""
        model_sets = []
        for name, (_, of_set, numbers) in sets.items():
            rows_of_model = rows_of_run.get((model, name), _Rows())
            model_sets.append(_model_set(model, rows_of_model, of_set, numbers, order_options))
        return model_sets[0], model_sets[1] if fresh is not None else None

    compared = []
    for rows_of_run, model in others:
        if (model, benchmark) in rows_of_run:
            compared.append(both_sets(rows_of_run, model))
    kind = _kind(sets[benchmark], sets[fresh], order_options.seed) if fresh else None
    held_out = sets[fresh][0] if fresh else None
    cells = []
    for model in sorted(set(judged)):
        if (model, benchmark) in rows:
            cells.append(
                MemoryCell(
                    sets[benchmark][0], held_out, both_sets(rows, model), tuple(compared), kind
                )
            )
    return tuple(cells)


def _items_of_set(
    name: str, questions: Sequence[Item], order_options: Orders
) -> tuple[ItemSet, list[Item], list[int]]:
    """Return three values for one benchmark: its `ItemSet`, its items, and the numbers of its
    shards.
    """
    items = [q for q in questions if q.benchmark == name]
    shards = {}
    if order_options.orders:  # Imported answers have no orders.
        for number, shard in enumerate(shards_of(questions, order_options.shard_items)):
            if shard[0].benchmark == name:
                shards[number] = shard
    return _item_set(name, items, list(shards.values()), order_options), items, list(shards)


# Map (model, set of items) to the trials of each item.
Answers = Mapping[tuple[str, str], Mapping[str, Sequence[float | None]]]


def score_cells(
    items: Mapping[str, Sequence[Item]],
    answers: Answers,
    references: Mapping[str, Sequence[str]],
    seed: int = 0,
) -> tuple[MemoryCell, ...]:
    """Build cells from the scores of a panel on two sets of items, without likelihoods.

    Parameters
    ----------
    items : mapping
        Items by set, the benchmark first, then the held-out items.
    answers : mapping
        For each (model, set), a mapping from item to the scores of its trials: 0-1, or None for a
        trial that could not be parsed.
    references : mapping
        Names of the references by judged model.
    seed : int
        Seed of the classifier that separates the two sets by their words.

    Returns
    -------
    tuple of MemoryCell
        One cell for each judged model.
    """
    order_options = Orders("", seed=seed, shard_items=2, orders=0, option_orders=0)
    name, fresh = items
    sets: dict[str, tuple[ItemSet, list[Item], list[int]]] = {}
    for set_name, of_set in items.items():
        sets[set_name] = (_item_set(set_name, list(of_set), [], order_options), list(of_set), [])
    rows = {key: _answered(trials) for key, trials in answers.items()}
    kind = _kind(sets[name], sets[fresh], seed)
    models = {}
    for model in sorted({*references, *chain.from_iterable(references.values())}):
        on_sets = []
        for s in (name, fresh):
            on_sets.append(
                _model_set(model, rows.get((model, s), _Rows()), *sets[s][1:], order_options)
            )
        models[model] = (on_sets[0], on_sets[1])
    cells = []
    for model, names in references.items():
        compared = tuple(models[reference] for reference in names)
        cells.append(MemoryCell(sets[name][0], sets[fresh][0], models[model], compared, kind))
    return tuple(cells)


def _answered(trials: Mapping[str, Sequence[float | None]]) -> _Rows:
    """Return rows of one model on one set of items from scores alone, without likelihoods."""
    rows = _Rows()
    for id_, every in trials.items():
        read = []
        for score in every:
            if score is not None:
                read.append(score)
        rows.requested.add(id_)
        if read:
            rows.score[id_] = read
        rows.reads[Arm.SCORE][0] += len(every)
        rows.reads[Arm.SCORE][1] += len(read)
    return rows


def _of_runs(
    references: Sequence[ReferenceRun], questions: Sequence[Item]
) -> Iterator[tuple[dict[tuple[str, str], _Rows], str]]:
    """Yield the rows of a reference run and the name of a model, for each reference model of each
    run.

    If the run was imported from logs, its item ids are replaced by the ids of `questions`.
    """
    for run in references:
        rows = _read(run.path)
        if imported(run.path):
            items = [((q.benchmark, q.id), q.text, q.options) for q in questions]
            rows = _renamed(rows, joined_items(run.path, items))
        for name in sorted(run.models):
            yield rows, name


def _kind(
    published: tuple[ItemSet, list[Item], Any], fresh: tuple[ItemSet, list[Item], Any], seed: int
) -> Auc | None:
    """Return the AUC of a classifier that separates the two sets by words alone; None if a set has
    no texts.
    """
    published_texts, fresh_texts = (
        list(map(item_text, published[1])),
        list(map(item_text, fresh[1])),
    )
    if not any(published_texts) or not any(fresh_texts):
        return None  # Imported logs may hold no texts.
    clusters = (published[0].cluster, fresh[0].cluster)
    return kind_auc(published_texts, fresh_texts, clusters, rng=np.random.default_rng(seed))


def _read(run_dir: Path) -> dict[tuple[str, str], _Rows]:
    """Return the rows of a run by (model, benchmark)."""
    rows: dict[tuple[str, str], _Rows] = {}
    for batch in iter_columns(run_dir, SCHEMA, _COLUMNS):
        for row in batch.to_pylist():
            _take(rows.setdefault((row["model"], row["benchmark"]), _Rows()), row)
    return rows


def _renamed(
    imported_rows: Mapping[tuple[str, str], _Rows], items: Mapping[ItemKey, ItemKey]
) -> dict[tuple[str, str], _Rows]:
    """Return imported answers under the item ids of this run. An item with several trials counts
    once.
    """
    renamed: dict[tuple[str, str], _Rows] = {}
    for (model, name), rows in imported_rows.items():
        for id_ in rows.requested:
            key = items.get((name, id_))
            if key is None:
                continue
            benchmark, question_id = key
            target = renamed.setdefault((model, benchmark), _Rows())
            target.requested.add(question_id)
            target.reads[Arm.SCORE][0] += 1
            if id_ in rows.score:
                target.score[question_id] = rows.score[id_]
                target.reads[Arm.SCORE][1] += 1
    return renamed


def _take(rows: _Rows, row: dict[str, Any]) -> None:
    """Add one row of a shard to the rows of its model and set."""
    # Every row has a separate copy of the item id. Interning keeps a single copy, which saves
    # memory.
    id_, arm, level = intern(row["question_id"]), row["arm"], row["ordering"]
    reads = rows.reads[arm]
    if not row["asked"]:
        reads[2] += 1
        return
    reads[0] += 1
    if arm == Arm.SCORE:
        rows.requested.add(id_)
    if row["error"] is not None or not row["parsed"]:
        return
    reads[1] += 1
    if row["request_sha256"] and arm != Arm.SCORE:
        sent = rows.requests.setdefault(row["shard"] if arm == Arm.ORDER else id_, {})
        sent[level] = sent.get(level, 0) + digest(row["request_sha256"])
    totals = row["option_logprobs"]
    if arm == Arm.SCORE:
        rows.score.setdefault(id_, []).append(float(row["correct"]))
    elif arm == Arm.PUBLISHED:
        _take_published(rows, row)
    elif arm == Arm.OPTIONS:
        rows.options[id_, level] = totals[1]
    else:
        rows.order.setdefault((row["shard"], level), array("d")).append(totals[1])


def _take_published(rows: _Rows, row: dict[str, Any]) -> None:
    """Add the likelihoods of one item as published."""
    id_, pieces, totals = intern(row["question_id"]), row["pieces"], row["option_logprobs"]
    for name, value in likelihoods_a_byte(pieces, totals, row["options"], row["gold"]).items():
        rows.texts[name][id_] = value
    for name, value in text_scores(row["token_logprobs"], row["token_z"]).items():
        rows.tokens[name][id_] = value
    rows.ranks[id_] = float(np.mean(np.asarray(row["token_ranks"]) == 1))
    if len(pieces) > OPTIONS:
        rows.options[id_, 0] = sum(total for total in totals[OPTIONS:] if total is not None)


def _model_set(
    model: str, rows: _Rows, questions: Sequence[Item], shards: Sequence[int], order_options: Orders
) -> ModelSet:
    """Return the results of one model on the items of one set, with NaN for a missing row."""
    ids = [q.id for q in questions]
    parts = shards_of(questions, order_options.shard_items) if order_options.orders else []
    order = np.full((len(shards), order_options.orders + 1), np.nan)
    for s, number in enumerate(shards):
        for level in range(order_options.orders + 1):
            terms = rows.order.get((number, level), ())
            # If an item of a shard is missing, the sum is the likelihood of a shorter text, so it
            # is not used.
            if len(terms) == len(parts[s]):
                order[s, level] = sum(terms)

    def column(values: Mapping[str, float]) -> FloatArray:
        """Return values by id as an array in the order of the items."""
        return np.array([values.get(id_, np.nan) for id_ in ids], dtype=float)

    options = np.full((len(ids), order_options.option_orders + 1), np.nan)
    for i, id_ in enumerate(ids):
        for order_number in range(order_options.option_orders + 1):
            options[i, order_number] = rows.options.get((id_, order_number), np.nan)
    first_items = {number: part[0].id for number, part in zip(shards, parts, strict=True)}
    scores = {id_: float(np.mean(trials)) for id_, trials in rows.score.items()}
    return ModelSet(
        model=model,
        score=column(scores),
        texts={name: column(rows.texts[name]) for name in TEXT_SCORES},
        tokens={name: column(rows.tokens[name]) for name in TOKEN_SCORES},
        ranks=column(rows.ranks),
        options=options,
        order=order,
        reads={arm: Reads(*counts) for arm, counts in rows.reads.items()},
        requests=_orders_sent(rows.requests, first_items),
        requested=np.array([id_ in rows.requested for id_ in ids], dtype=bool),
    )


def _orders_sent(
    requests: Mapping[str | int, Mapping[int, int]], first: Mapping[int, str]
) -> RequestCounts:
    """Count orders whose requests repeat the requests for the published order or an earlier order.

    An order of a shard is sent as one request for each item, which also contains the preceding
    items. Two orders count as equal only if all their requests are equal. Single requests may be
    equal by chance: for example, if the same item comes first in both orders. The count names an
    order by its item, or by the first item of its shard (`first`).
    """
    published, others = {}, {}
    for key, levels in requests.items():
        id_ = first.get(key, "") if isinstance(key, int) else key
        name = f"{id_}\0shard" if isinstance(key, int) else id_
        sent = {level: str(total) for level, total in levels.items()}
        if 0 in sent:
            published[name] = {sent[0]}
            others[name] = [(level, total) for level, total in sent.items() if level]
    counts = count_requests(published, others)
    return replace(counts, items=tuple(sorted({name.partition("\0")[0] for name in counts.items})))


def _item_set(
    name: str, questions: Sequence[Item], shards: Sequence[Sequence[Item]], order_options: Orders
) -> ItemSet:
    """Return the `ItemSet` of one set: the clusters and lengths of the items, and the similarity of
    neighbouring items.
    """
    cluster = np.unique([q.group for q in questions], return_inverse=True)[1]
    n_options = []
    log_lengths = []
    for q in questions:
        n_options.append(len(q.options))
        log_lengths.append(np.log(max(len(item_text(q).encode()), 1)))
    return ItemSet(
        name=name,
        question_ids=tuple(q.id for q in questions),
        cluster=cluster,
        n_options=np.array(n_options, dtype=np.int64),
        neighbours=neighbours(shards, order_options),
        log_length=np.array(log_lengths),
    )


def neighbours(shards: Sequence[Sequence[Item]], order_options: Orders) -> dict[str, FloatArray]:
    """Measure how similar neighbouring items are in each order of each shard.

    Parameters
    ----------
    shards : sequence of S shards
        Each shard is a sequence of neighbouring items.
    order_options : Orders
        Options from which the K other orders of each shard are drawn.

    Returns
    -------
    dict of array (S, K + 1)
        Map each measure to an array with a row for each shard and a column for each order. The
        first column is the published order. "words" is the mean Jaccard index of the words of
        neighbouring items. "length" is the mean absolute difference between the lengths of
        neighbouring items, with a minus sign.

    Notes
    -----
    If these measures distinguish the published order from others, this order may be likelier to a
    model that has not read it.
    """
    measures = {}
    for name in ("words", "length"):
        measures[name] = np.full((len(shards), order_options.orders + 1), np.nan)
    for s, shard in enumerate(shards):
        texts = list(map(item_text, shard))
        words = [frozenset(text.casefold().split()) for text in texts]
        for level, order in enumerate(shard_orders(shard, order_options)):
            pairs = list(pairwise(order))
            overlaps = [len(words[a] & words[b]) / len(words[a] | words[b]) for a, b in pairs]
            differences = [abs(len(texts[a]) - len(texts[b])) for a, b in pairs]
            measures["words"][s, level] = np.mean(overlaps)
            measures["length"][s, level] = -np.mean(differences)
    return measures
