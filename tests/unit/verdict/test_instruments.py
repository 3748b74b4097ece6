"""What instruments say together: no one clears what it cannot see, and who agrees and who does not is said."""

from __future__ import annotations

import itertools

import pytest

from audit.audits import AUDITS, part_of
from audit.verdict.instrument import KINDS, TITLES, Finding, Measured, looked_for, synthesis
from audit.verdict.vocabulary import Outcome

FOUND, NOT_CLEARED, CLEARED = Outcome.FOUND, Outcome.NO_DECISION, Outcome.NOTHING_SEEN

NOTHING = Measured("gain", None, None, None, None)


def said(
    *outcomes: Outcome, sees: tuple[tuple[str, ...], ...] = (("noise",), ("wording",), ("answers", "text"))
) -> str:
    names = ("A", "B", "C")
    findings = [
        Finding(name, name, kinds, "v", "V", "good", "o", outcome, NOTHING, "not measured")
        for name, outcome, kinds in zip(names, outcomes, sees, strict=False)
    ]
    return " ".join(synthesis(findings))


@pytest.mark.parametrize("outcomes", list(itertools.product((FOUND, CLEARED, NOT_CLEARED), repeat=2)))
def test_what_no_instrument_sees_is_never_cleared(outcomes: tuple[Outcome, Outcome]) -> None:
    text = said(*outcomes)
    for kind in ("answers", "text", "format"):
        assert KINDS[kind] in text.split("No instrument here sees ")[1]
    assert text.endswith("nothing on this page clears the model of that.")


def test_two_that_found_nothing_agree_and_clear_only_what_they_see() -> None:
    text = said(CLEARED, CLEARED)
    assert text.startswith("Both instruments agree: A and B found nothing.")
    assert (
        f"A speaks against {KINDS['noise']}, up to the limit that it states, if it states one, and against nothing else"
        in text
    )
    assert f"B speaks against {KINDS['wording']}" in text and "sensitivity" not in text


def test_a_finding_is_not_taken_back_by_one_that_is_blind_to_it() -> None:
    text = said(CLEARED, FOUND)
    assert text.startswith("The instruments disagree: B found something; A found nothing.")
    assert f"B speaks for {KINDS['wording']}." in text
    assert "A did not find it and does not take it back: what B sees, A is blind to." in text
    # one that sees the same does contradict it: nothing is said of blindness
    same = said(CLEARED, FOUND, sees=(("wording", "text"), ("wording",)))
    assert "disagree" in same and "blind" not in same


def test_one_that_could_not_tell_neither_agrees_nor_clears() -> None:
    text = said(CLEARED, NOT_CLEARED)
    assert text.startswith("A found nothing; B could not tell.") and "agree" not in text
    assert f"Nothing can be said of {KINDS['wording']}: B could not tell." in text
    assert f"speaks against {KINDS['wording']}" not in text


def test_those_that_could_not_tell_do_not_agree() -> None:
    """Agreement in ignorance reads as agreement."""
    assert said(NOT_CLEARED, NOT_CLEARED, NOT_CLEARED).startswith("None of the 3 instruments could tell: A, B and C.")
    assert "agree" not in said(NOT_CLEARED, NOT_CLEARED)


def test_the_matrix_says_of_each_kind_what_each_sees_and_what_holds_of_all() -> None:
    rows = looked_for(
        [
            {"kinds": {"noise": "could not tell"}},
            {"kinds": {"wording": "seen, cause unknown", "text": "not seen"}},
            {"kinds": {"answers": "seen", "text": "could not tell", "wording": "not seen"}},
        ]
    )
    told = {kind: tuple(str(one) for one in row) for kind, row in rows.items()}
    assert list(told) == list(KINDS)
    assert told["noise"] == ("could not tell", "blind", "blind", "could not tell")
    assert told["wording"] == ("blind", "seen, cause unknown", "not seen", "seen, cause unknown")
    assert told["answers"] == ("blind", "blind", "seen", "seen")
    assert told["text"] == ("blind", "not seen", "could not tell", "not seen")
    assert told["format"] == ("blind",) * 4 and looked_for([])["text"] == ("blind",)


def test_all_three_join_by_their_rows() -> None:
    text = said(FOUND, FOUND, FOUND)
    assert text.startswith("All 3 instruments agree: A, B and C found something.")
    assert f"No instrument here sees {KINDS['format']} or {KINDS['attribute']}:" in text


@pytest.mark.parametrize("audit", AUDITS)
def test_every_instrument_sees_something_that_is_known_and_not_all(audit: str) -> None:
    one = part_of(audit, "instrument").INSTRUMENT
    assert one.audit == audit and one.sees and one.sees < set(KINDS) == set(TITLES)
