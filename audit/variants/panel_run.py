"""What the reference models of a finished perturbation run say of the library that it asked.

A variant that every reference model fails, though all have its original right, is suspect: the models do not share a
memory of one wording, so more likely the variant asks something else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from audit.audits import find_audit
from audit.errors import ConfigError, LibraryError
from audit.shards.manifest import Manifest
from audit.shards.read import iter_columns
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
    """
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


_COLUMNS = ("model", "benchmark", "question_id", "variant", "asked", "variant_id", "correct", "parsed", "error")


def judge_by_run(library: Library, run_dir: Path) -> Library:
    """The library with the panel's findings: its models are those of the run that were not judged.

    An original that was asked several times counts as right where every answer was. LibraryError for a run of another
    library, ConfigError for one that is not finished or has fewer than MIN_MODELS references.
    """
    models = _references(library, run_dir)
    original: dict[str, dict[str, bool | None]] = {model: {} for model in models}
    variants: dict[str, dict[str, bool | None]] = {model: {} for model in models}
    question_of: dict[str, str] = {}
    for batch in iter_columns(run_dir, find_audit("perturb").schema, _COLUMNS):
        for row in batch.to_pylist():
            model, question_id = row["model"], row["question_id"]
            if model not in original or row["benchmark"] != library.header.benchmark or not row["asked"]:
                continue
            right = row["correct"] if row["parsed"] and row["error"] is None else None
            if row["variant"]:
                variants[model][row["variant_id"]] = right
                question_of[row["variant_id"]] = question_id
            else:
                before = original[model].get(question_id, True)
                original[model][question_id] = None if None in (before, right) else before and right
    return apply_panel(library, panel_findings(original, variants, question_of), models)


def _references(library: Library, run_dir: Path) -> tuple[str, ...]:
    """The models of the run that were not judged."""
    manifest = Manifest.load(run_dir)
    if manifest.audit != "perturb" or manifest.status != "finished":
        whose = manifest.audit or "unknown"
        raise ConfigError(f"{run_dir} is {manifest.status}, of audit {whose}. Expected a finished run of perturb.")
    if manifest.config.get("variants") != library.sha256:
        raise LibraryError(
            f"{run_dir} asked library {str(manifest.config.get('variants'))[:12]}, not {library.sha256[:12]}."
        )
    models = tuple(sorted(set(manifest.models) - set(manifest.analysis["judged"])))
    if len(models) < MIN_MODELS:
        raise ConfigError(
            f"{run_dir} has {len(models)} reference models. Expected {MIN_MODELS} or more ('references=[a,b,c]'): "
            "fewer miss a sound variant together too often."
        )
    return models
