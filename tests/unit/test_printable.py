"""Text from outside holds nothing that a terminal, a log or a page obeys."""

import doctest
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.core import exits
from audit.core.exits import lines, one_line


def test_the_examples_are_so() -> None:
    assert doctest.testmod(exits).failed == 0


@pytest.mark.parametrize(
    "plain", ["", "a b", "Grüße, 世界 👩‍🔬", "[bold]\\x1b[/bold]", "a\n\n  b\n"]
)
def test_ordinary_text_is_left_alone(plain: str) -> None:
    assert lines(plain) == plain


@given(st.text(st.characters(), max_size=20))
def test_whatever_the_text_no_control_character_is_left(text: str) -> None:
    assert not {unicodedata.category(c) for c in one_line(text)} & {"Cc", "Cs", "Cn", "Zl", "Zp"}
    assert lines(text).split("\n") == [one_line(part) for part in text.split("\n")]
    one_line(text).encode()
