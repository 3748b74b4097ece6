"""The one vocabulary: what the stages hand to each other. Dicts appear only at the Arrow edge
(`audit.shards`).

Item -> Presentation -> GenerationRequest --engine--> Generation --scoring--> Answer -> one row of a
shard. Nothing here knows an audit: an arm is a name, a level a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any

ANSWER_ROLE = "worker"  # the model that answers

ITEM_ID = "audit_id"  # of an exported task: brings an item home
AS_PUBLISHED = (
    "direct",
    "original",
    "score",
)  # arms that, at level 0, ask an item as it was published

NO_OPTION = -1  # `gold` of an item without options


class Reading(StrEnum):
    """How an answer is read from the worker."""

    LETTER = "letter"  # generated text -> option letter
    LETTER_LOGPROB = "letter_logprob"  # the letters' own next-token logprobs, at any rank
    OPTION_TEXT = "option_text"  # log-likelihood of each option's text
    NUMBER = "number"  # generated text -> a number; for benchmarks whose items have a target and no options
    CODE = "code"  # generated text -> a function, which is run against the problem's tests in a sandbox
    TEXT = "text"  # the reply itself is what is wanted (a rewording, a vote): no answer is read, none is scored


class FinishReason(StrEnum):
    """Why a generation ended."""

    STOP = "stop"
    LENGTH = "length"  # cut off at max_tokens: truncated, which is not the same as wrong
    SCORED = "scored"  # nothing was generated; options were scored
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Code:
    """How a programming problem is scored: its prompt is the question's text.

    tests: a program that defines `check(candidate)`. solution: what right code adds to the prompt.
    """

    entry_point: str
    tests: str
    solution: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What one benchmark adds to its items, for its own scorers and edits (such as
    `benchmarks.items.BbqFacts`)."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item: multiple-choice in the order in which its options are shown, or with a free-form
    answer.

    `id` is unique within `benchmark`. What is asked is `text`: the `stem` (a question, a statement,
    a request; empty of a pair of sentences) after its `context`, where the file keeps the two
    apart. `gold` indexes `options`; NO_OPTION where `target` (a number, GSM8K) or `code` (a
    function, HumanEval) is the answer and `options` is empty. `group` names the cluster that
    resampling keeps together (subject, passage, BBQ's group of four); it is the item's own id where
    there is none. `order[i]` is the published position of the option shown at position i; empty: as
    published. `condition`: BBQ ambig or disambig, XSTest safe or unsafe, CrowS stereo or
    antistereo, and the like."""

    id: str
    benchmark: str
    stem: str
    options: tuple[str, ...]
    gold: int
    group: str
    order: tuple[int, ...] = ()
    target: float | None = None
    code: Code | None = None
    context: str = ""
    condition: str = ""
    facts: Facts | None = None

    @property
    def text(self) -> str:
        """All that is asked, without the options; of a pair of sentences what they share."""
        if not self.stem and self.facts is not None:
            return shared_words(*self.published)
        return f"{self.context} {self.stem}" if self.context else self.stem

    @property
    def shown(self) -> tuple[int, ...]:
        """Published position of each option, in the order shown."""
        return self.order or tuple(range(len(self.options)))

    @property
    def published(self) -> tuple[str, ...]:
        """The options in published order."""
        return tuple(text for _, text in sorted(zip(self.shown, self.options, strict=True)))

    @property
    def key(self) -> int:
        """`gold` as a published position: the same however the options are shown. Below 0 (no
        option, or any but one under an edit) it is `gold` itself."""
        return self.shown[self.gold] if self.gold >= 0 else self.gold

    def keyed(self, key: int, **changes: Any) -> Item:
        """The item with another key, and with these changes."""
        return replace(self, gold=self.shown.index(key) if key >= 0 else key, **changes)

    def reworded(self, text: str) -> Item:
        """The item with another text, context included."""
        return replace(self, stem=text, context="")


def shared_words(first: str, second: str) -> str:
    """What two sentences share, with ___ where they differ."""
    a, b = first.split(), second.split()
    words: list[str] = []
    for tag, start, end, _, _ in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        words += a[start:end] if tag == "equal" else ["___"]
    return " ".join(words)


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """One condition under which every question is answered. `arm`: how the question reaches the
    model; `level`: how much of it (messages sent, a variant's index; 0 where there is none);
    `replicate` counts repetitions under other seeds."""

    arm: str
    level: int
    replicate: int = 0


@dataclass(frozen=True, slots=True)
class CellRows:
    """Rows of one model on one benchmark: found in the shards, and asked for by the run (None: no
    manifest says it). reasked: of those found, how many were asked again by likelihood."""

    model: str
    benchmark: str
    found: int
    expected: int | None
    reasked: int = 0

    @property
    def complete(self) -> bool:
        """False only where rows are known to be missing."""
        return self.expected is None or self.found == self.expected

    @property
    def watermark(self) -> str:
        """Such as "incomplete, 512 of 1,000 answers"; empty where all that was asked for is
        there."""
        if self.expected is None:
            return f"no manifest, so nothing says whether {self.found:,} answers are all"
        return "" if self.complete else f"incomplete, {self.found:,} of {self.expected:,} answers"


@dataclass(frozen=True, slots=True)
class Part:
    """Levels of one arm and replicate whose rows are computed and stored together, and so are run
    again together."""

    arm: str
    levels: tuple[int, ...]
    replicate: int = 0

    @property
    def settings(self) -> tuple[Setting, ...]:
        return tuple(Setting(self.arm, level, self.replicate) for level in self.levels)


@dataclass(frozen=True, slots=True)
class Design:
    """Every part of one question; the same for all questions and models. `kind`, in every request's
    seed, tells apart designs of one audit whose settings have the same names."""

    parts: tuple[Part, ...]
    kind: str = ""

    @property
    def settings(self) -> tuple[Setting, ...]:
        return tuple(sorted(setting for part in self.parts for setting in part.settings))


@dataclass(frozen=True, slots=True)
class Presentation:
    """A question as a model is to be asked it under one setting: what an engine request is made
    from.

    `options` and `gold` are as presented (an edit may change them); without options the answer is a
    number, or the reply itself is wanted (`Reading`). `extras` are the audit's own columns of the
    row. `pieces` non-empty: `prompt` is a given text, cut into these pieces, whose likelihood is
    read; no answer is scored. `ballots` non-empty: each is a prompt asked by itself under level 1,
    and the answers are put to the vote (`scoring.vote`); `prompt` then holds them all. `error` set:
    nothing is sent and the row is an error. `scoring` set: what a reference scorer asks in its own
    way, its prompt within `prompt`. `system`: a system prompt before the question; empty: none."""

    prompt: str
    options: tuple[str, ...]
    gold: int
    extras: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    scoring: Ask | None = None
    pieces: tuple[str, ...] = ()
    system: str = ""
    ballots: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, without a seed: the fields are those of `GenerationRequest`; of `prompt` alone:
    generate."""

    prompt: str
    continuations: tuple[str, ...] = ()
    letters: tuple[str, ...] = ()
    max_tokens: int = 1


@dataclass(frozen=True)  # no slots: pickled quicker from a __dict__
class GenerationRequest:
    """One call to an engine: a user message (after a `system` message, where there is one), and
    generate or score.

    `continuations` non-empty: score the log-likelihood of each as the reply. `letters` non-empty:
    read the logprob of each as the reply's first token. `pieces` non-empty: read the log-likelihood
    of `prompt` itself, which they add up to, as raw text without a chat template. All empty:
    generate. Requests with the same `affinity` share a beginning: one replica should answer them.
    `label` (`<arm>/<level>`, or `<arm>/<role>` of a call before the answer) is for metrics and the
    scripted engine; no real model is shown either. `adapter`: the folder of a LoRA adapter that
    answers; empty: the model itself."""

    prompt: str
    affinity: str
    label: str
    seed: int
    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    continuations: tuple[str, ...] = ()
    letters: tuple[str, ...] = ()
    pieces: tuple[str, ...] = ()
    adapter: str = ""
    system: str = ""

    @property
    def messages(self) -> list[Any]:
        """The request as a chat."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": self.prompt}]


@dataclass(frozen=True)
class TokenLogprobs:
    """A given text token by token, T long each: `logprobs` in nats given all that precedes; `ranks`
    among the vocabulary, 1 the likeliest; `z`: logprob less the mean logprob of the next token,
    over its standard deviation (Min-K%++, Zhang et al. 2025), both as near as the engine's
    likeliest tokens tell them; `pieces`: index of the piece in which the token ends."""

    logprobs: tuple[float, ...]
    ranks: tuple[int, ...]
    z: tuple[float, ...]
    pieces: tuple[int, ...]


@dataclass(frozen=True)
class Generation:
    """What an engine returned. `error` set means no answer at all: the other fields then say
    nothing.

    `option_logprobs`: the total logprob (nats) of each continuation, letter or piece; None where an
    endpoint does not tell, and for a piece without a token. `option_tokens`: tokens of each.
    `tokens`: of a given text. `request_sha256`: over what the model was given
    (`engines.port.request_sha256`). `backend`: the `system_fingerprint` of an endpoint that tells
    it."""

    text: str = ""
    finish_reason: FinishReason = FinishReason.STOP
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    engine_id: str = ""
    option_logprobs: tuple[float | None, ...] = ()
    option_tokens: tuple[int, ...] = ()
    request_sha256: str = ""
    backend: str = ""
    error: str | None = None
    tokens: TokenLogprobs | None = None

    @property
    def failed(self) -> bool:
        """Whether there is no answer at all."""
        return self.error is not None or self.finish_reason == FinishReason.ERROR


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as read: an option's `index`, or a `number`. Unparsed is its own state and never
    "wrong".

    `form` says how it was found: "strict", "lenient", "logprob"; "marked", "declared" or "last" of
    a number; of code what became of it ("passed", "AssertionError", "cpu_limit"); "text" where the
    reply itself was wanted; "none": nothing was read."""

    index: int | None
    form: str
    number: float | None = None

    @property
    def parsed(self) -> bool:
        return self.form != "none"


@dataclass(frozen=True, slots=True)
class Protocol:
    """Versioned prompt templates (conf/protocol/*.yaml). `sha256` covers every template."""

    name: str
    version: str
    templates: dict[str, str] = field(hash=False)
    sha256: str = ""
