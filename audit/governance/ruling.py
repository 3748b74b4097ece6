"""What follows from the verdict of a run, panel or suite as it lies in its folder, and from people's decisions on it.

Each audit's `vocabulary` says which verdict is which. A panel has the decision of its worst cell, in the order block,
review or no decision, pass: an excess anywhere is reported even where another cell was withheld. A run without a single
cell has failed.
"""

import json
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from securesystemslib.signer import Signer

from audit.audits import audit_of
from audit.decision import Decision, Ruling, failed, read_document, rule
from audit.errors import AuditError, ConfigError, RegistryError
from audit.exits import FAILED
from audit.governance import reviews
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
from audit.guarded_files import read_text
from audit.panel import PANEL, SUITE, panel_runs
from audit.shards.complete import cell_rows, contents, count_rows, listed_shards, unhashed_tables
from audit.shards.files import SHARDS, file_sha256
from audit.shards.manifest import MANIFEST, SEAL, TOMBSTONE, Manifest
from audit.verdict.together import Document, parts_of, suite_of


def runners(run_dir: Path, signers: Collection[str]) -> tuple[str, ...]:
    """Who started the run, an entry a start: a trusted signer, or "" for a start that names none of them and so does
    not tell who it was; empty where nothing is known."""
    known = {person(name): name for name in signers}
    started = (Manifest.load(run).run_by for run in panel_runs(run_dir) or [run_dir] if (run / MANIFEST).is_file())
    return tuple(known.get(person(who), "") for each in started for who in each)


def approvals_required(run_dir: Path) -> int:
    """How many people a suite asks for (`governance.approvals_required`), of the run or of one of a panel; 1 without.
    ConfigError where a suite cannot be read: it may ask for more."""
    needed = 1
    for folder in (run_dir, *(panel_runs(run_dir) or [])):
        for path in (folder / name for name in reviews.SUITES if (folder / name).is_file()):
            try:
                text = read_text(path, reviews.MAX_SUITE)
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"{path} does not say how many have to approve ({error}). Restore it.") from error
            needed = max(needed, reviews.approvals_asked(text, str(path)))
    return needed


REGISTRY_VARIABLE = "AUDIT_REGISTRY"
# (a folder, its verdict.json) -> (the verdict on its answers; None, and why the stored one is another)
Again = Callable[[Path, Document], tuple[Document | None, str]]


def print_content(verdict: Document) -> int:
    """Print each cell's verdict with its reasons; return the exit code that it stands for."""
    ruling = rule(verdict)
    print(as_sentences(ruling), end="")
    return ruling.exit_code


def rule_run(run_dir: Path, again: Again | None = None) -> Ruling:
    """The ruling on the verdict of a run directory or of a panel's folder, its shards, counts and status checked.
    again: computes the verdict from the answers; the ruling is on that, and there is none where verdict.json says
    another thing. None takes the word of verdict.json, and of a report that lies there without its run."""
    run_dir = home_of(run_dir)
    path, name = verdict_path(run_dir), run_dir.resolve().name
    try:
        verdict = read_document(path)
        ruling = rule(verdict, name)
        problem = _not_of_this_run(run_dir, verdict, again is None)
        if again is not None and not problem and ruling.exit_code != FAILED:
            computed, problem = again(run_dir, verdict)
            ruling = ruling if computed is None else rule(computed, name)
        if not problem:
            ruling = replace(ruling, rules=(*ruling.rules, *_unhashed(run_dir)))
        problem = problem or ("" if ruling.cells else f"{path} holds no cell: nothing was measured.")
    except FileNotFoundError:
        problem = f"There is no folder {run_dir}. Expected a run directory, such as outputs/my_run."
        if (run_dir / PANEL).is_file():
            problem = f"{path} is missing: {_how_far(run_dir)}. The command that made it, again, goes on."
        elif inside := _runs_inside(run_dir):
            problem = (
                f"{run_dir} is a folder of {len(inside)} runs. Expected one run, or a panel of them. "
                f"Example: audit gate {inside[0]}, or audit report {inside[0]} ... --out PANEL"
            )
        elif run_dir.exists():
            problem = (
                f"{path} is missing: the run did not finish, or its report was not built (audit report {run_dir})."
            )
    except ConfigError as error:
        problem = str(error)
    except OSError as error:
        problem = f"{path} cannot be read ({error})."
    return failed(name, problem) if problem else ruling


def _runs_inside(folder: Path) -> list[Path]:
    """Return the run directories that lie in a folder which is no run itself."""
    if (folder / MANIFEST).is_file() or not folder.is_dir():
        return []
    return sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))


def ruling_with_decisions(
    run_dir: Path,
    keys: Path | None,
    approvals: int,
    now: datetime,
    check: Callable[[Path, Bound], None] | None = None,
    again: Again | None = None,
) -> Ruling:
    """The ruling on a run with what people decided about it. Decisions that do not hold, that are gone, or that cannot
    be checked for want of trusted keys fail the run: none is passed over. check: raises AuditError where a registry
    knows of a decision or of bytes that are not there. again: as `rule_run`."""
    ruling = rule_run(run_dir, again)
    run_dir = home_of(run_dir)
    decided_on = reviews.decision_files(run_dir)
    if ruling.problem or (check is None and not decided_on):
        return ruling
    try:
        needed = approvals_required(run_dir) if decided_on else 1  # before the suite is hashed: it may have any size
        bound = bound_to(run_dir, ruling)
        if check is not None:
            check(run_dir, bound)
        if not decided_on:
            return ruling
        if keys is None:
            raise ConfigError(f"Whose decisions on {run_dir} count? Expected --keys FOLDER or {TRUSTED_VARIABLE}.")
        trusted = load_trusted(keys)
        decided = [one for one, _ in chain_of(run_dir, bound, trusted, now)]
        run_by = runners(run_dir, {one.signer for one in trusted.values()})
        return reviews.honour(ruling, decided, run_by, max(approvals, needed), now)
    except (AuditError, OSError) as error:
        return failed(ruling.run, str(error))


def bound_to(run_dir: Path, ruling: Ruling) -> Bound:
    """What a decision on a run binds now."""
    verdict = verdict_path(run_dir)
    page = verdict.with_name("report.html")  # what the people who decide have read
    found = {path.name: path for path in (verdict, page) if path == verdict or path.is_file()}
    # Of a panel or suite: every run's manifest, and with it its shards. By path: two runs may have one name.
    runs = {Path(os.path.relpath(run, run_dir)).as_posix(): run for run in panel_runs(run_dir) or []}
    for below, run in {"": run_dir, **{f"{name}/": run for name, run in runs.items()}}.items():
        files = [*(run / name for name in (MANIFEST, *reviews.SUITES, SEAL)), *sorted(run.glob("*.arrow"))]
        found |= {f"{below}{path.name}": path for path in files if path.is_file()}
    parts = parts_of(read_document(verdict))
    told: tuple[Any, Any] = _told(run_dir)
    if runs:
        found[PANEL] = run_dir / PANEL
        fingerprints, models = zip(*map(_told, runs.values()), strict=True)
        told = dict(zip(runs, fingerprints, strict=True)), dict(zip(runs, models, strict=True))
    facts = {
        "run": told[0],
        "models": told[1],
        "libraries": {audit: part.library.sha256 for audit, part in parts if part.library},
        "suite": next((name for name in reviews.SUITES if (run_dir / name).is_file()), None),
        "verdict_decision": str(ruling.verdict_decision),
    }
    return Bound({name: file_sha256(path) for name, path in found.items()}, facts)


def _told(run_dir: Path) -> tuple[str | None, dict[str, Any] | None]:
    """Fingerprint and models with their revisions; None where there is no manifest."""
    if not (run_dir / MANIFEST).is_file():
        return None, None
    manifest = Manifest.load(run_dir)
    return manifest.fingerprint, {name: one.get("revision") for name, one in manifest.models.items()}


def home_of(folder: Path) -> Path:
    """The run directory that a folder stands for: a run's own report stands for the run, whose shards are checked."""
    parent = folder.resolve().parent
    inside = folder.name == "report" and any((parent / name).exists() for name in (MANIFEST, SHARDS))
    return parent if inside else folder


def verdict_path(run_dir: Path) -> Path:
    """Where the verdict of a run directory lies; of a panel's folder it is in the folder itself."""
    inside = run_dir / "report" / "verdict.json"
    panel = run_dir / "verdict.json"
    return panel if panel.is_file() and not (run_dir / MANIFEST).exists() and not inside.exists() else inside


def _not_of_this_run(run_dir: Path, verdict: Document, trust_report: bool) -> str:
    """Why a verdict is not on the run or runs that lie beside it now, or these are not finished; "" where all is well.
    trust_report: "" too where there is nothing to compare with, since the report alone was copied."""
    try:
        runs = panel_runs(run_dir)
        if runs is not None:
            own = any((run_dir / name).exists() for name in (MANIFEST, SHARDS))
            if own and run_dir.resolve() not in (run.resolve() for run in runs):
                return f"{run_dir} holds a run, and its {PANEL} is of others. Take that file out."
            return _not_of_these_runs(run_dir, runs, verdict)
        if suite_of(verdict) or sum(len(part.runs) for _, part in parts_of(verdict)) > 1:
            what = f"{run_dir} has a verdict on several runs, and no {PANEL} that names them"
            return f"{what}. Restore it, or build it again: audit report RUN RUN --out FOLDER"
        if (run_dir / SHARDS).exists() or (run_dir / MANIFEST).exists():
            return _not_whole(run_dir, verdict)[1]
        alone = f"{run_dir} holds a verdict and no answers, so nothing can be checked. Expected the run directory. To "
        return "" if trust_report else f"{alone}take the verdict's word: --trust-report"
    except AuditError as error:
        return str(error)


def _not_whole(run_dir: Path, verdict: Document) -> tuple[str, str]:
    """(the answers that one run holds as verdict.json would list them, why the verdict is not of them or the run is not
    finished). Raises AuditError where the run cannot be read, or a shard is not the one of the manifest."""
    if not (run_dir / MANIFEST).is_file():
        return "", f"{run_dir} has no {MANIFEST}: it may be incomplete. Restore it, or type the run's command again."
    audit, manifest = audit_of(run_dir), Manifest.load(run_dir)
    seen = count_rows(run_dir, audit.schema)
    held, rows = contents(seen), cell_rows(run_dir, seen)
    missing = "".join(f"{r.watermark.upper()}: {r.model} on {r.benchmark}. " for r in rows if not r.complete)
    parts = [part for _, part in parts_of(verdict)]
    told = {(r.model, r.benchmark, r.found, r.expected) for part in parts for r in part.rows}
    known = any(run.held == held for part in parts for run in part.runs)
    if not known or not {(r.model, r.benchmark, r.found, r.expected) for r in rows} <= told:
        return "", (
            f"{missing}The verdict of {run_dir} was not made from the {sum(seen.values()):,} answers that its shards "
            f"hold now, or not of the run that {MANIFEST} describes. Build it again: audit report {run_dir}"
        )
    if not missing:  # what is missing and said to be has failed already
        if manifest.status != "finished":
            failures = "; ".join(f"{model}: {why}" for model, why in manifest.models_failed.items())
            broken = f" ({failures})" if failures else ""
            return "", f"{run_dir} is {manifest.status}, not finished{broken}. The run's command, again, finishes it."
        listed_shards(run_dir, manifest)  # an answer that was changed leaves every count as it was
    return json.dumps([audit.name, held], sort_keys=True), ""


def _unhashed(folder: Path) -> list[str]:
    """Return a sentence for each run with tables that its manifest lists without a hash."""
    said = []
    for run in panel_runs(folder) or [folder]:
        names = unhashed_tables(run, Manifest.load(run)) if (run / MANIFEST).is_file() else []
        if names:
            said.append(f"{run.name}: the manifest has no hash of {', '.join(names)}, so a change would not show.")
    return said


def _how_far(folder: Path) -> str:
    """Of a panel or suite without a verdict: how far each of its runs came."""
    said = []
    try:
        for run in panel_runs(folder) or []:
            if not (run / MANIFEST).is_file():
                said.append(f"{run.name} not started")
                continue
            rows = cell_rows(run, count_rows(run, audit_of(run).schema))
            found, asked = sum(r.found for r in rows), sum(r.expected or r.found for r in rows)
            said.append(f"{run.name} {Manifest.load(run).status}, {found:,} of {asked:,} answers")
    except AuditError as error:
        said.append(str(error))
    return "; ".join(said)


def _not_of_these_runs(folder: Path, runs: Sequence[Path], verdict: Document) -> str:
    """As `_not_of_this_run`, of a panel: every one of its runs is there once, finished, and in the verdict."""
    if absent := [run for run in runs if not (run / MANIFEST).is_file()]:
        missing = f"{len(absent)} of the {len(runs)} runs of {folder} are missing, such as {absent[0]}"
        return f"{missing}. Type the command again that made it."
    if len({run.resolve() for run in runs}) < len(runs):
        return f"The {PANEL} of {folder} names a run twice. Build the report again."
    asked = file_sha256(folder / SUITE) if (folder / SUITE).is_file() else None
    suite = suite_of(verdict)
    if asked != (suite.suite_sha256 if suite else None):
        return f"The verdict of {folder} is not of the {SUITE} that is there now. Type the suite's command again."
    each = [_not_whole(run, verdict) for run in runs]
    if problems := [problem for _, problem in each if problem]:
        return " ".join(problems)
    made_of = [(name, run) for name, part in parts_of(verdict) for run in part.runs]
    told = [json.dumps([name, run.held], sort_keys=True) for name, run in made_of]
    if sorted(told) != sorted(held for held, _ in each):
        return f"The verdict of {folder} is not of the {len(runs)} runs that its {PANEL} names. Build it again."
    return ""


# Knows how many decisions a run has, so that none is deleted unseen. (run, what a decision on it binds, None): raises
# SignatureError where one is gone, RegistryError where nobody answers; with a time it notes those that are there.
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
    """Sign a decision on a run, add it, and note it in the registry where there is one; the file. expires: as typed.
    Raises ConfigError where it would have no effect, SignatureError where what was decided before does not hold,
    RegistryError where the registry does not answer."""
    bound, until = bound_to(run_dir, ruling), reviews.parse_time(expires) if expires else None
    if registry is not None:
        registry(run_dir, bound, None)
    now, reason = now.replace(microsecond=0), reason.strip()
    name = signer_of(signer, trusted)
    if ruling.exit_code == FAILED:
        raise ConfigError("The run has no whole verdict. A failed or incomplete run passes by nobody's word.")
    if not reason or len(reason) > reviews.MAX_REASON:
        raise ConfigError(f"A decision needs a reason of 1 to {reviews.MAX_REASON} characters, not {len(reason)}.")
    if kind == Kind.APPROVE and ruling.verdict_decision in (Decision.BLOCK, Decision.NO_DECISION):
        raise ConfigError(f"The verdict says {ruling.verdict_decision}, and an approval answers a review: override it.")
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
            raise RegistryError(f"{error} {path} counts. To note it: audit registry add {run_dir}") from error
    return path


def _check_expiry(kind: Kind, until: datetime | None, now: datetime) -> None:
    if kind == Kind.REJECT:
        if until is not None:
            raise ConfigError("A rejection does not expire: its signer may decide again. Leave --expires out.")
    elif until is None or until <= now:
        raise ConfigError("Expected --expires in the future, such as --expires 2027-01-31.")
    elif until - now > reviews.LONGEST:
        raise ConfigError(f"A decision holds for {reviews.LONGEST.days} days at most. Expected --expires before that.")


def queue(folder: Path) -> list[Path]:
    """Every run, panel and suite below a folder, but for what retention removed. The runs of a panel or suite are
    decided on together."""
    panels = {path.parent: panel_runs(path.parent) or [] for path in folder.glob(f"**/{PANEL}")}
    gone = {panel for panel, members in panels.items() if all((run / TOMBSTONE).is_file() for run in members)}
    together = {run.resolve() for members in panels.values() for run in members}
    alone = {path.parent for path in folder.glob(f"**/{MANIFEST}") if path.parent.resolve() not in together}
    runs = sorted({*panels, *alone} - gone)
    if not runs:
        raise ConfigError(f"No run below {folder}. Expected a folder of run directories, such as outputs.")
    return runs
