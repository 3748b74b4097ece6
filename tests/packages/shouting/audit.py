"""What is asked: every question as it is, and in capitals with one to `volumes` exclamation
marks."""

from collections.abc import Sequence

import pyarrow as pa

from audit.config.audits import Audit, Roles, Work
from audit.core.prompting import direct_prompt
from audit.core.records import Generation, Item, Part, Presentation
from audit.shards.schema import row_schema
from shouting.config import design_of


def present(work: Work, question: Item, part: Part, _: Sequence[Generation]) -> list[Presentation]:
    """The stem in capitals. Without a letter it cannot be shouted."""
    (volume,) = part.levels
    stem = question.text.upper() + "!" * volume if volume else question.text
    prompt = direct_prompt(work.protocol, question.reworded(stem), work.reading)
    error = (
        "the question has no letter"
        if volume and question.text.upper() == question.text.lower()
        else None
    )
    return [Presentation(prompt, question.options, question.gold, {"volume": volume}, error)]


SHOUTING = Audit(
    name="shouting",
    schema=row_schema("shouting", 1, [("volume", pa.int16(), "exclamation marks")]),
    roles=Roles(baseline=("original", 0), arms=("original", "variant")),
    design=design_of,
    present=present,
)
