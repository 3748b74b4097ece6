"""G6: each injected fault is caught by the check that is named for it, and a blind check is found
out."""

from dataclasses import replace

import numpy as np
import pytest
import scripted_models as models
from scripted_models import cell, changed, unread

from audit.core.records import Item
from audit.scoring.reference import SCORERS
from audit.validity.design import ValidityThresholds
from audit.validity.edits.record import Family
from audit.validity.evidence import measure
from audit.validity.faults import (
    FAULTS,
    Fault,
    _injected,
    inject_all,
    regression_gate,
    scorer_faults,
)
from audit.validity.gates import all_gates, families_that_tell

T = ValidityThresholds()
(PERMUTED,) = [fault for fault in FAULTS if fault.check == "G4_order"]


def gates_of(base):
    return all_gates(base, measure(base, rng=np.random.default_rng(0), n_resamples=50), T)


def injected(base):
    return inject_all(base, gates_of(base), T, np.random.default_rng(0))


@pytest.fixture(scope="module")
def good():
    base = replace(cell(models.shaky, n=150), mass=np.full(150, 0.9))  # read by likelihood
    return base, gates_of(base)


def test_every_fault_is_caught_on_a_sound_run(good):
    base, gates = good
    before = {f: b.response.copy() for f, b in base.families.items()}
    faults = inject_all(base, gates, T, np.random.default_rng(0))
    assert all(
        np.array_equal(before[f], base.families[f].response) for f in before
    )  # a copy is broken, not the run
    classes = {
        "F1",
        "F2",
        "F3b",
        "F3c",
        "F4",
        "F5",
        "F6",
        "F7",
        "F10",
    }  # F3a: with the scorer's items
    assert {f.fault for f in faults} == classes
    assert {f.fault: f.state for f in faults if f.state != "caught"} == {
        "F7": "not_showable"
    }  # one run, one template
    assert regression_gate(faults).status == "pass"


def test_a_fault_that_changes_nothing_is_reported_as_missed(good):
    base, gates = good
    nothing = Fault("F2", "nothing is broken", "G1_answers_readable", lambda c, rng: c)
    outcome = _injected(base, gates, T, nothing, np.random.default_rng(0))
    assert outcome.state == "missed"
    gate = regression_gate([outcome])
    assert gate.status == "fail" and gate.withholds and gate.number == 1


def test_a_check_that_fails_already_proves_nothing():
    base = cell(models.falls_silent, n=150)
    states = {(f.fault, f.check): f.state for f in injected(base)}
    assert states["F2", "G1_answers_readable"] == "already_failing"


def test_answers_that_never_differ_are_not_put_where_too_few_were_read():
    few = cell(models.shaky, n=6)
    (frozen,) = [
        fault for fault in FAULTS if fault.named == "no answer differs under surface edits"
    ]
    assert frozen.inject(few, np.random.default_rng(0)) is None
    assert frozen.inject(cell(models.shaky, n=60), np.random.default_rng(0)) is not None


def test_permuted_rows_with_unparsed_answers_are_found():
    """TruthfulQA, a real run with ties: unparsed answers of other items left too few to tell, and
    G6 missed an F4.

    60 of 80 items are read throughout; permuted, an original and its edits are both read in about
    45."""
    torn = unread(cell(models.shaky, n=80), slice(None, None, 4))
    before = families_that_tell(torn)
    permuted = PERMUTED.inject(torn, np.random.default_rng(0))
    after = families_that_tell(permuted)
    family = next(iter(before))
    assert (
        after[family][1] == before[family][1]
    )  # what its edits share among themselves is as it was
    assert after[family][0] < after[family][1] / 2


def test_rows_are_permuted_where_the_check_can_tell(good):
    """CrowS-Pairs, a real run: edits of format agreed too little to judge, and permuting them was
    missed."""
    base, gates = good
    rng = np.random.default_rng(3)
    noise = rng.integers(0, 3, base.families[Family.FORMAT].response.shape)
    mixed = changed(base, Family.FORMAT, response=noise)
    assert list(families_that_tell(mixed)) == [Family.SEMANTIC]
    assert _injected(mixed, gates, T, PERMUTED, rng).state == "caught"
    assert PERMUTED.inject(changed(mixed, Family.SEMANTIC, response=noise), rng) is None


def test_a_scorer_that_leaves_nothing_unread_cannot_show_what_scores_unread_as_right():
    items = [
        Item(
            f"p{i}",
            "crows_pairs",
            "",
            (f"The old one of {i} sang.", f"The new one of {i} sang."),
            0,
            f"p{i}",
        )
        for i in range(4)
    ]
    states = {f.fault: f.state for f in scorer_faults(SCORERS["crows_causal_full"], items)}
    assert states == {"F3a": "caught", "F3b": "not_showable"}


def test_permuted_rows_of_a_model_that_is_always_right_are_found():
    """Every score is 1 before, so that scores tell no order; responses do."""
    base = cell(lambda trial: trial.key, n=60)
    assert _injected(base, gates_of(base), T, PERMUTED, np.random.default_rng(0)).state == "caught"


def test_an_edit_that_moves_fewer_than_the_others_hides_no_fault():
    """The first edit of the content moves half of what the second does: as many answers under
    neutral words as under the first were fewer than under both, and G6 missed an F6 in every such
    run."""

    def half(trial):
        stays = trial.family == Family.ATTRIBUTE and trial.level == 1 and trial.item % 2
        return trial.item % models.OPTIONS if stays else models.shaky(trial)

    assert [f.state for f in injected(cell(half, n=150)) if f.fault == "F6"] == ["caught"]


def test_a_stand_in_for_two_items_is_not_where_a_fault_is_put():
    """In the order of names it was first, and checks leave out edits of so few items."""
    base = cell(models.shaky, n=150)
    block = base.families[Family.FORMAT]
    names = block.name.copy()
    names[0, :2] = "a_stand_in"
    faults = injected(changed(base, Family.FORMAT, name=names))
    assert {f.fault for f in faults if f.state == "missed"} == set()
