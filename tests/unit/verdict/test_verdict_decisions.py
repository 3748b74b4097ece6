"""Each verdict is reached by a model made for it, and not by its neighbours."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from outcome_tables import honest_of, pair, texts_of
from sweep_cells import CLEAN, RESAMPLES, ensemble, judged, measured, noisy, rows
from synthetic import Faults

from audit.judging.result import Status, because
from audit.sweep.analyse import analyse, category, share_left
from audit.sweep.decide import Corrected, Decision, decide, over_panel
from audit.sweep.design import Arm, SweepThresholds, not_run
from audit.sweep.evidence import Reading
from audit.sweep.texts import BLIND
from audit.sweep.vocabulary import VERDICTS, Verdict

MULTI = {1: 0.0, 2: 0.12, 3: 0.12}  # an effect of several messages: none with one


@pytest.mark.parametrize(
    ("expected", "options"),
    [
        (Verdict.NO_EXCESS, {"n": 2000}),
        (Verdict.UNDERPOWERED, {"n": 100}),
        (Verdict.EXCESS, {"gain": 0.12}),
        (Verdict.EXCESS, {"n": 100, "gain": 0.25}),  # few questions, and not called underpowered
        (Verdict.UNCONTROLLED, {"gain": MULTI, "with_ensemble": False}),
        (Verdict.UNCONTROLLED, {"gain": 0.12, "with_direct": False}),
        (Verdict.EXCESS_EXPLAINED, {"n": 3000, "gain": MULTI, "ensemble_gain": MULTI}),
        (Verdict.NO_EXCESS, {"gain": -0.2}),  # a fall under noise is expected
        (Verdict.WITHHELD, {"parse_rate": 0.8}),
    ],
)
def test_each_verdict_is_reached(expected: Verdict, options: dict[str, Any]) -> None:
    (cell,) = judged(rows(**{"n": 1200, **options}))
    assert cell.verdict == expected, cell.reasons
    assert "synthetic" in cell.headline
    assert cell.decision.reasons
    few = next(gate for gate in cell.gates if gate.name == "enough_data")
    assert (few.status == Status.FAIL) == (expected in (Verdict.UNDERPOWERED, Verdict.WITHHELD))
    assert VERDICTS[cell.verdict].grade == cell.grade
    noted = [reason for reason in cell.decision.reasons if reason.code == "falls"]
    assert [note.numbers["drop"] for note in noted] == [-cell.effect.mean_gain] * (
        options.get("gain") == -0.2
    )
    if expected == Verdict.NO_EXCESS:  # which does not claim that the score is free of memory
        assert BLIND in cell.headline and because("blind") in cell.decision.reasons


def test_no_finding_where_the_interval_holds_zero() -> None:
    evidence = measured(*pair(rows(600, gain=0.12)))
    assert decide(evidence, (), SweepThresholds()).verdict == Verdict.EXCESS
    low = replace(evidence.clean, low=np.full(3, -0.001))
    doubtful = replace(evidence, plain=replace(evidence.plain, clean=low))
    decision = decide(doubtful, (), SweepThresholds())
    assert decision.verdict != Verdict.EXCESS and decision.reasons[0].code == "interval_holds_zero"


def test_ensembling_explains_a_gain_only_on_evidence() -> None:
    # Noisy and the control both gain: explained where noisy can be above the control by no more
    # than the effect of interest at every r, undecided (which is not an explanation) where it can
    # be above it by more.
    evidence = measured(*pair(rows(1500, gain=MULTI, ensemble_gain=MULTI)))
    control = evidence.plain.ensemble
    assert control is not None and evidence.ensemble_gain is not None

    def limited(high: float) -> Reading:
        limits = np.full_like(control.upper, high)
        return replace(evidence.plain, ensemble=replace(control, upper=limits))

    def with_limits(
        high: float, corrected: Corrected | None = None, favourable: Reading | None = None
    ) -> Decision:
        return decide(
            replace(evidence, plain=limited(high), favourable=favourable),
            (),
            SweepThresholds(),
            corrected,
        )

    explained = with_limits(0.04)
    assert (
        explained.verdict == Verdict.EXCESS_EXPLAINED
        and explained.reasons[-2].code == "ensemble_gains"
    )
    assert explained.reasons[-1] == because("ensemble_bounds", limit=0.04, effect=0.05)
    # one control is tested at alpha / cells: in a panel so large that this is below its p, nothing
    # is explained
    alone = over_panel([evidence])[0]
    p = float(evidence.plain.adjusted(evidence.clean.routers, ensemble=False).min())
    many = replace(alone, cells=int(0.05 / p) + 1)
    assert with_limits(0.04, alone).verdict == Verdict.EXCESS_EXPLAINED
    assert with_limits(0.04, many).verdict != Verdict.EXCESS_EXPLAINED
    undecided = with_limits(0.08)
    assert undecided.verdict == Verdict.UNDERPOWERED
    assert undecided.reasons[-1] == because("may_beat_ensemble", limit=0.08)
    # as read it is explained; not where unparsed replies are held for a gain over the control
    assert with_limits(0.04, favourable=limited(0.04)).verdict == Verdict.EXCESS_EXPLAINED
    assert with_limits(0.04, favourable=limited(0.08)).verdict == Verdict.UNDERPOWERED


def test_an_excess_made_of_leaks_is_withheld_and_one_beyond_them_is_not() -> None:
    # The leaking questions alone gain: answers of the noisy arm are right wherever a message states
    # the gold option.
    plain = rows(n=400, seed=4, faults=Faults(leak=0.3))
    leaked = [
        replace(o, answer=o.gold, correct=True)
        if o.arm == Arm.NOISY_REWRITE and any("correct answer" in m for m in o.router_messages)
        else o
        for o in plain
    ]
    (cell,) = judged(leaked, texts=texts_of(leaked))
    assert cell.verdict == Verdict.WITHHELD
    assert (
        cell.decision.reasons[0].code == "gone_without_leaks" or cell.decision.gate == "answer_leak"
    )
    outcomes = rows(400, seed=4, gain=0.2, faults=Faults(leak=0.15))
    assert judged(outcomes, texts=texts_of(outcomes))[0].verdict == Verdict.EXCESS


def test_controls_that_were_not_run_are_named_with_what_they_leave_open() -> None:
    alone = pair(rows(n=100, with_direct=False, with_ensemble=False, clean_replicates=1))
    assert not_run(alone[0].settings, referred=False) == [
        because("direct"),
        because("ensemble", routers=[2, 3]),
        because("clean_replicates", runs=1),
        because("noisy_replicates"),
        because("hint_reference"),
    ]
    settings = [CLEAN, ensemble(2), noisy(1), noisy(2), noisy(3)]
    assert because("ensemble_at", routers=[3]) in not_run(settings, referred=False)
    (bare,) = analyse(alone, n_resamples=RESAMPLES).results
    assert len(bare.cannot_exclude) == len(bare.controls_missing) == 5
    assert not bare.noise_floor.available
    (full,) = judged(rows(n=100))
    assert not_run(pair(rows(n=100))[0].settings, referred=True) == [because("noisy_replicates")]
    assert len(full.controls_missing) == 1
    assert full.noise_floor.available and full.noise_floor.rejection_rate is not None


def test_a_run_without_a_clean_arm_is_withheld_and_says_why() -> None:
    (cell,) = judged([o for o in rows(n=60) if o.arm == Arm.NOISY_REWRITE])
    assert cell.verdict == Verdict.WITHHELD
    assert cell.effect is None and cell.decision.reasons[0].code == "not_comparable"


@pytest.mark.long  # up to 40 draws, 2,400 permutations each
def test_holm_over_the_panel_can_turn_a_lone_finding_away() -> None:
    # A model that is significant alone (0.01 < p <= 0.05), among nine clean ones: Holm multiplies
    # its p by up to ten.
    enough = 2_400  # permutations for ten cells
    for seed in range(40):
        mine = rows(n=150, gain=0.14, seed=seed)
        alone = analyse(pair(mine), n_resamples=enough, references=honest_of(pair(mine))).results[0]
        if alone.verdict == Verdict.EXCESS and alone.p_value is not None and alone.p_value > 0.01:
            break
    assert alone.verdict == Verdict.EXCESS
    panel = mine + [o for k in range(9) for o in rows(n=150, seed=100 + k, model=f"clean-{k}")]
    cells = analyse(pair(panel), n_resamples=enough, references=honest_of(pair(panel))).results
    together = {c.model: c for c in cells}["synthetic"]
    assert together.p_adjusted is not None and together.p_adjusted > 0.05
    assert together.verdict == Verdict.UNDERPOWERED


def test_the_share_left_is_of_the_score_above_chance() -> None:
    # (0.75 - 0.25) above chance, 0.05 of it taken off: 1 - 0.05 / 0.5 = 0.9
    assert share_left(0.75, 0.25, 0.05) == pytest.approx(0.9)
    assert share_left(0.75, 0.25, -0.05) == 1  # a limit below zero takes nothing off
    assert share_left(0.75, 0.25, 0.7) == 0
    assert share_left(0.2, 0.25, 0.05) is None and share_left(0.75, 0.25, None) is None
    assert [category(c, SweepThresholds()) for c in (0.8, 0.79, 0.5, 0.49, None)] == [
        "high",
        "moderate",
        "moderate",
        "low",
        "none",
    ]


@pytest.mark.long  # 1,500 questions are judged three times
def test_credibility_needs_a_control_benchmark_whose_score_gap_is_bounded() -> None:
    public, fresh = rows(n=1500, benchmark="public"), rows(n=1500, seed=4, benchmark="fresh")
    (without,) = judged(public)
    assert without.credibility is None and without.credibility_category == "none"
    assert without.share_beyond_gains is not None and without.share_beyond_gains > 0.8
    mine = {c.benchmark: c for c in judged(public + fresh, control_benchmark="fresh")}["public"]
    gap = next(c for c in mine.contrasts if c.name == "score_gap")
    assert gap.ci_high is not None and mine.score is not None
    assert mine.credibility == pytest.approx(1 - gap.ci_high / (mine.score - mine.chance))
    # An exam learnt by heart: 97 % on the public questions, 70 % on held-out ones, no gain under
    # noise.
    learnt = rows(n=1500, benchmark="public", clean_accuracy=0.97, discordance=0.03)
    mine = {c.benchmark: c for c in judged(learnt + fresh, control_benchmark="fresh")}["public"]
    assert mine.verdict == Verdict.NOT_IDENTIFIED  # at 97 % no gain of 5 points is possible
    assert mine.credibility_category in ("moderate", "low")
    assert mine.credibility is not None and mine.credibility < 0.7
