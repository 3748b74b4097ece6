"""Each verdict is reached by a model made for it, and not by its neighbours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audit.records import Setting
from audit.statistics.paired import CellOutcomes, pair_outcomes
from audit.sweep.columns import Outcome
from audit.sweep.design import Arm
from audit.synthetic import Faults, outcome_columns, synthetic_outcomes
from audit.verdict.analysis import analyse, credible
from audit.verdict.decide import decide
from audit.verdict.evidence import measure
from audit.verdict.result import CellVerdict, Verdict
from audit.verdict.thresholds import Thresholds

RESAMPLES = 499
ROUTERS = (1, 2, 3)
MULTI = {1: 0.0, 2: 0.12, 3: 0.12}  # an effect of several messages: none with one


def rows(n: int = 1200, seed: int = 3, **options: Any) -> list[Outcome]:
    return synthetic_outcomes(n, ROUTERS, rng=np.random.default_rng(seed), **options)


def cell_of_rows(outcomes: list[Outcome]) -> CellOutcomes:
    (cell,) = pair_outcomes(outcome_columns(outcomes))
    return cell


def judged(outcomes: list[Outcome], texts: bool = False) -> CellVerdict:
    """The verdict on the first cell; the text gates only where the test is about them (they take most of the time)."""
    return analyse(outcome_columns(outcomes), outcomes if texts else None, n_resamples=RESAMPLES).cells[0]


@pytest.mark.parametrize(
    ("expected", "options"),
    [
        (Verdict.NO_EXCESS, {}),
        (Verdict.UNDERPOWERED, {"n": 100}),
        (Verdict.EXCESS, {"gain": 0.12}),
        (Verdict.EXCESS_EXPLAINED, {"gain": MULTI, "ensemble_gain": MULTI}),
        (Verdict.BRITTLE, {"gain": -0.2}),
        (Verdict.WITHHELD, {"parse_rate": 0.8}),
    ],
)
def test_each_verdict_is_reached(expected: Verdict, options: dict[str, Any]) -> None:
    cell = judged(rows(**options))
    assert cell.verdict == expected, cell.reasons
    assert "synthetic" in cell.headline
    assert cell.reasons


def test_an_excess_in_a_small_sample_is_not_called_underpowered() -> None:
    cell = judged(rows(n=100, gain=0.25))
    assert cell.verdict == Verdict.EXCESS
    assert next(g for g in cell.gates if g.name == "enough_data").status == "fail"


def test_a_gain_that_only_wins_back_what_the_clean_router_lost_is_no_excess() -> None:
    # 2000 questions. direct: 1480 right. clean: 80 of these lost. noisy: 1480 right as well, 100 others than direct.
    # So noisy - clean = 80 / 2000 = 0.04 and beyond chance, and noisy - direct = (100 - 100) / 2000 = 0 exactly.
    n = 2000
    direct, clean, noisy = (np.zeros(n, dtype=np.int8) for _ in range(3))
    direct[:1480] = 1
    clean[80:1480] = 1
    noisy[:1380] = 1
    noisy[1480:1580] = 1
    settings = (Setting(Arm.DIRECT, 0), Setting(Arm.FORWARD_FULL, 1), Setting(Arm.NOISY_REWRITE, 1))
    cell = CellOutcomes(
        "m", "b", "independent", "letter", tuple(f"{i:04d}" for i in range(n)), np.arange(n), np.full(n, 4), settings,
        np.stack([direct, clean, noisy]),
    )  # fmt: skip
    evidence = measure(cell, Thresholds(), rng=np.random.default_rng(0), n_resamples=RESAMPLES)
    assert evidence.clean.gain[0] == pytest.approx(0.04) and evidence.clean.family_p < 0.01
    assert evidence.direct is not None and evidence.direct.gain[0] == 0
    decision = decide(evidence, (), Thresholds())
    assert decision.verdict == Verdict.NO_EXCESS
    assert "not the original question" in decision.reasons[0]
    # Without the direct arm nothing would have told the two apart.
    assert decide(replace(evidence, direct=None), (), Thresholds()).verdict == Verdict.EXCESS


def test_no_finding_where_the_interval_holds_zero() -> None:
    cell = cell_of_rows(rows(n=600, gain=0.12))
    evidence = measure(cell, Thresholds(), rng=np.random.default_rng(0), n_resamples=RESAMPLES)
    assert decide(evidence, (), Thresholds()).verdict == Verdict.EXCESS
    doubtful = replace(evidence, clean=replace(evidence.clean, low=np.full(3, -0.001)))
    decision = decide(doubtful, (), Thresholds())
    assert decision.verdict != Verdict.EXCESS and "still holds zero" in decision.reasons[0]


def test_ensembling_explains_a_gain_only_on_evidence() -> None:
    # Noisy and the control both gain: explained. The control gains nothing, and noisy is not far enough above it to
    # tell: undecided, which is not an explanation.
    cell = cell_of_rows(rows(n=600, gain=MULTI, ensemble_gain=MULTI))
    evidence = measure(cell, Thresholds(), rng=np.random.default_rng(0), n_resamples=RESAMPLES)
    assert evidence.ensemble is not None and evidence.ensemble_gain is not None
    explained = decide(evidence, (), Thresholds())
    assert explained.verdict == Verdict.EXCESS_EXPLAINED and "beat the clean baseline too" in explained.reasons[-2]

    none = replace(evidence.ensemble_gain, low=np.full(2, -0.1))
    apart = replace(evidence, ensemble_gain=none, ensemble=replace(evidence.ensemble, high=np.full(3, 0.08)))
    undecided = decide(apart, (), Thresholds())
    assert undecided.verdict == Verdict.UNDERPOWERED and "cannot tell deletion from repetition" in undecided.reasons[-1]

    close = replace(evidence, ensemble_gain=none, ensemble=replace(evidence.ensemble, high=np.full(3, 0.04)))
    decision = decide(close, (), Thresholds())
    assert decision.verdict == Verdict.EXCESS_EXPLAINED and "at most 4.0 points" in decision.reasons[-1]


def test_an_excess_made_of_leaks_is_withheld_and_one_beyond_them_is_not() -> None:
    # The leaking questions alone gain: answers of the noisy arm are right wherever a message states the gold option.
    plain = rows(n=400, seed=4, faults=Faults(leak=0.3))
    leaked = [
        _right(o) if o.arm == Arm.NOISY_REWRITE and any("correct answer" in m for m in o.router_messages) else o
        for o in plain
    ]
    cell = judged(leaked, texts=True)
    assert cell.verdict == Verdict.WITHHELD
    assert "answers away" in cell.headline
    assert judged(rows(n=400, seed=4, gain=0.2, faults=Faults(leak=0.15)), texts=True).verdict == Verdict.EXCESS


def test_controls_that_were_not_run_are_named_with_what_they_leave_open() -> None:
    bare = judged(rows(n=100, with_direct=False, with_ensemble=False, clean_replicates=1))
    assert [c.split(":")[0] for c in bare.controls_missing] == ["direct", "ensemble control", "clean replicates"]
    assert len(bare.cannot_exclude) == 3
    assert not bare.noise_floor.available
    full = judged(rows(n=100))
    assert full.controls_missing == () and full.cannot_exclude == ()
    assert full.noise_floor.available and full.noise_floor.rejection_rate is not None


def test_a_run_without_a_clean_arm_is_withheld_and_says_why() -> None:
    noisy = [o for o in rows(n=60) if o.arm == Arm.NOISY_REWRITE]
    cell = judged(noisy)
    assert cell.verdict == Verdict.WITHHELD
    assert cell.effect is None and "forward_full" in cell.reasons[0]


def test_holm_over_the_panel_can_turn_a_lone_finding_away() -> None:
    # A model that is significant alone (0.01 < p <= 0.05), among nine clean ones: Holm multiplies its p by up to ten.
    for seed in range(40):
        mine = rows(n=100, gain=0.14, seed=seed, with_ensemble=False)
        alone = judged(mine)
        if alone.verdict == Verdict.EXCESS and alone.p_value is not None and alone.p_value > 0.01:
            break
    assert alone.verdict == Verdict.EXCESS
    panel = mine + [o for k in range(9) for o in rows(n=100, seed=100 + k, model=f"clean-{k}", with_ensemble=False)]
    cells = analyse(outcome_columns(panel), n_resamples=RESAMPLES).cells
    together = {c.model: c for c in cells}["synthetic"]
    assert together.p_value == alone.p_value  # its own randomness does not depend on the panel
    assert together.p_adjusted is not None and together.p_adjusted > 0.05
    assert together.verdict == Verdict.UNDERPOWERED


def test_credibility_is_the_share_of_the_score_that_survives_the_largest_excess() -> None:
    t = Thresholds()
    # (0.75 - 0.25) above chance, 0.05 of it perhaps memory: 1 - 0.05 / 0.5 = 0.9
    assert credible(Verdict.NO_EXCESS, 0.75, 0.25, 0.05, False, t) == (pytest.approx(0.9), "high")
    assert credible(Verdict.NO_EXCESS, 0.75, 0.25, 0.05, True, t)[1] == "moderate"
    assert credible(Verdict.UNDERPOWERED, 0.75, 0.25, 0.05, False, t)[1] == "moderate"
    assert credible(Verdict.EXCESS, 0.75, 0.25, 0.05, False, t)[1] == "low"
    assert credible(Verdict.NO_EXCESS, 0.75, 0.25, 0.4, False, t) == (pytest.approx(0.2), "low")
    assert credible(Verdict.WITHHELD, 0.75, 0.25, 0.05, False, t) == (None, "none")


def _right(outcome: Outcome) -> Outcome:
    return replace(outcome, answer=outcome.gold, correct=True)
