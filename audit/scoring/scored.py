"""Define what a reference scorer asks of an engine, and what it reads from the reply (pure).

A response is canonical: the published position of an item's option, never the position at which it
was shown, so that responses to two edits of one item can be compared. An unparsed reply has no
response, and is never wrong.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from audit.benchmarks.answers import LETTERS
from audit.core.errors import DataError, check_known
from audit.core.records import Ask, FinishReason, Generation, Item

LABEL_STYLES: dict[str, str] = {"paren": "({})", "dot": "{}.", "bracket": "[{}]"}
DEFAULT_STYLE = "paren"


class Needs(StrEnum):
    """Name what an engine must be able to give."""

    TEXT = "text"
    LETTERS = "letters"  # logprobs of given first tokens
    CONTINUATIONS = "continuations"  # total logprob of given replies
    MASKED_LM = "masked_lm"  # pseudo-log-likelihoods


@dataclass(frozen=True, slots=True)
class Scored:
    """Hold a reading of one reply.

    Attributes
    ----------
    response : int or None
        Canonical; None if nothing was read.
    score : float or None
        1 or 0; None if nothing was read.
    why : str
        Why nothing was read.
    detail : mapping of str to float
        Numbers behind it (nats): margin over the second best, logprobs of labels, the probability
        mass they hold.
    """

    response: int | None
    score: float | None
    why: str = ""
    detail: Mapping[str, float] = field(default_factory=dict)


def unread(why: str, **detail: float) -> Scored:
    """Return the reading of a reply in which nothing could be read, and why."""
    return Scored(None, None, why, detail)


def shown(item: Item, style: str, alphabet: str) -> list[str]:
    """Return the options with their labels ("(a)", "a." or "[a]").

    Parameters
    ----------
    item : Item
        The question.
    style : str
        Label style.
    alphabet : str
        Letters.

    Returns
    -------
    list of str
        In the order in which the item has them.

    Raises
    ------
    ConfigError
        If the style is unknown.
    """
    check_known("label style", style, LABEL_STYLES)
    named = zip(alphabet, item.options, strict=False)
    return [f"{LABEL_STYLES[style].format(letter)} {text}" for letter, text in named]


def ask_letter(item: Item, prompt: str) -> Ask:
    """Return a prompt that is answered by the letter of one option."""
    letters = tuple(LETTERS[: len(item.options)])
    return Ask(f"{prompt}\nAnswer with the letter of one option.", letters=letters)


def read_best(item: Item, generation: Generation) -> Scored:
    """Return the option whose logprob is the highest, as published.

    Parameters
    ----------
    item : Item
        The question.
    generation : Generation
        `option_logprobs` in the order shown.

    Returns
    -------
    Scored
        The option; unread if two options share the highest value, or a value is not a number.

    Notes
    -----
    A tie is not given to the first option (failure F3b), nor is an option that the engine did not
    return taken for unlikely (F3c). (The authors of MC1 count a tie as wrong.)
    """
    values = finite_logprobs(generation, len(item.options))
    if isinstance(values, Scored):
        return values
    first, second = sorted(values, reverse=True)[:2]
    if first == second:
        return unread("tied")
    return judged(item, item.shown[values.index(first)], margin=first - second)


def reply_best(item: Item, response: int | None) -> Generation:
    """Return a reply that `read_best` reads as a response; None: as nothing."""
    return preferring(len(item.options), None if response is None else item.shown.index(response))


def judged(item: Item, response: int, **detail: float) -> Scored:
    """Return the reading of a response, scored against the item's key.

    Parameters
    ----------
    item : Item
        The question.
    response : int
        Canonical response.
    detail : float
        Numbers behind it.

    Returns
    -------
    Scored
        The reading.
    """
    return Scored(response, float(response == item.key), "", detail)


def logprobs(generation: Generation, expected: int) -> Sequence[float | None]:
    """Return the logprobs of a generation.

    Parameters
    ----------
    generation : Generation
        The reply.
    expected : int
        Number of texts that were scored.

    Returns
    -------
    sequence of float or None
        Logprobs.

    Raises
    ------
    DataError
        If their number is another.
    """
    values = generation.option_logprobs
    if len(values) != expected:
        engine = generation.engine_id
        raise DataError(
            f"Engine {engine!r} returned {len(values)} logprobs for {expected} texts: expected one each."
        )
    return values


def finite_logprobs(generation: Generation, expected: int) -> list[float] | Scored:
    """Return all logprobs, or the reason why they cannot be compared.

    Parameters
    ----------
    generation : Generation
        The reply.
    expected : int
        Number of texts that were scored.

    Returns
    -------
    list of float or Scored
        Unread if a value is missing or not finite.

    Raises
    ------
    DataError
        If their number is another.
    """
    if generation.failed:
        return unread("error")
    values = logprobs(generation, expected)
    finite = []
    for value in values:
        if value is not None and math.isfinite(value):
            finite.append(value)
    return finite if len(finite) == expected else unread("not finite")


def scored_reply(values: Sequence[float]) -> Generation:
    """Return the generation of an engine that gave these logprobs, for self-tests and scripted
    models."""
    return Generation(
        finish_reason=FinishReason.SCORED, engine_id="self-test", option_logprobs=tuple(values)
    )


def preferring(count: int, position: int | None) -> Generation:
    """Return logprobs of `count` texts of which the one at `position` is likeliest; None: all are
    equal."""
    return scored_reply([-1.0 if i == position else -3.0 for i in range(count)])
