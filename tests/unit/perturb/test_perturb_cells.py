"""Requests compared by their hashes, word differences, bins of distance, and the words of every verdict."""

import json
from dataclasses import replace
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from perturb_cells import cell

from audit.decision import rule
from audit.perturb.analyse import JUDGE, PerturbSettings, RunVerdict, analyse
from audit.perturb.design import PerturbThresholds
from audit.perturb.page import distance_bins, items_csv
from audit.perturb.vocabulary import VERDICTS, PerturbVerdict
from audit.records import CellRows
from audit.report.page import word_diff
from audit.shards.keys import RequestCounts, count_requests
from audit.verdict.result import json_text
from audit.verdict.shipped import shipped_table


def test_a_variant_that_did_not_change_the_request_is_counted_once():
    original = {"a": {"x"}, "b": {"y"}, "c": {"z"}}
    variants = {"a": [(2, "p"), (1, "x")], "b": [(1, "q"), (2, "q"), (3, "r")], "d": [(1, "x")]}
    # a#1 is the original's; b#2 repeats b#1; d has no original to compare with
    assert count_requests(original, variants) == RequestCounts(5, 1, 1, ("a", "b"))


def test_new_words_are_marked_and_the_text_is_whole():
    assert word_diff("What is the capital?", "What city is it?") == [
        ("What ", ""), ("city ", "new"), ("is ", ""), ("the capital? ", "gone"), ("it?", "new"),
    ]  # fmt: skip
    segments = word_diff("a b c", "c d  e")
    assert "".join(text for text, change in segments if change != "gone") == "c d e"
    assert [text for text, change in segments if change == "gone"] == ["a b "]


def test_bins_of_distance_hold_equally_many_answers():
    distance = np.array([0.3, 0.1, 0.2, 0.5, 0.4, np.nan, 0.6])
    correct = np.array([1, 1, 0, 0, 1, 1, np.nan])  # the last two are left out
    bins = distance_bins(distance, correct)
    assert [(b.low, b.high, b.n, b.accuracy) for b in bins] == [
        (0.1, 0.1, 1, 1.0), (0.2, 0.2, 1, 0.0), (0.3, 0.3, 1, 1.0), (0.4, 0.4, 1, 1.0), (0.5, 0.5, 1, 0.0),
    ]  # fmt: skip
    assert distance_bins(np.array([]), np.array([])) == []


def judged(found: int = 10, expected: int = 10) -> RunVerdict:
    one = cell(n=200, references=0)
    thresholds = PerturbThresholds()
    results = analyse([one], PerturbSettings(thresholds, 1, 200, n_draws=50))
    rows = (CellRows("m", "b", found, expected),)
    return RunVerdict(
        seed=1, n_resamples=200, thresholds=thresholds.to_dict(), library={}, runs=({"models": []},), rows=rows,
        cells=(one,), results=results,
    )  # fmt: skip


def test_the_verdict_is_plain_and_the_same_to_the_byte():
    first, again = json_text(judged().to_dict()), json_text(judged().to_dict())
    assert first == again and "NaN" not in first
    (one,) = judged().to_dict()["cells"]
    assert one["verdict"] in {v.value for v in PerturbVerdict}
    assert set(one["evidence"]["items"]) == {
        "method", "smallest_p", "can_flag", "affected", "flagged", "most_conspicuous",
    }  # fmt: skip


LIBRARY = {
    "name": "l", "sha256": "a" * 64, "benchmark": "b", "strategy": "file", "window": (0.15, 0.45), "review": None,
    "candidates": {"accepted": 600},
}  # fmt: skip


def test_every_verdict_fits_the_schema_that_ships():
    schema = json.loads((files("audit.perturb") / "verdict.schema.json").read_text(encoding="utf-8"))
    assert set(schema["$defs"]["cell"]["properties"]["verdict"]["enum"]) == {v.value for v in PerturbVerdict}
    cells = [cell(n=200, references=0), cell(n=200, references=12, memorised=0.15)]
    nothing = replace(cells[0], tested=replace(cells[0].tested, variants=np.full((3, 200), np.nan)))  # no evidence
    cells.append(nothing)
    thresholds = PerturbThresholds()
    results = analyse(cells, PerturbSettings(thresholds, 1, 200, shipped_table(JUDGE.shipped), n_draws=50))
    assert [r.evidence is None for r in results] == [False, False, True]
    assert results[1].evidence.tests.curve is not None and results[1].calibration is not None
    rows = (CellRows("m", "b", 10, None),)
    run = RunVerdict(
        seed=1, n_resamples=200, thresholds=thresholds.to_dict(), library=LIBRARY, runs=({"models": []},), rows=rows,
        cells=tuple(cells), results=results,
    )  # fmt: skip
    jsonschema.validate(run.to_dict(), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**run.to_dict(), "more": 1}, schema)


def test_a_verdict_over_a_part_says_so_and_is_no_verdict_for_the_gate():
    verdict = judged(found=7).to_dict()
    assert verdict["cells"][0]["headline"].startswith("Incomplete, 7 of 10 answers: ")
    assert rule(verdict).exit_code == 1


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        ("no_drop_detected", 0), ("drop_beyond_reference", 3), ("withheld", 4), ("brittle_cause_unknown", 4),
        ("underpowered", 4),
    ],
)  # fmt: skip
def test_each_verdict_has_its_exit_code(verdict, code):
    assert rule({"audit": "perturb", "cells": [{"verdict": verdict}], "rows": []}).exit_code == code
    assert PerturbVerdict(verdict) in VERDICTS


def test_the_table_of_items_has_every_item_once():
    verdict = judged()
    lines = items_csv(verdict.cells, verdict.results).splitlines()
    assert len(lines) == 201 and len({line.split(",")[2] for line in lines[1:]}) == 200
