"""The stages that Ray Data runs: chunk ids -> router messages -> scored outcomes in shards.

A *task* is one router set of one question (`audit.design`): task = question index x number of sets + set index. A
*chunk* is a block of tasks; it becomes one shard, named by its keys, so a retried chunk overwrites itself. Stages hold
handles to the engine actors, never an engine: routers and workers share one model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from numpy.typing import NDArray

from audit.design import Design, RouterSet
from audit.errors import EngineDiedError, EngineError, ShardError
from audit.prompting.prompts import direct_prompt, letters_of, router_prompt, worker_prompt
from audit.prompting.seeds import request_seed
from audit.prompting.templates import shows_options
from audit.records import (
    Arm,
    FinishReason,
    Generation,
    GenerationRequest,
    Outcome,
    Protocol,
    Question,
    Reading,
    Role,
)
from audit.runtime.balance import Balancer
from audit.runtime.metrics import AuditMetrics
from audit.scoring.score import score
from audit.shards.convert import outcomes_to_table
from audit.shards.questions import QuestionFile
from audit.shards.write import write_shard


@dataclass(frozen=True)
class Sampling:
    """Generation limits of one role."""

    max_tokens: int
    temperature: float
    top_p: float


@dataclass(frozen=True)
class StageContext:
    """All that the stages of one model's run share. Small: it travels to every stage process."""

    run_dir: str
    questions_path: str
    tasks_path: str  # .npy of the task numbers still to do
    attempt: str
    store_format: str
    tasks_per_chunk: int
    design: Design
    protocol: Protocol
    model: str
    model_revision: str
    reading: Reading
    option_normalisation: str
    router: Sampling
    worker: Sampling
    seed: int
    router_engines: tuple[Any, ...]
    worker_engines: tuple[Any, ...]

    def seed_of(self, question: Question, part: RouterSet, routers: int, role: Role, message: int = 0) -> int:
        return request_seed(
            run_seed=self.seed,
            model=self.model,
            benchmark=question.benchmark,
            question_id=question.id,
            arm=part.arm,
            routers=routers,
            replicate=part.replicate,
            role=role,
            message_index=message,
            draws=self.design.draws,
        )


class _EngineCaller:
    """Sends requests to the replicas of one model and puts the replies back in order."""

    def __init__(self, engines: Sequence[Any]) -> None:
        self._engines = engines
        self._balancer = Balancer(len(engines))

    def __call__(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        shares: dict[int, list[int]] = {}
        for i, request in enumerate(requests):
            shares.setdefault(self._balancer.take(request.question_id, 1), []).append(i)
        replies: list[Generation | None] = [None] * len(requests)
        try:
            pending = [
                (indices, self._engines[replica].run.remote([requests[i] for i in indices]))
                for replica, indices in shares.items()
            ]
            for indices, reference in pending:
                for i, reply in zip(indices, ray.get(reference), strict=True):
                    replies[i] = reply
        except ray.exceptions.RayActorError as error:
            raise EngineDiedError(
                "An engine's process died and was not started again (max_restarts of the model's configuration). Type "
                f"the same command again: it goes on where this one stopped. {str(error).splitlines()[0]}"
            ) from None  # the original cannot travel back to the driver
        except ray.exceptions.RaySystemError as error:
            # Ray Data would try this again for ever; a reply that cannot be read will not be readable then.
            raise EngineError(f"A reply of the engine could not be read: {error}") from error
        finally:
            for replica, indices in shares.items():
                self._balancer.give_back(replica, len(indices))
        return [reply for reply in replies if reply is not None]


class _Tally:
    """Calls and tokens per arm of one chunk: one metric update an arm, not one a call."""

    def __init__(self) -> None:
        self._sums: dict[str, list[int]] = {}

    def add(self, arm: str, reply: Generation) -> None:
        sums = self._sums.setdefault(arm, [0, 0, 0, 0])
        for i, value in enumerate((1, reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens)):
            sums[i] += value

    def report(self, metrics: AuditMetrics, role: Role) -> None:
        for arm, (calls, prompt, cached, completion) in self._sums.items():
            metrics.generations(arm, role, calls, prompt, cached, completion)


_MESSAGE_FIELDS = {
    "text": pa.string(),
    "finish_reason": pa.string(),
    "prompt_tokens": pa.int64(),
    "cached_tokens": pa.int64(),
    "completion_tokens": pa.int64(),
    "engine_id": pa.string(),
    "error": pa.string(),
}
_ROUTED = pa.schema([("task", pa.int64()), ("messages", pa.list_(pa.struct(list(_MESSAGE_FIELDS.items()))))])


class RouteStage:
    """Chunk ids -> every task's router messages (none for the direct arm)."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._call = _EngineCaller(context.router_engines)
        self._metrics = AuditMetrics(context.model)

    # Files are opened by the first call: what fails there reaches the driver in words, what fails in a constructor not.
    @cached_property
    def _questions(self) -> QuestionFile:
        return QuestionFile(Path(self._context.questions_path))

    @cached_property
    def _tasks(self) -> NDArray[np.int64]:
        try:
            tasks: NDArray[np.int64] = np.load(self._context.tasks_path, mmap_mode="r")
        except OSError as error:
            raise ShardError(
                f"{self._context.tasks_path} cannot be read ({error}). On a cluster, run_dir must be on a file system "
                "that every node shares."
            ) from error
        return tasks

    def __call__(self, batch: pa.Table) -> pa.Table:
        size = self._context.tasks_per_chunk
        tasks = [int(t) for c in batch["id"].to_pylist() for t in self._tasks[c * size : (c + 1) * size]]
        requests: list[GenerationRequest] = []
        owners: list[int] = []
        for i, (question, part) in enumerate(decode_tasks(tasks, self._context.design, self._questions)):
            if part.arm != Arm.DIRECT:
                requests += self._requests(question, part)
                owners += [i] * part.n_messages
        messages: list[list[dict[str, Any]]] = [[] for _ in tasks]
        tally = _Tally()
        for owner, request, reply in zip(owners, requests, self._call(requests), strict=True):
            messages[owner].append({name: getattr(reply, name) for name in _MESSAGE_FIELDS})
            tally.add(request.arm, reply)
        tally.report(self._metrics, Role.ROUTER)
        return pa.Table.from_pydict({"task": tasks, "messages": messages}, schema=_ROUTED)

    def _requests(self, question: Question, part: RouterSet) -> list[GenerationRequest]:
        context = self._context
        prompt = router_prompt(context.protocol, question, part.arm)
        return [
            GenerationRequest(
                prompt=prompt,
                question_id=question.id,
                role=Role.ROUTER,
                arm=part.arm,
                routers=part.n_messages,
                seed=context.seed_of(question, part, part.n_messages, Role.ROUTER, j),
                max_tokens=context.router.max_tokens,
                temperature=context.router.temperature,
                top_p=context.router.top_p,
            )
            for j in range(part.n_messages)
        ]


class AnswerStage:
    """Router messages -> what the worker saw, its answer and its score -> a shard on disk.

    Passes on only counts, so nothing large reaches the driver. The shard is written here and not by a stage of its own:
    the rows need no second trip between processes, and a process that imports Ray Data takes seconds to start.
    """

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._call = _EngineCaller(context.worker_engines)
        self._options_shown = shows_options(context.protocol)
        self._metrics = AuditMetrics(context.model)

    @cached_property
    def _questions(self) -> QuestionFile:  # opened by the first call, as in RouteStage
        return QuestionFile(Path(self._context.questions_path))

    def __call__(self, batch: pa.Table) -> pa.Table:
        tasks = batch["task"].to_pylist()
        parts = decode_tasks(tasks, self._context.design, self._questions)
        rows: list[tuple[Question, RouterSet, int, list[Generation], GenerationRequest]] = []
        for (question, part), stored in zip(parts, batch["messages"].to_pylist(), strict=True):
            messages = [
                Generation(**{**fields, "finish_reason": FinishReason(fields["finish_reason"])}) for fields in stored
            ]
            for routers in part.routers:
                used = messages[:routers]
                rows.append((question, part, routers, used, self._request(question, part, routers, used)))
        # A router call that failed leaves nothing to answer from: the row is an error, not a wrong answer.
        sent = [request for *_, used, request in rows if not any(m.error for m in used)]
        replies = iter(self._call(sent))
        outcomes = []
        tally = _Tally()
        for question, part, routers, used, request in rows:
            failed = next((m.error for m in used if m.error), None)
            reply = next(replies) if failed is None else Generation(finish_reason=FinishReason.ERROR, error=failed)
            outcomes.append(self._outcome(question, part, routers, used, request, reply))
            if failed is None:
                tally.add(part.arm, reply)
        tally.report(self._metrics, Role.WORKER)
        return self._store(outcomes_to_table(outcomes))

    def _store(self, rows: pa.Table) -> pa.Table:
        context = self._context
        write_shard(Path(context.run_dir), rows, attempt=context.attempt, format=context.store_format)
        counts = count_rows(rows)
        for row in counts.to_pylist():
            self._metrics.stored(row["arm"], row["rows"], row["unparsed"], row["errors"])
        return counts

    def _request(
        self, question: Question, part: RouterSet, routers: int, messages: Sequence[Generation]
    ) -> GenerationRequest:
        context = self._context
        if part.arm == Arm.DIRECT:
            prompt = direct_prompt(context.protocol, question, context.reading)
        else:
            texts = [m.text for m in messages]
            prompt = worker_prompt(context.protocol, texts, len(question.options), context.reading)
        return GenerationRequest(
            prompt=prompt,
            question_id=question.id,
            role=Role.WORKER,
            arm=part.arm,
            routers=routers,
            seed=context.seed_of(question, part, routers, Role.WORKER),
            max_tokens=context.worker.max_tokens,
            temperature=context.worker.temperature,
            top_p=context.worker.top_p,
            continuations=question.options if context.reading == Reading.OPTION_TEXT else (),
            letters=letters_of(len(question.options)) if context.reading == Reading.LETTER_LOGPROB else (),
        )

    def _outcome(
        self,
        question: Question,
        part: RouterSet,
        routers: int,
        messages: Sequence[Generation],
        request: GenerationRequest,
        reply: Generation,
    ) -> Outcome:
        context = self._context
        scored = score(reply, question.options, question.gold, context.reading, context.option_normalisation)
        # Nested draws: r pays for the messages that the next smaller r did not already have.
        paid = messages[max((r for r in part.routers if r < routers), default=0) :]
        return Outcome(
            model=context.model,
            model_revision=context.model_revision,
            benchmark=question.benchmark,
            question_id=question.id,
            group=question.group,
            arm=part.arm,
            routers=routers,
            replicate=part.replicate,
            draws=context.design.draws,
            reading=context.reading,
            question=question.text,
            options=question.options,
            router_messages=tuple(m.text for m in messages),
            router_finish_reasons=tuple(m.finish_reason for m in messages),
            worker_prompt=request.prompt,
            response=reply.text,
            answer=scored.answer.index,
            gold=question.gold,
            correct=scored.correct,
            parsed=scored.answer.parsed,
            answer_form=scored.answer.form,
            finish_reason=scored.finish_reason,
            option_logprobs=reply.option_logprobs,
            prompt_tokens=reply.prompt_tokens,
            cached_tokens=reply.cached_tokens,
            completion_tokens=reply.completion_tokens,
            router_prompt_tokens=sum(m.prompt_tokens for m in paid),
            router_cached_tokens=sum(m.cached_tokens for m in paid),
            router_completion_tokens=sum(m.completion_tokens for m in paid),
            engine_id=reply.engine_id,
            router_engine_ids=tuple(m.engine_id for m in messages),
            seed=request.seed,
            error=reply.error,
            options_shown=self._options_shown,
        )


def count_rows(rows: pa.Table) -> pa.Table:
    """Per (arm, routers): rows, errors, unparsed, correct, calls and tokens by role."""
    flagged = pa.table(
        {
            "arm": rows["arm"],
            "routers": rows["routers"],
            "rows": pa.array(np.ones(rows.num_rows, dtype=np.int64)),
            "errors": rows["error"].is_valid().cast(pa.int64()),
            "unparsed": pa.array((~rows["parsed"].to_numpy()) & rows["error"].is_null().to_numpy()).cast(pa.int64()),
            "correct": rows["correct"].fill_null(False).cast(pa.int64()),
            **{name: rows[name].cast(pa.int64()) for name in TOKEN_COLUMNS},
        }
    )
    names = [name for name in flagged.column_names if name not in ("arm", "routers")]
    summed = flagged.group_by(["arm", "routers"]).aggregate([(name, "sum") for name in names])
    return summed.rename_columns([name.removesuffix("_sum") for name in summed.column_names])


TOKEN_COLUMNS = (
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "router_prompt_tokens",
    "router_cached_tokens",
    "router_completion_tokens",
)


def decode_tasks(tasks: Sequence[int], design: Design, questions: QuestionFile) -> list[tuple[Question, RouterSet]]:
    """Task numbers -> their question and router set."""
    n_sets = len(design.sets)
    wanted = sorted({task // n_sets for task in tasks})
    if wanted and wanted[-1] - wanted[0] < 2 * len(wanted):  # neighbours, as in a fresh run: one read
        found = dict(enumerate(questions.slice(wanted[0], wanted[-1] + 1), start=wanted[0]))
    else:
        found = {index: questions[index] for index in wanted}
    return [(found[task // n_sets], design.sets[task % n_sets]) for task in tasks]
