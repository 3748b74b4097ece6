"""The sweep's figures over the same rows are those of the program from before the redesign (tests/golden/sweep)."""

import json
from pathlib import Path

import numpy as np
import pytest

from audit.records import Setting
from audit.statistics.paired import CellOutcomes, State
from audit.sweep.analyse import analyse

GOLDEN = json.loads(
    (Path(__file__).resolve().parents[2] / "golden" / "sweep" / "before_redesign.json").read_text(encoding="utf-8")
)
STATE = {"C": State.CORRECT, "W": State.WRONG, "U": State.UNPARSED}


@pytest.fixture(scope="module")
def verdict() -> dict:
    rows = {}
    for name, letters in GOLDEN["states"].items():
        arm, routers, replicate = name.split()
        rows[Setting(arm, int(routers), int(replicate))] = [STATE[letter] for letter in letters]
    n = len(letters)
    cell = CellOutcomes(
        model="scripted",
        benchmark="elementary",
        draws="nested",
        reading="letter",
        question_ids=tuple(f"{i:03}" for i in range(n)),
        cluster=np.arange(n),
        n_options=np.full(n, 4),
        settings=tuple(sorted(rows)),
        state=np.array([rows[setting] for setting in sorted(rows)], dtype=np.int8),
    )
    return analyse([cell]).to_dict()  # 10,000 resamples, seed 42, as then


def test_what_was_counted_is_counted(verdict):
    cell = verdict["cells"][0]
    assert {key: cell[key] for key in GOLDEN["cell"]} == GOLDEN["cell"]
    assert verdict["paper"] == GOLDEN["paper"]


def test_every_contrast_keeps_its_pairs_and_its_estimate(verdict):
    now = {(c["name"], c["routers"]): (c["n"], c["estimate"]) for c in verdict["cells"][0]["contrasts"]}
    then = {(name, routers): (n, estimate) for name, routers, n, estimate in GOLDEN["contrasts"]}
    assert len(then) == 32
    assert {key: now[key] for key in then} == then


def test_gates_measure_what_they_measured(verdict):
    changed = {"parseability", "enough_data"}  # since: the upper limit of a share; the largest compatible gain
    texts = {"manipulation_reached_worker", "answer_leak"}  # read messages, which the golden values leave out
    now = {gate["name"]: gate["number"] for gate in verdict["cells"][0]["gates"]}
    assert now.keys() == GOLDEN["gates"].keys()
    for name in now.keys() - changed - texts:
        assert now[name] == GOLDEN["gates"][name], name
