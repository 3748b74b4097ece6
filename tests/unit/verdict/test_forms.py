"""Which forms of contamination a pass speaks of: by the audits that cleared, and by what was simulated of a design."""

from typing import Any

import pytest

from audit.verdict.forms import Judged, Share, all_cleared, any_found, nearest, scope, unmet, words
from audit.verdict.vocabulary import Outcome

LIMITS = {"alpha": 0.05, "effect_of_interest": 0.05}
SEES = {"sweep": {"noise"}, "perturb": {"wording"}, "memory": {"answers", "text"}}


def table() -> dict[str, Any]:
    """Of 100 models each. Perturb finds 15 % of wordings in 85, half of them in all; memory finds half of the answers
    in 90 and 15 % of them in 10; texts are found in 79."""
    counts = {
        "clean": {"CCC": 95, "CFC": 2, "CCF": 2, "COC": 1},
        "answers_15": {"CCC": 60, "CCO": 30, "CCF": 10},
        "answers_50": {"CCF": 90, "CCO": 10},
        "wording_15": {"CFC": 85, "CCC": 10, "COC": 5},
        "wording_50": {"CFC": 100},
        "text_15": {"CCF": 79, "CCC": 21},
        "text_50": {"CCF": 79, "CCC": 21},
    }
    design = {"n": 1000, "fresh": 500, "references": 5}
    return {"thresholds": dict.fromkeys(SEES, LIMITS), "designs": [{"design": design, "counts": counts}]}


def judged(
    audit: str,
    outcome: Outcome = Outcome.NOTHING_SEEN,
    n: int = 1000,
    references: int = 5,
    fresh: int = 500,
    **own: float,
) -> Judged:
    cell: dict[str, Any] = {"n_questions": n}
    if audit != "sweep":
        cell["references"] = ["r"] * references
    if audit == "memory":
        cell["n_fresh"] = fresh
    return Judged(audit, cell, outcome, frozenset(SEES[audit]), {**LIMITS, **own})


def test_a_form_is_passed_at_the_smallest_dose_that_is_found_often_enough() -> None:
    found = scope([judged("sweep"), judged("perturb"), judged("memory")], table())
    assert found is not None
    assert [(one["form"], one["dose"], one["audit"]) for one in found["passed"]] == [
        ("answers", 0.5, "memory"), ("wording", 0.15, "perturb"),
    ]  # fmt: skip
    assert found["not_examined"] == ["text"] and found["found"] == []  # 79 of 100 is less than .8
    wording = found["passed"][1]
    assert wording["found"]["share"] == 0.85 and wording["passes"]["share"] == 0.10
    assert words([found]) == "answers (50 %), wording (15 %); not examined: text"


def test_what_no_audit_looks_at_is_not_examined() -> None:
    found = scope([judged("sweep"), judged("perturb")], table())
    assert found is not None and found["not_examined"] == ["answers", "text"]
    # The attack's case: half of the exam learnt with its answers passes the sweep and the perturbation audit.
    assert found["error"]["passes"]["answers_50"]["share"] == 1.0
    alone = scope([judged("sweep")], table())
    assert alone is not None and alone["passed"] == []
    assert words([alone]).endswith(": answers, wording, text")
    assert scope([], table()) is None


def test_a_form_that_was_found_or_left_open_is_not_passed() -> None:
    found = scope([judged("perturb", Outcome.FOUND), judged("memory", Outcome.NO_DECISION)], table())
    assert found is not None and found["passed"] == []
    assert found["found"] == ["wording"] and found["not_examined"] == ["answers", "text"]


@pytest.mark.parametrize(
    "own",
    [
        {"n": 900},  # a tenth less than the design
        {"references": 4},
        {"n": 3100},  # log 3.1 = 1.13
        {"alpha": 0.01},
        {"effect_of_interest": 0.10},
    ],
)
def test_no_design_that_is_larger_far_or_of_other_thresholds_is_quoted(own: dict[str, Any]) -> None:
    assert nearest(table(), [judged("perturb", **own)]) is None
    found = scope([judged("perturb", **own)], table())
    assert found is not None and found["error"] is None and found["not_examined"] == ["answers", "wording", "text"]


@pytest.mark.parametrize("own", [{"n": 950}, {"references": 8}, {"n": 2900}, {"effect_of_interest": 0.03}])
def test_a_design_no_larger_than_the_run_is_quoted(own: dict[str, Any]) -> None:
    assert nearest(table(), [judged("perturb", **own)]) is not None


def test_the_rates_are_of_the_audits_that_the_suite_has() -> None:
    clean = table()["designs"][0]["counts"]["clean"]
    assert any_found(clean, ["sweep", "perturb", "memory"]) == Share(4, 100)
    assert any_found(clean, ["perturb"]) == Share(2, 100)
    assert all_cleared(clean, ["sweep", "memory"]) == Share(98, 100)
    # Clopper & Pearson: 4 of 100 is 1.1 to 9.9 %; of 0 of 100 the upper limit is 1 - .025^(1/100).
    assert Share(4, 100).limits == pytest.approx((0.0110, 0.0993), abs=1e-4)
    assert Share(0, 100).limits == pytest.approx((0, 1 - 0.025 ** (1 / 100)))


def test_a_suite_may_require_forms() -> None:
    full, part = scope([judged("perturb"), judged("memory")], table()), scope([judged("perturb")], table())
    assert full is not None and part is not None
    assert unmet([full], {}) == "" and unmet([full], {"wording": 0.15, "answers": 0.5}) == ""
    assert "15 %" in unmet([full], {"answers": 0.15})
    assert "50 %" in unmet([full], {"text": 0.5})
    assert "50 %" in unmet([full, part], {"answers": 0.5})  # in every model and benchmark
