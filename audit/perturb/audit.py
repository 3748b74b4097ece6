"""Build what a perturbation audit sends: the direct prompt of the shared protocol under each
wording.

There is no router, and each row is one call. A question with fewer variants than planned
(short=keep) has rows for the missing ones. They state that nothing was asked, and are neither sent
nor scored.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import pyarrow as pa

from audit.config.audits import Audit, Roles, Work
from audit.core.prompting import direct_prompt
from audit.core.records import Generation, Item, Part, Presentation
from audit.perturb.config import design_of
from audit.perturb.design import Arm
from audit.shards.schema import row_schema
from audit.shards.working_copy import local_file
from audit.variants.arrow import read_library
from audit.variants.record import Library, Variant

CONTROL_FILE = "variants_control.arrow"  # library of the held-out items, stored beside the shards
NOT_ASKED = "the library has no such variant of this question, so nothing was sent"


def present(work: Work, item: Item, part: Part, _: Sequence[Generation]) -> list[Presentation]:
    """Return the question at each level of a part.

    Parameters
    ----------
    work : Work
        The run context; `work.state` has the path of the library by benchmark, which every stage
        process reads once.
    item : Item
        The question.
    part : Part
        Its levels: 0 as published, j in the words of the j-th accepted variant.

    Returns
    -------
    list of Presentation
        One for each level. A missing variant gives a presentation with an error.
    """
    library, accepted = _opened(work.state[item.benchmark])
    presentations = []
    for level in part.levels:
        presentations.append(_present(work, item, library, accepted.get(item.id, ()), level))
    return presentations


def reworded(library: Library, item: Item, variant: Variant) -> Item:
    """Return the question in a variant's words.

    Parameters
    ----------
    library : Library
        States whether it permutes the options.
    item : Item
        The question.
    variant : Variant
        The wording.

    Returns
    -------
    Item
        With the options as this run shows them, unless the library permutes them.
    """
    if library.header.options == "permute":
        return variant.reword(item)
    return item.reworded(variant.context + variant.text)


def _present(
    work: Work, item: Item, library: Library, variants: Sequence[Variant], level: int
) -> Presentation:
    if level > len(variants):
        columns = {"variant_id": None, "wording": "", "distance": None, "asked": False}
        return Presentation("", item.options, item.gold, columns, NOT_ASKED)
    variant = variants[level - 1] if level else None
    question = item if variant is None else reworded(library, item, variant)
    return Presentation(
        prompt=direct_prompt(work.protocol, question, work.reading),
        options=question.options,
        gold=question.gold,
        extras={
            "variant_id": variant.id if variant else None,
            "wording": question.text,
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
        (
            "variant_id",
            pa.string(),
            "<question_id>#<number> in the library; null for the original, or where not asked",
        ),
        (
            "wording",
            pa.string(),
            "the question in the words that were asked; hostile text where a model wrote them",
        ),
        (
            "distance",
            pa.float64(),
            "cosine distance from the original, of the library, 0-2; null for the original",
        ),
        (
            "asked",
            pa.bool_(),
            "false: the library has no such variant of the question, so nothing was sent or scored",
        ),
    ),
)


PERTURB = Audit(
    name="perturb",
    schema=SCHEMA,
    roles=Roles(baseline=(Arm.ORIGINAL, 0), arms=tuple(Arm)),
    design=design_of,
    present=present,
)
