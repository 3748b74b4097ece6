"""The source's thresholds beside our verdict: what each says, what gates, and their false
positives."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands_here import gate
from documents import cell_of, typed, verdict_of_cells
from junitparser import JUnitXml
from suites import suite

from audit.core.errors import ConfigError
from audit.governance.formats import FORMATS
from audit.judging.decision import rule, verdict_of
from audit.report.joint import content, page
from audit.shards.manifest import Manifest
from audit.shards.panel import PANEL, panel_runs, write_panel
from audit.statistics.contamination_score import ARTICLE, article_result, false_alarms
from audit.suite.judge import ruled, rules_of, sentences, source_thresholds
from audit.suite.schema import Suite


def answers(flagged: int, n: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Every original right; `flagged` items with every variant wrong: CS 1 and p 0 there, 0 and 1
    elsewhere."""
    variants = np.ones((3, n))
    variants[:, :flagged] = 0
    return np.ones(n), variants


def source_ruling(thresholds: dict[str, float], flagged: int) -> dict[str, Any]:
    rules = rules_of(thresholds)
    results = [article_result(*answers(flagged), rule) for rule in rules]
    alarms = [
        false_alarms(100, 3, 0.7, 0.2, n_models=20, rng=np.random.default_rng(1), rule=rule)
        for rule in rules
    ]
    return ruled(thresholds, results, alarms)


def test_the_suites_numbers_are_the_articles_by_default() -> None:
    assert rules_of(source_thresholds(suite())) == (ARTICLE, ARTICLE)


@pytest.mark.parametrize(
    ("flagged", "decision"), [(0, "pass"), (5, "pass"), (6, "block"), (30, "block")]
)
def test_five_of_a_hundred_are_allowed_and_six_block(flagged: int, decision: str) -> None:
    result = source_ruling(source_thresholds(suite()), flagged)
    assert (result["decision"], result["flagged"], result["n"]) == (decision, flagged, 100)
    assert result["flagged_pct"] == pytest.approx(flagged) and result["cs"] == pytest.approx(
        flagged / 100
    )


def test_each_number_works_by_itself_and_has_its_false_alarms() -> None:
    scoring = {"max_allowed_contaminated_items_pct": 50.0}
    governance = {"block_deployment_above_contaminated_pct": 40.0, "review_required_above_cs": 0.25}
    strict = suite(scoring_config=scoring, governance=governance)
    for flagged, decision in ((25, "pass"), (26, "review"), (41, "block")):  # CS .25, .26, .41
        assert source_ruling(source_thresholds(strict), flagged)["decision"] == decision
    numbers = {
        number["name"]: number for number in source_ruling(source_thresholds(strict), 41)["numbers"]
    }
    assert [name for name, number in numbers.items() if number["exceeded"]] == [
        "contamination_threshold",
        "review_required_above_cs",
        "block_deployment_above_contaminated_pct",
    ]
    default = {
        number["name"]: number for number in source_ruling(source_thresholds(suite()), 0)["numbers"]
    }
    # More is allowed here, so a clean model is blocked less often; both numbers are simulated for
    # the design.
    alarms = "false_alarms"
    for name in ("max_allowed_contaminated_items_pct", "block_deployment_above_contaminated_pct"):
        assert numbers[name][alarms] == 0 and 0 <= default[name][alarms] <= 1
    assert all(value[alarms] is not None for value in default.values())


def test_a_threshold_of_cs_that_few_items_exceed_flags_fewer() -> None:
    original, variants = np.ones(10), np.ones((4, 10))
    variants[:3, 0] = 0  # CS .75, t = -3: p .029
    variants[:, 1] = 0  # CS 1
    assert article_result(original, variants).flagged == 2
    assert article_result(original, variants, replace(ARTICLE, cs_threshold=0.8)).flagged == 1
    assert article_result(original, variants, replace(ARTICLE, alpha=0.01)).flagged == 1


def test_the_benchmarks_domain_sets_thresholds() -> None:
    domains = {
        "general": {"review_required_above_cs": 0.1},
        "code": {"contamination_threshold": 0.5},
    }
    factual = source_thresholds(suite(domains=domains))
    assert (factual["review_required_above_cs"], factual["contamination_threshold"]) == (0.1, 0.1)
    code = suite(domains=domains, dataset_config={"benchmark_name": "elementary", "domain": "code"})
    assert source_thresholds(code)["contamination_threshold"] == 0.5
    assert "domain general" in sentences(suite(domains=domains), [], {})[0]
    unknown = suite(
        domains=domains, dataset_config={"benchmark_name": "gsm8k"}
    )  # reasoning, of which it says nothing
    assert source_thresholds(unknown)["review_required_above_cs"] == 0.25
    assert "general" not in sentences(unknown, [], {})[0]


def joint(definition: Suite, verdict: str, flagged: int) -> dict[str, Any]:
    """Return the verdict.json of a suite with one perturbation cell."""
    models = [{"model": "m", "benchmark": "b", "revision": "1", "outcomes": 9}]
    rows = [{"model": "m", "benchmark": "b", "found": 9, "expected": 9}]
    document = verdict_of_cells(
        [cell_of(verdict, "perturb")], "perturb", rows=rows, runs=[{"models": models}]
    )
    verdicts = {"perturb": verdict_of(document)}
    source = [
        {
            "audit": "perturb",
            "model": "m",
            "benchmark": "b",
            **source_ruling(source_thresholds(definition), flagged),
        }
    ]
    decisions = {("m", "b"): str(rule(verdicts["perturb"]).decision)}
    section = {
        "audit_suite_id": definition.audit_suite_id,
        "gate": definition.gate,
        "domain": None,
        "source": source,
        "suite_sha256": "0",
        "forms_required": {},
        "model": {"name": "m", "stated": "<1>", "found": None, "claimed": True},
        "sentences": sentences(definition, source, decisions),
    }
    return content(verdicts, section).plain


@pytest.mark.parametrize(
    ("gates", "verdict", "flagged", "decision", "code"),
    [
        ("ours", "no_drop_detected", 30, "pass", 0),
        ("source", "no_drop_detected", 30, "block", 3),
        ("ours", "drop_beyond_reference", 0, "block", 3),
        ("source", "drop_beyond_reference", 0, "pass", 0),
        ("ours", "withheld", 0, "no decision", 5),
        ("source", "withheld", 0, "no decision", 5),
        ("source", "withheld", 30, "block", 3),
        ("source", "drop_cause_unknown", 6, "block", 3),
    ],
)
def test_the_suite_says_which_rule_gates_and_both_are_printed(
    gates: str, verdict: str, flagged: int, decision: str, code: int, tmp_path: Path
) -> None:
    plain = joint(suite(gate=gates), verdict, flagged)
    ruling = rule(typed(plain), "run")
    assert (ruling.decision, ruling.exit_code) == (decision, code)
    assert "our verdict" in ruling.rules[0] and "the source's rule" in ruling.rules[0]
    assert any(
        "max_allowed_contaminated_items_pct 5" in rule and "false positives: " in rule
        for rule in ruling.rules
    )
    for name, show in FORMATS.items():
        text = show(ruling).replace("&#95;", "_").replace("\\_", "_")
        assert "max" in text and "allowed" in text, name
    assert JUnitXml.fromstring(FORMATS["junit"](ruling).encode()) is not None
    shown = page(typed(plain))
    assert "&lt;1&gt;" in shown and "claimed" in shown and "false positives" in shown


def test_missing_answers_are_no_pass_whatever_gates() -> None:
    plain = joint(suite(gate="source"), "no_drop_detected", 0)
    plain["audits"]["perturb"]["rows"][0]["expected"] = 10
    ruling = rule(typed(plain))
    assert (ruling.decision, ruling.exit_code) == ("no decision", 1)


def test_a_panel_whose_runs_are_gone_does_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    panel, run = tmp_path / "panel", tmp_path / "runs" / "perturb"
    (panel / "report").mkdir(parents=True)
    plain = joint(suite(), "no_drop_detected", 0)
    (panel / "report" / "verdict.json").write_text(json.dumps(plain))
    assert gate([str(panel), "--trust-report"]) == 1  # nothing says of which runs it is
    (panel / "suite.json").write_text("{}")
    write_panel(panel, [run])
    assert panel_runs(panel) == [panel / "../runs/perturb"]
    assert gate([str(panel)]) == 1
    run.mkdir(parents=True)
    Manifest("f", {}, audit="perturb", status="running").save(run)
    assert gate([str(panel)]) == 1  # it has no answers
    (panel / PANEL).write_text('{"runs": []}')
    assert gate([str(panel)]) == 1


def with_forms(plain: dict[str, Any], **doses: float) -> dict[str, Any]:
    """The same, where these forms were passed at these doses."""
    forms = ("answers", "wording", "text")
    rate = {"share": 1.0, "low": 0.9, "high": 1.0, "models": 100}
    rates = {"audit": "perturb", "found": rate, "passes": rate}
    passed = [{"form": form, "dose": dose, **rates} for form, dose in doses.items()]
    scope = {
        "passed": passed,
        "found": [],
        "not_examined": [f for f in forms if f not in doses],
        "error": None,
    }
    return {**plain, "joint": [{**plain["joint"][0], "forms": scope}]}


def test_a_pass_says_of_which_forms_and_exits_0_all_the_same() -> None:
    ruling = rule(typed(with_forms(joint(suite(), "no_drop_detected", 0), wording=0.15)), "run")
    assert (ruling.decision, ruling.exit_code) == ("pass", 0)
    for name, show in FORMATS.items():
        text = show(ruling).replace("%25", "%").replace("&#58;", ":")
        assert "wording (15 %); not examined: answers, text" in text, name
    shown = page(
        typed(joint(suite(), "no_drop_detected", 0))
    )  # without references nothing near was simulated
    assert "Not cleared: answers, wording, text" in shown


@pytest.mark.parametrize(
    ("required", "code"),
    [
        ({}, 0),
        ({"wording": 0.15}, 0),
        ({"wording": 0.5}, 0),
        ({"wording": 0.1}, 5),
        ({"wording": 0.15, "text": 0.5}, 5),
    ],
)
def test_a_suite_that_requires_forms_has_no_decision_without_them(
    required: dict[str, float], code: int
) -> None:
    definition = suite(governance={"forms_required": required})
    plain = with_forms(joint(definition, "no_drop_detected", 0), wording=0.15)
    plain["suite"]["forms_required"] = definition.governance.forms_required
    ruling = rule(typed(plain), "run")
    assert ruling.exit_code == code and (ruling.decision == "pass") == (code == 0)
    assert any("forms_required" in rule for rule in ruling.rules) == (code == 5)
    # A finding stays one, whatever is required.
    document = with_forms(joint(definition, "drop_beyond_reference", 0))
    assert rule(typed({**document, "suite": plain["suite"]}), "run").exit_code == 3


@pytest.mark.parametrize("wrong", [{"ability": 0.15}, {"text": "all"}, {"text": 15.0}, ["text"]])
def test_forms_that_there_are_not_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="forms_required"):
        suite(governance={"forms_required": wrong})
