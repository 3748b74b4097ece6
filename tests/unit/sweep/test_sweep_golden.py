"""The sweep's figures over the same rows are those of the program from before the redesign (tests/golden/sweep)."""

import json
from pathlib import Path

import numpy as np
import pytest
from outcome_tables import cell_of

from audit.records import Setting
from audit.statistics.paired import CellOutcomes, State
from audit.sweep.analyse import analyse
from audit.sweep.evidence import measure
from audit.sweep.paper import model_summary, router_summary, setting_rows
from audit.sweep.record import sweep_of
from audit.verdict.result import json_ready

GOLDEN = json.loads(
    (Path(__file__).resolve().parents[2] / "golden" / "sweep" / "before_redesign.json").read_text(encoding="utf-8")
)
STATE = {"C": State.CORRECT, "W": State.WRONG, "U": State.UNPARSED}


def figures(value):
    """Without the sentences that are made of them."""
    return {k: figures(v) for k, v in value.items() if k != "sentence"} if isinstance(value, dict) else value


@pytest.fixture(scope="module")
def cell() -> CellOutcomes:
    rows = {}
    for name, letters in GOLDEN["states"].items():
        arm, routers, replicate = name.split()
        rows[Setting(arm, int(routers), int(replicate))] = [STATE[letter] for letter in letters]
    return cell_of(rows, model="scripted", benchmark="elementary")


@pytest.fixture(scope="module")
def verdict(cell) -> dict:
    return analyse([cell]).to_dict()  # 10,000 resamples, seed 42, as then


def test_what_was_counted_is_counted(verdict, cell):
    found = verdict["cells"][0]
    assert figures({key: found[key] for key in GOLDEN["cell"]}) == figures(GOLDEN["cell"])
    rows = setting_rows(sweep_of(cell, first_only=True))  # then of replicate 0 alone
    first = {"model_summary": model_summary(rows), "router_summary": router_summary(rows), "cells": rows}
    assert json_ready(first) == GOLDEN["paper"]
    # Now of all: Table 1 and Figure 5 count what the verdict's gains are, and the grid's colours.
    gains = {c["routers"]: c["estimate"] for c in verdict["cells"][0]["contrasts"] if c["name"] == "noisy_vs_clean"}
    assert {row["routers"]: row["gain"] for row in verdict["paper"]["cells"]} == {r: gains[r] for r in gains if r}


def test_every_contrast_keeps_its_pairs_and_its_estimate(verdict, cell):
    worst = measure(cell, rng=np.random.default_rng(0), n_resamples=99, intervals=False, gamma=float("inf"))
    now = {(c["name"], c["routers"]): (c["n"], c["estimate"]) for c in verdict["cells"][0]["contrasts"]}
    then = {(name, routers): (n, estimate) for name, routers, n, estimate in GOLDEN["contrasts"]}
    assert len(then) == 32
    for name, reading in (("adverse", worst.adverse), ("favourable", worst.favourable)):  # then: the worst case
        for against, c in (("clean", reading.clean), ("direct", reading.direct), ("ensemble", reading.ensemble)):
            for k, r in enumerate(c.routers if c else ()):
                now[f"noisy_vs_{against}_{name}", r] = (int(c.n[k]), round(float(c.gain[k]), 7))
            if c:
                now[f"noisy_vs_{against}_{name}", None] = (int(c.n.min()), round(c.mean.estimate, 7))
    for key, (n, estimate) in then.items():
        assert now[key] == (n, pytest.approx(estimate, abs=1e-6)), key


def test_gates_measure_what_they_measured(verdict):
    changed = {"parseability", "enough_data"}  # since: the upper limit of a share; the largest compatible gain
    texts = {"manipulation_reached_worker", "answer_leak"}  # read messages, which the golden values leave out
    now = {gate["name"]: gate["number"] for gate in verdict["cells"][0]["gates"]}
    assert now.keys() == GOLDEN["gates"].keys()
    for name in now.keys() - changed - texts:
        assert now[name] == GOLDEN["gates"][name], name
