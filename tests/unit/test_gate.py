"""Exit codes of the gate: documented, and worst first."""

import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from commands_here import gate
from documents import (
    LIMITS,
    cell_of,
    gate_of,
    joint_of,
    typed,
    typed_cell,
    verdict_named,
    verdict_of_cells,
)
from governed import Capsys
from junitparser import JUnitXml
from outcome_tables import analyse_outcomes
from synthetic import synthetic_outcomes

from audit.config.audits import AUDITS, part_of
from audit.governance.formats import FORMATS
from audit.judging.decision import rule
from audit.judging.instrument import finding, synthesis
from audit.judging.result import json_text
from audit.judging.vocabulary import word_of


def of_cells(*cells: dict[str, object], rows: Sequence[object] = ()) -> str:
    return json.dumps(verdict_of_cells(cells, rows=list(rows)))


def main(arguments: list[str]) -> int:
    """What the words of a verdict come to: no run lies beside these."""
    return gate([*arguments, "--trust-report"])


def written(tmp_path: Path, text: str) -> str:
    (tmp_path / "report").mkdir(parents=True)
    (tmp_path / "report" / "verdict.json").write_text(text, encoding="utf-8")
    return str(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"audit": "sweep", "cells": []}',
        '{"audit": "sweep", "cells": [{"verdict": "guilty"}]}',
        '{"audit": "sweep", "cells": [3]}',
        '{"cells": [{"verdict": "excess"}], "rows": []}',
    ],
)
def test_a_file_that_is_no_verdict_means_the_run_failed(
    text: str, tmp_path: Path, capsys: Capsys
) -> None:
    assert main([written(tmp_path, text)]) == 1
    assert "verdict.json" in capsys.readouterr().err


def test_what_is_wrong_holds_nothing_that_a_terminal_obeys(tmp_path: Path, capsys: Capsys) -> None:
    """A run directory is named by whoever made it."""
    (tmp_path / "run\x1b]0;owned\x07\x1b[2J").mkdir()
    assert main([str(tmp_path / "run\x1b]0;owned\x07\x1b[2J")]) == 1
    printed = capsys.readouterr()
    assert "is no run" in printed.err and "\x1b" not in printed.err + printed.out


def test_a_real_verdict_is_printed_with_its_reasons(tmp_path: Path, capsys: Capsys) -> None:
    run = analyse_outcomes(
        synthetic_outcomes(
            60, (1, 2), rng=np.random.default_rng(1), model="[bold]m[/bold]", with_direct=False
        ),
        n_resamples=199,
    )
    assert (
        main([written(tmp_path, json_text(run.to_dict()))])
        == rule(typed(run.to_dict())).exit_code
        == 5
    )
    printed = capsys.readouterr().out
    assert "UNDERPOWERED" in printed and "direct" in printed
    assert "[bold]m[/bold]" in printed  # a model's name is text, not markup


def test_an_incomplete_run_has_failed_whatever_its_verdict(tmp_path: Path, capsys: Capsys) -> None:
    short = {"model": "m", "benchmark": "b", "found": 512, "expected": 1000}
    whole = {"model": "other", "benchmark": "b", "found": 1000, "expected": 1000}
    for name in ("no_excess_detected", "excess", "withheld"):
        assert rule(typed(verdict_named(name, rows=[short, whole]))).exit_code == 1
    assert (
        rule(typed(verdict_named("excess", rows=[whole, {**whole, "expected": None}]))).exit_code
        == 3
    )
    assert (
        main([written(tmp_path, json.dumps(verdict_named("no_excess_detected", rows=[short])))])
        == 1
    )
    first, *_ = capsys.readouterr().out.splitlines()
    assert first == "INCOMPLETE, 512 OF 1,000 ANSWERS: m on b"  # before any verdict


@pytest.mark.parametrize(
    ("names", "decision", "code"),
    [
        (("no_excess_detected",), "pass", 0),
        (("no_excess_detected", "excess_explained_by_ensembling"), "pass", 0),
        (("gain_uncontrolled",), "review", 4),
        (("underpowered",), "no decision", 5),
        (("no_excess_detected", "withheld"), "no decision", 5),
        (("brittle",), "pass", 0),  # a verdict of an earlier version
        # an approval of what was found must not carry the other cell
        (("gain_uncontrolled", "underpowered"), "no decision", 5),
        (("withheld", "excess", "no_excess_detected"), "block", 3),
        ((), "no decision", 1),
    ],
)
def test_a_panel_is_as_its_worst_cell(
    names: tuple[str, ...], decision: str, code: int, tmp_path: Path
) -> None:
    """What each verdict alone comes to: the next test."""
    ruling = rule(typed(verdict_named(*names)))
    assert (ruling.decision, ruling.exit_code) == (decision, code)
    assert main([written(tmp_path, json.dumps(verdict_named(*names)))]) == code


# What each grade is for the gate, its exit code, what the joint page says, and the tone of both
# pages.
OUTCOMES = {
    "found_strong": ("block", 3, "Seen: ", "bad"),
    "found_suggestive": ("review", 4, "Suggested, ", "warn"),
    "cause_unknown": ("review", 4, "Seen, cause unknown: ", "warn"),
    "check_failed": ("no decision", 5, "Could not tell: ", "mute"),
    "not_identified": ("no decision", 5, "Could not tell: ", "mute"),
    "undecided": ("no decision", 5, "Could not tell: ", "mute"),
    "cleared": ("pass", 0, "Not seen, ", "good"),
}


@pytest.mark.parametrize("audit", AUDITS)
def test_gate_joint_page_and_colours_read_one_table(audit: str) -> None:
    """Of every verdict of every audit, in every archetype."""
    vocabulary = part_of(audit, "vocabulary")
    instrument, table = vocabulary.INSTRUMENT, vocabulary.VERDICTS
    evidence = {
        "drop": {"original": None, "drop": LIMITS, "cs": LIMITS},
        "gap": None,
        "primary": None,
        "csr": {},
    }
    for name, archetype in itertools.product(table, ("diagnostic", "invariance", "mixed", None)):
        plain = cell_of(
            str(name), audit, evidence={**evidence, "score": LIMITS, "archetype": archetype}
        )
        cell = typed_cell(plain, audit)
        word = word_of(table, cell)
        ruling = rule(typed(verdict_of_cells([plain], audit)))
        row = finding(instrument, cell, word)
        decision, code, says, tone = OUTCOMES[word.grade]
        assert (ruling.decision, ruling.exit_code, word.tone, row.tone) == (
            decision,
            code,
            tone,
            tone,
        )
        assert synthesis([row])[0].startswith(says) and row.grade == word.grade


@pytest.mark.parametrize(
    ("status", "archetype", "decision"),
    [
        (
            "confirmatory_selective",
            "invariance",
            "block",
        ),  # reacts to the attribute where nothing should move
        (
            "confirmatory_non_selective",
            "diagnostic",
            "block",
        ),  # the surface moves answers more than the key does
        ("confirmatory_selective", "diagnostic", "pass"),
        ("confirmatory_non_selective", "invariance", "pass"),
        ("confirmatory_selective", None, "no decision"),
        ("indeterminate", "invariance", "no decision"),
    ],
)
def test_a_confirmed_status_blocks_where_the_joint_page_calls_it_a_finding(
    status: str, archetype: str | None, decision: str
) -> None:
    evidence = {"archetype": archetype, "primary": None, "score": LIMITS, "csr": {}}
    cell = cell_of(status, "validity", evidence=evidence)
    assert rule(typed(verdict_of_cells([cell], "validity"))).decision == decision


NAMES = ("evil]](x)::error::y", "b\n::warning::z", "<script>|%0A")


def hostile_ruling(tmp_path: Path, capsys: Capsys, kind: str) -> str:
    text = " ".join(
        (*NAMES, "\x1b[2J", "\u202e", "@all", "https://a.b", "www.c.d", "]]>", "\u2028::error::q")
    )
    cells = [
        cell_of(
            "gain_uncontrolled",
            model=text,
            benchmark=text,
            headline=text,
            reasons=[text],
            what_to_do=[text],
        )
    ]
    gates = [gate_of("parseability", "fail", detail=text)]
    cells.append(cell_of("withheld", gates=gates, controls_missing=[text]))
    assert main([written(tmp_path / kind, of_cells(*cells)), "--format", kind]) == 5
    return capsys.readouterr().out


def test_no_format_lets_a_hostile_text_begin_a_line_or_a_command(
    tmp_path: Path, capsys: Capsys
) -> None:
    for kind in FORMATS:
        out = hostile_ruling(tmp_path, capsys, kind)
        assert not {"\x1b", "\u202e", "\u2028", "\r"} & set(out), kind
        if kind == "github":  # its titles are escaped as the runner reads them
            assert "evil]](x)%3A%3Aerror%3A%3Ay b %3A%3Awarning%3A%3Az <script>|%250A" in out
        for line in out.splitlines():
            if kind == "github":
                match = re.fullmatch(r"::(error|warning|notice) title=([^:,]*)::(.*)", line)
                assert match, line
            else:
                assert not line.lstrip().startswith(("::", "##[")), kind


def test_junit_is_read_back_by_its_library_and_counts_what_is_not_a_pass(
    tmp_path: Path, capsys: Capsys
) -> None:
    xml = JUnitXml.fromstring(hostile_ruling(tmp_path, capsys, "junit").encode())
    assert (xml.tests, xml.failures, xml.errors) == (
        2,
        1,
        1,
    )  # a review fails, no decision is an error
    plain = of_cells(cell_of("no_excess_detected"), cell_of("excess"))
    assert main([written(tmp_path / "plain", plain), "--format", "junit"]) == 3
    xml = JUnitXml.fromstring(capsys.readouterr().out.encode())
    assert (xml.tests, xml.failures, xml.errors) == (2, 1, 0)


def test_markdown_shows_hostile_text_and_obeys_none_of_it(tmp_path: Path, capsys: Capsys) -> None:
    out = hostile_ruling(tmp_path, capsys, "markdown")
    body = out.replace("| |", "")
    assert (
        "<" not in body
        and "http:" not in body
        and "www." not in body
        and "@" not in body
        and "](" not in body
    )
    rows = [line for line in out.splitlines() if line.startswith("| ") and "---" not in line]
    assert {line.count("|") for line in rows} == {8}  # no text made a cell of its own


@pytest.mark.parametrize("kind", FORMATS)
def test_a_failed_run_fails_in_every_format(kind: str, tmp_path: Path, capsys: Capsys) -> None:
    short = {"model": "m", "benchmark": "b", "found": 512, "expected": 1000}
    for name, text in (
        ("JSON", "{"),
        ("512", of_cells(cell_of("no_excess_detected"), rows=[short])),
    ):
        assert main([written(tmp_path / name, text), "--format", kind]) == 1
        out, err = capsys.readouterr()
        assert "no decision" in out and name in (out if name == "512" else err)
        if kind == "json":
            plain = json.loads(out)
            assert (plain["decision"], plain["exit_code"]) == ("no decision", 1)
        if kind == "junit":
            assert JUnitXml.fromstring(out.encode()).errors >= 1
        if kind == "github":
            assert out.startswith("::error ")


def test_github_writes_the_summary_where_the_job_has_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert main([written(tmp_path, of_cells(cell_of("excess"))), "--format", "github"]) == 3
    text = summary.read_text()
    assert text.startswith("before\n## ") and "block" in text
    assert capsys.readouterr().out.startswith("::error title=block%3A m on b::h\n")


def test_a_merged_panel_is_gated_in_its_own_folder(tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "verdict.json").write_text(
        json.dumps(verdict_named("no_excess_detected", "excess"))
    )
    assert main([str(tmp_path)]) == 3
    assert "block" in capsys.readouterr().out


def test_a_page_of_several_audits_is_as_bad_as_its_worst_and_fails_with_one_that_measured_nothing() -> (
    None
):
    good, bad = (
        verdict_named("no_excess_detected"),
        verdict_named("drop_cause_unknown", audit="perturb"),
    )
    ruling = rule(typed(joint_of({"sweep": good, "perturb": bad}, [{"together": ["both"]}])))
    assert (ruling.decision, ruling.exit_code, ruling.together) == ("review", 4, ("m on b: both",))
    assert [cell.audit for cell in ruling.cells] == ["sweep", "perturb"]
    empty = rule(typed(joint_of({"sweep": good, "perturb": verdict_named(audit="perturb")})))
    assert (empty.decision, empty.exit_code) == ("no decision", 1)
    assert rule(typed(joint_of({}))).exit_code == 1


def test_a_folder_of_runs_is_named_with_a_run_of_it(tmp_path: Path, capsys: Capsys) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
    assert main([str(tmp_path)]) == 1
    message = capsys.readouterr().err
    assert "2 runs" in message and f"audit gate {tmp_path / 'a'}" in message
    (tmp_path / "empty").mkdir()
    assert main([str(tmp_path / "empty")]) == 1
    message = capsys.readouterr().err
    assert "folder of" not in message and "is no run: it has no manifest.json" in message
    (tmp_path / "empty" / "leaderboard.json").write_text("{}")
    assert main([str(tmp_path / "empty")]) == 1
    assert "--judge MODEL" in capsys.readouterr().err
