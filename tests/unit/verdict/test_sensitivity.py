"""The sentence beside a verdict: what the audit was measured to notice."""

from __future__ import annotations

import json

import pytest

from audit.errors import DataError
from audit.verdict.sensitivity import FILE, load_sensitivity, quote


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


def test_what_was_not_measured_is_not_quoted():
    assert quote(FOUND, "sweep", "m", "b") is None
    assert quote(None, "perturb", "m", "b") is None


def test_a_measurement_in_the_runs_own_directory_comes_first(tmp_path):
    (tmp_path / FILE).write_text(json.dumps(FOUND))
    assert load_sensitivity(tmp_path) == FOUND
    assert load_sensitivity(tmp_path / "elsewhere") != FOUND


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "other"}'])
def test_a_file_that_is_none_is_refused(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(DataError, match=r"audit\.plant"):
        load_sensitivity(tmp_path)
