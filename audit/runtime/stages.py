"""Define the stages that Ray Data runs.

The first stage receives chunk ids, and makes the calls before the answer. The second stage asks the
model, and writes the scored rows to shards. If no calls are made before the answer, the second
stage receives the chunk ids.

The stages are the same for every audit. A *task* is one part of one question's design. Its number
is

    task = question index * number of parts + part index

A *chunk* is a block of tasks. The rows of a chunk become one shard. The name of the shard is
computed from the keys of its rows, so a repeated chunk overwrites its own shard. Stages hold
handles of engine actors, never an engine.
"""

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

from audit.config.audits import Audit, Work, answer_requests
from audit.core.errors import SandboxError, ShardError
from audit.core.prompting import letters_of, shows_options
from audit.core.records import (
    ANSWER_ROLE,
    FinishReason,
    Generation,
    Item,
    Part,
    Presentation,
    Reading,
    Setting,
)
from audit.core.records import GenerationRequest as Request
from audit.runtime.call import EngineCaller
from audit.scoring.score import Score, counted, majority, score
from audit.shards.complete import count_answers
from audit.shards.keys import rows_to_table
from audit.shards.questions import QuestionFile
from audit.shards.working_copy import local_file
from audit.shards.write import write_shard

# The Ray dashboard shows these metrics, and Prometheus collects them with labels for model and arm.
# The folder cluster/monitoring has a Grafana dashboard and alerts for these metrics.
METRICS = {
    "generations": "Engine calls answered",
    "tokens": "Tokens processed",
    "questions_done": "Rows stored, one for each question and setting",
    "parse_failures": "Replies without a readable answer",
    "errors": "Rows without an answer because a call failed",
    "retries": "Repeated endpoint calls",
    "cost": "Money spent by this start of the run, in the currency of cost.currency",
}


class AuditMetrics:
    """Hold the counters of one stage process.

    A counter belongs to the process that increments it.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._counters: dict[str, Counter] = {}

    def add(self, name: str, value: float, *, arm: str = "all", **tags: str) -> None:
        """Increase one of the counters that METRICS lists.

        Parameters
        ----------
        name : str
            Name of the counter.
        value : float
            The amount of the increase; 0 does nothing.
        arm : str
            Arm that is given as a label; "all" if the counter does not distinguish arms.
        tags : str
            Further labels, as name=value.
        """
        if value > 0:
            tags |= {"model": self._model, "arm": arm}
            self._counter(name, tags).inc(value, tags=tags)

    def begin(self, name: str, *, arm: str = "all", **tags: str) -> None:
        """Export a counter with the value 0.

        Without this first value, Prometheus would not see the counter's first increase.

        Parameters
        ----------
        name : str
            Name of the counter.
        arm : str
            Arm that is given as a label; "all" if the counter does not distinguish arms.
        tags : str
            Further labels, as name=value.
        """
        tags |= {"model": self._model, "arm": arm}
        # The method `inc` does not accept 0, and Ray has no public function that exports a 0.
        self._counter(name, tags)._record(0.0, tags=tags)

    def _counter(self, name: str, tags: Mapping[str, str]) -> Counter:
        if name not in self._counters:
            self._counters[name] = Counter(
                f"audit_{name}_total", METRICS[name], tag_keys=tuple(tags)
            )
        return self._counters[name]

    def answered(self, role: str, replies: Iterable[tuple[str, Generation]]) -> None:
        """Count the replies of one chunk, with one update for each arm and engine.

        Parameters
        ----------
        role : str
            The role of the calls.
        replies : iterable of (str, Generation)
            Pairs of arm and reply.
        """
        sums: dict[tuple[str, str], collections.Counter[str]] = {}
        for arm, reply in replies:
            sums.setdefault((arm, reply.engine_id), collections.Counter()).update(
                calls=1,
                prompt=reply.prompt_tokens,
                cached=reply.cached_tokens,
                completion=reply.completion_tokens,
            )
        for (arm, engine), counts in sums.items():
            self.add("generations", counts.pop("calls"), arm=arm, engine=engine, role=role)
            for kind, n in counts.items():
                self.add("tokens", n, arm=arm, engine=engine, kind=kind)


# This pair holds the first reply, and the reply to the repeated question if the first reply was
# unparsed.
Answered = tuple[Generation, Generation | None]


@dataclass(frozen=True)
class StageContext:
    """Hold the settings that the stages of one model's run share.

    Every stage process gets a copy of the settings, so they must be small.
    """

    audit: Audit
    work: Work
    run_dir: str  # path or URL of object storage, as are the next two fields
    questions_path: str
    tasks_path: str  # .npy file of the remaining task numbers
    attempt: str
    store_format: str
    tasks_per_chunk: int
    model_revision: str
    option_normalisation: str
    preparing_engines: tuple[Any, ...]
    answering_engines: tuple[Any, ...]


class TaskReader:
    """Read the tasks of chunks, and the question and part of each task.

    The files are opened at the first call. An error in a call is readable for the driver, while an
    error in the constructor is not.
    """

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
        """Return the task numbers of the given chunks."""
        size = self._context.tasks_per_chunk
        tasks: list[int] = []
        for chunk in chunks:
            tasks += map(int, self._tasks[chunk * size : (chunk + 1) * size])
        return tasks

    def decode(self, tasks: Sequence[int]) -> list[tuple[Item, Part]]:
        """Return the question and part of each task.

        Parameters
        ----------
        tasks : sequence of int
            Task numbers.

        Returns
        -------
        list of (Item, Part)
            The pairs, in the order of the tasks.
        """
        parts = self._context.work.design.parts
        wanted = sorted({task // len(parts) for task in tasks})
        # Neighbouring questions, which a new run has, are read at once.
        if wanted and wanted[-1] - wanted[0] < 2 * len(wanted):
            items = dict(
                enumerate(self._questions.slice(wanted[0], wanted[-1] + 1), start=wanted[0])
            )
        else:
            items = {index: self._questions[index] for index in wanted}
        return [(items[task // len(parts)], parts[task % len(parts)]) for task in tasks]


_REPLY_FIELDS = {
    **dict.fromkeys(("text", "finish_reason", "engine_id", "error"), pa.string()),
    **dict.fromkeys(("prompt_tokens", "cached_tokens", "completion_tokens"), pa.int64()),
}
_PREPARED = pa.schema(
    [("task", pa.int64()), ("replies", pa.list_(pa.struct(list(_REPLY_FIELDS.items()))))]
)


def _reply_fields(reply: Generation) -> dict[str, Any]:
    return {name: getattr(reply, name) for name in _REPLY_FIELDS}


def _reply_from(fields: Mapping[str, Any]) -> Generation:
    return Generation(**{**fields, "finish_reason": FinishReason(fields["finish_reason"])})


def priority_of(tasks: Sequence[int]) -> int:
    """Return the priority of a chunk's calls, which is the number of its first task.

    Questions are thus finished in order, and their rows are soon written to disk.
    """
    return min(tasks, default=0)


class PrepareStage:
    """Make the calls before the answer (`Audit.prepare`) for every task of the chunks."""

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
        while True:
            owners: list[int] = []
            requests: list[Request] = []
            for i, (question, part) in enumerate(parts):
                wanted = self._audit.prepare(self._work, question, part, replies[i])
                owners += [i] * len(wanted)
                requests += wanted
            if not requests:
                break
            for i, reply in zip(owners, self._call(requests, priority_of(tasks)), strict=True):
                replies[i].append(reply)
        with_arms: list[tuple[str, Generation]] = []
        stored = []
        for (_, part), of_task in zip(parts, replies, strict=True):
            with_arms += [(part.arm, reply) for reply in of_task]
            stored.append([_reply_fields(reply) for reply in of_task])
        self._metrics.answered(self._audit.prepare_role, with_arms)
        return pa.Table.from_pydict({"task": tasks, "replies": stored}, schema=_PREPARED)


# This dict maps each counter to the column of the counts that it adds up.
_STORED = {
    "questions_done": "rows",
    "parse_failures": "unparsed",
    "errors": "errors",
}


class AnswerStage:
    """Ask the model, score its answers, and write a shard to disk.

    The stage returns only counts, so the driver receives little data. The stage itself writes the
    shard. Another process would first have to receive the rows and import Ray Data, which takes
    seconds.
    """

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
        """Answer a batch of chunk ids, or a batch of results of `PrepareStage`."""
        audit, work = self._context.audit, self._context.work
        if "task" in batch.column_names:
            tasks, prepared = batch["task"].to_pylist(), batch["replies"].to_pylist()
        else:
            tasks = self._reader.tasks(batch["id"].to_pylist())
            prepared = [[] for _ in tasks]
        rows_to_ask: list[tuple[Item, Setting, Presentation, tuple[Request, ...]]] = []
        for (question, part), stored in zip(self._reader.decode(tasks), prepared, strict=True):
            presentations = audit.present(work, question, part, list(map(_reply_from, stored)))
            for setting, presented in zip(part.settings, presentations, strict=True):
                requests = answer_requests(work, question, setting, presented)
                rows_to_ask.append((question, setting, presented, requests))
        # If a question could not be presented, it is not asked. Its row is an error and not a wrong
        # answer.
        calls: dict[Request, tuple[Setting, Presentation]] = {}
        for _, setting, presented, requests in rows_to_ask:
            if presented.error is None:
                calls |= dict.fromkeys(requests, (setting, presented))
        answers = self._answers(calls, priority_of(tasks))
        row_inputs = []
        for question, setting, presented, requests in rows_to_ask:
            given: list[tuple[Answered, bool]] = []
            if presented.error is None:
                # If several rows share one vote of the model, only the first row counts the cost of
                # the vote.
                given = [(answers[r], calls.pop(r, None) is not None) for r in requests]
            row_inputs.append((question, setting, presented, requests[0].seed, given))
        # Scoring a programming problem runs a program, so several rows are scored in parallel.
        with ThreadPoolExecutor(os.cpu_count() if work.reading == Reading.CODE else 1) as pool:
            rows = list(pool.map(lambda inputs: self._row(*inputs), row_inputs))
        return self._store(rows_to_table(rows, audit.schema))

    def _answers(
        self, calls: Mapping[Request, tuple[Setting, Presentation]], priority: int
    ) -> dict[Request, Answered]:
        first = dict(zip(calls, self._call(list(calls), priority), strict=True))
        unparsed = []
        for r, reply in first.items():
            if self._to_reask(calls[r][1], reply):
                unparsed.append(r)
        repeated = [self._reask(calls[r][1], r) for r in unparsed]
        second = dict(zip(unparsed, self._call(repeated, priority), strict=True))
        self._metrics.answered(
            ANSWER_ROLE,
            ((calls[r][0].arm, reply) for r, reply in chain(first.items(), second.items())),
        )
        return {r: (reply, second.get(r)) for r, reply in first.items()}

    def _store(self, rows: pa.Table) -> pa.Table:
        context, schema = self._context, self._context.audit.schema
        write_shard(
            context.run_dir, rows, schema, attempt=context.attempt, format=context.store_format
        )
        counts = count_answers(rows, schema)
        for row in counts.to_pylist():
            for name, column in _STORED.items():
                self._metrics.add(name, row[column], arm=row["arm"])
        return counts

    def _to_reask(self, presented: Presentation, reply: Generation) -> bool:
        """Return whether the question must be repeated.

        It is repeated if options were shown and the reply names no option, but not if the call
        failed.
        """
        work = self._context.work
        if (
            work.reask is None
            or self._context.audit.read is not None
            or presented.pieces
            or not presented.options
        ):
            return False
        first = score(reply, presented.options, presented.gold, work.reading)
        return first.finish_reason != FinishReason.ERROR and not first.answer.parsed

    def _reask(self, presented: Presentation, request: Request) -> Request:
        by_text = self._context.work.reask == Reading.OPTION_TEXT
        return replace(
            request,
            max_tokens=1,
            continuations=presented.options if by_text else (),
            letters=() if by_text else letters_of(len(presented.options)),
        )

    def _row(
        self,
        item: Item,
        setting: Setting,
        presented: Presentation,
        seed: int,
        given: Sequence[tuple[Answered, bool]],
    ) -> dict[str, Any]:
        """Return the row of a question.

        `given` holds the answer, or one answer for each vote of a majority vote. Each answer is
        paired with True if this row counts the cost of the answer. `given` is empty if the question
        could not be asked.
        """
        context, work = self._context, self._context.work
        reading = Reading.TEXT if presented.pieces else work.reading
        extra: Mapping[str, Any] = {}
        failed = Generation(finish_reason=FinishReason.ERROR, error=presented.error)
        answered: list[Answered] = [answer for answer, _ in given] or [(failed, None)]
        reply, second = answered[0]
        likelihoods = (second or reply).option_logprobs
        if context.audit.read is not None:
            scored, extra = context.audit.read(work, item, setting, presented, reply)
        else:
            ballots, replies = self._ballots(item, presented, reading, answered)
            scored, reply = majority(ballots), replies[0]
            if len(ballots) > 1:
                reply, likelihoods = counted(replies, ballots), ()
        prompt_tokens, cached_tokens, completion_tokens = 0, 0, 0
        for answer, paid in given:
            for call in answer if paid else ():
                if call is not None:
                    prompt_tokens += call.prompt_tokens
                    cached_tokens += call.cached_tokens
                    completion_tokens += call.completion_tokens
        reply_columns = context.audit.reply_columns
        return {
            "model": work.model,
            "model_revision": context.model_revision,
            "benchmark": item.benchmark,
            "question_id": item.id,
            "group": item.group,
            "arm": setting.arm,
            context.audit.schema.level: setting.level,
            "replicate": setting.replicate,
            "reading": reading,
            "question": item.text,
            "options": presented.options,
            "prompt": presented.prompt,
            "response": reply.text,
            "answer": scored.answer.index,
            "gold": presented.gold,
            "answer_number": scored.answer.number,
            "target": item.target,
            "correct": scored.correct,
            "parsed": scored.answer.parsed,
            "reasked": any(second is not None for _, second in answered),
            "answer_form": scored.answer.form,
            "finish_reason": scored.finish_reason,
            "option_logprobs": likelihoods,
            "prompt_tokens": prompt_tokens,
            "cached_tokens": cached_tokens,
            "completion_tokens": completion_tokens,
            "engine_id": reply.engine_id,
            "seed": seed,
            "error": reply.error,
            "options_shown": self._options_shown,
            "request_sha256": reply.request_sha256 or None,
            **presented.extras,
            **extra,
            **(reply_columns(setting, reply) if reply_columns is not None else {}),
        }

    def _ballots(
        self, item: Item, presented: Presentation, reading: Reading, answered: Sequence[Answered]
    ) -> tuple[list[Score], list[Generation]]:
        """Score each reply, and return the scores and the replies.

        If the sandbox fails, the list of scores has one entry, which is an error.
        """
        try:
            ballots, replies = [], []
            for first, second in answered:
                ballots.append(self._scored(item, presented, reading, first, second))
                replies.append(first)
            return ballots, replies
        except SandboxError as error:
            failed = replace(answered[0][0], finish_reason=FinishReason.ERROR, error=str(error))
            return [score(failed, presented.options, presented.gold, reading)], [failed]

    def _scored(
        self,
        item: Item,
        presented: Presentation,
        reading: Reading,
        reply: Generation,
        second: Generation | None,
    ) -> Score:
        """Return the score of a reply.

        If the reply is unparsed, the answer is read from `second`, which holds the likelihoods of
        the options (double sampling, Hansen and Hurwitz 1946). If `second` is an error, the reply
        stays unparsed.
        """
        normalisation, reask = self._context.option_normalisation, self._context.work.reask
        scored = score(reply, presented.options, presented.gold, reading, normalisation, item)
        if second is not None and reask is not None:
            by_likelihood = score(second, presented.options, presented.gold, reask, normalisation)
            if by_likelihood.answer.parsed:
                return by_likelihood._replace(finish_reason=scored.finish_reason)
        return scored
