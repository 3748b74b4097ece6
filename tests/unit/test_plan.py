import json
import math
import re
from pathlib import Path

import pytest
from typed_here import typed

from audit.config.audits import AUDITS, part_of
from audit.config.base import load_group
from audit.config.dry_run import CallCounts
from audit.config.plan_cost import PlannedCalls, PlannedCost, Tokens
from audit.core.number_text import percent
from audit.core.package_data import shipped_table
from audit.engines.config import ModelConfig
from audit.statistics.power import mcnemar_power
from audit.sweep.config import SweepConfig, design_of
from audit.sweep.design import SweepThresholds
from audit.sweep.gates import enough_data
from audit.sweep.plan import PLANNED_DISCORDANCE, Plan, describe, make_plan
from audit.sweep.replay import reachable
from audit.sweep.size import needed, repeated

THRESHOLDS = SweepThresholds()


@pytest.mark.parametrize("audit", AUDITS)
def test_every_audit_has_a_plan_for_people_and_for_programs(audit: str):
    words = ("plan", f"audit={audit}", "model=scripted", "n=6")
    read, data = typed(*words), typed(*words, "--json")
    assert (read.code, data.code) == (0, 0)
    plans = json.loads(data.out)
    assert plans["run_dir"] in read.out and f"/{audit}-" in plans["run_dir"]
    assert (
        plans["failed"] == {}
        and len(plans["plans"]) == 1
        and plans["plans"][0]["cost"]["basis"] == ""
    )


def test_a_plan_says_what_a_run_would_say_of_the_questions(tmp_path: Path):
    rows = [
        "question,A,B,answer",
        *(f"What is {i // 2} + 1?,{i // 2 + 1},x,{'AB'[i % 2]}" for i in range(60)),
    ]
    (tmp_path / "exam.csv").write_text("\n".join(rows))
    out = typed("plan", f"data={tmp_path / 'exam.csv'}", "model=scripted", "n=all", "r=1").out
    notes = [line for line in out.splitlines() if line.startswith("note: exam:")]
    assert [re.findall(r"\d+", note) for note in notes] == [
        ["30", "60"],
        ["30"],
    ]  # repeated; with another key


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (["audit=suite", "demo"], "audit suite demo plan=true"),
        (["audit=plant"], "audit plant plan=true"),
    ],
)
def test_what_is_no_audit_but_plans_is_named(words: list[str], instead: str):
    done = typed("plan", *words)
    assert done.code == 2 and done.err.strip().endswith(instead)


def test_a_form_of_plan_that_is_none_is_refused():
    done = typed("sweep", "model=scripted", "plan=maybe")
    assert done.code == 1 and "maybe" in done.err


def planned(
    n: int, r: str = "1..9", runs: tuple[int, int] = (3, 2), available: int = 100_000, **also: int
) -> tuple[Plan, str]:
    config = SweepConfig(
        model={"m": ModelConfig(name="m", engine="scripted")},
        protocol=load_group("protocol", "song2026"),
        r=r,
        n=n,
        clean_replicates=runs[0],
        noisy_replicates=runs[1],
    )
    design = design_of(config)
    calls = PlannedCalls("m", "b", n, Tokens(n, n), PlannedCost(None, None, None, "USD", ""))
    counts = CallCounts(calls, n, {}, 0, {})
    plan = make_plan(counts, design, thresholds=THRESHOLDS, **also)
    return plan, "\n".join(describe(counts, plan, design, THRESHOLDS, available))


def power_of(gain: float, n: int, n_tests: int) -> float:
    """At 20 % of items changing, each of n_tests at a one-sided level of .05 / 2 / n_tests."""
    improve, degrade = (PLANNED_DISCORDANCE + gain) / 2, (PLANNED_DISCORDANCE - gain) / 2
    return mcnemar_power(n, improve, degrade, 0.025 / n_tests)


@pytest.mark.parametrize(
    ("r", "panel", "n_tests"), [("1..9", 1, 9), ("1..9", 24, 216), ("3", 12, 12)]
)
def test_the_detectable_gain_just_reaches_the_power_of_the_corrected_test(r, panel, n_tests):
    plan, _ = planned(1000, r, panel=panel)
    # the search stops within 0.00001 of it
    assert power_of(plan.minimum_detectable_gain + 0.0001, 1000, n_tests) > 0.8
    assert power_of(plan.minimum_detectable_gain - 0.0001, 1000, n_tests) < 0.8


def test_a_larger_panel_detects_less_and_says_so():
    single, alone = planned(1000)
    many, together = planned(1000, panel=24)
    assert many.minimum_detectable_gain > single.minimum_detectable_gain
    assert "x 24 cells)" in together and "cells" not in alone


def test_the_questions_that_the_design_needs_are_named():
    plan, text = planned(100)
    assert (
        power_of(0.05, plan.questions_needed, 9)
        >= 0.8
        > power_of(0.05, plan.questions_needed - 1, 9)
    )
    assert text.count(f"{plan.questions_needed:,}") == 2


def test_what_is_run_once_has_the_largest_plausible_shift_that_no_number_of_questions_lessens():
    """Found by simulation: at the gain that was called detectable, 19 % were found (1 / 1 run,
    n=658)."""
    repeated, once, both = (planned(658, "1", runs)[0] for runs in ((3, 2), (3, 1), (1, 1)))
    # 1.96 sqrt(.1 (1/c + 1/k) / n + .02^2 a side that is run once) + .84 sqrt(.1 (1/c + 1/k) / n)
    assert [round(100 * plan.minimum_detectable_gain, 1) for plan in (repeated, once, both)] == [
        5.0,
        6.0,
        8.0,
    ]
    assert (
        both.questions_needed is None
        and planned(100_000, "1", (1, 1))[0].minimum_detectable_gain > 0.05
    )
    assert "no number" in planned(658, "1", (1, 1))[1]
    assert planned(once.questions_needed, "1", (3, 1))[0].minimum_detectable_gain == pytest.approx(
        0.05, abs=1e-4
    )
    endings = [planned(300, "1", runs)[1].splitlines()[-1] for runs in ((3, 2), (3, 1), (1, 1))]
    assert ["replicates=" in line for line in endings] == [
        False,
        True,
        True,
    ] and "clean_replicates=3" in endings[2]


@pytest.mark.parametrize(("runs", "flags"), [((3, 2), ""), ((3, 1), " with noisy_replicates=2")])
def test_what_a_run_is_told_to_ask_is_what_a_design_without_single_runs_needs(runs, flags):
    config = SweepConfig(
        model={"m": ModelConfig(name="m", engine="scripted")},
        protocol=load_group("protocol", "song2026"),
        r="1..3",
        clean_replicates=runs[0],
        noisy_replicates=runs[1],
        benchmark=load_group("benchmark", "elementary"),
    )
    assert repeated(design_of(config).settings) == flags
    assert reachable(config)[1] == (flags and f" (about 863{flags})")
    gate = enough_data(
        0.2, THRESHOLDS, 100, needed(THRESHOLDS, 3), repeated(design_of(config).settings)
    )
    assert gate.numbers["needed"] == 863 and f"863 questions{flags} (" in gate.advice


def test_groups_are_named_only_where_there_are_fewer_than_questions():
    assert "57 groups" in planned(1000, groups=57)[1]
    assert "groups" not in planned(1000, groups=1000)[1]
    assert "groups" not in planned(1000)[1]


def test_so_few_groups_that_no_permutation_can_reject_detect_nothing():
    # one cell: level .025, and 2^-5 = .031 is above it, 2^-6 = .016 below; 24 cells: .00104, 2^-10
    # = .00098 below
    assert math.isnan(planned(1000, groups=5)[0].minimum_detectable_gain)
    assert planned(1000, groups=6)[0].minimum_detectable_gain > 0
    assert math.isnan(planned(1000, groups=9, panel=24)[0].minimum_detectable_gain)
    assert planned(1000, groups=10, panel=24)[0].minimum_detectable_gain > 0
    assert "WARNING: with 5 groups" in planned(1000, groups=5)[1]


def test_too_few_questions_detect_nothing():
    plan, text = planned(5)
    assert math.isnan(plan.minimum_detectable_gain)
    assert "WARNING: with n=5" in text


def test_the_warning_is_last_and_only_where_it_is_due():
    # 1,000 questions do not see 5 points over 9 router counts at this level; 10,000 do
    assert planned(1000)[1].splitlines()[-1].startswith("  WARNING: ")
    assert "WARNING" not in planned(10_000)[1]


def test_no_more_questions_are_advised_than_the_benchmark_has():
    plan, text = planned(208, available=1070)
    assert plan.questions_needed == 1070 and "n to 1,070" in text.splitlines()[-1]
    few = planned(208, "1", available=208)[1].splitlines()[-1]
    assert " 208 " in few and "658" not in few
    # 8.9 points are found with 208 questions, and so are 9
    assert planned(208, "1")[0].minimum_detectable_gain == pytest.approx(0.089, abs=5e-4)
    assert "verdict.effect_of_interest=0.09" in few


def test_the_command_counts_the_models_and_the_groups_of_the_sample(tmp_path: Path):
    rows = [
        {"question": f"{i} + 1?", "choices": ["0", str(i + 1)], "answer": 1, "part": i % 12}
        for i in range(120)
    ]
    (tmp_path / "exam.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = typed(
        "plan",
        "model=[scripted,openai_compatible]",
        "benchmark=mcq_file",
        f"benchmark.path={tmp_path / 'exam.jsonl'}",
        "benchmark.group_column=part",
        "n=all",
        "model.openai_compatible.endpoints=[{url: 'http://127.0.0.1:8000/v1', model: m}]",
    )
    assert done.code == 0, done.err
    assert done.out.count("form 12 groups (") == 2  # once a model
    assert done.out.count("x 2 cells)") == 2


def test_what_an_engine_needs_is_planned_and_nothing_is_started():
    words = [
        "model=smollm2_135m",
        "benchmark=elementary",
        "n=5",
        "r=1",
        "model.smollm2_135m.on_cpus=false",
    ]
    done = typed("plan", "--json", *words, "cluster.num_gpus=0")
    assert done.code == 0, done.err
    assert json.loads(done.out)["engines"]["smollm2_135m"].startswith(
        "WARNING: Model smollm2_135m needs 1 GPU"
    )
    done = typed("plan", "--json", *words, "cluster.num_gpus=2")
    assert json.loads(done.out)["engines"]["smollm2_135m"] == (
        "Model smollm2_135m needs 1 GPU; its size is not known."
    )


@pytest.mark.parametrize(
    ("audit", "words", "rates"),
    [
        ("sweep", [], "clean_excess"),
        ("perturb", ["benchmark=elementary"], "clean_unknown"),
        ("memory", ["benchmark=elementary", "n=all"], "clean"),
    ],
)
def test_a_plan_quotes_the_rates_that_a_verdict_quotes(audit: str, words: list[str], rates: str):
    """The plan reads the table of the calibration: the rate of its nearest design stands in it."""
    table = shipped_table(part_of(audit, "analyse").JUDGE.shipped)
    out = typed("plan", f"audit={audit}", "model=scripted", *words).out
    (line,) = [line for line in out.splitlines() if "calibrated design" in line]
    quoted = [e for e in table["designs"] if f"{percent(e['rates'][rates])} (±" in line]
    assert quoted, line
