"""Several answers to one question -> the one that most of them give."""

from collections import Counter
from collections.abc import Sequence

from audit.records import FinishReason, Generation
from audit.scoring.options import UNREADABLE
from audit.scoring.score import Score


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
