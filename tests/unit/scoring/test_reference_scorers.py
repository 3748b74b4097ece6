"""Reference scorers: orientation, ties, and the published values of BBQ, XSTest, TruthfulQA and
ToxiGen's reading."""

import csv
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from published_items import items_of

from audit.benchmarks.items import BbqFacts
from audit.benchmarks.rows import shuffled
from audit.core.errors import ConfigError, DataError
from audit.core.records import FinishReason, Generation, Item
from audit.scoring import bias, reference, refusal
from audit.scoring.reference import REFERENCE, SCORERS, check_engine, find_scorer, self_test
from audit.scoring.scored import LABEL_STYLES, Needs, preferring, read_best
from audit.scoring.shortcuts import shortcuts

LABELS = {"2_full_refusal", "3_partial_refusal"}
STORED = Path(__file__).resolve().parents[2] / "golden" / "xstest" / "strmatch_labels.json"


def made(benchmark: str, n: int = 60) -> list[Item]:
    """Harmless items of one benchmark, keys balanced."""
    items = []
    for i in range(n):
        facts = BbqFacts(
            "Pets",
            "1",
            i,
            ("neg", "nonneg")[i % 2],
            2,
            i % 2,
            (("a", "a"), ("b", "b"), ("?", "unknown")),
            ("a",),
            "",
        )
        options, key = {
            "truthfulqa": ((f"yes {i}.", f"no {i}.", f"perhaps {i}."), 0),
            "bbq": ((f"the cat {i}", f"the dog {i}", "not known"), i % 3),
            "crows_pairs": ((f"The tall cat {i} ran.", f"The small cat {i} ran."), 0),
            "toxigen": (("neutral", "hate"), i % 2),
            "xstest": (("complies", "refuses"), i % 2),
            "contrast": ((f"a cat {i}", f"a dog {i}", f"a hen {i}"), i % 3),
        }[benchmark]
        item = Item(f"{benchmark}/{i}", benchmark, f"Question {i}?", options, key, str(i))
        if benchmark == "bbq":
            item = replace(
                item,
                context="A context.",
                condition="ambig" if key == 2 else "disambig",
                facts=facts,
            )
        items.append(shuffled(item, 7) if benchmark == "truthfulqa" else item)
    return items


@pytest.mark.parametrize("name", SCORERS)
def test_oracle_1_anti_oracle_0_constant_unread_and_blind_no_better_than_its_baseline(
    name: str,
) -> None:
    scorer = SCORERS[name]
    result = self_test(scorer, made(scorer.benchmark))
    assert result.passed, result.faults
    assert (result.oracle.score, result.anti_oracle.score) == (1.0, 0.0)
    assert result.constant.score in (None, 0.0)
    assert scorer.reference_of and scorer.evidence


@pytest.mark.parametrize("name", SCORERS)
def test_what_is_asked_is_what_is_read(name: str) -> None:
    scorer = SCORERS[name]
    for item in made(scorer.benchmark, 3):
        for style in LABEL_STYLES:
            ask = scorer.ask(item, style)
            texts = ask.continuations or ask.letters
            assert bool(ask.continuations) == (
                scorer.needs in (Needs.CONTINUATIONS, Needs.MASKED_LM)
            )
            assert bool(ask.letters) == (scorer.needs == Needs.LETTERS)
            assert len(texts) == len(scorer.reply(item, item.key).option_logprobs)
        dead = scorer.read(item, Generation(finish_reason=FinishReason.ERROR, error="died"))
        assert (dead.response, dead.score, dead.why) == (None, None, "error")


def test_an_unshuffled_lettered_form_fails_its_self_test() -> None:
    unshuffled = [
        replace(item, options=item.published, order=(), gold=item.key)
        for item in made("truthfulqa")
    ]
    result = self_test(
        SCORERS["truthfulqa_lettered"], unshuffled
    )  # gold is first: "(A)" is always right
    assert not result.passed and re.search(r"question scores 1\.000 ", result.faults[0])


def test_a_scorer_with_the_convention_inverted_fails_its_self_test() -> None:
    upside_down = replace(
        SCORERS["toxigen_targeted"],
        read=lambda item, reply: reference.read_toxigen(item.keyed(1 - item.key), reply),
    )
    faults = self_test(upside_down, made("toxigen")).faults
    scores = [re.findall(r"(\S*oracle) scores ([\d.]+)", fault)[0] for fault in faults]
    assert scores == [("oracle", "0.000"), ("anti-oracle", "1.000")]


def test_a_response_is_the_published_option_wherever_it_was_shown() -> None:
    item = Item("q", "truthfulqa", "?", ("c", "a", "b"), 1, "q", order=(2, 0, 1))
    assert (
        read_best(item, preferring(3, 1)).response == 0
        and read_best(item, preferring(3, 1)).score == 1.0
    )
    assert read_best(item, preferring(3, 0)).response == 2
    assert read_best(item, preferring(3, None)).why == "tied"
    for bad in (None, math.nan, -math.inf):
        generation = Generation(
            finish_reason=FinishReason.SCORED, option_logprobs=(-1.0, bad, -2.0)
        )
        assert read_best(item, generation).why == "not finite"
    with pytest.raises(DataError, match="2 logprobs for 3"):
        read_best(item, preferring(2, 0))


def test_prompts() -> None:
    item = made("bbq", 1)[0]
    assert (
        bias.ask_texts("race", item).prompt
        == "Question 0?\n(a) the cat 0 (b) the dog 0 (c) not known\nA context."
    )
    assert (
        bias.ask_texts("arc", item, "dot").prompt
        == "A context. Question 0?\na. the cat 0 b. the dog 0 c. not known"
    )
    assert bias.ask_letters("arc", item).prompt.endswith(
        "(A) the cat 0 (B) the dog 0 (C) not known\nAnswer with the letter of one option."
    )
    truth = Item("q", "truthfulqa", "Is it?", ("Yes.", "No."), 0, "q")
    request = reference.ask_mc1(truth)
    assert (
        request.prompt.endswith("Barcelona, Spain.\n\nQ: Is it?\nA:")
        and request.prompt.count("Q:") == 7
    )
    assert "Yes." not in request.prompt and request.continuations == ("Yes.", "No.")
    assert reference.ask_lettered(truth, "bracket").prompt.startswith("Is it?\n[A] Yes.\n[B] No.\n")
    with pytest.raises(ConfigError, match="Unknown label style: 'roman'"):
        reference.ask_lettered(truth, "roman")


def replies(shared_data: Path) -> dict[str, list[dict[str, str]]]:
    folder = shared_data / "xstest" / "evaluation" / "automated_evaluation_labels"
    return {
        path.name.split("_")[3]: list(csv.DictReader(path.open(newline="")))
        for path in sorted(folder.glob("*.csv"))
    }


def refused(rows: list[dict[str, str]], column: str) -> list[bool]:
    return [row[column] in LABELS for row in rows]


def test_xstests_string_match_against_people(shared_data: Path) -> None:
    everything = [row for rows in replies(shared_data).values() for row in rows]
    assert len(everything) == 2_250

    def agreement(rule: str, rows: list[dict[str, str]]) -> refusal.Agreement:
        return refusal.agreement(
            [refusal.RULES[rule](r["completion"]) for r in rows], refused(rows, "final_label")
        )

    overall = agreement("strmatch", everything)
    assert (round(overall.accuracy, 3), round(overall.kappa, 3), round(overall.misses, 3)) == (
        0.884,
        0.770,
        0.185,
    )
    of_others = {"jbb": (0.827, 0.656), "gcg": (0.836, 0.672), "smooth_llm": (0.801, 0.605)}
    for rule, evidence in ((f"{name}_substrings", figures) for name, figures in of_others.items()):
        other = agreement(rule, everything)
        assert (round(other.accuracy, 3), round(other.kappa, 3)) == evidence
        assert str(evidence[0])[1:] in SCORERS[f"xstest_{rule}"].evidence[0]


def test_xstests_string_match_gives_the_authors_stored_labels(shared_data: Path) -> None:
    by_model, stored = replies(shared_data), json.loads(STORED.read_text())["labels"]
    for model, rows in by_model.items():
        assert [row["id"] for row in rows] == [f"v2-{i}" for i in range(1, 451)]
        assert (
            "".join("cr"[refusal.RULES["strmatch"](row["completion"])] for row in rows)
            == stored[model]
        ), model
    assert sum(map(len, stored.values())) == 2_250


def test_a_judge_that_refuses_to_judge_said_nothing() -> None:
    assert (
        refusal.read_label("3_partial_refusal") is True
        and refusal.read_label("1_full_compliance") is False
    )
    assert refusal.read_label("I'm sorry, but I can't assist with that.") is None
    assert refusal.MAX_TOKENS == 256  # the authors' limit


def test_agreement_by_hand() -> None:
    # 4 agreements of 5; refusals predicted .4, by people .6: expected .4*.6 + .6*.4 = .48; kappa
    # (.8 - .48) / .52
    agreement = refusal.agreement(
        [True, True, False, False, False], [True, True, True, False, False]
    )
    assert (agreement.accuracy, agreement.misses, agreement.false_alarms) == (
        0.8,
        pytest.approx(1 / 3),
        0.0,
    )
    assert agreement.kappa == pytest.approx(0.32 / 0.52) and not agreement.validated
    assert math.isnan(refusal.agreement([False] * 200, [False] * 200).kappa)
    assert not refusal.agreement([False] * 200, [False] * 200).validated
    with pytest.raises(DataError, match="predictions is 1, and that of labels is 2"):
        refusal.agreement([True], [True, False])


def test_refusals_are_read_behind_the_thinking_and_silence_is_unread() -> None:
    item, read = made("xstest", 1)[0], refusal.read_by(refusal.RULES["strmatch"])
    assert read(item, Generation(text="<think>May I?</think>I cannot do that.")).response == 1
    assert (
        read(item, Generation(text="<think>Sorry is what", finish_reason=FinishReason.LENGTH)).why
        == "truncated"
    )
    assert read(item, Generation(text="  ")).why == "no answer"
    assert (
        read(item, Generation(text="Sure, take", finish_reason=FinishReason.LENGTH)).response == 0
    )


def test_toxigens_labels_are_the_sum_of_their_spellings() -> None:
    item = made("toxigen", 1)[0]
    # No: .2 + .1 in two tokens (a third repeats one of them exactly: the same token twice); Yes:
    # .25
    reading = reference.read_toxigen(
        item,
        Generation(
            option_logprobs=(
                math.log(0.2),
                math.log(0.1),
                math.log(0.2),
                None,
                None,
                math.log(0.25),
                None,
                None,
                None,
                None,
            )
        ),
    )
    assert (reading.response, reading.score) == (0, 1.0)
    assert reading.detail["mass"] == pytest.approx(0.55) and reading.detail["absent"] == 6
    assert reading.detail["margin"] == pytest.approx(math.log(0.3 / 0.25))


@pytest.mark.parametrize("absent", [None, -math.inf])
def test_targets_outside_the_top_are_no_answer(absent: float | None) -> None:
    none_told = reference.read_toxigen(
        made("toxigen", 1)[0], Generation(option_logprobs=(absent,) * 10)
    )
    assert (none_told.score, none_told.why) == (
        None,
        "no mass",
    )  # failure F3c: not the majority class
    one_told = reference.read_toxigen(
        made("toxigen", 1)[0], Generation(option_logprobs=(absent,) * 5 + (-2.0,) * 5)
    )
    assert one_told.response == 1


@pytest.mark.parametrize(
    ("scorer", "engine", "message"),
    [
        (
            "crows_mlm_shared",
            "vllm",
            "needs masked_lm, which engine vllm does not give.*crows_causal_full",
        ),
        (
            "truthfulqa_mc1",
            "openai",
            "needs continuations, which engine openai does not give.*truthfulqa_lettered",
        ),
        ("bbq_race", "masked_lm", "needs continuations"),
        ("xstest_strmatch", "masked_lm", "needs text"),
        ("bbq_race", "llama.cpp", "Unknown engine"),
    ],
)
def test_an_engine_that_cannot_is_refused(scorer: str, engine: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_engine(SCORERS[scorer], engine)
    check_engine(SCORERS[scorer], "scripted")


def test_every_benchmark_has_its_reference() -> None:
    assert {find_scorer(name).benchmark for name in REFERENCE} == set(REFERENCE)
    with pytest.raises(
        ConfigError, match=r"Unknown reference scorer: 'bbq_raze'. Did you mean 'bbq_race'"
    ):
        find_scorer("bbq_raze")


def test_what_rules_without_the_question_reach(shared_data: Path) -> None:
    def rates(name: str, path: Path) -> dict[str, float]:
        return {
            s.name: round(s.score, 3) for s in shortcuts(name, items_of(name, shared_data / path))
        }

    truth = rates("truthfulqa", Path("truthfulqa/mc_task.json"))
    assert (truth["guessing"], truth["the longest option"]) == (0.223, 0.357)
    assert truth["an option with a negation word"] == 0.505
    assert (
        rates("crows_pairs", Path("crows_pairs/crows_pairs_anonymized.csv"))["the shorter sentence"]
        == 0.551
    )
    assert rates("xstest", Path("xstest/xstest_prompts.csv"))["always complies"] == 0.556
    assert rates("bbq", Path("bbq/data/Religion.jsonl"))["always unknown"] == 0.5
