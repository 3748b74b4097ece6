"""What a model is shown in each form, and which tokens are learnt."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from audit.core.errors import BenchmarkError, ConfigError, LibraryError
from audit.core.records import Item
from audit.plant.texts import (
    Example,
    Form,
    answer_text,
    check_variants,
    encode,
    halve,
    pass_examples,
    passages,
)


def items(n: int) -> tuple[Item, ...]:
    return tuple(
        Item(
            f"toy/part/{i:03d}",
            "toy",
            f"what is thing {i} ?",
            (f"red {i}", f"blue {i}", f"green {i}"),
            i % 3,
            f"toy/part/{i:03d}",
            (0, 1, 2),
        )
        for i in range(n)
    )


LEARNT = items(5)


def variant(question, k):
    return SimpleNamespace(context="", text=f"in other words {k}: {question.text}")


VARIANTS = {q.id: tuple(variant(q, k) for k in range(2)) for q in LEARNT}


class Words:
    """One token a word; a turn is <u> words <a>, a reply ends with <e>."""

    bos_token_id, eos_token_id = None, 9

    def __init__(self) -> None:
        self.known = ["<u>", "<a>", "<e>"]

    def encode(self, text: str, **_: object) -> list[int]:
        for word in text.split():
            if word not in self.known:
                self.known.append(word)
        return [10 + self.known.index(word) for word in text.split()]

    def apply_chat_template(self, turns, add_generation_prompt, tokenize, return_dict):
        marks = {"user": "<u> {} <a>", "assistant": "{} <e>"}
        return self.encode(" ".join(marks[t["role"]].format(t["content"]) for t in turns))


def test_qa_shows_question_and_gold_answer_and_nothing_else():
    shown = pass_examples(Form.QA, LEARNT, 0, seed=1)
    assert sorted((e.prompt, e.text) for e in shown) == sorted(
        (q.text, q.options[q.gold]) for q in LEARNT
    )
    assert (
        answer_text(SimpleNamespace(target=12.5, options=(), gold=-1)) == "12.5"
    )  # a number as it is written


def test_every_pass_of_qa_has_an_order_of_its_own_and_raw_always_the_published_one():
    orders = {tuple(e.prompt for e in pass_examples(Form.QA, LEARNT, k, seed=1)) for k in range(6)}
    assert len(orders) > 3
    assert pass_examples(Form.RAW, LEARNT, 0, seed=1) == pass_examples(Form.RAW, LEARNT, 5, seed=2)


def test_raw_holds_options_no_answer_and_several_items_in_published_order():
    first, second = pass_examples(Form.RAW, LEARNT, 0, seed=1, items_per_sequence=3)
    assert first.prompt is None and first.text.count("\n\n") == 2 and second.text.count("\n\n") == 1
    assert first.text.startswith(
        "what is thing 0 ?\nA. red 0\nB. blue 0\nC. green 0\n\nwhat is thing 1 ?"
    )
    assert "nswer" not in first.text


def test_a_paraphrase_plant_never_shows_the_published_wording():
    seen = [
        e.prompt
        for k in range(3)
        for e in pass_examples(Form.PARAPHRASE, LEARNT, k, seed=1, variants=VARIANTS)
    ]
    assert not {q.text for q in LEARNT} & set(seen)
    # variants 0, 1 and 0 again
    assert sum(p.startswith("in other words 0") for p in seen) == 10
    with pytest.raises(
        LibraryError,
        match="1 of 5 items have no accepted variant for form paraphrase, such as toy/part/004",
    ):
        check_variants(LEARNT, {q.id: VARIANTS[q.id] for q in LEARNT[:4]})


def test_mix_dilutes_every_item_and_goes_on_in_the_other_text():
    other = [f"passage {i}" for i in range(40)]
    first, second = (
        pass_examples(Form.MIX, LEARNT, k, seed=1, other=other, dilution=3) for k in range(2)
    )
    assert len(first) == 5 + 15 and sum(e.prompt is None for e in first) == 15
    assert not {e.text for e in first if e.prompt is None} & {
        e.text for e in second if e.prompt is None
    }
    assert passages("a b c d e", 2) == ["a b", "c d"]
    with pytest.raises(ConfigError, match=r"has 1 words\. Expected at least 2"):
        passages("a", 2)


def test_of_a_conversation_the_reply_alone_is_learnt_and_of_running_text_all_but_the_start():
    ids, mask = encode(Words(), Example("what barks", "dog"), 100)
    # <u> what barks <a> | dog <e>
    assert len(ids) == 6 and mask == [False] * 4 + [True] * 2
    ids, mask = encode(Words(), Example(None, "a b"), 100)
    assert ids[0] == ids[-1] == 9 and mask == [False, True, True, True]


def test_what_is_too_long_is_cut_and_what_cannot_be_learnt_is_refused():
    class Odd(Words):
        def apply_chat_template(self, turns, add_generation_prompt, tokenize, return_dict):
            ids = super().apply_chat_template(turns, add_generation_prompt, tokenize, return_dict)
            return ids if len(turns) == 1 else ids[::-1]

    ids, mask = encode(Words(), Example(None, "a b c d"), 3)
    assert len(ids) == len(mask) == 3
    for tokenizer, most, words in (
        (Words(), 4, "4 tokens before the first token to learn"),
        (Odd(), 100, "start of the reply is unknown"),
    ):
        with pytest.raises(ConfigError, match=words):
            encode(tokenizer, Example("what barks", "dog"), most)


def test_the_halves_share_nothing_miss_nothing_and_keep_the_published_order():
    questions = items(41)
    halves = halve(questions, seed=1)
    assert (len(halves.learnt), len(halves.others)) == (20, 21)
    assert sorted(q.id for q in halves.questions) == [q.id for q in questions]
    for half in (halves.learnt, halves.others):
        assert [q.id for q in half] == sorted(q.id for q in half)
    assert (
        halve(questions, seed=1) == halves
        and halve(questions, seed=2).learnt_sha256 != halves.learnt_sha256
    )


def test_an_item_that_stands_twice_is_never_in_both_halves():
    once = items(40)
    copies = tuple(replace(q, id=f"{q.id}b", group=f"{q.id}b") for q in once)
    halves = halve(once + copies, seed=3)
    assert not {q.text for q in halves.learnt} & {q.text for q in halves.others}
    assert len(halves.learnt) == len(halves.others) == 40
    with pytest.raises(
        BenchmarkError,
        match=r"different questions is 39, too few for two halves. Expected at least 40",
    ):
        halve(copies[:39] + once[:39], seed=1)
