"""Is a candidate new? Repeats of the original or of another variant, and the distance window."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

ORIGINAL = "original"
_EDGES = ".,;:?\"'“”‘’"  # marks that end or dress a word; "!" is a factorial in some questions, so it stays

WINDOW_NOTE = (
    "The distance window is a novelty filter (is it reworded enough?). It does not see whether the meaning is kept: it "
    "accepts rewordings whose meaning was changed as readily as true ones (docs/variants.md)."
)


def same_words(text: str) -> str:
    """What two texts share when they differ in case, spacing and the marks at the ends of words only.

    >>> same_words("Which animal  barks?") == same_words("which animal barks")
    True
    >>> same_words("f(x) = x - 1") == same_words("f(x) = x + 1")
    False
    """
    words = unicodedata.normalize("NFKC", text).casefold().split()
    return " ".join(stripped for word in words if (stripped := word.strip(_EDGES)))


def repeats(text: str, original: str, earlier: Mapping[str, str]) -> str | None:
    """What the text repeats: "original", the id of an earlier variant (`earlier`: same_words -> id), or None."""
    words = same_words(text)
    if words == same_words(original):
        return ORIGINAL
    return earlier.get(words)
