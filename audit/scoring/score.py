"""Read the answer of a model's generation, or of its log-likelihoods of the options, and whether it
is right.

A failure is never scored as an answer.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from audit.benchmarks.reply import score_number
from audit.core.errors import DataError, SandboxError, check_known
from audit.core.prompting import strip_thinking
from audit.core.records import Answer, FinishReason, Generation, Item, Reading
from audit.scoring.letter import read_letter
from audit.scoring.sandbox import run_tests
from audit.scoring.scored import logprobs

# `option_normalisation` makes the total logprobs of options of different lengths comparable. none:
# the total. It is the probability of the reply, but every further token costs, so it favours short
# options. token: the mean per token, for which the engine's reply suffices. byte: the total per
# UTF-8 byte of the option's text, so that models with different tokenizers are compared alike.
NORMALISATIONS = ("none", "token", "byte")
DEFAULT_NORMALISATION = "token"

UNREADABLE = Answer(index=None, form="none")


def read_logprobs(
    option_logprobs: Sequence[float | None],
    option_tokens: Sequence[int] = (),
    normalise: str = DEFAULT_NORMALISATION,
    options: Sequence[str] = (),
    none_is_lowest: bool = False,
) -> Answer:
    """Return the option with the highest (normalised) log-likelihood, or unparsed.

    Parameters
    ----------
    option_logprobs : sequence of float or None
        k totals in nats.
    option_tokens : sequence of int
        k token counts (for `token`).
    normalise : str
        One of NORMALISATIONS.
    options : sequence of str
        k texts (for `byte`).
    none_is_lowest : bool
        True if a None lies below every value that is given. That holds for option letters at
        endpoints that list the top tokens only (an unlisted token is less likely than a listed
        one). It does not hold for whole option texts: an unknown could be the best, so one None
        makes the answer unparsed.

    Returns
    -------
    Answer
        The option. It is unparsed (form "none"), never a guess, if no value is given, a value is
        NaN or +inf (an engine fault), or the best value is -inf or shared by two options (taking
        the first would favour position A).

    Raises
    ------
    ConfigError
        If the normalisation is unknown.
    DataError
        If counts do not match the options.

    Examples
    --------
    >>> read_logprobs([-4.0, -6.0], [1, 2], "none").index, read_logprobs([-4.0, -6.0], [1, 2], "token").index
    (0, 1)
    """
    check_known("option_normalisation", normalise, NORMALISATIONS)
    lengths = _lengths(len(option_logprobs), option_tokens, normalise, options)
    if any(value is None for value in option_logprobs) and not none_is_lowest:
        return UNREADABLE
    values = [-math.inf if value is None else value for value in option_logprobs]
    if not values or any(math.isnan(value) or value == math.inf for value in values):
        return UNREADABLE
    scores = [value / length for value, length in zip(values, lengths, strict=True)]
    best = max(scores)
    if best == -math.inf or scores.count(best) > 1:
        return UNREADABLE
    return Answer(index=scores.index(best), form="logprob")


def _lengths(
    k: int, option_tokens: Sequence[int], normalise: str, options: Sequence[str]
) -> list[int]:
    if normalise == "none":
        return [1] * k
    lengths, name = list(option_tokens), "token counts (option_tokens)"
    if normalise == "byte":
        lengths, name = (
            [len(text.encode("utf-8", "surrogatepass")) for text in options],
            "option texts",
        )
    if len(lengths) != k or any(length < 1 for length in lengths):
        problem = f"Cannot normalise {k} option logprobs by {normalise}: {name} are {lengths}"
        raise DataError(
            f"{problem}. Expected {k} lengths of at least 1, or option_normalisation=none."
        )
    return lengths


def read_code(text: str, entry_point: str, *, truncated: bool = False) -> str | None:
    r"""Return the code that a reply holds.

    Parameters
    ----------
    text : str
        The reply.
    entry_point : str
        Name of the function to define.
    truncated : bool
        True if the reply was cut off.

    Returns
    -------
    str or None
        None if it holds no code: it is prose, or was cut off before a fence was closed.

    Notes
    -----
    A reply is read by its last fenced block that defines the function; if no block does, by its
    first fenced block. Without a fence, it is read as a whole if it defines the function, and as
    the continuation of the prompt if its first line is indented.

    Examples
    --------
    >>> read_code("Here:\n```python\ndef f(x):\n    return x\n```\nIt returns x.", "f")
    'def f(x):\n    return x\n'
    """
    visible = strip_thinking(text)
    defines = re.compile(rf"^(?:async )?def {re.escape(entry_point)}\b", re.MULTILINE)
    blocks, opened = _blocks(visible.text)
    if blocks:
        defining = []
        for block in blocks:
            if defines.search(block):
                defining.append(block)
        return defining[-1] if defining else blocks[0]
    if truncated or opened or not visible.closed:
        return None
    if defines.search(visible.text):
        return visible.text
    body = text.lstrip("\r\n")
    return body if visible.text and body[:1] in (" ", "\t") else None


def _blocks(text: str) -> tuple[list[str], bool]:
    """Return the fenced blocks, and whether a last one is not closed. Linear: every fence is found
    once."""
    blocks, start, mark = [], None, ""
    for line in re.finditer(r"[^\n]*(?:\n|$)", text):
        stripped = line[0].strip()
        if start is None and (fence := re.match(r"(```+|~~~+)", stripped)):
            start, mark = line.end(), fence[1]
        elif start is not None and stripped == mark:
            blocks.append(text[start : line.start()])
            start = None
    return blocks, start is not None


class Score(NamedTuple):
    """Hold the score of one reply.

    Attributes
    ----------
    answer : Answer
        The answer that was read.
    correct : bool or None
        None if no answer could be read (unparsed, truncated or error), which is not "wrong", and
        with reading `text`, which has no answer to score.
    finish_reason : FinishReason
        How the generation ended.
    """

    answer: Answer
    correct: bool | None
    finish_reason: FinishReason


def score(
    generation: Generation,
    options: Sequence[str],
    gold: int,
    reading: Reading,
    normalisation: str = DEFAULT_NORMALISATION,
    item: Item | None = None,
) -> Score:
    """Read the answer of a generation and compare it with the gold option, target or tests.

    Parameters
    ----------
    generation : Generation
        The reply.
    options : sequence of str
        Options as shown.
    gold : int
        Index of the right option.
    reading : Reading
        How the answer is read: `number` compares with the target of `item`, `code` runs its tests.
    normalisation : str
        Of `option_text`; the letters of `letter_logprob` are one token each and are compared as
        they are.
    item : Item or None
        The question, for readings `number` and `code`.

    Returns
    -------
    Score
        Answer and correctness. A reply that was cut off and holds no answer keeps finish_reason
        LENGTH: truncated.

    Raises
    ------
    DataError
        If an engine scored another number of options than the question has, or a question has no
        target or tests to be read by.
    SandboxError
        If code could not be run, which shows nothing of the code.
    """
    if generation.failed:
        return Score(UNREADABLE, None, FinishReason.ERROR)
    if reading == Reading.TEXT:
        return Score(Answer(None, "text"), None, generation.finish_reason)
    if reading == Reading.NUMBER:
        return _score_number(generation, item)
    if reading == Reading.CODE:
        return _score_code(generation, item)
    if reading == Reading.LETTER:
        reason = generation.finish_reason
        answer = read_letter(generation.text, reason, options)
    else:
        answer, reason = (
            _read_scored(generation, options, reading, normalisation),
            FinishReason.SCORED,
        )
    return Score(answer, answer.index == gold if answer.parsed else None, reason)


def _score_number(generation: Generation, item: Item | None) -> Score:
    if item is None or item.target is None:
        raise DataError(
            "A question without a target cannot be scored by its number. Expected one, as in GSM8K."
        )
    truncated = generation.finish_reason == FinishReason.LENGTH
    number, correct = score_number(generation.text, item.target, truncated=truncated)
    return Score(Answer(None, number.form, number.value), correct, generation.finish_reason)


def _score_code(generation: Generation, item: Item | None) -> Score:
    if item is None or item.code is None:
        raise DataError(
            "A question without tests cannot be scored by running code. Expected one as in HumanEval."
        )
    reason, entry_point = generation.finish_reason, item.code.entry_point
    code = read_code(generation.text, entry_point, truncated=reason == FinishReason.LENGTH)
    if code is None:
        return Score(UNREADABLE, None, reason)
    outcome = run_tests(f"{item.text}\n{code}", item.code.tests, entry_point)
    if outcome.passed is None:
        raise SandboxError(f"No sandbox for the code: {outcome.why}")
    return Score(Answer(None, outcome.why), outcome.passed, reason)


def _read_scored(
    generation: Generation, options: Sequence[str], reading: Reading, normalisation: str
) -> Answer:
    values = logprobs(generation, len(options))
    if reading == Reading.LETTER_LOGPROB:
        return read_logprobs(values, normalise="none", none_is_lowest=True)
    return read_logprobs(values, generation.option_tokens, normalisation, options)


def majority(ballots: Sequence[Score]) -> Score:
    """Return the option with most votes; of several with as many, the one that was named first.

    Parameters
    ----------
    ballots : sequence of Score
        Votes. A ballot without an answer abstains.

    Returns
    -------
    Score
        The vote. It is unparsed if most ballots abstain, and a failure if one ballot failed.

    Examples
    --------
    >>> one, other = (Score(Answer(k, "strict"), k == 0, FinishReason.STOP) for k in (0, 1))
    >>> majority([one, other]).answer.index, majority([one, other, other]).answer.index
    (0, 1)
    """
    if any(ballot.finish_reason == FinishReason.ERROR for ballot in ballots):
        return Score(UNREADABLE, None, FinishReason.ERROR)
    named = []
    for ballot in ballots:
        if ballot.answer.parsed:
            named.append(ballot)
    if 2 * len(named) < len(ballots) or not named:
        return next(ballot for ballot in ballots if not ballot.answer.parsed)
    # A tie goes to the first.
    ((most, _),) = Counter(ballot.answer.index for ballot in named).most_common(1)
    return next(ballot for ballot in named if ballot.answer.index == most)


def counted(replies: Sequence[Generation], ballots: Sequence[Score]) -> Generation:
    """Join several replies to one.

    Parameters
    ----------
    replies : sequence of Generation
        The replies.
    ballots : sequence of Score
        How each was read.

    Returns
    -------
    Generation
        A line for each reply, with its text or the letter that was scored; and the first error.
    """
    letters = ("" if b.answer.index is None else chr(ord("A") + b.answer.index) for b in ballots)
    numbered = enumerate(zip(replies, letters, strict=True), start=1)
    text = "\n".join(f"[{k}] {reply.text or letter}" for k, (reply, letter) in numbered)
    errors = []
    for reply in replies:
        if reply.error:
            errors.append(reply.error)
    return Generation(text, engine_id=replies[0].engine_id, error=errors[0] if errors else None)
