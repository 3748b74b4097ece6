"""Build the requests of a perturbation audit: one direct prompt for each wording of a question.

The prompt is that of the protocol that all audits share. Each row is one call, without routers. If
a question has fewer variants than planned (short=keep), each missing variant also has a row. Such a
row states that nothing was asked; it is neither sent nor scored.
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

CONTROL_FILE = "variants_control.arrow"  # the library of the held-out items, beside the shards
NOT_ASKED = "the library has no such variant of this question, so nothing was sent"


def present(work: Work, item: Item, part: Part, _: Sequence[Generation]) -> list[Presentation]:
    """Return the requests of one question, one request for each level of a part.

    Parameters
    ----------
    work : Work
        The run context. `work.state` maps each benchmark to the path of its library of variants.
        Every process reads each library once.
    item : Item
        The question.
    part : Part
        The levels: 0 is the original, and j is the j-th accepted variant.

    Returns
    -------
    list of Presentation
        One presentation for each level. If the variant is missing, its presentation has an error.
    """
    library, accepted = _opened(work.state[item.benchmark])
    presentations = []
    for level in part.levels:
        presentations.append(_present(work, item, library, accepted.get(item.id, ()), level))
    return presentations


def reworded(library: Library, item: Item, variant: Variant) -> Item:
    """Return a question in the words of a variant.

    Parameters
    ----------
    library : Library
        The library, which states whether it permutes the options.
    item : Item
        The question.
    variant : Variant
        Variant of the question, from this library.

    Returns
    -------
    Item
        The reworded question. Its options are the options that this run shows, unless the library
        permutes options.
    """
    if library.header.options == "permute":
        return variant.reword(item)
    return item.reworded(variant.context + variant.text)


def _present(
    work: Work, item: Item, library: Library, variants: Sequence[Variant], level: int
) -> Presentation:
    """Return the request of one question at one level."""
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
    """Open a library, and return it with the accepted variants of each question."""
    library = read_library(local_file(path))
    return library, library.by_question()


SCHEMA = row_schema(
    "perturb",
    1,
    audit_columns=(
        (
            "variant_id",
            pa.string(),
            "<question_id>#<number> in the library; null for the original, or if nothing was asked",
        ),
        (
            "wording",
            pa.string(),
            "the question in the words that were sent; untrusted text if a model wrote them",
        ),
        (
            "distance",
            pa.float64(),
            "cosine distance from the original, from the library, 0-2; null for the original",
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
