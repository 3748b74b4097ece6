"""`python -m audit.perturb model=... benchmark=... variants=...`: run (or resume) a semantic-perturbation audit.

Exit codes: 0 the run finished, whatever the verdict; 1 it did not, or a model failed; with gate=true also 3 (drop
beyond reference) and 4 (withheld, cause unknown or underpowered), see `audit gate`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.command_line import start
from audit.conduct import Prepared, conduct
from audit.exits import run_command
from audit.perturb.config import PerturbConfig, from_hydra
from audit.perturb.design import PerturbThresholds
from audit.references import judged

if TYPE_CHECKING:
    from audit.resolve import ResolvedRun


def main() -> None:
    """The command: what it refuses, then Hydra, then the run."""
    start(PerturbConfig, from_hydra, perturb)


def perturb(config: PerturbConfig) -> int:
    """Plan or run; the exit code."""
    stage = "reading the benchmark and its variants, resolving models"
    return conduct("perturb", config, stage, lambda: _prepared(config), _ended)


def _prepared(config: PerturbConfig) -> Prepared:
    from audit.dry_run import shortfall
    from audit.perturb.plan import resolve_perturb

    run = resolve_perturb(config)
    sets = (f"library {x.library.header.name} {x.library.sha256[:12]}: {x.selection.sentence}" for x in run.sets)
    return Prepared(
        run.resolved,
        PerturbThresholds.from_mapping(config.verdict),
        {"judged": judged(config), **run.resolved.analysis},
        notes=(*sets, *filter(None, (run.unlike,)), *run.resolved.analysis["held_out"]),
        foretold=(shortfall(run.resolved, run.needed),),
    )


def _ended(run_dir: Path, resolved: ResolvedRun) -> dict[str, Any]:
    from audit.perturb.report import read_run
    from audit.summary import print_cells

    read = read_run(run_dir)
    print_cells(read.outcomes.cells, resolved.audit)
    return {"read": read}


if __name__ == "__main__":
    run_command(main)
