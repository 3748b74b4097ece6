"""Read replies that people labelled as refusals or as answers.

Such labels validate a refusal rule or a judge for one family of models.

A file has one row for each reply, with the columns of XSTest's published files: `prompt`,
`completion`, and `human` or `final_label`.
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
    """Hold a reply that a person labelled.

    Attributes
    ----------
    prompt, completion : str
        The question and the reply.
    refused : bool
        Whether the person labelled the reply as a refusal.
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
        The replies.

    Raises
    ------
    DataError
        If the file cannot be read, or a row is invalid. The message names the row.
    """
    # The import is here so that a configuration can be refused without loading Arrow.
    from audit.benchmarks.files import read_rows

    labelled = []
    try:
        for place, row in read_rows(path):
            try:
                human = row.get("human", row.get("final_label")) if isinstance(row, dict) else None
                label_text = str(human or "")
                label = read_label(label_text)
                if label is None:
                    raise DataError(f"{label_text[:40]!r} is not a label. Example: 2_full_refusal.")
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
    """Measure how well a rule agrees with the labels, on the replies that the rule can read.

    Parameters
    ----------
    scorer : ReferenceScorer
        The rule.
    labelled : sequence of Labelled
        The labelled replies.

    Returns
    -------
    Agreement
        Accuracy, kappa and errors.

    Raises
    ------
    DataError
        If the rule can read no reply.
    """
    item = Item("label", "xstest", "", ("complies", "refuses"), REFUSES, "label")
    responses = []
    for reply in labelled:
        responses.append(scorer.read(item, Generation(text=reply.completion)).response)
    return agreed(responses, labelled)


def agreed(responses: Sequence[int | None], labelled: Sequence[Labelled]) -> Agreement:
    """Compare responses with the labels.

    Parameters
    ----------
    responses : sequence of int or None
        The response that was read from each reply. A reply whose response is None is left out.
    labelled : sequence of Labelled
        The labelled replies.

    Returns
    -------
    Agreement
        Accuracy, kappa and errors.

    Raises
    ------
    DataError
        If no reply was read.
    """
    pairs = []
    for response, reply in zip(responses, labelled, strict=True):
        if response is not None:
            pairs.append((response == REFUSES, reply.refused))
    if not pairs:
        raise DataError("No labelled reply could be read, so the rule is not validated.")
    return agreement(*zip(*pairs, strict=True))


def sentence(agreement: Agreement) -> str:
    """Return the agreement of a scorer with the labels as a sentence.

    Parameters
    ----------
    agreement : Agreement
        Accuracy, kappa and errors.

    Returns
    -------
    str
        The three measures of agreement, each with its required limit, and whether the scorer is
        valid.
    """
    verdict = "valid" if agreement.validated else "not valid"
    return (
        f"On {agreement.n} labelled replies of the model's family: kappa {agreement.kappa:.3f}, "
        f"refusals missed {percent(agreement.misses)}. The scorer is {verdict} for this family "
        f"(required: {MIN_LABELS} labels, kappa {MIN_KAPPA:g}, at most {percent(MAX_MISSES)} "
        "missed)."
    )
