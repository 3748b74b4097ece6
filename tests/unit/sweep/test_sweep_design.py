"""The sweep's figures over the same rows are those of the program from before the redesign (tests/golden/sweep)."""

import json
from pathlib import Path

import numpy as np
import pytest
from outcome_tables import cell_of

from audit.errors import ConfigError
from audit.records import Setting
from audit.statistics.paired import CellOutcomes, State
from audit.sweep.analyse import analyse
from audit.sweep.design import (
    DELETED,
    Arm,
    Draws,
    make_design,
    missing_controls,
    n_messages,
    parse_doses,
    parse_routers,
)
from audit.sweep.evidence import measure
from audit.sweep.paper import model_summary, router_summary, setting_rows
from audit.sweep.record import sweep_of
from audit.verdict.result import json_ready


@pytest.mark.parametrize(
    ("value", "expected"),
    [("1..9", tuple(range(1, 10))), ("3", (3,)), (3, (3,)), ("1,3,9", (1, 3, 9)), ([9, 1, 3], (1, 3, 9)),
     ("[1,3]", (1, 3)), (["1..3", 9], (1, 2, 3, 9)), ("2..2", (2,)), ([3, 3], (3,))],
)  # fmt: skip
def test_router_counts_are_parsed(value, expected):
    assert parse_routers(value) == expected


@pytest.mark.parametrize(
    "value", ["9..1", "0..3", "a", "", "1..", "1...3", 0, -1, None, True, [], 1.5, "1..65", "1..999999999999"]
)
def test_a_wrong_router_range_is_refused_with_an_example(value):
    with pytest.raises(ConfigError) as caught:
        parse_routers(value)
    assert "Invalid r" in str(caught.value)
    assert "1..9" in str(caught.value) or "At most" in str(caught.value)


def test_the_papers_design_and_the_messages_that_nested_draws_spare():
    # song2026, section 4.2: forward_full at r=1, noisy_rewrite at r=1..9, each r with routers of its own
    design = make_design(range(1, 10), arms=[Arm.FORWARD_FULL, Arm.NOISY_REWRITE])
    assert len(design.settings) == 10
    assert sum(map(n_messages, design.parts)) == 1 + 45  # 1 + (1 + 2 + ... + 9)
    nested = make_design(range(1, 10), arms=[Arm.NOISY_REWRITE], draws=Draws.NESTED)
    assert [n_messages(part) for part in nested.parts] == [9] and len(nested.settings) == 9


@pytest.mark.parametrize(
    ("options", "clean", "noisy"),
    [
        ({"clean_replicates": 3, "ensemble_control": True}, [(1, 0), (1, 1), (1, 2), (2, 0), (3, 0)], [0] * 3),
        ({"noisy_replicates": 2}, [(1, 0)], [0, 1] * 3),
    ],
)
def test_each_arm_has_replicates_of_its_own_and_the_ensemble_shares_its_r(options, clean, noisy):
    design = make_design([1, 2, 3], **options)
    assert [(s.level, s.replicate) for s in design.settings if s.arm == Arm.FORWARD_FULL] == clean
    assert [s.replicate for s in design.settings if s.arm == Arm.NOISY_REWRITE] == noisy


@pytest.mark.parametrize("draws", list(Draws))
def test_every_setting_belongs_to_one_router_set(draws):
    design = make_design([1, 2, 5], draws=draws, replicates=2, clean_replicates=3, ensemble_control=True)
    assert len(set(design.settings)) == len(design.settings) == sum(len(part.levels) for part in design.parts)


@pytest.mark.parametrize("name", ["replicates", "clean_replicates", "noisy_replicates"])
def test_no_replicate_is_refused(name):
    with pytest.raises(ConfigError, match=f"Invalid {name}: 0"):
        make_design([1], **{name: 0})


def test_controls_that_are_not_run_are_named_with_the_override():
    assert missing_controls(make_design((1, 2), ensemble_control=True, noisy_replicates=2)) == ()
    assert missing_controls(make_design((1,), replicates=2)) == ()  # with one router the clean baseline is its control
    (once,) = missing_controls(make_design((1,)))
    assert "noisy_replicates=2" in once
    (ensemble,) = missing_controls(make_design((1, 2, 5), noisy_replicates=2))
    assert "r=2, 5" in ensemble and "ensemble_control=true" in ensemble
    (direct,) = missing_controls(make_design((1,), arms=(Arm.FORWARD_FULL, Arm.NOISY_REWRITE), noisy_replicates=2))
    assert "direct" in direct
    assert missing_controls(make_design((1, 2), arms=(Arm.DIRECT,))) == ()


def test_doses_are_percents_with_0_among_them():
    assert parse_doses([0, 0.1, 0.6, 0.2]) == (0, 10, 20, 60) and parse_doses(None) == ()
    design = make_design([1], doses=(0, 20))
    assert [s for s in design.settings if s.arm == DELETED] == [Setting(DELETED, 0), Setting(DELETED, 20)]
    assert missing_controls(design) == missing_controls(make_design([1]))


@pytest.mark.parametrize(
    "value", [0.2, [0], [0.1, 0.2], [0, 1], [0, -0.1], [0, "x"], [0, True], "0,0.2", [0, 0.001], []]
)
def test_a_dose_without_a_zero_or_outside_its_range_is_refused(value):
    with pytest.raises(ConfigError):
        parse_doses(value)


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
    worst = measure(cell, rng=np.random.default_rng(0), n_resamples=99, gamma=float("inf"))
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
