"""The stages that Ray Data runs: chunk ids -> calls before the answer -> scored rows in shards. They know no audit.

A *task* is one part of one question's design: task = question index x number of parts + part index. A *chunk* is a
block of tasks; it becomes one shard, named by its keys, so a retried chunk overwrites itself. Stages hold handles to
the engine actors, never an engine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from audit.audits import Audit, Work, answer_request
from audit.errors import SandboxError, ShardError
from audit.prompting.prompts import letters_of
from audit.prompting.templates import shows_options
from audit.records import (
    ANSWER_ROLE,
    Design,
    FinishReason,
    Generation,
    GenerationRequest,
    Part,
    Presentation,
    Question,
    Reading,
    Setting,
)
from audit.runtime.call import EngineCaller
from audit.runtime.metrics import AuditMetrics
from audit.scoring.score import score
from audit.shards.complete import count_answers
from audit.shards.keys import rows_to_table
from audit.shards.questions import QuestionFile
from audit.shards.working_copy import local_file
from audit.shards.write import write_shard


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


class _Tally:
    """Calls and tokens per arm and engine of one chunk: one metric update for each, not one a call."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], list[int]] = {}

    def add(self, arm: str, reply: Generation) -> None:
        sums = self._sums.setdefault((arm, reply.engine_id), [0, 0, 0, 0])
        for i, value in enumerate((1, reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens)):
            sums[i] += value

    def report(self, metrics: AuditMetrics, role: str) -> None:
        for (arm, engine), sums in self._sums.items():
            metrics.generations(arm, engine, role, *sums)


class TaskReader:
    """Chunk ids -> tasks -> their question and part.

    Files are opened by the first call: what fails there reaches the driver in words, what fails in a constructor not.
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
        size = self._context.tasks_per_chunk
        return [int(t) for c in chunks for t in self._tasks[c * size : (c + 1) * size]]

    def decode(self, tasks: Sequence[int]) -> list[tuple[Question, Part]]:
        return decode_tasks(tasks, self._context.work.design, self._questions)


_REPLY_FIELDS = {
    "text": pa.string(),
    "finish_reason": pa.string(),
    "prompt_tokens": pa.int64(),
    "cached_tokens": pa.int64(),
    "completion_tokens": pa.int64(),
    "engine_id": pa.string(),
    "error": pa.string(),
}
_PREPARED = pa.schema([("task", pa.int64()), ("replies", pa.list_(pa.struct(list(_REPLY_FIELDS.items()))))])


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
        requests: list[GenerationRequest] = []
        owners: list[tuple[int, str]] = []
        for i, (question, part) in enumerate(self._reader.decode(tasks)):
            asked = self._audit.prepare(self._work, question, part)
            requests += asked
            owners += [(i, part.arm)] * len(asked)
        replies: list[list[dict[str, Any]]] = [[] for _ in tasks]
        tally = _Tally()
        for (owner, arm), reply in zip(owners, self._call(requests), strict=True):
            replies[owner].append({name: getattr(reply, name) for name in _REPLY_FIELDS})
            tally.add(arm, reply)
        tally.report(self._metrics, self._audit.prepare_role)
        return pa.Table.from_pydict({"task": tasks, "replies": replies}, schema=_PREPARED)


class AnswerStage:
    """Tasks -> what the model was asked, its answer and its score -> a shard on disk.

    Passes on only counts, so nothing large reaches the driver. The shard is written here and not by a stage of its own:
    the rows need no second trip between processes, and a process that imports Ray Data takes seconds to start.
    """

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._call = EngineCaller(context.answering_engines)
        self._options_shown = shows_options(context.work.protocol)
        self._metrics = AuditMetrics(context.work.model)
        self._reader = TaskReader(context)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """batch: chunk ids, or what `PrepareStage` made of them."""
        audit, work = self._context.audit, self._context.work
        if "task" in batch.column_names:
            tasks, prepared = batch["task"].to_pylist(), batch["replies"].to_pylist()
        else:
            tasks = self._reader.tasks(batch["id"].to_pylist())
            prepared = [[]] * len(tasks)
        asked: list[tuple[Question, Setting, Presentation, GenerationRequest]] = []
        for (question, part), stored in zip(self._reader.decode(tasks), prepared, strict=True):
            replies = [Generation(**{**one, "finish_reason": FinishReason(one["finish_reason"])}) for one in stored]
            presented = audit.present(work, question, part, replies)
            for setting, one in zip(part.settings, presented, strict=True):
                asked.append((question, setting, one, answer_request(work, question, setting, one)))
        sent = iter(self._call([request for _, _, one, request in asked if one.error is None]))
        tally = _Tally()
        answers: list[tuple[Generation, Generation | None]] = []
        for _, setting, one, _ in asked:
            # What could not be presented leaves nothing to answer from: the row is an error, not a wrong answer.
            if one.error is None:
                answers.append((next(sent), None))
                tally.add(setting.arm, answers[-1][0])
            else:
                answers.append((Generation(finish_reason=FinishReason.ERROR, error=one.error), None))
        again = [i for i, (first, _) in enumerate(answers) if self._to_reask(asked[i][2], first)]
        for i, second in zip(again, self._call([self._reask(*asked[i][2:]) for i in again]), strict=True):
            answers[i] = (answers[i][0], second)
            tally.add(asked[i][1].arm, second)
        every = [(*one, *answer) for one, answer in zip(asked, answers, strict=True)]
        rows = self._run_code(every) if work.reading == Reading.CODE else [self._row(*one) for one in every]
        tally.report(self._metrics, ANSWER_ROLE)
        return self._store(rows_to_table(rows, audit.schema))

    def _run_code(self, every: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
        """The rows of problems: each runs a program, some side by side."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda one: self._row(*one), every))

    def _store(self, rows: pa.Table) -> pa.Table:
        context, schema = self._context, self._context.audit.schema
        write_shard(context.run_dir, rows, schema, attempt=context.attempt, format=context.store_format)
        counts = count_answers(rows, schema)
        for row in counts.to_pylist():
            self._metrics.stored(row["arm"], row["rows"], row["unparsed"], row["errors"])
        return counts

    def _to_reask(self, one: Presentation, reply: Generation) -> bool:
        """Whether options were shown and the reply, which is no error, names none of them."""
        work = self._context.work
        if work.reask is None or self._context.audit.read is not None or one.pieces or not one.options:
            return False
        first = score(reply, one.options, one.gold, work.reading)
        return first.finish_reason != FinishReason.ERROR and not first.answer.parsed

    def _reask(self, one: Presentation, request: GenerationRequest) -> GenerationRequest:
        by_text = self._context.work.reask == Reading.OPTION_TEXT
        return replace(
            request,
            max_tokens=1,
            continuations=one.options if by_text else (),
            letters=() if by_text else letters_of(len(one.options)),
        )

    def _row(
        self,
        question: Question,
        setting: Setting,
        one: Presentation,
        request: GenerationRequest,
        reply: Generation,
        second: Generation | None,
    ) -> dict[str, Any]:
        """second: the likelihoods of the options, where the reply holds no answer (double sampling, Hansen and Hurwitz
        1946): they give the answer, and what they cost is added. An error there leaves the row unparsed."""
        context, work = self._context, self._context.work
        reading = Reading.TEXT if one.pieces else work.reading
        own: Mapping[str, Any] = {}
        if context.audit.read is not None:
            scored, own = context.audit.read(work, question, setting, one, reply)
        else:
            normalisation = context.option_normalisation
            try:
                scored = score(reply, one.options, one.gold, reading, normalisation, question.target, question)
            except SandboxError as error:
                reply = replace(reply, finish_reason=FinishReason.ERROR, error=str(error))
                scored = score(reply, one.options, one.gold, reading)
        costs, likelihoods = [reply], reply.option_logprobs
        if second is not None and work.reask is not None:
            costs, likelihoods = [reply, second], second.option_logprobs
            if (found := score(second, one.options, one.gold, work.reask, context.option_normalisation)).answer.parsed:
                scored = found._replace(finish_reason=scored.finish_reason)
        told = context.audit.told
        return {
            "model": work.model,
            "model_revision": context.model_revision,
            "benchmark": question.benchmark,
            "question_id": question.id,
            "group": question.group,
            "arm": setting.arm,
            context.audit.schema.level: setting.level,
            "replicate": setting.replicate,
            "reading": reading,
            "question": question.text,
            "options": one.options,
            "prompt": one.prompt,
            "response": reply.text,
            "answer": scored.answer.index,
            "gold": one.gold,
            "answer_number": scored.answer.number,
            "target": question.target,
            "correct": scored.correct,
            "parsed": scored.answer.parsed,
            "reasked": second is not None,
            "answer_form": scored.answer.form,
            "finish_reason": scored.finish_reason,
            "option_logprobs": likelihoods,
            "prompt_tokens": sum(r.prompt_tokens for r in costs),
            "cached_tokens": sum(r.cached_tokens for r in costs),
            "completion_tokens": sum(r.completion_tokens for r in costs),
            "engine_id": reply.engine_id,
            "seed": request.seed,
            "error": reply.error,
            "options_shown": self._options_shown,
            "request_sha256": reply.request_sha256 or None,
            **one.extras,
            **own,
            **(told(setting, reply) if told is not None else {}),
        }


def decode_tasks(tasks: Sequence[int], design: Design, questions: QuestionFile) -> list[tuple[Question, Part]]:
    """Task numbers -> their question and part."""
    n_parts = len(design.parts)
    wanted = sorted({task // n_parts for task in tasks})
    if wanted and wanted[-1] - wanted[0] < 2 * len(wanted):  # neighbours, as in a fresh run: one read
        found = dict(enumerate(questions.slice(wanted[0], wanted[-1] + 1), start=wanted[0]))
    else:
        found = {index: questions[index] for index in wanted}
    return [(found[task // n_parts], design.parts[task % n_parts]) for task in tasks]
