"""Answers that were asked and not read, of the tested model, its references and the fresh items: no finding rests on
which ones are missing, and where none is missing nothing changes."""

import json
from dataclasses import replace
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from perturb_cells import cell, with_answers

from audit.perturb.analyse import analyse
from audit.perturb.calibrate import held
from audit.perturb.decide import decide, finding, standing
from audit.perturb.design import Arm
from audit.perturb.evidence import Adverse, run_tests
from audit.perturb.gates import parseability
from audit.perturb.record import Wordings
from audit.perturb.result import PerturbVerdict as V
from audit.perturb.rows import Requests, wordings
from audit.perturb.thresholds import PerturbThresholds
from audit.perturb.unread import LeftOut, against_drop, unread_for_drop
from audit.perturb.verdict import cell_dict
from audit.perturb.worlds import WORLDS, PerturbDesign, simulate
from audit.records import Setting
from audit.statistics.paired import CellOutcomes, State
from audit.verdict.gates import failed
from audit.verdict.result import Status

NAN, LIMITS = float("nan"), PerturbThresholds()


def measured(c, seed=0):
    return run_tests(c, LIMITS, rng=np.random.default_rng(seed), n_draws=100)


def result(c):
    return analyse([c], LIMITS, seed=1, n_resamples=200, n_draws=100)[0]


def lose(w: Wordings, answer: int, share: float, seed: int = 0) -> Wordings:
    """The same, and that share of each variant's answers, all of this kind, not read."""
    rng, variants = np.random.default_rng(seed), w.variants.copy()
    for row in variants:
        row[rng.choice(np.flatnonzero(row == answer), round(share * row.size), replace=False)] = NAN
    return replace(w, variants=variants)


def references_unread(c, share=0.04):
    """The references' wrong answers are the ones that are missing: their drop looks smaller than it is."""
    return replace(c, references=tuple(lose(w, 0, share, k) for k, w in enumerate(c.references)))


def harder(**more):
    return cell(n=3000, checked=600, references=8, harder=0.05, replicates=1, **more)


@pytest.mark.parametrize(
    ("made", "golden"),
    [
        ({}, (5.5135554496678575e-09, 2.5982549979883497e-07, 0.004013480848433527, 0.003967909358524116, 0.0, 0.0)),
        (
            {"references": 10, "harder": 0.05},
            (1.2425792429985372e-13, 5.479480551056807e-13, 0.0019577547258540556, 0.0020368266228256685,
             0.009900990099009901, 0.0),
        ),
        (
            {"control": 400},
            (5.5135554496678575e-09, 2.5982549979883497e-07, 0.004013480848433527, 0.003967909358524116, 0.0,
             0.006620593252979889),
        ),
    ],
)  # fmt: skip
def test_where_all_was_read_nothing_is_held(made, golden):
    """p-values of these cells as they were before unread answers were held against every test (commit c19f905)."""
    c = cell(n=600, memorised=0.3, **made)
    t = measured(c)
    p = (t.exchange.pvalue, t.broken_p, *(b.pvalue for b in t.beyond))
    p += (t.curve.pvalue if t.curve else 0.0, t.control.pvalue if t.control else 0.0)
    assert p == pytest.approx(golden, rel=1e-9)
    assert (t.found_p, t.beyond_p) == pytest.approx((golden[1], max(golden[1:])), rel=1e-9)
    assert t.adverse is None and t.left_out == () and against_drop(c) is None and unread_for_drop(c) is None
    assert standing(t, 0.05) == finding(t, 0.05) == result(c).decision.verdict == V.DROP_BEYOND_REFERENCE


def test_references_whose_wrong_answers_are_unread_make_no_finding():
    """Variants cost every model 5 points, and 4 % of each reference's answers, all of them wrong, are missing."""
    c = harder(seed=2)
    assert result(c).decision.verdict == V.BRITTLE_CAUSE_UNKNOWN  # what is true
    found = result(references_unread(c))
    t = found.evidence.tests
    assert not failed(found.gates) and t.left_out == ()
    assert finding(t, 0.05) == V.DROP_BEYOND_REFERENCE and t.beyond_p < 0.05 < t.adverse.beyond_p
    assert standing(t, 0.05) == V.BRITTLE_CAUSE_UNKNOWN and held(t, 0.05) is None
    assert found.decision.verdict == V.WITHHELD and "hangs on unread answers" in found.headline
    assert "beyond the references" in found.headline and "still there" in found.decision.reasons[1]


def test_right_answers_of_the_tested_model_that_are_unread_make_no_finding():
    """The same variants, and 4 % of the tested model's answers to them, all of them right, are missing."""
    c = harder(seed=13)
    assert result(c).decision.verdict == V.BRITTLE_CAUSE_UNKNOWN
    found = result(replace(c, tested=lose(c.tested, 1, 0.04)))
    t = found.evidence.tests
    assert not failed(found.gates)
    assert finding(t, 0.05) == V.DROP_BEYOND_REFERENCE and t.adverse.found_p < 0.05 < t.adverse.beyond_p
    assert found.decision.verdict == V.WITHHELD and "hangs on unread answers" in found.headline


def test_a_drop_above_broken_variants_must_be_so_with_unread_answers_held_against_it():
    """The exchange test holds in the adverse reading and the bound of broken variants does not: no finding."""
    c = cell(n=3000, checked=150, references=0, replicates=1, memorised=0.1, seed=4)
    c = replace(c, tested=lose(c.tested, 1, 0.03))
    worst = against_drop(c)
    t, bare = measured(c), measured(replace(worst, broken=None))
    assert t.found_p < 0.05 and bare.found_p < 0.05 < t.adverse.found_p
    assert standing(t, 0.05) is None and result(c).decision.verdict == V.WITHHELD


def test_memory_that_outweighs_the_unread_answers_stays_a_finding():
    c = references_unread(cell(n=1500, checked=600, references=5, memorised=0.5), 0.01)
    c = replace(c, tested=lose(c.tested, 1, 0.01))
    found = result(c)
    t = found.evidence.tests
    assert found.decision.verdict == V.DROP_BEYOND_REFERENCE
    assert t.adverse.beyond_p <= 0.05 and t.adverse.beyond_p > t.beyond_p


def test_false_alarms_of_the_two_worlds_are_few_and_were_many():
    """40 models each, 3,000 items, eight references: at most 6 of 40 where 5 % are promised (p < .02)."""
    rng, design, alarms = np.random.default_rng(3), PerturbDesign(3000, 3, 8), {}
    for world in ("harder_unread", "harder_references_unread"):
        tests = [measured(simulate(design, WORLDS[world], rng)) for _ in range(40)]
        beyond = V.DROP_BEYOND_REFERENCE
        alarms[world] = (sum(finding(t, 0.05) == beyond for t in tests), sum(held(t, 0.05) == beyond for t in tests))
    assert all(stated <= 5 for _, stated in alarms.values())
    assert alarms["harder_references_unread"][0] > 10


def test_the_worlds_lose_the_answers_that_they_say():
    design = PerturbDesign(3000, 3, 2)
    for world, k, answer in (("harder_unread", 0, 1), ("harder_references_unread", 1, 0)):
        plain = simulate(design, WORLDS["harder"], np.random.default_rng(5))
        spoilt = simulate(design, WORLDS[world], np.random.default_rng(5))
        for j, (a, b) in enumerate(
            zip((plain.tested, *plain.references), (spoilt.tested, *spoilt.references), strict=True)
        ):
            gone = np.isnan(b.variants)
            assert gone.mean() == pytest.approx(0.04 if min(j, 1) == k else 0.0, abs=0.006)
            assert np.all(a.variants[gone] == answer) and np.array_equal(a.variants[~gone], b.variants[~gone])


def test_a_reference_of_which_too_little_can_be_read_is_left_out_and_named():
    c = cell(n=600, references=2, memorised=0.3)
    bad = c.references[0].variants.copy()
    bad[1, :60] = NAN
    c = replace(c, references=(replace(c.references[0], model="r", variants=bad), c.references[1]))
    found = result(c)
    t = found.evidence.tests
    assert t.left_out == (LeftOut("r", "90.0% of its answers to variant 2 can be read"),)
    assert t.references == ("model 2",) and t.beyond[0].references == 1
    named = "Reference models left out: r (90.0% of its answers to variant 2 can be read)."
    assert named in found.decision.reasons
    gate = parseability(c, LIMITS)
    assert gate.status == Status.PASS and "references r (90.0% to variant 2)" in gate.detail
    assert gate.numbers["reference r"] == 0.9 and gate.numbers["reference model 2"] == 1.0
    alone = result(replace(c, references=c.references[:1]))
    assert alone.decision.verdict == V.BRITTLE_CAUSE_UNKNOWN
    assert "No reference model can be compared with" in " ".join(alone.decision.reasons)
    schema = json.loads((files("audit.perturb") / "verdict.schema.json").read_text(encoding="utf-8"))
    part = {"$defs": schema["$defs"], "$ref": "#/$defs/tests"}
    plain = cell_dict(c, found)["evidence"]["tests"]
    jsonschema.validate(plain, part)
    assert plain["left_out"][0]["model"] == "r" and plain["adverse"] is None


def test_a_reference_that_is_above_chance_by_what_is_missing_alone_is_left_out():
    """.268 right as read, and .256 with the 4.5 % that are unread wrong: chance is .25, and two errors are .009."""
    rng, n = np.random.default_rng(0), 3000
    variants = np.stack([rng.permutation(np.arange(n) < 0.256 * n) * 1.0 for _ in range(3)])
    weak = lose(Wordings("w", (rng.random((1, n)) < 0.4) * 1.0, variants), 0, 0.045)
    c = replace(cell(n=n, checked=600, references=1, memorised=0.3), references=(weak,))
    assert c.can_lose(weak)
    assert measured(c).left_out == (LeftOut("w", "not above chance with its unread answers counted as wrong"),)


def test_a_reference_that_met_fewer_questions_has_not_left_the_others_unread():
    ids = ("a", "b", "c")
    settings = tuple(Setting(arm, level, 0) for arm, level in ((Arm.ORIGINAL, 0), (Arm.VARIANT, 1), (Arm.VARIANT, 2)))
    state = np.array([[1, 0], [1, State.TRUNCATED], [State.ABSENT, 1]], dtype=np.int8)
    theirs = CellOutcomes("r", "b", "nested", "letter", ("a", "c"), np.arange(2), np.full(2, 4), settings, state)
    found = wordings(theirs, Requests(not_asked={("a", 2)}), ids)
    original, variants = found.unread
    assert not original.any() and variants.tolist() == [[False, False, True], [False, False, False]]
    assert found.was_asked.tolist() == [[True, False, True], [False, False, True]]


def test_every_run_of_an_original_is_held():
    """One of two runs is missing: it is wrong where it is held against a drop, whatever the other one is."""
    w = Wordings("m", np.array([[NAN, 1.0], [1.0, 1.0]]), np.array([[0.0, NAN]]))
    held_w = w.held(original=0.0, variants=1.0)
    assert held_w.original.tolist() == [[0.0, 1.0], [1.0, 1.0]] and held_w.variants.tolist() == [[0.0, 1.0]]
    asked = np.array([[False, True]])  # an original that no variant is compared with is held for nothing
    assert np.isnan(replace(w, asked=asked).held(original=0.0, variants=1.0).original[0, 0])


def test_fresh_items_whose_wrong_answers_are_unread_make_no_finding():
    """A model touchy about wording among references that are not; fresh items would say so, but for what is missing."""
    c = cell(n=2000, checked=600, harder=0.10, control=2000, seed=5)
    c = replace(c, references=cell(n=2000, checked=600).references)
    t = measured(c)
    assert t.reference_p < 0.05 < t.control.pvalue
    fresh = lose(c.control.tested, 0, 0.045)
    t = measured(replace(c, control=with_answers(c.control, fresh.original, fresh.variants)))
    assert t.control.asked and finding(t, 0.05) == V.DROP_BEYOND_REFERENCE
    assert t.adverse.beyond_p > 0.05 and standing(t, 0.05) == V.BRITTLE_CAUSE_UNKNOWN


def test_the_panel_corrects_both_findings_in_the_adverse_reading():
    found = result(cell(n=600, memorised=0.5)).evidence
    tests = replace(found.tests, adverse=Adverse(1e-6, 2 * found.tests.beyond_p))
    found = replace(found, tests=tests)
    p = tests.found_p, tests.beyond_p
    assert decide(found, (), LIMITS, *p).verdict == V.DROP_BEYOND_REFERENCE
    factor = 0.04 / p[1]  # as read .04 after correction, .08 in the adverse reading
    assert decide(found, (), LIMITS, p[0], 0.04).verdict == V.WITHHELD and factor > 1
    assert decide(found, (), LIMITS, p[0], 0.2).verdict == V.BRITTLE_CAUSE_UNKNOWN  # no more than that is found as read
