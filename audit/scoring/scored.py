"""What a reference scorer asks of an engine, and what it reads from the reply (pure).

A response is canonical: the published position of an item's option, never the position at which it was shown, so that
responses to two edits of one item can be compared. An unparsed reply has none, and is never wrong.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from audit.benchmarks.answers import LETTERS
from audit.errors import DataError, check_known
from audit.records import Ask, FinishReason, Generation, Item

LABEL_STYLES: dict[str, str] = {"paren": "({})", "dot": "{}.", "bracket": "[{}]"}
DEFAULT_STYLE = "paren"


class Needs(StrEnum):
    """What an engine must be able to give."""

    TEXT = "text"
    LETTERS = "letters"  # logprobs of given first tokens
    CONTINUATIONS = "continuations"  # total logprob of given replies
    MASKED_LM = "masked_lm"  # pseudo-log-likelihoods


@dataclass(frozen=True, slots=True)
class Scored:
    """response: canonical, None where nothing was read. score: 1 or 0; None where nothing was read, with `why`.

    detail: numbers behind it (nats): margin over the second best, logprobs of labels, the probability mass they hold.
    """

    response: int | None
    score: float | None
    why: str = ""
    detail: Mapping[str, float] = field(default_factory=dict)


def unread(why: str, **detail: float) -> Scored:
    return Scored(None, None, why, detail)


def shown(item: Item, style: str, alphabet: str) -> list[str]:
    """The options behind their labels ("(a)", "a." or "[a]"), in the order in which the item has them."""
    check_known("label style", style, LABEL_STYLES)
    named = zip(alphabet, item.options, strict=False)
    return [f"{LABEL_STYLES[style].format(letter)} {text}" for letter, text in named]


def ask_letter(item: Item, prompt: str) -> Ask:
    """A prompt that is answered by the letter of one option."""
    letters = tuple(LETTERS[: len(item.options)])
    return Ask(f"{prompt}\nAnswer with the letter of one option.", letters=letters)


def read_best(item: Item, generation: Generation) -> Scored:
    """The option whose logprob is the highest, as published; unread where two share it or one is not a number.

    `option_logprobs` are in the order shown. A tie is not given to the first option (failure F3b), nor is an option
    that the engine did not tell taken for unlikely (F3c). (The authors of MC1 count a tie as wrong.)
    """
    told = finite_logprobs(generation, len(item.options))
    if isinstance(told, Scored):
        return told
    first, second = sorted(told, reverse=True)[:2]
    if first == second:
        return unread("tied")
    return judged(item, item.shown[told.index(first)], margin=first - second)


def reply_best(item: Item, response: int | None) -> Generation:
    """What `read_best` reads as this response; None: as nothing."""
    return preferring(len(item.options), None if response is None else item.shown.index(response))


def judged(item: Item, response: int, **detail: float) -> Scored:
    return Scored(response, float(response == item.key), "", detail)


def logprobs(generation: Generation, expected: int) -> Sequence[float | None]:
    """The logprobs of a generation; DataError where they are not as many as were asked for."""
    found = generation.option_logprobs
    if len(found) != expected:
        engine = generation.engine_id
        raise DataError(f"Engine {engine!r} returned {len(found)} logprobs for {expected} texts: expected one each.")
    return found


def finite_logprobs(generation: Generation, expected: int) -> list[float] | Scored:
    """All of them, or why there are none to compare."""
    if generation.failed:
        return unread("error")
    values = logprobs(generation, expected)
    told = [value for value in values if value is not None and math.isfinite(value)]
    return told if len(told) == expected else unread("not finite")


def scored_reply(values: Sequence[float]) -> Generation:
    """The generation of an engine that gave these logprobs: for self-tests and scripted models."""
    return Generation(finish_reason=FinishReason.SCORED, engine_id="self-test", option_logprobs=tuple(values))


def preferring(count: int, position: int | None) -> Generation:
    """Logprobs of `count` texts of which the one at `position` is likeliest; None: all are equal."""
    return scored_reply([-1.0 if i == position else -3.0 for i in range(count)])
