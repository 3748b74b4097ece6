"""A worker's generation -> its answer, and whether it is right. A failure is never scored as an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from audit.errors import DataError
from audit.records import Answer, FinishReason, Generation, Reading
from audit.scoring.letter import read_letter
from audit.scoring.options import DEFAULT_NORMALISATION, UNREADABLE, read_logprobs


class Score(NamedTuple):
    """`correct` is None when no answer could be read (unparsed, truncated or error), which is not "wrong"."""

    answer: Answer
    correct: bool | None
    finish_reason: FinishReason


def score(
    generation: Generation,
    options: Sequence[str],
    gold: int,
    reading: Reading,
    normalisation: str = DEFAULT_NORMALISATION,
) -> Score:
    """Read the answer and compare it with `gold` (index into `options`).

    normalisation: of `option_text`; the letters of `letter_logprob` are one token each and are compared as they are.
    An error gives (unparsed, None, ERROR). A reply that was cut off and holds no answer keeps finish_reason LENGTH:
    truncated. Raises DataError when an engine scored another number of options than the question has.
    """
    if generation.error is not None or generation.finish_reason == FinishReason.ERROR:
        return Score(UNREADABLE, None, FinishReason.ERROR)
    if reading == Reading.LETTER:
        answer, reason = read_letter(generation.text, generation.finish_reason, options), generation.finish_reason
    else:
        answer, reason = _read_scored(generation, options, reading, normalisation), FinishReason.SCORED
    return Score(answer, answer.index == gold if answer.parsed else None, reason)


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
