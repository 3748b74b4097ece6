"""Find earlier runs of the same audit on the same model and benchmark.

The runs are searched in nearby folders and in the registry.

The earlier runs show whether a run was repeated until it passed.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from audit.core.errors import AuditError, ConfigError
from audit.governance.ruling import home_of
from audit.judging.decision import Try, read_document, rule
from audit.judging.document import AuditVerdict
from audit.judging.together import Document
from audit.registry.entry import comparable
from audit.shards.manifest import MANIFEST, Manifest
from audit.shards.panel import panel_of, panel_runs, verdict_path

_Key = tuple[str, str, str]  # the model, the model's revision, and the benchmark
# The folder, start time, fingerprint and decision of a run, and for each key the hashes of its
# settings by name.
_Candidate = tuple[str, str, str, str, dict[_Key, Mapping[str, str]]]
_FROM_VERDICT = ("library", "references")  # Manifests do not contain these hashes.


def tries(folder: Path, place: str | None) -> tuple[Try, ...]:
    """Return earlier runs of the same audit on the same models and benchmarks, the oldest first.

    Parameters
    ----------
    folder : Path
        Folder of the run or panel.
    place : str or None
        File or address of the registry.

    Returns
    -------
    tuple of Try
        The earlier runs. A run and its copies are listed once.

    Raises
    ------
    RegistryError
        If the registry does not answer.
    """
    folder = home_of(folder)
    runs = []
    for run in panel_runs(folder) or [folder]:
        if (run / MANIFEST).is_file():
            runs.append(run)
    resolved = [run.resolve() for run in runs]
    earlier: dict[tuple[str, str, tuple[str, ...]], Try] = {}
    for run in runs:
        manifest = Manifest.load(run)
        hashes_now = _hashes(manifest, _verdict(run))
        for name, started, fingerprint, decision, hashes_then in (
            *_registered(manifest, place),
            *_beside(run),
        ):
            shared = hashes_now.keys() & hashes_then.keys()
            if not shared or started >= manifest.started or Path(name) in resolved:
                continue
            differing: set[str] = set()
            for key in shared:
                differing.update(_differing(hashes_now[key], hashes_then[key]))
            differs = tuple(sorted(differing))
            earlier[started, fingerprint, differs] = Try(name, started, decision, differs)
    return tuple(sorted(earlier.values(), key=lambda attempt: (attempt.started, attempt.run)))


def _differing(now: Mapping[str, str], then: Mapping[str, str]) -> set[str]:
    """Return the names of the hashes that differ between two runs.

    Hashes that are stored only in verdicts may be missing. A missing hash counts as equal.
    """
    names = set()
    for name, value in then.items():
        if value != now.get(name):
            names.add(name)
    differing = set()
    for name in names:
        if name not in _FROM_VERDICT or (then[name] and now.get(name)):
            differing.add(name)
    return differing


def _hashes(manifest: Manifest, verdict: Document | None) -> dict[_Key, Mapping[str, str]]:
    library = verdict.library if isinstance(verdict, AuditVerdict) else None
    judged = manifest.analysis.get("judged", manifest.models)
    hashes: dict[_Key, Mapping[str, str]] = {}
    for model, facts in manifest.models.items():
        if model not in judged:
            continue  # The model is a reference, and only judged models are compared.
        for benchmark in manifest.benchmark:
            key = (model, str(facts.get("revision") or ""), benchmark)
            hashes[key] = comparable(manifest, model, benchmark, library)
    return hashes


def _registered(manifest: Manifest, place: str | None) -> Iterator[_Candidate]:
    if not place:
        return
    from audit.registry.database import open_registry
    from audit.registry.store import cell_records

    for record in cell_records(
        open_registry(place, make=False), audit=manifest.audit, model=list(manifest.models)
    ):
        run, cell = record.run, record.cell
        at = (cell["model"], cell["model_revision"], cell["benchmark"])
        yield (
            run["run_dir"],
            run["started"],
            run["fingerprint"],
            run["decision"],
            {at: cell["comparable"]},
        )


def _beside(run: Path) -> Iterator[_Candidate]:
    """Yield the runs in folders near a run.

    These are the folder that contains the run or its panel, and the folders directly below.
    """
    audit = Manifest.load(run).audit
    top = (panel_of(run) or run.resolve()).parent
    for path in (*top.glob(f"*/{MANIFEST}"), *top.glob(f"*/*/{MANIFEST}")):
        try:
            manifest = Manifest.load(path.parent)
            if manifest.audit == audit:
                verdict = _verdict(path.parent)
                place, started = str(path.parent.resolve()), str(manifest.started)
                decision = str(rule(verdict).decision) if verdict else ""
                yield place, started, manifest.fingerprint, decision, _hashes(manifest, verdict)
        except (AuditError, OSError, ValueError, TypeError, AttributeError, LookupError):
            continue  # The manifest is damaged, or another program wrote it.


def _verdict(run: Path) -> Document | None:
    """Return the verdict of a run; None if its file is missing or unreadable."""
    try:
        return read_document(verdict_path(run))
    except (OSError, ConfigError):
        return None
