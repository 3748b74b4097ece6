"""Decode the parts of a text that may contain an encoded API key.

A decoded part may be decoded again, so a key that was encoded more than once is found too.
"""

import base64
import binascii
import html
import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote

_SHORTEST = 11  # number of base64 characters, without "=", of a key of eight characters
# A run is a part of a text that consists only of escapes and of characters that encodings use.
_ESCAPE = r"%[0-9A-Fa-f]{2}|\\{1,8}(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[0-7]{3})|&(?:#x?[0-9A-Fa-f]{1,6}|[A-Za-z]{2,8});"
_ESCAPES = re.compile(rf"(?:{_ESCAPE}|[A-Za-z0-9+/=._~:@!$*-])+")
_ONE_ESCAPE = re.compile(_ESCAPE)
_BACKSLASHED = re.compile(r"\\{1,8}(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|([0-7]{3}))")
_LINE_END = r"[ \t]*(?:[\r\n]|\\r|\\n|%0[AaDd])+[ \t]*"  # e-mail programs break base64 into lines
_BASE64 = re.compile(rf"[A-Za-z0-9+/_-]{{{_SHORTEST},}}(?:{_LINE_END}[A-Za-z0-9+/_-]+)*", re.ASCII)
# Pattern of a plain word. A plain word is not decoded, since base64 of readable text has more
# capital letters than a word.
_WORD = re.compile(r"[A-Z]?[a-z]+[A-Z]?")
_BASE32 = re.compile(r"[A-Z2-7]{13,}")


def _row(number: str, quantifier: str) -> str:
    """Return a regex that matches eight or more numbers with other characters between them.

    `quantifier` is the regex quantifier for the characters between two numbers.
    """
    return f"(?:{number}[^A-Za-z0-9]{quantifier}){{7,}}{number}"


# Each entry describes one way to write characters as numbers. It holds the pattern of a row of
# numbers, their base, and the number of digits of each number (0 if the number of digits varies).
_NUMBERS = (
    (re.compile(_row("(?:u00|0?x)?[0-9A-Fa-f]{2}", "{0,4}")), 16, 2),
    (re.compile(_row("[0-7]{3}", "{0,4}")), 8, 3),
    (re.compile(_row("[01]{8}", "{0,4}")), 2, 8),
    (re.compile(_row("[0-9]{2,3}", "{1,4}")), 10, 0),
)
_STANDARD = str.maketrans("-_", "+/")
_NUMBER_PREFIX = re.compile(r"u00|0?x")
# Parts that are not an encoded key rarely decode to readable text.
_READABLE = re.compile(r"[\x20-\x7e]{6,}")

Part = tuple[int, int, str]  # start and end in the text, and the decoded text of this part


def decoded_parts(text: str) -> Iterator[Part]:
    """Yield the parts of a text that decode to readable characters.

    Parameters
    ----------
    text : str
        The text to search.

    Yields
    ------
    tuple of (int, int, str)
        Start and end of a part, and a text that the part decodes to. The encodings are base64,
        base32, numbers (hex, octal, decimal, bits), and the escapes of URLs, JSON and HTML. The
        same part may be yielded with several decoded texts, because the encoding may begin after
        the first character of the part.
    """
    for part in _candidates(text):
        if _READABLE.search(part[2]):
            yield part


def _candidates(text: str) -> Iterator[Part]:
    if "%" in text or "\\" in text or "&" in text:
        for run in _ESCAPES.finditer(text):
            if _ONE_ESCAPE.search(run[0]):
                yield run.start(), run.end(), _unescaped(run[0])
    yield from _decoded(_BASE64, text, _from_base64)
    yield from _decoded(_BASE32, text, _from_base32)
    for pattern, base, digits in _NUMBERS:
        for run in pattern.finditer(text):
            for decoded in _from_numbers(run[0], base, digits):
                yield run.start(), run.end(), decoded


def _decoded(
    pattern: re.Pattern[str], text: str, decode: Callable[[str], Iterator[str]]
) -> Iterator[Part]:
    for run in pattern.finditer(text):
        for decoded in decode(run[0]):
            yield run.start(), run.end(), decoded


def _unescaped(run: str) -> str:
    """Decode the escapes of URLs, backslashes and HTML in a run once, and return the text."""
    return html.unescape(_BACKSLASHED.sub(_character, unquote(run)))


def _character(escape: re.Match[str]) -> str:
    unicode, byte, octal = escape.groups()
    return chr(int(octal, 8) if octal else int(unicode or byte, 16))


def _from_base64(run: str) -> Iterator[str]:
    """Decode a run of base64 characters, and yield the texts.

    The encoding may begin at the first, second, third or fourth character of the run, so each of
    these starts is tried.
    """
    if _WORD.fullmatch(run):
        return
    letters = re.sub(_LINE_END, "", run).translate(_STANDARD)
    for start in range(4):
        yield from _bytes_of(base64.b64decode, letters[start:], 4)


def _from_base32(run: str) -> Iterator[str]:
    for start in range(8):
        yield from _bytes_of(base64.b32decode, run[start:], 8)


def _bytes_of(decode: Callable[[str], bytes], letters: str, group: int) -> Iterator[str]:
    """Decode letters, and yield the resulting text.

    `group` is the number of letters that the encoding decodes together. If the incomplete last
    group cannot be decoded, it is left out.
    """
    whole = len(letters) // group * group
    for cut in (letters[whole:], ""):
        try:
            data = decode(letters[:whole] + cut + "=" * (-len(cut) % group))
        except binascii.Error:  # the incomplete last group cannot be decoded
            continue
        yield data.decode("latin-1")
        return


def _from_numbers(run: str, base: int, digits: int) -> Iterator[str]:
    run = _NUMBER_PREFIX.sub("", run) if base == 16 else run
    if not digits:
        yield _characters(re.findall(r"[0-9]+", run), base)
        return
    joined = re.sub(r"[^A-Za-z0-9]+", "", run)
    for start in range(digits):
        numbers = []
        for at in range(start, len(joined) - digits + 1, digits):
            numbers.append(joined[at : at + digits])
        yield _characters(numbers, base)


def _characters(numbers: list[str], base: int) -> str:
    return "".join(chr(int(number, base)) for number in numbers)
