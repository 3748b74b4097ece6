"""G6 runs the tests that the chronology names: in one subprocess, their ends kept, and a broken one fails the gate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.chronology import Chronology, parse_chronology, project_chronology
from audit.errors import ShardError
from audit.validity import named_tests
from audit.validity.faults import regression_gate
from audit.validity.named_tests import FILE, of_runs, read_named_tests, run_named_tests, run_tests
from audit.validity.result import Injected, NamedTests

NAMES = ("test_good", "test_bad", "test_elsewhere", "test_gone", "test_both")
SOURCE = """
import pytest
def test_good(): assert __import__("os").getcwd().endswith("checkout")
def test_bad(): assert False
def test_elsewhere(): pytest.skip("its data are not here")
@pytest.mark.parametrize("x", [0, 1])
def test_both(x): assert x
"""
CAUGHT = [Injected("F1", "made", "G1_edits_reach_scorer", "caught", "")]


def entry(number: int, name: str) -> str:
    return json.dumps({
        "id": f"R{number}", "failure_class": "F1", "found": "2026-11-22", "found_by": "made", "affected": ["m"],
        "symptom": "made", "provenance": "inherited", "fix": "made", "test": f"test_made.py::{name}",
        "deltas": [{"cell": "m", "statistic": "s", "before": 0, "after": 1}], "status": "FIXED", "reason": "made",
    })  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "checkout"
    (folder / "tests" / "deep").mkdir(parents=True)
    (folder / "tests" / "deep" / "test_made.py").write_text(SOURCE)
    return folder


def chronology(*names: str) -> Chronology:
    return parse_chronology("\n".join(entry(i, name) for i, name in enumerate(names)))


def test_each_ends_as_it_ends_and_one_that_is_gone_is_missing(root: Path) -> None:
    found = run_tests(chronology(*NAMES), root)
    assert {name.split("::")[1]: state for name, state in found.states.items()} == {
        "test_good": "passed", "test_bad": "failed", "test_elsewhere": "skipped", "test_gone": "missing",
        "test_both": "failed",
    }  # fmt: skip
    gate = regression_gate(CAUGHT, found)
    assert gate.status == "fail" and gate.withholds and gate.number == 3
    assert "broken: test_made.py::test_bad, test_made.py::test_both, test_made.py::test_gone" in gate.detail
    assert gate.numbers["named tests skipped"] == 1


def test_what_takes_too_long_is_ended_and_said(root: Path) -> None:
    found = run_tests(chronology("test_good"), root, limit_s=0.05)
    assert found == NamedTests({}, "they took longer than 0.05 s")
    gate = regression_gate(CAUGHT, found)
    assert gate.status == "pass" and "were not run: they took longer" in gate.detail


def test_an_installed_package_says_that_nothing_was_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_tests, "checkout", lambda: None)
    found = run_named_tests(tmp_path)
    assert read_named_tests(tmp_path) == found and "installed package" in regression_gate(CAUGHT, found).detail
    assert "named_tests=true" in regression_gate(CAUGHT).detail  # not asked for
    assert of_runs([tmp_path / "nowhere"]) is None


def test_what_passed_is_not_run_again_and_one_run_s_failure_is_the_panel_s(tmp_path: Path) -> None:
    names = project_chronology().tests
    for folder, states in (("a", dict.fromkeys(names, "passed")), ("b", {names[0]: "failed"})):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / FILE).write_text(json.dumps({"states": states, "why": ""}))
    assert run_named_tests(tmp_path / "a").ended("passed") == list(names)  # at once: nothing was started
    both = of_runs([tmp_path / "b", tmp_path / "a"])
    assert both is not None and both.ended("failed") == [names[0]] and len(both.ended("passed")) == len(names) - 1
    (tmp_path / "b" / FILE).write_text("{}")
    with pytest.raises(ShardError, match="cannot be read"):
        read_named_tests(tmp_path / "b")
