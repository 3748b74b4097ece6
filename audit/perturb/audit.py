"""The semantic-perturbation audit as the pipeline runs it: the direct prompt of the shared protocol under each wording.

No router, one call a row. A question with fewer variants than asked for (short=keep) has rows for the missing ones:
they say that nothing was asked, and are neither sent nor scored.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import pyarrow as pa

from audit.audits import Audit, Roles, Work
from audit.perturb.config import design_of
from audit.perturb.design import Arm
from audit.prompting import direct_prompt
from audit.records import Generation, Item, Part, Presentation
from audit.shards.schema import row_schema
from audit.shards.working_copy import local_file
from audit.variants.arrow import read_library
from audit.variants.record import Library, Variant

CONTROL_FILE = "variants_control.arrow"  # beside the shards: the library of the held-out items
NOT_ASKED = "the library has no such variant of this question: nothing was asked"


def present(work: Work, item: Item, part: Part, _: Sequence[Generation]) -> list[Presentation]:
    """The question at each level of a part: 0 as published, j in the words of its j-th accepted variant.

    work.own: {benchmark: path of its library}, each of which every stage process reads once.
    """
    library, accepted = _opened(work.own[item.benchmark])
    return [_present(work, item, library, accepted.get(item.id, ()), level) for level in part.levels]


def reworded(library: Library, item: Item, variant: Variant) -> Item:
    """The question in a variant's words. Its options stay as this run shows them, unless the library permutes them."""
    if library.header.options == "permute":
        return variant.reword(item)
    return item.reworded(variant.context + variant.text)


def _present(work: Work, item: Item, library: Library, variants: Sequence[Variant], level: int) -> Presentation:
    if level > len(variants):
        own = {"variant_id": None, "wording": "", "distance": None, "asked": False}
        return Presentation("", item.options, item.gold, own, NOT_ASKED)
    variant = variants[level - 1] if level else None
    asked = item if variant is None else reworded(library, item, variant)
    return Presentation(
        prompt=direct_prompt(work.protocol, asked, work.reading),
        options=asked.options,
        gold=asked.gold,
        extras={
            "variant_id": variant.id if variant else None,
            "wording": asked.text,
            "distance": variant.distance if variant else None,
            "asked": True,
        },
    )


@lru_cache(maxsize=2)
def _opened(path: str) -> tuple[Library, Mapping[str, tuple[Variant, ...]]]:
    library = read_library(local_file(path))
    return library, library.by_question()


SCHEMA = row_schema(
    "perturb",
    1,
    own=(
        ("variant_id", pa.string(), "<question_id>#<number> in the library; null for the original, or where not asked"),
        ("wording", pa.string(), "the question in the words that were asked; hostile text where a model wrote them"),
        ("distance", pa.float64(), "cosine distance from the original, of the library, 0-2; null for the original"),
        ("asked", pa.bool_(), "false: the library has no such variant of the question, so nothing was sent or scored"),
    ),
)


PERTURB = Audit(
    name="perturb",
    schema=SCHEMA,
    roles=Roles(baseline=(Arm.ORIGINAL, 0), arms=tuple(Arm)),
    design=design_of,
    present=present,
)
