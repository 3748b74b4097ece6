"""Joined outcomes -> a run directory: the rows of a memory audit that asked for the score alone,
and its manifest."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from audit.benchmarks.fresh import Origin
from audit.config.references import IMPORTED, NOT_OURS
from audit.core.errors import DataError
from audit.core.records import NO_OPTION, FinishReason, Item, Reading
from audit.imports.join import Answered, Joined
from audit.imports.record import MAX_OF, Imported, Record
from audit.judge.gates import LogCheck
from audit.memory.audit import SCHEMA
from audit.memory.design import Arm, MemoryThresholds
from audit.shards.attempt import now
from audit.shards.complete import table_hashes
from audit.shards.keys import rows_to_table
from audit.shards.manifest import fingerprint, open_run_dir
from audit.shards.questions import write_questions
from audit.shards.schema import RowSchema
from audit.shards.write import write_shard

NOT_IN_LOG = "the log of this model does not hold the item"
MAX_ROWS = 20_000_000
_SETTING = {"arm": Arm.SCORE.value, "ordering": 0}
_LETTER, _NUMBER = Reading.LETTER.value, Reading.NUMBER.value
_STOP, _ERROR = FinishReason.STOP.value, FinishReason.ERROR.value
_SHARD_ROWS = 16_384
# Values of columns that only an engine fills; lists are empty, numbers 0.
_NO_VALUE = {
    pa.string(): "",
    pa.bool_(): False,
}


@dataclass(frozen=True)
class Asked:
    """State what a run reports.

    Attributes
    ----------
    judged : sequence of str
        Models under audit; the others are references.
    files : sequence of mapping
        Name, sha256, tool and version of each log.
    options : mapping
        How the logs were read, for the manifest.
    told : mapping
        Result of `check_origin` for the held-out items.
    checks : sequence of LogCheck
        Checks of the logs.
    origins : mapping
        Origin of each model.
    """

    judged: Sequence[str]
    benchmark: str
    held_out: str | None
    files: Sequence[Mapping[str, Any]]
    options: Mapping[str, Any]
    seed: int = 0
    told: Mapping[str, Sequence[str]] = field(default_factory=lambda: {"held_out": ()})
    checks: Sequence[LogCheck] = ()
    origins: Mapping[str, Origin] = field(default_factory=dict)


def write_run(run_dir: Path, joined: Joined, asked: Asked) -> int:
    """Write a run of the score alone, and return the number of its rows.

    Raises
    ------
    DataError
        If the run would have more than MAX_ROWS rows.
    ConfigError
        If the directory belongs to another run.

    Notes
    -----
    An interrupted run stays `running`, which no gate passes. The same command starts it again.
    """
    names = [asked.benchmark, *([asked.held_out] if asked.held_out else [])]
    every: list[Sequence[Answered]] = []
    for (_, name), answers in joined.answers.items():
        if name in names:
            every += answers.values()
    # Rows that each item needs.
    trials = max(sum(one.of for one in pooled(epochs)) for epochs in every)
    models = joined.models
    total = len(models) * sum(len(joined.items[name]) for name in names) * trials
    if total > MAX_ROWS:
        found = f"{len(models)} models, {trials} trials an item: {total:,} rows, expected at most {MAX_ROWS:,}"
        raise DataError(f"{found}. Import fewer models, or counts k of n with a smaller n.")
    questions: list[Item] = []
    for name in names:
        questions += (question(name, key, entry) for key, entry in joined.items[name].items())
    own = {"shard_items": 2, "orders": 0, "option_orders": 0}
    analysis = {
        "thresholds": MemoryThresholds().to_dict(),
        "benchmark": asked.benchmark,
        "fresh": asked.held_out,
    }
    settings = [{"arm": Arm.SCORE.value, "level": 0, "replicate": k} for k in range(trials)]
    save(
        run_dir,
        SCHEMA,
        joined,
        asked,
        own=own,
        analysis=analysis,
        questions=questions,
        settings=settings,
        rows=lambda model: (row for q in questions for row in _rows(model, q, joined, trials)),
    )
    return total


def save(
    run_dir: Path,
    schema: RowSchema,
    joined: Joined,
    asked: Asked,
    *,
    own: Mapping[str, Any],
    analysis: Mapping[str, Any],
    questions: Sequence[Item],
    settings: Sequence[Mapping[str, Any]],
    rows: Callable[[str], Iterator[Record]],
    also: Callable[[Path], object] = lambda path: None,
) -> None:
    """Write a finished run.

    Parameters
    ----------
    own, analysis : mapping
        Facts of the audit, for the configuration and for its judgement.
    rows : callable
        Yields the rows of a model.
    also : callable
        Writes other files of the run.
    """
    ids: dict[str, list[str]] = {}
    for one in sorted(questions, key=lambda q: q.id):
        ids.setdefault(one.benchmark, []).append(one.id)
    config = {
        "provenance": IMPORTED,
        "logs": list(asked.files),
        "read_by": dict(asked.options),
        "models": joined.models,
        "benchmark": asked.benchmark,
        "control_benchmark": asked.held_out,
        "n": "all",
        "seed": asked.seed,
        **own,
    }
    facts = {}
    for name in joined.models:
        facts[name] = {"revision": joined.revisions.get(name), "engine": IMPORTED}
    origins = {name: asdict(one) for name, one in asked.origins.items()}
    common = {
        "seed": asked.seed,
        "judged": list(asked.judged),
        "references": [],
        "origins": origins,
        **analysis,
    }
    common |= {
        "log_checks": [asdict(one) for one in asked.checks],
        "partial": _partial(joined, asked.benchmark),
    }
    common |= {**asked.told, "held_out": [*asked.told["held_out"], NOT_OURS]}
    with open_run_dir(
        run_dir, schema, fingerprint(config, schema, ids=ids), config, facts, common
    ) as run:
        about = {name: {"revision": digest(of), "n": len(of)} for name, of in ids.items()}
        run.update(benchmark=about, settings=list(settings), sampled_ids=ids)
        write_questions(run.path, questions)
        also(run.path)
        shards = []
        for model in joined.models:
            left = rows(model)
            while step := list(islice(left, _SHARD_ROWS)):
                shards.append(
                    write_shard(run.path, rows_to_table(step, schema), schema, attempt=run.attempt)
                )
        whole = not any(one.get("unfinished") for one in asked.files)
        run.update(
            status="finished" if whole else "stopped",
            ended=now(),
            shards=[one.record() for one in shards],
            tables=table_hashes(run.path),
        )


def _partial(joined: Joined, benchmark: str) -> dict[str, str]:
    """Return what unfinished logs hold of the benchmark, by model."""
    return {model: found for (model, name), found in joined.partial.items() if name == benchmark}


def question(benchmark: str, key: str, one: Imported) -> Item:
    return Item(
        key,
        benchmark,
        one.text or "",
        one.options,
        NO_OPTION if one.gold is None else one.gold,
        key,
    )


def _rows(model: str, item: Item, joined: Joined, trials: int) -> Iterator[Record]:
    """Yield one row for each trial, right ones first. Trials that the log lacks count as not asked."""
    epochs = joined.answers.get((model, item.benchmark), {}).get(item.id, [])
    outcomes: list[Answered | None] = []
    for epoch in pooled(epochs):
        outcomes += each_trial(epoch)
    outcomes += [None] * (trials - len(outcomes))
    for replicate, one in enumerate(outcomes):
        yield (
            row(SCHEMA, model, joined.revisions.get(model), item, one)
            | _SETTING
            | {"replicate": replicate}
        )


def row(
    schema: RowSchema, model: str, revision: str | None, item: Item, one: Answered | None
) -> Record:
    """Return the columns of one outcome that all audits share. `one` is None if the log lacks it."""
    right = None if one is None or one.right is None else bool(one.right)
    error = NOT_IN_LOG if one is None else one.error
    options = list(item.options)
    return _empty_row(schema) | {
        "model": model,
        "model_revision": revision or IMPORTED,
        "benchmark": item.benchmark,
        "question_id": item.id,
        "group": item.group,
        "replicate": 0,
        "options_shown": True,
        "reading": _LETTER if options else _NUMBER,
        "question": item.text,
        "options": options,
        "gold": item.gold,
        "response": (one.answer if one else None) or "",
        "correct": right,
        "parsed": right is not None,
        "answer_form": "none" if right is None else IMPORTED,
        "finish_reason": _STOP if error is None else _ERROR,
        "engine_id": IMPORTED,
        "error": error,
        "asked": one is not None,
    }


def pooled(epochs: Sequence[Answered]) -> list[Answered]:
    """Return the epochs of an item so that each weighs the same. If they have different numbers of
    trials, one outcome has their mean share.
    """
    if len({one.of for one in epochs if one.right is not None}) < 2:
        return list(epochs)
    read = [(Fraction(one.right, one.of), one) for one in epochs if one.right is not None]
    mean = (sum(share for share, _ in read) / Fraction(len(read))).limit_denominator(MAX_OF)
    unread = [one for one in epochs if one.right is None]
    return [Answered(mean.numerator, mean.denominator, read[0][1].answer, None), *unread]


def each_trial(epoch: Answered) -> list[Answered]:
    """Return an outcome of k right trials of n as n outcomes."""
    if epoch.right is None or (epoch.of == 1 and epoch.error is None):
        return [epoch]
    return [Answered(int(k < epoch.right), 1, epoch.answer, None) for k in range(epoch.of)]


_NULL = {"answer", "answer_number", "target", "request_sha256", "shard", "variant_id", "distance"}


@cache
def _empty_row(schema: RowSchema) -> Record:
    empty: Record = {}
    for column in schema.columns:
        is_list = pa.types.is_list(column.type)
        empty[column.name] = [] if is_list else _NO_VALUE.get(column.type, 0)
    return empty | dict.fromkeys(_NULL & empty.keys())


def digest(ids: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(ids).encode("utf-8", "backslashreplace")).hexdigest()[:16]
