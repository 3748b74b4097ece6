"""G6: each injected fault is caught by the check that is named for it, and a blind check is found out."""

from __future__ import annotations

import numpy as np
import pytest
import scripted_models as models
from scripted_models import cell

from audit.validity.evidence import measure
from audit.validity.faults import FAULTS, Fault, _one, inject_all, regression_gate
from audit.validity.gates import all_gates
from audit.validity.thresholds import ValidityThresholds

T = ValidityThresholds()


@pytest.fixture(scope="module")
def good():
    one = cell(models.shaky, n=150)
    evidence = measure(one, rng=np.random.default_rng(0), n_resamples=50)
    return one, all_gates(one, evidence, T)


def test_every_fault_is_caught_on_a_sound_run(good):
    one, gates = good
    found = inject_all(one, gates, T, np.random.default_rng(0))
    assert {f.fault for f in found} == {"F1", "F2", "F3b", "F3c", "F4", "F5"}  # F3a: with the scorer's items
    assert {f"{f.fault} {f.check}": f.state for f in found if f.state != "caught"} == {}
    assert regression_gate(found).status == "pass"


def test_the_injected_copy_leaves_the_run_as_it_was(good):
    one, gates = good
    before = {f: b.response.copy() for f, b in one.families.items()}
    inject_all(one, gates, T, np.random.default_rng(0))
    assert all(np.array_equal(before[f], one.families[f].response) for f in before)


def test_a_fault_that_changes_nothing_is_reported_as_missed(good):
    one, gates = good
    nothing = Fault("F2", "nothing is broken", "G1_answers_readable", lambda c, rng: c)
    found = _one(one, gates, T, nothing, np.random.default_rng(0))
    assert found.state == "missed"
    gate = regression_gate([found])
    assert gate.status == "fail" and gate.withholds and "missed" in gate.detail


def test_a_check_that_fails_already_proves_nothing():
    one = cell(models.falls_silent, n=150)
    gates = all_gates(one, measure(one, rng=np.random.default_rng(0), n_resamples=50), T)
    states = {(f.fault, f.check): f.state for f in inject_all(one, gates, T, np.random.default_rng(0))}
    assert states["F2", "G1_answers_readable"] == "already_failing"


def test_the_faults_cover_the_five_classes():
    assert {f.name[:2] for f in FAULTS} == {"F1", "F2", "F3", "F4", "F5"}
