"""The paper's tables and figures from a panel, and the chronology in the report."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import validity_panels as panels
from documents import ENTRY

from audit.benchmarks.config import BenchmarkConfig
from audit.core.errors import DataError
from audit.governance.chronology import Chronology, parse_chronology, project_file, read_chronology
from audit.report.canvas import svg_text
from audit.statistics.dif import by_group
from audit.validity.analyse import RunVerdict
from audit.validity.as_paper import (
    _GATES,
    PaperTable,
    cell_validity_csv,
    merged,
    no_op_rates,
    paper_tables,
    placebo_ratio,
)
from audit.validity.config import ValidityConfig, validate
from audit.validity.edits.record import Family
from audit.validity.figures import before_and_after, deltas_of, family_deltas, ratios, ratios_of
from audit.validity.page import group_dif_csv
from audit.validity.status import GATE_COLUMNS
from audit.validity.vocabulary import GATES

MARKED = ENTRY | {"id": "R1", "symptom": "both deltas <b>exactly</b> 0"}


@pytest.fixture(scope="module")
def cells():
    return panels.cells()


@pytest.fixture(scope="module")
def chronology() -> Chronology:
    unfixed = {
        **MARKED,
        "id": "R2",
        "failure_class": "P-gate",
        "provenance": "inherited",
        "status": "DISCLOSED-UNFIXED",
    }
    return parse_chronology("\n".join(map(json.dumps, (MARKED, unfixed))))


@pytest.fixture(scope="module")
def judged(cells, chronology) -> RunVerdict:
    return panels.verdict(cells, chronology)


@pytest.fixture(scope="module")
def tables(cells, judged) -> dict[int, PaperTable]:
    return {t.number: t for t in paper_tables(judged, panels.rows(cells))}


def test_every_gate_of_the_paper_is_made_by_a_check_that_there_is(tables) -> None:
    assert {name for *_, names in _GATES for name in names} <= set(GATES)
    assert [row[0] for row in tables[1].rows] == ["G1", "G2", "G3", "G4", "G5", "G6"]
    # The one that ignores its input is the only cell below the baseline.
    assert tables[1].rows[1][3].endswith(" 2 of 3 cells")
    assert "than 20%" in tables[1].rows[0][2] and "95%" in tables[1].rows[0][2]


def test_each_failure_class_is_injected_and_the_met_ones_are_named(tables) -> None:
    by_class = {row[0]: row for row in tables[2].rows}
    assert list(by_class) == ["F1", "F2", "F3", "F3a", "F3b", "F3c", "F4", "F5", "F6", "F7", "F10"]
    assert "R1: both deltas" in by_class["F3c"][5] and by_class["F2"][5] == "not observed"
    assert all("missed" not in row[4] for row in tables[2].rows)
    # Two cells have no surface change at all, which is what the check of F3c looks for: it fails
    # before the fault. One answer to everything has no order that could be lost (F4).
    assert [by_class[id_][4] for id_ in ("F1", "F3", "F3c", "F4")] == [
        "6 of 6",
        "–",
        "8 of 15; 7 not testable",
        "8 of 9; 1 not testable",
    ]


def test_buckets_flags_and_numbers_are_the_paper_s(tables, cells) -> None:
    assert [(row[0], row[2], row[3]) for row in tables[3].rows] == [
        # Who follows the contract stays right, so that under the edit's own key the ratio sees
        # nothing (finding A).
        ("follower", "indeterminate (the paper has no status for it)", "—"),
        ("deaf", "failed G2–G4", "—"),
        (
            "unproven",
            "failed G2–G4",
            "scorer-unvalidated",
        ),  # nothing moves it on the surface: no denominator
    ]
    assert [row[8] for row in tables[6].rows] == ["none", "inconclusive", "inconclusive"]
    assert [row[9] for row in tables[6].rows] == [
        "–"
    ] * 3  # the scripted models have no placebo that moves a score
    assert tables[6].rows[1][2:6] == (
        "0.333",
        "0.000",
        "0.000",
        "0.667",
    )  # the key moved, the answer did not
    assert {row[1]: row[3] for row in tables[5].rows}["failed G2–G4"] == "2"
    assert sum(int(row[3]) for row in tables[5].rows) == len(cells)
    assert tables[4].rows[0][3].startswith("no evidence; the status is scorer-unvalidated")


def test_table_7_sets_rendered_text_beside_consumed_tokens(tables, cells) -> None:
    """Three cells of five items, two format edits each: every first one is the original to the
    scorer, none as text."""
    assert no_op_rates(panels.rows(cells)) == {"contrast": (30, 0, 15)}
    assert tables[7].rows == (("contrast", "0.0", "50.0", "30"),)


def test_figures_2_to_4_are_drawn_the_same_each_time(judged) -> None:
    results = judged.results
    drawn = (ratios(ratios_of(results)), family_deltas(deltas_of(results)))
    assert all(svg_text(figure).startswith("<?xml") for figure in drawn)
    assert svg_text(before_and_after(results)) == svg_text(before_and_after(results))
    axes = before_and_after(results).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("symlog", "symlog")
    points = [line.get_xydata()[0] for line in axes.lines[1:]]
    deaf = points[1]  # it answers one thing to everything: far below the identity
    assert deaf[0] > 10 and deaf[1] == 0


def test_the_page_has_all_of_it_folded_and_the_chronology(cells, judged) -> None:
    page = panels.page(judged, panels.rows(cells))
    section = page[page.index('<section id="paper"') : page.index('<section id="chronology"')]
    assert section.index("<details>") < section.index("Table 1:") and all(
        f"Table {n}:" in section for n in range(1, 8)
    )
    shown = page[page.index('<section id="chronology"') : page.index('<section id="run"')]
    assert re.findall(r": (R\d)", shown)[:2] == ["R1", "R2"] and "2 entries: 1 " in shown
    assert "both deltas &lt;b&gt;exactly&lt;/b&gt; 0" in shown and "<b>exactly" not in page
    assert (
        read_chronology(project_file()).sentence not in page
    )  # the program's own faults are not this model's
    without = panels.page(replace(judged, chronology=None), panels.rows(cells))
    assert 'id="chronology"' not in without
    assert re.search(r" 4\.0 and [a-z ]+ 5\.0", page)
    assert page.count("Input: Hashes of the token ids") == len(
        cells
    )  # a gate names its input, once a cell


def test_verdict_json_has_the_totals_and_entries_of_runs_are_taken_once(judged, chronology) -> None:
    assert judged.to_dict()["chronology"] == {
        "entries": ["R1", "R2"],
        "repair_introduced": ["R1"],
        "unfixed": ["R2"],
    }
    assert replace(judged, chronology=None).to_dict()["chronology"] is None
    assert merged([chronology, None, chronology]) == chronology and merged([None]) is None


def test_a_chronology_that_cannot_be_read_is_refused_before_anything_starts(tmp_path) -> None:
    benchmark = BenchmarkConfig(name="contrast", format="contrast")
    with pytest.raises(DataError, match="Cannot read"):
        validate(ValidityConfig(benchmark=benchmark, chronology=str(tmp_path / "nowhere.jsonl")))


def test_groups_at_equal_total_score_stand_on_the_page_and_thin_ones_without_a_number(
    cells, judged
) -> None:
    right = np.tile([1.0, 0.0, 1.0, 1.0], 40)
    focal = np.arange(160) % 4 < 2
    few = np.arange(160) < 4
    groups = by_group(
        right,
        np.zeros(160, int),
        {"a <b>": focal, "few": few},
        np.arange(160),
        {"a <b>": 80, "few": 4},
    )
    evidence = replace(judged.results[0].evidence, group_dif=groups)
    shown = replace(
        judged, results=(replace(judged.results[0], evidence=evidence), *judged.results[1:])
    )
    page = panels.page(shown, panels.rows(cells))
    table = page[page.index('aria-label="Group DIF"') :]
    assert table.index("a &lt;b&gt;") < table.index("no interval") < table.index("too few items")
    lines = group_dif_csv(shown).splitlines()
    assert (
        lines[1].endswith(",tested")
        and lines[2].endswith("few,4,1,,,,,,too few")
        and len(lines) == 3
    )


def test_the_raw_gate_columns_and_the_placebo_ratio_of_a_run(judged) -> None:
    """Every cell: parseable, an interval, 60 of 200 items, one seed. The deaf model is not above
    guessing (G2), and wording moves neither it nor the follower of the third cell (G3)."""
    head, *lines = (line.split(",") for line in cell_validity_csv(judged).splitlines())
    assert head[3:9] == list(GATE_COLUMNS)
    assert [line[3:9] for line in lines] == [
        ["1", "1", "1", "1", "0", ""],
        ["1", "0", "0", "1", "0", ""],
        ["1", "1", "0", "1", "0", ""],
    ]
    evidence = judged.results[0].evidence
    changes = {
        Family.FORMAT: 0.1,
        Family.SEMANTIC: 0.05,
        Family.ATTRIBUTE: 0.6,
        Family.PLACEBO: 0.15,
    }
    made = {f: replace(evidence.families[f], score_change=change) for f, change in changes.items()}
    # CSR 6, placebo CSR 1.5
    assert placebo_ratio(replace(evidence, families=made)) == pytest.approx((1.5, 4.0))
    made[Family.PLACEBO] = replace(made[Family.PLACEBO], score_change=0.0)
    assert placebo_ratio(replace(evidence, families=made)) is None
