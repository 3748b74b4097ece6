"""Each gate fails under its own fault, and no other gate does."""

from dataclasses import replace

import numpy as np
import pytest
from perturb_cells import LIMITS, cell, with_answers
from scipy import stats

from audit.core.errors import DataError
from audit.judging.result import Status
from audit.perturb.gates import all_gates, enough_data, exact_values, order_of_items, parseability
from audit.perturb.record import BrokenShare, PerturbCell
from audit.shards.keys import RequestCounts

NAN = float("nan")


def failing(c: PerturbCell) -> set[str]:
    return {g.name for g in all_gates(c, LIMITS) if g.status == Status.FAIL}


def unread(c: PerturbCell) -> PerturbCell:
    variants = c.tested.variants.copy()
    variants[1, :60] = NAN
    return with_answers(c, variants=variants)


def guessing(c: PerturbCell) -> PerturbCell:
    rng = np.random.default_rng(0)
    return with_answers(c, *((rng.random((k, c.n)) < 0.25) * 1.0 for k in (1, 3)))


def shuffled(c: PerturbCell) -> PerturbCell:
    return with_answers(c, original=np.random.default_rng(0).permuted(c.tested.original, axis=1))


def drifting(c: PerturbCell) -> PerturbCell:
    first = c.tested.original[0]
    worse = np.where((np.arange(c.n) % 3 == 0) & (first == 1), 0.0, first)
    return with_answers(c, original=np.stack([first, worse]))


def same_everywhere(c: PerturbCell) -> PerturbCell:
    first = c.tested.original[:1]
    return with_answers(c, first, np.repeat(first, len(c.tested.variants), axis=0))


@pytest.mark.parametrize(
    ("gate", "fault"),
    [
        (None, lambda c: c),
        ("parseability", unread),
        ("above_chance", guessing),
        ("order_of_items", shuffled),
        ("noise_floor", drifting),
        ("exact_values", same_everywhere),
        (
            "variants_reached_model",
            lambda c: replace(c, requests=RequestCounts(1800, 30, 0, ("q1",))),
        ),
        ("variants_reached_model", lambda c: replace(c, requests=RequestCounts(1800, 0, 30))),
        ("broken_share", lambda c: replace(c, broken=BrokenShare(100, 9))),
    ],
)
def test_a_gate_fails_under_its_fault_and_no_other_does(gate, fault):
    assert failing(fault(cell())) == ({gate} if gate else set())


def test_too_few_questions_withhold_nothing():
    """Of 59 items or fewer, or of 59 groups, no verdict; .95^58 > .05 > .95^59: fewer could never
    clear."""
    assert 0.95**58 > 0.05 > 0.95**59
    gate = enough_data(cell(n=59), LIMITS)
    assert gate.status == Status.FAIL and not gate.withholds and gate.number == 59
    assert (
        f"{gate.numbers['needed']:.0f}" in gate.advice
    )  # 60 would let it decide, and find nothing
    assert enough_data(cell(n=60), LIMITS).status == Status.PASS
    grouped = replace(cell(n=300), cluster=np.arange(300) // 6)
    assert enough_data(grouped, LIMITS).number == 50


def test_what_was_not_measured_is_not_applicable():
    bare = replace(cell(replicates=1), broken=None, requests=None)
    missing = {g.name for g in all_gates(bare, LIMITS) if g.status == Status.NOT_APPLICABLE}
    assert missing == {"noise_floor", "variants_reached_model", "broken_share"}


def test_parseability_counts_what_was_asked_and_gives_an_interval():
    """100 items; variant 2 exists for 50, of which 40 are read: .80, Clopper-Pearson 95 % .663 to
    .900. With 46 of 50 (.92, to .978) it may be that .95 can be read."""
    base = cell(n=100, references=0, replicates=1)
    mask = np.ones((3, 100), dtype=bool)
    mask[1, 50:] = False
    variants = np.where(mask, base.tested.variants, NAN)
    variants[1, :4] = NAN
    assert (
        parseability(with_answers(base, variants=variants, mask=mask), LIMITS).status == Status.PASS
    )
    variants[1, :10] = NAN
    gate = parseability(with_answers(base, variants=variants, mask=mask), LIMITS)
    assert gate.status == Status.FAIL and gate.item_count == 10
    exact = stats.binomtest(40, 50).proportion_ci(0.95, method="exact")
    assert (gate.numbers["variant 2_low"], gate.number) == pytest.approx(
        (exact.low, exact.high), rel=1e-6
    )


def test_a_strong_model_may_be_right_on_everything():
    ones = np.ones((1, 30))
    variants = np.ones((3, 30))
    variants[0, 0] = 0
    base = cell(n=30, references=0, replicates=1)
    gate = exact_values(with_answers(base, ones, variants))
    assert gate.status == Status.FAIL and not gate.withholds
    assert exact_values(with_answers(base, 0 * ones, variants)).withholds


def test_order_is_not_judged_where_nothing_can_be_expected():
    perfect = with_answers(
        cell(), original=np.ones((2, 600))
    )  # right everywhere: no order that could be lost
    for c in (cell(n=20, references=0), cell(variants=1), perfect):
        assert order_of_items(c, LIMITS).status == Status.NOT_APPLICABLE


def test_free_answers_have_no_chance_to_beat():
    base = cell()
    free = replace(base, n_options=np.zeros(base.n, dtype=int))
    assert free.chance == 0 and "above_chance" not in failing(free)


def test_the_upper_limit_of_the_broken_share():
    """0 of 150: 1 - .05^(1/150) = 2.0 % (notes, section 4)."""
    assert BrokenShare(150, 0).upper == pytest.approx(1 - 0.05 ** (1 / 150))
    assert BrokenShare(3, 3).upper == 1.0
    for checked, broken in ((0, 0), (100, -5), (3, 4)):
        with pytest.raises(DataError):
            BrokenShare(checked, broken)
