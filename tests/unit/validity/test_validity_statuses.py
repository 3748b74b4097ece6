"""Scripted models of known behaviour get the status that they deserve, and none is called selective
unjustly."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scripted_models as models
from scripted_models import cell, changed, unread

from audit.judge.record import Settings
from audit.statistics.contracts import UNREAD, fits
from audit.validity.analyse import analyse, over_panel
from audit.validity.decide import cannot_exclude
from audit.validity.design import ValidityThresholds
from audit.validity.edits.record import Family
from audit.validity.vocabulary import GATES
from audit.validity.vocabulary import ValidityStatus as S

T = ValidityThresholds()


def judged(base, **options):
    (result,) = analyse([base], Settings(T, 1, 200, **options))
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

FOUND = {
    (S.SELECTIVE, True): "follows",
    (S.SELECTIVE, False): "reacts",
    (S.NON_SELECTIVE, True): "surface_wins",
    (S.NON_SELECTIVE, False): "stays",
    (S.INDETERMINATE, True): "neither_direction",
}


@pytest.mark.parametrize(
    ("model", "directional", "status", "stopped_by"),
    TABLE,
    ids=[f"{m.__name__}-{'directional' if d else 'invariant'}" for m, d, *_ in TABLE],
)
def test_each_model_gets_its_status(model, directional, status, stopped_by):
    result = judged(cell(model, directional=directional))
    assert result.decision.verdict == status, result.decision.reasons
    assert stopped_by <= failing(result)
    if not stopped_by:
        assert not failing(result)
    codes = [reason.code for reason in result.decision.reasons]
    assert (
        codes[-1] == FOUND[status, directional]
        if not stopped_by
        else {f"gate_{g}" for g in stopped_by} <= {*codes}
    )


@pytest.mark.parametrize(
    ("evidence", "named"),
    [(SimpleNamespace(placebo=None), True), (SimpleNamespace(placebo=0.1), False)],
)
def test_what_is_not_excluded_names_a_placebo_that_was_not_asked(evidence, named):
    assert (
        "no_placebo" in {reason.code for reason in cannot_exclude(cell(models.follower), evidence)}
    ) is named


def test_a_model_whose_keys_have_a_period_is_not_held_back_by_a_fault_that_changes_nothing():
    """Rows shifted by 200 // 3 = 66 items had the very same keys, 0, 1, 2 in turn: G6 missed an F4
    that was none."""
    result = judged(cell(models.contrary, n=200))
    assert result.decision.verdict == S.INDETERMINATE
    assert [fault.state for fault in result.faults if fault.fault == "F4"] == ["caught"] * 3


def test_a_positional_bias_shows_under_the_order_of_options_and_counts_as_surface():
    result = judged(cell(models.positional))
    (order,) = [edit for edit in result.evidence.edits[Family.FORMAT] if edit.name == "format_3"]
    (case,) = [edit for edit in result.evidence.edits[Family.FORMAT] if edit.name == "format_1"]
    assert case.response_change.estimate == 0 and order.response_change.estimate > 0.2
    # It knows two thirds and follows there; the first option is no reaction to the construct.
    follow = result.evidence.families[Family.ATTRIBUTE].followed
    assert follow.estimate < 0.8
    assert result.decision.verdict == S.SELECTIVE
    always = judged(cell(models.first_option))
    assert always.evidence.families[Family.FORMAT].response_change.estimate == pytest.approx(1 / 3)


def test_a_model_that_ignores_its_input_is_never_selective_whatever_the_key_does():
    """Under a key that moves, its published ratio is far above 1 all the same."""
    few, many = (judged(cell(models.ignores_input, n=n)) for n in (30, 400))
    assert {few.decision.verdict, many.decision.verdict} == {S.FAILED}
    assert many.evidence.csr["own key"].low > 1 and many.evidence.csr["response"].estimate == 0


def test_the_scorer_comes_before_the_numerical_gates_and_the_paper_s_order_stands_beside():
    result = judged(cell(models.ignores_input, validated=False))
    assert result.decision.verdict == S.SCORER_UNVALIDATED
    assert (result.paper.status, result.paper.step) == ("failed-G2-G4", 2)
    assert "scorer-unvalidated" in result.paper.flags


def test_a_key_that_comes_to_the_wrong_answers_of_a_model_that_follows_is_no_fault():
    """Of two options, a wrong answer that stays is right after every edit: F5 withheld 3 of 4 sound
    models of 95 %."""
    wrong = lambda trial: trial.family != Family.ATTRIBUTE and trial.item % 20 == 0  # noqa: E731
    made = cell(lambda trial: (trial.key + wrong(trial)) % 3, n=200)
    attribute = made.families[
        Family.ATTRIBUTE
    ]  # its first level has the wrong answer of the original as its key
    first = {name: getattr(attribute, name)[:1] for name in attribute.__dataclass_fields__}
    result = judged(changed(made, Family.ATTRIBUTE, **first))
    (gate,) = [gate for gate in result.gates if gate.name == "F5_direction"]
    assert gate.number > T.wrong_to_right_max and gate.numbers["did_not_move"] == 1
    assert gate.status == "pass" and result.decision.verdict == S.SELECTIVE
    assert [fault.state for fault in result.faults if fault.check == "F5_direction"] == ["caught"]


def by_heart(trial):
    """The originals by heart; of everything else it knows every second item, and is wrong alike
    about the others."""
    return trial.key if trial.family is None or trial.item % 2 else (trial.key + 1) % models.OPTIONS


def test_originals_known_by_heart_are_no_rows_of_other_items():
    """It was not measurable, as its edited rows seemed to be of other items: they agree by a kappa
    of .25."""
    made = cell(by_heart, n=200)
    result = judged(made)
    (gate,) = [gate for gate in result.gates if gate.name == "G4_order"]
    assert gate.number < 0.5 and gate.status == "pass" and not failing(result)
    order = np.random.default_rng(0).permutation(made.n)
    for family in (Family.FORMAT, Family.SEMANTIC):
        made = changed(made, family, response=made.families[family].response[:, order])
    assert failing(judged(made)) >= {"G4_order"}
    assert [fault.state for fault in result.faults if fault.check == "G4_order"] == ["caught"]


def test_edits_that_do_not_reach_the_scorer_are_ineligible():
    base = cell(models.follower)
    result = judged(
        changed(base, Family.SEMANTIC, same=np.ones_like(base.families[Family.SEMANTIC].same))
    )
    assert result.decision.verdict == S.INELIGIBLE_EDITS
    assert failing(result) >= {"G1_edits_reach_scorer", "G1_enough_edits"}
    assert (
        result.evidence.families[Family.SEMANTIC].read == 0
    )  # left out, and not averaged in as zeros


def test_answers_that_could_not_be_read_do_not_confirm_that_nothing_reacts():
    made = cell(models.follower, n=200, directional=False)
    assert judged(made).decision.verdict == S.NON_SELECTIVE
    # 4.5 %: readable enough for G1, and nearly the margin of 5 points
    result = judged(unread(made, slice(9), Family.ATTRIBUTE))
    assert not failing(result) and result.decision.verdict == S.INDETERMINATE


@pytest.mark.parametrize(
    ("directional", "accused"), [(False, S.SELECTIVE), (True, S.NON_SELECTIVE)]
)
def test_answers_that_could_not_be_read_accuse_no_model(directional, accused):
    """What moved least, as far as it was read, may have moved as much as the rest."""
    moving = ("format", "semantic") if directional else ("attribute",)
    made = moved_by(200, directional, **dict.fromkeys(moving, range(20, 31)))
    least = (Family.ATTRIBUTE,) if directional else (Family.FORMAT, Family.SEMANTIC)
    silent = judged(unread(made, slice(9), *least))  # 4.5 %: readable enough for G1
    p = silent.evidence.primary.below_p if directional else silent.evidence.primary.above_p
    assert judged(made).decision.verdict == accused and p < T.alpha / 2
    assert silent.decision.verdict == S.INDETERMINATE and not failing(silent)
    assert silent.decision.what_to_do[0].code == "mend_unparsed"


def test_mixed_contracts_are_ineligible():
    base = cell(models.follower)
    directional = base.families[Family.ATTRIBUTE].directional
    result = judged(
        changed(base, Family.ATTRIBUTE, directional=directional & (np.arange(base.n) % 2 == 0))
    )
    assert result.decision.verdict == S.INELIGIBLE_ARCHETYPE
    few = judged(
        changed(base, Family.ATTRIBUTE, directional=directional & (np.arange(base.n) >= 5))
    )
    (five,) = [g for g in few.gates if g.name == "G5_archetype"]
    assert (
        five.status == "fail" and five.items == base.question_ids[:5]
    )  # those of the rarer contract


def test_unread_answers_are_not_held_for_followed():
    """A share of followed contracts that is shown to be above the least only because disobedient
    replies are unread."""
    base = cell(models.positional, n=200)
    whole = judged(base).evidence.families[Family.ATTRIBUTE]
    assert whole.followed == whole.followed_held
    block = base.families[Family.ATTRIBUTE]
    followed = fits(block.response, block.key) & (block.response != base.before)
    lost = np.flatnonzero(~followed[0])[:8]
    less = unread(base, lost, Family.ATTRIBUTE)
    follow = judged(less).evidence.families[Family.ATTRIBUTE]
    assert follow.followed_held.estimate <= whole.followed.estimate < follow.followed.estimate
    least = (follow.followed_held.low + follow.followed.low) / 2
    (result,) = analyse([less], Settings(replace(T, follow_min=least), 1, 200))
    assert result.decision.verdict == S.INDETERMINATE
    why = result.decision.reasons[-1]
    assert (why.code, why.numbers["least"], why.numbers["low"]) == (
        "follows_unless_unparsed",
        least,
        follow.followed_held.low,
    )


def test_holm_is_over_cells_and_directions():
    alone = judged(cell(models.follower, n=40))
    panel = analyse([cell(models.follower, n=40)] * 3, Settings(T, 1, 50))
    raw = alone.evidence.primary.above_p
    assert alone.above_p == pytest.approx(2 * raw)
    assert min(r.above_p for r in panel) == pytest.approx(6 * raw)


def test_a_p_value_of_0_is_a_p_value_and_not_a_missing_one():
    sure = SimpleNamespace(
        primary=SimpleNamespace(above_p=1.0), selective_p=1.0, non_selective_p=0.0
    )
    untested = SimpleNamespace(primary=None, non_selective_p=None)
    assert over_panel([untested, sure]) == [[None, None], [1.0, 0.0]]


def test_every_gate_names_its_input_and_its_items_or_why_there_are_none():
    """G1 to G6: input, threshold with its source, finding, items. Items stand there where it
    passes, too."""
    base = cell(models.shaky, n=60)
    unread = replace(
        base.original, response=np.where(np.arange(60) < 2, UNREAD, base.original.response)
    )
    result = judged(replace(base, original=unread))
    gates = {g.name: g for g in result.gates}
    assert set(gates) == set(GATES) and all(GATES[name].reads for name in gates)
    assert all(g.source and g.detail and np.isfinite(g.threshold) for g in gates.values())
    before = unread.response[0]
    wrong = {
        q
        for q, r, k in zip(base.question_ids, before, base.original.key[0], strict=True)
        if r not in (k, UNREAD)
    }
    assert (
        gates["G2_above_baseline"].status == "pass"
        and set(gates["G2_above_baseline"].items) == wrong != set()
    )
    moved = {
        base.question_ids[i]
        for family in (Family.FORMAT, Family.SEMANTIC)
        for row in base.families[family].response
        for i in range(60)
        if UNREAD not in (row[i], before[i]) and row[i] != before[i]
    }
    assert (
        gates["G3_denominator"].item_count == len(moved)
        and set(gates["G3_denominator"].items) == moved
    )
    assert gates["G1_answers_readable"].items == base.question_ids[:2]
    for name in ("scorer_valid", "F3c_exact_values", "G6_repair_regression"):
        assert not gates[name].items and gates[name].detail


def test_ties_are_a_state_of_their_own_in_the_gate_that_counts_what_was_read():
    """bfloat16: two labels of one likelihood. The answer is unread for that, and neither right nor
    wrong."""
    base = cell(models.shaky)
    block = base.families[Family.SEMANTIC]
    tied = np.zeros(block.response.shape, dtype=bool)
    tied[0, ::4] = True
    response, why = np.where(tied, UNREAD, block.response), np.where(tied, "tied", block.why)
    result = judged(changed(base, Family.SEMANTIC, response=response, why=why))
    (gate,) = [g for g in result.gates if g.name == "G1_answers_readable"]
    assert gate.status == "fail" and gate.numbers["unread: tied"] == 30
    assert "float32" in gate.advice
    semantic = result.evidence.families[Family.SEMANTIC]
    assert semantic.transitions.unread == 30 and semantic.read == block.response.size - 30


def test_a_model_that_neutral_words_move_as_often_is_not_said_to_react():
    """Nothing should move, and any words before an item move one answer in ten: not what the
    content does."""

    def upset(trial, families):
        other = trial.family in families and models._unit("upset", trial.item, trial.family) < 0.1
        return (models.knows(trial) + 1) % models.OPTIONS if other else models.knows(trial)

    by_words, by_content = (
        judged(cell(lambda trial, f=families: upset(trial, f), n=400, directional=False))
        for families in ((Family.ATTRIBUTE, Family.PLACEBO), (Family.ATTRIBUTE,))
    )
    assert (
        by_words.evidence.primary.above_p < 0.001 and by_words.decision.verdict == S.INDETERMINATE
    )
    assert by_words.decision.reasons[-1].code == "as_neutral_words"
    assert by_content.decision.verdict == S.SELECTIVE


def moved_by(n, directional=False, **items):
    """A perfect model but for these items of a family, whose answers are the option after the right
    one."""

    def model(trial):
        moved = trial.family is not None and trial.item in items.get(trial.family.value, ())
        return (trial.item + moved) % models.OPTIONS

    return cell(model, n, directional=directional)


@pytest.mark.long  # a panel of many models
def test_beyond_neutral_words_is_corrected_over_the_panel():
    """18 items move by the content alone and 6 by neutral words alone: p = .007, of six such models
    no finding."""
    base = moved_by(200, attribute=range(18), placebo=range(18, 24))
    assert judged(base).decision.verdict == S.SELECTIVE
    panel = analyse([replace(base, model=f"m{k}") for k in range(6)], Settings(T, 1, 50))
    assert {r.decision.verdict for r in panel} == {S.INDETERMINATE}
    assert all(r.evidence.placebo.low > 0 and r.evidence.primary.above_p < 0.0001 for r in panel)


def test_unread_answers_to_neutral_words_accuse_no_model():
    """Neutral words move as many answers as the content; most of those that only they move cannot
    be read."""
    base = moved_by(200, attribute=range(30), placebo=range(10, 40))
    assert judged(base).decision.reasons[-1].code == "as_neutral_words"
    result = judged(unread(base, slice(30, 39), Family.PLACEBO))  # 4.5 %: readable enough for G1
    assert result.evidence.placebo.low > 0 and not failing(result)
    assert result.decision.verdict == S.INDETERMINATE
    assert result.decision.what_to_do[0].code == "mend_unparsed"


def test_a_guesser_that_the_content_moves_most_does_not_follow_the_form():
    """Layout moves 40 % of its answers and the content 70 %, but seldom to the key, as guesses
    are."""
    made = moved_by(
        200, directional=True, attribute=range(140), format=range(80), semantic=range(60)
    )
    attribute = made.families[Family.ATTRIBUTE]
    key = np.where(
        np.arange(200) % 7 == 0, attribute.response, (attribute.response + 1) % models.OPTIONS
    )
    result = judged(changed(made, Family.ATTRIBUTE, key=key))
    e = result.evidence
    assert not failing(result) and e.primary.below_p < 0.001 < 0.5 < e.responses.below_p
    assert result.decision.verdict == S.INDETERMINATE
    assert [result.decision.reasons[-1].code, result.decision.what_to_do[0].code] == [
        "neither_direction",
        "ask_more",
    ]
