"""Several answers put to the vote."""

import pytest

from audit.records import Answer, FinishReason, Generation
from audit.scoring.score import Score, counted, majority

GOLD = 1


def score(index: int | None, reason: FinishReason = FinishReason.STOP) -> Score:
    answer = Answer(index, "none" if index is None else "strict")
    return Score(answer, None if index is None else index == GOLD, reason)


@pytest.mark.parametrize(
    ("votes", "index"),
    [
        ((1,), 1),
        ((0, 1, 1), 1),
        ((0, 1), 0),  # as many for each: the first named
        ((2, 1, 0, 1, 0), 1),  # 1 and 0 with two each: 1 was named first
        ((None, 1), 1),  # one abstains, half is enough
        ((None, None, 1), None),  # most abstain
        ((None,), None),
    ],
)
def test_the_option_with_most_votes_is_the_answer(votes: tuple[int | None, ...], index: int | None) -> None:
    found = majority([score(one) for one in votes])
    assert (found.answer.index, found.answer.parsed) == (index, index is not None)
    assert found.correct == (None if index is None else index == GOLD)


def test_a_ballot_that_failed_makes_the_whole_a_failure_and_a_cut_off_one_stays_so() -> None:
    failed = majority([score(1), score(1), score(None, FinishReason.ERROR)])
    assert (failed.correct, failed.finish_reason) == (None, FinishReason.ERROR)
    assert majority([score(None, FinishReason.LENGTH)]).finish_reason == FinishReason.LENGTH


def test_what_was_said_has_a_line_for_each_ballot() -> None:
    replies = [Generation("B", engine_id="e"), Generation(engine_id="e"), Generation(error="lost")]
    whole = counted(replies, [score(1), score(2, FinishReason.SCORED), score(None, FinishReason.ERROR)])
    assert (whole.text, whole.engine_id, whole.error) == ("[1] B\n[2] C\n[3] ", "e", "lost")
