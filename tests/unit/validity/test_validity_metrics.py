"""The benchmark's own metric on a cell's originals: by hand, against the published values, and its
interval."""

from dataclasses import replace

import numpy as np
import pytest
from scripted_models import cell, follower

from audit.benchmarks.items import BbqFacts, ContrastFacts, CrowsFacts, ToxigenFacts, XsTestFacts
from audit.core.records import Item
from audit.statistics.contracts import UNREAD
from audit.validity.edits.file import _packed, _unpacked
from audit.validity.metrics import Answers, ReferenceMetric, reference_metrics
from audit.validity.record import Cell


def of(
    benchmark: str, items: list[Item], responses: list[int], context: str = "", **more: object
) -> Cell:
    """A cell whose originals have these responses; of the rest nothing is read here."""
    made = cell(follower, n=len(items))
    repeated = np.array([responses, responses])
    scorer = {**made.scorer, "benchmark": benchmark, "lettered": more.pop("lettered", False)}
    cluster = np.unique([item.group for item in items], return_inverse=True)[1]
    return replace(
        made,
        context=context,
        items=tuple(items),
        original=replace(made.original, response=repeated),
        scorer=scorer,
        cluster=cluster,
        **more,
    )


def metrics(base: Cell, n_resamples: int = 400) -> dict[tuple[str, str], ReferenceMetric]:
    answers = Answers(base.scorer, base.items, base.before, base.mass_before, base.cluster)
    results = reference_metrics(answers, rng=np.random.default_rng(3), n_resamples=n_resamples)
    return {(m.name, m.part): m for m in results}


def pet(i: int, polarity: str, key: int, category: str = "Pets") -> Item:
    """Answers 0 and 1 are two people, 2 is unknown; 0 is the stereotyped one."""
    facts = BbqFacts(
        category, "1", i, polarity, 2, 0, (("a", "a"), ("b", "b"), ("?", "unknown")), ("a",), ""
    )
    condition = "ambig" if key == 2 else "disambig"
    return Item(
        str(i),
        "bbq",
        "?",
        ("A", "B", "?"),
        key,
        str(i),
        context="c",
        condition=condition,
        facts=facts,
    )


def test_bbq_by_hand_and_by_category() -> None:
    # Ten of cats: eight known answers, all "A", of which five in negative questions are biased: s =
    # 2*5/8 - 1 = .25; two unknown answers are right: s_AMB = .25 * (1 - .2). Ten of dogs: all
    # unknown: no bias to speak of.
    cats = [pet(i, "neg" if i < 5 else "nonneg", 2, "Cats") for i in range(10)]
    dogs = [pet(10 + i, "neg", 2, "Dogs") for i in range(10)]
    results = metrics(of("bbq", cats + dogs, [0] * 8 + [2] * 2 + [2] * 10, "ambig"))
    assert results["s_AMB", "Cats"].estimate == pytest.approx(100 * 0.25 * 0.8)
    assert results["s_AMB", "Cats"].n == 8
    assert np.isnan(results["s_AMB", "Dogs"].estimate) and results["s_AMB", "Dogs"].n == 0
    assert results["s_AMB", ""].estimate == pytest.approx(100 * 0.25 * (1 - 12 / 20))
    assert results["accuracy", ""].estimate == pytest.approx(60)
    clear = metrics(
        of("bbq", [pet(i, "neg", 1) for i in range(12)], [1] * 11 + [UNREAD], "disambig")
    )
    assert clear["s_DIS", ""].estimate == -100  # no answer is biased: -1, not 0
    assert clear["accuracy", ""].n == 11  # the unread one is in neither


def test_the_interval_of_a_bias_score_rests_on_answers_that_tell_of_a_bias() -> None:
    """Of twenty ambiguous answers two to four name a person: the bootstrap held the truth in 12 to
    72 %."""
    pets = [pet(i, ("neg", "nonneg")[i % 2], 2) for i in range(40)]
    few, many = (
        metrics(of("bbq", pets, [0] * n + [2] * (40 - n), "ambig"))["s_AMB", ""] for n in (9, 20)
    )
    assert few.n == 9 and np.isfinite(few.estimate) and np.isnan([few.low, few.high]).all()
    assert many.n == 20 and many.low < many.estimate < many.high
    bias = metrics(of("bbq", [pet(i, "neg", 0) for i in range(18)], [0] * 18, "disambig"))[
        "s_DIS", ""
    ]
    # Wilson's interval of 18 of 18, with Student's quantile of 17 degrees: 1 / (1 + 2.11 ** 2 / 18)
    # = .802
    assert (bias.estimate, bias.high) == (100, 100) and bias.low == pytest.approx(
        200 * 0.802 - 100, abs=0.1
    )


def test_crows_keeps_neutral_pairs_in_n() -> None:
    items = [
        Item(
            str(i),
            "crows_pairs",
            "",
            ("a", "b"),
            0,
            str(i),
            facts=CrowsFacts("size" if i % 2 else "age"),
        )
        for i in range(24)
    ]
    results = metrics(of("crows_pairs", items, [0] * 12 + [1] * 6 + [2] * 6))
    assert results["sent_more preferred", ""].estimate == pytest.approx(50.0)
    assert {part for _, part in results} == {"", "age", "size"}
    low, high = results["sent_more preferred", ""].low, results["sent_more preferred", ""].high
    # Twenty-four independent pairs at one half: a standard error of 10.2 points.
    assert low == pytest.approx(50 - 1.96 * 10.2, abs=4) and high == pytest.approx(
        50 + 1.96 * 10.2, abs=4
    )


def test_xstest_toxigen_and_truthfulqa() -> None:
    prompts = [
        Item(
            str(i),
            "xstest",
            "?",
            ("complies", "refuses"),
            i % 2,
            str(i // 2),
            condition=("safe", "unsafe")[i % 2],
            facts=XsTestFacts("t", "", ""),
        )
        for i in range(20)
    ]
    results = metrics(of("xstest", prompts, [1, 1] * 2 + [0, 1] * 7 + [UNREAD] * 2))
    assert results["refusals of safe prompts", ""].estimate == pytest.approx(100 * 2 / 9)
    assert (
        results["refusals of unsafe prompts", ""].estimate,
        results["refusals of unsafe prompts", ""].n,
    ) == (100, 9)
    statements = [
        Item(
            str(i),
            "toxigen",
            "?",
            ("neutral", "hate"),
            i % 2,
            str(i),
            facts=ToxigenFacts(("x",), 1.0),
        )
        for i in range(10)
    ]
    mass = np.array([0.9] * 5 + [0.5] * 4 + [np.nan])
    results = metrics(of("toxigen", statements, [0] * 10, mass_before=mass))
    assert results["label mass, mean", ""].estimate == pytest.approx(100 * 6.5 / 9)
    assert results["accuracy", ""].estimate == 50
    questions = [Item(str(i), "truthfulqa", "?", ("a", "b"), 0, str(i)) for i in range(10)]
    assert metrics(of("truthfulqa", questions, [0] * 4 + [1] * 6))[
        "MC1", ""
    ].estimate == pytest.approx(40)
    lettered = metrics(of("truthfulqa", questions, [0] * 10, lettered=True))
    assert {name for name, _ in lettered} == {"options shown and lettered (not MC1)"}
    assert not metrics(of("contrast", questions, [0] * 10))


def test_whole_clusters_are_resampled() -> None:
    """Four copies of one answer are one answer: the interval is that of the clusters, not of the
    rows."""

    def width(group: int) -> float:
        items = [Item(str(i), "truthfulqa", "?", ("a", "b"), 0, str(i // group)) for i in range(80)]
        (metric,) = metrics(
            of("truthfulqa", items, [(i // 4) % 2 for i in range(80)]), 2000
        ).values()
        return metric.high - metric.low

    assert width(4) == pytest.approx(
        2 * width(1), rel=0.25
    )  # a quarter of the units: twice the width


@pytest.mark.parametrize(
    "facts",
    [
        pet(1, "neg", 2).facts,
        CrowsFacts("age"),
        ToxigenFacts(("a", "b"), 2.5),
        XsTestFacts("t", "f", "n"),
        ContrastFacts(("p",), (("q", 1), ("r", 2))),
        None,
    ],
)
def test_facts_come_back_from_the_file_of_edits_as_they_were(facts: object) -> None:
    assert _unpacked(_packed(facts)) == facts
