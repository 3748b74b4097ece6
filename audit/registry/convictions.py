"""Check whether the references and the held-out items of a run can be used.

A reference model is refused if an audit found contamination in this model. Held-out items of
another version are refused too.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

from audit.benchmarks.fresh import Origin, check_origin
from audit.config.references import (
    IMPORTED_CAVEAT,
    Facts,
    ReferencedConfig,
    ReferenceRun,
    check_items,
    check_runs,
    imported,
    judged,
    reference_runs,
)
from audit.config.resolve import ResolvedRun
from audit.core.errors import ConfigError, RegistryError, check_known
from audit.judging.ladder import Grade
from audit.shards.manifest import Manifest
from audit.shards.panel import PANEL, verdict_path


def settle_references(
    config: ReferencedConfig, resolved: ResolvedRun, same: Sequence[str]
) -> ResolvedRun:
    """Check the reference models of a run, and record facts about them.

    Parameters
    ----------
    config : ReferencedConfig
        The configuration, which names the references.
    resolved : ResolvedRun
        The resolved run.
    same : sequence of str
        Names of the options that must have equal values in this run and in the reference runs.

    Returns
    -------
    ResolvedRun
        The run with facts about its references. The manifest of the run will store these facts.

    Raises
    ------
    ConfigError
        If a reference cannot be compared, or answered other items. Also if an audit found
        contamination in a reference, and the options do not allow this reference.
    """
    runs, audit = reference_runs(config), resolved.audit.name
    check_runs(
        runs, audit, resolved.models, judged(config), resolved.revisions, resolved.plain, same
    )
    questions = chain.from_iterable(sample.questions() for sample in resolved.samples)
    check_items(runs, questions)
    convicted = check_convicted(config, runs, resolved.models)
    config_origins = {
        name: Origin(model.released, model.family) for name, model in config.model.items()
    }
    tested = {name: config_origins[name] for name in judged(config)}
    references = {}
    for name, origin in config_origins.items():
        if name not in tested:
            references[name] = origin
    for run in runs:
        for name in run.models:
            references[name] = run.origins.get(name, Origin())
    remarks: dict[str, list[str]] = {"held_out": [], "undated": [], "dates_missing": []}
    if items := config.control_benchmark:
        name = resolved.samples[1].benchmark.name
        remarks = check_origin(name, items.date, items.written_by, tested, references)
    keys = {"": "control_benchmark.date"} | {
        name: f"model.{name}.released" for name in config_origins
    }
    missing = []
    for name in remarks["dates_missing"]:
        missing.append(keys.get(name, f"the release date of {name} in its run"))
    remarks["dates_missing"] = missing
    remarks["held_out"] += [IMPORTED_CAVEAT] * any(map(imported, (run.path for run in runs)))
    origins = {name: asdict(origin) for name, origin in {**references, **tested}.items()}
    paths = []
    models_of_runs = []
    for run in runs:
        paths.append(str(run.path))
        models_of_runs.append(list(run.models))
    facts = {
        "references": paths,
        "reference_models": models_of_runs,
        "allow_convicted": list(config.allow_convicted),
        "convicted": convicted,
        "origins": origins,
        **remarks,
    }
    return replace(resolved, analysis={**resolved.analysis, **facts})


def reservations(analysis: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the alternative explanations that a verdict cannot exclude.

    They arise from the choice of references and held-out items.

    Parameters
    ----------
    analysis : mapping
        The entry `analysis` of the manifest.

    Returns
    -------
    tuple of str
        One sentence for each explanation.
    """
    sentences = []
    for name, verdict in analysis.get("convicted", {}).items():
        sentences.append(
            f"Reference {name} has a finding of memory ({verdict}) and was allowed. Its memory is "
            "subtracted, so the printed effect may be smaller than the true effect."
        )
    return *analysis.get("held_out", ()), *sentences


def check_convicted(
    config: ReferencedConfig, runs: Sequence[ReferenceRun], models: Mapping[str, Facts]
) -> dict[str, str]:
    """Look up whether audits found contamination in the reference models.

    Parameters
    ----------
    config : ReferencedConfig
        The configuration, which names the references that are allowed although they are
        contaminated.
    runs : sequence of ReferenceRun
        Runs that provide the reference models.
    models : mapping
        Facts of this run's models.

    Returns
    -------
    dict
        Maps each allowed reference to the verdict that found contamination.

    Raises
    ------
    ConfigError
        If an audit found contamination in a reference that is not allowed.

    Notes
    -----
    References are looked up by name and weights, in three places: the verdicts of each reference
    run, the verdicts of its panel or suite, and the registry.
    """
    serving: dict[str, tuple[Facts, Path | None]] = {}
    for name, facts in models.items():
        if name not in judged(config):
            serving[name] = (facts, None)
    for run in runs:
        run_models = Manifest.load(run.path).models
        serving |= {name: (run_models[name], run.path) for name in run.models}
    for name in config.allow_convicted:
        check_known("reference of allow_convicted", name, serving)
    registered = _registered(config.registry) if serving else {}
    reasons: dict[str, str] = {}
    for name, (facts, path) in serving.items():
        findings = [
            *(found_in(path, name) if path is not None else ()),
            *_of_weights(registered, name, facts),
        ]
        if findings:
            reasons[name] = findings[0]
        if findings and name not in config.allow_convicted:
            instead = f"Leave it out, or accept it: 'allow_convicted=[{name}]'."
            raise ConfigError(f"Reference {name} was itself convicted: {findings[0]}. {instead}")
    return reasons


def found_in(run_dir: Path, model: str) -> Iterator[str]:
    """Yield the verdicts that found contamination in a model.

    The verdicts are read from the reports of a run and of its suite or panel.
    """
    for home in (run_dir, *([run_dir.parent] if (run_dir.parent / PANEL).is_file() else [])):
        path = verdict_path(home)
        if not path.is_file():
            continue
        # These modules are imported only after a report was found, since the imports are slow.
        from audit.judging.decision import read_document
        from audit.judging.together import parts_of

        try:
            parts = parts_of(read_document(path))
        except (OSError, ConfigError) as error:
            raise ConfigError(
                f"{path} cannot be read ({error}). Build it again: audit report {home}"
            ) from error
        for audit, cell in ((audit, cell) for audit, part in parts for cell in part.cells):
            if cell.model == model and cell.grade is Grade.FOUND_STRONG:
                yield _text(audit, cell.verdict, cell.benchmark, str(home))


def _registered(registry: str | None) -> dict[tuple[str, str], str]:
    """Map each (model, revision) to the registered verdict that found contamination.

    The result is empty without a registry, or if the registry does not answer.
    """
    # Without a registry, this return saves a second of imports.
    if not (registry or os.environ.get("AUDIT_REGISTRY")):
        return {}
    from audit.registry.database import open_registry, place_of
    from audit.registry.store import cell_records

    place = place_of(registry)
    if place is None:
        return {}

    try:
        cells = cell_records(open_registry(place))
    except RegistryError as error:
        print(
            f"registry: {error} So it is unknown whether an audit found contamination in a "
            "reference.",
            file=sys.stderr,
            flush=True,
        )
        return {}
    convictions = {}
    convicted_cells = []
    for record in cells:
        if _convicts(record.cell["verdict"]):
            convicted_cells.append((record.cell, record.run))
    for cell, run in convicted_cells:
        where = f"registry, run {run['key'][:12]}"
        text = _text(run["audit"], cell["verdict"], cell["benchmark"], where)
        convictions[cell["model"], cell["model_revision"]] = text
    return convictions


def _of_weights(
    registered: Mapping[tuple[str, str], str], name: str, facts: Facts
) -> Iterator[str]:
    """Yield the registered verdicts that found contamination in a model.

    A verdict applies if it is on the same model, or on a model of another name with the same
    weights. If the names are equal, a missing revision counts as equal to any revision.
    """
    revision = facts.get("revision") or ""
    weighed = bool(revision) and facts.get("engine") != "scripted"
    for (model, known), verdict in registered.items():
        if (model == name and (not known or not revision or known == revision)) or (
            weighed and known == revision
        ):
            yield verdict


def _convicts(verdict: str) -> bool:
    """Return whether a registered verdict is a strong finding of contamination.

    The result is False for an audit that is not installed.
    """
    from audit.judging.decision import words

    word = words().get(verdict)
    return word is not None and word.grade is Grade.FOUND_STRONG


def _text(audit: str, verdict: str, benchmark: str, where: str) -> str:
    return f"audit {audit} found {verdict} on {benchmark} ({where})"
