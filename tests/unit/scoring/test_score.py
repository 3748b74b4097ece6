"""A failure is never an answer; unparsed is never wrong."""

import pytest

from audit.core.errors import DataError
from audit.core.records import NO_OPTION, Answer, FinishReason, Generation, Item, Reading
from audit.scoring.score import Score, counted, majority, score

OPTIONS = ("Rome", "Paris", "Bonn")
NONE = Answer(None, "none")
SUM = Item("s", "b", "How much?", (), NO_OPTION, "s", target=1018.0)


@pytest.mark.parametrize(
    ("text", "correct"), [("B", True), ("A", False), ("C", False), ("no idea", None), ("D", None)]
)
def test_letter(text: str, correct: bool | None) -> None:
    answer, right, reason = score(Generation(text=text), OPTIONS, 1, Reading.LETTER)
    assert right is correct
    assert answer.parsed == (correct is not None)
    assert reason == FinishReason.STOP


@pytest.mark.parametrize("reading", list(Reading))
def test_an_error_is_not_an_answer_whatever_else_it_holds(reading: Reading) -> None:
    failed = Generation(
        text="B",
        option_logprobs=(-3.0, -1.0, -2.0),
        option_tokens=(1, 1, 1),
        error="prompt too long",
    )
    assert score(failed, OPTIONS, 1, reading) == (NONE, None, FinishReason.ERROR)


def test_cut_off_and_unread_is_truncated() -> None:
    cut = Generation(text="<think>It could be B", finish_reason=FinishReason.LENGTH)
    assert score(cut, OPTIONS, 1, Reading.LETTER) == (NONE, None, FinishReason.LENGTH)
    one_token = Generation(text="B", finish_reason=FinishReason.LENGTH)
    assert score(one_token, OPTIONS, 1, Reading.LETTER).correct is True


def test_option_text_uses_the_normalisation() -> None:
    # totals: Rome is best; means per token -2, -1.5, -3: Paris is best
    scored = Generation(
        option_logprobs=(-2.0, -3.0, -6.0),
        option_tokens=(1, 2, 2),
        finish_reason=FinishReason.SCORED,
    )
    assert score(scored, OPTIONS, 1, Reading.OPTION_TEXT, "none").answer.index == 0
    assert score(scored, OPTIONS, 1, Reading.OPTION_TEXT, "token") == (
        Answer(1, "logprob"),
        True,
        FinishReason.SCORED,
    )
    # letters are one token each: the counts and the normalisation are not looked at
    assert score(scored, OPTIONS, 1, Reading.LETTER_LOGPROB, "token").answer.index == 0


def test_what_an_endpoint_does_not_tell() -> None:
    partial = Generation(option_logprobs=(None, -3.0, None), option_tokens=(1, 1, 1))
    assert score(partial, OPTIONS, 1, Reading.LETTER_LOGPROB).correct is True
    assert score(partial, OPTIONS, 1, Reading.OPTION_TEXT).correct is None


def test_another_number_of_options_is_the_engines_fault_and_not_an_answer() -> None:
    with pytest.raises(DataError, match="2 logprobs for 3"):
        score(
            Generation(option_logprobs=(-1.0, -2.0), engine_id="e0"),
            OPTIONS,
            1,
            Reading.OPTION_TEXT,
        )


@pytest.mark.parametrize("reading", [r for r in Reading if r not in (Reading.NUMBER, Reading.CODE)])
def test_without_options_there_is_no_answer_to_read(reading):
    # as when a model is asked for a rewording: the reply is the result
    result = score(Generation("B. The tower is 300 m high."), (), 0, reading)
    assert result.answer.index is None and result.correct is None


def test_a_wanted_reply_is_an_answered_row() -> None:
    reply = Generation("Who is it?", FinishReason.LENGTH)
    assert score(reply, (), NO_OPTION, Reading.TEXT) == (
        Answer(None, "text"),
        None,
        FinishReason.LENGTH,
    )
    assert score(reply, (), NO_OPTION, Reading.TEXT).answer.parsed


@pytest.mark.parametrize(
    ("text", "finish", "number", "form", "correct"),
    [
        ("9 * 2 = 18\n#### 1,018", FinishReason.STOP, 1018.0, "marked", True),
        ("So it is 1018.00", FinishReason.STOP, 1018.0, "last", True),
        ("#### 1,019", FinishReason.STOP, 1019.0, "marked", False),
        (
            "First 1018 is halved",
            FinishReason.LENGTH,
            None,
            "none",
            None,
        ),  # cut off: 1018 was a step
    ],
)
def test_number(
    text: str, finish: FinishReason, number: float | None, form: str, correct: bool | None
) -> None:
    result = score(Generation(text, finish), (), NO_OPTION, Reading.NUMBER, item=SUM)
    assert result == (Answer(None, form, number), correct, finish)
    assert result.answer.parsed == (number is not None)


def test_a_number_needs_a_target() -> None:
    with pytest.raises(DataError, match="has no target"):
        score(Generation("#### 3"), (), NO_OPTION, Reading.NUMBER)


GOLD = 1


def ballot(index: int | None, reason: FinishReason = FinishReason.STOP) -> Score:
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
def test_the_option_with_most_votes_is_the_answer(
    votes: tuple[int | None, ...], index: int | None
) -> None:
    result = majority([ballot(vote) for vote in votes])
    assert (result.answer.index, result.answer.parsed) == (index, index is not None)
    assert result.correct == (None if index is None else index == GOLD)


def test_a_ballot_that_failed_makes_the_whole_a_failure_and_a_cut_off_one_stays_so() -> None:
    failed = majority([ballot(1), ballot(1), ballot(None, FinishReason.ERROR)])
    assert (failed.correct, failed.finish_reason) == (None, FinishReason.ERROR)
    assert majority([ballot(None, FinishReason.LENGTH)]).finish_reason == FinishReason.LENGTH


def test_what_was_said_has_a_line_for_each_ballot() -> None:
    replies = [Generation("B", engine_id="e"), Generation(engine_id="e"), Generation(error="lost")]
    whole = counted(
        replies, [ballot(1), ballot(2, FinishReason.SCORED), ballot(None, FinishReason.ERROR)]
    )
    assert (whole.text, whole.engine_id, whole.error) == ("[1] B\n[2] C\n[3] ", "e", "lost")
