"""What replies read as. Every row is one way in which models answer, or one way in which they do
not."""

import ast
import csv
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.core.records import FinishReason
from audit.scoring.letter import read_letter

CITIES = ("Rome", "Paris", "New York", "York")
STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH
TEN = tuple(f"choice number {i}" for i in range(10))


def read(
    text: str, options: tuple[str, ...] = CITIES, reason: FinishReason = STOP
) -> tuple[int | None, str]:
    answer = read_letter(text, reason, options)
    assert (answer.form == "none") == (answer.index is None)
    return answer.index, answer.form


@pytest.mark.parametrize(
    "text",
    [
        "B",
        " B",
        "B.",
        "B)",
        "(B)",
        "[B]",
        "**B**",
        "**(B)**",
        "**B.**",
        "b",
        "b.",
        "(b)",
        "Ｂ",
        "（Ｂ）",
        "`B`",
        '"B"',
        "'B'",
        "B\n",
        "\n\nB",
        "Answer: B",
        "answer: B",
        "ANSWER: B",
        "**Answer:** B",
        "**Answer: B**",
        "Answer:\nB",
        "Answer: (B)",
        "The answer is B",
        "The answer is B.",
        "The correct answer is (B).",
        "The best answer is: B",
        "Final answer: B",
        "Final Answer: **B**",
        "Option B",
        "The correct option is B.",
        "Choice B.",
        "\\boxed{B}",
        "$\\boxed{B}$",
        "\\boxed{\\text{B}}",
        "Answer: \\boxed{B}",
        "# B",
        "- B",
        "<think>A or C?</think>B",
        "<think>\nso A\n</think>\n\nB",
        "so A\n</think>\n\nB",
        "<thought>A</thought>\nB",
        "<THINKING>A</THINKING> B",
        "[THINK]A[/THINK]B",
        "<think>a</think><think>c</think>B",
        "<think>the tag <think> opens</think>B",
        "<|channel|>analysis<|message|>It is A?<|end|><|start|>assistant<|channel|>final<|message|>B<|return|>",
        "analysisIt may be A.assistantfinalB",
    ],
)
def test_strict_forms(text: str) -> None:
    assert read(text) == (1, "strict")


@pytest.mark.parametrize(
    "text",
    [
        "I think the answer is B.",
        "So the answer is (B).",
        "So the answer is **B**, because Rome is in Italy.",
        "Rome is in Italy, which rules out A. The answer is B.",
        "The answer is B because France's capital is there.",
        "First I thought the answer is A. On reflection the answer is B.",
        "The answer should be B!",
        "The answer is option B.",
        "The correct answer is: (B) Paris",
        "The answer is B. Paris",
        "The answer is B: Paris.",
        "B. Paris",
        "(B) Paris",
        "B) Paris",
        "**B. Paris**",
        "B: Paris",
        "B) Paris, of course.",
        "B) It is on the Seine.",
        "B because it is on the Seine.",
        "B\n\nParis is the capital of France.",
        "Let me see.\nThe Seine flows there.\n**B**",
        "The Seine flows there, so \\boxed{B}",
        "B is correct.",
        "Option B is the correct answer.",
        "(B) is the best answer.",
        "I choose option B.",
        "I would go with option (B).",
        "I would choose B.",
        "I'd pick (B).",
        "Therefore, B.",
        "It's B",
        "So, B is the answer.",
        "The answer to your question is B. It is on the Seine.",
        "Rome is wrong and B is correct.",
        "Option A is wrong. I choose option B.",
        "The answer is not A. The answer is B.",
        '{"answer": "B"}',
        "答案是B。",
        "答案：B",
        "答案是B，因为塞纳河。",
        "La respuesta correcta es B.",
        "La réponse est B.",
        "Die Antwort ist B.",
        "Ответ: B",
        "Paris",
        "paris.",
        "The answer is Paris.",
        "The capital of France is Paris.",
        "Answer: Paris",
        "It is Paris, on the Seine.",
        "Which is it? The answer: B.",
        "My answer: B\n\nI am sure.",
        "<think>It is A.</think>So it is: answer is B.",
        "A. Rome is out. The answer is B.",
        "The final answer is B.\n\nParis lies on the Seine, Rome on the Tiber.",
    ],
)
def test_lenient_forms(text: str) -> None:
    assert read(text) == (1, "lenient")


@pytest.mark.parametrize(
    "text",
    [
        "The answer is A planet that orbits.",
        "The answer is a city.",
        "E. coli is a bacterium.",
        "I choose a city.",
        "C. elegans is a worm.",
        "Vitamin C is good.",
        "The answer is C++.",
        "The answer is B-cells.",
        "The answer is not B.",
        "I don't think the answer is B.",
        "I don't think B is correct.",
        "I do not believe that B is the right answer.",
        "It is not true that B is correct.",
        "I doubt that B is correct.",
        "I cannot say that B is correct",
        "Many people think B is correct, but no.",
        "It is tempting to say that B is the correct answer.",
        "B is correct? No.",
        "A is correct and B is correct.",
        "Answer: A; C",
        "Is the answer B?",
        "The wrong answer is B.",
        "Option B is incorrect.",
        "I would not choose B.",
        "It is A or B.",
        "Thus Paris is wrong.",
        "A, B is correct",
        "Option A is wrong.",
        "I am not sure whether B is correct.",
        "B) is wrong.",
        "Not Paris.",
        "It is not Paris.",
        "Paris is wrong.",
        "Rome or Paris",
        "The answer is Rome or Paris.",
        "A. Rome\nB. Paris\nC. New York\nD. York",
        "B. Rome",
        "The answer is B. Rome",
        "B) Rome",
        "A: B",
        "Q: who?",
        "B\n\nQuestion: which river?\nAnswer: C",
        "A\nB",
        "Option A or option B.",
        "The options are A, B, C and D.",
        "Parisian",
        "<script>alert('B')</script>",
        "The answer is (E).",
        "b is it",
        "it is b",
        "The letter is",
        "The answer is",
        "Answer:",
        "Answer: none of the above",
        "\\boxed{}",
        "\\boxed{AB}",
        "answers",
        "choices",
        "ſ",
        "K",
        "",
        "   ",
        "\n",
        "To",
        "This",
        "I",
        "The",
        "E",
        "Z",
        "(E)",
        "Answer: E",
        "The answer is E.",
        "5",
        "?",
        "AB",
        "ABCD",
        "A or B",
        "A/B",
        "A, B",
        "A and B",
        "Answer: A or B",
        "The answer is A or B.",
        "The answer is A, B or C.",
        "Either A or B is correct.",
        "Neither A nor B is correct.",
        "The answer is A and C.",
        "B is not correct.",
        "A planet is what they show.",
        "A planet",
        "I think so.",
        "I am not sure.",
        "A. planet",
        "As an AI I cannot.",
    ],
)
def test_no_answer_too_many_and_traps(text: str) -> None:
    assert read(text) == (None, "none")


def test_an_option_that_begins_like_a_letter_is_read_as_the_option() -> None:
    options = ("A star", "A planet", "A moon", "C is correct")
    assert read("The answer is A planet.", options) == (1, "lenient")
    assert read("A planet", options) == (1, "lenient")
    assert read("A. A star", options) == (0, "lenient")
    assert read("A", options) == (0, "strict")


def test_an_option_that_is_a_letter_yields_to_the_letter() -> None:
    blood = ("B", "A", "AB", "O")
    assert read("B", blood) == (1, "strict")
    assert read("So the answer is B.", blood) == (1, "lenient")


def test_a_longer_option_covers_the_shorter_one_inside_it() -> None:
    assert read("It was first seen in New York.") == (2, "lenient")
    assert read("They left York in the morning.") == (3, "lenient")
    assert read("True, False", ("True, True", "False, False", "True, False", "False, True")) == (
        2,
        "lenient",
    )


def test_equal_options_are_never_told_apart_by_their_text() -> None:
    assert read("Paris", ("Paris", "Paris", "Rome")) == (None, "none")
    assert read("B", ("Paris", "Paris", "Rome")) == (1, "strict")


def test_short_options_are_not_found_in_prose() -> None:
    numbers = ("4", "5", "6", "7")
    assert read("There are 4 reasons to think so.", numbers) == (None, "none")
    assert read("4", numbers) == (0, "lenient")
    assert read("The answer is 4.", numbers) == (0, "lenient")


def test_a_letter_without_an_option_behind_it_hides_no_later_one() -> None:
    two = ("London", "Paris")
    assert read("A. hm, B. London", two) == (
        None,
        "none",
    )  # a letter with another's text contradicts itself
    assert read("A. mostly; B. Paris, not London", two) == (1, "lenient")


def test_ten_options() -> None:
    assert read("J", TEN) == (9, "strict")
    assert read("So the answer is (J).", TEN) == (9, "lenient")
    assert read("K", TEN) == (None, "none")
    assert read("I", TEN) == (8, "strict")
    assert read("I think it is hard to say.", TEN) == (None, "none")


@pytest.mark.parametrize(
    "text",
    [
        "<think>The answer is A, but",
        "Let me see. The answer is A, but that",
        "Option A is",
        "B. Paris is",
        "<|channel|>analysis<|message|>The answer is A",
        "The city on the Seine is Paris",
    ],
)
def test_what_was_cut_off_is_not_read_for_what_it_was_heading_for(text: str) -> None:
    assert read(text, reason=LENGTH) == (None, "none")


def test_a_letter_alone_counts_when_the_budget_was_one_token() -> None:
    assert read("B", reason=LENGTH) == (1, "strict")


def test_thinking_that_never_closed_is_no_answer_even_when_it_stopped() -> None:
    assert {read(f"{before}<think>The answer is A.") for before in ("", "B ")} == {(None, "none")}


def test_an_error_is_no_answer() -> None:
    assert read("B", reason=FinishReason.ERROR) == (None, "none")


_FRAGMENTS = st.sampled_from(
    [
        "A",
        "B",
        "b",
        "answer",
        " is ",
        "the ",
        "option ",
        "\\boxed{",
        "}",
        "<think>",
        "</think>",
        "<|channel|>final",
        "<|message|>",
        "\n",
        " ",
        ":",
        ".",
        "(",
        ")",
        "*",
        "Paris",
        "York",
        "not ",
        "or",
        "\x00",
        "\ud800",
        "Ｂ",
        "ß",
        "İ",
    ]
)
_HOSTILE = st.one_of(st.text(max_size=200), st.lists(_FRAGMENTS, max_size=40).map("".join))


@settings(max_examples=600)
@given(
    _HOSTILE,
    st.lists(st.text(max_size=12), min_size=2, max_size=26),
    st.sampled_from(list(FinishReason)),
)
def test_any_text_gives_an_answer_within_the_options(
    text: str, options: list[str], reason: FinishReason
) -> None:
    answer = read_letter(text, reason, options)
    assert answer.index is None or 0 <= answer.index < len(options)
    assert answer.form in ("strict", "lenient", "none")


@settings(max_examples=200)
@given(_HOSTILE)
def test_thinking_never_decides(thought: str) -> None:
    thought = thought.replace("<", "").replace("[", "").replace("assistantfinal", "")
    assert read(f"<think>{thought}</think>C") == (2, "strict")


@pytest.mark.parametrize(
    "junk",
    [
        "A",
        "A ",
        " ",
        "\n",
        "answer is ",
        "answer",
        "the answer is A or ",
        "option A ",
        "(",
        "((A",
        "*",
        "B. Paris\n",
        "<think>",
        "</think>",
        "<think></think>",
        "\\boxed{",
        "\\boxed{A",
        "Paris ",
        "Par",
        "<|channel|>",
        "not ",
        "A is ",
        "York",
        "analysis",
        "assistantfinal",
        "答案",
        "_",
        "'",
        "İ",
        "\ud800",
        "A) ",
        "if B is correct ",
    ],
)
def test_a_megabyte_of_junk_is_read_in_linear_time(junk: str) -> None:
    def seconds(size: int) -> float:
        text = junk * (size // len(junk))
        started = time.process_time()
        read_letter(text, STOP, CITIES)
        return time.process_time() - started

    # Processor seconds: a linear reader takes well under 1, a quadratic one hours.
    assert seconds(1_000_000) < 10


def test_answer_tokens_of_ten_real_models(shared_data: Path) -> None:
    """HELM's tokens: every letter is read as itself, and nothing else is read as a letter."""
    counts: Counter[str] = Counter()
    for path in sorted((shared_data / "mmlu_predictions" / "original_helm_combined").glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as handle:
            for row in csv.DictReader(handle):
                options = tuple(map(str, ast.literal_eval(row["choices"])))
                for column in list(row)[2:]:
                    token = row[column]
                    answer = read_letter(token, STOP, options)
                    bare = token.strip().strip("*().:").strip()
                    counts["tokens"] += 1
                    if bare in ("A", "B", "C", "D"):
                        counts["letters"] += 1
                        assert (answer.index, answer.form) == ("ABCD".index(bare), "strict"), token
                    elif answer.parsed:
                        counts[f"read otherwise: {token!r}"] += 1
                    else:
                        counts["unparsed"] += 1
    assert counts["tokens"] > 120_000
    assert counts["letters"] > 0.95 * counts["tokens"]
    assert counts["unparsed"] > 0


def test_an_option_that_goes_on_after_its_text_is_another_word() -> None:
    # One character decides, the one after the text: with the next one taken along, "s." would be no
    # letter any more.
    others = (
        "The answer is Yorks.",
        "Yorkshire.",
        "York2.",
        "York_.",
        "York's.",
        "York’s walls",
        "York-based",
        "the Anti-York league",
        "York's, or Paris",
    )
    assert [reply for reply in others if read(reply, ("York", "Paris"))[0] is not None] == []
    for reply in ("The answer is York.", "the city of York.", "'York'", "York"):
        assert read(reply, ("York", "Paris"))[0] == 0, reply
