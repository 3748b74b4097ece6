"""The stages that Ray Data runs: chunk ids -> calls before the answer -> scored rows in shards. They know no audit.

A *task* is one part of one question's design: task = question index x number of parts + part index. A *chunk* is a
block of tasks; it becomes one shard, named by its keys, so a retried chunk overwrites itself. Stages hold handles to
the engine actors, never an engine."""

import collections
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from ray.util.metrics import Counter

from audit.audits import Audit, Work, answer_requests
from audit.errors import SandboxError, ShardError
from audit.prompting import letters_of, shows_options
from audit.records import ANSWER_ROLE, FinishReason, Generation, Item, Part, Presentation, Reading, Setting
from audit.records import GenerationRequest as Request
from audit.runtime.call import EngineCaller
from audit.scoring.score import Score, counted, majority, score
from audit.shards.complete import count_answers
from audit.shards.keys import rows_to_table
from audit.shards.questions import QuestionFile
from audit.shards.working_copy import local_file
from audit.shards.write import write_shard

# Shown in the Ray dashboard and scraped by Prometheus, labelled by model and arm: cluster/monitoring has a Grafana
# dashboard and alerts for them.
METRICS = {
    "generations": "Engine calls answered",
    "tokens": "Tokens processed",
    "questions_done": "Rows stored, one a question and setting",
    "parse_failures": "Replies without a readable answer",
    "errors": "Rows without an answer because a call failed",
    "retries": "Endpoint calls that were tried again",
    "cost": "Money spent by this start of the run, in the currency of cost.currency",
}


class AuditMetrics:
    """Counters of one stage process. Created there: a counter belongs to the process that increments it."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._counters: dict[str, Counter] = {}

    def add(self, name: str, value: float, *, arm: str = "all", **tags: str) -> None:
        if value > 0:
            tags |= {"model": self._model, "arm": arm}
            self._counter(name, tags).inc(value, tags=tags)

    def begin(self, name: str, *, arm: str = "all", **tags: str) -> None:
        """Export a counter at 0. Prometheus sees no increase from nothing to the first value of a counter."""
        tags |= {"model": self._model, "arm": arm}
        self._counter(name, tags)._record(0.0, tags=tags)  # `inc` refuses 0, and Ray has no public way

    def _counter(self, name: str, tags: Mapping[str, str]) -> Counter:
        if name not in self._counters:
            self._counters[name] = Counter(f"audit_{name}_total", METRICS[name], tag_keys=tuple(tags))
        return self._counters[name]

    def answered(self, role: str, replies: Iterable[tuple[str, Generation]]) -> None:
        """The replies of one chunk, each with its arm: one update for each arm and engine, not one a call."""
        sums: dict[tuple[str, str], collections.Counter[str]] = {}
        for arm, one in replies:
            sums.setdefault((arm, one.engine_id), collections.Counter()).update(
                calls=1, prompt=one.prompt_tokens, cached=one.cached_tokens, completion=one.completion_tokens
            )
        for (arm, engine), found in sums.items():
            self.add("generations", found.pop("calls"), arm=arm, engine=engine, role=role)
            for kind, n in found.items():
                self.add("tokens", n, arm=arm, engine=engine, kind=kind)


Answered = tuple[Generation, Generation | None]  # the reply; what it gave asked again, where it held no answer


@dataclass(frozen=True)
class StageContext:
    """All that the stages of one model's run share. Small: it travels to every stage process."""

    audit: Audit
    work: Work
    run_dir: str  # a folder, or the URL of object storage; so are the two files
    questions_path: str
    tasks_path: str  # .npy of the task numbers still to do
    attempt: str
    store_format: str
    tasks_per_chunk: int
    model_revision: str
    option_normalisation: str
    preparing_engines: tuple[Any, ...]
    answering_engines: tuple[Any, ...]


class TaskReader:
    """Chunk ids -> tasks -> their question and part. Files are opened by the first call: what fails there reaches the
    driver in words, what fails in a constructor not."""

    def __init__(self, context: StageContext) -> None:
        self._context = context

    @cached_property
    def _questions(self) -> QuestionFile:
        return QuestionFile(self._context.questions_path)

    @cached_property
    def _tasks(self) -> NDArray[np.int64]:
        try:
            tasks: NDArray[np.int64] = np.load(local_file(self._context.tasks_path), mmap_mode="r")
        except OSError as error:
            raise ShardError(
                f"{self._context.tasks_path} cannot be read ({error}). On a cluster, run_dir must be on a file system "
                "that every node shares."
            ) from error
        return tasks

    def tasks(self, chunks: Sequence[int]) -> list[int]:
        size = self._context.tasks_per_chunk
        return [int(t) for c in chunks for t in self._tasks[c * size : (c + 1) * size]]

    def decode(self, tasks: Sequence[int]) -> list[tuple[Item, Part]]:
        parts = self._context.work.design.parts
        wanted = sorted({task // len(parts) for task in tasks})
        if wanted and wanted[-1] - wanted[0] < 2 * len(wanted):  # neighbours, as in a fresh run: one read
            found = dict(enumerate(self._questions.slice(wanted[0], wanted[-1] + 1), start=wanted[0]))
        else:
            found = {index: self._questions[index] for index in wanted}
        return [(found[task // len(parts)], parts[task % len(parts)]) for task in tasks]


_REPLY_FIELDS = {
    **dict.fromkeys(("text", "finish_reason", "engine_id", "error"), pa.string()),
    **dict.fromkeys(("prompt_tokens", "cached_tokens", "completion_tokens"), pa.int64()),
}
_PREPARED = pa.schema([("task", pa.int64()), ("replies", pa.list_(pa.struct(list(_REPLY_FIELDS.items()))))])


def priority_of(tasks: Sequence[int]) -> int:
    """Return the priority of a chunk's calls: its first task. Questions are then finished in order, so that what is
    asked reaches the disk soon."""
    return min(tasks, default=0)


class PrepareStage:
    """Chunk ids -> the replies to every task's calls before the answer (`Audit.prepare`)."""

    def __init__(self, context: StageContext) -> None:
        self._audit, self._work = context.audit, context.work
        self._call = EngineCaller(context.preparing_engines)
        self._metrics = AuditMetrics(context.work.model)
        self._reader = TaskReader(context)

    def __call__(self, batch: pa.Table) -> pa.Table:
        assert self._audit.prepare is not None  # noqa: S101  (the pipeline has no such stage otherwise)
        tasks = self._reader.tasks(batch["id"].to_pylist())
        parts = self._reader.decode(tasks)
        replies: list[list[Generation]] = [[] for _ in tasks]
        while any(asked := [self._audit.prepare(self._work, *one, replies[i]) for i, one in enumerate(parts)]):
            owners = [i for i, some in enumerate(asked) for _ in some]
            for i, reply in zip(
                owners, self._call([one for some in asked for one in some], priority_of(tasks)), strict=True
            ):
                replies[i].append(reply)
        arms = (part.arm for _, part in parts)
        told = ((arm, one) for arm, some in zip(arms, replies, strict=True) for one in some)
        self._metrics.answered(self._audit.prepare_role, told)
        stored = [[{name: getattr(one, name) for name in _REPLY_FIELDS} for one in some] for some in replies]
        return pa.Table.from_pydict({"task": tasks, "replies": stored}, schema=_PREPARED)


_STORED = {"questions_done": "rows", "parse_failures": "unparsed", "errors": "errors"}  # counter: column of the counts


class AnswerStage:
    """Tasks -> what the model was asked, its answer and its score -> a shard on disk. Passes on only counts, so nothing
    large reaches the driver. The shard is written here and not by a stage of its own: the rows need no second trip
    between processes, and a process that imports Ray Data takes seconds to start."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._call = EngineCaller(context.answering_engines)
        self._options_shown = shows_options(context.work.protocol)
        self._metrics = AuditMetrics(context.work.model)
        for arm in dict.fromkeys(part.arm for part in context.work.design.parts):
            for name in _STORED:
                self._metrics.begin(name, arm=arm)
        self._reader = TaskReader(context)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """batch: chunk ids, or what `PrepareStage` made of them."""
        audit, work = self._context.audit, self._context.work
        if "task" in batch.column_names:
            tasks, prepared = batch["task"].to_pylist(), batch["replies"].to_pylist()
        else:
            tasks = self._reader.tasks(batch["id"].to_pylist())
            prepared = [[]] * len(tasks)
        asked: list[tuple[Item, Setting, Presentation, tuple[Request, ...]]] = []
        for (question, part), stored in zip(self._reader.decode(tasks), prepared, strict=True):
            replies = [Generation(**{**one, "finish_reason": FinishReason(one["finish_reason"])}) for one in stored]
            presented = audit.present(work, question, part, replies)
            for setting, one in zip(part.settings, presented, strict=True):
                asked.append((question, setting, one, answer_requests(work, question, setting, one)))
        # What could not be presented leaves nothing to answer from: the row is an error, not a wrong answer.
        calls = {r: (setting, one) for _, setting, one, some in asked if one.error is None for r in some}
        answers = self._answers(calls, priority_of(tasks))
        every = []
        for question, setting, one, some in asked:
            # A ballot that several rows count is paid by the first.
            given = [(answers[r], calls.pop(r, None) is not None) for r in some] if one.error is None else []
            every.append((question, setting, one, some[0].seed, given))
        # A problem's row runs a program: some side by side.
        with ThreadPoolExecutor(os.cpu_count() if work.reading == Reading.CODE else 1) as pool:
            rows = list(pool.map(lambda one: self._row(*one), every))
        return self._store(rows_to_table(rows, audit.schema))

    def _answers(self, calls: Mapping[Request, tuple[Setting, Presentation]], priority: int) -> dict[Request, Answered]:
        first = dict(zip(calls, self._call(list(calls), priority), strict=True))
        again = [r for r, reply in first.items() if self._to_reask(calls[r][1], reply)]
        asked_again = [self._reask(calls[r][1], r) for r in again]
        second = dict(zip(again, self._call(asked_again, priority), strict=True))
        self._metrics.answered(
            ANSWER_ROLE, ((calls[r][0].arm, reply) for r, reply in chain(first.items(), second.items()))
        )
        return {r: (reply, second.get(r)) for r, reply in first.items()}

    def _store(self, rows: pa.Table) -> pa.Table:
        context, schema = self._context, self._context.audit.schema
        write_shard(context.run_dir, rows, schema, attempt=context.attempt, format=context.store_format)
        counts = count_answers(rows, schema)
        for row in counts.to_pylist():
            for name, column in _STORED.items():
                self._metrics.add(name, row[column], arm=row["arm"])
        return counts

    def _to_reask(self, one: Presentation, reply: Generation) -> bool:
        """Whether options were shown and the reply, which is no error, names none of them."""
        work = self._context.work
        if work.reask is None or self._context.audit.read is not None or one.pieces or not one.options:
            return False
        first = score(reply, one.options, one.gold, work.reading)
        return first.finish_reason != FinishReason.ERROR and not first.answer.parsed

    def _reask(self, one: Presentation, request: Request) -> Request:
        by_text = self._context.work.reask == Reading.OPTION_TEXT
        return replace(
            request,
            max_tokens=1,
            continuations=one.options if by_text else (),
            letters=() if by_text else letters_of(len(one.options)),
        )

    def _row(
        self, item: Item, setting: Setting, one: Presentation, seed: int, given: Sequence[tuple[Answered, bool]]
    ) -> dict[str, Any]:
        """given: the answer, or that to each ballot, and whether this row pays for it; empty: it could not be asked."""
        context, work = self._context, self._context.work
        reading = Reading.TEXT if one.pieces else work.reading
        own: Mapping[str, Any] = {}
        failed = Generation(finish_reason=FinishReason.ERROR, error=one.error)
        answered: list[Answered] = [answer for answer, _ in given] or [(failed, None)]
        reply, second = answered[0]
        likelihoods = (second or reply).option_logprobs
        if context.audit.read is not None:
            scored, own = context.audit.read(work, item, setting, one, reply)
        else:
            ballots, replies = self._ballots(item, one, reading, answered)
            scored, reply = majority(ballots), replies[0]
            if len(ballots) > 1:
                reply, likelihoods = counted(replies, ballots), ()
        costs = [r for answer, paid in given if paid for r in answer if r is not None]
        told = context.audit.told
        return {
            "model": work.model, "model_revision": context.model_revision, "benchmark": item.benchmark,
            "question_id": item.id, "group": item.group, "arm": setting.arm,
            context.audit.schema.level: setting.level, "replicate": setting.replicate, "reading": reading,
            "question": item.text, "options": one.options, "prompt": one.prompt, "response": reply.text,
            "answer": scored.answer.index, "gold": one.gold, "answer_number": scored.answer.number,
            "target": item.target, "correct": scored.correct, "parsed": scored.answer.parsed,
            "reasked": any(second is not None for _, second in answered), "answer_form": scored.answer.form,
            "finish_reason": scored.finish_reason, "option_logprobs": likelihoods,
            "prompt_tokens": sum(r.prompt_tokens for r in costs),
            "cached_tokens": sum(r.cached_tokens for r in costs),
            "completion_tokens": sum(r.completion_tokens for r in costs), "engine_id": reply.engine_id, "seed": seed,
            "error": reply.error, "options_shown": self._options_shown,
            "request_sha256": reply.request_sha256 or None, **one.extras, **own,
            **(told(setting, reply) if told is not None else {}),
        }  # fmt: skip

    def _ballots(
        self, item: Item, one: Presentation, reading: Reading, answered: Sequence[Answered]
    ) -> tuple[list[Score], list[Generation]]:
        """A score for each reply, and the replies; where the sandbox fails a single one, which is an error."""
        try:
            return [self._scored(item, one, reading, *answer) for answer in answered], [r for r, _ in answered]
        except SandboxError as error:
            failed = replace(answered[0][0], finish_reason=FinishReason.ERROR, error=str(error))
            return [score(failed, one.options, one.gold, reading)], [failed]

    def _scored(
        self, item: Item, one: Presentation, reading: Reading, reply: Generation, second: Generation | None
    ) -> Score:
        """second: the likelihoods of the options, where the reply holds no answer (double sampling, Hansen and Hurwitz
        1946): they give the answer. An error there leaves it unparsed."""
        normalisation, reask = self._context.option_normalisation, self._context.work.reask
        scored = score(reply, one.options, one.gold, reading, normalisation, item)
        if second is not None and reask is not None:
            found = score(second, one.options, one.gold, reask, normalisation)
            if found.answer.parsed:
                return found._replace(finish_reason=scored.finish_reason)
        return scored
