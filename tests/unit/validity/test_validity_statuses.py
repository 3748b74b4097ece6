"""Scripted models of known behaviour get the status that they deserve, and none is called selective unjustly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scripted_models as models
from scripted_models import cell

from audit.validity.analyse import analyse
from audit.validity.edits.record import Family
from audit.validity.result import ValidityStatus as S
from audit.validity.thresholds import ValidityThresholds

T = ValidityThresholds()


def judged(one, **options):
    (result,) = analyse([one], T, seed=1, n_resamples=200, **options)
    return result


def failing(result) -> set[str]:
    return {g.name for g in result.gates if g.status == "fail" and g.withholds}


# model, whether attribute edits are directional, the status, and the gates that stop it
TABLE = [
    (models.follower, True, S.SELECTIVE, set()),
    (models.follower, False, S.NON_SELECTIVE, set()),
    (models.shaky, True, S.SELECTIVE, set()),
    (models.shaky, False, S.NON_SELECTIVE, set()),
    (models.ignores_input, True, S.FAILED, {"G2_above_baseline"}),
    (models.ignores_input, False, S.FAILED, {"G2_above_baseline"}),
    (models.first_option, True, S.FAILED, {"G2_above_baseline"}),
    (models.first_option, False, S.FAILED, {"G2_above_baseline"}),
    (models.falls_silent, True, S.FAILED, {"G1_answers_readable"}),
    (models.falls_silent, False, S.FAILED, {"G1_answers_readable"}),
    (models.surface_driven, True, S.NON_SELECTIVE, set()),
    (models.contrary, True, S.INDETERMINATE, set()),  # it moves, and never to the key
    (models.prejudiced, False, S.SELECTIVE, set()),
    (models.restless, True, S.FAILED, {"noise_floor"}),
]


@pytest.mark.parametrize(
    ("model", "directional", "status", "stopped_by"),
    TABLE,
    ids=[f"{m.__name__}-{'directional' if d else 'invariant'}" for m, d, *_ in TABLE],
)
def test_each_model_gets_its_status(model, directional, status, stopped_by):
    result = judged(cell(model, directional=directional))
    assert result.decision.status == status, result.decision.reasons
    assert stopped_by <= failing(result)
    if not stopped_by:
        assert not failing(result)


def test_a_positional_bias_shows_under_the_order_of_options_and_counts_as_surface():
    result = judged(cell(models.positional))
    (order,) = [one for one in result.evidence.edits[Family.FORMAT] if one.name == "format_3"]
    (case,) = [one for one in result.evidence.edits[Family.FORMAT] if one.name == "format_1"]
    assert case.response_change.estimate == 0 and order.response_change.estimate > 0.2
    # It knows two thirds and follows there; the first option is no reaction to the construct.
    follow = result.evidence.families[Family.ATTRIBUTE].followed
    assert follow.estimate < 0.8
    assert result.decision.status == S.SELECTIVE
    always = judged(cell(models.first_option))
    assert always.evidence.families[Family.FORMAT].response_change.estimate == pytest.approx(1 / 3)


def test_a_model_that_ignores_its_input_is_never_selective_whatever_the_key_does():
    for n in (30, 120, 400):
        for directional in (True, False):
            result = judged(cell(models.ignores_input, n=n, directional=directional))
            assert result.decision.status == S.FAILED
            assert result.evidence.families[Family.ATTRIBUTE].response_change.estimate == 0
    # Under a key that moves, its published ratio is far above 1 all the same.
    ignoring = judged(cell(models.ignores_input))
    assert ignoring.evidence.csr["own key"].low > 1
    assert ignoring.evidence.csr["response"].estimate == 0


def test_the_scorer_comes_before_the_numerical_gates_and_the_paper_s_order_stands_beside():
    result = judged(cell(models.ignores_input, validated=False))
    assert result.decision.status == S.SCORER_UNVALIDATED
    assert (result.paper.status, result.paper.step) == ("failed-G2-G4", 2)
    assert "scorer-unvalidated" in result.paper.flags


def test_a_perfect_model_fails_the_paper_s_g3_and_not_ours():
    result = judged(cell(lambda asked: asked.key))
    assert result.decision.status == S.SELECTIVE
    assert result.paper.status == "failed-G2-G4"  # its denominator is 0
    assert not result.evidence.csr["own key"].reported


def test_edits_that_do_not_reach_the_scorer_are_ineligible():
    one = cell(models.follower)
    block = one.families[Family.SEMANTIC]
    same = replace(block, same=np.ones_like(block.same))
    result = judged(replace(one, families={**one.families, Family.SEMANTIC: same}))
    assert result.decision.status == S.INELIGIBLE_EDITS
    assert failing(result) >= {"G1_edits_reach_scorer", "G1_enough_edits"}
    assert result.evidence.families[Family.SEMANTIC].read == 0  # left out, and not averaged in as zeros


def test_mixed_contracts_are_ineligible():
    one = cell(models.follower)
    block = one.families[Family.ATTRIBUTE]
    half = np.arange(one.n) % 2 == 0
    mixed = replace(block, directional=block.directional & half)
    result = judged(replace(one, families={**one.families, Family.ATTRIBUTE: mixed}))
    assert result.decision.status == S.INELIGIBLE_ARCHETYPE


def test_few_items_are_indeterminate_and_say_so():
    result = judged(cell(models.surface_driven, n=24, directional=False, seed=3))
    assert result.decision.status in (S.INDETERMINATE, S.NON_SELECTIVE)
    weak = judged(cell(models.positional, n=24))
    assert weak.decision.status != S.NON_SELECTIVE


def test_holm_is_over_cells_and_directions():
    alone = judged(cell(models.follower, n=40))
    panel = analyse([cell(models.follower, n=40)] * 3, T, seed=1, n_resamples=50)
    raw = alone.evidence.primary.above_p
    assert alone.above_p == pytest.approx(2 * raw)
    assert min(r.above_p for r in panel) == pytest.approx(6 * raw)


def test_the_same_cell_gives_the_same_result():
    assert judged(cell(models.follower)).headline == judged(cell(models.follower)).headline
    first, again = (judged(cell(models.positional)).evidence.csr["response"] for _ in range(2))
    assert first == again
