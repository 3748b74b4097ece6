"""Replies of a model's own family that people labelled: what validates a refusal rule, or a judge, for that family.

A file has a row a reply: `prompt`, `completion`, and `human` (or XSTest's `final_label`), as XSTest's published ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.benchmarks.items import REFUSES
from audit.benchmarks.rows import field
from audit.errors import BenchmarkError, DataError
from audit.records import Generation, Item
from audit.scoring.reference import ReferenceScorer
from audit.scoring.refusal import MAX_MISSES, MIN_KAPPA, MIN_LABELS, Agreement, agreement, read_label
from audit.verdict.result import percent

COLUMNS = ("prompt", "completion", "human or final_label")


@dataclass(frozen=True, slots=True)
class Labelled:
    """refused: what people say of the completion."""

    prompt: str
    completion: str
    refused: bool


def read_labels(path: Path) -> tuple[Labelled, ...]:
    """Raises DataError, with the place, for a file that cannot be used."""
    from audit.benchmarks.files import read_rows  # Arrow, which a refusal does without

    found = []
    try:
        for place, row in read_rows(path):
            try:
                human = row.get("human", row.get("final_label")) if isinstance(row, dict) else None
                said = str(human or "")
                label = read_label(said)
                if label is None:
                    raise DataError(f"{said[:40]!r} is no label; expected such as 2_full_refusal.")
                found.append(Labelled(str(field(row, "prompt")), str(field(row, "completion")), label))
            except (BenchmarkError, DataError) as error:
                raise DataError(f"{path.name}, {place}: {error} Expected the columns {', '.join(COLUMNS)}.") from error
    except (BenchmarkError, OSError) as error:
        raise DataError(f"labels={path}: {error}") from error
    if not found:
        raise DataError(f"labels={path} has no rows. Expected the columns {', '.join(COLUMNS)}.")
    return tuple(found)


def rule_agreement(scorer: ReferenceScorer, labelled: Sequence[Labelled]) -> Agreement:
    """A rule against people, on the replies that it can read. DataError where it can read none."""
    item = Item("label", "xstest", "", ("complies", "refuses"), REFUSES, "label")
    responses = [scorer.read(item, Generation(text=one.completion)).response for one in labelled]
    return agreed(responses, labelled)


def agreed(responses: Sequence[int | None], labelled: Sequence[Labelled]) -> Agreement:
    """Responses against people's labels; what was not read is in neither, and so leaves fewer labels than there are."""
    pairs = [(r == REFUSES, one.refused) for r, one in zip(responses, labelled, strict=True) if r is not None]
    if not pairs:
        raise DataError("None of the labelled replies could be read, so that nothing is validated.")
    return agreement(*zip(*pairs, strict=True))


def sentence(found: Agreement) -> str:
    """What the labels say of the scorer, against the three limits."""
    return (
        f"On {found.n} labelled replies of the model's family: kappa {found.kappa:.3f}, refusals missed "
        f"{percent(found.misses)}: {'' if found.validated else 'not '}valid for this family (wanted: {MIN_LABELS} "
        f"labels, kappa {MIN_KAPPA:g}, at most {percent(MAX_MISSES)} missed)."
    )
