"""verdict.json: valid, byte-identical, independent of row order; thresholds as documented; the
self-test."""

import json
from dataclasses import replace
from functools import partial
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
import sweep_cells
from outcome_tables import Outcome, analyse_outcomes, pair
from synthetic import Faults

from audit.core.errors import ConfigError, DataError
from audit.judging.result import json_text
from audit.sweep.analyse import analyse, nearest
from audit.sweep.design import Arm, SweepThresholds
from audit.sweep.simulation import Design
from audit.sweep.vocabulary import SelfTest

RESAMPLES = 299
SCHEMA = json.loads((files("audit.judging") / "verdict.schema.json").read_text(encoding="utf-8"))


rows = partial(sweep_cells.rows, n=80)
DESIGN = {
    "draws": "independent",
    "clean_replicates": 1,
    "noisy_replicates": 1,
    "clean_accuracy": 0.7,
    "discordance": 0.2,
    "panel": 1,
}
RATES = {
    "clean_excess": 0.01,
    "clean_excess_se": 0.002,
    "clean_paper_model": 0.8,
    "gain_one_r_cleared": 0.03,
    "clean_cleared": 0.6,
    "gain_5_excess": None,
    "gain_10_excess": 0.5,
}
TABLE = {
    "designs": [
        {"design": {"n": n, "routers": r, **DESIGN}, "rates": RATES}
        for n in (100, 1000)
        for r in (3, 9)
    ]
}


@pytest.mark.parametrize(
    "outcomes",
    [
        rows() + rows(model="other", seed=4, gain=0.2),
        rows(with_direct=False, with_ensemble=False, clean_replicates=1, parse_rate=0.5),
        rows(faults=Faults(leak=0.3, errors=0.1, truncated=0.1), group_size=4, draws="nested"),
        [o for o in rows() if o.arm == Arm.DIRECT],
        rows(n=3, reading="option_text", n_options=2),
        [replace(o, answer=None, correct=None, parsed=False, response="?") for o in rows(n=40)],
    ],
    ids=["panel", "bare", "faulty", "direct only", "three questions", "nothing readable"],
)
def test_verdict_json_is_valid_whatever_the_run(outcomes: list[Outcome]) -> None:
    verdict = analyse_outcomes(
        outcomes,
        n_resamples=RESAMPLES,
        calibration=TABLE,
        runs=[{"fingerprint": "f", "models": []}],
    )
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(verdict.to_dict(), SCHEMA)
    assert len(verdict.results) == len({(o.model, o.benchmark) for o in outcomes})


def test_same_rows_and_seed_give_the_same_bytes_in_any_row_order() -> None:
    outcomes = rows(faults=Faults(leak=0.1, unparsed=0.05)) + rows(model="b", seed=9)
    first = json_text(analyse_outcomes(outcomes, n_resamples=RESAMPLES, seed=7).to_dict())
    assert json_text(analyse_outcomes(outcomes, n_resamples=RESAMPLES, seed=7).to_dict()) == first
    order = np.random.default_rng(0).permutation(len(outcomes))
    assert (
        json_text(
            analyse_outcomes([outcomes[i] for i in order], n_resamples=RESAMPLES, seed=7).to_dict()
        )
        == first
    )
    assert json_text(analyse_outcomes(outcomes, n_resamples=RESAMPLES, seed=8).to_dict()) != first


def test_a_model_keeps_its_intervals_when_the_panel_grows() -> None:
    # one clean run and no ensemble control: no run variance, which is the panel's
    options = {"clean_replicates": 1, "with_ensemble": False}
    enough = 999  # permutations for both panels
    alone = analyse_outcomes(rows(**options), n_resamples=enough).results[0]
    together = analyse_outcomes(
        rows(**options) + rows(model="zz", seed=5, **options), n_resamples=enough
    ).results[0]
    assert (alone.effect, alone.p_value, alone.contrasts) == (
        together.effect,
        together.p_value,
        together.contrasts,
    )


def test_contrasts_with_and_without_leaks_bounds_and_control_benchmark() -> None:
    outcomes = rows(faults=Faults(leak=0.1, unparsed=0.02)) + rows(benchmark="fresh", seed=8)
    cells = analyse_outcomes(outcomes, n_resamples=RESAMPLES, control_benchmark="fresh").results
    first = next(c for c in cells if c.benchmark == "synthetic")
    names = {c.name for c in first.contrasts}
    ends = ("", "_without_leak", "_adverse", "_favourable")
    assert names == {
        *(f"noisy_vs_{c}{end}" for c in ("clean", "direct", "ensemble") for end in ends),
        "noisy_vs_clean_with_leak",
        "clean_vs_direct",
        "ensemble_vs_clean",
        "noisy_vs_clean_unparsed_right",
        "noisy_vs_clean_unparsed_wrong",
        "score_gap",
        "difference_in_differences",
        "difference_in_differences_log_odds",
        "difference_in_differences_log_wrong",
    }
    with pytest.raises(DataError, match=r"control benchmark 'none'.*fresh, synthetic"):
        analyse_outcomes(outcomes, n_resamples=RESAMPLES, control_benchmark="none")


def test_every_fault_is_caught_in_a_healthy_run() -> None:
    tests = analyse_outcomes(rows(n=200), n_resamples=RESAMPLES).self_test
    gates = [
        "above_chance",
        "parseability",
        "manipulation_reached_worker",
        "pairing",
        "above_chance",
    ]
    assert [(t.expected_gate, t.status) for t in tests] == [(gate, "caught") for gate in gates]


def test_the_self_test_claims_nothing_it_cannot_show() -> None:
    def by_fault(outcomes: list[Outcome], texts: bool = True) -> dict[str, SelfTest]:
        given = outcomes if texts else pair(outcomes)
        analysis = (analyse_outcomes if texts else analyse)(given, n_resamples=RESAMPLES)
        return {t.fault: t for t in analysis.self_test}

    broken = by_fault(rows(n=200, parse_rate=0.5))
    assert broken["half of the answers made unreadable"].status == "already_failing"
    assert broken["half of the answers made unreadable"].caught is None
    bare = by_fault(rows(n=200), texts=False)
    assert bare["the clean prompt sent in place of every noisy one"].status == "not_showable"
    assert bare["every gold label moved to the next option"].status == "not_showable"
    few = by_fault(rows(n=10))
    assert few["question ids of the noisy arm shuffled"].status == "not_showable"


@pytest.mark.parametrize(("name", "value"), [("alpha", 1.5), ("power", 0), ("noop_share_max", -1)])
def test_thresholds_outside_their_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=name):
        SweepThresholds.from_mapping({name: value})


def test_the_nearest_calibrated_design_is_printed() -> None:
    closest = nearest(TABLE, Design(700, 8, clean_accuracy=0.72, discordance=0.22))
    assert (closest.design["n"], closest.design["routers"]) == (1000, 9)
    assert (
        "1 % (± 0.2 %)" in closest.sentence
        and "80 %" in closest.sentence
        and "10 points in 50 %" in closest.sentence
    )
    assert "it clears 3 %" in closest.sentence and "It clears 60 %" in closest.sentence
    assert nearest(None, Design(700, 8)) is None


@pytest.mark.parametrize(
    ("far", "clusters"),
    [
        ({"n": 5000}, None),
        ({"clean_accuracy": 0.99, "discordance": 0.02}, None),
        ({}, 12),
        ({"panel": 60, "n": 500}, 0),
    ],
)
def test_no_rates_are_quoted_of_a_design_that_is_not_near(
    far: dict[str, float], clusters: int | None
) -> None:
    closest = nearest({"designs": TABLE["designs"][3:]}, replace(Design(900, 9), **far), clusters)
    assert closest is not None and closest.rates == {} and "--observed RUN_DIR" in closest.sentence


def test_the_slope_is_that_of_the_accuracies_over_r_where_there_are_several() -> None:
    outcomes = rows(n=200)
    (cell,) = analyse_outcomes(outcomes, n_resamples=RESAMPLES).results
    noisy = [o for o in outcomes if o.arm == Arm.NOISY_REWRITE]
    routers = sorted({o.routers for o in noisy})
    accuracy = [np.mean([o.correct for o in noisy if o.routers == r]) for r in routers]
    assert cell.slope.estimate == pytest.approx(np.polyfit(routers, accuracy, 1)[0])
    assert cell.slope.ci_low < cell.slope.estimate < cell.slope.ci_high
    one_r = [o for o in outcomes if o.arm != Arm.NOISY_REWRITE or o.routers == 1]
    assert analyse_outcomes(one_r, n_resamples=RESAMPLES).results[0].slope is None
