"""What instruments say together: none clears what it cannot see, and each kind is said once, by who sees it."""

import itertools

import pytest

from audit.audits import AUDITS, part_of
from audit.verdict.instrument import KINDS, TITLES, Finding, Measured, Seen, looked_for, synthesis
from audit.verdict.vocabulary import Outcome

TELLS = (Seen.SEEN, Seen.NOT_SEEN, Seen.COULD_NOT_TELL)

NOTHING = Measured("gain", None, None, None, None)


def said(
    *states: Seen, sees: tuple[tuple[str, ...], ...] = (("noise",), ("wording",), ("answers", "text"))
) -> dict[str, str]:
    """The sentence of each state, by how it begins."""
    findings = [
        Finding(name, name, own, "v", "V", "good", "o", Outcome.FOUND, NOTHING, "", kinds=dict.fromkeys(own, state))
        for name, state, own in zip("ABC", states, sees, strict=False)
    ]
    return {line.partition(":")[0].partition(",")[0]: line for line in synthesis(findings)}


@pytest.mark.parametrize("states", list(itertools.product(TELLS, repeat=2)))
def test_what_no_instrument_sees_is_never_cleared(states: tuple[Seen, Seen]) -> None:
    text = said(*states)
    for kind in ("answers", "text", "format", "attribute"):
        assert KINDS[kind] in text["Not looked for"]
        assert not any(KINDS[kind] in line for name, line in text.items() if name != "Not looked for")
    assert "agree" not in " ".join(text.values())  # least of all of those that could not tell


def test_each_kind_stands_once_with_who_says_so() -> None:
    text = said(Seen.NOT_SEEN, Seen.SEEN, Seen.COULD_NOT_TELL)
    assert f"{KINDS['noise']} (A)" in text["Not seen"] and f"{KINDS['wording']} (B)." in text["Seen"]
    assert f"{KINDS['answers']} (C); {KINDS['text']} (C)" in text["Could not tell"]
    assert all(" ".join(text.values()).count(title) == 1 for title in KINDS.values())


def test_a_finding_is_not_taken_back_and_who_contradicts_it_is_named() -> None:
    assert "not by" not in said(Seen.NOT_SEEN, Seen.SEEN)["Seen"]
    both = said(Seen.NOT_SEEN, Seen.SEEN, sees=(("wording", "text"), ("wording",)))
    assert f"{KINDS['wording']} (B; not by A)" in both["Seen"] and f"{KINDS['text']} (A)" in both["Not seen"]


def test_the_matrix_says_of_each_kind_what_each_sees_and_what_holds_of_all() -> None:
    rows = looked_for(
        [
            {"kinds": {"noise": "could not tell"}},
            {"kinds": {"wording": "seen, cause unknown", "text": "not seen"}},
            {"kinds": {"answers": "seen", "text": "could not tell", "wording": "not seen"}},
        ]
    )
    told = {kind: tuple(map(Seen, row)) for kind, row in rows.items()}
    assert list(told) == list(KINDS)
    assert told["noise"] == (Seen.COULD_NOT_TELL, Seen.BLIND, Seen.BLIND, Seen.COULD_NOT_TELL)
    assert told["wording"] == (Seen.BLIND, Seen.CAUSE_UNKNOWN, Seen.NOT_SEEN, Seen.CAUSE_UNKNOWN)
    assert told["answers"] == (Seen.BLIND, Seen.BLIND, Seen.SEEN, Seen.SEEN)
    assert told["text"] == (Seen.BLIND, Seen.NOT_SEEN, Seen.COULD_NOT_TELL, Seen.NOT_SEEN)
    assert told["format"] == (Seen.BLIND,) * 4 and looked_for([])["text"] == (Seen.BLIND,)


@pytest.mark.parametrize("audit", AUDITS)
def test_every_instrument_sees_something_that_is_known_and_not_all(audit: str) -> None:
    one = part_of(audit, "instrument").INSTRUMENT
    assert one.audit == audit and one.sees and one.sees < set(KINDS) == set(TITLES)
