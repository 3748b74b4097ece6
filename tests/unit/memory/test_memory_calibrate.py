"""The simulated worlds are what they say, and the generator writes its table."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from audit.memory.calibrate import WORLDS, MemoryDesign, World, calibrate, judge, main, markdown, simulate
from audit.memory.calibrated import SHIPPED
from audit.memory.thresholds import MemoryThresholds
from audit.verdict.shipped import shipped_table

DESIGN = MemoryDesign(4000, 4000, 1)


def world(name: str = "", **fields):
    return simulate(DESIGN, WORLDS[name] if name else World(**fields), np.random.default_rng(2))


def test_worlds_are_what_they_say():
    (own, own_fresh), ((ref, _),) = world("clean").tested, world("clean").references
    assert own.score.mean() == pytest.approx(0.7, abs=0.03) and own_fresh.score.mean() == pytest.approx(0.7, abs=0.03)
    assert np.corrcoef(own.texts["item"], ref.texts["item"])[0, 1] == pytest.approx(1 - 0.3**2, abs=0.02)
    assert own.order[:, 0].mean() == pytest.approx(0, abs=0.1)
    hard = world("harder")
    assert hard.tested[1].score.mean() == pytest.approx(0.6, abs=0.03)
    assert hard.references[0][1].score.mean() == pytest.approx(0.6, abs=0.03)
    known = world("answers")
    assert known.tested[0].score.mean() == pytest.approx(0.7 + 0.3 * 0.3, abs=0.03)
    assert known.references[0][0].score.mean() == pytest.approx(0.7, abs=0.03)
    text = world("text")
    assert text.tested[0].order[:, 0].mean() == pytest.approx(0.3, abs=0.1)
    assert text.references[0][0].order[:, 0].mean() == pytest.approx(0, abs=0.1)
    both = world("sequenced")
    assert both.references[0][0].order[:, 0].mean() == pytest.approx(0.3, abs=0.1)


def test_rates_are_reproducible_and_written(tmp_path):
    design = MemoryDesign(60, 40, 1)
    worlds = {name: WORLDS[name] for name in ("clean", "text")}
    first = calibrate(design, simulations=3, worlds=worlds)
    assert first == calibrate(design, simulations=3, worlds=worlds)
    assert set(first["rates"]) >= {"clean", "clean_se", "clean_text", "clean_gap", "text"}
    alone = calibrate(replace(design, fresh=0, references=0), simulations=2)
    assert "answers" not in alone["rates"] and "sequenced" in alone["rates"]
    path = tmp_path / "table.json"
    assert main(["--out", str(path), "--simulations", "2"], [replace(design, fresh=0, references=0)]) == 0
    table = json.loads(path.read_text())
    assert markdown(table["designs"]).count("\n") == 3 and "| 60 | 0 | 0 |" in markdown(table["designs"])


def test_a_model_that_recites_is_found():
    rng = np.random.default_rng(1)
    assert judge(MemoryDesign(200, 150, 2), World(text=0.6), MemoryThresholds(), rng) == (True, False)


def test_the_table_that_ships_keeps_its_level():
    table = shipped_table(SHIPPED)
    assert table is not None
    for entry in table["designs"]:
        rates = entry["rates"]
        assert rates["clean"] <= 0.05 + 2 * rates["clean_se"], entry["design"]
        assert rates["text"] >= 0.8, entry["design"]
