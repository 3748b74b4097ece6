"""The plain sentences about a cell."""

from __future__ import annotations

from collections.abc import Sequence

from audit.validity.edits.record import Archetype, Family
from audit.validity.evidence import CellEvidence
from audit.validity.record import ValidityCell
from audit.validity.result import Decision, ValidityStatus
from audit.validity.vocabulary import GATES, VERDICTS
from audit.verdict.result import Gate


def headline(cell: ValidityCell, decision: Decision, e: CellEvidence | None, failed: Sequence[Gate]) -> str:
    """One sentence: who, on what, and what was found."""
    status = decision.verdict
    if e is None or status in (
        ValidityStatus.INELIGIBLE_EDITS, ValidityStatus.SCORER_UNVALIDATED, ValidityStatus.FAILED,
        ValidityStatus.INELIGIBLE_ARCHETYPE, ValidityStatus.EXPLORATORY,
    ):  # fmt: skip
        why = "; ".join(dict.fromkeys(GATES[g.name].because for g in failed if g.name in GATES))
        return f"{cell.name}: {VERDICTS[status].name.lower()}{f' ({why})' if why else ''}. Nothing is confirmed."
    d, follow = e.primary, e.families[Family.ATTRIBUTE].followed
    gap = f"{100 * d.difference:+.1f} points" if d is not None else "unknown"
    if e.archetype == Archetype.INVARIANCE:
        found = {
            ValidityStatus.SELECTIVE: "answers react to the attribute where they should not",
            ValidityStatus.NON_SELECTIVE: "the attribute moves answers by no more than the margin beyond what surface "
            "edits do, as it should be",
            ValidityStatus.INDETERMINATE: "the data do not say whether answers react to the attribute",
        }[status]
    else:
        found = {
            ValidityStatus.SELECTIVE: "answers follow the construct more than the surface",
            ValidityStatus.NON_SELECTIVE: "answers follow the surface more than the construct",
            ValidityStatus.INDETERMINATE: "the data do not confirm that answers follow the construct, nor the surface",
        }[status]
    return f"{cell.name}: {found} (D {gap}; contract followed in {follow.estimate:.0%})."


def cannot_exclude(cell: ValidityCell, e: CellEvidence | None) -> tuple[str, ...]:
    """What no status of this audit rules out."""
    found = [
        "That the benchmark measures its construct: edits show what answers react to, not what they mean.",
        "Anything about other edits: these are a few of many, and each family is as good as its edits.",
    ]
    names = set() if cell.families[Family.SEMANTIC].name.size == 0 else set(cell.families[Family.SEMANTIC].name.ravel())
    if any(str(name).startswith("frame") for name in names):
        found.append("Reaction to real paraphrases: the semantic edits are neutral frames around the same words.")
    if e is not None and e.placebo is None:
        found.append("That any change of so many words moves answers as much: there is no placebo to compare with.")
    if cell.n < 200:
        found.append(f"Smaller differences: {cell.n} items, {len(set(cell.cluster.tolist()))} independent ones.")
    return tuple(found)
