"""The self-audit chronology: what makes an entry auditable, its JSON Schema, and this project's own
file."""

import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from commands_here import chronology as main
from documents import ENTRY

from audit.core.errors import AuditError, DataError
from audit.governance.chronology import (
    NAME,
    Residual,
    append,
    chronology_of,
    missing_tests,
    parse_chronology,
    parse_entry,
    project_file,
    read_chronology,
    render,
)

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = jsonschema.Draft202012Validator(
    json.loads((ROOT / "audit" / "chronology.schema.json").read_text())
)


def line(**change: Any) -> str:
    return json.dumps(ENTRY | change) + "\n"


def test_an_entry_and_its_totals() -> None:
    text = line() + line(
        id="T2",
        provenance="inherited",
        status="DISCLOSED-UNFIXED",
        fix="",
        test="",
        reason="no data",
    )
    chronology = parse_chronology(text + "\n")
    assert chronology.sentence.startswith("2 entries")
    assert [e.id for e in chronology.unfixed] == ["T2"] and chronology.entries[
        0
    ].status is Residual.FIXED
    assert chronology.tests == (
        "test_reference_scorers.py::test_targets_outside_the_top_are_no_answer",
    )
    shown = render(chronology)
    assert (
        "Not fixed: T2 (no data)" in shown
        and "| m x toxigen | delta of the attribute edits | 0.2 | 0.7 |" in shown
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"symptom": " "},
            r"not auditable: field 4 \(symptom, what a reader saw and believed\) is missing",
        ),
        ({"deltas": []}, r"not auditable: field 7 \(deltas, how much it moved\) is missing"),
        ({"deltas": [{**ENTRY["deltas"][0], "after": None}]}, "deltas.0.after: None"),
        ({"deltas": [{**ENTRY["deltas"][0], "before": " "}]}, "deltas.0.before: "),
        ({"deltas": [{"cell": "m x toxigen", "before": 1}]}, "deltas.0: 'statistic'"),
        ({"failure_class": "F0"}, "failure_class: .*F3c"),
        ({"provenance": "unknown"}, "provenance: "),
        ({"status": "DONE"}, "status: .*FIXED"),
        ({"found": "yesterday"}, "found: "),
        ({"affected": []}, "affected: "),
        ({"test": "tests/unit/test_x.py"}, "test: .*test_file.py::test_name"),
        ({"reason": ""}, "reason: "),
        ({"cause": "?"}, "an entry: .*cause"),
        ({"id": "7 up"}, "id: .*B07"),
    ],
)
def test_what_the_schema_and_the_reader_both_refuse(change: dict[str, Any], message: str) -> None:
    with pytest.raises(AuditError, match=message):
        parse_entry(ENTRY | change)
    assert SCHEMA.is_valid(ENTRY) and not SCHEMA.is_valid(ENTRY | change)


@pytest.mark.parametrize("name", list(ENTRY))
def test_no_field_may_be_left_out(name: str) -> None:
    without = {key: value for key, value in ENTRY.items() if key != name}
    with pytest.raises(DataError, match=r"missing|required"):
        parse_entry(without)
    assert not SCHEMA.is_valid(without)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"affected": ["m x toxigen", "n x toxigen"]}, "do not agree on n x toxigen"),
        ({"fix": " "}, "the status is FIXED, but a fix or a test"),
        ({"test": ""}, "the status is FIXED, but a fix or a test"),
        ({"found": "2026-02-30"}, "found: .*is not a 'date'"),
    ],
)
def test_what_goes_beyond_the_schema(change: dict[str, Any], message: str) -> None:
    assert SCHEMA.is_valid(ENTRY | change)
    with pytest.raises(DataError, match=message):
        parse_entry(ENTRY | change)


def test_an_id_occurs_once_and_a_line_is_named() -> None:
    with pytest.raises(DataError, match="line 2: id T1 was already used in line 1"):
        parse_chronology(line() + line())
    with pytest.raises(DataError, match="line 2: "):
        parse_chronology(line() + "{")
    with pytest.raises(DataError, match="line 1: an entry: "):
        parse_chronology("[]")


def test_add_writes_whole_entries_only(tmp_path: Path) -> None:
    assert chronology_of(tmp_path) is None
    append(tmp_path, ENTRY)
    with pytest.raises(DataError, match="already in"):
        append(tmp_path, ENTRY)
    with pytest.raises(DataError, match="not auditable"):
        append(tmp_path, ENTRY | {"id": "T2", "symptom": ""})
    chronology = chronology_of(tmp_path)
    assert chronology is not None and [e.id for e in chronology.entries] == ["T1"]
    assert SCHEMA.is_valid(json.loads((tmp_path / NAME).read_text()))
    with pytest.raises(DataError, match="Cannot read"):
        read_chronology(tmp_path / "nothing.jsonl")


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "entry.json").write_text(json.dumps(ENTRY))
    assert main(["add", str(tmp_path / "entry.json"), str(tmp_path)]) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO(line(id="T2", deltas=[])))
    assert main(["add", "-", str(tmp_path)]) == 1
    assert "field 7" in capsys.readouterr().err
    assert main(["render", str(tmp_path)]) == 0 and "## T1 · F3c · FIXED" in capsys.readouterr().out
    assert main(["check", str(tmp_path)]) == 0
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_reference_scorers.py").write_text("def test_other():\n    pass\n")
    assert main(["check", str(tmp_path)]) == 1


def test_a_project_may_keep_its_chronology_in_docs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / NAME).write_text(line())
    (tmp_path / "tests").mkdir()
    assert main(["check", str(tmp_path)]) == 1  # T1's test is not below tests/, beside docs/
    assert f"{tmp_path / 'tests'}" in capsys.readouterr().err
    (tmp_path / NAME).write_text(line(id="T2") + line(id="T3"))
    assert [entry.id for entry in read_chronology(tmp_path).entries] == [
        "T2",
        "T3",
    ]  # nearer than docs/


def test_this_projects_own_chronology() -> None:
    chronology = read_chronology(project_file())
    assert all(
        SCHEMA.is_valid(json.loads(text)) for text in project_file().read_text().splitlines()
    )
    assert not missing_tests(chronology, ROOT / "tests")
    assert chronology.repair_introduced and chronology.unfixed
