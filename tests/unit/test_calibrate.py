"""A small calibration, and the figures that ship."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from audit.calibrate import SHIPPED, Design, Effort, calibrate, load_calibration, main, markdown, simulate
from audit.records import Setting
from audit.sweep.design import Arm
from audit.verdict.calibrated import nearest

SMALL = Design(n=100, routers=9)
EFFORT = Effort(clean=300, power=20, coverage=60, permutations=199, resamples=299)


def test_a_small_calibration_reaches_its_targets() -> None:
    rates = calibrate(SMALL, gains=(0.0, 0.25), effort=EFFORT)["rates"]

    def within(name: str, low: float, high: float) -> bool:
        return low - 3 * rates[f"{name}_se"] <= rates[name] <= high + 3 * rates[f"{name}_se"]

    # DESIGN's simulation of the paper's rule: 46 % of settings, 88 % of clean models
    assert within("paper_setting_fpr", 0.42, 0.50)
    assert within("paper_model_fpr", 0.84, 0.92)
    assert within("mcnemar_setting_fpr", 0.0, 0.05)
    assert within("excess_no_controls_fpr", 0.0, 0.05)
    assert within("excess_fpr", 0.0, 0.05)
    assert rates["excess_fpr"] <= rates["excess_no_controls_fpr"]
    assert rates["power_0.25"] >= 0.9
    for name in ("coverage_gain", "coverage_mean", "coverage_simultaneous"):
        assert within(name, 0.93, 0.97), name


def test_the_result_depends_on_the_seed_and_not_on_how_chunks_are_run() -> None:
    effort = replace(EFFORT, clean=60, power=30, coverage=20)
    design = replace(SMALL, n=40, routers=2)

    def backwards(function, tasks):  # a pool that finishes its chunks in another order
        done = [(k, function(task)) for k, task in reversed(list(enumerate(tasks)))]
        return [result for _, result in sorted(done, key=lambda pair: pair[0])]

    first = calibrate(design, effort=effort, seed=1)
    assert calibrate(design, effort=effort, seed=1, run=backwards) == first
    assert calibrate(design, effort=effort, seed=2) != first


def test_nested_draws_are_correlated_over_r_and_independent_ones_are_not() -> None:
    design = Design(n=20_000, routers=2, discordance=0.4)  # of at most 0.42: items hardly differ by themselves
    agree = {}
    for draws in ("independent", "nested"):
        cell = simulate(replace(design, draws=draws), 0.0, np.random.default_rng(0))
        one, two = (cell.row(Setting(Arm.NOISY_REWRITE, r)) for r in (1, 2))
        agree[draws] = float(np.mean(one == two))
    assert agree["independent"] == pytest.approx(0.6, abs=0.02)  # 1 - discordance
    assert agree["nested"] > 0.68


def test_the_shipped_table_meets_the_targets() -> None:
    table = load_calibration()
    assert table is not None
    assert [Design(**e["design"]) for e in table["designs"]] == list(SHIPPED)
    for entry in table["designs"]:
        d, r = entry["design"], entry["rates"]
        for name in ("excess_fpr", "excess_no_controls_fpr"):
            assert r[name] <= 0.05 + 2 * r[f"{name}_se"], (d, name)
        for name in ("coverage_gain", "coverage_mean", "coverage_simultaneous"):
            assert 0.93 - 2 * r[f"{name}_se"] <= r[name] <= 0.97 + 2 * r[f"{name}_se"], (d, name)
        if d["n"] == 1000:
            assert r["power_0.1"] >= 0.9, d
        runs = d["clean_replicates"]
        printed = nearest(table, n=d["n"], routers=d["routers"], draws=d["draws"], clean_replicates=runs)
        assert printed is not None and printed.design == d
        assert f"{r['excess_fpr']:.1%}" in printed.sentence and "10 points in" in printed.sentence
        if runs == 3:  # any number of several replicates is nearer to three than to one
            several = nearest(table, n=d["n"] + 20, routers=d["routers"], draws=d["draws"], clean_replicates=2)
            assert several is not None and several.design == d and "3 clean replicates" in several.sentence
    documented = (Path(__file__).resolve().parents[2] / "docs" / "calibration.md").read_text(encoding="utf-8")
    assert markdown(table) in documented


def test_the_command_writes_the_table(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "table.json"
    assert main(["--n", "30,40", "--routers", "1..2", "--simulations", "20", "--gain", "0,0.2", "--out", str(out)]) == 0
    table = json.loads(out.read_text(encoding="utf-8"))
    assert [e["design"]["n"] for e in table["designs"]] == [30, 40]
    assert "power_0.2" in table["designs"][0]["rates"]
    assert "| 30 | 1..2 | independent |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n", "1"], "at least 2"),
        (["--n", "100", "--routers", "3..5"], "1..9"),
        (["--n", "100", "--discordance", "0.9"], "No model has"),
        (["--n", "100", "--gain", "a"], "could not convert"),
    ],
)
def test_bad_arguments_are_told(arguments: list[str], message: str, capsys: pytest.CaptureFixture) -> None:
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


def test_a_finished_run_gives_its_own_design(tmp_path: Path) -> None:
    from outcome_tables import outcomes_to_table

    from audit.calibrate import observed_design
    from audit.sweep.columns import Outcome
    from audit.synthetic import synthetic_outcomes

    write = pytest.importorskip("pyarrow.ipc").new_file
    rows: list[Outcome] = synthetic_outcomes(400, (1, 2), rng=np.random.default_rng(0), draws="nested")
    (tmp_path / "shards").mkdir()
    table = outcomes_to_table(rows)
    with write(tmp_path / "shards" / "part-0.arrow", table.schema) as sink:
        sink.write_table(table)
    (found,) = observed_design(tmp_path)
    assert (found.n, found.routers, found.draws, found.clean_replicates) == (400, 2, "nested", 2)
    assert found.clean_accuracy == pytest.approx(0.7, abs=0.08)
    assert found.discordance == pytest.approx(0.2, abs=0.08)


def test_partial_is_what_a_pool_gives() -> None:
    """`run` is called as run(function, tasks), as `map` and a pool's map are."""
    effort = replace(EFFORT, clean=10, power=5, coverage=4)
    design = replace(SMALL, n=30, routers=2)
    assert calibrate(design, effort=effort, run=partial(map)) == calibrate(design, effort=effort)
