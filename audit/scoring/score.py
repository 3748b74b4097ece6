"""Read the answer from a model's reply or from its log-likelihoods, and decide whether it is right.

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

# `option_normalisation` makes the total logprobs of options of different lengths comparable.
# - none keeps the total. It is the probability of the whole reply and favours short options, since
#   every further token lowers it.
# - token divides by the number of tokens, which the engine reports.
# - byte divides by the number of UTF-8 bytes of the option, which does not depend on the tokenizer.
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
    """Choose the option with the highest normalised log-likelihood.

    Parameters
    ----------
    option_logprobs : sequence of float or None
        The total logprob of each of the k options in nats; None if the engine gave no value for the
        option.
    option_tokens : sequence of int
        The k token counts, for the normalisation `token`.
    normalise : str
        One of NORMALISATIONS.
    options : sequence of str
        The k texts, for the normalisation `byte`.
    none_is_lowest : bool
        True treats None as a value below all known values. This is right for option letters at
        endpoints that list the top tokens, since an unlisted token is less likely. For whole option
        texts, an unknown value could be the best. With False, one None therefore makes the answer
        unparsed.

    Returns
    -------
    Answer
        The chosen option. The answer is unparsed (form "none") and not guessed if there is no
        value. A value of NaN or +inf is a fault of the engine and also makes it unparsed. The same
        holds if the best value is -inf, or if two options share the best value.

    Raises
    ------
    ConfigError
        If the normalisation is unknown.
    DataError
        If the number of token counts or of texts differs from the number of options.

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
    """Return the lengths by which the logprobs of k options are divided."""
    if normalise == "none":
        return [1] * k
    lengths, name = list(option_tokens), "token counts (option_tokens)"
    if normalise == "byte":
        lengths, name = [], "bytes of the option texts"
        for text in options:
            lengths.append(len(text.encode("utf-8", "surrogatepass")))
    if len(lengths) != k or min(lengths, default=1) < 1:
        raise DataError(
            f"The {name} are {lengths}, so {k} option logprobs cannot be normalised by {normalise}. "
            f"Expected {k} lengths of at least 1. Example: option_normalisation=none."
        )
    return lengths


def read_code(text: str, entry_point: str, *, truncated: bool = False) -> str | None:
    r"""Extract the code from a reply.

    Parameters
    ----------
    text : str
        Text of the model's reply.
    entry_point : str
        The name of the function that the code must define.
    truncated : bool
        Whether the reply was cut off.

    Returns
    -------
    str or None
        The code. It is None if the reply is prose, or was cut off before a code block was closed.

    Notes
    -----
    The code is the last fenced block that defines the function, or else the first fenced block.
    Without a fence, the whole reply is code if it defines the function. If its first line is
    indented, the reply is code that continues the prompt.

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
    """Return the fenced blocks, and True if the last block is not closed.

    Every line is read once, so the time is linear in the length of the text.
    """
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
        True if the answer is right. None if no answer could be read (unparsed, truncated or error);
        such a reply does not count as wrong. None also for the reading `text`, which is not scored.
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
        The model's reply, with its text or its logprobs.
    options : sequence of str
        The options as shown.
    gold : int
        The index of the right option.
    reading : Reading
        How the answer is read. `number` compares the answer with the target of `item`, and `code`
        runs the tests of `item`.
    normalisation : str
        The normalisation of `option_text`. The reading `letter_logprob` needs no normalisation,
        since each letter is one token.
    item : Item or None
        The question, for the readings `number` and `code`.

    Returns
    -------
    Score
        The answer and whether it is right. A reply that was cut off without an answer keeps the
        finish_reason LENGTH, which counts as truncated.

    Raises
    ------
    DataError
        If the engine scored another number of options than the question has, or if the question has
        no target or tests.
    SandboxError
        If the code could not be run, so that it was not tested.
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
        answer = _read_scored(generation, options, reading, normalisation)
        reason = FinishReason.SCORED
    return Score(answer, answer.index == gold if answer.parsed else None, reason)


def _score_number(generation: Generation, item: Item | None) -> Score:
    if item is None or item.target is None:
        raise DataError(
            "A question has no target, so the reading number cannot score it. Expected a target, as in GSM8K."
        )
    truncated = generation.finish_reason == FinishReason.LENGTH
    number, correct = score_number(generation.text, item.target, truncated=truncated)
    return Score(Answer(None, number.form, number.value), correct, generation.finish_reason)


def _score_code(generation: Generation, item: Item | None) -> Score:
    if item is None or item.code is None:
        raise DataError(
            "A question has no tests, so the reading code cannot score it. Expected tests, as in HumanEval."
        )
    reason, entry_point = generation.finish_reason, item.code.entry_point
    code = read_code(generation.text, entry_point, truncated=reason == FinishReason.LENGTH)
    if code is None:
        return Score(UNREADABLE, None, reason)
    outcome = run_tests(f"{item.text}\n{code}", item.code.tests, entry_point)
    if outcome.passed is None:
        raise SandboxError(f"The sandbox failed, so the code was not tested: {outcome.why}")
    return Score(Answer(None, outcome.why), outcome.passed, reason)


def _read_scored(
    generation: Generation, options: Sequence[str], reading: Reading, normalisation: str
) -> Answer:
    values = logprobs(generation, len(options))
    if reading == Reading.LETTER_LOGPROB:
        return read_logprobs(values, normalise="none", none_is_lowest=True)
    return read_logprobs(values, generation.option_tokens, normalisation, options)


def majority(ballots: Sequence[Score]) -> Score:
    """Choose the option with most votes.

    In a tie, the tied option that received a vote first is chosen.

    Parameters
    ----------
    ballots : sequence of Score
        The votes. A vote without an answer abstains.

    Returns
    -------
    Score
        The result of the vote. It is unparsed if most votes abstain. It is a failure if the call
        for a vote failed.

    Examples
    --------
    >>> a = Score(Answer(0, "strict"), True, FinishReason.STOP)
    >>> b = Score(Answer(1, "strict"), False, FinishReason.STOP)
    >>> majority([a, b]).answer.index, majority([a, b, b]).answer.index
    (0, 1)
    """
    first_votes: dict[int | None, Score] = {}
    counts: Counter[int | None] = Counter()
    abstained = []
    for ballot in ballots:
        if ballot.finish_reason == FinishReason.ERROR:
            return Score(UNREADABLE, None, FinishReason.ERROR)
        if ballot.answer.parsed:
            first_votes.setdefault(ballot.answer.index, ballot)
            counts[ballot.answer.index] += 1
        else:
            abstained.append(ballot)
    if counts.total() < len(abstained) or not counts:
        return abstained[0]
    # In a tie, `most_common` gives the option that was counted first.
    ((most, _),) = counts.most_common(1)
    return first_votes[most]


def counted(replies: Sequence[Generation], ballots: Sequence[Score]) -> Generation:
    """Join the replies on which a majority vote was taken into one generation.

    Parameters
    ----------
    replies : sequence of Generation
        The model's replies to the same question.
    ballots : sequence of Score
        The vote that was read from each reply.

    Returns
    -------
    Generation
        A generation whose text has a line for each reply: the reply's text or the letter of its
        answer. Its error is the first error of the replies.
    """
    lines, errors = [], []
    for k, (reply, ballot) in enumerate(zip(replies, ballots, strict=True), start=1):
        index = ballot.answer.index
        letter = "" if index is None else chr(ord("A") + index)
        lines.append(f"[{k}] {reply.text or letter}")
        if reply.error:
            errors.append(reply.error)
    error = errors[0] if errors else None
    return Generation("\n".join(lines), engine_id=replies[0].engine_id, error=error)
