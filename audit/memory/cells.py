"""Shards -> MemoryCell: the judged models on the benchmark and the held-out items, beside the reference models."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path
from sys import intern
from typing import Any

import numpy as np

from audit.errors import DataError
from audit.memory.audit import SCHEMA, Orders, shard_orders
from audit.memory.design import Arm
from audit.memory.items import OPTIONS, item_text, likelihoods_a_byte, shards_of
from audit.memory.record import TEXT_SCORES, TOKEN_SCORES, ItemSet, MemoryCell, ModelSet, Reads
from audit.records import Item
from audit.references import ItemKey, ReferenceRun, imported, joined_items
from audit.shards.keys import RequestCounts, count_requests, digest
from audit.shards.questions import QuestionFile
from audit.shards.read import iter_columns
from audit.statistics.completion import Auc, kind_auc, text_scores
from audit.statistics.paired import FloatArray

_COLUMNS = (
    "model", "benchmark", "question_id", "arm", "ordering", "options", "gold", "correct", "parsed", "error", "asked",
    "shard", "pieces", "option_logprobs", "token_logprobs", "token_ranks", "token_z", "request_sha256",
)  # fmt: skip


@dataclass
class _Rows:
    """Rows of one model and set as they come, as numbers. order: nats of its items by (shard, level). requests: the sum
    of the digests that were sent, by level, of an item's orders of options by its id, of a shard's by its number."""

    score: dict[str, list[float]] = field(default_factory=dict)  # by item, one a replicate
    asked: set[str] = field(default_factory=set)  # for the score
    texts: dict[str, dict[str, float]] = field(default_factory=lambda: {name: {} for name in TEXT_SCORES})
    tokens: dict[str, dict[str, float]] = field(default_factory=lambda: {name: {} for name in TOKEN_SCORES})
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
    own: Orders,
) -> tuple[MemoryCell, ...]:
    """One cell for each judged model with rows of the benchmark, sorted by name.

    own: the orders as the run had them (`run_dir` of it is not read). References are the other models of the run and
    those of the reference runs.
    """
    questions = list(QuestionFile(run_dir))
    rows = _read(run_dir)
    others = [(rows, name) for name in sorted({model for model, _ in rows} - set(judged))]
    others += _of_runs(references, questions)
    places = shards_of(questions, own.shard_items) if own.orders else []  # of imported answers no order was asked
    sets = {}
    for name in filter(None, (benchmark, fresh)):
        of_set = [q for q in questions if q.benchmark == name]
        if not of_set:
            raise DataError(f"{run_dir} holds no question of {name}. Type the run's command again.")
        shards = {k: shard for k, shard in enumerate(places) if shard[0].benchmark == name}
        sets[name] = (_item_set(name, of_set, list(shards.values()), own), of_set, list(shards))

    def both(found: Mapping[tuple[str, str], _Rows], model: str) -> tuple[ModelSet, ModelSet | None]:
        made = [_model_set(model, found.get((model, name), _Rows()), *sets[name][1:], own) for name in sets]
        return made[0], made[1] if fresh is not None else None

    compared = tuple(both(found, model) for found, model in others if (model, benchmark) in found)
    kind = _kind(sets[benchmark], sets[fresh], own.seed) if fresh else None
    return tuple(
        MemoryCell(sets[benchmark][0], sets[fresh][0] if fresh else None, both(rows, model), compared, kind)
        for model in sorted(set(judged))
        if (model, benchmark) in rows
    )


Answers = Mapping[tuple[str, str], Mapping[str, Sequence[float | None]]]  # of (model, set): by item, its trials


def score_cells(
    items: Mapping[str, Sequence[Item]], answers: Answers, references: Mapping[str, Sequence[str]], seed: int = 0
) -> tuple[MemoryCell, ...]:
    """Return one cell for each judged model of a panel that answered two sets of items, and nothing else.

    items: by set, the benchmark first, then the held-out items. answers: the score of each trial, 0-1, or None if it
    could not be read. references: by judged model.
    """
    own = Orders("", seed=seed, shard_items=2, orders=0, option_orders=0)
    name, fresh = items
    sets: dict[str, tuple[ItemSet, list[Item], list[int]]] = {
        one: (_item_set(one, list(of_set), [], own), list(of_set), []) for one, of_set in items.items()
    }
    rows = {key: _answered(of_cell) for key, of_cell in answers.items()}
    kind = _kind(sets[name], sets[fresh], seed)

    def both(model: str) -> tuple[ModelSet, ModelSet]:
        made = [_model_set(model, rows.get((model, one), _Rows()), *sets[one][1:], own) for one in sets]
        return made[0], made[1]

    models = {model: both(model) for model in sorted({*references, *chain.from_iterable(references.values())})}
    return tuple(
        MemoryCell(sets[name][0], sets[fresh][0], models[model], tuple(models[one] for one in theirs), kind)
        for model, theirs in references.items()
    )


def _answered(trials: Mapping[str, Sequence[float | None]]) -> _Rows:
    """Return the rows of one model and set of which the score alone was asked."""
    rows = _Rows()
    for id_, every in trials.items():
        read = [one for one in every if one is not None]
        rows.asked.add(id_)
        if read:
            rows.score[id_] = read
        rows.reads[Arm.SCORE][0] += len(every)
        rows.reads[Arm.SCORE][1] += len(read)
    return rows


def _of_runs(
    references: Sequence[ReferenceRun], questions: Sequence[Item]
) -> Iterator[tuple[dict[tuple[str, str], _Rows], str]]:
    """Each reference model, after the rows of its run; of imported ones under the names that `questions` have."""
    for one in references:
        rows = _read(one.path)
        if imported(one.path):
            items = [((q.benchmark, q.id), q.text, q.options) for q in questions]
            rows = _renamed(rows, joined_items(one.path, items))
        yield from ((rows, name) for name in sorted(one.models))


def _kind(published: tuple[ItemSet, list[Item], Any], fresh: tuple[ItemSet, list[Item], Any], seed: int) -> Auc | None:
    texts = [[item_text(q) for q in of_set] for _, of_set, _ in (published, fresh)]
    if not all(any(side) for side in texts):
        return None  # imported outcomes may come without a text
    return kind_auc(texts[0], texts[1], (published[0].cluster, fresh[0].cluster), rng=np.random.default_rng(seed))


def _read(run_dir: Path) -> dict[tuple[str, str], _Rows]:
    found: dict[tuple[str, str], _Rows] = {}
    for batch in iter_columns(run_dir, SCHEMA, _COLUMNS):
        for row in batch.to_pylist():
            _take(found.setdefault((row["model"], row["benchmark"]), _Rows()), row)
    return found


def _renamed(found: Mapping[tuple[str, str], _Rows], items: Mapping[ItemKey, ItemKey]) -> dict[tuple[str, str], _Rows]:
    """Imported answers under the names that this run has for their items; an item is one, whatever its trials."""
    made: dict[tuple[str, str], _Rows] = {}
    for (model, name), rows in found.items():
        for id_ in rows.asked:
            if (ours := items.get((name, id_))) is None:
                continue
            to = made.setdefault((model, ours[0]), _Rows())
            to.asked.add(ours[1])
            to.reads[Arm.SCORE][0] += 1
            if id_ in rows.score:
                to.score[ours[1]] = rows.score[id_]
                to.reads[Arm.SCORE][1] += 1
    return made


def _take(rows: _Rows, row: dict[str, Any]) -> None:
    id_, arm, level = intern(row["question_id"]), row["arm"], row["ordering"]  # every row has an id of its own
    reads = rows.reads[arm]
    if not row["asked"]:
        reads[2] += 1
        return
    reads[0] += 1
    if arm == Arm.SCORE:
        rows.asked.add(id_)
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
    id_, pieces, totals = intern(row["question_id"]), row["pieces"], row["option_logprobs"]
    for name, value in likelihoods_a_byte(pieces, totals, row["options"], row["gold"]).items():
        rows.texts[name][id_] = value
    for name, value in text_scores(row["token_logprobs"], row["token_z"]).items():
        rows.tokens[name][id_] = value
    rows.ranks[id_] = float(np.mean(np.asarray(row["token_ranks"]) == 1))
    if len(pieces) > OPTIONS:
        rows.options[id_, 0] = sum(t for t in totals[OPTIONS:] if t is not None)


def _model_set(model: str, rows: _Rows, questions: Sequence[Item], shards: Sequence[int], own: Orders) -> ModelSet:
    ids = [q.id for q in questions]
    parts = shards_of(questions, own.shard_items) if own.orders else []
    order = np.full((len(shards), own.orders + 1), np.nan)
    for s, number in enumerate(shards):
        for level in range(own.orders + 1):
            terms = rows.order.get((number, level), ())
            if len(terms) == len(parts[s]):  # with an item missing it is another text's likelihood
                order[s, level] = sum(terms)

    def column(values: Mapping[str, float]) -> FloatArray:
        return np.array([values.get(id_, np.nan) for id_ in ids], dtype=float)

    options = [[rows.options.get((id_, level), np.nan) for level in range(own.option_orders + 1)] for id_ in ids]
    return ModelSet(
        model=model,
        score=column({id_: float(np.mean(every)) for id_, every in rows.score.items()}),
        texts={name: column(rows.texts[name]) for name in TEXT_SCORES},
        tokens={name: column(rows.tokens[name]) for name in TOKEN_SCORES},
        ranks=column(rows.ranks),
        options=np.array(options, dtype=float),
        order=order,
        reads={arm: Reads(*counts) for arm, counts in rows.reads.items()},
        requests=_orders_sent(rows.requests, {number: part[0].id for number, part in zip(shards, parts, strict=True)}),
        asked=np.array([id_ in rows.asked for id_ in ids], dtype=bool),
    )


def _orders_sent(requests: Mapping[str | int, Mapping[int, int]], first: Mapping[int, str]) -> RequestCounts:
    """Every other order against the published one and the orders before it. first: an item of each shard, to name it.

    An order of a shard is a request an item, after those before it: two orders may share some of them (an item that is
    first in both is sent alone), and are one where they share all.
    """
    published, others = {}, {}
    for key, levels in requests.items():
        id_ = first.get(key, "") if isinstance(key, int) else key
        name = f"{id_}\0shard" if isinstance(key, int) else id_
        sent = {level: str(total) for level, total in levels.items()}
        if 0 in sent:
            published[name] = {sent[0]}
            others[name] = [(level, one) for level, one in sent.items() if level]
    found = count_requests(published, others)
    return replace(found, items=tuple(sorted({name.partition("\0")[0] for name in found.items})))


def _item_set(name: str, questions: Sequence[Item], shards: Sequence[Sequence[Item]], own: Orders) -> ItemSet:
    cluster = np.unique([q.group for q in questions], return_inverse=True)[1]
    return ItemSet(
        name=name,
        question_ids=tuple(q.id for q in questions),
        cluster=cluster,
        n_options=np.array([len(q.options) for q in questions], dtype=np.int64),
        neighbours=neighbours(shards, own),
        log_length=np.array([np.log(max(len(item_text(q).encode()), 1)) for q in questions]),
    )


def neighbours(shards: Sequence[Sequence[Item]], own: Orders) -> dict[str, FloatArray]:
    """By measure (S, K + 1): how alike neighbours are under each order of each shard, the published one first.

    words: mean share of words that neighbours have in common (Jaccard). length: minus the mean difference of their
    lengths. Where these tell the published order from others, a model that has never seen it may prefer it too.
    """
    found = {name: np.full((len(shards), own.orders + 1), np.nan) for name in ("words", "length")}
    for s, shard in enumerate(shards):
        texts = [item_text(q) for q in shard]
        words = [frozenset(text.casefold().split()) for text in texts]
        for level, order in enumerate(shard_orders(shard, own)):
            pairs = list(pairwise(order))
            found["words"][s, level] = np.mean([len(words[a] & words[b]) / len(words[a] | words[b]) for a, b in pairs])
            found["length"][s, level] = -np.mean([abs(len(texts[a]) - len(texts[b])) for a, b in pairs])
    return found
