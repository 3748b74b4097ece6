"""A model's generation -> its answer, and whether it is right. A failure is never scored as an answer."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from audit.benchmarks.answers import score_number
from audit.errors import DataError, SandboxError
from audit.prompting.thinking import strip_thinking
from audit.records import Answer, FinishReason, Generation, Question, Reading
from audit.scoring.letter import read_letter
from audit.scoring.options import DEFAULT_NORMALISATION, UNREADABLE, read_logprobs
from audit.scoring.sandbox import Outcome, run_tests


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


def run_code(text: str, question: Question | None, *, truncated: bool = False) -> Outcome | None:
    """What became of a reply's code, None where it holds none. Raises DataError for a question that is no problem."""
    if question is None or question.code is None:
        raise DataError(
            "A question without tests cannot be scored by running code. Expected a problem of HumanEval's form."
        )
    code = read_code(text, question.code.entry_point, truncated=truncated)
    if code is None:
        return None
    return run_tests(f"{question.text}\n{code}", question.code.tests, question.code.entry_point)


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
