"""Votes, their tally, and paraphrases read out of replies: scripted functions in a model's
place."""

from collections.abc import Sequence
from string import Formatter

import pytest
from variant_helpers import CAPITAL, EGGS

from audit.config.base import load_group
from audit.core.errors import DataError
from audit.core.records import FinishReason, Generation, Protocol
from audit.variants.build import read_vote, tally
from audit.variants.config import Policy
from audit.variants.record import Judgement, ModelRequest, replies_of
from audit.variants.strategies import (
    load_prompts,
    paraphrase_candidates,
    paraphrase_request,
    read_paraphrase,
)


@pytest.fixture
def prompts() -> Protocol:
    return load_prompts(load_group("rewording", "prompts"))


@pytest.mark.parametrize(
    ("reply", "vote"),
    [
        (Generation("Same thing.\nVERDICT: KEPT"), "kept"),
        (Generation("**verdict**: x\nVerdict: **broken**"), "broken"),
        (Generation("VERDICT: UNSURE"), "unsure"),
        (Generation("<think>VERDICT: BROKEN</think>VERDICT: KEPT"), "kept"),
        (Generation("VERDICT: KEPT\nno, VERDICT: BROKEN"), "unreadable"),
        (Generation("It is kept."), "unreadable"),
        (Generation("The number chan", FinishReason.LENGTH), "unreadable"),
        (Generation("VERDICT: KEPT", error="engine died"), "failed"),
        (Generation("VERDICT: KEPT", FinishReason.ERROR), "failed"),
    ],
)
def test_read_vote(reply: Generation, vote: str) -> None:
    assert read_vote(reply) == vote


@pytest.mark.parametrize(
    ("votes", "judgement"),
    [
        ("", Judgement.NOT_ASKED),
        ("kept kept broken", Judgement.KEPT),
        ("broken kept broken", Judgement.BROKEN),
        ("kept broken", Judgement.TIE),
        ("kept kept broken unreadable", Judgement.TIE),  # 2 of 4 is not more than half
        ("unsure unsure unsure", Judgement.TIE),
        ("unreadable failed kept", Judgement.UNREADABLE),
        ("failed failed kept", Judgement.FAILED),
        ("kept unreadable kept", Judgement.KEPT),
    ],
)
def test_tally(votes: str, judgement: Judgement) -> None:
    assert tally(votes.split()) == judgement


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("<question>Who is it?</question>", "Who is it?"),
        ("Sure! Here is the reworded question:\nWho is it?", "Who is it?"),
        ('"Who is it?"', "Who is it?"),
        ('"Who" and "it"', '"Who" and "it"'),  # quotations within, not around
        ("<think>Hm, <question>x</question></think><question>Who?</question>", "Who?"),
        ("<question>Who is it?\nA. Ann\nB. Bob</question>", "Who is it?"),
        ("", ""),
        ("<question></question>", ""),
    ],
)
def test_read_paraphrase(reply: str, text: str) -> None:
    assert read_paraphrase(Generation(reply)) == (text, None)


def test_a_failed_or_cut_off_reply_has_no_text() -> None:
    assert read_paraphrase(Generation("Who", FinishReason.LENGTH)) == (
        "",
        "the reply was cut off at its token limit",
    )
    assert read_paraphrase(Generation("<question>Who?</question> and", FinishReason.LENGTH)) == (
        "Who?",
        None,
    )
    assert read_paraphrase(Generation(error="too long")) == ("", "too long")


def test_paraphrase_request(prompts: Protocol) -> None:
    first, second, repeat = (paraphrase_request(prompts, CAPITAL, Policy(), k) for k in (1, 2, 1))
    assert first == repeat and first.key == "q/1#1"
    assert first.prompt != second.prompt and first.key != second.key  # another style, another call
    assert (
        CAPITAL.text in first.prompt
        and "B. Paris" in first.prompt
        and "right answer is" not in first.prompt.lower()
    )
    assert "(none: " in paraphrase_request(prompts, EGGS, Policy(), 1).prompt


def test_paraphrase_candidates(prompts: Protocol) -> None:
    def generate(requests: Sequence[ModelRequest]) -> list[Generation]:
        assert [r.key for r in requests] == ["q/1#4", "q/1#5", "q/2#1"]
        return [
            Generation("<question>Which?</question>"),
            Generation(error="died"),
            Generation("Who?"),
        ]

    proposals = paraphrase_candidates(
        generate, prompts, [(CAPITAL, [4, 5]), (EGGS, [1])], Policy(), attempt=2
    )
    assert [(c.question_id, c.number, c.text, c.source, c.attempt, c.error) for c in proposals] == [
        ("q/1", 4, "Which?", "paraphrase_words", 2, None),
        ("q/1", 5, "", "paraphrase_structure", 2, "died"),
        ("q/2", 1, "Who?", "paraphrase_words", 2, None),
    ]


def test_a_lost_reply_is_an_error() -> None:
    with pytest.raises(DataError, match="0 replies for 1 requests"):
        replies_of(lambda _: [], [ModelRequest("k", "p", 8, 0.0)])
    assert replies_of(lambda _: 1 / 0, []) == []  # type: ignore[arg-type, return-value]  # nothing asked, nothing called


def test_prompts_are_checked() -> None:
    conf = load_group("rewording", "prompts")
    filled = {"judge": ["context", "key", "original", "variant"]}
    for name, template in conf["templates"].items():
        fields = sorted(
            field for _, field, _, _ in Formatter().parse(template) if field is not None
        )
        assert fields == filled.get(name, ["context", "options", "stem"])
    assert "judge" in conf["templates"] and len(conf["templates"]) > 1
    changed = {**conf["templates"], "judge": conf["templates"]["judge"] + "."}
    assert load_prompts({**conf, "templates": changed}).sha256 != load_prompts(conf).sha256
