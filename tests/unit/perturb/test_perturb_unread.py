"""Answers that were asked and not read, of the tested model, its references and the held-out items:
no finding rests on which ones are missing, and where none is missing nothing changes."""

from dataclasses import replace

import numpy as np
import pytest
from perturb_cells import LIMITS, cell, codes, result, with_answers

from audit.core.records import Setting
from audit.judging.result import Status, because, failed
from audit.perturb.decide import BEYOND, decide, finding, standing
from audit.perturb.design import Arm
from audit.perturb.evidence import Adverse, adverse, beside_references, no_larger, run_tests
from audit.perturb.gates import parseability
from audit.perturb.record import Wordings, against_drop, for_drop, usable_references
from audit.perturb.report import Requests, wordings
from audit.perturb.vocabulary import PerturbVerdict as V
from audit.perturb.worlds import WORLDS, PerturbDesign, simulate
from audit.statistics.paired import CellOutcomes, State
from audit.statistics.unparsed import predict_right

NAN = float("nan")


def measured(c, seed=0):
    return run_tests(c, LIMITS, rng=np.random.default_rng(seed), n_draws=100)


def ps(tests):
    """p-values as they are without a panel."""
    return tests.found_p, tests.beyond_p


def lose(w: Wordings, answer: int, share: float, seed: int = 0) -> Wordings:
    """The same, and that share of each variant's answers, all of this kind, not read."""
    rng, variants = np.random.default_rng(seed), w.variants.copy()
    for row in variants:
        row[rng.choice(np.flatnonzero(row == answer), round(share * row.size), replace=False)] = NAN
    return replace(w, variants=variants)


def references_unread(c, share=0.04):
    """The references' wrong answers are the ones that are missing: their drop looks smaller than it
    is."""
    return replace(c, references=tuple(lose(w, 0, share, k) for k, w in enumerate(c.references)))


def harder(**more):
    return cell(n=3000, checked=600, references=8, harder=0.05, replicates=1, **more)


@pytest.mark.parametrize("made", [{}, {"references": 10, "harder": 0.05}, {"control": 400}])
def test_where_all_was_parsed_nothing_is_held(made):
    c = cell(n=600, wording=0.4, **made)
    t, outcome = measured(c), result(c)
    assert (
        t.adverse is None
        and t.left_out == ()
        and against_drop(c, 3.0) is None
        and for_drop(c, 3.0) is None
    )
    assert standing(t, 0.05, *ps(t)) == finding(0.05, *ps(t)) == V.DROP_BEYOND_REFERENCE
    assert outcome.decision.verdict in BEYOND
    assert outcome.unparsed is None and outcome.evidence.largest_worst is None


def beyond_at(c, gamma):
    """p beyond reference with unparsed answers held against it at these odds."""
    return adverse(
        c, measured(c), LIMITS, gamma, rng=np.random.default_rng(0), n_draws=100
    ).beyond_p


@pytest.mark.long  # many draws
def test_unparsed_answers_of_references_count_as_predicted_and_only_the_worst_case_holds_them_otherwise():
    """Variants cost every model 5 points, and 5 % of each reference's answers, all wrong ones, are
    not parsed."""
    c = harder(seed=98)
    assert result(c).decision.verdict == V.CAUSE_UNKNOWN  # what is true
    lost = references_unread(c, 0.05)
    outcome = result(lost)
    t = outcome.evidence.tests
    assert not failed(outcome.gates) and t.left_out == ()
    assert finding(0.05, *ps(t)) == V.DROP_BEYOND_REFERENCE == outcome.unparsed.holds
    assert outcome.unparsed.tipping_point >= 3 and not outcome.unparsed.worst_case
    pvalues = [beyond_at(lost, gamma) for gamma in (1.0, 3.0, float("inf"))]
    assert pvalues[0] == pvalues[1] < 0.05 < pvalues[2]  # all of the tested model was parsed


@pytest.mark.long
def test_right_answers_of_the_tested_model_that_are_unparsed_are_held_against_a_finding():
    """The same variants, a little memory, and 5 % of the tested model's answers to variants, all
    right, are missing."""
    c = harder(seed=30, wording=0.03)
    lost = replace(c, tested=lose(c.tested, 1, 0.05))
    t = result(lost).evidence.tests
    assert finding(0.05, *ps(t)) == V.DROP_BEYOND_REFERENCE and t.adverse.found_p < 0.05
    pvalues = [beyond_at(lost, gamma) for gamma in (1.0, 3.0, 20.0, float("inf"))]
    assert (
        pvalues == sorted(pvalues)
        and pvalues[0] < pvalues[1] == t.adverse.beyond_p
        and pvalues[0] < 0.05 < pvalues[2]
    )


@pytest.mark.long
def test_what_sensitivity_would_lose_is_not_refuted_by_which_answers_are_missing():
    """Sensitive to wording alone; of items that others know less, a third of its right variants are
    not parsed."""
    made = {"n": 3000, "checked": 3000, "logit": True, "harder": 0.03, "seed": 13}
    c, tested = cell(**made), cell(**made, harder_alone=0.06).tested
    hard = np.mean([w.original[0] for w in c.references], axis=0) < 0.7
    missing = (
        (tested.variants == 1)
        & hard
        & (np.random.default_rng(0).random(tested.variants.shape) < 0.35)
    )
    outcome = result(with_answers(c, tested.original, np.where(missing, NAN, tested.variants)))
    t = outcome.evidence.tests
    assert not failed(outcome.gates) and t.own_p < 0.05 < t.adverse.beyond_p
    assert (outcome.decision.verdict, outcome.decision.doubt) == (V.WITHHELD, "unparsed_beyond")


def test_memory_that_outweighs_the_unparsed_answers_stays_a_finding_and_says_how_far_it_holds():
    c = references_unread(cell(n=1500, checked=600, references=5, wording=0.5), 0.02)
    c = replace(c, tested=lose(c.tested, 1, 0.02))
    outcome = result(c)
    assert outcome.decision.verdict == V.DROP_BEYOND_REFERENCE == outcome.unparsed.holds
    assert outcome.unparsed.worst_case and outcome.decision.reasons[-1] == because(
        "unparsed", **vars(outcome.unparsed)
    )
    assert outcome.evidence.tests.adverse.beyond_p <= beyond_at(c, float("inf")) <= 0.05


def thinly_parsed(references):
    """Clean, and 5 % of the variants unparsed at random."""
    base = cell(n=800, checked=3000, references=references, replicates=1, seed=3)
    lost = np.random.default_rng(0).random(base.tested.variants.shape) < 0.05
    return with_answers(base, variants=np.where(lost, NAN, base.tested.variants))


def test_a_clearance_holds_up_to_its_tipping_point():
    """It is cleared, and not whatever they were."""
    c = thinly_parsed(0)
    outcome = result(c)
    assert outcome.decision.verdict == V.NO_DROP_DETECTED == outcome.unparsed.holds
    point = outcome.unparsed.tipping_point
    assert LIMITS.unparsed_gamma <= point < float("inf") and not outcome.unparsed.worst_case
    p = {gamma: no_larger(c, LIMITS, gamma)[0].p_no_larger for gamma in (1.0, point, float("inf"))}
    assert p[1.0] <= p[point] <= 0.05 < p[float("inf")]
    assert outcome.decision.reasons[-1].numbers["tipping_point"] == point
    assert outcome.evidence.largest_worst > 0.05 > outcome.evidence.drop.largest


def test_a_clearance_beside_references_says_up_to_where_both_halves_hold():
    """The half beside references is of the answers as parsed; the tipping point is of both, so it
    may lie below 3."""
    c = thinly_parsed(3)
    outcome, alone = result(c), result(replace(c, references=()))
    assert outcome.decision.verdict == alone.decision.verdict == V.NO_DROP_DETECTED
    point = outcome.unparsed.tipping_point
    assert point < alone.unparsed.tipping_point and not outcome.unparsed.worst_case
    assert (
        beside_references(c, LIMITS, point)
        <= 0.05
        < beside_references(c, LIMITS, alone.unparsed.tipping_point)
    )


@pytest.mark.parametrize(
    ("base", "world", "loses", "answer"),
    [
        ("harder", "harder_unread", 0, 1),
        ("harder", "harder_references_unread", 1, 0),
        ("memorised_5", "memorised_5_unread", 0, 0),
    ],
)
def test_the_worlds_lose_the_answers_that_they_say(base, world, loses, answer):
    drawn = (
        simulate(PerturbDesign(3000, 3, 2), WORLDS[name], np.random.default_rng(5))
        for name in (base, world)
    )
    whole, spoilt = ([w.variants for w in (made.tested, *made.references)] for made in drawn)
    for j, (a, b) in enumerate(zip(whole, spoilt, strict=True)):
        gone = np.isnan(b)
        assert gone.mean() == pytest.approx(0.04 if min(j, 1) == loses else 0.0, abs=0.006)
        assert np.all(a[gone] == answer) and np.array_equal(a[~gone], b[~gone])


def test_a_reference_of_which_too_little_can_be_read_is_left_out_and_named():
    c = cell(n=600, references=2, wording=0.3)
    bad = c.references[0].variants.copy()
    bad[1, :60] = NAN
    c = replace(c, references=(replace(c.references[0], model="r", variants=bad), c.references[1]))
    outcome = result(c)
    t = outcome.evidence.tests
    assert t.left_out == (because("left_out_unparsed", model="r", share=0.9, arm="variant 2"),)
    assert t.references == ("bb 2",) and t.beyond[0].references == 1
    assert t.left_out[0] in outcome.decision.reasons
    gate = parseability(c, LIMITS)
    assert gate.status == Status.PASS
    assert gate.numbers["reference r"] == 0.9 and gate.numbers["reference bb 2"] == 1.0
    alone = result(replace(c, references=c.references[:1]))
    assert alone.decision.verdict == V.CAUSE_UNKNOWN
    assert "no_usable_references" in codes(alone.decision.reasons)


def test_a_reference_that_is_above_chance_by_what_is_missing_alone_is_left_out():
    """.262 right as parsed, and .25 with the 4.5 % that are unparsed held against it: chance .25,
    two errors .01."""
    rng, n = np.random.default_rng(0), 3000
    variants = np.stack([rng.permutation(np.arange(n) < 0.25 * n) * 1.0 for _ in range(3)])
    weak = lose(Wordings("w", (rng.random((1, n)) < 0.4) * 1.0, variants), 0, 0.045)
    c = replace(cell(n=n, checked=600, references=1, wording=0.3), references=(weak,))
    assert c.can_lose(weak)
    assert measured(c).left_out == (because("left_out_at_chance_unparsed", model="w"),)


def test_a_reference_that_met_fewer_questions_has_not_left_the_others_unread():
    ids = ("a", "b", "c")
    settings = tuple(
        Setting(arm, level, 0)
        for arm, level in ((Arm.ORIGINAL, 0), (Arm.VARIANT, 1), (Arm.VARIANT, 2))
    )
    state = np.array([[1, 0], [1, State.TRUNCATED], [State.ABSENT, 1]], dtype=np.int8)
    outcomes = CellOutcomes(
        "r", "b", "nested", "letter", ("a", "c"), np.arange(2), np.full(2, 4), settings, state
    )
    wording = wordings(outcomes, Requests(not_asked={("a", 2)}), ids)
    original, variants = wording.unread
    assert not original.any() and variants.tolist() == [[False, False, True], [False, False, False]]
    assert wording.requested_variants.tolist() == [[True, False, True], [False, False, True]]


def test_unparsed_answers_are_right_more_often_the_larger_the_odds():
    """400 of 1,000 variants are unparsed. At odds of 1 as many are right as the others predict; at
    infinite odds all, or none. Every run of an original is held, one that no variant is compared
    with for nothing."""
    base = cell(n=1000, references=0, replicates=1).tested
    w = replace(base, variants=np.where(np.arange(1000) < 400, NAN, base.variants))
    right = [w.imputed(g, against=True).variants[:, :400].mean() for g in (1, 2, 5, float("inf"))]
    assert right == sorted(right) and right[-1] == 1.0
    assert right[0] == pytest.approx(predict_right(np.concatenate(w.pair))[:400].mean(), abs=0.02)
    shares = [w.imputed(g).variants[:, :400].mean() for g in (1, 2, 5, float("inf"))]
    assert shares == sorted(shares, reverse=True) and shares[-1] == 0.0
    assert np.array_equal(w.imputed(3).variants[:, 400:], w.variants[:, 400:])
    two = Wordings("m", np.array([[NAN, 1.0], [1.0, 1.0]]), np.array([[0.0, NAN]]))
    assert two.imputed(np.inf, against=True).original.tolist() == [[0.0, 1.0], [1.0, 1.0]]
    mask = np.array([[False, True]])
    assert np.isnan(replace(two, requested=mask).imputed(np.inf, against=True).original[0, 0])


def test_fresh_items_whose_wrong_answers_are_unread_take_a_finding_away_in_the_worst_case():
    """A model touchy about wording among references that are not; held-out items would say so, but
    for what is missing."""
    c = cell(n=2000, checked=600, harder=0.10, control=2000, seed=5)
    c = replace(c, references=cell(n=2000, checked=600).references)
    t = measured(c)
    assert t.reference_p < 0.05 < t.control.pvalue
    fresh = lose(c.control.tested, 0, 0.045)
    t = measured(replace(c, control=with_answers(c.control, fresh.original, fresh.variants)))
    assert t.control.used and finding(0.05, *ps(t)) == V.DROP_BEYOND_REFERENCE
    lost = replace(c, control=with_answers(c.control, fresh.original, fresh.variants))
    assert t.adverse.beyond_p < 0.05 < beyond_at(lost, float("inf"))


def test_the_panel_corrects_both_findings_in_the_adverse_reading():
    evidence = result(cell(n=1500, wording=0.5)).evidence
    tests = replace(evidence.tests, adverse=Adverse(1e-6, 2 * evidence.tests.beyond_p))
    evidence = replace(evidence, tests=tests)
    p = tests.found_p, tests.beyond_p
    assert decide(evidence, (), LIMITS, *p).verdict == V.DROP_BEYOND_REFERENCE
    factor = 0.04 / p[1]  # as read .04 after correction, .08 in the adverse reading
    assert decide(evidence, (), LIMITS, p[0], 0.04).verdict == V.WITHHELD and factor > 1
    assert (
        decide(evidence, (), LIMITS, p[0], 0.2).verdict == V.CAUSE_UNKNOWN
    )  # no more than that is found as read
    exchange = replace(tests.exchange, pvalue=0.004)
    tests = replace(
        tests, exchange=exchange, broken_p=0.002, bracket=None, adverse=Adverse(0.01, None)
    )
    for p, verdict in (
        (0.004, V.CAUSE_UNKNOWN),
        (0.048, V.WITHHELD),
    ):  # twelve cells: the other p is .12
        assert decide(replace(evidence, tests=tests), (), LIMITS, p).verdict == verdict


def test_a_reference_that_is_the_tested_model_under_another_name_is_left_out():
    """It would hide any drop: what it loses is what is compared with."""
    base = cell(n=120)
    names = [w.model for w in base.references]
    references = (
        replace(base.tested, model=names[0]),
        base.references[1],
        replace(base.references[1], model=names[2]),
    )
    used, left_out = usable_references(replace(base, references=references), LIMITS)
    assert [w.model for w in used] == [names[1]]
    assert [(reason.code, reason.numbers["model"]) for reason in left_out] == [
        ("left_out_repeats", names[k]) for k in (0, 2)
    ]
