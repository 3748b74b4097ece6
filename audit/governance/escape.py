"""Text from outside (names, ids, what a model wrote) on its way into a log, a page or a build system's commands."""

from __future__ import annotations

import re
import unicodedata

_BAD = "\N{REPLACEMENT CHARACTER}"
_BIDI = set("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # they turn the line around
_DROPPED = {"Cc", "Cs", "Zl", "Zp", "Cn"}
# With an entity in their place none of these starts emphasis, a link, a mention, a table cell, HTML or mathematics.
_MARKDOWN = re.compile(r"[&<>\\`*_\[\]|~:@/#$^!]|(?<=[wW])\.")


def one_line(text: object) -> str:
    """One printable line: no control character, line break or change of direction, and valid in XML.

    >>> one_line("a\\n::error::b\\x1b[2J")
    'a ::error::b\\ufffd[2J'
    """
    spaced = re.sub(r"[\n\r\t]+", " ", str(text))
    return "".join(_BAD if c in _BIDI or unicodedata.category(c) in _DROPPED else c for c in spaced)


def markdown(text: object) -> str:
    """Text that GitHub's markdown shows as it is.

    >>> markdown("[a](http://b) | *c*")
    '&#91;a&#93;(http&#58;&#47;&#47;b) &#124; &#42;c&#42;'
    """
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", one_line(text))


def command_value(text: object) -> str:
    """The message of a GitHub workflow command: it cannot end the command or begin another."""
    return one_line(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def command_property(text: object) -> str:
    """A property of a GitHub workflow command, such as its title."""
    return command_value(text).replace(":", "%3A").replace(",", "%2C")
