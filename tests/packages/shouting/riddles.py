"""A reader of benchmark files, and a reference scorer."""

from audit.benchmarks.registry import Format
from audit.benchmarks.rows import RawRow, RowContext
from audit.core.records import Ask, Item
from audit.scoring.reference import ReferenceScorer
from audit.scoring.scored import Needs, read_best, reply_best


def riddle(row: RawRow, context: RowContext) -> Item:
    """{riddle, answers: the right one first}."""
    id_ = f"{context.config.name}/{context.number}"
    return Item(id_, context.config.name, str(row["riddle"]), tuple(row["answers"]), 0, id_)


def ask(item: Item, style: str) -> Ask:
    return Ask(item.text, continuations=item.options)


FORMAT = Format(riddle, (".jsonl",))
SCORER = ReferenceScorer(
    "riddles_cloze",
    "riddles",
    Needs.CONTINUATIONS,
    "the likelihood of each answer",
    ("By definition.",),
    True,
    ask,
    read_best,
    reply_best,
)
