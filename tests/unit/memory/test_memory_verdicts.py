"""From arrays to a verdict: each verdict is reached, each indicator says why it was not judged, and
all is plain."""

import json
from dataclasses import replace
from importlib.resources import files
from statistics import NormalDist

import documents
import jsonschema
import numpy as np
import pytest
from memory_cells import LIMITS as SETTINGS
from memory_cells import READS, bare, cell, changed, judged, run_of

from audit.core.errors import ConfigError
from audit.judging.decision import document_of, rule
from audit.judging.instrument import KINDS
from audit.judging.ladder import Grade
from audit.judging.result import Status, because, json_ready, sentences
from audit.judging.run import cell_head
from audit.judging.vocabulary import LOG_GATES
from audit.memory.analyse import cell_dict, nearest, rates_sentence
from audit.memory.decide import cannot_exclude, decide, headline, tipping
from audit.memory.design import MemoryThresholds
from audit.memory.evidence import Indicator, Name, correct, measure, text_of, unmatched
from audit.memory.gates import above_guessing, readable
from audit.memory.page import render
from audit.memory.record import ItemSet, MemoryCell, Reads
from audit.memory.texts import INDICATORS, TEXTS
from audit.memory.vocabulary import GATES, INSTRUMENT, VERDICTS, measured, tracked
from audit.memory.vocabulary import MemoryVerdict as V
from audit.report.page import RunFacts
from audit.statistics.completion import Auc
from audit.statistics.multiplicity import holm
from audit.statistics.unparsed import GAMMAS


def test_a_cause_unknown_is_not_green_and_a_chart_of_scores_is_not_called_one_of_texts():
    verdict = run_of(cell(n=600, fresh=400, references=5, newer=0.2))
    page = render(verdict, RunFacts("r"), {"score_without_memory": "<svg></svg>"}, [], [[]])
    assert 'class="o-none">▼ stands out' in page and 'class="s-pass">▼' not in page
    assert page.count("<svg></svg>") == 1 and "Text of the items: how likely" not in page


WIDE = {"effect_of_interest": 0.1}  # cells of a few hundred items refute no 5 points
TEXTS_OF = (Name.ITEM, Name.HALF, Name.WRONG)


def p_of(result, name: Name):
    return result.evidence.indicator(name).adjusted


def why(result, *names: Name) -> set[str]:
    return {result.evidence.indicator(name).why.code for name in names}


def doubt(result, *names: Name) -> set[str]:
    return {result.evidence.indicator(name).doubt.code for name in names}


def codes(reasons) -> list[str]:
    return [reason.code for reason in reasons]


def limits(made: MemoryCell, result) -> set[str]:
    return set(codes(cannot_exclude(made, result.evidence, 0.05)))


def headline_of(made: MemoryCell, result):
    """Code and numbers of the headline."""
    return headline(made, result.verdict, result.evidence, result.gates, SETTINGS.alpha)


def test_each_grade_ends_in_its_exit_code() -> None:
    """From the indicators of one model to the code of the gate; no likelihood is needed to clear
    learnt answers."""
    (result,) = judged(cell(references=5, seed=3), effect_of_interest=0.2)
    e, limits_ = result.evidence, replace(SETTINGS, effect_of_interest=0.2)
    gap = replace(e.indicator(Name.GAP), adjusted=1.0, unguarded_adjusted=1.0)
    seen = replace(gap, pvalue=0.001, adjusted=0.01, low=1.0)
    missing = Indicator(Name.GAP, why=because("needs_references"))
    text = replace(seen, name=Name.ITEM)

    def of(*indicators: Indicator, effect: float = 0.2, gates=(), **fields) -> tuple[str, str, int]:
        made = replace(e, indicators=indicators, **fields)
        decision = decide(made, gates, replace(limits_, effect_of_interest=effect))
        assert VERDICTS[decision.verdict].grade == decision.grade
        plain = documents.cell_of(str(decision.verdict), "memory", grade=str(decision.grade))
        ruling = rule(documents.typed(documents.verdict_of_cells([plain], "memory")))
        return str(decision.verdict), str(decision.grade), ruling.exit_code

    assert of(gap) == ("nothing_seen_by_this_instrument", "cleared", 0)
    assert of(gap, effect=e.upper() - 0.001) == ("underpowered", "undecided", 5)
    assert of(seen) == ("gap_to_fresh_items", "found_strong", 3)
    assert of(missing, text) == ("memory_of_text_seen", "found_strong", 3)
    undated = because("undated", missing=["model.r.released"])
    doubted = replace(gap, unguarded_adjusted=0.01, doubt=undated)
    assert of(doubted) == ("memory_cause_unknown", "cause_unknown", 4)
    advice = decide(replace(e, indicators=(doubted,)), (), limits_).what_to_do
    assert advice == (because("state_dates", missing=["model.r.released"]),)
    assert of(missing) == ("not_identified", "not_identified", 5)
    assert of(missing, replace(text, adjusted=0.5)) == ("not_identified", "not_identified", 5)
    able = replace(e.gap, published=0.9 + e.gap.did.difference)
    assert of(gap, gap=able) == (
        "not_identified",
        "not_identified",
        5,
    )  # .9 leaves 10 points, and 20 matter
    unfit = replace(result.gates[3], name="fresh_matched", status=Status.FAIL, withholds=False)
    assert of(missing, gates=[unfit]) == ("withheld", "check_failed", 5)
    assert of(missing, text, gates=[unfit]) == ("memory_of_text_seen", "found_strong", 3)


def test_the_one_sided_limit_is_the_normal_share_of_the_two_sided_one() -> None:
    (result,) = judged(cell(references=5, seed=3))
    e = result.evidence
    scales = [
        (e.gap.did.difference, e.gap.high),
        *((ability.gap, ability.gap_high) for ability in e.abilities),
    ]
    z = NormalDist().inv_cdf
    assert e.upper() == pytest.approx(
        max(a + (b - a) * z(0.95) / z(0.975) for a, b in scales), abs=1e-4
    )
    assert e.gap.did.difference < e.upper() < e.limits()[2]


def test_nothing_is_seen_only_where_both_kinds_of_indicator_looked_and_the_data_refute_the_gap():
    clean = cell(references=5, seed=3)
    (result,) = judged(clean, effect_of_interest=0.2)
    assert result.decision.verdict == V.NOTHING_SEEN
    limit = result.evidence.upper()
    assert limit <= 0.2
    (three,) = judged(cell(references=3, seed=1), effect_of_interest=0.2)
    assert (
        three.decision.verdict == V.NOTHING_SEEN
    )  # by the data alone, whatever power such a design has
    assert headline_of(clean, result).code == "headline_nothing"
    assert {"other_layout", "read_once", "held_out_differ"} <= limits(clean, result)
    (few,) = judged(clean, effect_of_interest=limit - 0.001)
    assert few.decision.verdict == V.UNDERPOWERED
    assert few.decision.reasons[0] == because("gap_compatible", high=limit, gamma=None)
    (alone,) = judged(plain := bare(clean))
    assert (
        alone.decision.verdict == V.NOT_IDENTIFIED and not alone.evidence.indicator(Name.GAP).judged
    )
    assert "answers_learnt" in limits(plain, alone)
    assert codes(alone.decision.what_to_do)[0] == "add_held_out"


@pytest.mark.parametrize("right", [0.0, 0.25])
def test_a_model_that_guesses_is_not_cleared_by_its_score_and_a_text_that_it_read_is_seen(
    right: float,
):
    rng = np.random.default_rng(4)
    for text, verdict in ((0.0, V.WITHHELD), (0.6, V.MEMORY_OF_TEXT)):
        made = cell(n=1000, fresh=600, references=8, file=text)
        guesses = ({"score": (rng.random(side.score.size) < right) * 1.0} for side in made.tested)
        (result,) = judged(changed(made, *guesses), effect_of_interest=0.2)
        assert {g.name: g.status for g in result.gates}["above_guessing"] == Status.FAIL
        assert result.decision.verdict == verdict


def test_what_to_do_about_guessing_hangs_on_what_was_answered():
    """Of one item, or none, no score could be above guessing: chance and two standard errors are 1
    or more."""
    made, gates = cell(n=100, fresh=0, references=0), []
    for answered in (100, 1, 0):
        score = np.where(np.arange(100) < answered, answered == 1, np.nan).astype(float)
        gates.append(above_guessing(changed(made, {"score": score}), withholds=True))
    assert [gate.status for gate in gates] == [Status.FAIL] * 3
    assert [gate.threshold >= 1 for gate in gates] == [False, True, True]
    assert len({gate.advice for gate in gates}) == 3


def test_a_gap_that_the_data_do_not_exclude_is_not_called_unseen():
    """A gap of 10 points: Holm over a panel of twelve models (72 indicators) and more takes the
    finding away, and that is no clearance."""
    made = cell(n=1000, fresh=900, references=8, answers=0.335)
    (alone,) = judged(made)
    assert alone.decision.verdict == V.GAP_TO_FRESH
    panel = tuple(
        replace(indicator, adjusted=1.0, unguarded_adjusted=1.0)
        for indicator in alone.evidence.indicators
    )
    decision = decide(replace(alone.evidence, indicators=panel), alone.gates, SETTINGS)
    assert decision.verdict == V.UNDERPOWERED and codes(decision.reasons)[:2] == [
        "found_alone",
        "gap_compatible",
    ]
    read = judged(cell(n=1000, fresh=500, references=3, file=0.3))[
        0
    ].evidence  # nor where only the text was read
    panel = tuple(
        replace(indicator, adjusted=1.0, unguarded_adjusted=1.0) for indicator in read.indicators
    )
    decision = decide(
        replace(read, indicators=panel), (), replace(SETTINGS, effect_of_interest=0.3)
    )
    assert decision.verdict == V.UNDERPOWERED and decision.reasons[0].code == "found_alone"
    (clean,) = judged(cell(n=1000, fresh=900, references=8), **WIDE)
    assert clean.decision.verdict == V.NOTHING_SEEN


def test_who_does_better_on_held_out_items_than_its_references_is_not_cleared():
    """Half of the held-out items learnt: 15 points or so that hide a gap as large."""
    made = cell(n=1000, fresh=500, references=5)
    (clean,) = judged(made, **WIDE)
    learnt = np.random.default_rng(3).random(500) < 0.5
    score = np.maximum(made.tested[1].score, learnt)
    (hidden,) = judged(changed(made, {}, {"score": score}), **WIDE)
    assert clean.decision.verdict == V.NOTHING_SEEN and not clean.evidence.favours_held_out
    assert hidden.evidence.upper() <= WIDE["effect_of_interest"]
    assert hidden.decision.verdict == V.UNDERPOWERED
    assert hidden.decision.reasons[0].code == "held_out_favoured"
    assert hidden.decision.reasons[0].numbers["low"] == -hidden.evidence.limits()[2] > 0
    assert "other_held_out" in codes(hidden.decision.what_to_do)


def without(made: MemoryCell, published: float, fresh: float, share: float = 0.04) -> MemoryCell:
    """With so many of the tested model's answers unparsed on each set, all of this score."""
    sides = []
    for side, score in zip(made.tested, (published, fresh), strict=True):
        left = side.score.copy()
        left[np.flatnonzero(side.score == score)[: round(share * side.score.size)]] = np.nan
        sides.append({"score": left})
    return changed(made, *sides)


@pytest.mark.long
def test_unparsed_answers_that_hide_a_gap_clear_nobody():
    """A gap of 10 points whose right published and wrong fresh answers are unparsed: as parsed it
    seems refuted."""
    made = cell(n=3000, fresh=1500, references=8, answers=1 / 3, seed=2)
    (whole,) = judged(made)
    assert whole.evidence.imputed_gaps == () and whole.holds_up_to is None
    (result,) = judged(without(made, 1.0, 0.0, 0.06), alpha=1e-9)
    e = result.evidence
    highs = [bound.high for bound in e.imputed_gaps]
    assert (
        e.gap.high < e.limits()[2]
        and highs == sorted(highs)
        and [bound.gamma for bound in e.imputed_gaps] == list(GAMMAS)
    )
    limit = (e.upper(0) + e.upper()) / 2  # refuted as parsed, and not at an odds ratio of 3
    strict = replace(SETTINGS, effect_of_interest=limit, alpha=1e-9)
    decision = decide(e, result.gates, strict)
    assert decision.verdict == V.UNDERPOWERED and decision.reasons[0].numbers["gamma"] == 3.0
    assert decide(replace(e, imputed_gaps=()), result.gates, strict).verdict == V.NOTHING_SEEN
    wide = replace(
        SETTINGS,
        effect_of_interest=(e.imputed_gaps[3].upper + e.imputed_gaps[4].upper) / 2,
        alpha=1e-9,
    )
    assert (
        decide(e, result.gates, wide).verdict == V.NOTHING_SEEN
        and tipping(e, V.NOTHING_SEEN, wide) == 3.0
    )


def test_a_gap_holds_up_to_the_odds_ratio_at_which_its_test_fails():
    (result,) = judged(without(cell(n=600, fresh=400, references=5, answers=0.6, seed=7), 1.0, 0.0))
    last, worst = result.evidence.imputed_gaps[-2:]
    assert (
        last.pvalue * 6 <= 0.05 < worst.pvalue * 6 and worst.low > 0
    )  # Holm's factor: six indicators
    assert result.decision.verdict == V.GAP_TO_FRESH and result.holds_up_to == last.gamma == 50


def test_unparsed_answers_make_no_gap():
    """A clean model whose wrong published and right fresh answers are unparsed: the gap is gone
    where these count."""
    made = cell(n=3000, fresh=1500, references=8, seed=5)
    (result,) = judged(without(made, 0.0, 1.0, 0.06), alpha=0.0156)
    e = result.evidence
    assert e.gap.pvalue < 0.0156 / 6 < e.limits()[0] == e.indicator(Name.GAP).pvalue
    assert result.decision.verdict == V.CAUSE_UNKNOWN and doubt(result, Name.GAP) == {"unparsed"}
    assert codes(result.decision.what_to_do) == ["mend_unparsed"]
    assert result.holds_up_to is None  # nothing is said of the gap that could hang on them


def test_answers_that_were_never_asked_for_are_held_for_nothing():
    made = without(cell(n=300, fresh=200), 0.0, 1.0)
    (result,) = judged(
        changed(made, *({"requested": ~np.isnan(side.score)} for side in made.tested))
    )
    assert result.evidence.imputed_gaps == ()


@pytest.mark.long
def test_four_in_a_hundred_unparsed_at_random_do_not_take_the_clearance():
    made, r = cell(n=3000, fresh=2000, references=8, seed=2), np.random.default_rng(1)

    def lose(side):
        return replace(side, score=np.where(r.random(side.score.size) < 0.04, np.nan, side.score))

    pairs = [tuple(map(lose, pair)) for pair in (made.tested, *made.references)]
    lost = replace(made, tested=pairs[0], references=tuple(pairs[1:]))
    before, after = judged(made, **WIDE)[0], judged(lost, **WIDE)[0]
    assert before.decision.verdict == after.decision.verdict == V.NOTHING_SEEN
    assert (
        after.holds_up_to >= 3 and after.evidence.imputed_gaps[-1].high > after.evidence.limits()[2]
    )


def test_memory_of_the_text_is_seen_by_order_and_completion():
    (result,) = judged(made := cell(n=600, fresh=400, references=8, file=0.5))
    assert result.decision.verdict == V.MEMORY_OF_TEXT
    assert all(p_of(result, name) <= 0.05 for name in (Name.ORDER, Name.OPTIONS, *TEXTS_OF))
    assert p_of(result, Name.GAP) > 0.05
    assert headline_of(made, result).numbers["indicators"] == [
        name for name in Name if name != Name.GAP
    ]
    assert not headline_of(made, result).numbers["gap"]


def test_learnt_answers_are_a_gap_to_fresh_items():
    (result,) = judged(made := cell(n=600, fresh=400, answers=0.6))
    assert result.decision.verdict == V.GAP_TO_FRESH and p_of(result, Name.GAP) <= 0.05
    assert (
        headline_of(made, result).numbers["difference"] == result.evidence.gap.did.difference > 0.1
    )


def test_held_out_items_that_are_harder_for_every_model_are_judged_and_are_no_gap():
    hard = cell(n=1000, fresh=600, references=5, fresh_harder=0.25)
    (result,) = judged(hard)
    assert result.evidence.gap.reference_pvalue < 1e-6 and result.evidence.gap.reference_gap > 0.2
    assert (
        result.decision.verdict in (V.UNDERPOWERED, V.NOTHING_SEEN)
        and p_of(result, Name.GAP) > 0.05
    )
    (learnt,) = judged(cell(n=1000, fresh=600, references=5, fresh_harder=0.25, answers=0.6))
    assert learnt.decision.verdict == V.GAP_TO_FRESH
    assert result.without.reason.code == "without_at_most" and result.without.estimate.at_most


def test_a_gap_is_not_judged_if_the_sets_are_unequal_and_the_scales_disagree():
    evidence = judged(cell(n=1000, fresh=600, references=5, fresh_harder=0.25, answers=0.6))[
        0
    ].evidence
    limits = MemoryThresholds()
    assert not unmatched(evidence, limits)
    doubtful = replace(evidence, abilities=(replace(evidence.abilities[0], pvalue=0.2),))
    assert unmatched(doubtful, limits)
    alike = replace(doubtful, gap=replace(doubtful.gap, reference_pvalue=0.3))
    assert not unmatched(alike, limits)


def test_an_order_with_a_sense_of_its_own_counts_only_beyond_the_references():
    assert p_of(judged(cell(sequenced=0.6))[0], Name.ORDER) > 0.05


@pytest.mark.parametrize(
    ("world", "names", "why", "advice"),
    [
        # the references find the order likelier, too: beyond twice their gain there is nothing
        (
            {"sequenced": 0.3, "felt": 2.0},
            (Name.ORDER, Name.OPTIONS),
            "references_feel_it",
            "larger_references",
        ),
        # its likelihoods spread no wider over texts, so that scale does not guard it: 99 % were
        # accused
        (
            {"popular": 0.5, "uses": 1.5, "even": True},
            TEXTS_OF,
            "any_text_likelier",
            "larger_references",
        ),
        # an order with a sense of its own, and no reference that shows what it is worth
        (
            {"sequenced": 0.6, "fresh": 0, "references": 0},
            (Name.ORDER,),
            "no_reference",
            "add_references",
        ),
    ],
)
def test_what_a_model_makes_of_orders_and_texts_by_itself_is_no_memory(world, names, why, advice):
    (result,) = judged(cell(**{"n": 1000, "fresh": 500, "references": 8} | world))
    assert (
        result.decision.verdict == V.CAUSE_UNKNOWN
        and codes(result.decision.reasons)[0] == "stands_out"
    )
    assert doubt(result, *names) == {why} and codes(result.decision.what_to_do) == [advice]
    for name in names:
        indicator = result.evidence.indicator(name)
        assert indicator.unguarded < 0.02 and (
            not indicator.judged or indicator.pvalue > 0.05 / 6
        ), name
    for text in result.evidence.completion.values() if names == TEXTS_OF else ():
        assert max(text.nats.pvalue, text.own_spread.pvalue) < 0.01 / 6


def test_references_that_find_any_text_less_likely_do_not_bracket_the_model():
    made = cell(file=0.6)

    def texts_of(side, nats):
        return {**side.texts, "item": np.full_like(side.texts["item"], nats)}

    worse = tuple((a, replace(b, texts=texts_of(b, -0.6))) for a, b in made.references)
    (result,) = judged(
        changed(replace(made, references=worse), {}, {"texts": texts_of(made.tested[1], -0.5)})
    )
    order = result.evidence.indicator(Name.ORDER)
    assert (
        order.pvalue == 1.0 and order.unguarded < 0.01 and order.doubt.code == "any_text_likelier"
    )


def test_without_held_out_items_nobody_knows_whether_references_bracket_an_order():
    made = bare(cell(n=1000, references=8, file=0.6), references=True)
    (result,), (drawn,) = judged(made), judged(replace(made, recorded=True))
    assert result.decision.verdict == V.CAUSE_UNKNOWN and doubt(
        result, Name.ORDER, Name.OPTIONS
    ) == {"no_bracket"}
    assert codes(result.decision.what_to_do) == ["add_held_out"]
    assert (
        drawn.decision.verdict == V.MEMORY_OF_TEXT
    )  # an order drawn at random has no sense to feel


def test_what_a_model_makes_of_long_texts_is_no_memory_of_them():
    """Published texts are longer, and length is worth more to the tested model: not to be seen
    beside its length."""
    made, rng = cell(n=1000, fresh=500, references=8, seed=2), np.random.default_rng(2)
    lengths = 0.5 + rng.standard_normal(1000), rng.standard_normal(500)

    def longer(pair, slope):
        return tuple(
            replace(side, texts={name: x + 0.15 * slope * length for name, x in side.texts.items()})
            for side, length in zip(pair, lengths, strict=True)
        )

    lengthened = tuple(longer(pair, 0.3) for pair in made.references)
    moved = replace(made, tested=longer(made.tested, 0.6), references=lengthened)
    sets = (
        replace(facts, log_length=x)
        for facts, x in zip((made.published, made.fresh), lengths, strict=True)
    )
    informed = replace(moved, **dict(zip(("published", "fresh"), sets, strict=True)))
    (blind,), (seeing,) = judged(moved), judged(informed)
    assert blind.decision.verdict == V.MEMORY_OF_TEXT and seeing.decision.verdict == V.NOTHING_SEEN
    as_before = judged(made)[0].evidence.completion[Name.ITEM].nats.difference
    assert seeing.evidence.completion[Name.ITEM].nats.difference == pytest.approx(
        as_before, abs=0.005
    )
    assert (
        abs(np.corrcoef(seeing.without.items.text, lengths[0])[0, 1]) < 0.1
    )  # the ranked items neither: .57 before


def test_orders_that_a_reference_could_not_read_are_not_judged():
    """With nothing beyond the references p was 1, and no memory was said to show, whatever the
    model had read."""
    made = cell(file=0.5)
    first = made.references[0][0]
    blind = replace(
        first, order=np.full_like(first.order, np.nan), options=np.full_like(first.options, np.nan)
    )
    (result,) = judged(
        replace(made, references=((blind, made.references[0][1]), *made.references[1:]))
    )
    assert why(result, Name.ORDER, Name.OPTIONS) == {"few_shards_read", "few_orders_read"}
    assert all(
        judged(made)[0].evidence.indicator(name).judged for name in (Name.ORDER, Name.OPTIONS)
    )


def test_an_order_that_words_tell_is_not_judged_without_references():
    made = cell(fresh=0, references=0)
    words = np.random.default_rng(0).normal(size=made.tested[0].order.shape)
    words[:, 0] += 2
    published = replace(made.published, neighbours={"words": words})
    (result,) = judged(replace(made, published=published))
    assert why(result, Name.ORDER) == {"words_tell_order"}
    both = cell()
    (beside,) = judged(
        replace(both, published=replace(both.published, neighbours={"words": words}))
    )
    for judgement, lacking in ((result, True), (beside, False)):  # held-out items and references
        gate = next(g for g in judgement.gates if g.name == "order_exchangeable")
        assert gate.status == "fail" and not gate.withholds and ("Add" in gate.advice) == lacking


def test_what_was_found_stands_first_on_the_page():
    clean, taught = (
        replace(made, tested=tuple(replace(x, model=name) for x in made.tested))
        for name, made in (("a", cell(n=60, fresh=60)), ("b", cell(answers=0.9)))
    )
    verdict = run_of(clean, taught)
    assert [result.model for result in verdict.results] == ["a", "b"]
    first = verdict.sorted_by_grade()
    assert (
        [result.model for result in first.results]
        == [cell.model for cell in first.cells]
        == ["b", "a"]
    )
    assert first.results[0].grade == Grade.FOUND_STRONG


def test_one_score_and_one_interval_of_the_gap_wherever_they_stand():
    """Verdict, card, joint page and comparison: the model's own score, also of items that a
    reference left out."""
    made = cell(answers=0.6)
    (a, b), *others = made.references
    blank = np.where(np.arange(b.score.size) < 9, np.nan, b.score)
    made = replace(made, references=((a, replace(b, score=blank)), *others))
    both = made, bare(made)
    result, alone = (judged(variant)[0] for variant in both)
    assert result.verdict == V.GAP_TO_FRESH
    numbers = headline_of(made, result).numbers
    assert (numbers["published"], numbers["held_out"]) == tuple(
        float(side.score.mean()) for side in made.tested
    )
    assert (
        result.evidence.gap.did.n == 300 and result.evidence.gap.did.m == 191
    )  # what is missing is not wrong
    cells = (
        json_ready(cell_head(r) | cell_dict(c, r))
        for c, r in zip(both, (result, alone), strict=True)
    )
    plain, without = (documents.typed_cell(cell, "memory") for cell in cells)
    _, low, high = result.evidence.limits()
    measurement, (_, followed) = measured(plain), tracked(plain)
    for interval in (measurement, followed):
        assert (interval.low, interval.high) == (
            pytest.approx(low, abs=1e-6),
            pytest.approx(high, abs=1e-6),
        )
    assert (
        measurement.estimate == pytest.approx(numbers["difference"], rel=1e-4)
        and measurement.false_alarms is None
    )
    assert measured(without).estimate is None and INSTRUMENT.sees <= set(KINDS)


def test_without_an_indicator_there_is_no_verdict():
    made = cell(n=40, fresh=0, references=0)
    (result,) = judged(
        changed(made, {"order": np.zeros((0, 1)), "options": np.full((40, 6), np.nan)})
    )
    assert (
        result.decision.verdict == V.NOT_IDENTIFIED
        and codes(result.decision.what_to_do)[0] == "add_held_out"
    )
    assert codes(result.decision.reasons) == ["nothing_bounded", *["not_judged"] * 6]


@pytest.mark.parametrize(
    ("arm", "gate"), [("published", "likelihoods_read"), ("score", "parseability")]
)
def test_what_was_not_read_withholds_the_verdict(arm, gate):
    made = cell(file=0.5, references=6)
    (result,) = judged(changed(made, {"reads": {**READS, arm: Reads(100, 80, 7)}}))
    assert result.decision.verdict == V.WITHHELD and codes(result.decision.reasons) == [
        f"gate_{gate}"
    ]
    assert headline_of(made, result).numbers["why"] == [GATES[gate].because]
    few = changed(
        made, {"reads": {**READS, arm: Reads(100, 93, 7)}}
    )  # 86 to 97 %: not shown to be below 95 %
    assert judged(few)[0].decision.verdict == V.MEMORY_OF_TEXT
    poor = replace(made.references[0][0], reads={**READS, arm: Reads(100, 80, 7)})
    thin = replace(made, references=((poor, made.references[0][1]), *made.references[1:]))
    (left,) = judged(thin)
    assert left.decision.verdict == V.MEMORY_OF_TEXT and len(left.evidence.order.references) == 5
    (dropped,) = readable(thin, SETTINGS).dropped
    assert dropped.numbers == {"model": "r1", "read": 80, "asked": 100, "arm": arm, "items": "exam"}
    details = [check.detail for check in (*result.gates, *left.gates) if check.name == gate]
    assert [" r1 " in detail for detail in details] == [False, True]


def test_references_that_guess_are_left_out_of_the_score():
    made = cell()
    guessing = tuple(
        replace(side, score=(np.arange(side.score.size) % 4 == 0) * 1.0)
        for side in made.references[0]
    )
    (result,) = judged(replace(made, references=(guessing, *made.references[1:])))
    assert result.evidence.left_out == ("r1",) and len(result.evidence.gap.did.gaps) == 2
    assert result.evidence.indicator(Name.GAP).why == because(
        "few_able_references", references=2, least=3
    )
    (none,) = judged(replace(made, references=(guessing,)), references_min=1)
    assert why(none, Name.GAP) == {"references_guess"} and none.evidence.indicator(Name.ITEM).judged


def test_holm_is_over_all_indicators_of_the_panel():
    panel = [
        measure(c, SETTINGS, rng=np.random.default_rng(k), n_resamples=199)
        for k, c in enumerate([cell(n=100, fresh=0, references=0), cell(n=100, fresh=80)])
    ]
    raw = [indicator.pvalue for e in panel for indicator in e.indicators if indicator.judged]
    corrected = [
        indicator.adjusted for e in correct(panel) for indicator in e.indicators if indicator.judged
    ]
    assert len(raw) == 6  # without references orders have another cause
    assert corrected == holm(raw).tolist()


def test_the_verdict_is_plain_fits_its_schema_and_is_the_same_to_the_byte():
    cells = (cell(file=0.5), cell(n=100, fresh=0, references=0, seed=9))
    run = run_of(*cells, n=90)
    schema = json.loads(
        (files("audit.judging") / "verdict.schema.json").read_text(encoding="utf-8")
    )
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(run.to_dict(), schema)
    assert run.to_dict() == replace(run, results=judged(*cells)).to_dict()
    first, second = run.to_dict()["cells"]
    assert first["watermark"] in first["headline"].lower() and "90 of 100" in first["watermark"]
    assert first["reason_codes"][0]["numbers"]["indicator"] == "order"
    assert first["advice_codes"][0]["code"] == "incomplete"
    assert second["fresh"] is None and second["evidence"]["gap"] is None
    whole, short = (documents.typed(verdict.to_dict()) for verdict in (replace(run, rows=()), run))
    assert rule(whole).exit_code == 3 and rule(short).exit_code == 1
    with pytest.raises(ConfigError):
        document_of({**run.to_dict(), "audit": "sweep"})


def test_every_word_is_there():
    assert set(VERDICTS) == set(V) and set(INDICATORS) == set(Name)
    (result,) = judged(cell(n=100, fresh=80))
    assert {g.name for g in result.gates} == set(GATES) - set(LOG_GATES) - {
        "same_guessing"
    }  # of imports; of other numbers of options
    assert [word.grade.value for word in VERDICTS.values()] == [
        "found_strong",
        "found_strong",
        "cause_unknown",
        "check_failed",
        "not_identified",
        "undecided",
        "cleared",
    ]


def test_the_nearest_design_is_of_the_same_kind():
    rates = {"clean": 0.04, "clean_se": 0.01, "text": 0.9}

    def run_of(n, fresh, references, accuracy=0.7, score_alone=False):
        sizes = {"n": n, "fresh": fresh, "references": references}
        return sizes | {"accuracy": accuracy, "score_alone": score_alone}

    shipped = [(100, 0, 0), (1000, 0, 0), (1000, 500, 5), (1000, 500, 5, 0.7, True)]
    designs = [{"design": run_of(*sizes), "rates": rates} for sizes in shipped]
    table = {"designs": designs}
    assert nearest(table, run_of(200, 0, 0)).design["n"] == 100
    assert nearest(table, run_of(800, 400, 4)).design["fresh"] == 500
    assert nearest(table, run_of(200, 100, 1)).rates == {}  # none near
    assert nearest(table, run_of(900, 100, 0)).design == designs[1]["design"]
    assert nearest(None, run_of(1, 0, 0)) is None
    # the score alone has rates of its own, and log-odds of .98 are 3 from those of .7
    assert nearest(table, run_of(1000, 500, 5, score_alone=True)).design == designs[3]["design"]
    assert nearest(table, run_of(1000, 0, 0, score_alone=True)) is None
    assert nearest(table, run_of(1000, 500, 5, accuracy=0.98)).rates == {}
    assert nearest(table, run_of(1000, 500, 5, accuracy=0.8)).rates == rates
    assert "4 % (± 1 %)" in rates_sentence(designs[0]) and "unmeasured" in rates_sentence(
        designs[0]
    )


def test_guessing_an_item_set():
    items = ItemSet("b", ("1", "2", "3"), np.arange(3), np.array([4, 2, 0]))
    assert items.chance == pytest.approx((0.25 + 0.5 + 0) / 3)


def test_fresh_items_whose_order_is_likelier_too_take_the_order_test_away():
    made = cell(file=0.6)
    order = made.tested[1].order.copy()
    order[:, 0] += 1
    (result,) = judged(changed(made, {}, {"order": order}))
    assert why(result, Name.ORDER) == {"held_out_order_likelier"}
    assert result.evidence.indicator(Name.OPTIONS).judged


def test_few_references_judge_nothing_against_fresh_items_unless_asked_to():
    made = cell(file=0.6)
    single = replace(made, references=made.references[:1])
    (result,) = judged(single)
    assert result.evidence.indicator(Name.ITEM).why == because(
        "few_references", references=1, least=3
    )
    assert result.evidence.indicator(Name.ORDER).judged
    (forced,) = judged(single, references_min=1)
    assert p_of(forced, Name.ITEM) <= 0.05 and "one_reference" in limits(single, forced)
    made = cell(n=40, fresh=40, references=1)  # of an endpoint: a score and nothing else
    (result,) = judged(
        changed(made, *[{"order": np.zeros((0, 1)), "options": np.full((40, 6), np.nan)}] * 2)
    )
    assert result.decision.what_to_do[0] == because("name_references", least=3)


def test_each_reference_stands_against_the_rest_and_one_that_has_learnt_the_exam_is_named():
    made = cell(n=1000, fresh=700, references=6)
    (clean,) = judged(made)
    assert [standing.model for standing in clean.evidence.apart] == [
        "r1",
        "s2",
        "t3",
        "u4",
        "v5",
        "w6",
    ]
    assert "reference_learnt" not in limits(made, clean)
    r = np.random.default_rng(3)
    first, fresh = made.references[0]
    learnt = replace(first, score=np.maximum(first.score, r.random(1000) < 0.9))
    (result,) = judged(bad := replace(made, references=((learnt, fresh), *made.references[1:])))
    standings = {standing.model: standing for standing in result.evidence.apart}
    assert standings["r1"].low > 0 and all(
        standing.low < 0 for name, standing in standings.items() if name != "r1"
    )
    assert cannot_exclude(bad, result.evidence, 0.05)[-1].numbers["model"] == "r1"
    assert cell_dict(made, result)["evidence"]["apart"][0].model == "r1"


def test_fresh_items_of_another_kind_take_their_indicators_away():
    made = cell(n=600, fresh=400, references=5, answers=0.9)
    assert judged(made)[0].decision.verdict == V.GAP_TO_FRESH
    (result,) = judged(replace(made, kind=Auc(0.95, 0.93, 0.97, 0.0)))
    assert result.decision.verdict == V.WITHHELD and codes(result.decision.reasons) == [
        "gate_same_kind"
    ]
    (near,) = judged(replace(made, kind=Auc(0.82, 0.78, 0.86, 0.0)))  # not shown to be above .8
    assert near.decision.verdict == V.GAP_TO_FRESH


@pytest.mark.parametrize("pool", [{"fresh_harder": 0.1}, {"fresh_harder": -0.09, "answers": 0.15}])
def test_held_out_items_that_the_references_answers_chose_are_not_judged(pool):
    """Chosen so from a harder pool, their scores regress for the tested model alone: 8 % of clean
    models were found."""
    made = cell(n=1000, fresh=500, references=5, chosen=True, **pool)
    (result,) = judged(made)
    gates = {gate.name: gate for gate in result.gates}
    assert gates["fresh_matched"].status == "pass" and gates["fresh_drawn"].number < 1e-5
    assert result.decision.verdict == V.WITHHELD and result.without.needs == ("fresh_drawn",)
    assert [reason.code for reason in result.decision.what_to_do] == ["gate_fresh_drawn"]
    assert not any(result.evidence.indicator(name).judged for name in (Name.ITEM, Name.GAP))
    (read,) = judged(cell(n=1000, fresh=500, references=8, chosen=True, file=0.5, **pool))
    assert read.decision.verdict == V.MEMORY_OF_TEXT  # orders rest on no held-out item
    (drawn,) = judged(cell(n=1000, fresh=500, references=5))
    assert {gate.name: gate.status for gate in drawn.gates}["fresh_drawn"] == "pass"


@pytest.mark.long
def test_references_of_one_family_find_no_memory():
    """Fine-tunes of one base agree on style: 24 to 26 % of clean models of other families stood out
    beside them."""
    made = cell(n=1000, fresh=600, references=5, file=0.5)
    (several,) = judged(made)
    assert several.decision.verdict == V.MEMORY_OF_TEXT
    named = [
        tuple(side and replace(side, model=f"llama_{k}") for side in pair)
        for k, pair in enumerate(made.references)
    ]
    (result,) = judged(replace(made, references=tuple(named)))
    assert result.decision.verdict == V.CAUSE_UNKNOWN
    assert doubt(result, *Name) == {"one_family"} and codes(result.decision.what_to_do) == [
        "other_families"
    ]
    (informed,) = judged(
        replace(made, families={reference.model: "llama" for reference, _ in made.references})
    )
    assert doubt(informed, *Name) == {"one_family"}
    (kin,) = judged(changed(replace(made, references=tuple(named)), *[{"model": "llama_9"}] * 2))
    assert kin.decision.verdict == V.MEMORY_OF_TEXT
    # What one family shares looks like the model's own: the score without memory would hold in 48
    # to 68 %.
    assert result.without.needs == ("other_families",) and result.without.estimate is None
    assert kin.without.estimate is not None and several.without.estimate is not None


def test_fine_tunes_of_one_base_under_names_of_several_families_call_nobody_a_reader():
    """Nine tenths of what is each model's own they share: 22 % of clean models stood out beside
    them."""
    made, rng, hits = cell(n=1000, fresh=500, references=8), np.random.default_rng(16), 0
    for _ in range(60):
        sides, suits = [], rng.standard_normal((10, 1)) * 0.3
        for n, moved in ((1000, suits), (500, 0 * suits)):
            styles = rng.standard_normal((10, n)) + moved
            kin = np.sqrt(0.9) * styles[-1] + np.sqrt(0.1) * styles[1:-1]
            sides.append(rng.standard_normal(n) + 0.35 * np.concatenate([styles[:1], kin]))
        pairs = [
            tuple(
                replace(model_set, texts={**model_set.texts, "item": side[k]})
                for model_set, side in zip(pair, sides, strict=True)
            )
            for k, pair in enumerate((made.tested, *made.references))
        ]
        hits += (
            text_of(replace(made, tested=pairs[0], references=tuple(pairs[1:])), "item").pvalue
            <= 0.05 / 6
        )
    assert hits <= 2


def test_a_reference_that_is_the_tested_model_under_another_name_is_left_out() -> None:
    """All of it would be taken for what any model gains from the published items."""
    made = cell(file=0.6)
    copies = (tuple(replace(side, model="r1") for side in made.tested if side), made.references[0])
    (alone,) = judged(replace(made, references=copies[:1]), references_min=1)
    assert (
        alone.decision.verdict not in (V.MEMORY_OF_TEXT, V.GAP_TO_FRESH)
        and alone.evidence.gap.did.gaps == ()
    )
    cleaned = readable(replace(made, references=copies), SETTINGS)
    assert [reference[0].model for reference in cleaned.references] == [
        "r1"
    ] and cleaned.references[0] is made.references[0]
    assert [(reason.code, reason.numbers) for reason in cleaned.dropped] == [
        ("reference_repeats", {"model": "r1"})
    ]
    assert sentences(cleaned.dropped, TEXTS)[0].startswith("r1 (")
