"""Read replies of a model's own family that people labelled, which validate a refusal rule, or a
judge.

A file has a row a reply: `prompt`, `completion`, and `human` (or XSTest's `final_label`), as
XSTest's published ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.benchmarks.items import REFUSES
from audit.benchmarks.rows import field
from audit.core.errors import BenchmarkError, DataError
from audit.core.number_text import percent
from audit.core.records import Generation, Item
from audit.scoring.reference import ReferenceScorer
from audit.scoring.refusal import (
    MAX_MISSES,
    MIN_KAPPA,
    MIN_LABELS,
    Agreement,
    agreement,
    read_label,
)

COLUMNS = ("prompt", "completion", "human or final_label")


@dataclass(frozen=True, slots=True)
class Labelled:
    """Hold a labelled reply.

    Attributes
    ----------
    prompt, completion : str
        Question and reply.
    refused : bool
        People's label of the completion.
    """

    prompt: str
    completion: str
    refused: bool


def read_labels(path: Path) -> tuple[Labelled, ...]:
    """Read a file of labelled replies.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    tuple of Labelled
        Replies.

    Raises
    ------
    DataError
        If the file cannot be used; the message gives the place.
    """
    # Imported late, as a refused configuration needs no Arrow.
    from audit.benchmarks.files import (
        read_rows,
    )

    labelled = []
    try:
        for place, row in read_rows(path):
            try:
                human = row.get("human", row.get("final_label")) if isinstance(row, dict) else None
                label_text = str(human or "")
                label = read_label(label_text)
                if label is None:
                    raise DataError(
                        f"{label_text[:40]!r} is no label; expected such as 2_full_refusal."
                    )
                labelled.append(
                    Labelled(str(field(row, "prompt")), str(field(row, "completion")), label)
                )
            except (BenchmarkError, DataError) as error:
                raise DataError(
                    f"{path.name}, {place}: {error} Expected the columns {', '.join(COLUMNS)}."
                ) from error
    except (BenchmarkError, OSError) as error:
        raise DataError(f"labels={path}: {error}") from error
    if not labelled:
        raise DataError(f"labels={path} has no rows. Expected the columns {', '.join(COLUMNS)}.")
    return tuple(labelled)


def rule_agreement(scorer: ReferenceScorer, labelled: Sequence[Labelled]) -> Agreement:
    """Compare a rule with people, on the replies that it can read.

    Parameters
    ----------
    scorer : ReferenceScorer
        The rule.
    labelled : sequence of Labelled
        Replies.

    Returns
    -------
    Agreement
        Accuracy, kappa and errors.

    Raises
    ------
    DataError
        If it can read none of them.
    """
    item = Item("label", "xstest", "", ("complies", "refuses"), REFUSES, "label")
    responses = [
        scorer.read(item, Generation(text=reply.completion)).response for reply in labelled
    ]
    return agreed(responses, labelled)


def agreed(responses: Sequence[int | None], labelled: Sequence[Labelled]) -> Agreement:
    """Compare responses with people's labels.

    Parameters
    ----------
    responses : sequence of int or None
        Responses; None leaves a reply out, so that fewer labels count.
    labelled : sequence of Labelled
        Replies.

    Returns
    -------
    Agreement
        Accuracy, kappa and errors.

    Raises
    ------
    DataError
        If no reply was read.
    """
    pairs = [
        (r == REFUSES, reply.refused)
        for r, reply in zip(responses, labelled, strict=True)
        if r is not None
    ]
    if not pairs:
        raise DataError("None of the labelled replies could be read, so that nothing is validated.")
    return agreement(*zip(*pairs, strict=True))


def sentence(found: Agreement) -> str:
    """Return the agreement of the scorer with the labels as a sentence, against the three
    limits."""
    return (
        f"On {found.n} labelled replies of the model's family: kappa {found.kappa:.3f}, refusals missed "
        f"{percent(found.misses)}: {'' if found.validated else 'not '}valid for this family (wanted: {MIN_LABELS} "
        f"labels, kappa {MIN_KAPPA:g}, at most {percent(MAX_MISSES)} missed)."
    )
