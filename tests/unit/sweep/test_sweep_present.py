"""What is sent. Above all: in a router arm, the worker gets what the messages hold and nothing of
the question."""

import inspect
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from audit.config.audits import Work, answer_requests
from audit.core.errors import BenchmarkError, ConfigError
from audit.core.prompting import direct_prompt, letters_of, load_protocol, question_text
from audit.core.records import NO_OPTION, Generation, Item, Protocol, Reading
from audit.engines.config import SamplingConfig
from audit.sweep.audit import (
    SweepState,
    aggregate,
    present,
    router_prompt,
    router_requests,
    without_words,
    worker_prompt,
)
from audit.sweep.config import TEMPLATES
from audit.sweep.design import DELETED, Aggregator, Arm, Draws, make_design

CONF = Path(__file__).resolve().parents[3] / "conf" / "protocol"
PROTOCOLS = {
    p.stem: load_protocol(yaml.safe_load(p.read_text(encoding="utf-8")), TEMPLATES)
    for p in sorted(CONF.glob("*.yaml"))
}
QUESTION = Item(
    id="q1",
    benchmark="b",
    stem="A kettle holds 1.7 litres. How many full cups of 0.2 litres does it fill?",
    options=("eight cups", "nine cups", "ten cups", "seven cups"),
    gold=0,
    group="q1",
)
SHOWING = {
    name: p for name, p in PROTOCOLS.items() if name != "song2026_cloze"
}  # the others show the options
each_showing = pytest.mark.parametrize("protocol", SHOWING.values(), ids=SHOWING)


@each_showing
@pytest.mark.parametrize("arm", [Arm.FORWARD_FULL, Arm.NOISY_REWRITE])
def test_routers_see_the_whole_question_and_not_the_gold(protocol: Protocol, arm: Arm) -> None:
    prompt = router_prompt(protocol, QUESTION, arm)
    assert QUESTION.text in prompt
    for letter, option in zip("ABCD", QUESTION.options, strict=True):
        assert f"{letter}. {option}" in prompt
    assert "not answer" in prompt
    for gold in range(4):
        same = Item("q1", "b", QUESTION.text, QUESTION.options, gold, "q1")
        assert router_prompt(protocol, same, arm) == prompt
        assert direct_prompt(protocol, same, Reading.LETTER) == direct_prompt(
            protocol, QUESTION, Reading.LETTER
        )


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_the_two_arms_ask_for_different_things_of_the_same_question(protocol: Protocol) -> None:
    prompts = {
        router_prompt(protocol, QUESTION, arm) for arm in (Arm.FORWARD_FULL, Arm.NOISY_REWRITE)
    }
    assert [prompt.count(question_text(protocol, QUESTION)) for prompt in prompts] == [1, 1]


def test_the_worker_prompt_cannot_take_a_question() -> None:
    parameters = inspect.signature(worker_prompt).parameters
    assert list(parameters) == ["protocol", "messages", "n_options", "reading"]
    assert not any("Question" in str(p.annotation) for p in parameters.values())


@each_showing
def test_letters_offered_are_those_of_the_options(protocol: Protocol) -> None:
    assert "A or B" in worker_prompt(protocol, ["m"], 2, Reading.LETTER)
    assert "H, I or J" in worker_prompt(protocol, ["m"], 10, Reading.LETTER_LOGPROB)
    assert letters_of(26)[-1] == "Z"
    for n in (0, 1, 27):
        with pytest.raises(BenchmarkError, match="2 to 26"):
            letters_of(n)
    # Both readings of letters are asked the same.
    readings = (Reading.LETTER, Reading.LETTER_LOGPROB, Reading.OPTION_TEXT)
    letter, logprob, text = (worker_prompt(protocol, ["m"], 4, reading) for reading in readings)
    assert letter == logprob != text


def test_a_routers_thinking_does_not_reach_the_worker() -> None:
    sent = aggregate(
        PROTOCOLS["song2026"],
        ["<think>1.7/0.2 = 8.5, so A</think>\nA kettle?", "<think>it is A, but"],
    )
    assert sent == "[Message 1]\nA kettle?\n\n[Message 2]\n"


@given(
    st.text(alphabet=st.characters(exclude_characters="<[")),
    st.lists(st.text(), min_size=2, max_size=26),
)
def test_any_question_is_laid_out_whole(stem: str, options: list[str]) -> None:
    question = Item("q", "b", stem, tuple(options), 0, "q")
    prompt = direct_prompt(PROTOCOLS["song2026"], question, Reading.OPTION_TEXT)
    assert stem in prompt
    assert prompt.endswith(
        "\n".join(f"{a}. {t}" for a, t in zip(letters_of(len(options)), options, strict=True))
    )


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="<[")), min_size=1, max_size=9))
def test_any_messages_arrive_in_order(messages: list[str]) -> None:
    prompt, at = worker_prompt(PROTOCOLS["song2026"], messages, 4, Reading.LETTER), 0
    for i, message in enumerate(messages, start=1):
        heading = f"[Message {i}]\n" + message.strip()
        assert message.strip().startswith("analysis") or heading in prompt[at:]
        at = prompt.index(f"[Message {i}]", at)


def test_a_cloze_transmits_the_stem_and_scores_the_options_unseen() -> None:
    cloze = PROTOCOLS["song2026_cloze"]
    prompts = [router_prompt(cloze, QUESTION, arm) for arm in (Arm.FORWARD_FULL, Arm.NOISY_REWRITE)]
    for prompt in (*prompts, direct_prompt(cloze, QUESTION, Reading.OPTION_TEXT)):
        assert QUESTION.text in prompt
        assert not any(option in prompt for option in QUESTION.options)
    for prompter, content in ((direct_prompt, (QUESTION,)), (worker_prompt, (["m"], 4))):
        with pytest.raises(ConfigError, match="does not show the options"):
            prompter(cloze, *content, Reading.LETTER)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_number_is_asked_for_without_options(name: str) -> None:
    eggs = Item("q", "b", "Ann has 3 eggs {and} buys 4. How many?", (), NO_OPTION, "q", target=7.0)
    prompt = direct_prompt(PROTOCOLS[name], eggs, Reading.NUMBER)
    assert prompt.endswith("\n\nAnn has 3 eggs {and} buys 4. How many?") and "####" in prompt
    assert "option" not in prompt and "7" not in prompt


def work_of(aggregator: Aggregator, draws: Draws = Draws.NESTED) -> Work:
    design = make_design((1, 2, 3), arms=[Arm.DIRECT, Arm.NOISY_REWRITE], draws=draws)
    sampling = SamplingConfig(max_tokens=8)
    return Work(
        design,
        PROTOCOLS["song2026"],
        "m",
        Reading.LETTER,
        sampling,
        sampling,
        1,
        SweepState(aggregator),
    )


MESSAGES = [Generation(f"text {k}", prompt_tokens=10) for k in range(3)]


def test_a_summary_is_asked_for_at_each_r_and_is_all_that_the_worker_sees() -> None:
    work = work_of(Aggregator.SUMMARY)
    direct, noisy = work.design.parts
    assert router_requests(work, QUESTION, direct) == []
    first = router_requests(work, QUESTION, noisy)
    assert first == router_requests(
        work_of(Aggregator.VOTE), QUESTION, noisy
    )  # the same messages for every aggregator
    second = router_requests(work, QUESTION, noisy, MESSAGES)
    assert [[m.text in request.prompt for m in MESSAGES] for request in second] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
    assert len({request.seed for request in (*first, *second)}) == 6
    assert not any(QUESTION.text in request.prompt for request in second)
    replies = [*MESSAGES, *(Generation(f"sum {k}", prompt_tokens=1) for k in range(3))]
    assert router_requests(work, QUESTION, noisy, replies) == []
    for k, shown in enumerate(present(work, QUESTION, noisy, replies)):
        assert f"sum {k}" in shown.prompt and "text" not in shown.prompt.partition("sum")[2]
        assert shown.extras["router_messages"] == [*(f"text {j}" for j in range(k + 1)), f"sum {k}"]
        assert (shown.extras["router_calls"], shown.extras["router_prompt_tokens"]) == (
            2,
            11,
        )  # a message, a summary


def test_a_failed_summary_leaves_nothing_to_ask() -> None:
    work = work_of(Aggregator.SUMMARY)
    replies = [*MESSAGES, Generation("sum"), Generation(error="lost"), Generation("sum")]
    assert [
        request.error for request in present(work, QUESTION, work.design.parts[1], replies)
    ] == [
        None,
        "lost",
        None,
    ]


def test_a_vote_asks_of_each_message_alone_what_r_1_is_asked() -> None:
    work, whole = work_of(Aggregator.VOTE), work_of(Aggregator.CONCATENATE)
    noisy = work.design.parts[1]
    shown = present(work, QUESTION, noisy, MESSAGES)
    requests = [
        answer_requests(work, QUESTION, s, presentation)
        for s, presentation in zip(noisy.settings, shown, strict=True)
    ]
    assert [len(group) for group in requests] == [1, 2, 3]
    assert (
        requests[2][:2] == requests[1] and requests[1][:1] == requests[0]
    )  # nested: three calls in all
    assert len({request.seed for request in requests[2]}) == 3
    alone = present(whole, QUESTION, noisy, MESSAGES)[0]
    assert requests[0] == answer_requests(whole, QUESTION, noisy.settings[0], alone)
    assert [m.text for m in MESSAGES if m.text in requests[2][1].prompt] == ["text 1"]
    assert shown[2].prompt == "\n\n".join(request.prompt for request in requests[2])


def test_a_larger_share_deletes_what_a_smaller_one_does_and_none_at_0() -> None:
    text = "One two  three\nfour five six seven eight nine ten?"
    for seed in range(50):
        left = [
            set(without_words(text, share, seed).split()) for share in (0.0, 0.1, 0.25, 0.6, 0.99)
        ]
        assert all(more < less or more == less for less, more in pairwise(left))
        assert without_words(text, 0.0, seed) == text
    sizes = [10 - len(without_words(text, 0.25, seed).split()) for seed in range(400)]
    assert {2, 3} == set(sizes) and sum(sizes) / 400 == pytest.approx(2.5, abs=0.1)


@each_showing
def test_dose_0_is_the_whole_question_by_the_way_of_every_dose(protocol: Protocol) -> None:
    design = make_design((1,), arms=[Arm.NOISY_REWRITE], doses=(0, 40))
    part = next(p for p in design.parts if p.arm == DELETED)
    work = replace(work_of(Aggregator.CONCATENATE), design=design, protocol=protocol)
    assert router_requests(work, QUESTION, part) == []
    whole, damaged = present(work, QUESTION, part, ())
    assert whole.prompt == worker_prompt(
        protocol, [question_text(protocol, QUESTION)], 4, Reading.LETTER
    )
    assert QUESTION.text not in damaged.prompt and all(
        option in damaged.prompt for option in QUESTION.options
    )
    assert damaged.extras["router_messages"] == []
