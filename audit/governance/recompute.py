"""Compute the verdicts of a run, panel or suite again from its shards, and compare them with the
stored verdicts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from audit.config.audits import audit_of, part_of
from audit.core.errors import AuditError, ConfigError
from audit.judging.decision import read_document, verdict_of
from audit.judging.document import AuditVerdict
from audit.judging.together import Document
from audit.report.joint import content
from audit.shards.panel import SUITE, panel_runs, verdict_path

# Two computed numbers may differ by this tolerance. Other versions of numpy and of the processor's
# math library change the last digits of a mean.
RELATIVE, ABSOLUTE = 1e-3, 1e-6
# The texts of these fields must be equal. Sentences are not compared, since another version of the
# program may word a sentence differently. `audit gate` prints the computed sentences, not the
# stored sentences.
_COMPARED_TEXTS = {
    "audit",
    "grade",
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
# These fields hold codes from which the sentences are made. The codes may differ between versions
# of the program.
_NOT_COMPARED = {"reason_codes", "advice_codes"}
# A function of this type takes the folder of a suite. It returns a second function. The second
# function takes a mapping from each audit to its verdict, and computes the suite's section of
# verdict.json.
SectionOf = Callable[[Path], Callable[[Mapping[str, AuditVerdict[Any]]], dict[str, Any]]]
_PARTS = {"cells", "rows", "runs", "joint", "audits", "suite", "source", "verdict"}


def recomputed(folder: Path, section_of: SectionOf, *, alone: bool) -> list[tuple[Path, Document]]:
    """Compute each verdict.json of a run, panel or suite from the shards. Nothing is written.

    Parameters
    ----------
    folder : Path
        A run directory, or a panel's or suite's folder.
    section_of : callable
        A function for the suite's section of verdict.json; see `SectionOf`.
    alone : bool
        Whether to compute also the verdict on each single run of a panel, if several runs of one
        audit were judged together.

    Returns
    -------
    list of tuple
        Pairs of the path of each verdict.json and the verdict that was computed now. The verdict on
        the whole folder comes first.

    Raises
    ------
    AuditError
        If the shards cannot be judged.
    """
    runs, home = panel_runs(folder), verdict_path(folder)
    if runs is None:
        return [(home, _judged([folder]))]
    by_audit: dict[str, list[Path]] = {}
    for run in runs:
        by_audit.setdefault(audit_of(run).name, []).append(run)
    verdicts = {audit: _judged(dirs) for audit, dirs in by_audit.items()}
    suite = (folder / SUITE).is_file()
    if suite:
        merged: Document = content(verdicts, section_of(folder)(verdicts))
    elif len(verdicts) > 1:
        merged = content(verdicts)
    else:
        (merged,) = verdicts.values()
    computed: list[tuple[Path, Document]] = [(home, merged)]
    for audit, dirs in by_audit.items():
        page = home.parent / audit / "verdict.json"
        if page.is_file():
            computed.append((page, verdicts[audit]))
        for run in dirs:
            stored = run / "report" / "verdict.json"
            if not stored.is_file() and not suite:
                continue  # a run of a panel need not have its own report
            if len(dirs) == 1 or alone:
                computed.append((stored, verdicts[audit] if len(dirs) == 1 else _judged([run])))
    return computed


def _judged(run_dirs: Sequence[Path]) -> AuditVerdict[Any]:
    """Compute one verdict on several runs of an audit, with the options in the runs' manifests."""
    return verdict_of(part_of(audit_of(run_dirs[0]).name, "report").REPORT.verdict_of(run_dirs))


def difference(stored: Any, computed: Any, at: str = "") -> str:
    """Describe the first difference between two verdicts (pure).

    Parameters
    ----------
    stored, computed : Any
        The content of the two verdict.json files, or corresponding parts of the content.
    at : str
        The path of these parts inside verdict.json, which the sentence names.

    Returns
    -------
    str
        A sentence; "" if the verdicts agree. If only one of the verdicts has some key, this key is
        ignored, unless a decision depends on it.
    """
    if isinstance(stored, dict) and isinstance(computed, dict):
        unpaired = sorted((stored.keys() ^ computed.keys()) & _PARTS)
        if unpaired:
            problem = "missing" if unpaired[0] in computed else "not of these answers"
            return f"{at}.{unpaired[0]} is {problem}".lstrip(".")
        shared = sorted((stored.keys() & computed.keys()) - _NOT_COMPARED)
        pairs = [(f"{at}.{key}", stored[key], computed[key]) for key in shared]
    elif isinstance(stored, list) and isinstance(computed, list):
        if all(isinstance(entry, str) for entry in (*stored, *computed)):
            # lists of sentences or of ids are not compared
            return ""
        if len(stored) != len(computed):
            return f"{at[1:]} has {len(stored)} entries, and {len(computed)} are computed"
        pairs = [(f"{at}[{k}]", *pair) for k, pair in enumerate(zip(stored, computed, strict=True))]
    elif _differs(stored, computed, at):
        return f"{at[1:]} is {stored!r}, and {computed!r} is computed"
    else:
        return ""
    sentences = (difference(left, right, key) for key, left, right in pairs)
    return next(filter(None, sentences), "")


def _differs(stored: Any, computed: Any, at: str) -> bool:
    """Return whether two single values, such as texts or numbers, differ."""
    if isinstance(stored, str) and isinstance(computed, str):
        return stored != computed and at.rpartition(".")[2] in _COMPARED_TEXTS
    if {type(stored), type(computed)} <= {int, float}:
        return not math.isclose(stored, computed, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return type(stored) is not type(computed) or stored != computed


def recomputed_verdict(
    folder: Path, read: Document, section_of: SectionOf
) -> tuple[Document | None, str]:
    """Recompute a folder's verdicts, and compare every stored verdict.json with the computed
    verdict.

    Parameters
    ----------
    folder : Path
        A run directory, or a panel's or suite's folder.
    read : Document
        The folder's verdict.json, already parsed.
    section_of : callable
        A function for the suite's section of verdict.json; see `SectionOf`.

    Returns
    -------
    tuple of Document or None, and str
        The computed verdict, and "". If a stored verdict.json disagrees with the computed verdict,
        None and a sentence with the reason.
    """
    try:
        verdicts = recomputed(folder, section_of, alone=False)
    except (AuditError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return (
            None,
            f"The verdict could not be computed again from the answers: {error}. --trust-report accepts it unchecked.",
        )
    for path, computed in verdicts:
        try:
            stored = read if path == verdicts[0][0] else read_document(path)
        except (OSError, ConfigError) as error:
            return None, f"{path} cannot be read ({error}). Build it again: audit report"
        if deviation := difference(stored.plain, computed.plain):
            return None, (
                f"{path} is not the verdict on the stored answers: {deviation}. It was changed, or judged by another "
                "version of the program or with other options (--seed, --variants, --control-benchmark). Build it "
                f"again: audit report. --trust-report accepts it unchecked."
            )
    return verdicts[0][1], ""
