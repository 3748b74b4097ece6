"""The paper's status algorithm, step by step, and what its printed tables give through it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands_here import reanalyze

from audit.papers.li2026 import Li2026, shipped
from audit.statistics.selectivity import csr
from audit.validity.status import (
    GATE_COLUMNS,
    PaperCell,
    PaperStatus,
    Status,
    gate_columns,
    paper_status,
)

# score .6 against .5, n = 200: SE = sqrt(.6 * .4 / 200) = .0346, two of them .069: G2 passes at .1
# above
SOUND = PaperCell("m", "b", 0.6, 200, 0.5, 0.05, 0.04, 0.5, 3.0, 9.0, g5=True, g6=True)


@pytest.mark.parametrize(
    ("change", "status", "step", "flags"),
    [
        ({}, Status.SELECTIVE, 6, ()),
        ({"ci_low": 0.2, "ci_high": 0.9}, Status.NON_SELECTIVE, 6, ()),
        ({"ci_low": 0.9}, Status.INDETERMINATE, 7, ()),  # the paper has no status for it
        ({"g6": False}, Status.EXPLORATORY, 5, ()),
        ({"g5": False, "ci_low": 0.9}, Status.EXPLORATORY, 5, ()),
        ({"archetype_aligned": False}, Status.INELIGIBLE_F5, 4, ()),
        (
            {"scorer_validated": False, "archetype_aligned": False},
            Status.SCORER_UNVALIDATED,
            3,
            ("F5",),
        ),
        ({"score": 0.56, "scorer_validated": False}, Status.FAILED, 2, ("scorer-unvalidated",)),
        ({"score": 1.0}, Status.SELECTIVE, 6, ()),  # a standard error of 0
        ({"delta_fmt": 0.019, "delta_sem": 0.0}, Status.FAILED, 2, ()),
        ({"paired": False, "archetype_aligned": False}, Status.FAILED, 2, ("F5",)),
        ({"instrumented": False, "score": 0.1}, Status.INELIGIBLE_F1, 1, ()),
        ({"noop": 0.2}, Status.INELIGIBLE_F1, 1, ()),
        ({"noop": 0.19}, Status.SELECTIVE, 6, ()),
    ],
)
def test_the_first_condition_that_fires_decides_and_those_behind_it_are_flags(
    change: dict[str, Any], status: Status, step: int, flags: tuple[str, ...]
) -> None:
    assert paper_status(replace(SOUND, **change)) == PaperStatus(status, step, flags)


def test_the_ratio_and_its_floor() -> None:
    assert [csr(0.5, 0.1, 0.2), csr(0.5, 0.0, 0.001), csr(0.5, 0.0, 0.001, 0.1), csr(0, 0, 0)] == [
        2.5,
        50,
        5,
        0,
    ]


@pytest.fixture(scope="module")
def paper() -> Li2026:
    return shipped()


def test_table_6_gives_table_3_and_every_csr(paper: Li2026) -> None:
    assert paper.counts == (3, 3, 2, 2, 0)
    assert all(result.bucket_follows for result in paper.cells) and len(paper.cells) == 10
    assert all(result.csr_follows for result in paper.cells)
    assert not replace(paper.cells[0], printed_csr=paper.cells[0].printed_csr + 0.01).csr_follows
    assert not replace(paper.cells[0], printed_bucket="confirmatory").bucket_follows
    by_name = {result.name: result for result in paper.cells}
    assert by_name["Mistral-7B x XSTest"].counts == (
        7,
        5,
        594,
    )  # 594/7 = 84.86; .990/.012 would be 82.5
    z = {name: round(result.cell.z, 2) for name, result in by_name.items()}
    assert (z.pop("Qwen-2.5-7B x BBQ"), z.pop("Mistral-7B x XSTest")) == (0.20, 1.85)
    assert min(z.values()) >= 2.6
    flags = {name: result.status.flags for name, result in by_name.items() if result.status.flags}
    assert flags == {"Qwen-2.5-7B x BBQ": ("F5",), "Mistral-7B x XSTest": ("scorer-unvalidated",)}


def test_the_sweeps_of_appendix_e(paper: Li2026) -> None:
    assert {paper.g3[value] for value in (0.01, 0.02, 0.05)} == {(3, 3, 2, 2, 0)}
    assert set(paper.g1.values()) == {(3, 3, 2, 2, 0)}
    # at .1 both ToxiGen cells and one of TruthfulQA's fail
    assert paper.g3[0.1] == (3, 1, 5, 1, 0)
    assert [len(paper.epsilon[value]) for value in (0.001, 0.01, 0.1)] == [0, 0, 7]


def test_what_does_not_follow(paper: Li2026) -> None:
    shows = {statement.name: statement.recomputed for statement in paper.statements}
    assert set(shows) == {
        "Appendix E, G3 = 0.1",
        "Appendix E, size of 0.1",
        "Appendix E, epsilon",
        "Table 7, column C",
        "Appendix J",
        "Appendix F, placebo",
        "Section 3, seeds",
        "Table 2, F3b",
    }
    assert (
        shows["Appendix E, G3 = 0.1"]
        == "1 of 2: Qwen-2.5-7B x TruthfulQA 0.077, Mistral-7B x TruthfulQA 0.120"
    )
    assert paper.with_table7 == (6, 3, 1, 0, 0) and "6/3/1/0/0" in shows["Table 7, column C"]
    assert shows["Appendix J"].startswith("2 entries")


def test_against_rules_that_never_read_the_question(paper: Li2026) -> None:
    assert paper.answer_only_counts == (2, 2, 6, 0, 0)
    assert [s.status for s in paper.answer_only].count(Status.INELIGIBLE_F1) == 2


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reanalyze(["li2026", "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert (
        "3 ineligible, 3 scorer-unvalidated, 2 failed G2-G4, 2 exploratory, 0 confirmatory" in shown
    )
    stored = json.loads((tmp_path / "out" / "reanalysis.json").read_text())
    assert stored["counts"]["ineligible"] == 3 and len(stored["cells"]) == 10
    assert (tmp_path / "out" / "cells.csv").read_text().count("\n") == 11
    drawn = [path.read_text() for path in (tmp_path / "out").glob("figure*.svg")]
    assert [text.startswith("<?xml") for text in drawn] == [True, True]


def test_the_raw_gate_columns_of_the_ten_cells(paper: Li2026) -> None:
    """App. F: G2 fails on Qwen x BBQ (CSR 0, without a seed CV) and Mistral x XSTest, G3 on the
    latter."""
    columns = {r.name: gate_columns(r.cell, None, r.seed_cv_at_most) for r in paper.cells}
    odd = {name: gates[1:] for name, gates in columns.items() if gates[1:] != (True,) * 5}
    assert len(columns) == 10 and len(GATE_COLUMNS) == 6
    assert odd == {
        "Qwen-2.5-7B x BBQ": (False, True, False, True, None),
        "Mistral-7B x XSTest": (False, False, True, True, True),
    }
    assert gate_columns(replace(SOUND, n=199), True, 0.3) == (True, True, True, True, False, False)
