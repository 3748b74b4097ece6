"""Write the outcomes of joined logs as a run directory: the manifest, and the rows of a memory
audit that measures only the score.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import cache, partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from audit.benchmarks.fresh import Origin
from audit.config.references import IMPORTED, IMPORTED_CAVEAT
from audit.core.errors import DataError
from audit.core.records import NO_OPTION, FinishReason, Item, Reading
from audit.imports.join import Answered, Joined
from audit.imports.record import MAX_OF, Record
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
# Default values of the columns that only an engine can fill: empty lists, and 0 for numbers.
_NO_VALUE = {
    pa.string(): "",
    pa.bool_(): False,
}


@dataclass(frozen=True)
class RunFacts:
    """Hold the facts about an import that are written into the run's manifest.

    Attributes
    ----------
    judged : sequence of str
        Names of the models under audit. All other models in the logs are references.
    files : sequence of mapping
        Name, sha256, tool and version of each log.
    options : mapping
        Options with which the logs were read.
    origin_facts : mapping
        Result of `check_origin` for the held-out items.
    checks : sequence of LogCheck
        Result of each check of the logs.
    origins : mapping
        Origin of each model.
    """

    judged: Sequence[str]
    benchmark: str
    held_out: str | None
    files: Sequence[Mapping[str, Any]]
    options: Mapping[str, Any]
    seed: int = 0
    origin_facts: Mapping[str, Sequence[str]] = field(default_factory=lambda: {"held_out": ()})
    checks: Sequence[LogCheck] = ()
    origins: Mapping[str, Origin] = field(default_factory=dict)


def write_run(run_dir: Path, joined: Joined, facts: RunFacts) -> int:
    """Write a run directory of a memory audit that measured only the score.

    Returns
    -------
    int
        Number of rows of the run.

    Raises
    ------
    DataError
        If the run would have more than MAX_ROWS rows.
    ConfigError
        If the directory belongs to another run.

    Notes
    -----
    If the command is interrupted, the status of the run stays `running`, and no gate passes the
    run. The same command then writes the run again.
    """
    names = [facts.benchmark]
    if facts.held_out:
        names.append(facts.held_out)
    trials = _trials(joined, names)
    questions: list[Item] = []
    for name in names:
        questions += questions_of(joined, name)
    models = joined.models
    total = len(models) * len(questions) * trials
    if total > MAX_ROWS:
        size = f"{len(models)} models and {trials} trials of each item need {total:,} rows"
        raise DataError(
            f"{size}. Expected at most {MAX_ROWS:,} rows. Import fewer models, or counts k of n with a smaller n."
        )
    audit_options = {"shard_items": 2, "orders": 0, "option_orders": 0}
    analysis = {
        "thresholds": MemoryThresholds().to_dict(),
        "benchmark": facts.benchmark,
        "fresh": facts.held_out,
    }
    settings = [{"arm": Arm.SCORE.value, "level": 0, "replicate": k} for k in range(trials)]
    save(
        run_dir,
        SCHEMA,
        joined,
        facts,
        audit_options=audit_options,
        analysis=analysis,
        questions=questions,
        settings=settings,
        rows=partial(_rows, questions=questions, joined=joined, trials=trials),
    )
    return total


def _trials(joined: Joined, names: Sequence[str]) -> int:
    """Return the largest number of trials of an item, which is the number of rows of every item."""
    most = 0
    for (_, name), answers in joined.answers.items():
        for epochs in answers.values() if name in names else ():
            most = max(most, sum(epoch.of for epoch in pooled(epochs)))
    return most


def save(
    run_dir: Path,
    schema: RowSchema,
    joined: Joined,
    facts: RunFacts,
    *,
    audit_options: Mapping[str, Any],
    analysis: Mapping[str, Any],
    questions: Sequence[Item],
    settings: Sequence[Mapping[str, Any]],
    rows: Callable[[str], Iterator[Record]],
    also: Callable[[Path], object] = lambda path: None,
) -> None:
    """Write the run directory of finished logs: the manifest, the questions and the rows.

    Parameters
    ----------
    audit_options, analysis : mapping
        Entries that the audit adds: `audit_options` to the configuration, and `analysis` to the
        settings with which the run is judged.
    rows : callable
        Function from the name of a model to its rows.
    also : callable
        Function that writes further files into the run directory.
    """
    ids: dict[str, list[str]] = {}
    for item in sorted(questions, key=attrgetter("id")):
        ids.setdefault(item.benchmark, []).append(item.id)
    config = {
        "provenance": IMPORTED,
        "logs": list(facts.files),
        "read_by": dict(facts.options),
        "models": joined.models,
        "benchmark": facts.benchmark,
        "control_benchmark": facts.held_out,
        "n": "all",
        "seed": facts.seed,
        **audit_options,
    }
    engines = {}
    for name in joined.models:
        engines[name] = {"revision": joined.revisions.get(name), "engine": IMPORTED}
    common = {
        "seed": facts.seed,
        "judged": list(facts.judged),
        "references": [],
        "origins": {name: asdict(origin) for name, origin in facts.origins.items()},
        **analysis,
        "log_checks": list(map(asdict, facts.checks)),
        "partial": _partial(joined, facts.benchmark),
        **facts.origin_facts,
        "held_out": [*facts.origin_facts["held_out"], IMPORTED_CAVEAT],
    }
    with open_run_dir(
        run_dir, schema, fingerprint(config, schema, ids=ids), config, engines, common
    ) as run:
        about = {name: {"revision": digest(of), "n": len(of)} for name, of in ids.items()}
        run.update(benchmark=about, settings=list(settings), sampled_ids=ids)
        write_questions(run.path, questions)
        also(run.path)
        shards = []
        for model in joined.models:
            for batch in _batches(rows(model)):
                shard = write_shard(
                    run.path, rows_to_table(batch, schema), schema, attempt=run.attempt
                )
                shards.append(shard.record())
        unfinished = any(file.get("unfinished") for file in facts.files)
        run.update(
            status="stopped" if unfinished else "finished",
            ended=now(),
            shards=shards,
            tables=table_hashes(run.path),
        )


def _batches(rows: Iterator[Record]) -> Iterator[list[Record]]:
    """Yield the rows in lists, one list for each shard."""
    batch = list(islice(rows, _SHARD_ROWS))
    while batch:
        yield batch
        batch = list(islice(rows, _SHARD_ROWS))


def _partial(joined: Joined, benchmark: str) -> dict[str, str]:
    """Map each model with an unfinished log to the part of the benchmark that the log covers."""
    return {model: lack for (model, name), lack in joined.partial.items() if name == benchmark}


def questions_of(joined: Joined, benchmark: str) -> list[Item]:
    """Return the questions of a benchmark.

    Parameters
    ----------
    joined : Joined
        The outcomes of all logs.
    benchmark : str
        Name of the benchmark.

    Returns
    -------
    list of Item
        The questions. The id of a question is the key of its item.
    """
    questions = []
    for key, item in joined.items[benchmark].items():
        gold = NO_OPTION if item.gold is None else item.gold
        questions.append(Item(key, benchmark, item.text or "", item.options, gold, key))
    return questions


def _rows(
    model: str, *, questions: Sequence[Item], joined: Joined, trials: int
) -> Iterator[Record]:
    """Yield one row for each trial, the right answers first.

    A trial that is missing in the log counts as not asked.
    """
    revision = joined.revisions.get(model)
    for item in questions:
        epochs = joined.answers.get((model, item.benchmark), {}).get(item.id, [])
        outcomes: list[Answered | None] = []
        for epoch in pooled(epochs):
            outcomes += each_trial(epoch)
        outcomes += [None] * (trials - len(outcomes))
        for replicate, outcome in enumerate(outcomes):
            setting = _SETTING | {"replicate": replicate}
            yield row(SCHEMA, model, revision, item, outcome) | setting


def row(
    schema: RowSchema, model: str, revision: str | None, item: Item, outcome: Answered | None
) -> Record:
    """Return the columns of an outcome that all audits share.

    Parameters
    ----------
    schema : RowSchema
        Columns of the audit. Columns that only an engine can fill get empty values.
    model, revision : str
        The model, and the revision of its weights if the log states it.
    item : Item
        The question.
    outcome : Answered or None
        The outcome; None if the log lacks it.
    """
    right = None if outcome is None or outcome.right is None else bool(outcome.right)
    error = NOT_IN_LOG if outcome is None else outcome.error
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
        "response": (outcome.answer if outcome else None) or "",
        "correct": right,
        "parsed": right is not None,
        "answer_form": "none" if right is None else IMPORTED,
        "finish_reason": _STOP if error is None else _ERROR,
        "engine_id": IMPORTED,
        "error": error,
        "asked": outcome is not None,
    }


def pooled(epochs: Sequence[Answered]) -> list[Answered]:
    """Combine the epochs (repeated runs) of an item so that each epoch has the same weight.

    Returns
    -------
    list of Answered
        The epochs, if all have the same number of trials. Otherwise one outcome replaces the parsed
        epochs. Its share of right answers is the mean share of these epochs.

    Examples
    --------
    >>> pooled([Answered(1, 2, "B", None), Answered(3, 4, "B", None)])
    [Answered(right=5, of=8, answer='B', error=None)]
    """
    if len(epochs) < 2:
        return list(epochs)
    read, unread, shares = [], [], []
    for epoch in epochs:
        if epoch.right is None:
            unread.append(epoch)
        else:
            read.append(epoch)
            shares.append(Fraction(epoch.right, epoch.of))
    if len({epoch.of for epoch in read}) < 2:
        return list(epochs)
    mean = (sum(shares, Fraction(0)) / len(shares)).limit_denominator(MAX_OF)
    return [Answered(mean.numerator, mean.denominator, read[0].answer, None), *unread]


def each_trial(epoch: Answered) -> list[Answered]:
    """Split an outcome with k right trials out of n into n outcomes of one trial.

    Examples
    --------
    >>> [outcome.right for outcome in each_trial(Answered(2, 3, "B", None))]
    [1, 1, 0]
    """
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
