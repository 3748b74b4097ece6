"""Semantic edits: the same question in other words, from a library, from the item itself, or in a neutral frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

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


def wordings(item: Item, benchmark: str, library: Mapping[str, Sequence[Variant]] | None) -> Iterator[Edit]:
    """Candidates, best first. library: accepted variants by item id; None where there is none, and frames serve."""
    if library is not None:
        for variant in library.get(item.id, ()):
            if bool(variant.context) == bool(item.context):
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


def _edit(name: str, changed: Item) -> Edit:
    return Edit(name, Family.SEMANTIC, Contract.INVARIANT, changed)
