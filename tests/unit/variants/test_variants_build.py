"""Candidates through the gates: every state, every value, by hand, with an embedder of known
distances."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from variant_helpers import (
    CAPITAL,
    DISTANCES,
    EGGS,
    FAR,
    GOOD,
    NEAR,
    OTHER,
    QUESTIONS,
    ScriptedEmbedder,
    candidates,
    make_library,
)

from audit.config.base import load_group
from audit.core.errors import ConfigError, LibraryError
from audit.core.records import Generation, Item
from audit.variants.build import Gates, Judge, build_variants, judge_candidates
from audit.variants.config import FileConfig, Policy, policy_for, split_text
from audit.variants.funnel import funnel_text
from audit.variants.record import (
    Candidate,
    Judgement,
    ModelRef,
    ModelRequest,
    State,
    Variant,
    question_sha256,
)
from audit.variants.strategies import file_candidates, load_prompts, load_rules, template_candidates

BY_ID = {q.id: q for q in QUESTIONS}
TEMPLATES = load_prompts(load_group("rewording", "prompts")).templates


class ScriptedNli:
    name, revision = "nli", "sha256:nli"

    def __init__(self, shares: dict[tuple[str, str], float | None]) -> None:
        self.shares = shares

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        return [self.shares.get(pair, 0.99) for pair in pairs]


def judge_of(*replies: str) -> Judge:
    left = list(replies)

    def generate(requests: Sequence[ModelRequest]) -> list[Generation]:
        return [Generation(f"VERDICT: {left.pop(0)}") for _ in requests]

    return Judge(generate, TEMPLATES, ModelRef("judge", "rev"))


def judged(*texts: str, gates: Gates | None = None, **fields: object) -> list[Variant]:
    gates = gates or Gates(Policy(), ScriptedEmbedder(DISTANCES))
    return judge_candidates(BY_ID, candidates(*texts), replace(gates, **fields))


def test_states_and_values_of_every_candidate() -> None:
    variants = judged(NEAR, GOOD, FAR, CAPITAL.text.upper(), "", GOOD + " ", "a long text")
    assert [(v.state, v.distance) for v in variants] == [
        (State.TOO_CLOSE, 0.05),
        (State.ACCEPTED, 0.3),
        (State.TOO_FAR, 0.8),
        (State.NO_OP, None),  # the scripted embedder does not know it; the no-op is found first
        (State.EMPTY, None),
        (State.DUPLICATE, 0.3),
        (State.NOT_EMBEDDED, None),
    ]
    assert [v.same_as for v in variants] == [None, None, None, "original", None, "q/1#2", None]
    assert "300" in variants[6].error and "256" in variants[6].error
    assert (
        variants[2].rules == () and variants[1].options == CAPITAL.options and variants[1].gold == 1
    )
    assert variants[1].reword(CAPITAL) == CAPITAL.reworded(GOOD)


def test_the_window_includes_its_ends() -> None:
    embedder = ScriptedEmbedder({CAPITAL.text: 0.0, "a": 0.15, "b": 0.45, "c": 0.1499, "d": 0.4501})
    variants = judged("a", "b", "c", "d", gates=Gates(Policy(), embedder))
    assert [v.state.value for v in variants] == ["accepted", "accepted", "too_close", "too_far"]


def test_a_paraphraser_that_fails_is_not_an_empty_text() -> None:
    gates = Gates(Policy(), ScriptedEmbedder(DISTANCES))
    [variant] = judge_candidates(BY_ID, [Candidate("q/1", 1, "", "p", error="too long")], gates)
    assert (variant.state, variant.error) == (State.FAILED, "too long")


def test_entailment_in_both_directions() -> None:
    one_way = ScriptedNli({(OTHER, CAPITAL.text): 0.2})
    variants = judged(GOOD, OTHER, FAR, nli=one_way)
    assert [(v.state.value, v.nli_forward, v.nli_backward) for v in variants] == [
        ("accepted", 0.99, 0.99),
        ("not_entailed", 0.99, 0.2),
        ("too_far", 0.99, 0.99),  # the value is there although another gate stopped it
    ]
    unknown = ScriptedNli({(CAPITAL.text, GOOD): None})
    assert (
        judged(GOOD, nli=unknown)[0].state == State.NOT_ENTAILED
    )  # too long for the classifier is not a pass


NUMBER = "Which 1 of the 9 cities is the French seat of government?"


@pytest.mark.parametrize(
    ("votes", "state"),
    [
        (("KEPT", "KEPT", "BROKEN"), State.ACCEPTED),
        (("BROKEN", "BROKEN", "KEPT"), State.JUDGED_BROKEN),
        (("KEPT", "BROKEN", "UNSURE"), State.JUDGE_TIE),
        (("?", "?", "KEPT"), State.JUDGE_UNREADABLE),
    ],
)
def test_a_rule_finding_goes_to_the_judge_and_does_not_reject(
    votes: tuple[str, ...], state: State
) -> None:
    embedder = ScriptedEmbedder({**DISTANCES, NUMBER: 0.3})
    flagged, plain = judged(
        NUMBER, GOOD, gates=Gates(Policy(judge_controls=0), embedder, judge=judge_of(*votes))
    )
    assert flagged.rules == ("numbers: nothing -> 9",)
    assert flagged.state == state and len(flagged.judge_votes) == 3
    assert (plain.judgement, plain.judge_votes, plain.state) == (
        Judgement.NOT_ASKED,
        (),
        State.ACCEPTED,
    )


def test_without_a_judge_a_finding_is_kept_and_counted_or_held() -> None:
    embedder = ScriptedEmbedder({**DISTANCES, NUMBER: 0.3})
    assert judged(NUMBER, gates=Gates(Policy(), embedder))[0].state == State.ACCEPTED
    variants = judged(NUMBER, GOOD, gates=Gates(Policy(unjudged="hold"), embedder))
    assert [v.state for v in variants] == [State.AWAITING_JUDGE, State.ACCEPTED]


def test_judge_scope_all_asks_about_whatever_the_other_gates_let_through() -> None:
    policy = Policy(judge_scope="all", judge_controls=0)
    variants = judged(GOOD, FAR, policy=policy, judge=judge_of(*["BROKEN"] * 3))
    assert [v.state for v in variants] == [State.JUDGED_BROKEN, State.TOO_FAR]
    assert variants[1].judge_votes == ()  # stopped before: no vote is paid for


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_judge_that_keeps_exchanged_questions_is_refused(count: int) -> None:
    """Two questions, so two controls, which come after the candidate's votes; 10 % of them may be
    kept."""
    votes = ["KEPT"] * 3 + ["KEPT"] * 3 * count + ["BROKEN"] * 3 * (2 - count)
    gates = Gates(Policy(judge_scope="all"), ScriptedEmbedder(DISTANCES), judge=judge_of(*votes))
    if count == 0:
        assert [v.judgement for v in judged(GOOD, gates=gates)] == [Judgement.KEPT]
        return
    with pytest.raises(LibraryError, match=f"kept {count} of 2"):
        judged(GOOD, gates=gates)


def test_a_rewording_without_the_facts_is_no_variant() -> None:
    texts = {"How many eggs has Ann?": 0.3, "Ann's eggs were 3, and one more?": 0.3}
    proposals = candidates(*texts, question=EGGS)
    variants = judge_candidates(
        BY_ID, proposals, Gates(Policy(), ScriptedEmbedder({**DISTANCES, **texts}))
    )
    assert [v.state for v in variants] == [
        State.FACTS_LOST,
        State.ACCEPTED,
    ]  # one number left goes to the judge


def test_the_judge_is_shown_item_key_and_rewording() -> None:
    prompts: list[str] = []

    def generate(requests: Sequence[ModelRequest]) -> list[Generation]:
        prompts.extend(r.prompt for r in requests)
        assert len({r.key for r in requests}) == len(requests)
        return [Generation("VERDICT: KEPT")] * len(requests)

    policy, embedder = (
        Policy(judge_scope="all", judge_controls=0),
        ScriptedEmbedder({**DISTANCES, "Ann: 3 + 4?": 0.3}),
    )
    gates = Gates(policy, embedder, judge=Judge(generate, TEMPLATES, ModelRef("j", "r")))
    judge_candidates(BY_ID, [*candidates(GOOD), Candidate("q/2", 1, "Ann: 3 + 4?", "x")], gates)
    assert (
        CAPITAL.text in prompts[0] and GOOD in prompts[0] and "The right answer is B." in prompts[0]
    )
    assert "The right answer is 7." in prompts[3]


def test_attempts_ask_for_what_is_lacking_under_new_numbers() -> None:
    requests: list[list[tuple[str, list[int]]]] = []
    texts = iter([NEAR, GOOD, FAR, OTHER])

    def propose(needed: Sequence[tuple[Item, Sequence[int]]], attempt: int) -> list[Candidate]:
        requests.append([(q.id, list(numbers)) for q, numbers in needed])
        return [
            Candidate(q.id, k, next(texts), "p", attempt) for q, numbers in needed for k in numbers
        ]

    gates = Gates(Policy(), ScriptedEmbedder(DISTANCES))
    variants = build_variants([CAPITAL], propose, gates, num_variants=2, max_attempts=9)
    # 1 and 2: one accepted; 3: none; 4: the second. Then nothing lacks, and the fourth attempt is
    # not made.
    assert requests == [[("q/1", [1, 2])], [("q/1", [3])], [("q/1", [4])]]
    assert [(v.number, v.attempt, v.state.value) for v in variants] == [
        (1, 0, "too_close"),
        (2, 0, "accepted"),
        (3, 1, "too_far"),
        (4, 2, "accepted"),
    ]
    texts = iter([NEAR, NEAR, NEAR])
    assert (
        len(build_variants([CAPITAL], propose, gates, num_variants=1, max_attempts=3)) == 3
    )  # then it gives up


def test_permuted_options_take_the_key_along() -> None:
    gates = Gates(
        Policy(options="permute"),
        ScriptedEmbedder({CAPITAL.text: 0.0, **{f"v{i}": 0.3 for i in range(9)}}),
    )
    variants = judged(*(f"v{i}" for i in range(9)), gates=gates)
    assert all(v.options[v.gold] == "Paris" for v in variants)
    assert all(tuple(CAPITAL.options[i] for i in v.order) == v.options for v in variants)
    assert len({v.order for v in variants}) > 1
    assert [v.order for v in variants] == [
        v.order for v in judged(*(f"v{i}" for i in range(9)), gates=gates)
    ]
    refers = replace(CAPITAL, options=("Rome", "Paris", "None of the above"))
    [variant] = judge_candidates({"q/1": refers}, candidates("v1"), gates)
    assert variant.order == (0, 1, 2)


def test_context_is_never_reworded() -> None:
    passage = Item(
        "p/1", "bbq", "Ann met Bob.\nBob ran. \nWho ran?", ("Ann", "Bob"), 1, "p/1", (0, 1)
    )
    assert split_text(passage.text, Policy(context="last_line")) == (
        "Ann met Bob.\nBob ran. \n",
        "Who ran?",
    )
    assert split_text("Ann met Bob. Who ran?", Policy(context="last_sentence")) == (
        "Ann met Bob. ",
        "Who ran?",
    )
    assert split_text("Who ran?", Policy(context="last_sentence")) == ("", "Who ran?")
    assert (
        split_text(passage.text, Policy(context="last_line", changes="stem_and_context")).context
        == ""
    )
    gates = Gates(
        Policy(context="last_line"), ScriptedEmbedder({"Who ran?": 0.0, "Which person ran?": 0.2})
    )
    [variant] = judge_candidates(
        {"p/1": passage}, [Candidate("p/1", 1, "Which person ran?", "x")], gates
    )
    assert variant.reword(passage).text == "Ann met Bob.\nBob ran. \nWhich person ran?"
    assert variant.distance == 0.2  # of the reworded part alone


def test_policy_of_a_benchmark() -> None:
    conf = load_group("rewording", "policy")
    assert (policy_for("gsm8k", conf).low, policy_for("gsm8k", conf).high) == (0.20, 0.50)
    assert (policy_for("truthfulqa_mc1", conf).low, policy_for("truthfulqa_mc1", conf).high) == (
        0.15,
        0.30,
    )
    assert policy_for("my_exam", conf) == Policy(0.15, 0.45)
    assert policy_for("bbq", conf).context == "last_sentence"
    assert policy_for("gsm8k", conf, {"window": "general", "options": None}) == Policy(0.15, 0.45)
    for name in conf["benchmarks"]:
        policy_for(name, conf)
    for bad, message in (
        ({"window": "wide"}, "Unknown distance window"),
        ({"options": "shuffle"}, "Unknown options"),
        ({"judge_votes": 0}, "judge_votes: 0"),
        ({"colour": 1}, "Unknown policy key"),
    ):
        with pytest.raises(ConfigError, match=message):
            policy_for("gsm8k", conf, bad)


def test_question_hash_is_of_content_in_published_order() -> None:
    shown = replace(CAPITAL, options=("Paris", "Bonn", "Rome"), gold=0, order=(1, 2, 0), id="other")
    assert question_sha256(shown) == question_sha256(CAPITAL)
    others = [
        CAPITAL.reworded("?"),
        replace(CAPITAL, gold=0),
        replace(CAPITAL, options=("Rom", "Paris", "Bonn")),
    ]
    assert question_sha256(CAPITAL) not in set(map(question_sha256, others))
    assert question_sha256(EGGS) != question_sha256(replace(EGGS, target=8.0))


def test_file_candidates_by_id_and_by_row() -> None:
    rows = [
        ("line 1", {"question_id": "q/1", "text": " a "}),
        ("line 2", {"question_id": "q/1", "text": "b"}),
        ("line 3", {"question_id": "q/2", "text": None}),
    ]
    proposals = file_candidates(rows, QUESTIONS, FileConfig())
    assert [(c.question_id, c.number, c.text, c.source) for c in proposals] == [
        ("q/1", 1, "a", "line 1"),
        ("q/1", 2, "b", "line 2"),
        ("q/2", 1, "", "line 3"),
    ]
    by_row = FileConfig(align="row", extract=r"Question:\s*(?P<text>.*?)\s*Answer:")
    proposals = file_candidates(
        [("l1", {"text": "Question: a\nb\nAnswer: 3"}), ("l2", {"text": "b"})], QUESTIONS, by_row
    )
    assert [(c.question_id, c.text, c.error) for c in proposals] == [
        ("q/1", "a\nb", None),
        ("q/2", "", "the field does not match `extract`"),
    ]


@pytest.mark.parametrize(
    ("rows", "format_", "message"),
    [
        ([{"question_id": "q/9", "text": "a"}], {}, "'q/9' is not a question"),
        ([{"id": "q/1", "text": "a"}], {}, "no field 'question_id'; found: id, text"),
        ([["q/1", "a"]], {}, "no named fields"),
        ([{"text": "a"}], {"align": "row"}, "1 rows for 2 questions"),
    ],
)
def test_files_that_do_not_fit(rows: list[object], format_: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        file_candidates([("line 1", row) for row in rows], QUESTIONS, FileConfig(**format_))  # type: ignore[misc]


def test_templates() -> None:
    rules, _ = load_rules(load_group("rewording", "templates"))
    question = CAPITAL.reworded("It is cold. What is the capital of France?")
    proposals = template_candidates(question, Policy(), rules)
    assert [(c.number, c.source) for c in proposals] == [
        (1, "what_is_the"),
        (2, "pupil"),
        (3, "quiz"),
    ]
    assert proposals[0].text == "It is cold. The capital of France is what?"
    assert (
        template_candidates(CAPITAL.reworded("Paris is"), Policy(), rules)[0].source == "complete"
    )


def test_funnel_counts_by_hand() -> None:
    text = funnel_text(make_library(NEAR, GOOD, FAR, CAPITAL.text, "", OTHER))
    # 6 candidates, 1 empty, 1 no-op, none unembedded, 1 too close and 1 too far: 2; the last four
    # gates were not run.
    assert re.findall(r" (\d|-)  ", text.replace("6\n", "6  \n")) == [
        "6",
        "5",
        "4",
        "4",
        "2",
        "2",
        *"----",
    ]
    assert "1 empty\n" in text and "1 no op\n" in text and "1 too close, 1 too far\n" in text
    assert re.findall(r"\d+", text[text.index("2 questions") :])[:5] == ["2", "1", "2", "0", "1"]
