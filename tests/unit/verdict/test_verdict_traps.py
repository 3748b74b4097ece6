"""Ways in which a verdict could say more than the answers carry; each was once open."""

from dataclasses import replace

import numpy as np
import pytest
from outcome_tables import honest_of, pair, texts_of
from sweep_cells import (
    CLEAN,
    DIRECT,
    RESAMPLES,
    cell_of,
    ensemble,
    judged,
    measured,
    noisy,
    right,
    rows,
)

from audit.core.records import Setting
from audit.judging.result import Status, because, json_text
from audit.judging.world import World
from audit.statistics.paired import State
from audit.statistics.unparsed import DECIDE_AT
from audit.sweep.analyse import CellInputs, analyse
from audit.sweep.decide import decide, headline, over_panel
from audit.sweep.design import Arm, SweepThresholds
from audit.sweep.gates import answer_leak, exact_values, pairing, parseability
from audit.sweep.messages import TextMeasures
from audit.sweep.simulation import Design, simulate
from audit.sweep.vocabulary import GATES, Verdict


def test_a_control_that_was_not_run_at_the_r_of_the_excess_explains_nothing_away() -> None:
    # 40 of 200 questions improve with r=3, none changes with r=2; as many clean routers were run
    # for r=2 only.
    base = right(200, (0, 120))
    states = {
        CLEAN: base,
        DIRECT: base,
        noisy(2): right(200, (5, 125)),
        noisy(3): right(200, (0, 160)),
    }
    cell = cell_of({**states, ensemble(2): right(200, (3, 123))})
    decision = decide(measured(cell), (), SweepThresholds())
    assert decision.verdict == Verdict.UNCONTROLLED and decision.routers == (3,)
    assert decision.reasons[-1] == because(
        "not_compared", controls=["ensemble"], ensemble_routers=[3]
    )
    # Run at r=3 too, and with the same answers, it does explain the gain.
    full = cell_of({**states, ensemble(2): base, ensemble(3): states[noisy(3)]})
    assert decide(measured(full), (), SweepThresholds()).verdict == Verdict.EXCESS_EXPLAINED


def test_a_control_that_answers_alike_explains_nothing_in_a_few_questions() -> None:
    # 15 of 50 questions improve with r=3 and with as many whole messages, the same ones: that none
    # differs bounds what damage adds at 6 points, and not at 0.
    base, changed = right(50, (0, 25)), right(50, (0, 40))
    states = {CLEAN: base, DIRECT: base, noisy(3): changed, ensemble(3): changed}
    decision = decide(measured(cell_of(states)), (), SweepThresholds())
    assert (
        decision.verdict == Verdict.UNDERPOWERED
        and decision.reasons[-1].code == "may_beat_ensemble"
    )
    assert decision.reasons[-1].numbers["limit"] == pytest.approx(1 - 0.05 ** (1 / 50))
    # With one router the clean baseline is that control.
    decision = decide(
        measured(cell_of({CLEAN: base, DIRECT: base, noisy(1): changed})), (), SweepThresholds()
    )
    assert decision.verdict == Verdict.EXCESS and decision.reasons[-1].code == "one_router"


def test_one_unreadable_router_count_does_not_hide_in_its_arms_average() -> None:
    # 40 of 100 answers at r=9 are unreadable: 4.4 % of the nine noisy settings together, and 40 %
    # of the one.
    base = right(100, (0, 70))
    states = {CLEAN: base, **{noisy(r): list(base) for r in range(1, 10)}}
    states[noisy(9)] = base[:60] + [int(State.UNPARSED)] * 40
    gate = parseability(cell_of(states), SweepThresholds())
    assert gate.status == Status.FAIL and gate.number is not None and 0.6 < gate.number < 0.8
    assert "r=9" in gate.detail and gate.item_count == 40
    assert gate.numbers["noisy_rewrite_answered"] == pytest.approx(860 / 900)


def test_a_router_count_without_one_readable_answer_is_withheld_and_reported() -> None:
    broken = [
        replace(o, answer=None, correct=None, parsed=False)
        if o.arm == Arm.NOISY_REWRITE and o.routers == 2
        else o
        for o in rows(100)
    ]
    verdict = analyse(pair(broken), n_resamples=RESAMPLES)
    assert verdict.results[0].verdict == Verdict.WITHHELD
    assert [row.routers for row in verdict.paper["cells"]] == [1, 3]
    assert json_text(verdict.to_dict())


LEAKED = {1: [(0, 200)], 2: [(0, 230)]}  # the leaking questions alone gain


@pytest.mark.parametrize(
    ("gained", "leaking", "left"),
    [
        (LEAKED, {}, (2,)),
        (LEAKED, {2: (200, 230)}, ()),  # although the gate on leaks passes
        (
            LEAKED,
            {1: (200, 230)},
            (2,),
        ),  # leaks at another r do not take the questions away from this one
        ({1: [(0, 240)], 2: [(0, 200), (300, 360)]}, {2: (300, 360)}, (1,)),
    ],
)
def test_only_a_gain_beyond_the_leaks_of_its_own_router_count_is_an_excess(
    gained, leaking, left
) -> None:
    n, base = 400, right(400, (0, 200))
    cell = cell_of(
        {CLEAN: base, DIRECT: base, ensemble(2): base}
        | {noisy(r): right(n, *at) for r, at in gained.items()}
    )
    free = np.array(
        [[not (r in leaking and i in range(*leaking[r])) for i in range(n)] for r in (1, 2)]
    )
    gate = answer_leak(
        TextMeasures(messages=4000, messages_noisy=4000, leaking=30, leaking_noisy=30),
        SweepThresholds(),
    )
    decision = decide(measured(cell, without_leak=free), (gate,), SweepThresholds())
    assert gate.status == Status.PASS and decision.routers == left
    assert decision.verdict == (Verdict.EXCESS if left else Verdict.WITHHELD)
    assert left or decision.reasons[0].code == "gone_without_leaks"


def test_clean_routers_that_give_the_answer_away_hide_no_gain() -> None:
    # Clean is right on the last 100 of 1500 because its messages name the answer; noisy gains 80 of
    # the other 1400.
    n = 1500
    clean, gained = right(n, (0, 800), (1400, 1500)), right(n, (0, 900))
    cell = cell_of({CLEAN: clean, DIRECT: right(n, (0, 850)), noisy(1): gained, noisy(2): gained})
    assert decide(measured(cell), (), SweepThresholds()).verdict == Verdict.NO_EXCESS
    texts = TextMeasures(aided=frozenset((1, str(i)) for i in range(1400, 1500)))
    cell = replace(cell, question_ids=tuple(map(str, range(n))))
    unaided = CellInputs(cell, texts, None, None, None).unaided
    assert unaided is not None and unaided.sum(axis=1).tolist() == [1400, 1400]
    evidence = measured(cell, unaided=unaided)
    assert evidence.unaided is not None and evidence.unaided.clean.gain[0] == pytest.approx(
        100 / 1400
    )
    decision = decide(evidence, (), SweepThresholds())
    assert decision.verdict == Verdict.UNDERPOWERED and decision.reasons[-1].numbers["aided"]
    # Where every question has such a message nothing bounds the gain.
    assert measured(cell, unaided=np.zeros((2, n), dtype=bool)).largest_compatible == 1


def test_an_ensemble_control_that_names_answers_explains_no_gain_away() -> None:
    # At r=2 noisy gains 150 of 1000 over clean, and the ensemble control as many others, which its
    # messages name.
    n = 1000
    base, gained, control = right(n, (0, 500)), right(n, (0, 650)), right(n, (0, 500), (800, 950))
    cell = cell_of({CLEAN: base, DIRECT: base, noisy(2): gained, ensemble(2): control})
    assert decide(measured(cell), (), SweepThresholds()).verdict == Verdict.EXCESS_EXPLAINED
    unaided = np.array([[not 800 <= i < 950 for i in range(n)]])
    decision = decide(measured(cell, unaided=unaided), (), SweepThresholds())
    assert (
        decision.verdict == Verdict.UNDERPOWERED
        and decision.reasons[-1].code == "may_beat_ensemble"
    )


def test_the_headline_quotes_a_router_count_that_passed_every_comparison() -> None:
    # r=2 gains most against clean (0.20) but not beyond as many clean routers; r=3 gains 0.15 and
    # does.
    n = 200
    base = right(n, (0, 100))
    states = {CLEAN: base, DIRECT: base, noisy(2): right(n, (0, 140)), noisy(3): right(n, (0, 130))}
    states |= {ensemble(2): right(n, (0, 140)), ensemble(3): base}
    evidence = measured(cell_of(states))
    decision = decide(evidence, (), SweepThresholds())
    assert decision.verdict == Verdict.EXCESS and decision.routers == (3,)
    numbers = headline("m", "b", decision, evidence, ()).numbers
    assert numbers["gain"] == pytest.approx(0.15) and numbers["routers"] == 3
    assert 0.2 < numbers["limit"] < 0.35  # at r=2, where the gain is 20 points


def test_a_control_benchmark_without_noisy_answers_is_noted_and_does_not_stop_the_report() -> None:
    fresh = [o for o in rows(60, benchmark="fresh") if o.arm != Arm.NOISY_REWRITE]
    cells = judged(rows(60) + fresh, control_benchmark="fresh")
    mine = next(c for c in cells if c.benchmark == "synthetic")
    did = next(c for c in mine.contrasts if c.name == "difference_in_differences")
    assert did.estimate is None and did.note


@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_few_groups_of_questions_get_no_narrow_interval_anywhere(groups: int) -> None:
    outcomes = rows(120, routers=(1, 3), group_size=120 // groups, gain=0.1, parse_rate=0.97)
    (cell,) = judged(outcomes)
    # With four, the smallest p of a flip of signs is 2^-4 = 0.0625; with one, every resample is the
    # sample itself.
    assert cell.verdict in (Verdict.UNDERPOWERED, Verdict.WITHHELD) and cell.p_value > 0.05
    assert cell.largest_compatible_gain == 1
    assert cell.slope is not None and cell.slope.ci_low is None
    limits = {(c.ci_low, c.ci_high) for c in cell.contrasts if c.estimate is not None}
    assert limits == {(-1.0, 1.0)}


def test_an_excess_that_rests_on_which_replies_were_readable_is_withheld() -> None:
    # Right on 600 of 1000 everywhere. Under noise 50 of the wrong replies cannot be read, and 20
    # answers really change.
    n, worst = 1000, float("inf")
    base = right(n, (0, 600))
    lost = [int(State.UNPARSED) if 700 <= i < 750 else b for i, b in enumerate(base)]
    honest_cell = measured(cell_of({CLEAN: base, DIRECT: base, noisy(1): right(n, (0, 650))}))
    assert (
        honest_cell.adverse is None
        and decide(honest_cell, (), SweepThresholds()).verdict == Verdict.EXCESS
    )
    # Dropping the 50 alone changes no pair. With 20 improved and the clean replies to them unread
    # as well, the gain of the pairs that are left stands against 50 + 20 replies that may all speak
    # against it.
    improved = [1 if 600 <= i < 620 else b for i, b in enumerate(lost)]
    cell = cell_of({CLEAN: base, DIRECT: base, noisy(1): improved})
    evidence = measured(cell, gamma=worst)
    assert evidence.clean.gain[0] == pytest.approx(20 / 950)
    assert evidence.adverse.clean.gain[0] == pytest.approx(20 / 1000)
    assert evidence.worst_case == pytest.approx(70 / 1000)
    # At an odds ratio of 1 the 50 count by their other two answers (wrong, wrong), shrunk to the
    # mean of all: (0 + 2 m) / 4 with m = (600 + 600 + 620 + .5) / (2950 + 1).
    likely = 2 * (1820.5 / 2951) / 4
    assert measured(cell, gamma=1).adverse.clean.gain[0] == pytest.approx((20 + 50 * likely) / n)
    unread = [
        int(State.UNPARSED) if 750 <= i < 790 else b for i, b in enumerate(base)
    ]  # clean replies, held as right
    cell = cell_of({CLEAN: unread, DIRECT: base, noisy(1): improved})
    evidence = measured(cell, gamma=worst)
    assert evidence.adverse.clean.gain[0] == pytest.approx((20 - 40) / 1000)
    decision = decide(evidence, (), SweepThresholds())
    assert decision.verdict == Verdict.WITHHELD and decision.reasons == (
        because("gone_if_unparsed", odds_ratio=DECIDE_AT),
    )
    why = headline("m", "b", decision, evidence, (decision.gate,)).numbers["why"]
    assert why == [GATES["parseability"].because]


def test_failed_calls_that_hang_on_the_answer_make_no_excess() -> None:
    # No gain: under noise 45 answers of 1000 improve and 45 fall. But the calls of those that fall
    # fail (4.5 % errors).
    n = 1000
    base = right(n, (0, 600))
    state = [int(State.ERROR) if 555 <= i < 600 else int(i < 645) for i in range(n)]
    cell = cell_of({CLEAN: base, DIRECT: base, noisy(1): state})
    assert parseability(cell, SweepThresholds()).status == Status.PASS
    evidence = measured(cell, gamma=float("inf"))
    assert evidence.clean.gain[0] == pytest.approx(45 / 955)
    assert evidence.adverse.clean.gain[0] == 0
    decision = decide(evidence, (), SweepThresholds())
    assert decision.verdict == Verdict.WITHHELD and decision.gate == "parseability"
    # And they clear nobody: the other way round, 45 that improve would have been lost.
    lost = [int(State.ERROR) if 600 <= i < 645 else b for i, b in enumerate(base)]
    hidden = measured(cell_of({CLEAN: base, DIRECT: base, noisy(1): lost}), gamma=float("inf"))
    assert hidden.largest_compatible > 0.045


def test_a_gain_over_the_clean_router_that_direct_does_not_settle_clears_nobody() -> None:
    # Noisy is right on 60 more of 1000 than clean, and on 10 more than direct (80 changes): +1
    # point, up to about 2.8.
    n = 1000
    clean, direct = right(n, (0, 600)), right(n, (0, 615), (660, 695))
    evidence = measured(cell_of({CLEAN: clean, DIRECT: direct, noisy(1): right(n, (0, 660))}))
    direct = evidence.plain.direct
    assert direct.adjusted[0] > 0.05 and direct.high[0] > 0.02
    unsettled = decide(evidence, (), replace(SweepThresholds(), effect_of_interest=0.02))
    assert (
        unsettled.verdict == Verdict.UNDERPOWERED
        and unsettled.reasons[-1].code == "may_beat_direct"
    )
    assert headline("m", "b", unsettled, evidence, ()).numbers["about"] == "may_beat_direct"
    settled = decide(evidence, (), replace(SweepThresholds(), effect_of_interest=0.2))
    assert settled.verdict == Verdict.NO_EXCESS
    assert headline("m", "b", settled, evidence, ()).numbers["about"] == "not_above_direct"
    # Without the direct arm nothing tells the two apart.
    bare = decide(
        replace(evidence, plain=replace(evidence.plain, direct=None)), (), SweepThresholds()
    )
    assert bare.verdict == Verdict.UNCONTROLLED
    assert bare.reasons[-1] == because("not_compared", controls=["direct"], ensemble_routers=[])


def test_clean_replicates_that_repeat_one_run_are_one_run() -> None:
    base = right(300, (0, 200))
    changed = right(300, (0, 190), (200, 225))
    once = measured(cell_of({CLEAN: base, noisy(1): changed}))
    copies = {Setting(Arm.FORWARD_FULL, 1, k): base for k in range(4)}
    repeated = measured(cell_of(copies | {noisy(1): changed}))
    assert repeated.clean.family_p == once.clean.family_p


def test_a_router_count_with_few_pairs_or_none_bounds_nothing() -> None:
    # Eight of 200 questions are answered at r=2, as clean answered them: 31 % could improve unseen
    # there, not 2 %.
    base = right(200, (0, 120))
    few = [*base[:8], *[int(State.ABSENT)] * 192]
    evidence = measured(cell_of({CLEAN: base, noisy(1): base, noisy(2): few}))
    assert evidence.largest_compatible == pytest.approx(1 - 0.05 ** (1 / 8))
    none = measured(
        cell_of({CLEAN: base, noisy(1): right(200, (0, 115)), noisy(2): [int(State.ABSENT)] * 200})
    )
    assert none.largest_compatible == 1
    # Without a mean over r there is no p of a fall: one of 0 took the first place in Holm's order
    # from the other cells.
    assert np.isnan(none.clean.fall_p)
    other = measured(cell_of({CLEAN: base, noisy(1): right(200, (0, 112), (120, 122))}))
    assert over_panel([none, other])[1].fall == pytest.approx(other.clean.fall_p)


def test_items_of_one_text_that_did_not_change_count_as_one() -> None:
    # 40 texts of 25 questions. Were 6 % of the texts remembered whole, none of the 40 is with
    # probability .94^40 = 8 %.
    base = right(1000, (0, 600))
    cell = replace(cell_of({CLEAN: base, noisy(1): base}), cluster=np.arange(1000) // 25)
    assert measured(cell).largest_compatible == pytest.approx(1 - 0.05 ** (1 / 40))
    # Changes that have nothing to do with the texts: the questions count one by one, as without
    # texts.
    changed = [1 - a if i % 27 == 0 else a for i, a in enumerate(base)]
    alone = cell_of({CLEAN: base, noisy(1): changed})
    texts = measured(replace(alone, cluster=np.arange(1000) // 25))
    assert texts.clean.effective[0] == pytest.approx(1000) == measured(alone).clean.effective[0]


def test_where_every_answer_falls_the_p_is_no_smaller_than_that_of_flipped_signs() -> None:
    fall = measured(cell_of({CLEAN: [1] * 6, noisy(1): [0] * 6})).clean.fall_p
    assert fall == 2.0**-6


@pytest.mark.parametrize(
    ("n", "accuracy", "discordance", "gain"),
    [
        (100, 0.9, 0.15, 0),
        (100, 0.45, 0.42, 0),
        (400, 0.95, 0.08, 0),
        (300, 0.9, 0.1, -0.4),
        (100, 0.97, 0.03, 0),
    ],
)
def test_sound_runs_are_not_withheld_for_what_they_are(
    n: int, accuracy: float, discordance: float, gain: float
) -> None:
    design = Design(n, 9, "nested", clean_accuracy=accuracy, discordance=discordance)
    rng = np.random.default_rng(11)
    withheld = {"pairing": 0, "exact_values": 0}
    for _ in range(20):
        cell = simulate(design, World(gain=gain), rng).cell
        for gate in (pairing(cell, None, SweepThresholds()), exact_values(cell)):
            withheld[gate.name] += gate.status == Status.FAIL and gate.withholds
    assert max(withheld.values()) <= 1


def test_an_id_that_means_two_questions_fails_pairing() -> None:
    outcomes = rows(40)
    spoilt = [
        replace(o, question="Another?")
        if o.arm == Arm.DIRECT and o.question_id == outcomes[0].question_id
        else o
        for o in outcomes
    ]
    (cell,) = judged(spoilt, texts=texts_of(spoilt))
    gate = next(g for g in cell.gates if g.name == "pairing")
    assert gate.status == Status.FAIL and gate.items == (outcomes[0].question_id,)


def test_h1_rests_on_what_the_verdicts_rest_on_and_not_on_a_withheld_cell() -> None:
    outcomes = rows(300, gain=0.08) + rows(300, seed=5, gain=0.2, parse_rate=0.6, model="unread")
    cells = pair(outcomes)
    verdict = analyse(cells, n_resamples=RESAMPLES, references=honest_of(cells))
    tested, withheld = sorted(verdict.results, key=lambda c: c.model == "unread")
    h1 = next(h for h in verdict.hypotheses if h.name == "H1")
    assert (withheld.verdict, h1.effect) == (Verdict.WITHHELD, 1)
    assert h1.pvalue == tested.p_adjusted != withheld.p_adjusted
