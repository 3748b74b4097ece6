"""The embedded `contrast`: the likelihood of each option as the reply to the question, options not shown (pure)."""

from __future__ import annotations

from audit.benchmarks.items import Item
from audit.scoring.scored import DEFAULT_STYLE, Ask


def ask_contrast(item: Item, style: str = DEFAULT_STYLE) -> Ask:
    """The question alone, as the cloze protocol has it; `style` changes nothing, as no option is shown."""
    return Ask(f"Answer the question.\n\n{item.text}", continuations=item.options)
