"""Held-out items as a control: what they take away, what they say, and when they are not asked."""

from argparse import Namespace
from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
import pytest
from perturb_cells import LIMITS, cell, codes, with_answers

from audit.judging.simulated import calibrate
from audit.perturb.calibrate import procedures
from audit.perturb.decide import cannot_exclude, decide
from audit.perturb.evidence import fresh_control, grounds, measure, run_tests
from audit.perturb.vocabulary import PerturbVerdict as V
from audit.perturb.worlds import CONTROL_WORLDS, PerturbDesign

BIG = {"n": 1500, "checked": 600}


@lru_cache
def measured():
    """Evidence whose tests are put in place of below: the article's simulation in it takes a second
    of each model."""
    return measure(cell(n=200), LIMITS, rng=np.random.default_rng(0), n_resamples=100)


def result(c):
    tests = run_tests(c, LIMITS, rng=np.random.default_rng(1))
    ground = grounds(c, tests, LIMITS, rng=np.random.default_rng(2), n_resamples=200)
    evidence = replace(measured(), tests=tests, drop=ground.drop, equivalence=ground.equivalence)
    decision = decide(evidence, (), LIMITS, tests.found_p, tests.beyond_p)
    return SimpleNamespace(decision=decision, open=codes(cannot_exclude(c, evidence)), tests=tests)


def touchy():
    """A model without memory that loses 10 points to any rewording, among references that lose
    nothing."""
    return replace(cell(**BIG, harder=0.10, control=800), references=cell(**BIG).references)


def test_a_model_that_loses_as_much_on_fresh_items_is_not_accused():
    without = result(replace(touchy(), control=None)).tests
    assert without.reference_p < 0.05  # what the references alone say
    outcome = result(touchy())
    assert outcome.decision.verdict == V.CAUSE_UNKNOWN
    assert outcome.decision.doubt == "touchy" and "not_clearly_more" not in codes(
        outcome.decision.reasons
    )
    assert outcome.tests.beyond_p > 0.05


def test_memory_beyond_references_and_fresh_items_stays_a_finding_and_says_what_fresh_items_say():
    outcome = result(cell(**BIG, wording=0.3, control=800))
    assert outcome.decision.verdict == V.DROP_BEYOND_REFERENCE
    reasons = codes(outcome.decision.reasons)
    assert reasons["held_out_drop"] == {
        "benchmark": "fresh",
        "n": 800,
        "drop": outcome.tests.control.drop,
    }
    for contrast in outcome.tests.control.beyond:
        assert reasons[f"held_out_{contrast.scale}"]["difference"] == contrast.difference
    assert {"held_out_easier", "held_out_harder"} <= set(
        outcome.open
    ) and "held_out_unlike" not in outcome.open
    c = cell(**BIG, control=800)
    unlike = result(replace(c, control=replace(c.control, unlike=("window", "judge")))).open
    assert unlike["held_out_unlike"] == {"unlike": ("window", "judge")}


def test_fresh_items_alone_accuse_nobody():
    outcome = result(cell(**BIG, wording=0.3, references=0, control=800))
    assert outcome.tests.control.pvalue < 0.001 and outcome.tests.beyond_p is None
    assert outcome.decision.verdict == V.CAUSE_UNKNOWN and outcome.tests.beyond_p is None
    assert outcome.decision.doubt == "beyond_held_out"


def test_fresh_items_whose_variants_are_easier_break_the_control_and_the_references_hold():
    c = cell(**BIG, harder=0.08, fresh_easier=0.08, control=800)
    outcome = result(c)
    assert outcome.tests.control.pvalue < 0.01  # it looks like memory beside them
    assert outcome.decision.verdict == V.CAUSE_UNKNOWN
    assert outcome.decision.doubt == "not_clearly_more"
    # reference models that answered both sets show it
    references = cell(n=800, seed=5).references
    informed = result(replace(c, control=replace(c.control, references=references)))
    seen = informed.tests.control
    assert (
        seen.reference_models == 5
        and 0.03 < seen.references.low < 0.08 < seen.references.high < 0.13
    )
    assert codes(informed.decision.reasons)["held_out_references"]["low"] == seen.references.low


def test_a_control_can_only_take_away_what_the_references_say():
    rng = np.random.default_rng(0)
    for seed in range(12):
        c = cell(n=300, seed=seed, wording=0.3 * (seed % 2), control=200 + 20 * seed)
        alone, beside = (run_tests(x, LIMITS, rng=rng) for x in (replace(c, control=None), c))
        assert beside.beyond_p >= alone.reference_p == beside.reference_p
        assert (beside.found_p, beside.drop_se) == (alone.found_p, alone.drop_se)


def spoilt(kind):
    """A model with memory whose held-out items cannot be asked."""
    c = cell(**BIG, wording=0.5, control=25 if kind == "few" else 60 if kind == "vague" else 500)
    fresh = c.control
    o, v = (x.copy() for x in fresh.tested.pair)
    if kind == "groups":
        return replace(c, control=replace(fresh, cluster=np.arange(fresh.n) % 20))
    if kind == "guessing":
        rng = np.random.default_rng(0)
        o, v = o, (rng.random(v.shape) < 0.25) * 1.0
    if kind == "unread":
        v[0, :60] = np.nan
    if kind == "nothing":
        v[:] = np.nan
    return replace(c, control=with_answers(fresh, o, v))


@pytest.mark.parametrize(
    ("kind", "why", "numbers"),
    [
        ("few", "few", {"n": 25, "units": 25, "least": 30}),
        ("groups", "few", {"n": 500, "units": 20, "least": 30}),
        ("guessing", "at_chance", {}),
        ("unread", "check_failed", {"gates": ["parseability"]}),
        ("nothing", "no_answers", {}),
        ("vague", "vague", {}),
    ],
)
def test_a_control_that_cannot_be_asked_decides_nothing_and_says_why(kind, why, numbers):
    c = spoilt(kind)
    outcome, alone = result(c), result(replace(c, control=None))
    control = outcome.tests.control
    assert not control.used and control.pvalue == 1.0 and control.why.code == f"held_out_{why}"
    assert numbers.items() <= control.why.numbers.items()
    assert kind != "vague" or control.why.numbers["se"] > 2 * control.why.numbers["references"] > 0
    assert outcome.decision.verdict == alone.decision.verdict == V.DROP_BEYOND_REFERENCE
    assert (
        outcome.tests.beyond_p == alone.tests.beyond_p and control.why in outcome.decision.reasons
    )
    assert "held_out_not_asked" in outcome.open


def test_a_benchmark_of_one_group_is_no_crash():
    c = cell(n=200, wording=0.9, control=100)
    outcome = result(replace(c, cluster=np.zeros(200, dtype=int)))
    assert outcome.tests.control.why.code == "held_out_one_group"
    assert fresh_control(replace(c, control=None), LIMITS) is None


def test_the_same_models_are_drawn_with_and_without_a_control():
    design = PerturbDesign(80, 2, 1)
    worlds = {"memorised": CONTROL_WORLDS["memorised"]}
    arguments = Namespace(simulations=6, seed=42, control=False)
    designs = (design, replace(design, control=60))
    alone, beside = (
        entry["rates"] for ((entry,), _) in calibrate(*procedures(arguments, designs, worlds))
    )
    assert "memorised_control" not in alone and "memorised_control" in beside
    assert beside["memorised_unknown"] + beside["memorised_beyond"] == pytest.approx(
        alone["memorised_unknown"] + alone["memorised_beyond"], abs=1e-5
    )
    assert (
        beside["memorised_uncontrolled"] == alone["memorised_beyond"] >= beside["memorised_beyond"]
    )


def test_a_few_held_out_items_of_which_none_drops_show_no_memory():
    """3 % of all items drop under every rewording, and none of the 40 that were asked: that is no
    drop of exactly 0."""
    c = cell(**BIG, control=40)
    dropped = np.arange(1500) % 33 == 0
    o, answered = np.ones((1, 1500)), (np.arange(40) < 30)[None] * 1.0
    reworded = np.tile(answered, (3, 1))
    reworded[0, 39] = 1.0  # some answer differs: else a check fails
    fresh = with_answers(c.control, answered, reworded)
    control = fresh_control(
        replace(with_answers(c, o, np.tile(1.0 - dropped, (3, 1))), control=fresh), LIMITS
    )
    assert control.used and control.drop < 0 and control.pvalue > 0.05
