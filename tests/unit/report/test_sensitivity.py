"""The sentence beside a verdict: what the audit was measured to notice."""

from __future__ import annotations

import json

import pytest

from audit.errors import DataError
from audit.report.sensitivity import FILE, load_sensitivity, quote


def plant(form, passes, **audits):
    of = {name: {"notice": {"estimate": e, "low": e - 0.1, "high": e + 0.05}} for name, e in audits.items()}
    return {"form": form, "passes": passes, "audits": of}


FOUND = {
    "schema": "sensitivity", "model": "m", "benchmark": "b", "learnt_items": 104,
    "plants": [plant("none", 0, perturb=0.2), plant("qa", 1, perturb=0.3), plant("raw", 4, memory=0.9)],
}  # fmt: skip


def test_the_sentence_quotes_every_plant_on_which_the_audit_was_tried():
    assert quote(FOUND, "perturb", "m", "b") == (
        "Measured sensitivity: of m, taught 104 items of b, this audit would have noticed with probability (95 % "
        "interval) qa, 1 pass: 0.30 (0.20 to 0.35). A property of this model and benchmark, and of planted memory "
        "(docs/sensitivity.md)."
    )
    assert "raw, 4 passes: 0.90" in str(quote(FOUND, "memory", "m", "b"))


def test_of_another_model_it_says_whose_property_that_is():
    for model, benchmark in (("x", "b"), ("m", "x")):
        assert "not of this run's" in str(quote(FOUND, "perturb", model, benchmark))


def test_what_was_not_measured_is_said_in_words():
    for said in (quote(FOUND, "sweep", "m", "b"), quote(None, "perturb", "m", "b")):
        assert said.startswith("Sensitivity not measured: ")


def test_of_several_doses_those_are_quoted_between_which_it_begins_to_notice():
    chances = {1: 0.2, 2: 0.5, 4: 0.9, 8: 0.95}
    tried = {**FOUND, "plants": [plant("qa", k, sweep=p) for k, p in reversed(chances.items())]}
    said = quote(tried, "sweep", "m", "b")
    assert "qa, 2 passes: 0.50 (0.40 to 0.55); qa, 4 passes: 0.90 (0.80 to 0.95) (of several doses" in said
    assert "1 pass" not in said and "8 passes" not in said
    never = quote({**FOUND, "plants": [plant("qa", k, sweep=0.1) for k in (1, 8)]}, "sweep", "m", "b")
    assert "qa, 8 passes: 0.10" in never and "1 pass" not in never
    always = quote({**FOUND, "plants": [plant("qa", k, sweep=0.8) for k in (1, 8)]}, "sweep", "m", "b")
    assert "qa, 1 pass: 0.80" in always and "8 passes" not in always
    # a larger dose that was noticed less is told too
    uneven = {**FOUND, "plants": [plant("qa", k, sweep=p) for k, p in {1: 0.9, 4: 0.7}.items()]}
    assert "qa, 1 pass: 0.90 (0.80 to 0.95); qa, 4 passes: 0.70" in quote(uneven, "sweep", "m", "b")


def test_only_the_indicators_that_a_run_judged_count():
    """A run without fresh items cannot have noticed what the gap to them shows."""
    shipped = load_sensitivity()
    whole = quote(shipped, "memory", "m", "b")
    without = quote(shipped, "memory", "m", "b", {"options"})
    assert "qa, 1 pass: 0.82" in whole and "this audit" in whole
    assert "qa, 8 passes: 0.0" in without and "what was judged here" in without
    every = {one["indicator"] for plant in shipped["plants"] for one in plant["found"] if one["audit"] == "memory"}
    assert quote(shipped, "memory", "m", "b", every) == whole.replace(
        "this audit would", "what was judged here, with the unspoilt model as the one reference, would"
    )
    assert quote(shipped, "memory", "m", "b", set()).startswith("Sensitivity: none")


def test_a_measurement_in_the_runs_own_directory_comes_first(tmp_path):
    (tmp_path / FILE).write_text(json.dumps(FOUND))
    assert load_sensitivity(tmp_path) == FOUND
    assert load_sensitivity(tmp_path / "elsewhere") != FOUND


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "other"}'])
def test_a_file_that_is_none_is_refused(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(DataError, match=r"audit\.plant"):
        load_sensitivity(tmp_path)
