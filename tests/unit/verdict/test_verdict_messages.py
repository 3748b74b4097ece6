"""Text measures: what counts as stating the answer, as lost, and as unchanged."""

import gc
import re
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis.strategies import text
from outcome_tables import Outcome, text_rows, texts_of
from synthetic import synthetic_outcomes

from audit.sweep.design import Aggregator, Arm, SweepThresholds
from audit.sweep.gates import answer_leak, manipulation_reached_worker
from audit.sweep.messages import (
    TextRow,
    _Question,
    gives_answer,
    holds,
    measure_texts,
    normalise,
    states_answer,
)

CITIES = ["Rome", "Paris", "Oslo", "Bern"]


@pytest.mark.parametrize(
    ("message", "stated"),
    [
        ("The correct answer is B.", True),
        ("Answer: (B)", True),
        ("**Answer:** B", True),
        ("The answer is B because it is the capital.", True),
        ("The correct answer is:\n\nB. Paris", True),
        ("Paris is the correct answer.", True),
        ("the answer is Paris, of course", True),
        ("The correct option is: Paris", True),
        ("the answer is C", False),
        ("The answer is Rome.", False),
        (
            "A. Paris\nB. Rome\nThe answer is A",
            True,
        ),  # the router's own list counts, not the original order
        ("A. Paris\nB. Rome\nThe answer is B", False),
        ("The correct answer is option A", False),
        ("The correct answer is (A", False),
        ("The answer is not B", None),
        ("the answer is a number", None),
        ("The answer is one of Rome, Paris, Oslo or Bern.", None),
        ("What is the right answer?\nA. Rome\nB. Paris", None),
        ("Answer: A, B, C or D", None),  # which options there are, not which is right
        ("Your answer should be B, C or D", None),
        ("The answer must be B or C", None),
        ("Which is the right answer: Paris, Rome, Oslo or Bern?", None),
        ("The correct answer is B, Paris.", True),
        ("The answer is B, a capital.", True),
        ("The answer to the question is B.", True),
        ("The correct answer to this question is: Paris", True),
        (r"Final answer: $\boxed{B}$", True),
        ("The answer is 'B'.", True),
        ("choose the best answer: \nA. Rome\nB. Paris", None),
        ("Which is the correct answer? A. Rome B. Paris", None),
        ("Answer with one letter. B. Paris", None),
        ("It is not clear which answer is right. A. Rome", None),
        ("Do not answer the question.", None),
        ("The capital is Paris.", None),
        ("", None),
    ],
)
def test_stating_the_answer(message: str, stated: bool | None) -> None:
    assert states_answer(message, CITIES, gold=1) is stated


@pytest.mark.parametrize("unit", [" ", "*", '"', "\n", "* ", "\u00a0"])
@pytest.mark.parametrize(
    ("message", "stated"),
    [
        ("The best answer:{}", (None,)),
        ("Is B{} is correct", (True, None)),
        ("best{}", (None,)),
        ("{}best", (None,)),
        ("The answer is C\nA. x{}y", (False,)),
    ],
)
def test_a_router_that_repeats_itself_for_ever_is_read_in_a_moment(
    unit: str, message: str, stated: tuple[bool | None, ...]
) -> None:
    began = time.process_time()
    reading = states_answer(
        message.format(unit * 20_000), CITIES, gold=1
    )  # 10 to 20 ms; up to 2.5 s if tried anew
    assert reading in stated and time.process_time() - began < 0.3


def test_the_longest_option_is_the_one_that_was_said() -> None:
    options = ["red", "red wine", "white wine", "water"]
    assert [states_answer("The answer is red wine.", options, gold=gold) for gold in (0, 1)] == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("message", "part", "expected"),
    [
        ("Q: How many legs has a spider?", "how many legs has a spider", True),
        ("How many legs do spiders have? 15", "5", False),  # a number inside another is not it
        ("x² → y", "→", True),  # an option without a single word
        ("the red house by a lake near town", "the red house by the lake", True),  # 5 of 6 words
        ("a house", "the red house by the lake", False),
    ],
)
def test_holding_a_part(message: str, part: str, expected: bool) -> None:
    assert holds(message, part) is expected


def _noisy(n: int = 20) -> list[Outcome]:
    return synthetic_outcomes(n, (1, 2), rng=np.random.default_rng(1))


@pytest.mark.parametrize("copied", [False, True])
def test_the_clean_text_is_a_noop(copied: bool) -> None:
    """The routers wrote noise, but the worker was sent the clean prompt (the silent no-op of
    li2026, F1); or they copied the question, at every r, in capitals."""
    plain, sent = _noisy(), []
    clean = {o.question_id: o for o in plain if o.arm == Arm.FORWARD_FULL and o.routers == 1}
    for o in plain:
        whole = clean[o.question_id]
        if o.arm == Arm.NOISY_REWRITE and copied:
            messages = (whole.router_messages[0].upper(),) * o.routers
            o = replace(o, router_messages=messages, prompt="Messages\n" + "\n---\n".join(messages))
        elif o.arm == Arm.NOISY_REWRITE:
            o = replace(o, prompt=whole.prompt)
        sent.append(o)
    before, after = (texts_of(rows).measures["synthetic", "synthetic"] for rows in (plain, sent))
    assert before.noops == 0 and len(after.noop_ids) == 20
    assert after.noops == after.noisy_presentations == 40


def test_a_request_that_is_the_clean_one_is_a_noop_whatever_its_text_says() -> None:
    """The prompts differ, and the worker consumed the same token ids: cut off before the
    difference, say."""
    boundary = "synthetic-00010"  # the questions before it are asked the same in every arm
    sent = [
        replace(
            o,
            request_sha256=f"tokens:{o.question_id}{'' if o.question_id < boundary else o.arm + str(o.routers)}",
        )
        for o in _noisy()
    ]
    measure = texts_of(sent).measures["synthetic", "synthetic"]
    assert measure.noops == measure.same_requests == 10 * 2
    gate = manipulation_reached_worker(measure, SweepThresholds())
    assert (
        gate.status == "fail"
        and gate.numbers["same_request"] == measure.same_requests / measure.noisy_presentations
    )
    assert (
        texts_of(_noisy()).measures["synthetic", "synthetic"].same_requests == 0
    )  # no hash, nothing compared


def test_messages_of_the_controls_that_name_an_answer_are_told_apart_from_noisy_leaks() -> None:
    """The right one raises the baseline and the wrong one lowers it: to leave out one kind alone
    would tilt it."""
    messages = {"q1": "The answer is A.", "q2": "The answer is B."}
    rows = [
        replace(o, question_id=name, router_messages=(text,), options=("Rome", "Paris"), gold=0)
        for o in _noisy(1)
        for name, text in messages.items()
        if o.arm != Arm.DIRECT
    ]
    measured = texts_of(rows).measures["synthetic", "synthetic"]
    assert measured.leaks == {(1, "q1"), (2, "q1")}
    assert measured.aided == {(r, name) for r in (1, 2) for name in messages}


def test_keeping_only_the_gold_option_is_counted_apart_from_stating_it() -> None:
    base = next(o for o in _noisy(1) if o.arm == Arm.NOISY_REWRITE and o.routers == 1)
    row = replace(
        base, options=("Rome", "Paris"), gold=1, router_messages=("It may be Paris",), prompt="x"
    )
    measured = texts_of([row]).measures["synthetic", "synthetic"]
    assert (measured.gold_only_kept, measured.leaking) == (1, 0)


def test_a_cloze_router_can_name_an_option_only_by_answering():
    options = ["dog", "cat", "a small horse"]
    expected = {" The dog.": True, " The cat.": False, "": None}
    assert {
        more: gives_answer(f"Question: What barks?{more}", "What barks?", options, 0)
        for more in expected
    } == expected
    # An option's word that the question itself uses says nothing.
    assert gives_answer("Is a dog an animal?", "Is a dog an animal?", options, 0) is None


def test_a_cloze_has_no_options_to_keep_so_no_share_of_them_is_claimed() -> None:
    shown = synthetic_outcomes(20, (1,), rng=np.random.default_rng(1))
    for outcomes, known in (
        (shown, True),
        ([replace(o, options_shown=False) for o in shown], False),
    ):
        (measures,) = texts_of(outcomes).measures.values()
        gate = answer_leak(measures, SweepThresholds())
        assert (gate.numbers["gold_only_kept"] is not None) is known


def test_a_question_is_let_go_with_its_last_row() -> None:
    """A million questions do not fit into memory; what was counted is the same, whatever order the
    rows come in."""
    rows = text_rows(_noisy())
    cell = rows[0].model, rows[0].benchmark
    settings = {cell: len({(o.arm, o.routers, o.replicate) for o in rows})}
    assert len(rows) == settings[cell] * len({o.question_id for o in rows})
    most = 0

    def counted() -> Iterator[TextRow]:
        nonlocal most
        for i, o in enumerate(rows):
            yield o
            if i % 50 == 0:  # what is kept stays, so that a look now and then sees it
                most = max(
                    most, sum(isinstance(instance, _Question) for instance in gc.get_objects())
                )

    assert measure_texts(counted(), settings) == measure_texts(rows)
    assert most == 1
    shuffled = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    assert measure_texts(shuffled, settings) == measure_texts(rows)


@given(text())
@example(" \x1cA_b-C\x00d\x1f?! ")
@example("___")
def test_ascii_and_other_texts_are_normalised_alike(words: str) -> None:
    for variant in (words, "".join(c for c in words if c.isascii())):
        folded = unicodedata.normalize("NFKC", variant).casefold()
        assert normalise(variant) == (" ".join(re.findall(r"[^\W_]+", folded)) or folded.strip())


def test_what_routers_keep_restore_and_add_by_their_number() -> None:
    """Ten words; each message keeps four of its own and says two new ones. Two messages keep eight
    together."""
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    text, parts = " ".join(words), [words[0:4], words[4:8]]
    rows = []
    for i in range(30):
        # Right with two messages in two of three questions, with one in one of three.
        for r in (1, 2):
            messages = tuple(" ".join([*parts[k], f"new{k}", "noise"]) for k in range(r))
            prompt, right = "\n".join(messages), i % 3 < r
            row = TextRow(
                "m",
                "b",
                f"q{i}",
                Arm.NOISY_REWRITE,
                r,
                0,
                text,
                (),
                messages,
                prompt,
                None,
                0,
                False,
            )
            rows.append(row._replace(correct=right))
    measure = measure_texts(rows, {("m", "b"): 2}).measures["m", "b"]
    first, second = measure.by_routers
    assert (first.one_kept, first.kept, first.restored, first.added, first.cues) == pytest.approx(
        (0.4, 0.4, 0.0, 2 / 6, 3 / 9)
    )
    assert (
        second.one_kept,
        second.kept,
        second.restored,
        second.added,
        second.cues,
    ) == pytest.approx((0.4, 0.8, 0.4, 3 / 11, 6 / 9))
    assert (first.accuracy, second.accuracy) == pytest.approx(
        (1 / 3, 2 / 3)
    ) and second.presentations == 30
    over_all = (
        measure.deleted,
        measure.deleted_per_message,
        measure.added,
    )  # means over the presentations
    assert over_all == pytest.approx((1 - (0.4 + 0.8) / 2, 1 - 0.4, (2 / 6 + 3 / 11) / 2))
    assert measure.slope is None  # every question kept as much: nothing tells what more words do


@pytest.mark.parametrize(
    ("aggregator", "share", "added", "cues", "leaks"),
    [
        (Aggregator.CONCATENATE, 4 / 6, 1 / 5, 2 / 5, 0),
        (Aggregator.VOTE, 2 / 6, (1 / 3 + 0) / 2, 1 / 5, 0),  # each alone
        (
            Aggregator.SUMMARY,
            3 / 6,
            4 / 7,
            2 / 5,
            1,
        ),  # it lost a word of the messages, and states the answer
    ],
)
def test_what_arrived_is_read_from_what_the_worker_saw(
    aggregator: Aggregator, share: float, added: float, cues: float, leaks: int
) -> None:
    messages = ("one two here", "three four")
    if aggregator == Aggregator.SUMMARY:
        messages += ("one two three. the answer is yes",)
    seen = messages[-1:] if aggregator == Aggregator.SUMMARY else messages
    row = TextRow(
        "m",
        "b",
        "q",
        Arm.NOISY_REWRITE,
        2,
        0,
        "one two three four five six",
        ("yes", "no"),
        messages,
        "\n\n".join(seen),
        None,
        0,
        False,
        True,
        aggregator,
    )
    measure = measure_texts([row]).measures["m", "b"]
    (by,) = measure.by_routers
    assert (by.one_kept, by.kept, by.restored) == pytest.approx((2 / 6, share, share - 2 / 6))
    assert (by.added, by.cues) == pytest.approx((added, cues))
    assert (measure.lost, measure.leaking, measure.messages) == (0, leaks, len(seen))
