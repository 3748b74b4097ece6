"""What another wording has and lacks, word by word, for a page (pure)."""

from difflib import SequenceMatcher

Segments = list[tuple[str, str]]  # text, and what became of it: "" kept, "new", or "gone"


def word_diff(original: str, other: str) -> Segments:
    """The words of `other`, with those marked that `original` does not have there, and those of `original` that went.

    >>> word_diff("What is the capital?", "What city is the main one?")
    [('What ', ''), ('city ', 'new'), ('is the ', ''), ('capital? ', 'gone'), ('main one?', 'new')]
    """
    a, b = original.split(), other.split()
    segments: Segments = []
    for tag, from_, to, start, end in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if from_ < to and tag != "equal":
            segments.append((" ".join(a[from_:to]) + " ", "gone"))
        if start < end:
            text = " ".join(b[start:end]) + (" " if end < len(b) else "")
            segments.append((text, "" if tag == "equal" else "new"))
    return segments
