"""What the reference models of a finished perturbation run say of the library that it asked."""

from __future__ import annotations

from pathlib import Path

from audit.audits import find_audit
from audit.errors import ConfigError, LibraryError
from audit.shards.manifest import Manifest
from audit.shards.read import iter_columns
from audit.variants.gates.panel import MIN_MODELS, apply_panel, panel_findings
from audit.variants.record import Library

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
