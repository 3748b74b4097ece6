"""verdict.json as a typed model: one shape for every reader, and an error that names the field of
any other file."""

import copy
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from documents import cell_of, gate_of, joint_of, suite_rules, verdict_named, verdict_of_cells
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.config.audits import AUDITS, part_of
from audit.core.errors import ConfigError
from audit.judging.decision import document_of
from audit.judging.together import schema

SHIPPED = files("audit.judging") / "verdict.schema.json"
ROW = {"model": "m", "benchmark": "b", "found": 9, "expected": 9}
ANSWERED = {"model": "m", "benchmark": "b", "revision": "1", "outcomes": 9}


def whole(audit: str) -> dict[str, Any]:
    """Return a verdict.json of an audit with an entry in each list."""
    code = str(next(iter(part_of(audit, "vocabulary").VERDICTS)))
    reason = {"code": "x", "numbers": {"n": 1}}
    cell = cell_of(code, audit, gates=[gate_of("a")], reason_codes=[reason], advice_codes=[reason])
    runs = [{"models": [ANSWERED]}]
    return verdict_of_cells(
        [cell], audit, rows=[ROW], runs=runs, thresholds={"alpha": 0.05, "block_at": "strong"}
    )


def together() -> dict[str, Any]:
    ruled = {"audit": "perturb", "model": "m", "benchmark": "b", "decision": "pass"}
    parts = {name: whole(name) for name in AUDITS}
    return joint_of(parts, [{"together": ["both"]}], suite=suite_rules(source=[ruled]))


def test_the_schema_that_ships_is_the_model() -> None:
    """If it is not: python tests/golden/verdict_schema.py > audit/judging/verdict.schema.json"""
    shipped = json.loads(SHIPPED.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(shipped)
    assert shipped == schema()
    for plain in (*map(whole, AUDITS), together()):
        jsonschema.validate(plain, shipped)
        assert document_of(plain).plain == plain
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**whole("sweep"), "cells": [{"verdict": "excess"}]}, shipped)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value below a value."""
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, child in children:
        yield (*at, key)
        yield from places(child, (*at, key))


def edited(plain: Any, path: tuple[Any, ...], change: Any) -> Any:
    """Return a copy with the value at a path replaced; without it if the change is None."""
    made = copy.deepcopy(plain)
    parent = made
    for key in path[:-1]:
        parent = parent[key]
    if change is None:
        del parent[path[-1]]
    else:
        parent[path[-1]] = change[0]
    return made


OTHER = st.sampled_from(
    [3, -1, 0.5, "text", "", True, [], {}, [[]], [3], {"a": 1}, None, float("nan"), "9" * 400]
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([*AUDITS, "together"]), st.data())
def test_any_edit_is_read_as_the_same_kind_or_refused_in_one_sentence(
    name: str, data: st.DataObject
) -> None:
    plain = together() if name == "together" else whole(name)
    path = data.draw(st.sampled_from(sorted(places(plain), key=str)))
    change = data.draw(st.one_of(st.none(), st.tuples(OTHER)))
    try:
        document_of(edited(plain, path, change), "run/report/verdict.json")
    except ConfigError as error:
        text = str(error)
        assert "\n" not in text and "pydantic" not in text and "validation error" not in text
        assert text.startswith(("run/report/verdict.json", "Unknown audit")), text


@pytest.mark.parametrize(
    ("path", "change", "named"),
    [
        (("cells", 0, "grade"), ["good"], "cells[0].grade is \"good\". Expected 'found_strong'"),
        (("cells", 0, "headline"), None, "cells[0].headline is missing"),
        (("cells", 0, "gates", 0, "status"), [1], "cells[0].gates[0].status is 1"),
        (("rows", 0, "found"), ["9"], 'rows[0].found is "9". Expected a valid integer'),
        (("cells", 0, "effect"), [{"gain": "much"}], "cells[0].effect.gain"),
        (("runs", 0, "models", 0, "outcomes"), [True], "runs[0].models[0].outcomes is true"),
        (("cells",), [3], "cells is 3"),
        (("audit",), ["nonsense"], "nonsense"),
    ],
)
def test_the_message_names_the_field(path: tuple[Any, ...], change: Any, named: str) -> None:
    with pytest.raises(ConfigError) as error:
        document_of(edited(whole("sweep"), path, change))
    assert named in str(error.value)


def test_a_field_of_one_audit_below_several_is_named_from_the_top() -> None:
    with pytest.raises(ConfigError, match=r"audits\.memory\.cells\[0\]\.grade"):
        document_of(edited(together(), ("audits", "memory", "cells", 0, "grade"), [3]))
    with pytest.raises(
        ConfigError, match=r"audits\.memory\.audit"
    ):  # one audit under the name of another
        document_of(edited(together(), ("audits", "memory", "audit"), ["sweep"]))


@pytest.mark.parametrize(
    ("verdict", "audit", "grade", "code"),
    [
        ("excess", "sweep", "found_strong", "excess"),
        ("brittle", "sweep", "cleared", "no_excess_detected"),  # a name of an earlier version
        ("brittle_cause_unknown", "perturb", "cause_unknown", "drop_cause_unknown"),
        ("underpowered", "memory", "undecided", "underpowered"),
    ],
)
def test_a_cell_of_an_earlier_version_has_the_grade_of_its_verdict(
    verdict: str, audit: str, grade: str, code: str
) -> None:
    plain = verdict_named(code, audit=audit)
    del plain["cells"][0]["grade"]
    plain["cells"][0]["verdict"] = verdict
    (cell,) = document_of(plain).cells
    assert (cell.grade, cell.verdict) == (grade, code)


def test_codes_and_rates_of_an_earlier_version_have_the_names_of_this_one() -> None:
    plain = verdict_named("drop_cause_unknown", audit="perturb")
    now, cell = document_of(plain).cells, plain["cells"][0]
    cell["verdict"] = "brittle_cause_unknown"  # it has a grade
    cell["calibration"] = {
        "design": {},
        "rates": {"clean_brittle": 0.03, "clean_beyond": 0.01},
        "sentence": "",
    }
    (read,) = document_of(plain).cells
    assert (read.verdict, read.grade) == (now[0].verdict, now[0].grade)
    assert read.rates == {"clean_unknown": 0.03, "clean_beyond": 0.01}
