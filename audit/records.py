"""The one vocabulary: what the stages hand to each other. Dicts appear only at the Arrow edge (`audit.shards`).

Question --router prompts--> GenerationRequest --engine--> Generation (a router message)
         --aggregate-------> Presentation (what the worker sees) --engine--> Generation
         --scoring---------> Answer --> Outcome, one row of a shard
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

NO_OPTION = -1  # `gold` of an item that has no options: never a valid index, and never the first option


class Arm(StrEnum):
    """How a question reaches the worker (song2026, section 4.2; `direct` is ours)."""

    DIRECT = "direct"  # the original question, no router
    FORWARD_FULL = "forward_full"  # routers transmit it whole; r=1 is the clean baseline, r>1 the ensemble control
    NOISY_REWRITE = "noisy_rewrite"  # routers delete, rewrite and add noise


class Draws(StrEnum):
    """Whether each r has router messages of its own (as in the paper) or uses the first r of one set."""

    INDEPENDENT = "independent"
    NESTED = "nested"


class Reading(StrEnum):
    """How an answer is read from the worker."""

    LETTER = "letter"  # generated text -> option letter
    LETTER_LOGPROB = "letter_logprob"  # the letters' own next-token logprobs, at any rank
    OPTION_TEXT = "option_text"  # log-likelihood of each option's text


class Role(StrEnum):
    """Which of the two parts of the protocol a request belongs to."""

    ROUTER = "router"
    WORKER = "worker"


class FinishReason(StrEnum):
    """Why a generation ended."""

    STOP = "stop"
    LENGTH = "length"  # cut off at max_tokens: truncated, which is not the same as wrong
    SCORED = "scored"  # nothing was generated; options were scored
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Question:
    """One item: multiple-choice in the order in which its options are shown, or with a free-form number as answer.

    `id` is stable and unique within `benchmark`. `gold` indexes `options`. `group` names the cluster that resampling
    keeps together (subject, passage, BBQ's group of four); it is the item's own id where there is none.
    `order[i]` is the published position of the option shown at position i (identity unless shuffled).
    `target` is the right number where the answer is one (GSM8K): then `options` is empty and `gold` is NO_OPTION. It is
    a float: a column of its own in Arrow, and two decimals that are equal in writing are equal as floats.
    """

    id: str
    benchmark: str
    text: str
    options: tuple[str, ...]
    gold: int
    group: str
    order: tuple[int, ...] = ()
    target: float | None = None


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """One condition under which every question is answered. `routers` is 0 for `direct`."""

    arm: Arm
    routers: int
    replicate: int = 0


@dataclass(frozen=True, slots=True)
class CellRows:
    """Rows of one model on one benchmark: found in the shards, and asked for by the run (None: no manifest says it)."""

    model: str
    benchmark: str
    found: int
    expected: int | None

    @property
    def complete(self) -> bool:
        """False only where rows are known to be missing."""
        return self.expected is None or self.found == self.expected

    @property
    def watermark(self) -> str:
        """Such as "incomplete, 512 of 1,000 answers"; empty where nothing is known to be missing."""
        return "" if self.complete else f"incomplete, {self.found:,} of {self.expected:,} answers"


@dataclass(frozen=True)  # without slots: pickled between processes by the million, and that is quicker from a __dict__
class GenerationRequest:
    """One call to an engine: a user message, and either generate or score.

    `continuations` non-empty: score the log-likelihood of each as the reply. `letters` non-empty: read the logprob of
    each as the reply's first token. Both empty: generate. `question_id`, `role`, `arm` and `routers` serve affinity
    and metrics; no real model is shown them.
    """

    prompt: str
    question_id: str
    role: Role
    arm: Arm
    routers: int
    seed: int
    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    continuations: tuple[str, ...] = ()
    letters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generation:
    """What an engine returned. `error` set means no answer at all: the other fields then say nothing.

    `option_logprobs` is the total logprob (nats) of each continuation or letter; None where an endpoint does not tell.
    `option_tokens` counts the tokens of each continuation.
    """

    text: str = ""
    finish_reason: FinishReason = FinishReason.STOP
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    engine_id: str = ""
    option_logprobs: tuple[float | None, ...] = ()
    option_tokens: tuple[int, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as read. `index` is None when it could not be parsed, which is its own state and never "wrong".

    `form` says how it was found: "strict", "lenient", "logprob", or "none".
    """

    index: int | None
    form: str

    @property
    def parsed(self) -> bool:
        return self.index is not None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One row of a shard: one question under one setting by one model. `shards.schema` documents the columns."""

    model: str
    model_revision: str
    benchmark: str
    question_id: str
    group: str
    arm: Arm
    routers: int
    replicate: int
    draws: Draws
    reading: Reading
    question: str
    options: tuple[str, ...]
    router_messages: tuple[str, ...]
    router_finish_reasons: tuple[str, ...]
    worker_prompt: str
    response: str
    answer: int | None
    gold: int
    correct: bool | None  # None when unparsed or error
    parsed: bool
    answer_form: str
    finish_reason: str
    option_logprobs: tuple[float | None, ...]
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    router_prompt_tokens: int  # of the router calls made for this row (nested draws: only the message this r added)
    router_cached_tokens: int
    router_completion_tokens: int
    engine_id: str
    router_engine_ids: tuple[str, ...]
    seed: int
    error: str | None = None
    options_shown: bool = True  # False: a cloze protocol, whose options are scored but never shown

    @property
    def key(self) -> OutcomeKey:
        return OutcomeKey(self.model, self.benchmark, self.question_id, self.arm, self.routers, self.replicate)


@dataclass(frozen=True, slots=True, order=True)
class OutcomeKey:
    """What makes a row unique."""

    model: str
    benchmark: str
    question_id: str
    arm: Arm
    routers: int
    replicate: int


@dataclass(frozen=True, slots=True)
class Protocol:
    """Versioned prompt templates (conf/protocol/*.yaml). `sha256` covers every template."""

    name: str
    version: str
    templates: dict[str, str] = field(hash=False)
    sha256: str = ""
