"""Semantic edits: the same question in other words, from a library, from the item itself, or in a neutral frame."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from audit.benchmarks.items import ContrastFacts, Item
from audit.validity.edits.record import Contract, Edit, Family
from audit.validity.edits.surface import each_text
from audit.variants.record import Variant

# "Paraphrase templates" (li2026, appendix C): what is asked stays word for word, so they are the weakest paraphrase.
FRAMES = (
    "Let me ask you this. {}",
    "I would like to know the following. {}",
    "Consider what follows. {}",
    "{} That is what I ask.",
)
STATEMENT_FRAMES = ("Somebody said: {}", "I read this: {}", "These words were written: {}", "{} So it was said.")
_STATEMENTS = ("toxigen", "crows_pairs")
BLANK = "___"  # as `items.shared_words` has it
_MARKS = ".,;:!?"


def wordings(item: Item, benchmark: str, library: Mapping[str, Sequence[Variant]] | None) -> Iterator[Edit]:
    """Candidates, best first. library: accepted variants by item id; None where there is none, and frames serve."""
    if library is not None:
        for variant in library.get(item.id, ()):
            if not item.text:
                pair = refilled(item.options, variant.text)
                if pair is not None:
                    yield _edit(f"variant_{variant.number}", replace(item, options=pair))
            elif bool(variant.context) == bool(item.context):
                changed = replace(item, text=variant.text, context=variant.context.strip())
                yield _edit(f"variant_{variant.number}", changed)
    elif isinstance(item.facts, ContrastFacts):
        for number, text in enumerate(item.facts.paraphrases, start=1):
            yield _edit(f"paraphrase_{number}", replace(item, text=text))
    else:
        frames = STATEMENT_FRAMES if benchmark in _STATEMENTS else FRAMES
        for number, frame in enumerate(frames, start=1):
            if item.context:  # the question is framed; the passage stays as it is
                yield _edit(f"frame_{number}", replace(item, text=frame.format(item.text)))
            else:
                yield _edit(f"frame_{number}", each_text(item, frame.format))


def refilled(pair: tuple[str, ...], shared: str) -> tuple[str, str] | None:
    """Both sentences in the words of `shared`, a rewording of what they share (`items.shared_words`), each with its own
    words in the blanks, in their order; None where there are not as many blanks. These words are not touched; a mark
    that ends them in both sentences goes along where the same word follows it as before, and to the end of a sentence.

    >>> refilled(("The tall man, they say, ran.", "The small man, they say, ran."), "They say the ___ man was running.")
    ('They say the tall man was running.', 'They say the small man was running.')
    """
    a, b = (text.split() for text in pair)
    codes = [c for c in SequenceMatcher(None, a, b, autojunk=False).get_opcodes() if c[0] != "equal"]
    pieces = shared.split(BLANK)
    if len(pieces) != len(codes) + 1:
        return None
    first = second = pieces[0]
    for (_, i1, i2, j1, j2), after in zip(codes, pieces[1:], strict=True):
        one, other = " ".join(a[i1:i2]), " ".join(b[j1:j2])
        follows, followed = after.split()[:1], a[i2 : i2 + 1]
        alike = one[-1:] == other[-1:] and one[-1:] in tuple(_MARKS)
        if alike and follows != followed and not (not follows and one[-1] in ".!?"):
            one, other = one[:-1], other[:-1]
        first, second = first + one + after, second + other + after
    return " ".join(first.split()), " ".join(second.split())


def _edit(name: str, changed: Item) -> Edit:
    return Edit(name, Family.SEMANTIC, Contract.INVARIANT, changed)
