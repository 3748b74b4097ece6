"""Text from outside (names, ids, what a server says, what a model wrote) on its way to a terminal, a log or a page."""

import re
import unicodedata
from typing import TextIO

_BAD = "\N{REPLACEMENT CHARACTER}"
_BIDI = set("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # they turn the line around
_DROPPED = {"Cc", "Cs", "Zl", "Zp", "Cn"}

_OBEYED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def one_line(text: object) -> str:
    """One printable line: no control character, line break or change of direction, and valid in XML.

    >>> one_line("a\\n::error::b\\x1b[2J")
    'a ::error::b\\ufffd[2J'
    """
    spaced = re.sub(r"[\n\r\t]+", " ", str(text))
    return "".join(_BAD if c in _BIDI or unicodedata.category(c) in _DROPPED else c for c in spaced)


def say(text: object, file: TextIO | None = None) -> None:
    """Print it as one line."""
    print(one_line(text), file=file)


def lines(text: object) -> str:
    """Text that keeps its line breaks; each line is as `one_line` has it.

    >>> lines("a\\n  b\\x1b]0;title\\x07")
    'a\\n  b\\ufffd]0;title\\ufffd'
    """
    return "\n".join(one_line(line) for line in str(text).split("\n"))


def page(text: str) -> str:
    """A whole page or table, without what a terminal obeys or what turns a line around.

    >>> page("<p>a\\x1b[2J</p>\\n")
    '<p>a\\ufffd[2J</p>\\n'
    """
    return _OBEYED.sub(_BAD, text)
