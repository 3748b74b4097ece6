"""The sentence beside a verdict: what the audit was measured to notice."""

import json

import pytest

from audit.core.errors import DataError
from audit.report.sensitivity import FILE, chance_of, chances, load_sensitivity, quote
from audit.statistics.notice import Field

FIELD = Field(1000, 500, 5)
BASE = (0.6, 0.6)


def plant(form, passes, accuracy=BASE, **rows):
    """rows: by indicator (learnt, others)."""
    findings = [
        {"indicator": name, "audit": AUDITS[name], "learnt": learnt, "others": others}
        for name, (learnt, others) in rows.items()
    ]
    return {"form": form, "passes": passes, "accuracy": list(accuracy), "found": findings}


AUDITS = {
    "gap": "memory",
    "completion_item": "memory",
    "wording_drop": "",
    "wording_drop_beyond_reference": "perturb",
    "router_gain": "sweep",
}
FOUND = {
    "schema": "sensitivity",
    "model": "m",
    "benchmark": "b",
    "learnt_items": 104,
    "other_items": 104,
    "alpha": 0.05,
    "audits": ["memory", "perturb", "sweep"],
    "plants": [
        plant("none", 0, wording_drop=(0.03, 0.03), router_gain=(0.12, 0.0)),
        plant("qa", 1, (0.65, 0.6), gap=(0.05, 0.0), wording_drop_beyond_reference=(0.03, 0.03)),
        plant("qa", 5, (0.99, 0.6), gap=(0.39, 0.0), router_gain=(0.12, 0.0)),
        plant("raw", 5, gap=(0.0, 0.0), wording_drop_beyond_reference=(0.23, 0.03)),
    ],
}


def test_every_dose_is_quoted_with_its_chance_in_the_runs_own_design():
    """No dose is chosen for what was seen at it."""
    quoted = quote(FOUND, "memory", "m", "b", FIELD)
    small, large = (chance_of(FOUND, FOUND["plants"][k], "gap", FIELD).estimate for k in (1, 2))
    assert (
        f"taught as question and answer (qa) {small:.2f}, {large:.2f} after 1 and 5 passes"
        in quoted
    )
    assert "as running text (raw) 0.0" in quoted
    assert small < 0.1 and large > 0.85
    assert "1,000 items, 500 held-out" in quoted
    for model, benchmark in (
        ("x", "b"),
        ("m", "x"),
    ):  # of another model it says whose property that is
        assert quote(FOUND, "memory", model, benchmark, FIELD) != quoted


def test_the_chance_is_of_the_design_and_not_of_the_experiments_p():
    qa = FOUND["plants"][1]
    many, few = (
        chance_of(FOUND, qa, "gap", Field(*sizes)).estimate
        for sizes in ((20_000, 20_000, 8), (200, 100, 3))
    )
    assert many > 2 * few
    assert (
        chance_of(FOUND, FOUND["plants"][2], "gap", Field(1000, 0, 5)).high == 0
    )  # no held-out items were asked


def test_a_drop_and_a_gain_count_beyond_the_base_models_own():
    """Damaged messages gave the base model 12 points, too: that is nothing that was learnt."""
    gain = chance_of(FOUND, FOUND["plants"][2], "router_gain", Field(1000))
    assert gain.estimate == pytest.approx(0.05, abs=0.005)
    harmless, drop = (
        chance_of(FOUND, FOUND["plants"][k], "wording_drop_beyond_reference", FIELD) for k in (1, 3)
    )
    assert harmless.estimate < 0.06 and drop.estimate > 0.85


def test_what_was_not_measured_on_the_base_model_has_no_chance():
    """A file from elsewhere may hold a null there: it was a TypeError."""
    gain = {"router_gain": (0.12, 0.0)}
    document = {
        **FOUND,
        "plants": [plant("none", 0, router_gain=(None, None)), plant("qa", 5, **gain)],
    }
    assert chance_of(document, document["plants"][1], "router_gain", FIELD) is None


def test_what_was_not_measured_is_said_in_words():
    assert quote(FOUND, "validity", "m", "b", FIELD).startswith("Sensitivity not ")


def test_only_the_indicators_that_a_run_judged_count(tmp_path):
    shipped = load_sensitivity(tmp_path)
    whole = chances(shipped, "memory", FIELD)
    texts = chances(shipped, "memory", FIELD, {"completion_item"})
    # Answers that were learnt show in the score alone, and texts in their likelihood alone.
    assert whole["qa"][5].estimate > 0.85 > 0.1 > texts["qa"][5].estimate
    assert texts["raw"][5].estimate > 0.9
    assert list(whole["qa"]) == [1, 2, 4, 5, 8]
    assert quote(shipped, "memory", "m", "b", FIELD, set()).startswith("Sensitivity: none")


def test_a_measurement_in_the_runs_own_directory_comes_first(tmp_path):
    (tmp_path / FILE).write_text(json.dumps(FOUND))
    assert load_sensitivity(tmp_path) == FOUND
    assert load_sensitivity(tmp_path / "elsewhere") != FOUND


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "other"}'])
def test_a_file_that_is_none_is_refused(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(DataError, match=r"audit\.plant"):
        load_sensitivity(tmp_path)
