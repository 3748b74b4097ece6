"""A model's generation, or its log-likelihoods of the options, -> its answer, and whether it is right.

A failure is never scored as an answer.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from audit.benchmarks.reply import score_number
from audit.errors import DataError, SandboxError, check_known
from audit.prompting import strip_thinking
from audit.records import Answer, FinishReason, Generation, Item, Reading
from audit.scoring.letter import read_letter
from audit.scoring.sandbox import run_tests
from audit.scoring.scored import logprobs

# How the options' total logprobs are made comparable when their lengths differ (config `option_normalisation`). none:
# the total; a probability of the reply, but every further token costs, so it favours short options. token: the mean per
# token, which needs nothing but what the engine returns. byte: the total per UTF-8 byte of the option's text, so that
# models with different tokenizers are compared alike.
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
    """The option with the highest (normalised) log-likelihood, or unparsed.

    option_logprobs: k totals in nats. option_tokens: k token counts (for `token`). options: k texts (for `byte`).
    none_is_lowest: a None lies below every value that is told. That holds for option letters at endpoints that list
    the top tokens only (what is not listed is less likely than what is), and not for whole option texts: there an
    unknown could be the best, so one None makes the answer unparsed.

    Unparsed (form "none"), never a guess: nothing is told; any NaN or +inf (an engine fault); the best value is shared
    by two options (taking the first would favour position A) or is -inf.

    Raises ConfigError for an unknown normalisation, DataError when counts do not match the options.

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


def _lengths(k: int, option_tokens: Sequence[int], normalise: str, options: Sequence[str]) -> list[int]:
    if normalise == "none":
        return [1] * k
    lengths, name = list(option_tokens), "token counts (option_tokens)"
    if normalise == "byte":
        lengths, name = [len(text.encode("utf-8", "surrogatepass")) for text in options], "option texts"
    if len(lengths) != k or any(length < 1 for length in lengths):
        found = f"Cannot normalise {k} option logprobs by {normalise}: {name} are {lengths}"
        raise DataError(f"{found}. Expected {k} lengths of at least 1, or option_normalisation=none.")
    return lengths


def read_code(text: str, entry_point: str, *, truncated: bool = False) -> str | None:
    """The code that a reply holds, None where it holds none: it is prose, or was cut off before a fence was closed.

    A reply is read by its last fenced block that defines the function; where none does, by its first fenced block;
    without a fence, as a whole where it defines the function, and as the continuation of the prompt where its first
    line is indented.

    >>> read_code("Here:\\n```python\\ndef f(x):\\n    return x\\n```\\nIt returns x.", "f")
    'def f(x):\\n    return x\\n'
    """
    visible = strip_thinking(text)
    defines = re.compile(rf"^(?:async )?def {re.escape(entry_point)}\b", re.MULTILINE)
    blocks, opened = _blocks(visible.text)
    if blocks:
        return next((block for block in reversed(blocks) if defines.search(block)), blocks[0])
    if truncated or opened or not visible.closed:
        return None
    if defines.search(visible.text):
        return visible.text
    body = text.lstrip("\r\n")
    return body if visible.text and body[:1] in (" ", "\t") else None


def _blocks(text: str) -> tuple[list[str], bool]:
    """The fenced blocks, and whether a last one is not closed. Linear: every fence is found once."""
    found, start, mark = [], None, ""
    for line in re.finditer(r"[^\n]*(?:\n|$)", text):
        stripped = line[0].strip()
        if start is None and (fence := re.match(r"(```+|~~~+)", stripped)):
            start, mark = line.end(), fence[1]
        elif start is not None and stripped == mark:
            found.append(text[start : line.start()])
            start = None
    return found, start is not None


class Score(NamedTuple):
    """`correct` is None where no answer could be read (unparsed, truncated or error), which is not "wrong", and with
    reading `text`, which has none to score."""

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
    """Read the answer and compare it with `gold` (index into `options`), or with the target of `item` (reading
    `number`), or run it against its tests (reading `code`).

    normalisation: of `option_text`; the letters of `letter_logprob` are one token each and are compared as they are.
    A reply that was cut off and holds no answer keeps finish_reason LENGTH: truncated. Raises DataError when an engine
    scored another number of options than the question has, or a question has no target or tests to be read by, and
    SandboxError when code could not be run, which says nothing of the code.
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
        answer, reason = _read_scored(generation, options, reading, normalisation), FinishReason.SCORED
    return Score(answer, answer.index == gold if answer.parsed else None, reason)


def _score_number(generation: Generation, item: Item | None) -> Score:
    if item is None or item.target is None:
        raise DataError("A question without a target cannot be scored by its number. Expected one, as in GSM8K.")
    truncated = generation.finish_reason == FinishReason.LENGTH
    found, correct = score_number(generation.text, item.target, truncated=truncated)
    return Score(Answer(None, found.form, found.value), correct, generation.finish_reason)


def _score_code(generation: Generation, item: Item | None) -> Score:
    if item is None or item.code is None:
        raise DataError("A question without tests cannot be scored by running code. Expected one as in HumanEval.")
    reason, entry_point = generation.finish_reason, item.code.entry_point
    code = read_code(generation.text, entry_point, truncated=reason == FinishReason.LENGTH)
    if code is None:
        return Score(UNREADABLE, None, reason)
    outcome = run_tests(f"{item.text}\n{code}", item.code.tests, entry_point)
    if outcome.passed is None:
        raise SandboxError(f"No sandbox for the code: {outcome.why}")
    return Score(Answer(None, outcome.why), outcome.passed, reason)


def _read_scored(generation: Generation, options: Sequence[str], reading: Reading, normalisation: str) -> Answer:
    told = logprobs(generation, len(options))
    if reading == Reading.LETTER_LOGPROB:
        return read_logprobs(told, normalise="none", none_is_lowest=True)
    return read_logprobs(told, generation.option_tokens, normalisation, options)


def majority(ballots: Sequence[Score]) -> Score:
    """The option with most votes; of several with as many, the one that was named first.

    A ballot without an answer abstains; where most do, the whole has none. One that failed makes the whole a failure.

    >>> one, other = (Score(Answer(k, "strict"), k == 0, FinishReason.STOP) for k in (0, 1))
    >>> majority([one, other]).answer.index, majority([one, other, other]).answer.index
    (0, 1)
    """
    if any(ballot.finish_reason == FinishReason.ERROR for ballot in ballots):
        return Score(UNREADABLE, None, FinishReason.ERROR)
    named = [ballot for ballot in ballots if ballot.answer.parsed]
    if 2 * len(named) < len(ballots) or not named:
        return next(ballot for ballot in ballots if not ballot.answer.parsed)
    ((most, _),) = Counter(ballot.answer.index for ballot in named).most_common(1)  # of as many, the first that came
    return next(ballot for ballot in named if ballot.answer.index == most)


def counted(replies: Sequence[Generation], ballots: Sequence[Score]) -> Generation:
    """The replies as one: a line for each with what it said, or the letter that was scored, and the first error."""
    letters = ("" if b.answer.index is None else chr(ord("A") + b.answer.index) for b in ballots)
    said = enumerate(zip(replies, letters, strict=True), start=1)
    text = "\n".join(f"[{k}] {reply.text or letter}" for k, (reply, letter) in said)
    return Generation(text, engine_id=replies[0].engine_id, error=next((r.error for r in replies if r.error), None))
