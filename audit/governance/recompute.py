"""The verdicts of a run, panel or suite once more, from its shards; and where a stored verdict.json says otherwise."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from audit.audits import audit_of, part_of
from audit.decision import read_document, verdict_of
from audit.errors import AuditError, ConfigError
from audit.governance.ruling import verdict_path
from audit.panel import SUITE, panel_runs
from audit.report.joint import content
from audit.verdict.document import AuditVerdict
from audit.verdict.together import Document

# Versions of numpy and of the processor's library move the last digits of a mean, and nothing more.
RELATIVE, ABSOLUTE = 1e-3, 1e-6
# What has to be there and equal. Sentences may be another version's; the gate prints those that it computed itself.
_WORDS = {
    "audit",
    "verdict",
    "decision",
    "status",
    "outcome",
    "model",
    "benchmark",
    "context",
    "revision",
    "gate",
    "suite_sha256",
}
_SAID = {"reason_codes", "advice_codes"}  # what sentences are made of: another version's may be others, and more
# A suite's folder -> of the verdicts by audit, what verdict.json says of the suite.
SectionOf = Callable[[Path], Callable[[Mapping[str, AuditVerdict[Any]]], dict[str, Any]]]
_PARTS = {"cells", "rows", "runs", "joint", "audits", "suite", "source", "verdict"}


def recomputed(folder: Path, section_of: SectionOf, *, alone: bool) -> list[tuple[Path, Document]]:
    """Each verdict.json of a run, panel or suite with what the shards give now, the folder's own first. section_of:
    what verdict.json says of a suite. alone: also each run's own verdict where a panel judged several runs of one audit
    together. Nothing is written. Raises AuditError where the shards cannot be judged."""
    runs, home = panel_runs(folder), verdict_path(folder)
    if runs is None:
        return [(home, _judged([folder]))]
    by_audit: dict[str, list[Path]] = {}
    for run in runs:
        by_audit.setdefault(audit_of(run).name, []).append(run)
    verdicts = {audit: _judged(dirs) for audit, dirs in by_audit.items()}
    suite = (folder / SUITE).is_file()
    if suite:
        whole: Document = content(verdicts, section_of(folder)(verdicts))
    else:
        whole = content(verdicts) if len(verdicts) > 1 else next(iter(verdicts.values()))
    found: list[tuple[Path, Document]] = [(home, whole)]
    for audit, dirs in by_audit.items():
        page = home.parent / audit / "verdict.json"
        found += [(page, verdicts[audit])] if page.is_file() else []
        for run in dirs:
            own = run / "report" / "verdict.json"
            if not own.is_file() and not suite:
                continue  # of a panel: nobody needs to have judged its runs one by one
            if len(dirs) == 1 or alone:
                found.append((own, verdicts[audit] if len(dirs) == 1 else _judged([run])))
    return found


def _judged(run_dirs: Sequence[Path]) -> AuditVerdict[Any]:
    """Return the verdict on runs of one audit, as their manifests ask for it."""
    return verdict_of(part_of(audit_of(run_dirs[0]).name, "report").verdict_of(run_dirs))


def difference(stored: Any, again: Any, at: str = "") -> str:
    """Where two verdicts say different things (pure): "" where they do not. Keys that one version alone has are passed
    over, unless a decision hangs on them."""
    if isinstance(stored, dict) and isinstance(again, dict):
        lost = sorted(key for key in stored.keys() ^ again.keys() if key in _PARTS)
        if lost:
            return f"{at}.{lost[0]} is {'missing' if lost[0] in again else 'not of these answers'}".lstrip(".")
        both = [(f"{at}.{key}", stored[key], again[key]) for key in sorted((stored.keys() & again.keys()) - _SAID)]
    elif isinstance(stored, list) and isinstance(again, list):
        if all(isinstance(one, str) for one in (*stored, *again)):
            return ""  # sentences, and ids behind a number that is compared
        if len(stored) != len(again):
            return f"{at[1:]} has {len(stored)} entries, and {len(again)} are computed"
        both = [(f"{at}[{k}]", *pair) for k, pair in enumerate(zip(stored, again, strict=True))]
    else:
        return f"{at[1:]} is {stored!r}, and {again!r} is computed" if _differs(stored, again, at) else ""
    return next(filter(None, (difference(one, two, key) for key, one, two in both)), "")


def _differs(stored: Any, again: Any, at: str) -> bool:
    """Of two values that hold no others."""
    if isinstance(stored, str) and isinstance(again, str):
        return stored != again and at.rpartition(".")[2] in _WORDS
    if {type(stored), type(again)} <= {int, float}:
        return not math.isclose(stored, again, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return type(stored) is not type(again) or stored != again


def verdict_again(folder: Path, read: Document, section_of: SectionOf) -> tuple[Document | None, str]:
    """(the verdict of a folder as computed now; None, and why a verdict.json that lies there is another). read: the
    folder's own verdict.json. section_of: as `recomputed`."""
    try:
        found = recomputed(folder, section_of, alone=False)
    except (AuditError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return (
            None,
            f"The verdict could not be computed again from the answers: {error}. --trust-report takes its word.",
        )
    for path, again in found:
        try:
            stored = read if path == found[0][0] else read_document(path)
        except (OSError, ConfigError) as error:
            return None, f"{path} cannot be read ({error}). Build it again: audit report"
        if odd := difference(stored.plain, again.plain):
            return None, (
                f"{path} is not the verdict on the answers that are there: {odd}. It was changed, or judged by another "
                "version of the program or with options of its own (--seed, --variants, --control-benchmark). Build it "
                f"again: audit report. --trust-report takes its word."
            )
    return found[0][1], ""
