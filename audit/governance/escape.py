"""Text from outside on its way into markdown or a build system's commands. For anything else: `audit.printable`."""

from __future__ import annotations

import re

from audit.printable import one_line

# With an entity in their place none of these starts emphasis, a link, a mention, a table cell, HTML or mathematics.
_MARKDOWN = re.compile(r"[&<>\\`*_\[\]|~:@/#$^!]|(?<=[wW])\.")


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
