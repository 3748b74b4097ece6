"""Each gate fails under its own fault, and the other gates do not."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import sweep_cells
from outcome_tables import Outcome, pair, texts_of
from scipy import stats
from sweep_cells import CLEAN, noisy
from synthetic import Faults

from audit.judging.result import Gate, Status
from audit.judging.world import World
from audit.statistics.paired import CellOutcomes, State
from audit.sweep.design import Arm, SweepThresholds
from audit.sweep.gates import all_gates, exact_values, pairing, parseability
from audit.sweep.simulation import Design, simulate

rows = partial(sweep_cells.rows, 300, seed=5)


def gates_of(outcomes: list[Outcome], limit: float = 0.03) -> dict[str, Gate]:
    cell = pair(outcomes)[0]
    texts = texts_of(outcomes).measures[cell.model, cell.benchmark]
    return {g.name: g for g in all_gates(cell, texts, SweepThresholds(), limit)}


def failing(gates: dict[str, Gate]) -> set[str]:
    return {name for name, g in gates.items() if g.status == Status.FAIL}


def cell_of(*states: list[int], reading: str = "letter") -> CellOutcomes:
    """A clean and a noisy run."""
    return sweep_cells.cell_of(dict(zip((CLEAN, noisy(1)), states, strict=True)), reading=reading)


@pytest.mark.parametrize(
    ("gate", "options"),
    [
        (None, {}),
        ("parseability", {"faults": Faults(unparsed=0.1)}),
        ("parseability", {"faults": Faults(truncated=0.1)}),
        ("parseability", {"faults": Faults(errors=0.1)}),
        ("manipulation_reached_worker", {"faults": Faults(noop=0.4)}),
        ("answer_leak", {"faults": Faults(leak=0.2)}),
        ("clean_fidelity", {"faults": Faults(lossy=0.4)}),
        ("clean_fidelity", {"direct_gain": 0.15, "discordance": 0.1}),
    ],
)
def test_a_gate_fails_under_its_fault_and_no_other_does(
    gate: str | None, options: dict[str, Any]
) -> None:
    gates = gates_of(rows(**options))
    assert failing(gates) == ({gate} if gate else set())
    if gate:
        assert gates[gate].advice
    relay, lossy = gates["clean_fidelity"], options.get("faults") == Faults(lossy=0.4)
    assert relay.number == relay.numbers["lossy_share" if lossy else "loss"]
    assert all(g.source and g.detail for g in gates.values())


def test_a_few_unread_replies_at_random_do_not_withhold_whatever_the_number_of_settings() -> None:
    # 4 % of the replies unread everywhere: the lowest of twenty shares is below 0.95 by luck, none
    # is so beyond doubt.
    generator, withheld = np.random.default_rng(1), 0
    for _ in range(40):
        cell = simulate(Design(200, 9, clean_replicates=3), World(unparsed=0.04), generator).cell
        withheld += parseability(cell, SweepThresholds()).status == Status.FAIL
    assert withheld <= 2
    broken = simulate(Design(200, 9, clean_replicates=3), World(unparsed=0.12), generator).cell
    assert parseability(broken, SweepThresholds()).status == Status.FAIL


def test_guessing_fails_above_chance() -> None:
    gates = gates_of(rows(clean_accuracy=0.25, discordance=0.3))
    assert "above_chance" in failing(gates)
    assert gates["pairing"].status == Status.NOT_APPLICABLE  # guesses carry no signal to pair by


def test_above_chance_uses_the_mean_of_one_over_k() -> None:
    four = cell_of(*[[1] * 46 + [0] * 54] * 2)
    two = replace(four, n_options=np.full(100, 2))
    t = SweepThresholds()
    statuses = [all_gates(c, None, t, 0.01)[1].status for c in (four, two)]
    assert statuses == [
        Status.PASS,
        Status.FAIL,
    ]  # 46 % beats 25 % by 4.8 standard errors; it is below 50 %


def test_shuffled_ids_of_one_arm_fail_pairing() -> None:
    cell = pair(rows())[0]
    assert pairing(cell, None, SweepThresholds()).status == Status.PASS
    order = np.random.default_rng(0).permutation(cell.n)
    for arm in (Arm.DIRECT, Arm.NOISY_REWRITE):
        state = cell.state.copy()
        hit = [k for k, s in enumerate(cell.settings) if s.arm == arm]
        state[hit] = state[hit][:, order]
        assert pairing(replace(cell, state=state), None, SweepThresholds()).status == Status.FAIL
    states = cell.state.copy()  # a single router count, found because there are 300 questions
    k = cell.settings.index(noisy(2))
    states[k] = states[k][order]
    gate = pairing(replace(cell, state=states), None, SweepThresholds())
    assert gate.status == Status.FAIL and "noisy_rewrite r=2" in gate.detail


def test_exact_values_alarm_on_zero_one_and_nothing_changed() -> None:
    half, zero, ones = [1] * 10 + [0] * 10, [0] * 20, [1] * 20
    assert exact_values(cell_of(half, [1] * 9 + [0] * 10 + [1])).status == Status.PASS
    for rows_of in ([half, zero], [ones, half], [half, half]):
        gate = exact_values(cell_of(*rows_of))
        assert (gate.status, gate.number) == (Status.FAIL, 1)
        assert gate.numbers["zero_width_intervals"] == (rows_of == [half, half])
    moved = exact_values(
        cell_of([1, 0] * 10, [0, 1] * 10)
    )  # a gain of exactly 0 while answers change: counted
    assert moved.status == Status.PASS and moved.numbers["zero_gains"] == 1
    both = sweep_cells.cell_of(
        {CLEAN: half, noisy(1): half, noisy(2): half[::-1]}
    )  # at one r of two nothing changed
    assert (
        exact_values(both).status == Status.PASS
        and exact_values(both).numbers["zero_width_intervals"] == 1
    )
    assert exact_values(sweep_cells.cell_of({CLEAN: half})).status == Status.PASS  # no noisy arm


def test_parseability_counts_truncated_apart_and_says_where_it_is_trivial() -> None:
    read = [1] * 50 + [0] * 50
    gate = parseability(
        cell_of(read, [1] * 85 + [State.TRUNCATED] * 9 + [State.UNPARSED] * 6), SweepThresholds()
    )
    assert gate.status == Status.FAIL and gate.numbers["noisy_rewrite_answered"] == pytest.approx(
        0.85
    )
    # 85 of 100, four shares looked at: the exact upper limit at 0.05 / 4
    assert gate.number == pytest.approx(stats.beta.ppf(1 - 0.05 / 4, 86, 15))
    assert gate.numbers["noisy_rewrite_truncated"] == pytest.approx(0.09)
    assert gate.numbers["noisy_rewrite_unparsed"] == pytest.approx(0.06)
    assert gate.items == tuple(f"q{i:04d}" for i in range(85, 100)) and gate.item_count == 15
    assert (
        parseability(cell_of(read, read, reading="option_text"), SweepThresholds()).status
        == Status.PASS
    )


def test_enough_data_compares_the_upper_limit_and_does_not_withhold() -> None:
    few, none = gates_of(rows(), 0.2)["enough_data"], gates_of(rows(), float("nan"))["enough_data"]
    assert few.status == none.status == Status.FAIL
    assert not few.withholds
    assert gates_of(rows(), 0.05)["enough_data"].status == Status.PASS


def test_text_gates_do_not_apply_without_texts() -> None:
    cell = pair(rows(with_direct=False))[0]
    gates = {g.name: g for g in all_gates(cell, None, SweepThresholds(), 0.03)}
    for name, withholds in (
        ("clean_fidelity", True),
        ("manipulation_reached_worker", True),
        ("answer_leak", False),
    ):
        assert gates[name].status == Status.NOT_APPLICABLE and gates[name].withholds is withholds
