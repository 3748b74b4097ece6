"""The reference panel, after a run: a variant that every reference model fails, though all have its original right, is
suspect: the models do not share a memory of one wording, so more likely the variant asks something else. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from audit.errors import DataError
from audit.variants.record import Library, State

MIN_MODELS = 3  # with accuracy .8 on a harder wording, three sound models miss a sound variant together once in 125

Readings = Mapping[str, Mapping[str, bool | None]]


@dataclass(frozen=True, slots=True)
class PanelFinding:
    """Of `models` reference models with a readable answer to both: how many have the original right, how many the
    variant. suspect: all the former, none of the latter, and at least MIN_MODELS of them."""

    models: int
    original_right: int
    variant_right: int

    @property
    def suspect(self) -> bool:
        return self.models >= MIN_MODELS and self.original_right == self.models and self.variant_right == 0


def panel_findings(original: Readings, variants: Readings, question_of: Mapping[str, str]) -> dict[str, PanelFinding]:
    """The finding on each variant.

    original: {model: {question_id: correct}}; variants: {model: {variant_id: correct}}, of the same models; an
    unreadable answer is None and counts for nothing. question_of: {variant_id: question_id}, the variants to look at.
    Raises DataError when the two name different models.
    """
    if set(original) != set(variants):
        raise DataError(
            f"The panel answered originals with {sorted(original)} and variants with {sorted(variants)}; expected the "
            "same models, because each is compared with itself."
        )
    found = {}
    for variant_id, question_id in question_of.items():
        pairs = [(original[m].get(question_id), variants[m].get(variant_id)) for m in sorted(original)]
        read = [(first, second) for first, second in pairs if first is not None and second is not None]
        found[variant_id] = PanelFinding(len(read), sum(a for a, _ in read), sum(b for _, b in read))
    return found


def apply_panel(library: Library, findings: Mapping[str, PanelFinding], models: tuple[str, ...]) -> Library:
    """The library with the panel's findings; suspect variants are no longer accepted. `models` go into the header."""
    variants = []
    for variant in library.variants:
        finding = findings.get(variant.id)
        if finding is not None and finding.models >= MIN_MODELS:
            state = State.SUSPECT if finding.suspect and variant.accepted else variant.state
            variant = replace(variant, panel="suspect" if finding.suspect else "passed", state=state)
        variants.append(variant)
    return Library(replace(library.header, panel=tuple(sorted(models)), parents=(library.sha256,)), tuple(variants))
