"""A model's generation -> its answer, and whether it is right. A failure is never scored as an answer."""

from collections.abc import Sequence
from typing import NamedTuple

from audit.benchmarks.answers import score_number
from audit.errors import DataError, SandboxError
from audit.records import Answer, FinishReason, Generation, Question, Reading
from audit.scoring.code import run_code
from audit.scoring.letter import read_letter
from audit.scoring.options import DEFAULT_NORMALISATION, UNREADABLE, read_logprobs


class Score(NamedTuple):
    """`correct` is None when no answer could be read (unparsed, truncated or error), which is not "wrong".

    It is also None with reading `text`, which has no answer to score.
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
    target: float | None = None,
    problem: Question | None = None,
) -> Score:
    """Read the answer and compare it with `gold` (index into `options`), or with `target` (reading `number`), or run
    it against the tests of `problem` (reading `code`).

    normalisation: of `option_text`; the letters of `letter_logprob` are one token each and are compared as they are.
    An error gives (unparsed, None, ERROR). A reply that was cut off and holds no answer keeps finish_reason LENGTH:
    truncated. Raises DataError when an engine scored another number of options than the question has, or when a
    number is to be read and the question has no target, or code and it has no tests. Raises SandboxError when code
    could not be run, which says nothing of the code.
    """
    if generation.error is not None or generation.finish_reason == FinishReason.ERROR:
        return Score(UNREADABLE, None, FinishReason.ERROR)
    if reading == Reading.TEXT:
        return Score(Answer(None, "text"), None, generation.finish_reason)
    if reading == Reading.NUMBER:
        return _score_number(generation, target)
    if reading == Reading.CODE:
        return _score_code(generation, problem)
    if reading == Reading.LETTER:
        answer, reason = read_letter(generation.text, generation.finish_reason, options), generation.finish_reason
    else:
        answer, reason = _read_scored(generation, options, reading, normalisation), FinishReason.SCORED
    return Score(answer, answer.index == gold if answer.parsed else None, reason)


def _score_number(generation: Generation, target: float | None) -> Score:
    if target is None:
        raise DataError("A question without a target cannot be scored by its number. Expected one, as in GSM8K.")
    truncated = generation.finish_reason == FinishReason.LENGTH
    found, correct = score_number(generation.text, target, truncated=truncated)
    return Score(Answer(None, found.form, found.value), correct, generation.finish_reason)


def _score_code(generation: Generation, problem: Question | None) -> Score:
    reason = generation.finish_reason
    outcome = run_code(generation.text, problem, truncated=reason == FinishReason.LENGTH)
    if outcome is None:
        return Score(UNREADABLE, None, reason)
    if outcome.passed is None:
        raise SandboxError(f"No sandbox for the code: {outcome.why}")
    return Score(Answer(None, outcome.why), outcome.passed, reason)


def _read_scored(generation: Generation, options: Sequence[str], reading: Reading, normalisation: str) -> Answer:
    logprobs = generation.option_logprobs
    if len(logprobs) != len(options):
        raise DataError(
            f"Engine {generation.engine_id!r} returned {len(logprobs)} option logprobs for {len(options)} options. "
            "Expected one for each option (None where it cannot tell)."
        )
    if reading == Reading.LETTER_LOGPROB:
        return read_logprobs(logprobs, normalise="none", none_is_lowest=True)
    return read_logprobs(logprobs, generation.option_tokens, normalisation, options)
