"""Requests compared by their hashes, word differences, bins of distance, and verdict.json with its
table of items."""

import json
from dataclasses import replace
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from perturb_cells import cell, judged, with_answers

from audit.core.package_data import shipped_table
from audit.judging.result import json_text
from audit.perturb.analyse import JUDGE
from audit.perturb.page import distance_bins, items_csv
from audit.perturb.vocabulary import VERDICTS, PerturbVerdict
from audit.report.page import word_diff
from audit.shards.keys import RequestCounts, count_requests


def test_a_variant_that_did_not_change_the_request_is_counted_once():
    original = {"a": {"x"}, "b": {"y"}, "c": {"z"}}
    variants = {"a": [(2, "p"), (1, "x")], "b": [(1, "q"), (2, "q"), (3, "r")], "d": [(1, "x")]}
    # a#1 is the original's; b#2 repeats b#1; d has no original to compare with
    assert count_requests(original, variants) == RequestCounts(5, 1, 1, ("a", "b"))


def test_new_words_are_marked_and_the_text_is_whole():
    assert word_diff("What is the capital?", "What city is it?") == [
        ("What ", ""),
        ("city ", "new"),
        ("is ", ""),
        ("the capital? ", "gone"),
        ("it?", "new"),
    ]
    segments = word_diff("a b c", "c d  e")
    assert "".join(text for text, change in segments if change != "gone") == "c d e"
    assert [text for text, change in segments if change == "gone"] == ["a b "]


def test_bins_of_distance_hold_equally_many_answers():
    distance = np.array([0.3, 0.1, 0.2, 0.5, 0.4, np.nan, 0.6])
    correct = np.array([1, 1, 0, 0, 1, 1, np.nan])  # the last two are left out
    bins = distance_bins(distance, correct)
    assert [middle for middle, _ in bins] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert [accuracy for _, (accuracy, *_) in bins] == [1, 0, 1, 1, 0]
    assert distance_bins(np.array([]), np.array([])) == []


@pytest.mark.long  # eight CPU seconds
def test_every_verdict_fits_the_schema_that_ships_and_is_the_same_to_the_byte():
    """Without references, with the curve, without evidence, with a control that is asked and one
    that is not, and with a reference that is left out."""
    schema = json.loads(
        (files("audit.judging") / "verdict.schema.json").read_text(encoding="utf-8")
    )
    assert set(VERDICTS) == set(PerturbVerdict)
    alone, fresh, left = (
        cell(n=200, references=0),
        cell(n=300, control=200),
        cell(n=200, references=2),
    )
    nothing = with_answers(alone, variants=np.full((3, 200), np.nan))
    fresh = replace(
        fresh, control=replace(fresh.control, references=cell(n=200, seed=3).references)
    )
    unread = np.where(np.arange(200) < 20, np.nan, left.references[0].variants)
    left = replace(
        left, references=(replace(left.references[0], variants=unread), left.references[1])
    )
    cells = (
        alone,
        cell(n=200, references=12, wording=0.15),
        nothing,
        fresh,
        cell(n=200, control=25),
        left,
    )
    table = shipped_table(JUDGE.shipped)
    run = judged(*cells, table=table)
    results = run.results
    assert [r.evidence is None for r in results] == [False, False, True, False, False, False]
    tests = [r.evidence.tests for r in results if r.evidence]
    assert tests[1].curve is not None and tests[-1].left_out and results[1].calibration is not None
    assert [t.control and t.control.used for t in tests] == [None, None, True, False, None]
    plain = run.to_dict()
    jsonschema.validate(plain, schema)
    assert json_text(plain) == json_text(judged(*cells, table=table).to_dict())
    beyond = plain["cells"][3]["evidence"]["tests"]["control"]["beyond"]
    assert [row["scale"] for row in beyond] == ["points", "share", "logit"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**plain, "cells": None}, schema)
    lines = items_csv(cells[:1], results[:1]).splitlines()
    assert len(lines) == 201 and len({line.split(",")[2] for line in lines[1:]}) == 200
