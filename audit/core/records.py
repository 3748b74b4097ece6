"""Define the records that the stages of a run exchange.

Dicts are used only where Arrow files are read or written (`audit.shards`).

The stages are: Item -> Presentation -> GenerationRequest --engine--> Generation --scoring--> Answer
-> one row of a shard. No record depends on an audit: an arm is a name, and a level is a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import chain
from typing import Any

ANSWER_ROLE = "worker"  # The role of the model that gives the answer to the question.

# The field of exported tasks that holds the item's id. Imported results are matched to items by
# this field.
ITEM_ID = "audit_id"
# In these arms, level 0 shows an item as it was published.
AS_PUBLISHED = (
    "direct",
    "original",
    "score",
)

NO_OPTION = -1  # value of `gold` for an item without options


class Reading(StrEnum):
    """Name the ways to read an answer from a reply."""

    LETTER = "letter"  # The option letter is read from the generated text.
    # The logprobs of the option letters as the next token are compared, whatever their rank among
    # all tokens.
    LETTER_LOGPROB = "letter_logprob"
    OPTION_TEXT = "option_text"  # The log-likelihoods of the options' texts are compared.
    # A number is read from the generated text, for items with a target and no options.
    NUMBER = "number"
    # A function is read from the generated text. The tests of the problem run it in a sandbox.
    CODE = "code"
    # The reply itself is the result, such as a rewording or a vote. No answer is read or scored.
    TEXT = "text"


class FinishReason(StrEnum):
    """Name the reasons why a generation ended."""

    STOP = "stop"
    LENGTH = "length"  # The reply was cut off at max_tokens. It is not a wrong answer.
    SCORED = "scored"  # The likelihoods of options were read, and nothing was generated.
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Code:
    """Hold the tests of a programming problem, whose prompt is the question's text.

    Parameters
    ----------
    entry_point : str
        Name of the function that a reply must define.
    tests : str
        A program that defines `check(candidate)`.
    solution : str
        Right code to append to the prompt.
    """

    entry_point: str
    tests: str
    solution: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Be the base class of additional fields, which a benchmark's scorer and edits use.

    An example is `benchmarks.items.BbqFacts`.
    """


@dataclass(frozen=True, slots=True)
class Item:
    """Hold one item, with options in the order shown or with a free-form answer.

    Parameters
    ----------
    id : str
        The id, unique within `benchmark`.
    benchmark : str
        The name of the benchmark, such as mmlu.
    stem : str
        A question, statement or request; empty for a pair of sentences. `text` is the stem after
        its context.
    options : tuple of str
        The options; empty for free-form answers.
    gold : int
        Index of the right option. NO_OPTION if `target` or `code` is the answer.
    group : str
        The cluster of the item, such as its passage or subject; the item's id if there is no
        cluster. A cluster bootstrap draws whole clusters.
    order : tuple of int
        The published position of each shown option. If empty, the options are shown in published
        order.
    target : float or None
        The right number (GSM8K).
    code : Code or None
        The tests of a function (HumanEval).
    context : str
        The passage before the stem, if the file separates the two.
    condition : str
        The condition, such as ambig or disambig (BBQ), safe or unsafe (XSTest).
    facts : Facts or None
        Further facts of the benchmark.
    """

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
        """Return the question without the options; for a pair of sentences, the words that they
        share."""
        if not self.stem and self.facts is not None:
            return shared_words(*self.published)
        return f"{self.context} {self.stem}" if self.context else self.stem

    @property
    def shown(self) -> tuple[int, ...]:
        """Return the published positions of the options, in the order in which they are shown."""
        return self.order or tuple(range(len(self.options)))

    @property
    def published(self) -> tuple[str, ...]:
        """Return the options in published order."""
        return tuple(text for _, text in sorted(zip(self.shown, self.options, strict=True)))

    @property
    def key(self) -> int:
        """Return the published position of `gold`, which does not depend on the order shown.

        A negative `gold` is returned unchanged. It means that no option is right, or that all
        options except one are right.
        """
        return self.shown[self.gold] if self.gold >= 0 else self.gold

    def keyed(self, key: int, **changes: Any) -> Item:
        """Return a copy of the item with another key (right option) and other changed fields."""
        return replace(self, gold=self.shown.index(key) if key >= 0 else key, **changes)

    def reworded(self, text: str) -> Item:
        """Return a copy of the item whose text (context and stem) is replaced."""
        return replace(self, stem=text, context="")


def shared_words(first: str, second: str) -> str:
    """Return the words that two sentences have in common, with ___ in place of other words."""
    a, b = first.split(), second.split()
    words: list[str] = []
    for tag, start, end, _, _ in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        words += a[start:end] if tag == "equal" else ["___"]
    return " ".join(words)


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """Hold one condition under which every question is answered.

    Parameters
    ----------
    arm : str
        How the question reaches the model.
    level : int
        The level of the arm, such as the number of messages or the index of a variant; 0 if the arm
        has no levels.
    replicate : int
        The number of the repetition. Each repetition has another seed.
    """

    arm: str
    level: int
    replicate: int = 0


@dataclass(frozen=True, slots=True)
class CellRows:
    """Count the rows of one model on one benchmark.

    Parameters
    ----------
    model, benchmark : str
        Names of the model and of the benchmark.
    found : int
        The number of rows in the shards.
    expected : int or None
        The number of rows that the run requests; None without a manifest.
    reasked : int
        The number of rows that a second call answered by likelihoods, since the first reply had no
        answer.
    """

    model: str
    benchmark: str
    found: int
    expected: int | None
    reasked: int = 0

    @property
    def complete(self) -> bool:
        """Return True if the number of rows is as expected, or if no number is expected."""
        return self.expected is None or self.found == self.expected

    @property
    def watermark(self) -> str:
        """Return a mark such as "incomplete, 512 of 1,000 answers"; empty if no answer is
        missing."""
        if self.expected is None:
            return f"no manifest, so it is unknown whether {self.found:,} answers are all"
        return "" if self.complete else f"incomplete, {self.found:,} of {self.expected:,} answers"


@dataclass(frozen=True, slots=True)
class Part:
    """Hold the levels that are computed, stored and repeated together. They have one arm and
    replicate."""

    arm: str
    levels: tuple[int, ...]
    replicate: int = 0

    @property
    def settings(self) -> tuple[Setting, ...]:
        return tuple(Setting(self.arm, level, self.replicate) for level in self.levels)


@dataclass(frozen=True, slots=True)
class Design:
    """Hold the parts of every question. All questions and models have the same design.

    Parameters
    ----------
    parts : tuple of Part
        The parts into which the settings of a question are divided.
    kind : str
        A text that enters the seed of every request. Two designs of an audit with equal settings
        therefore have different seeds if their kinds differ.
    """

    parts: tuple[Part, ...]
    kind: str = ""

    @property
    def settings(self) -> tuple[Setting, ...]:
        return tuple(sorted(chain.from_iterable(part.settings for part in self.parts)))


@dataclass(frozen=True, slots=True)
class Presentation:
    """Hold the request of a question under one setting.

    Parameters
    ----------
    prompt : str
        The text to send.
    options : tuple of str
        The options as presented, since an edit may change the options. If empty, the answer is a
        number or the reply itself (`Reading`).
    gold : int
        Position of the right option among the options as presented.
    extras : mapping
        Values of columns that rows of other audits do not have.
    error : str or None
        If this is set, nothing is sent and the row is an error.
    scoring : Ask or None
        The request of a reference scorer. `prompt` contains its prompt.
    pieces : tuple of str
        If not empty, these pieces add up to `prompt`. Their likelihood is read, and no answer is
        scored.
    system : str
        A system prompt before the question; empty if there is no system prompt.
    ballots : tuple of str
        If not empty, these prompts are sent one by one, and `scoring.vote` counts their answers.
        `prompt` then contains all of them.
    """

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
    """Hold one request that has no seed yet.

    Its fields have the same meaning as the fields of `GenerationRequest`.
    """

    prompt: str
    continuations: tuple[str, ...] = ()
    letters: tuple[str, ...] = ()
    max_tokens: int = 1


@dataclass(frozen=True)  # The class has no slots, since objects with __dict__ are pickled faster.
class GenerationRequest:
    """Hold one call to an engine: a user message, after a `system` message if there is one.

    Parameters
    ----------
    prompt : str
        The text of the user message.
    affinity : str
        Requests with equal affinity have the same beginning, so the same replica should answer
        them.
    label : str
        `<arm>/<level>`, or `<arm>/<role>` for a call before the answer. Metrics and the scripted
        engine read the label. No real model sees it.
    seed, max_tokens, temperature, top_p
        Options of sampling.
    continuations : tuple of str
        If not empty, the engine returns the log-likelihood of each of these texts as the reply.
    letters : tuple of str
        If not empty, the engine returns the logprob of each letter as the first token of the reply.
    pieces : tuple of str
        If not empty, the engine returns the log-likelihood of `prompt` as raw text, without a chat
        template. The pieces add up to the prompt.
    adapter : str
        The folder of the LoRA adapter that answers; empty for the model itself.
    system : str
        A system prompt; empty if there is no system prompt.

    Notes
    -----
    The engine generates if continuations, letters and pieces are empty.
    """

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
        """Return the request as a list of chat messages."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": self.prompt}]


@dataclass(frozen=True)
class TokenLogprobs:
    """Hold the logprobs of a given text, T tokens long.

    Parameters
    ----------
    logprobs : tuple of float
        The logprob of each token in nats, given all earlier tokens.
    ranks : tuple of int
        The rank of each token in the vocabulary; 1 is the likeliest.
    z : tuple of float
        The standardized logprob of each token: the logprob minus the mean, divided by the standard
        deviation. Mean and standard deviation are those of the logprobs of all possible tokens
        (Min-K%++, Zhang et al. 2025). Rank and z are only as exact as the engine's list of
        likeliest tokens allows.
    pieces : tuple of int
        The index of the piece in which each token ends.
    """

    logprobs: tuple[float, ...]
    ranks: tuple[int, ...]
    z: tuple[float, ...]
    pieces: tuple[int, ...]


@dataclass(frozen=True)
class Generation:
    """Hold the result that an engine returned for one request.

    If `error` is set, the other fields have no meaning.

    Parameters
    ----------
    option_logprobs : tuple of float or None
        The total logprob (nats) of each continuation, letter or piece. None if the endpoint returns
        no logprobs, or if a piece has no token.
    option_tokens : tuple of int
        The number of tokens of each continuation, letter or piece.
    request_sha256 : str
        The hash of the model's input (`engines.port.request_sha256`).
    backend : str
        The endpoint's `system_fingerprint`; empty without one.
    tokens : TokenLogprobs or None
        Logprobs of the tokens of a given text; None if the request has no pieces.
    """

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
        """Return whether the engine gave no answer."""
        return self.error is not None or self.finish_reason == FinishReason.ERROR


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold an answer that was read from a reply. An unparsed answer is never "wrong".

    Parameters
    ----------
    index : int or None
        Position of the chosen option, from 0; None if no option was read.
    form : str
        How the answer was read. Options have "strict", "lenient" or "logprob". Numbers have
        "marked", "declared" or "last". Code has its outcome ("passed", "AssertionError",
        "cpu_limit"). "text" means that the reply itself counts, and "none" that nothing was read.
    number : float or None
        The number in the answer; None if no number was read.
    """

    index: int | None
    form: str
    number: float | None = None

    @property
    def parsed(self) -> bool:
        return self.form != "none"


@dataclass(frozen=True, slots=True)
class Protocol:
    """Hold versioned prompt templates (conf/protocol/*.yaml). `sha256` is the hash of all
    templates."""

    name: str
    version: str
    templates: dict[str, str] = field(hash=False)
    sha256: str = ""
