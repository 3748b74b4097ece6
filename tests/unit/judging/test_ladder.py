"""The ladder of grades: its order, its exit codes, and that it stands in one file."""

import ast
from itertools import permutations
from pathlib import Path

import pytest
from documents import cell_of, typed, verdict_of_cells
from hypothesis import given
from hypothesis import strategies as st

import audit
from audit.config.audits import AUDITS, part_of
from audit.judging.decision import rule
from audit.judging.ladder import NO_ROOM, Bound, Contrast, Decision, Grade, Guard, grade

FOLDER = Path(audit.__file__).parent
OPEN, STATED, SHUT = (
    Guard("other", False),
    Guard("hard_items", False, stated=True),
    Guard("done", True),
)
# (grade, contrasts, failed checks of the whole measurement), each with what stands below it on the
# ladder
STEPS = [
    (Grade.CHECK_FAILED, [Contrast("a", True, bound=Bound(True))], ["parseability"]),
    (Grade.CHECK_FAILED, [Contrast("a", failed=("unmatched",), bound=Bound(True))], []),
    (Grade.NOT_IDENTIFIED, [Contrast("a", missing=("needs_references",), bound=Bound(True))], []),
    (Grade.NOT_IDENTIFIED, [], []),
    (
        Grade.NOT_IDENTIFIED,
        [Contrast("text"), Contrast("a", missing=("needs_held_out",), bound=Bound(True))],
        [],
    ),
    (
        Grade.FOUND_STRONG,
        [Contrast("a", True, (SHUT,), Bound(True)), Contrast("b", True, (OPEN,))],
        [],
    ),
    (
        Grade.FOUND_STRONG,
        [Contrast("a", True), Contrast("b", failed=("unmatched",), bound=Bound(True))],
        [],
    ),
    (
        Grade.FOUND_SUGGESTIVE,
        [Contrast("a", True, (SHUT, STATED), Bound(True)), Contrast("b", True, (OPEN,))],
        [],
    ),
    (Grade.CAUSE_UNKNOWN, [Contrast("a", True, (STATED, OPEN), Bound(True))], []),
    (
        Grade.CLEARED,
        [
            Contrast("a", bound=Bound(True)),
            Contrast("text"),
            Contrast("b", missing=("likelihoods",)),
        ],
        [],
    ),
    (Grade.NOT_IDENTIFIED, [Contrast("a", bound=Bound(True, room=False))], []),
    (Grade.UNDECIDED, [Contrast("a", bound=Bound(False, room=False))], []),
    (Grade.UNDECIDED, [Contrast("a", bound=Bound(True)), Contrast("b", bound=Bound(False))], []),
]


@pytest.mark.parametrize(("expected", "contrasts", "failed"), STEPS)
def test_each_grade_is_reached_whatever_the_order_of_the_contrasts(
    expected, contrasts, failed
) -> None:
    assert {grade(ordered, failed).grade for ordered in permutations(contrasts)} == {expected}


def test_a_grade_names_what_it_rests_on() -> None:
    assert grade([Contrast("a", bound=Bound(True, room=False))]).codes == (NO_ROOM,)
    assert grade([Contrast("a", missing=("needs_references",))]).codes == ("needs_references",)
    both = [
        Contrast("a", True, (STATED,)),
        Contrast("b", True, (OPEN,)),
        Contrast("c", bound=Bound(False)),
    ]
    assert (grade(both).by, grade(both).codes) == (("a",), ("hard_items",))
    assert grade(both[1:]).by == ("b",) and grade(both[2:]).by == ("c",)


guards = st.builds(Guard, st.sampled_from("xyz"), st.booleans(), st.booleans())
contrast = st.builds(
    Contrast,
    st.sampled_from("abc"),
    st.booleans(),
    st.lists(guards, max_size=3).map(tuple),
    st.none() | st.builds(Bound, st.booleans(), st.booleans()),
    st.sampled_from([(), (), ("check",)]),
    st.sampled_from([(), (), ("held_out",)]),
)
FOUND = (Grade.FOUND_STRONG, Grade.FOUND_SUGGESTIVE, Grade.CAUSE_UNKNOWN)


@given(st.lists(contrast, max_size=4))
def test_nothing_that_could_not_be_judged_finds_or_clears(contrasts: list[Contrast]) -> None:
    reached, judged = (
        grade(contrasts).grade,
        [contrast for contrast in contrasts if contrast.judged],
    )
    assert grade(contrasts, ["check"]).grade == Grade.CHECK_FAILED
    assert (reached in FOUND) == any(member.speaks for member in judged)
    if reached == Grade.CLEARED:
        assert all(member.bound is None or member.bound == Bound(True) for member in judged)
        assert not any(contrast.failed for contrast in contrasts) and any(
            member.bound for member in judged
        )


def test_decisions_and_exit_codes_are_those_of_the_design() -> None:
    outcomes = {member: (member.decision(), member.decision().exit_code) for member in Grade}
    assert outcomes == {
        Grade.CHECK_FAILED: (Decision.NO_DECISION, 5),
        Grade.NOT_IDENTIFIED: (Decision.NO_DECISION, 5),
        Grade.FOUND_STRONG: (Decision.BLOCK, 3),
        Grade.FOUND_SUGGESTIVE: (Decision.REVIEW, 4),
        Grade.CAUSE_UNKNOWN: (Decision.REVIEW, 4),
        Grade.CLEARED: (Decision.PASS, 0),
        Grade.UNDECIDED: (Decision.NO_DECISION, 5),
    }
    assert {member: member.decision("suggestive") for member in Grade} == {
        **{member: member.decision() for member in Grade},
        Grade.FOUND_SUGGESTIVE: Decision.BLOCK,
    }


@pytest.mark.parametrize("name", AUDITS)
def test_the_gate_goes_by_the_grade_of_a_cell(name: str) -> None:
    for code in part_of(name, "vocabulary").VERDICTS:
        for member in Grade:
            cell = cell_of(str(code), name, grade=str(member))
            for block_at in ("strong", "suggestive"):
                ruling = rule(
                    typed(verdict_of_cells([cell], name, thresholds={"block_at": block_at}))
                )
                assert (ruling.decision, ruling.exit_code) == (
                    member.decision(block_at),
                    member.decision(block_at).exit_code,
                )


@pytest.mark.parametrize("name", AUDITS)
def test_no_audit_grades_a_decision_by_itself(name: str) -> None:
    """Every decision of an audit has the grade that the ladder gave it: none is written beside
    it."""
    graded = 0
    for path in (FOLDER / name).glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Name)
                and call.func.id == "Decision"
            ):
                given_ = ast.unparse(call.args[1])
                assert given_ == "graded.grade" or given_.startswith("grade("), (path, given_)
                graded += 1
    assert graded
