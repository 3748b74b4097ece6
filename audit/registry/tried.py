"""Count earlier runs of the same audit, model and benchmark, in nearby folders and in the registry.

A run that was repeated until it passed shows here.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from audit.decision import Try, read_document, rule
from audit.errors import AuditError, ConfigError
from audit.governance.ruling import home_of, verdict_path
from audit.panel import panel_of, panel_runs
from audit.registry.entry import comparable
from audit.shards.manifest import MANIFEST, Manifest
from audit.verdict.document import AuditVerdict
from audit.verdict.together import Document

_Key = tuple[str, str, str]  # model, its revision, benchmark
# Folder, start, fingerprint, decision, what was asked.
_Found = tuple[str, str, str, str, dict[_Key, Mapping[str, str]]]
_UNTOLD = ("library", "references")  # what a manifest alone does not tell, and a run without a verdict not at all


def tries(folder: Path, place: str | None) -> tuple[Try, ...]:
    """Return the earlier runs of a run's or panel's question, the oldest first.

    Parameters
    ----------
    folder : Path
        Folder of the run or panel.
    place : str or None
        Place of the registry.

    Returns
    -------
    tuple of Try
        Runs; copies of one count once.

    Raises
    ------
    RegistryError
        If the registry does not answer.
    """
    folder = home_of(folder)
    own = [run for run in panel_runs(folder) or [folder] if (run / MANIFEST).is_file()]
    found: dict[tuple[str, str, tuple[str, ...]], Try] = {}
    for run in own:
        manifest = Manifest.load(run)
        here = _asked(manifest, _verdict(run))
        for name, started, mark, decision, there in (*_registered(manifest, place), *_beside(run)):
            both = here.keys() & there.keys()
            if not both or started >= manifest.started or Path(name) in [one.resolve() for one in own]:
                continue
            each = ((key, value, here[at].get(key)) for at in both for key, value in there[at].items())
            odd = {key for key, a, b in each if a != b and (key not in _UNTOLD or (a and b))}
            differs = tuple(sorted(odd))
            found[started, mark, differs] = Try(name, started, decision, differs)
    return tuple(sorted(found.values(), key=lambda one: (one.started, one.run)))


def _asked(manifest: Manifest, verdict: Document | None) -> dict[_Key, Mapping[str, str]]:
    library = verdict.library if isinstance(verdict, AuditVerdict) else None
    return {
        (model, str(facts.get("revision") or ""), benchmark): comparable(manifest, model, benchmark, library)
        for model, facts in manifest.models.items()
        for benchmark in manifest.benchmark
    }


def _registered(manifest: Manifest, place: str | None) -> Iterator[_Found]:
    if not place:
        return
    from audit.registry.database import open_registry
    from audit.registry.store import kept

    for one in kept(open_registry(place, make=False), audit=manifest.audit, model=list(manifest.models)):
        run, cell = one.run, one.cell
        at = (cell["model"], cell["model_revision"], cell["benchmark"])
        yield run["run_dir"], run["started"], run["fingerprint"], run["decision"], {at: cell["comparable"]}


def _beside(run: Path) -> Iterator[_Found]:
    """Yield runs in the folder that holds this one, or its panel, and one folder deeper."""
    audit = Manifest.load(run).audit
    top = (panel_of(run) or run.resolve()).parent
    for path in (*top.glob(f"*/{MANIFEST}"), *top.glob(f"*/*/{MANIFEST}")):
        try:
            manifest = Manifest.load(path.parent)
            if manifest.audit == audit:
                verdict = _verdict(path.parent)
                told = (
                    str(path.parent.resolve()),
                    str(manifest.started),
                    manifest.fingerprint,
                    str(rule(verdict).decision) if verdict else "",
                )
                yield *told, _asked(manifest, verdict)
        except (AuditError, OSError, ValueError, TypeError, AttributeError, LookupError):
            continue  # a manifest of something else


def _verdict(run: Path) -> Document | None:
    """Return the verdict of a run; None if there is none, or it cannot be read."""
    try:
        return read_document(verdict_path(run))
    except (OSError, ConfigError):
        return None
