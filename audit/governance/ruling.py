"""Convert the verdict on a run, panel or suite to a decision (a ruling).

People's decisions about the verdict can change the ruling.

Each audit's `vocabulary` maps verdicts to decisions. A panel gets the worst decision of its cells
(model and benchmark). From worst to best, the order is: block; review or "no decision"; pass.
Therefore memory that is found in one cell is reported even if the verdict on another cell was
withheld. A run without any cell has failed.
"""

import json
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

from securesystemslib.signer import Signer

from audit.config.audits import audit_of
from audit.core.errors import AuditError, ConfigError, RegistryError
from audit.core.exits import FAILED
from audit.core.guarded_files import nearest, read_text
from audit.governance import reviews
from audit.governance.archive import SUITES
from audit.governance.formats import as_sentences
from audit.governance.keys import (
    DECISION,
    DECISIONS,
    TRUSTED_VARIABLE,
    Keys,
    load_trusted,
    person,
    seal,
    signer_of,
    statement,
)
from audit.governance.reviews import Bound, Kind, chain_of
from audit.governance.side_files import revisions_of
from audit.judging.decision import Decision, Ruling, failed, read_document, rule
from audit.judging.together import Document, parts_of, suite_of
from audit.shards.complete import cell_rows, contents, count_rows, listed_shards, unhashed_tables
from audit.shards.files import SHARDS, file_sha256
from audit.shards.manifest import LEADERBOARD, MANIFEST, SEAL, TOMBSTONE, Manifest
from audit.shards.panel import PANEL, SUITE, panel_runs, verdict_path

# These fields are compared between the rows of a verdict and the rows of the shards.
_COUNTS = attrgetter("model", "benchmark", "found", "expected")


def runners(run_dir: Path, signers: Collection[str]) -> tuple[str, ...]:
    """Return the names of the people who started a run, with one entry for each start.

    Parameters
    ----------
    run_dir : Path
        A run directory, or a panel's or suite's folder.
    signers : collection of str
        The names of the trusted signers.

    Returns
    -------
    tuple of str
        The name of a trusted signer for each start; "" if it is unknown who started the run. The
        tuple is empty if no start is recorded.
    """
    known = {person(name): name for name in signers}
    people: list[str] = []
    for run in panel_runs(run_dir) or [run_dir]:
        if (run / MANIFEST).is_file():
            people += Manifest.load(run).run_by
    return tuple(known.get(person(name), "") for name in people)


def approvals_required(run_dir: Path) -> int:
    """Return how many approvals the suites of a run or panel require.

    Parameters
    ----------
    run_dir : Path
        A run directory, or a panel's or suite's folder.

    Returns
    -------
    int
        The largest `governance.approvals_required` of the suites; 1 if there is no suite.

    Raises
    ------
    ConfigError
        If a suite cannot be read, since it may require more approvals.
    """
    needed = 1
    for folder in (run_dir, *(panel_runs(run_dir) or [])):
        suites = []
        for name in SUITES:
            if (folder / name).is_file():
                suites.append(folder / name)
        for path in suites:
            try:
                text = read_text(path, reviews.MAX_SUITE)
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(
                    f"{path} does not state how many people have to approve ({error}). Restore it."
                ) from error
            needed = max(needed, reviews.approvals_asked(text, str(path)))
    return needed


REGISTRY_VARIABLE = "AUDIT_REGISTRY"
# A function of this type takes a folder and the folder's verdict.json. It computes the verdict from
# the answers, and returns this verdict and "". If the computed verdict differs from verdict.json,
# it returns None and the reason.
Recompute = Callable[[Path, Document], tuple[Document | None, str]]


def print_content(verdict: Document) -> int:
    """Print each cell's verdict with its reasons, and return the exit code."""
    ruling = rule(verdict)
    print(as_sentences(ruling), end="")
    return ruling.exit_code


def rule_run(run_dir: Path, recompute: Recompute | None = None) -> Ruling:
    """Return the ruling on a run, panel or suite, after checking its shards, counts and status.

    Parameters
    ----------
    run_dir : Path
        A run directory, or a panel's or suite's folder.
    recompute : callable or None
        A function that recomputes the verdict from the answers. The ruling is then based on the
        recomputed verdict. It is a failed ruling if verdict.json differs. With None, verdict.json
        is accepted without a check, even if a report was copied without its run.

    Returns
    -------
    Ruling
        The ruling. A failed ruling names the problem.
    """
    run_dir = home_of(run_dir)
    path, name = verdict_path(run_dir), run_dir.resolve().name
    try:
        verdict = read_document(path)
        ruling = rule(verdict, name)
        problem = _not_of_this_run(run_dir, verdict, recompute is None)
        if recompute is not None and not problem and ruling.exit_code != FAILED:
            computed, problem = recompute(run_dir, verdict)
            ruling = ruling if computed is None else rule(computed, name)
        if not problem:
            ruling = replace(ruling, rules=(*ruling.rules, *_unhashed(run_dir)))
        problem = problem or (
            "" if ruling.cells else f"{path} holds no cell: nothing was measured."
        )
    except FileNotFoundError:
        problem = _why_missing(run_dir, path)
    except ConfigError as error:
        problem = str(error)
    except OSError as error:
        problem = f"{path} cannot be read ({error})."
    return failed(name, problem) if problem else ruling


def _why_missing(run_dir: Path, path: Path) -> str:
    """Return a sentence that states why a folder has no verdict, and which command to type."""
    if (run_dir / PANEL).is_file():
        return f"{path} is missing: {_progress(run_dir)}. Type the command that made it again to continue."
    inside = _runs_inside(run_dir)
    if inside:
        return (
            f"{run_dir} is a folder of {len(inside)} runs. Expected one run, or a panel of them. "
            f"Example: audit gate {inside[0]}, or audit report {inside[0]} ... --out PANEL"
        )
    if (run_dir / LEADERBOARD).is_file():
        return (
            f"{run_dir} is a leaderboard. Expected a run, which judges a model for a decision. "
            "Example: audit import seen.csv --held-out new.csv --judge MODEL -o outputs/MODEL"
        )
    is_run = (run_dir / MANIFEST).is_file() or (run_dir / SUITE).is_file()
    if run_dir.is_dir() and not is_run:
        return (
            f"{run_dir} is no run: it has no {MANIFEST}. Expected a run directory. "
            "Example: audit gate outputs/my_run"
        )
    if run_dir.exists():
        return (
            f"{path} is missing: the run did not finish, or its report was not built "
            f"(audit report {run_dir})."
        )
    near = nearest(run_dir)
    return f"{run_dir} does not exist.{near} Expected a run directory. Example: outputs/my_run"


def _runs_inside(folder: Path) -> list[Path]:
    """Return the run directories directly inside a folder; an empty list if the folder itself is a
    run.
    """
    if (folder / MANIFEST).is_file() or not folder.is_dir():
        return []
    return sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))


def ruling_with_decisions(
    run_dir: Path,
    keys: Path | None,
    approvals: int,
    now: datetime,
    check: Callable[[Path, Bound], None] | None = None,
    recompute: Recompute | None = None,
) -> Ruling:
    """Return the ruling on a run, including people's decisions about it.

    Parameters
    ----------
    run_dir : Path
        A run directory, or a panel's or suite's folder.
    keys : Path or None
        The folder of trusted keys.
    approvals : int
        The number of people who must let the run pass. A suite may require more people.
    now : datetime
        The current time, which shows whether a decision has expired.
    check : callable or None
        A function that raises AuditError if a registry lists a decision or file that is missing in
        the run's folder.
    recompute : callable or None
        A function that recomputes the verdict from the answers; see `rule_run`.

    Returns
    -------
    Ruling
        The ruling. It is a failed ruling if any decision is invalid or missing, or if decisions
        cannot be checked because no keys are given.
    """
    ruling = rule_run(run_dir, recompute)
    run_dir = home_of(run_dir)
    decided_on = reviews.decision_files(run_dir)
    if ruling.problem or (check is None and not decided_on):
        return ruling
    try:
        # The suite is read before it is hashed, since reading refuses a file that is too large.
        needed = approvals_required(run_dir) if decided_on else 1
        bound = bound_to(run_dir, ruling)
        if check is not None:
            check(run_dir, bound)
        if not decided_on:
            return ruling
        if keys is None:
            raise ConfigError(
                f"{run_dir} has decisions, but no trusted keys are given. Expected --keys FOLDER "
                f"or {TRUSTED_VARIABLE}."
            )
        trusted = load_trusted(keys)
        decided = [decision for decision, _ in chain_of(run_dir, bound, trusted, now)]
        run_by = runners(run_dir, {key.signer for key in trusted.values()})
        return reviews.honour(ruling, decided, run_by, max(approvals, needed), now)
    except (AuditError, OSError) as error:
        return failed(ruling.run, str(error))


def bound_to(run_dir: Path, ruling: Ruling) -> Bound:
    """Return the files and facts that a decision on a run would cover now.

    Parameters
    ----------
    run_dir : Path
        A run directory, or a panel's or suite's folder.
    ruling : Ruling
        The ruling on its verdict.

    Returns
    -------
    Bound
        The hashes of the verdict, the page, the manifests, the tables and the suite, and facts
        about the runs for readers.
    """
    verdict = verdict_path(run_dir)
    # The decision also covers the page report.html, since the people who decide have read this
    # page.
    page = verdict.with_name("report.html")
    bound = {}
    for path in (verdict, page):
        if path == verdict or path.is_file():
            bound[path.name] = path
    # A decision on a panel or suite covers every run's manifest, which lists the hashes of the
    # shards. The keys are the paths of the runs, since two runs may have the same name.
    runs = {}
    places = {"": run_dir}
    for run in panel_runs(run_dir) or []:
        name = Path(os.path.relpath(run, run_dir)).as_posix()
        runs[name] = places[f"{name}/"] = run
    for below, run in places.items():
        for path in _bound_files(run):
            bound[f"{below}{path.name}"] = path
    parts = parts_of(read_document(verdict))
    run_facts: tuple[Any, Any] = _run_facts(run_dir)
    if runs:
        bound[PANEL] = run_dir / PANEL
        fingerprints, models = zip(*map(_run_facts, runs.values()), strict=True)
        run_facts = dict(zip(runs, fingerprints, strict=True)), dict(zip(runs, models, strict=True))
    suites = []
    for name in SUITES:
        if (run_dir / name).is_file():
            suites.append(name)
    libraries = {}
    for audit, part in parts:
        if part.library:
            libraries[audit] = part.library.sha256
    facts = {
        "run": run_facts[0],
        "models": run_facts[1],
        "libraries": libraries,
        "suite": suites[0] if suites else None,
        "verdict_decision": str(ruling.verdict_decision),
    }
    return Bound({name: file_sha256(path) for name, path in bound.items()}, facts)


def _run_facts(run_dir: Path) -> tuple[str | None, dict[str, Any] | None]:
    """Return a run's fingerprint, and a mapping from the run's models to their revisions.

    Both values are None if the run has no manifest.
    """
    if not (run_dir / MANIFEST).is_file():
        return None, None
    manifest = Manifest.load(run_dir)
    return manifest.fingerprint, revisions_of(manifest.models)


def home_of(folder: Path) -> Path:
    """Return the run directory that belongs to a folder.

    If the folder is the report of a run, this is the directory of the run, since the run's shards
    must be checked.
    """
    parent = folder.resolve().parent
    is_run = (parent / MANIFEST).exists() or (parent / SHARDS).exists()
    inside = folder.name == "report" and is_run
    return parent if inside else folder


def _bound_files(run: Path) -> list[Path]:
    """Return the files of a run that a decision covers, except the verdict and the page."""
    files = [run / name for name in (MANIFEST, *SUITES, SEAL)]
    return list(filter(Path.is_file, [*files, *sorted(run.glob("*.arrow"))]))


def _not_of_this_run(run_dir: Path, verdict: Document, trust_report: bool) -> str:
    """Return the reason why a verdict does not belong to the finished runs in the same folder.

    The reason is "" if the verdict was made from these runs.

    If `trust_report` is true, a report that was copied without its run is accepted.
    """
    try:
        runs = panel_runs(run_dir)
        if runs is not None:
            is_run = any((run_dir / name).exists() for name in (MANIFEST, SHARDS))
            if is_run and run_dir.resolve() not in (run.resolve() for run in runs):
                return f"{run_dir} holds a run, and its {PANEL} names others. Remove that file."
            return _not_of_these_runs(run_dir, runs, verdict)
        if suite_of(verdict) or sum(len(part.runs) for _, part in parts_of(verdict)) > 1:
            return (
                f"{run_dir} has a verdict on several runs, and no {PANEL} that names them. "
                "Restore it, or build it again: audit report RUN RUN --out FOLDER"
            )
        if (run_dir / SHARDS).exists() or (run_dir / MANIFEST).exists():
            return _not_whole(run_dir, verdict)[1]
        if trust_report:
            return ""
        return (
            f"{run_dir} holds a verdict and no answers, so nothing can be checked. Expected the run directory. "
            "To accept the verdict unchecked: --trust-report"
        )
    except AuditError as error:
        return str(error)


def _not_whole(run_dir: Path, verdict: Document) -> tuple[str, str]:
    """Return two texts about a run: a list of its answers, and a problem.

    The list has the same form as in verdict.json. The problem states why the verdict was not made
    from these answers.

    The problem is "" if the verdict was made from these answers. Raises AuditError if the run
    cannot be read or a shard was changed.
    """
    if not (run_dir / MANIFEST).is_file():
        return (
            "",
            f"{run_dir} has no {MANIFEST}: it may be incomplete. Restore it, or type the run's command again.",
        )
    audit, manifest = audit_of(run_dir), Manifest.load(run_dir)
    seen = count_rows(run_dir, audit.schema)
    stored, rows = contents(seen), cell_rows(run_dir, seen)
    watermarks = []
    for row in rows:
        if not row.complete:
            watermarks.append(f"{row.watermark.upper()}: {row.model} on {row.benchmark}. ")
    missing = "".join(watermarks)
    judged_rows: list[Any] = []
    judged_runs: list[Any] = []
    for _, part in parts_of(verdict):
        judged_rows += map(_COUNTS, part.rows)
        judged_runs += map(attrgetter("contents"), part.runs)
    if stored not in judged_runs or not set(map(_COUNTS, rows)) <= set(judged_rows):
        return "", (
            f"{missing}The verdict of {run_dir} was not made from the {sum(seen.values()):,} answers that its shards "
            f"hold now, or not of the run that {MANIFEST} describes. Build it again: audit report {run_dir}"
        )
    if not missing:  # if the verdict reports missing rows, the ruling has failed already
        if manifest.status != "finished":
            failures = "; ".join(f"{model}: {why}" for model, why in manifest.models_failed.items())
            broken = f" ({failures})" if failures else ""
            return (
                "",
                f"{run_dir} is {manifest.status}, not finished{broken}. Type the run's command again.",
            )
        # If an answer was changed, the counts stay the same. Therefore the hashes of the shards are
        # checked too.
        listed_shards(run_dir, manifest)
    return json.dumps([audit.name, stored], sort_keys=True), ""


def _unhashed(folder: Path) -> list[str]:
    """Return a sentence for each run whose manifest has no hash of some of the run's tables."""
    sentences = []
    for run in panel_runs(folder) or [folder]:
        names = unhashed_tables(run, Manifest.load(run)) if (run / MANIFEST).is_file() else []
        if names:
            sentences.append(
                f"{run.name}: the manifest has no hash of {', '.join(names)}, so a change would not show."
            )
    return sentences


def _progress(folder: Path) -> str:
    """Describe how many answers each run has, for a panel or suite without a verdict."""
    sentences = []
    try:
        for run in panel_runs(folder) or []:
            if not (run / MANIFEST).is_file():
                sentences.append(f"{run.name} not started")
                continue
            stored = expected = 0
            for row in cell_rows(run, count_rows(run, audit_of(run).schema)):
                stored += row.found
                expected += row.expected or row.found
            sentences.append(
                f"{run.name} {Manifest.load(run).status}, {stored:,} of {expected:,} answers"
            )
    except AuditError as error:
        sentences.append(str(error))
    return "; ".join(sentences)


def _not_of_these_runs(folder: Path, runs: Sequence[Path], verdict: Document) -> str:
    """Return the reason why a panel's verdict was not made from all runs of the panel.

    The reason is "" if the verdict was made from all runs. Each run must be finished and listed
    once.
    """
    absent = [run for run in runs if not (run / MANIFEST).is_file()]
    if absent:
        missing = (
            f"{len(absent)} of the {len(runs)} runs of {folder} are missing, such as {absent[0]}"
        )
        return f"{missing}. Type the command that made it again."
    if len(set(map(Path.resolve, runs))) < len(runs):
        return f"The {PANEL} of {folder} names a run twice. Build the report again."
    suite_sha256 = file_sha256(folder / SUITE) if (folder / SUITE).is_file() else None
    suite = suite_of(verdict)
    if suite_sha256 != (suite.suite_sha256 if suite else None):
        return f"The verdict of {folder} is not of its present {SUITE}. Type the suite's command again."
    stored, problems = [], []
    for run in runs:
        answers, problem = _not_whole(run, verdict)
        stored.append(answers)
        if problem:
            problems.append(problem)
    if problems:
        return " ".join(problems)
    judged: list[str] = []
    for name, part in parts_of(verdict):
        for judged_run in part.runs:
            judged.append(json.dumps([name, judged_run.contents], sort_keys=True))
    if sorted(judged) != sorted(stored):
        return f"The verdict of {folder} is not of the {len(runs)} runs that its {PANEL} names. Build it again."
    return ""


# A function of this type records in a registry how many decisions a run has, so that a deleted
# decision is noticed. Its arguments are a run, the files that a decision on the run covers, and a
# time. If the time is given, the function records the run's decisions. If the time is None, it only
# compares the run with the registry. It raises SignatureError if a decision is missing, and
# RegistryError if the registry does not answer.
Register = Callable[[Path, Bound, datetime | None], object]


def decide_on(
    run_dir: Path,
    ruling: Ruling,
    kind: Kind,
    *,
    reason: str,
    expires: str | None,
    signer: Signer,
    trusted: Keys,
    now: datetime,
    registry: Register | None,
) -> Path:
    """Sign a decision on a run, store it, and record it in the registry if there is one.

    Parameters
    ----------
    run_dir : Path
        A run directory, or a panel's or suite's folder.
    ruling : Ruling
        The ruling on its verdict.
    kind : Kind
        Approve, reject or override.
    reason : str
        The reason, which is required.
    expires : str or None
        The end of the decision's validity, as the user typed it. It is a date, or a time with its
        time zone. None for a rejection.
    signer : Signer
        The private key or identity that signs the decision.
    trusted : Keys
        The trusted keys, which must include the signer's key.
    now : datetime
        The current time, which becomes the time of the decision.
    registry : Register or None
        A function that records the decision in a registry.

    Returns
    -------
    Path
        The decision's file.

    Raises
    ------
    ConfigError
        If the decision would have no effect.
    SignatureError
        If an earlier decision is invalid.
    RegistryError
        If the registry does not answer.
    """
    bound, until = bound_to(run_dir, ruling), reviews.parse_time(expires) if expires else None
    if registry is not None:
        registry(run_dir, bound, None)
    now, reason = now.replace(microsecond=0), reason.strip()
    name = signer_of(signer, trusted)
    if ruling.exit_code == FAILED:
        raise ConfigError(
            "The run has no complete verdict. Nobody can let a failed or incomplete run pass."
        )
    if not reason or len(reason) > reviews.MAX_REASON:
        raise ConfigError(
            f"The reason has {len(reason)} characters. Expected 1 to {reviews.MAX_REASON}."
        )
    if kind == Kind.APPROVE and ruling.verdict_decision in (Decision.BLOCK, Decision.NO_DECISION):
        raise ConfigError(
            f"The verdict says {ruling.verdict_decision}, but approvals are for a review only. "
            "Use override."
        )
    _check_expiry(kind, until, now)
    chain = chain_of(run_dir, bound, trusted, now)
    predicate = {
        **bound.facts,
        "decision": str(kind),
        "reason": reason,
        "decided": reviews.at(now),
        "expires": reviews.at(until) if until else None,
        "signer": name,
        "sequence": len(chain) + 1,
        "previous": chain[-1][1] if chain else None,
    }
    data = seal(statement(DECISION, bound.subjects, predicate), signer)
    path = reviews.add_file(run_dir / DECISIONS / f"{len(chain) + 1:04d}.dsse.json", data)
    if registry is not None:
        try:
            registry(run_dir, bound, now)
        except RegistryError as error:
            raise RegistryError(
                f"{error} The decision {path} counts. To record it in the registry: audit registry "
                f"add {run_dir}"
            ) from error
    return path


def _check_expiry(kind: Kind, until: datetime | None, now: datetime) -> None:
    if kind == Kind.REJECT:
        if until is not None:
            raise ConfigError(
                "A rejection does not expire, since its signer may decide again. Leave --expires "
                "out."
            )
    elif until is None or until <= now:
        raise ConfigError(
            "--expires is missing or past. Expected a time in the future. Example: --expires 2027-01-31"
        )
    elif until - now > reviews.LONGEST:
        raise ConfigError(
            f"--expires is {reviews.at(until)}. Expected at most {reviews.LONGEST.days} days from now."
        )


def queue(folder: Path) -> list[Path]:
    """Return the runs, panels and suites below a folder on which people may decide.

    Parameters
    ----------
    folder : Path
        A folder of run directories, such as outputs.

    Returns
    -------
    list of Path
        The folders, sorted. The runs of a panel are not listed, since people decide on the panel as
        a whole. A panel is left out if a retention rule removed all its runs.

    Raises
    ------
    ConfigError
        If the folder holds no run.
    """
    panels = {path.parent: panel_runs(path.parent) or [] for path in folder.glob(f"**/{PANEL}")}
    removed = set()
    for panel, members in panels.items():
        if all((run / TOMBSTONE).is_file() for run in members):
            removed.add(panel)
    together: set[Path] = set()
    for members in panels.values():
        together.update(map(Path.resolve, members))
    alone = set()
    for path in folder.glob(f"**/{MANIFEST}"):
        if path.parent.resolve() not in together:
            alone.add(path.parent)
    runs = sorted({*panels, *alone} - removed)
    if not runs:
        raise ConfigError(
            f"{folder} holds no run.{nearest(folder)} Expected a folder of run directories. Example: outputs"
        )
    return runs
