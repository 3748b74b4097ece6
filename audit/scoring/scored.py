"""Define the requests and the readings that reference scorers share.

A response is canonical: it is the position of an option in the published item. It is not the
position at which the option was shown. Responses to two edits of the same item can therefore be
compared. An unparsed reply has no response and does not count as wrong.
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
    """Name the kinds of reply that an engine must be able to give."""

    TEXT = "text"
    LETTERS = "letters"  # the logprobs of given first tokens
    CONTINUATIONS = "continuations"  # the total logprobs of given replies
    MASKED_LM = "masked_lm"  # pseudo-log-likelihoods


@dataclass(frozen=True, slots=True)
class Scored:
    """Hold what was read from one reply: the response and its score.

    Attributes
    ----------
    response : int or None
        The canonical response; None if the reply is unread.
    score : float or None
        1 or 0; None if the reply is unread.
    why : str
        The reason why the reply is unread; "" if it was read.
    detail : mapping of str to float
        Further numbers by name, such as the margin over the second-best option in nats, or the
        probability mass of the labels.
    """

    response: int | None
    score: float | None
    why: str = ""
    detail: Mapping[str, float] = field(default_factory=dict)


def unread(why: str, **detail: float) -> Scored:
    """Return the reading of a reply that could not be read.

    Parameters
    ----------
    why : str
        The reason why the reply could not be read.
    **detail : float
        Further numbers.

    Returns
    -------
    Scored
        A reading without a response and a score.
    """
    return Scored(None, None, why, detail)


def shown(item: Item, style: str, alphabet: str) -> list[str]:
    """Return the options with their labels ("(a)", "a." or "[a]").

    Parameters
    ----------
    item : Item
        The question, with its options and key.
    style : str
        The label style.
    alphabet : str
        Letters of the labels, in order.

    Returns
    -------
    list of str
        The labelled options in the order of the item.

    Raises
    ------
    ConfigError
        If the style is unknown.
    """
    check_known("label style", style, LABEL_STYLES)
    named = zip(alphabet, item.options, strict=False)
    return [f"{LABEL_STYLES[style].format(letter)} {text}" for letter, text in named]


def ask_letter(item: Item, prompt: str) -> Ask:
    """Return the request for a prompt that is answered by the letter of an option.

    Parameters
    ----------
    item : Item
        The question, with its options and key.
    prompt : str
        The prompt with the labelled options.

    Returns
    -------
    Ask
        The prompt with an instruction, and the letters of the options.
    """
    letters = tuple(LETTERS[: len(item.options)])
    return Ask(f"{prompt}\nAnswer with the letter of one option.", letters=letters)


def read_best(item: Item, generation: Generation) -> Scored:
    """Read the option with the highest logprob.

    Parameters
    ----------
    item : Item
        The question, with its options and key.
    generation : Generation
        The reply, with `option_logprobs` in the order shown.

    Returns
    -------
    Scored
        The canonical response. The reply is unread if two options share the highest value, or if a
        value is missing or not finite.

    Notes
    -----
    A tie does not count as an answer with the first option (failure F3b of li2026). A missing value
    does not count as an unlikely option (failure F3c of li2026). The authors of MC1 count a tie as
    wrong.
    """
    values = finite_logprobs(generation, len(item.options))
    if isinstance(values, Scored):
        return values
    first, second = sorted(values, reverse=True)[:2]
    if first == second:
        return unread("tied")
    return judged(item, item.shown[values.index(first)], margin=first - second)


def reply_best(item: Item, response: int | None) -> Generation:
    """Return the reply of a scripted model with a given response.

    Parameters
    ----------
    item : Item
        The question, with its options and key.
    response : int or None
        The canonical response; None gives a reply that `read_best` cannot read.

    Returns
    -------
    Generation
        The reply.
    """
    return preferring(len(item.options), None if response is None else item.shown.index(response))


def judged(item: Item, response: int, **detail: float) -> Scored:
    """Return the reading of a response, which is scored against the item's key.

    Parameters
    ----------
    item : Item
        The question, with its options and key.
    response : int
        The canonical response.
    **detail : float
        Further numbers.

    Returns
    -------
    Scored
        The reading, with score 1 if the response is the key.
    """
    return Scored(response, float(response == item.key), "", detail)


def logprobs(generation: Generation, expected: int) -> Sequence[float | None]:
    """Return the logprobs of a generation.

    Parameters
    ----------
    generation : Generation
        The reply of an engine that scored given texts.
    expected : int
        The number of texts that were scored.

    Returns
    -------
    sequence of float or None
        The logprobs; None for a text without a value.

    Raises
    ------
    DataError
        If the number of logprobs differs from `expected`.
    """
    values = generation.option_logprobs
    if len(values) != expected:
        engine = generation.engine_id
        raise DataError(
            f"Engine {engine!r} returned {len(values)} logprobs for {expected} texts. Expected one for each text."
        )
    return values


def finite_logprobs(generation: Generation, expected: int) -> list[float] | Scored:
    """Return the logprobs of a generation, or an unread reading if they cannot be compared.

    Parameters
    ----------
    generation : Generation
        The reply of an engine that scored given texts.
    expected : int
        The number of texts that were scored.

    Returns
    -------
    list of float or Scored
        The logprobs. The result is an unread reading instead if the engine failed, or if a value is
        missing or not finite.

    Raises
    ------
    DataError
        If the number of logprobs differs from `expected`.
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
    """Return a generation with given logprobs, for self-tests and scripted models.

    Parameters
    ----------
    values : sequence of float
        Total logprob of each scored text.

    Returns
    -------
    Generation
        A reply without text.
    """
    return Generation(
        finish_reason=FinishReason.SCORED, engine_id="self-test", option_logprobs=tuple(values)
    )


def preferring(count: int, position: int | None) -> Generation:
    """Return a generation that gives one of several texts the highest logprob.

    Parameters
    ----------
    count : int
        The number of texts.
    position : int or None
        The position of the most likely text. None, or a position that no text has, makes all texts
        equally likely.

    Returns
    -------
    Generation
        The logprobs of the texts.
    """
    return scored_reply([-1.0 if i == position else -3.0 for i in range(count)])
