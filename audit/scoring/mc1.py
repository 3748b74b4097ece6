"""TruthfulQA MC1: the authors' form, in which the options are never shown, and a lettered one (pure).

Reference: Lin et al. 2022, sylinrl/TruthfulQA `models.py` (MC_calcs) and the `qa` preset: six questions with answers,
then `Q: ...\\nA:`; an option's score is the total logprob of its text, and MC1 is 1 where the true one beats every
false one. Here the primer and the question are one user message and the option is the reply.
"""

from importlib.resources import files

from audit.benchmarks.answers import LETTERS
from audit.benchmarks.items import Item
from audit.scoring.scored import DEFAULT_STYLE, Ask, ask_letter, shown

PRIMER = files("audit.scoring").joinpath("mc1_primer.txt").read_text(encoding="utf-8").rstrip()


def ask_mc1(item: Item, style: str = DEFAULT_STYLE) -> Ask:
    """The primer and the stem; the options are scored as replies and not shown, so `style` changes nothing."""
    return Ask(f"{PRIMER}\n\nQ: {item.text}\nA:", continuations=item.options)


def ask_lettered(item: Item, style: str = DEFAULT_STYLE) -> Ask:
    """The stem with its options, lettered in the order in which the item has them: shuffle it first."""
    return ask_letter(item, "\n".join([item.text, *shown(item, style, LETTERS)]))


def ask_contrast(item: Item, style: str = DEFAULT_STYLE) -> Ask:
    """The embedded `contrast`: the question alone, as the cloze protocol has it; no option is shown, so `style` changes
    nothing."""
    return Ask(f"Answer the question.\n\n{item.text}", continuations=item.options)
