"""Verdicts on models of known truth, the first that applies, and what is said of each."""

from dataclasses import replace

import documents
import numpy as np
import pytest
from perturb_cells import LIMITS, cell, codes, result, with_answers

from audit.judge.record import Settings
from audit.judging.decision import rule
from audit.judging.result import because
from audit.judging.world import World
from audit.perturb.analyse import analyse, cell_dict
from audit.perturb.decide import BEYOND, cannot_exclude, decide, finding, headline
from audit.perturb.design import PerturbThresholds
from audit.perturb.evidence import Adverse, Bracket, grounds, measure, run_tests
from audit.perturb.gates import all_gates
from audit.perturb.record import item_level
from audit.perturb.vocabulary import VERDICTS
from audit.perturb.vocabulary import PerturbVerdict as V
from audit.perturb.worlds import OTHERS, WORLDS, PerturbDesign, simulate
from audit.shards.keys import RequestCounts
from audit.statistics.multiplicity import holm

NAN = float("nan")
BIG = {"n": 1500, "checked": 600}


def measured(c):
    return measure(c, LIMITS, rng=np.random.default_rng(0), n_resamples=200)


@pytest.mark.parametrize(
    ("verdict", "doubt", "made"),
    [
        (V.NO_DROP_DETECTED, "", lambda: cell(**BIG)),
        (V.DROP_BEYOND_REFERENCE, "", lambda: cell(**BIG, wording=0.6)),
        (V.DROP_SUGGESTS_MEMORY, "", lambda: cell(**BIG, wording=0.3)),
        (V.DROP_SUGGESTS_MEMORY, "", lambda: cell(**BIG, wording=0.3, harder=0.05)),
        (V.CAUSE_UNKNOWN, "not_clearly_more", lambda: cell(**BIG, harder=0.08)),
        (V.CAUSE_UNKNOWN, "no_references", lambda: cell(**BIG, wording=0.3, references=0)),
        (
            V.CAUSE_UNKNOWN,
            "variants_not_read",
            lambda: replace(cell(**BIG, wording=0.3), broken=None),
        ),
        (V.UNDERPOWERED, "", lambda: cell(n=150)),
        (
            V.WITHHELD,
            "",
            lambda: replace(cell(**BIG, wording=0.3), requests=RequestCounts(4500, 99)),
        ),
        (
            V.WITHHELD,
            "nothing_to_compare",
            lambda: with_answers(cell(**BIG), variants=np.full((3, 1500), NAN)),
        ),
        (
            V.WITHHELD,
            "nothing_to_compare",
            lambda: with_answers(cell(n=50), original=np.full((1, 50), NAN)),
        ),
    ],
)
def test_known_truth_gets_its_verdict(verdict, doubt, made):
    c = made()
    outcome = result(c)
    reasons = codes(outcome.decision.reasons)
    assert (outcome.decision.verdict, outcome.decision.doubt) == (verdict, doubt)
    assert ("lower_bound" in reasons) == (verdict in BEYOND)
    assert ("hard_items" in reasons) == (verdict == V.DROP_SUGGESTS_MEMORY)
    assert doubt in reasons or not doubt
    assert not any(
        "nan" in text
        for text in (
            outcome.headline,
            *outcome.reasons,
            *outcome.what_to_do,
            *outcome.cannot_exclude,
        )
    )
    assert "answers_as_facts" in codes(cannot_exclude(c, outcome.evidence))


def test_each_grade_ends_in_its_exit_code() -> None:
    """From the tests of one model to the code of the gate. A drop that only the items tell apart is
    a review."""
    memory, clean = (measured(cell(**BIG, wording=share)) for share in (0.6, 0.0))
    tests = memory.tests
    assert max(tests.far.pvalue, tests.fall.pvalue) <= 0.05

    def of(e, **fields) -> tuple[str, str, int]:
        decision = decide(replace(e, **fields), (), LIMITS)
        assert VERDICTS[decision.verdict].grade == decision.grade
        typed_cell = documents.cell_of(str(decision.verdict), "perturb", grade=str(decision.grade))
        ruling = rule(documents.typed(documents.verdict_of_cells([typed_cell], "perturb")))
        return str(decision.verdict), str(decision.grade), ruling.exit_code

    by_items = replace(tests, far=replace(tests.far, pvalue=0.5))
    assert of(memory) == ("drop_beyond_reference", "found_strong", 3)
    assert of(memory, tests=by_items) == ("drop_suggests_memory", "found_suggestive", 4)
    assert of(memory, tests=replace(by_items, fall=None)) == (
        "drop_cause_unknown",
        "cause_unknown",
        4,
    )
    assert of(clean) == ("no_drop_detected", "cleared", 0)
    assert of(clean, drop=replace(clean.drop, variants=0.96)) == (
        "not_identified",
        "not_identified",
        5,
    )  # 4 points left
    assert of(clean, beside=0.2) == ("underpowered", "undecided", 5)
    adverse = Adverse(1.0, None)
    assert of(memory, tests=replace(tests, adverse=adverse)) == ("withheld", "check_failed", 5)
    # a strong drop stays one only while it is strong with unparsed answers held against it
    weak = Adverse(tests.found_p, tests.beyond_p, 0.5)
    assert of(memory, tests=replace(tests, adverse=weak)) == (
        "drop_suggests_memory",
        "found_suggestive",
        4,
    )


@pytest.mark.parametrize(
    ("memorised", "verdict"), [(0.15, V.UNDERPOWERED), (0.0, V.NO_DROP_DETECTED)]
)
def test_easier_rewordings_clear_no_memory_that_references_show(memorised, verdict):
    design = PerturbDesign(1500, 3, 5, checked=600)
    c = simulate(
        design, World(logit=True, harder=-0.05, wording=memorised), np.random.default_rng(3)
    )
    outcome = result(c)
    assert outcome.decision.verdict == verdict
    assert ("not_beside_references" in codes(outcome.decision.reasons)) == bool(memorised)
    assert (outcome.decision.doubt == "beside_references") == bool(memorised)
    alone = result(replace(c, references=()))
    assert alone.decision.verdict == V.NO_DROP_DETECTED  # what its own answers show, and no more
    advised = ["run_references" in codes(member.decision.what_to_do) for member in (alone, outcome)]
    assert advised == [True, False]


@pytest.mark.parametrize("n", [20, 59])
def test_few_questions_make_no_finding(n):
    """n=20 with a p below .05 and an interval from -0.0 to 50.0 points was called brittle."""
    outcome = result(cell(n=n, wording=0.9, references=0, replicates=1, checked=3000))
    assert outcome.evidence.tests.found_p < 0.05
    assert outcome.decision.verdict == V.UNDERPOWERED and outcome.decision.doubt == "few_questions"
    assert codes(outcome.decision.reasons)["gate_enough_data"]["asked"] == n


def test_a_drop_whose_interval_includes_zero_does_not_count():
    evidence = measured(cell(n=300, wording=0.5))
    assert decide(evidence, (), LIMITS).verdict == V.DROP_BEYOND_REFERENCE
    touching = replace(
        evidence, drop=replace(evidence.drop, drop=replace(evidence.drop.drop, low=-0.0))
    )
    decision = decide(touching, (), LIMITS)
    assert decision.verdict == V.UNDERPOWERED and decision.doubt == "includes_zero"


def test_a_finding_beyond_reference_has_an_interval_that_excludes_zero():
    """The lower end of the 90 % interval is the limit of the one-sided test at 5 %, on every
    scale."""
    for memorised in (0.05, 0.1, 0.15, 0.2):
        for b in run_tests(
            cell(n=400, wording=memorised), LIMITS, rng=np.random.default_rng(0)
        ).beyond:
            assert (b.pvalue < 0.05) == (b.low > 0) and (b.plain.pvalue < 0.05) == (b.plain.low > 0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("accuracy", "others", "wanted", "off"),
    [
        (0.65, (0.75, 0.95), "weaker_reference", 0.03),
        (0.85, (0.40, 0.60), "abler_reference", -0.03),
    ],
)
def test_references_that_do_not_bracket_the_model_convict_nobody(accuracy, others, wanted, off):
    """Variants cost the references nothing and the tested model 20 points."""
    made = {"n": 1500, "checked": 3000, "logit": True, "accuracy": accuracy}
    outcome = result(replace(cell(**made, others=others), tested=cell(**made, harder=0.2).tested))
    bracket = outcome.evidence.tests.bracket
    assert not bracket.holds
    assert outcome.evidence.tests.beyond_p is None and outcome.evidence.tests.reference_p < 0.05
    assert outcome.decision.verdict == V.CAUSE_UNKNOWN
    assert codes(outcome.decision.what_to_do)[wanted]["accuracy"] == pytest.approx(
        bracket.own + off
    )
    assert outcome.decision.doubt == "not_bracketed"
    assert codes(outcome.decision.reasons)["not_bracketed"]["own"] == bracket.own


def test_the_limit_of_a_bracket():
    """Own .70: references of .60 to .671 bracket it, of .60 to .669 do not; one alone must be
    within 3 points."""
    assert Bracket(0.7, 0.6, 0.671, 0.03).holds and not Bracket(0.7, 0.6, 0.669, 0.03).holds
    assert Bracket(0.7, 0.729, 0.8, 0.03).holds and not Bracket(0.7, 0.731, 0.8, 0.03).holds
    assert Bracket(0.7, 0.72, 0.72, 0.03).holds and not Bracket(0.7, 0.74, 0.74, 0.03).holds


@pytest.mark.long
def test_abler_references_convict_few_clean_models():
    """Tested .65, references about .85, variants 10 points harder: of 40 clean models the two
    scales alone accused 53 % with eight references. 5 % of 40 are 2; with 6 or fewer it may be so
    (p=.99)."""
    rng, design, calls = (
        np.random.default_rng(4),
        PerturbDesign(1000, 3, 8),
        {"now": 0, "before": 0},
    )
    for _ in range(40):
        tests = run_tests(simulate(design, OTHERS["abler_10"], rng), LIMITS, rng=rng)
        calls["now"] += finding(0.05, tests.found_p, tests.beyond_p) == V.DROP_BEYOND_REFERENCE
        calls["before"] += max(tests.found_p, *(b.plain.pvalue for b in tests.beyond[:2])) <= 0.05
    assert calls["now"] <= 6 < calls["before"]


def test_references_of_one_other_family_convict_nobody():
    c = cell(**BIG, wording=0.3)
    kin = replace(
        c, references=tuple(replace(w, model=f"llama3_{k}b") for k, w in enumerate(c.references))
    )
    outcome = result(kin)
    assert outcome.decision.verdict == V.CAUSE_UNKNOWN and outcome.decision.doubt == "one_family"
    assert codes(outcome.decision.reasons)["one_family"] == {"family": "llama"}
    named = replace(
        c, families={w.model: "Llama" for w in c.references}
    )  # where the names do not say so
    assert result(named).decision.doubt == "one_family" and result(c).decision.doubt != "one_family"
    same = replace(kin, tested=replace(kin.tested, model="llama2_7b"))
    assert result(same).decision.verdict in BEYOND


def test_the_prior_is_configuration_and_the_rule_without_it_is_kept():
    c = cell(n=1000, references=3, wording=0.6, replicates=1)
    outcome = result(c)
    t = outcome.evidence.tests
    assert outcome.decision.verdict == V.DROP_BEYOND_REFERENCE and t.prior.scale == LIMITS.tau_prior
    assert outcome.plain_p == t.plain_p >= t.beyond_p == outcome.beyond_p
    plain = cell_dict(c, outcome)["without_prior"]
    assert plain["finding"] == (V.DROP_BEYOND_REFERENCE if t.plain_p <= 0.05 else V.CAUSE_UNKNOWN)
    prior = codes(outcome.decision.reasons)["prior"]
    assert (prior["scale"], prior["source"]) == (t.prior.scale, t.prior.source) and prior[
        "plain"
    ] <= t.plain_p
    none = run_tests(c, PerturbThresholds(tau_prior=0.0), rng=np.random.default_rng(0))
    assert none.prior is None and none.beyond_p == none.plain_p == pytest.approx(t.plain_p)
    wide = run_tests(c, PerturbThresholds(tau_prior=0.2), rng=np.random.default_rng(0))
    assert wide.reference_p > t.reference_p and wide.prior.source == "the run's configuration"


def test_references_take_no_clearance_away():
    """Clean, 1,000 items: with three references next to none were cleared, as a drop beyond these
    could go unseen."""
    rng, cleared = np.random.default_rng(6), 0
    for _ in range(20):
        c = simulate(PerturbDesign(1000, 3, 3), WORLDS["clean"], rng)
        tests = run_tests(c, LIMITS, rng=rng)
        cleared += (
            decide(grounds(c, tests, LIMITS, rng=rng, n_resamples=100), (), LIMITS).verdict
            == V.NO_DROP_DETECTED
        )
    assert cleared >= 15


def test_p_values_after_correction_decide():
    assert finding(0.05, 0.01, 0.01) == V.DROP_BEYOND_REFERENCE
    for beyond_p in (0.2, NAN, None):
        assert finding(0.05, 0.01, beyond_p) == V.CAUSE_UNKNOWN
    assert finding(0.05, 0.2, 0.2) is None
    # An exact p can be the level itself, which it then reaches.
    assert finding(0.05, 0.05, NAN) == V.CAUSE_UNKNOWN
    assert finding(0.05, 1.0, 0.05) == V.DROP_BEYOND_REFERENCE


def test_the_panel_is_corrected_by_holm():
    cells = [
        cell(n=300, seed=s, wording=m, references=r)
        for s, m, r in ((1, 0.3, 5), (2, 0.0, 5), (3, 0.3, 0))
    ]
    results = analyse(cells, Settings(LIMITS, 1, 100))
    tests = [r.evidence.tests for r in results]
    assert [r.found_p for r in results] == pytest.approx(holm([t.found_p for t in tests]))
    assert [r.beyond_p for r in results[:2]] == pytest.approx(holm([t.beyond_p for t in tests[:2]]))
    assert tests[2].beyond_p is None and results[2].beyond_p is None
    alone = analyse(cells[:1], Settings(LIMITS, 1, 100))[0]
    assert results[0].evidence.drop == alone.evidence.drop  # a cell's random numbers are its own
    assert results[0].found_p >= alone.found_p


def test_no_model_is_cleared_of_a_drop_that_its_data_do_not_exclude():
    """A design that finds 5 points with 80 % power, and a model that loses them: where the panel's
    correction takes the finding away, that is no clearance."""
    c = cell(n=550, checked=3000, references=0, replicates=1, wording=0.17)
    evidence = measured(c)
    gates = all_gates(c, LIMITS)
    assert evidence.detectable <= LIMITS.effect_of_interest < evidence.drop.largest
    decision = decide(evidence, gates, LIMITS, found_p=0.3)
    assert decision.verdict == V.UNDERPOWERED and decision.what_to_do
    assert headline(c, decision, evidence, ()).numbers["largest"] == evidence.drop.largest


def test_too_few_questions_say_how_many_the_plan_needs():
    few, many = (
        cell(n=n, checked=3000, references=0, replicates=1, wording=0.05) for n in (100, 900)
    )
    advice = [
        decide(measured(c), all_gates(c, LIMITS), LIMITS, 0.3).what_to_do for c in (few, many)
    ]
    (reason,) = advice[0]
    assert (
        reason.code == "more_questions"
        and reason.numbers["asked"] == 100 < reason.numbers["needed"] < 900
    )
    assert "more_questions" not in [step.code for step in advice[1]]


def test_a_drop_within_what_broken_variants_make_does_not_count():
    """5 % broken variants: the drop is real, and no more than the human sample allows for."""
    outcome = result(
        cell(n=2500, broken=0.05, references=0, checked=1000),
        PerturbThresholds(broken_share_max=0.2),
    )
    tests = outcome.evidence.tests
    assert tests.exchange.pvalue < 0.05 < tests.broken_p
    assert outcome.decision.verdict in (V.NO_DROP_DETECTED, V.UNDERPOWERED)
    assert outcome.decision.doubt == "broken_could_make"
    assert codes(outcome.decision.reasons)["broken_could_make"]["margin"] == tests.margin


def test_a_drop_that_hangs_on_unread_answers_is_withheld():
    """4 % of the variants of a clean model are unread, all of them ones that were right."""
    base = cell(n=3000, references=0, checked=3000)
    variants = base.tested.variants.copy()
    for row in variants:
        row[np.flatnonzero(row == 1)[:130]] = NAN
    original = np.minimum(base.tested.original + (np.arange(3000) % 100 == 0), 1.0)
    outcome = result(with_answers(base, original=original, variants=variants))
    assert outcome.evidence.tests.found_p < 0.05 < outcome.evidence.tests.adverse.found_p
    assert outcome.decision.verdict == V.WITHHELD and outcome.decision.doubt == "unparsed_drop"


def test_unread_answers_clear_nobody():
    """A drop of 4 points, and 4.5 % of the variants unread, all of them wrong: what is read shows
    no drop."""
    base = cell(n=1500, checked=3000, references=0, seed=0, replicates=1, wording=0.15)
    variants = base.tested.variants.copy()
    for row in variants:
        row[np.flatnonzero((row == 0) & (base.tested.original[0] == 1))[:67]] = NAN
    assert result(base).decision.verdict == V.CAUSE_UNKNOWN
    outcome = result(with_answers(base, variants=variants))
    assert outcome.evidence.drop.drop.high < 0.025 and outcome.evidence.largest_worst > 0.05
    assert outcome.unparsed is not None and not outcome.unparsed.worst_case
    assert outcome.decision.verdict == V.UNDERPOWERED or outcome.unparsed.tipping_point < np.inf


def test_references_that_guess_are_left_out():
    base = cell(n=400)
    rng = np.random.default_rng(0)
    original, variants = ((rng.random((k, 400)) < 0.25) * 1.0 for k in (1, 3))
    guesser = replace(base.references[0], model="g", original=original, variants=variants)
    tests = run_tests(replace(base, references=(*base.references, guesser)), LIMITS, rng=rng)
    assert (
        tests.left_out == (because("left_out_at_chance", model="g"),)
        and tests.beyond[0].references == 5
    )
    alone = run_tests(replace(base, references=(guesser,)), LIMITS, rng=rng)
    assert alone.beyond == () and alone.beyond_p is None


def test_ten_references_ask_the_curve_too():
    c = cell(n=600, references=10, wording=0.5)
    tests = run_tests(c, LIMITS, rng=np.random.default_rng(0), n_draws=100)
    assert tests.curve.references == 10
    for se, counts in ((0.0, True), (1.0, False)):  # a vague curve is not asked
        doubtful = replace(tests, curve=replace(tests.curve, delta_se=se, pvalue=0.9))
        assert doubtful.curve_counts == (doubtful.beyond_p >= 0.9) == counts


def test_items_are_ranked_and_flagged_with_valid_p():
    c = cell(n=300, variants=3, wording=0.2)
    level = item_level(c)
    assert level.smallest_p == 0.25 and not level.can_flag and not level.flagged.any()
    ranked = level.pvalues[level.order]
    assert np.all(np.diff(ranked) >= 0) and level.method == "bh"
    assert level.affected.lower <= np.sum(level.drop > 0)
    clustered = replace(c, cluster=np.arange(300) // 3)
    assert item_level(clustered).method == "by" and item_level(clustered).affected is None
    # 25 variants: an item that is right only as published has p = 1/26, and 60 of 100 such items
    # are flagged
    o = np.ones((1, 100))
    v = np.concatenate([np.zeros((25, 60)), np.ones((25, 40))], axis=1)
    many = item_level(with_answers(cell(n=100, references=0), original=o, variants=v))
    assert many.flagged.sum() == 0 and many.can_flag  # 1/26 x 100/60 = .064
    v = np.concatenate([np.zeros((25, 80)), np.ones((25, 20))], axis=1)
    assert (
        item_level(with_answers(cell(n=100, references=0), original=o, variants=v)).flagged.sum()
        == 80
    )  # .048


@pytest.mark.parametrize("clusters", [1, 2])
def test_next_to_no_independent_units_show_nothing(clusters):
    """All items in one or two passages, a large drop: nothing can be told, and nothing breaks."""
    c = replace(cell(n=200, wording=0.9), cluster=np.arange(200) % clusters)
    outcome = result(c)
    assert outcome.decision.verdict == V.UNDERPOWERED
    assert outcome.evidence.drop.largest >= outcome.evidence.drop.drop.estimate


def test_a_model_that_is_sensitive_to_wording_is_not_called():
    """Variants take from the tested model alone another 6 points, in log-odds: the references'
    drops say memory."""
    made = {"n": 3000, "checked": 3000, "logit": True, "harder": 0.03}
    outcome = result(replace(cell(**made), tested=cell(**made, harder_alone=0.06).tested))
    tests = outcome.evidence.tests
    assert (
        tests.reference_p < 0.001 and outcome.beyond_p == tests.plain_p == tests.fall.pvalue > 0.05
    )
    assert outcome.decision.verdict == V.CAUSE_UNKNOWN and outcome.decision.doubt == "common_fall"
    assert {"reword_held_out"} <= codes(outcome.decision.what_to_do).keys() and "fall" in codes(
        outcome.decision.reasons
    )


def test_a_model_that_has_learnt_nearly_the_whole_exam_is_found_though_no_item_tells():
    """Rewording takes so much from all its items that none loses more than others; no clean model
    loses 30 points."""
    outcome = result(cell(n=1000, references=3, wording=0.95))
    tests = outcome.evidence.tests
    assert outcome.decision.verdict == V.DROP_BEYOND_REFERENCE
    assert tests.fall.pvalue > 0.05 and tests.plain_p > 0.05  # the limit is the prior's
    assert tests.far.pvalue < 0.001 and tests.far.limit >= 3 * LIMITS.tau_prior
    assert "far" in codes(outcome.decision.reasons)


def test_held_out_items_are_asked_in_place_of_which_items_a_drop_is_on():
    """Memory of easy items looks like sensitivity to wording; a model that loses nothing on
    held-out items has none."""
    made = {"n": 3000, "checked": 3000, "logit": True, "wording": 0.4, "easier_known": True}
    alone, beside = result(cell(**made)), result(cell(**made, control=3000))
    assert alone.decision.verdict == V.CAUSE_UNKNOWN and alone.decision.doubt == "common_fall"
    assert (
        beside.decision.verdict == V.DROP_BEYOND_REFERENCE
        and beside.evidence.tests.fall.pvalue > 0.05
    )
