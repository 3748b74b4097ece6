"""One page over several audits of a model: side by side, escaped, and as bad as its worst for the gate."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from audit.audits import AUDITS
from audit.errors import ConfigError
from audit.gate import exit_code, main
from audit.report.joint import content, page
from audit.verdict.instrument import KINDS


def cell(verdict: str, **own: Any) -> dict[str, Any]:
    plain = {"model": "m", "benchmark": "b", "verdict": verdict, "headline": "<b>h</b>", "reasons": ["why"]}
    return {**plain, "what_to_do": [], "watermark": "", "cannot_exclude": ["x"], "calibration": None, **own}


def models(revision: str) -> dict[str, Any]:
    return {"models": [{"model": "m", "benchmark": "b", "revision": revision, "outcomes": 4}]}


def sweep(verdict: str, found: int = 4, **own: Any) -> dict[str, Any]:
    effect = {"gain": 0.02, "ci_low": -0.01, "ci_high": 0.05}
    rows = [{"model": "m", "benchmark": "b", "found": found, "expected": 4}]
    return {"cells": [cell(verdict, effect=effect, **own)], "rows": rows, "runs": [models("1")]}


def perturb(verdict: str, revision: str = "1", **own: Any) -> dict[str, Any]:
    drop = {"estimate": 0.12, "low": 0.05, "high": 0.2}
    calibration = {"rates": {"clean_beyond": 0.01, "clean_brittle": 0.03}, "design": {}, "sentence": ""}
    own = {"evidence": {"drop": {"drop": drop}}, "references": ["r"], "calibration": calibration, **own}
    rows = [{"model": "m", "benchmark": "b", "found": 9, "expected": None}]
    return {"audit": "perturb", "cells": [cell(verdict, **own)], "rows": rows, "runs": [models(revision)]}


def test_the_table_has_a_row_an_instrument_and_the_sentences() -> None:
    joint = content({"sweep": sweep("no_excess_detected"), "perturb": perturb("drop_beyond_reference")})
    (one,) = joint["joint"]
    first, second = one["instruments"]
    assert first["measured"]["estimate"] == 0.02 and first["measured"]["false_alarms"] is None
    assert second["measured"] == {
        "what": "drop under rewording", "estimate": 0.12, "low": 0.05, "high": 0.2, "false_alarms": 0.01,
    }  # fmt: skip
    assert first["sensitivity"] == "not measured" and "disagree" in one["together"][0]
    text = page(joint)
    assert "<b>h</b>" not in text and "&lt;b&gt;h&lt;/b&gt;" in text
    assert "Drop beyond reference" in text and "No excess detected" in text and "+12.0 points" in text
    assert 'href="sweep/report.html"' in text and "the router-worker sweep" in text


@pytest.mark.parametrize(
    ("one", "other", "code"),
    [
        ("no_excess_detected", "no_drop_detected", 0),
        ("no_excess_detected", "drop_beyond_reference", 3),
        ("withheld", "no_drop_detected", 4),
        ("excess", "underpowered", 3),
    ],
)
def test_the_exit_code_is_the_worst(one: str, other: str, code: int, tmp_path: Path) -> None:
    joint = content({"sweep": sweep(one), "perturb": perturb(other)})
    assert exit_code(joint) == code
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "verdict.json").write_text(json.dumps(joint))
    assert main([str(tmp_path)]) == code


def test_an_incomplete_run_makes_the_whole_incomplete() -> None:
    joint = content({"sweep": sweep("excess", found=3), "perturb": perturb("no_drop_detected")})
    assert exit_code(joint) == 1 and "Incomplete" in page(joint)


def test_runs_that_have_nothing_in_common_are_refused() -> None:
    with pytest.raises(ConfigError, match="share no model and benchmark"):
        content({"sweep": sweep("excess"), "perturb": perturb("withheld", model="other")})
    with pytest.raises(ConfigError, match="2 revisions"):
        content({"sweep": sweep("excess"), "perturb": perturb("withheld", revision="2")})


def test_the_file_of_several_audits_fits_the_schema_that_ships() -> None:
    schema = json.loads((files("audit.report") / "joint.schema.json").read_text(encoding="utf-8"))
    of_finding = schema["$defs"]["finding"]["properties"]
    assert schema["properties"]["audits"]["propertyNames"]["enum"] == of_finding["audit"]["enum"] == list(AUDITS)
    assert of_finding["sees"]["items"]["enum"] == list(KINDS)
    joint = content({"sweep": sweep("excess"), "perturb": perturb("withheld", calibration=None)})
    jsonschema.validate(joint, schema)
    for wrong in (
        {**joint, "more": 1},
        {**joint, "audits": {"sweep": joint["audits"]["sweep"]}},
        {**joint, "audits": {**joint["audits"], "other": joint["audits"]["sweep"]}},
        {**joint, "joint": [{**joint["joint"][0], "together": []}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
