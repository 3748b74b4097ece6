"""A small calibration, and the figures that ship."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy
from commands_here import calibrate as main
from outcome_tables import finished_run
from synthetic import synthetic_outcomes

from audit.core.errors import DataError
from audit.core.number_text import percent
from audit.core.package_data import shipped_table
from audit.core.records import Setting
from audit.judging.simulated import calibrate, rate
from audit.judging.world import World
from audit.sweep.analyse import nearest
from audit.sweep.calibrate import observed_design, of_designs, of_worlds
from audit.sweep.design import Arm, SweepThresholds
from audit.sweep.simulation import SHIPPED, WORLDS, Design, simulate

SMALL = Design(n=100, routers=3)
# 1,000 questions, r=1..3, independent draws, nothing repeated: 884 of 1,000 models with a gain of
# 10 points are an excess and 96 uncontrolled, by `python -m audit calibrate --n 1000 --routers 1..3
# --simulations 2000 --seed 1`. The standard error is 1.0 points. All other designs of that size
# repeat clean runs or have more router counts.
FOUND_OF_10_POINTS = 0.884


def outcomes(
    design: Design, world: World, total: int, *, seed: int = 42, run=map
) -> dict[str, float]:
    """The rates of so many models, or panels."""
    procedure = of_worlds([("it", design, world)], total * design.panel, seed)
    ((entries, _),) = calibrate(procedure, run)
    return entries[0]["rates"]


def within(rates: dict[str, float], name: str, low: float, high: float) -> bool:
    return low - 3 * rates[f"{name}_se"] <= rates[name] <= high + 3 * rates[f"{name}_se"]


@pytest.mark.long  # many draws
def test_a_small_calibration_has_both_errors() -> None:
    *_, (entries, complete) = calibrate(of_designs([SMALL], clean=30, other=15, seed=42))
    rates = entries[0]["rates"]
    assert complete and len(entries) == 1
    assert within(
        rates, "clean_paper_setting", 0.42, 0.50
    )  # DESIGN's simulation of the paper's rule
    for error in ("clean_excess", "gain_one_r_cleared", "gain_5_cleared"):
        assert within(rates, error, 0.0, 0.05), error
    assert rates["gain_10_excess"] > rates["clean_excess"]
    assert within(rates, "clean_coverage_gain", 0.93, 1.0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("design", "world"),
    [
        (Design(400, 3, "nested", clean_replicates=3), World(clean_loss=0.06)),
        (Design(400, 3, "nested", clean_replicates=3), World(repetition=0.1)),
        (Design(400, 3, "nested", clean_replicates=3), World(shock=0.03)),
        (Design(400, 3, "nested", clean_replicates=3), World(leak=0.15, clean_loss=0.04)),
        (Design(150, 3, "nested", clean_replicates=3, panel=4), World(repetition=0.1)),
    ],
)
def test_no_excess_where_something_else_than_memory_acts(design: Design, world: World) -> None:
    # Of 30 models (or panels) more than five called an excess would be a rate above 5 % with
    # probability .997 .
    assert outcomes(design, world, 30)["any_excess"] <= 5 / 30


def test_a_clean_model_is_cleared_by_its_data_and_one_with_a_gain_is_not() -> None:
    design = Design(1500, 3, "nested", clean_replicates=3)
    assert outcomes(design, World(), 10)["cleared"] >= 0.5
    assert outcomes(design, World(gain_one_r=0.05), 10)["cleared"] <= 1 / 10


def test_a_rate_of_0_or_1_has_the_error_of_one_more_model() -> None:
    assert rate("x", np.zeros(99)) == {"x": 0.0, "x_se": 0.01}  # sqrt(99) / 100 / sqrt(99)
    assert rate("x", np.ones(1)) == {"x": 1.0, "x_se": 0.5}
    assert rate("x", np.repeat([0.0, 1.0], 50))["x_se"] == pytest.approx(0.5 / 99**0.5, abs=1e-4)


def test_the_result_depends_on_the_seed_and_not_on_how_chunks_are_run() -> None:
    design = replace(SMALL, n=40, routers=2)

    def backwards(function, tasks):  # a pool that finishes its chunks in another order
        done = [(k, function(task)) for k, task in reversed(list(enumerate(tasks)))]
        return [result for _, result in sorted(done, key=lambda pair: pair[0])]

    first = outcomes(design, World(), 26, seed=1)
    assert outcomes(design, World(), 26, seed=1, run=backwards) == first
    assert outcomes(design, World(), 26, seed=2) != first


def test_nested_draws_are_correlated_over_r_and_independent_ones_are_not() -> None:
    design = Design(
        n=20_000, routers=2, discordance=0.4
    )  # of at most 0.42: items hardly differ by themselves
    agree = {}
    for draws in ("independent", "nested"):
        cell = simulate(replace(design, draws=draws), World(), np.random.default_rng(0)).cell
        first, second = (cell.row(Setting(Arm.NOISY_REWRITE, r)) for r in (1, 2))
        agree[draws] = float(np.mean(first == second))
    assert agree["independent"] == pytest.approx(0.6, abs=0.02)  # 1 - discordance
    assert agree["nested"] > 0.68


@pytest.mark.parametrize(
    ("world", "arm", "accuracy"),
    [
        (World(gain=0.1), Arm.NOISY_REWRITE, 0.8),
        (World(clean_loss=0.1), Arm.FORWARD_FULL, 0.6),
        (World(helps_weak=0.1), Arm.NOISY_REWRITE, 0.7),
        (World(leak=0.2), Arm.NOISY_REWRITE, 0.7 + 0.2 * 0.3),
        (World(group=10, group_sd=1.0), Arm.DIRECT, 0.7),
    ],
)
def test_a_world_moves_what_it_says(world: World, arm: Arm, accuracy: float) -> None:
    cell = simulate(Design(n=20_000, routers=1), world, np.random.default_rng(3)).cell
    accuracies = {a: float(np.mean(cell.row(next(iter(cell.settings_of(a)))) == 1)) for a in Arm}
    assert accuracies[arm] == pytest.approx(accuracy, abs=0.015)


def test_unread_replies_can_depend_on_the_outcome() -> None:
    world = World(unparsed_wrong=0.05)
    cell = simulate(Design(n=20_000, routers=1), world, np.random.default_rng(0)).cell
    clean, noisy = cell.row(Setting(Arm.FORWARD_FULL, 1)), cell.row(Setting(Arm.NOISY_REWRITE, 1))
    assert not np.any(clean == -1)
    assert np.mean(noisy == -1) == pytest.approx(0.05, abs=0.006)
    assert np.mean(noisy == 1) == pytest.approx(0.7, abs=0.015)  # no right answer was lost


def test_the_shipped_table_meets_the_targets() -> None:
    table = shipped_table("calibration.json")
    designs = [Design(**e["design"]) for e in table["designs"]]
    assert designs == [d for d in SHIPPED if d in designs] and len(designs) >= 13
    for entry in table["designs"]:
        d, r = entry["design"], entry["rates"]
        for name in ("clean_any_excess", "gain_one_r_cleared", "gain_5_cleared"):
            assert r[name] <= 0.05 + 2 * r[f"{name}_se"], (d, name)
        for name in ("clean_coverage_gain", "clean_coverage_mean", "clean_coverage_simultaneous"):
            assert 0.93 - 2 * r[f"{name}_se"] <= r[name], (d, name)
        if d["n"] >= 1000 and d["panel"] == 1:
            # If so many are found in truth, fewer than the bound are by chance in less than 5 % of
            # tables: 24 of 30.
            truth = FOUND_OF_10_POINTS if (d["routers"], d["clean_replicates"]) == (3, 1) else 0.9
            bound = scipy.stats.binom.ppf(0.05, r["gain_10_simulations"], truth)
            assert round(r["gain_10_excess"] * r["gain_10_simulations"]) >= bound, d
        printed = nearest(table, Design(**d))
        assert printed is not None and printed.design == d
        assert (
            percent(r["clean_excess"]) in printed.sentence
            and "false negative" in printed.sentence.lower()
        )
        assert "(this run: " not in printed.sentence
    wider = nearest(
        table, Design(**d), thresholds=replace(SweepThresholds(), effect_of_interest=0.1).to_dict()
    )
    assert wider is not None and "effect_of_interest 0.05 (this run: 0.1)." in wider.sentence
    wide = next(
        e["rates"]
        for e in table["designs"]
        if Design(**e["design"]) == Design(1000, 9, "nested", 3)
    )
    assert wide["clean_cleared"] >= 0.5
    simulated = [e["name"] for e in table["worlds"]]
    assert simulated == [name for name, _, _ in WORLDS if name in simulated]
    null = [
        e
        for e in table["worlds"]
        if not e["name"].startswith("+") and e["world"].get("grouped", True)
    ]
    for e in null:
        assert e["rates"]["any_excess"] <= 0.05 + 2 * e["rates"]["any_excess_se"], e["name"]
    documented = (Path(__file__).resolve().parents[2] / "docs/findings/calibration.md").read_text(
        encoding="utf-8"
    )
    assert f"{FOUND_OF_10_POINTS:.1%} of 1,000".replace("%", " %") in documented
    missing = documented.partition("## Not simulated")[2].partition("\n## ")[0]
    assert [
        name for name, _, _ in WORLDS if name not in simulated and f"- {name}\n" not in missing
    ] == []
    assert missing.count("- the design of") == len(SHIPPED) - len(designs)


@pytest.mark.long  # five CPU seconds
def test_the_command_writes_the_table(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "new" / "er" / "table.json"
    assert main(["--n", "30,40", "--routers", "1..2", "--simulations", "4", "--out", str(out)]) == 0
    table = json.loads(out.read_text(encoding="utf-8"))
    assert [e["design"]["n"] for e in table["designs"]] == [30, 40] and table["worlds"] == []
    assert "gain_10_excess" in table["designs"][0]["rates"]
    assert "| 30 | 1..2 | independent |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--n", "1"], "at least 2"), (["--n", "100", "--routers", "3..5"], "1..9")],
)
def test_bad_arguments_are_told(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture
) -> None:
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


def test_no_model_has_answers_that_change_more_often_than_luck() -> None:
    with pytest.raises(DataError, match="Expected 0 < accuracy < 1"):
        simulate(replace(SMALL, discordance=0.9), World(), np.random.default_rng(0))


def test_a_finished_run_gives_its_own_design(tmp_path: Path) -> None:
    rows = synthetic_outcomes(400, (1, 2), rng=np.random.default_rng(0), draws="nested")
    (observed,) = observed_design(finished_run(tmp_path / "run", rows))
    assert (observed.n, observed.routers, observed.draws, observed.clean_replicates) == (
        400,
        2,
        "nested",
        2,
    )
    assert observed.direct and observed.ensemble and observed.panel == 1
    assert observed.clean_accuracy == pytest.approx(0.7, abs=0.08)
    assert observed.discordance == pytest.approx(0.2, abs=0.08)
