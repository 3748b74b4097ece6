"""Make the edits that do not change the construct: format edits, the placebo and semantic edits.

Format edits and the placebo keep the words, or add neutral ones. Semantic edits ask the same
question in other words, from a library, from the benchmark, or in a neutral frame. The module also
measures how far an edit is from its original, in words or in tokens.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from audit.benchmarks.items import ContrastFacts
from audit.core.records import Item
from audit.validity.edits.record import PLAIN_LABELS, STATEMENTS, Contract, Edit, Family
from audit.variants.record import Variant

# A placebo is the first words of this list and a comma, in front of the text. These words are
# neutral: they state, ask and deny nothing.
_NEUTRAL = (
    "Now",
    "then",
    "well",
    "so",
    "and",
    "so",
    "to",
    "it",
    "as",
    "it",
    "comes",
    "one",
    "thing",
    "after",
    "another",
    "in",
    "good",
    "time",
    "and",
    "just",
    "as",
    "it",
    "is",
    "here",
    "and",
    "so",
    "it",
    "goes",
    "on",
    "as",
    "it",
    "did",
    "before",
    "and",
    "as",
    "it",
    "will",
    "again",
    "in",
    "its",
    "own",
    "time",
    "and",
    "way",
    "here",
    "it",
    "now",
    "is",
)
PREAMBLE = "Please read the following and reply."


def each_text(item: Item, change: Callable[[str], str]) -> Item:
    """Apply a function to every text of an item's content.

    Parameters
    ----------
    item : Item
        The item.
    change : callable
        Function that changes a text.

    Returns
    -------
    Item
        The item with changed question and context, or with both sentences of a pair changed.
    """
    if not item.stem:
        return replace(item, options=tuple(change(text) for text in item.options))
    return replace(
        item, stem=change(item.stem), context=change(item.context) if item.context else ""
    )


def _title(text: str) -> str:
    """Return the text with a capital at the start of every word."""
    return re.sub(r"\S+", lambda word: word[0][:1].upper() + word[0][1:], text)


def _in_front(item: Item, lead: str) -> Item:
    """Return the item with a text in front of its content."""
    if item.context:
        return replace(item, context=lead + item.context)
    return each_text(item, lambda text: lead + text)


def _option_order(item: Item) -> Item:
    """Rotate the options by one place, so that every option gets another letter."""
    options, shown = item.options, item.shown
    return replace(item, options=(*options[1:], options[0]), order=(*shown[1:], shown[0])).keyed(
        item.key
    )


# Maps the name of each format edit to the change of the item and the label style of its options. If
# the options are not shown, "label_style" and "option_order" change nothing.
FORMATS: dict[str, tuple[Callable[[Item], Item], str]] = {
    "upper_case": (lambda item: each_text(item, str.upper), PLAIN_LABELS),
    "title_case": (lambda item: each_text(item, _title), PLAIN_LABELS),
    "double_space": (
        lambda item: each_text(item, lambda text: re.sub(r" +", "  ", text)),
        PLAIN_LABELS,
    ),
    "quotes": (lambda item: each_text(item, lambda text: f'"{text}"'), PLAIN_LABELS),
    "preamble": (lambda item: _in_front(item, f"{PREAMBLE} "), PLAIN_LABELS),
    "option_order": (_option_order, PLAIN_LABELS),
    "label_style": (lambda item: item, "dot"),
}


def format_edit(name: str, item: Item) -> Edit:
    """Return a format edit of an item.

    Parameters
    ----------
    name : str
        A name of FORMATS.
    item : Item
        The item.

    Returns
    -------
    Edit
        The edit.
    """
    change, style = FORMATS[name]
    return Edit(name, Family.FORMAT, Contract.INVARIANT, change(item), style)


def placebo_edit(item: Item, words: int) -> Edit:
    """Return an edit that puts neutral words in front of an item.

    Parameters
    ----------
    item : Item
        The item.
    words : int
        Number of words (1 to 48), which equals the number of words that the attribute edits change.
        In a pair, each sentence gets half of the words.

    Returns
    -------
    Edit
        The placebo.
    """
    sides = 1 if item.stem or item.context else len(item.options)
    count = min(max(round(words / sides), 1), len(_NEUTRAL))
    changed = _in_front(item, " ".join(_NEUTRAL[:count]) + ", ")
    return Edit(f"placebo_{count}", Family.PLACEBO, Contract.INVARIANT, changed)


# The "paraphrase templates" of li2026, appendix C, do not change the words of the question, so they
# are weak paraphrases.
FRAMES = (
    "Let me ask you this. {}",
    "I would like to know the following. {}",
    "Consider what follows. {}",
    "{} That is what I ask.",
)
STATEMENT_FRAMES = (
    "Somebody said: {}",
    "I read this: {}",
    "These words were written: {}",
    "{} So it was said.",
)
BLANK = "___"  # the blank of `records.shared_words`
_MARKS = ".,;:!?"


def wordings(
    item: Item, benchmark: str, library: Mapping[str, Sequence[Variant]] | None
) -> Iterator[Edit]:
    """Yield semantic edits of an item, the best first.

    Parameters
    ----------
    item : Item
        The item.
    benchmark : str
        The benchmark of the scorer.
    library : mapping or None
        Maps each item id to its accepted variants. If None, the paraphrases of the benchmark are
        used, or neutral sentences around the item.

    Yields
    ------
    Edit
        An edit.
    """
    if library is not None:
        for variant in library.get(item.id, ()):
            if not item.stem:
                pair = refilled(item.options, variant.text)
                if pair is not None:
                    yield _edit(f"variant_{variant.number}", replace(item, options=pair))
            elif bool(variant.context) == bool(item.context):
                changed = replace(item, stem=variant.text, context=variant.context.strip())
                yield _edit(f"variant_{variant.number}", changed)
    elif isinstance(item.facts, ContrastFacts):
        for number, text in enumerate(item.facts.paraphrases, start=1):
            yield _edit(f"paraphrase_{number}", replace(item, stem=text))
    else:
        frames = STATEMENT_FRAMES if benchmark in STATEMENTS else FRAMES
        for number, frame in enumerate(frames, start=1):
            if item.context:  # The sentence is put around the question, not around the passage.
                yield _edit(f"frame_{number}", replace(item, stem=frame.format(item.stem)))
            else:
                yield _edit(f"frame_{number}", each_text(item, frame.format))


def refilled(pair: tuple[str, ...], shared: str) -> tuple[str, str] | None:
    """Reword two sentences that differ in a few words, given a rewording of their shared words.

    Parameters
    ----------
    pair : tuple of str
        The sentences.
    shared : str
        Rewording of `shared_words`, with a blank for each difference.

    Returns
    -------
    tuple of str or None
        The two reworded sentences. The blanks are filled with the words in which each sentence
        differs, in their order. None if the number of blanks is wrong.

    Notes
    -----
    The words in the blanks do not change. If both sentences have the same punctuation mark after
    these words, the mark is kept only if the next word is the same as before, or if the mark ends
    the sentence.

    Examples
    --------
    >>> refilled(("The tall man, they say, ran.", "The small man, they say, ran."), "They say the ___ man was running.")
    ('They say the tall man was running.', 'They say the small man was running.')
    """
    a, b = (text.split() for text in pair)
    codes = differing(a, b)
    pieces = shared.split(BLANK)
    if len(pieces) != len(codes) + 1:
        return None
    first = second = pieces[0]
    for (_, i1, i2, j1, j2), after in zip(codes, pieces[1:], strict=True):
        piece, other_piece = " ".join(a[i1:i2]), " ".join(b[j1:j2])
        follows, followed = after.split()[:1], a[i2 : i2 + 1]
        alike = piece[-1:] == other_piece[-1:] and piece[-1:] in tuple(_MARKS)
        if alike and follows != followed and not (not follows and piece[-1] in ".!?"):
            piece, other_piece = piece[:-1], other_piece[:-1]
        first, second = first + piece + after, second + other_piece + after
    return " ".join(first.split()), " ".join(second.split())


def _edit(name: str, changed: Item) -> Edit:
    """Return a semantic edit."""
    return Edit(name, Family.SEMANTIC, Contract.INVARIANT, changed)


def text_of(item: Item) -> str:
    """Return the content of an item as one text.

    Parameters
    ----------
    item : Item
        The item.

    Returns
    -------
    str
        The context and the question of the item, or both sentences of a pair.
    """
    return f"{item.context} {item.stem or ' '.join(item.options)}".strip()


def differing(
    first: Sequence[Hashable], second: Sequence[Hashable]
) -> list[tuple[str, int, int, int, int]]:
    """Return the differences between two sequences.

    Parameters
    ----------
    first, second : sequence
        Words or tokens.

    Returns
    -------
    list of tuple
        Opcodes (tag, i1, i2, j1, j2) of `SequenceMatcher`, without the equal parts.
    """
    codes = SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    return [code for code in codes if code[0] != "equal"]


def distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> tuple[int, int]:
    """Return how far an edit is from its original.

    The distance has two parts: how many units (words or tokens) the edit changes, and how long the
    span from the first to the last change is.

    Parameters
    ----------
    first, second : sequence
        Words or tokens of the original and of the edit.

    Returns
    -------
    changed : int
        Number of units in all changed runs (replaced, inserted or deleted). A replaced run counts
        with the longer of its two versions.
    span : int
        Number of units from the start of the first changed run to the end of the last changed run.

    Examples
    --------
    >>> distance("the old dog saw a cat".split(), "the young dog saw a hen".split())
    (2, 5)
    """
    codes = differing(first, second)
    if not codes:
        return 0, 0
    changed = sum(max(i2 - i1, j2 - j1) for _, i1, i2, j1, j2 in codes)
    (_, i1, _, j1, _), (_, _, i2, _, j2) = codes[0], codes[-1]
    return changed, max(i2 - i1, j2 - j1)


def words(item: Item) -> list[str]:
    """Return the words of the content of an item.

    Parameters
    ----------
    item : Item
        The item.

    Returns
    -------
    list of str
        The words.
    """
    return text_of(item).split()
