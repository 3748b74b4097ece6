"""The verdict as a decision and an exit code: `python -m audit.gate RUN_DIR [--format text|json|junit|...]`.

    0  pass          no excess detected or explained by ensembling; no drop detected (perturbation audit); nothing seen
                     by this instrument (memory audit); confirmatory, either way (construct-validity audit)
    1  no decision   the run failed or is incomplete: there is no verdict, or it is over a part of what was asked for
    3  block         excess; drop beyond reference; memory of the text seen, gap to fresh items
    4  review        something was found that a person has to weigh: gain uncontrolled, brittle (cause unknown)
    4  no decision   nothing could be told: withheld, underpowered; any status that is not confirmatory

A panel has the decision of its worst cell, in the order 3, 4, 0: an excess anywhere is reported even where another cell
was withheld. A run without a single cell has failed. (2 is left to the command line's own usage errors.)
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from audit.audits import audit_of
from audit.errors import AuditError
from audit.exits import run_command
from audit.governance.decision import Ruling, failed, parts_of, rule
from audit.governance.formats import FORMATS, as_markdown, as_sentences
from audit.panel import PANEL, SUITE, panel_runs
from audit.printable import lines
from audit.shards.complete import cell_rows, contents, count_rows, listed_shards
from audit.shards.files import SHARDS, file_sha256
from audit.shards.manifest import MANIFEST, Manifest
from audit.shards.working_copy import named, run_folder

TRUSTED_VARIABLE = "AUDIT_TRUSTED_KEYS"
REGISTRY_VARIABLE = "AUDIT_REGISTRY"
SUMMARY = "GITHUB_STEP_SUMMARY"  # the file that GitHub shows on a job's page


def main(arguments: Sequence[str] | None = None, now: datetime | None = None) -> int:
    """Print the ruling on a run or a merged panel, and return its exit code. now: the clock's by default."""
    parser = argparse.ArgumentParser(
        prog="python -m audit.gate",
        description="Turn the verdict of a finished run, or of a merged panel, into a decision and an exit code.",
        epilog="Exit codes: 0 pass (no excess detected or explained by ensembling, no drop detected, nothing seen by "
        "this instrument, confirmatory either way); 1 the run failed or is incomplete; 3 block (excess, drop beyond "
        "reference, memory of the text seen, gap to fresh items); 4 review (gain uncontrolled, brittle) or no decision "
        "(withheld, underpowered, any other status of the validity audit). A panel has the code of its worst cell: 3, "
        "then 4, then 0.",
    )
    parser.add_argument(
        "run_dir", help="a run directory or its s3:// URL, or the folder of a panel (audit report --out)"
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="github: annotations, and a summary where the job has a page"
    )
    default = os.environ.get(TRUSTED_VARIABLE)
    parser.add_argument(
        "--keys", type=Path, default=Path(default) if default else None,
        help=f"folder of the public keys whose decisions count (audit.review; default: {TRUSTED_VARIABLE})",
    )  # fmt: skip
    parser.add_argument(
        "--approvals", type=int, default=1, help="people that an override needs (default: what the suite says, else 1)"
    )
    parser.add_argument(
        "--registry", default=os.environ.get(REGISTRY_VARIABLE),
        help=f"it knows whether a decision was deleted (default: {REGISTRY_VARIABLE}; without either nobody is asked)",
    )  # fmt: skip
    asked = parser.parse_args(arguments)
    if asked.approvals < 1:
        parser.error(f"--approvals {asked.approvals}: expected at least 1")
    now = now or datetime.now(UTC)
    try:
        run_dir = run_folder(asked.run_dir)
    except AuditError as error:
        print(lines(f"error: {error}"), file=sys.stderr)
        return 1
    ruling = ruling_with_decisions(run_dir, asked.keys, asked.approvals, now, asked.registry)
    print(FORMATS[asked.format](ruling), end="", flush=True)
    if asked.format == "github" and os.environ.get(SUMMARY):
        with Path(os.environ[SUMMARY]).open("a", encoding="utf-8") as summary:
            summary.write(as_markdown(ruling))
    if ruling.problem:
        print(lines(named(ruling.problem)), file=sys.stderr)
    return ruling.exit_code


def print_content(verdict: Mapping[str, Any]) -> int:
    """Print each cell's verdict with its reasons, of what verdict.json holds; the exit code that it stands for."""
    ruling = rule(verdict)
    print(as_sentences(ruling), end="")
    return ruling.exit_code


def rule_run(run_dir: Path) -> Ruling:
    """The ruling on the verdict that lies in a run directory or in a panel's folder, checked against its shards."""
    run_dir = home_of(run_dir)
    path = verdict_path(run_dir)
    name = run_dir.resolve().name
    try:
        verdict = json.loads(path.read_text(encoding="utf-8"))
        ruling = rule(verdict, name)
        problem = _not_of_this_run(run_dir, verdict)
    except FileNotFoundError:
        if (run_dir / PANEL).is_file():
            return failed(name, f"{path} is missing: {_how_far(run_dir)}. The command that made it, again, goes on.")
        return failed(
            name, f"{path} is missing: the run did not finish, or its report was not built (audit report {run_dir})."
        )
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        return failed(name, f"{path} is not JSON ({error}). Build it again: python -m audit.report {run_dir}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return failed(
            name,
            f"{path} is not a verdict of this program ({error!r}). Expected the keys of verdict.schema.json.",
        )
    except OSError as error:
        return failed(name, f"{path} cannot be read ({error}).")
    if not problem and not ruling.cells:
        problem = f"{path} holds no cell: nothing was measured."
    return failed(name, problem) if problem else ruling


def ruling_with_decisions(
    run_dir: Path, keys: Path | None, approvals: int, now: datetime, registry: str | None = None
) -> Ruling:
    """The ruling on a run with what people decided about it. Decisions that do not hold, that are gone although the
    registry knows of them, or that cannot be checked for want of trusted keys or of the registry that was named, fail
    the run: none is passed over."""
    # Here: signatures take a while to import, and neither the help nor a refusal needs any.
    from audit.governance.keys import load_trusted
    from audit.governance.people import approvals_required, runners
    from audit.governance.reviews import bound_to, has_decisions, history, honour

    ruling = rule_run(run_dir)
    run_dir = home_of(run_dir)
    if ruling.problem:
        return ruling
    if registry:
        from audit.registry.database import open_registry
        from audit.registry.decided import check_decisions

        try:
            check_decisions(
                open_registry(registry, make=False), run_dir, bound_to(run_dir, verdict_path(run_dir), ruling)
            )
        except (AuditError, OSError) as error:
            return failed(ruling.run, str(error))
    if not has_decisions(run_dir):
        return ruling
    if keys is None:
        why = f"{run_dir} has decisions, and nothing says whose count. Expected --keys FOLDER or {TRUSTED_VARIABLE}."
        return failed(ruling.run, why)
    try:
        decided = history(run_dir, bound_to(run_dir, verdict_path(run_dir), ruling), load_trusted(keys), now)
        return honour(ruling, decided, runners(run_dir), max(approvals, approvals_required(run_dir)), now)
    except (AuditError, OSError) as error:
        return failed(ruling.run, str(error))


def home_of(folder: Path) -> Path:
    """The run directory that a folder stands for: a run's own report stands for the run, whose shards are checked."""
    parent = folder.resolve().parent
    return (
        parent if folder.name == "report" and ((parent / MANIFEST).exists() or (parent / SHARDS).exists()) else folder
    )


def verdict_path(run_dir: Path) -> Path:
    """Where the verdict of a run directory lies; of a panel's folder it is in the folder itself."""
    inside = run_dir / "report" / "verdict.json"
    panel = run_dir / "verdict.json"
    return panel if panel.is_file() and not (run_dir / MANIFEST).exists() and not inside.exists() else inside


def _not_of_this_run(run_dir: Path, verdict: Mapping[str, Any]) -> str:
    """Why a verdict is not on the run that lies beside it now, or the run is not finished; empty where all is well.

    Empty too where there is nothing to compare with: the report alone was copied, or it is a panel's.
    """
    try:
        runs = panel_runs(run_dir)
    except AuditError as error:
        return str(error)
    if runs is not None:
        return _not_of_these_runs(run_dir, runs, verdict)
    if not (run_dir / SHARDS).exists() and not (run_dir / MANIFEST).exists():
        return ""
    try:
        seen = count_rows(run_dir, audit_of(run_dir).schema)
        rows = cell_rows(run_dir, seen)
        manifest = Manifest.load(run_dir) if (run_dir / MANIFEST).exists() else None
    except AuditError as error:
        return str(error)
    missing = "".join(f"{r.watermark.upper()}: {r.model} on {r.benchmark}. " for r in rows if not r.complete)
    if not any(run["models"] == contents(seen) for _, part in parts_of(verdict) for run in part["runs"]):
        return (
            f"{missing}The verdict of {run_dir} was not made from the {sum(seen.values()):,} answers that its shards "
            f"hold now. Build it again: python -m audit.report {run_dir}"
        )
    if manifest is not None and manifest.status != "finished" and not missing:
        broken = "; ".join(f"{model}: {why}" for model, why in manifest.models_failed.items())
        return (
            f"The manifest of {run_dir} says that the run is {manifest.status}, not finished"
            f"{f' ({broken})' if broken else ''}. Type the run's command again: it runs what is missing."
        )
    if manifest is not None and manifest.status == "finished" and not missing:
        try:
            listed_shards(run_dir, manifest)  # an answer that was changed leaves every count as it was
        except AuditError as error:
            return str(error)
    return ""


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


def _not_of_these_runs(folder: Path, runs: Sequence[Path], verdict: Mapping[str, Any]) -> str:
    """As `_not_of_this_run`, of a panel: every one of its runs is there, finished, and in the verdict."""
    absent = [run for run in runs if not (run / MANIFEST).is_file()]
    if absent:
        return (
            f"{len(absent)} of the {len(runs)} runs of {folder} are missing, such as {absent[0]}. Type the command "
            f"again that made it. (Of a report that was copied without its runs, leave {PANEL} out.)"
        )
    asked = file_sha256(folder / SUITE) if (folder / SUITE).is_file() else None
    if asked != verdict.get("suite", {}).get("suite_sha256"):
        return f"The verdict of {folder} is not of the {SUITE} that is there now. Type the suite's command again."
    problems = [problem for run in runs if (problem := _not_of_this_run(run, verdict))]
    made_of = sum(len(part["runs"]) for _, part in parts_of(verdict))
    if not problems and made_of != len(runs):
        problems = [f"The verdict of {folder} is of {made_of} runs; its {PANEL} names {len(runs)}. Build it again."]
    return " ".join(problems)


if __name__ == "__main__":
    run_command(main)
