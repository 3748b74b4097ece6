"""Run or resume a perturbation audit: `python -m audit.perturb model=... benchmark=...
variants=...`.

The exit code is 0 if the run finished, whatever the verdict, and 1 if it did not finish or a model
failed. With gate=true, the exit code can also be 3 or 4 (see `audit gate`): 3 for a drop beyond the
references, and 4 for a verdict that is withheld, underpowered or of unknown cause.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.config.command_line import start
from audit.config.references import judged
from audit.core.exits import run_command
from audit.perturb.config import PerturbConfig, from_hydra
from audit.perturb.design import PerturbThresholds
from audit.runtime.conduct import Prepared, conduct

if TYPE_CHECKING:
    from audit.config.resolve import ResolvedRun


def main() -> None:
    """Check the arguments, compose the configuration with Hydra and run the perturbation audit."""
    start(PerturbConfig, from_hydra, perturb)


def perturb(config: PerturbConfig) -> int:
    """Plan or run one perturbation audit.

    Parameters
    ----------
    config : PerturbConfig
        Options of the run, composed by Hydra.

    Returns
    -------
    int
        The exit code.
    """
    stage = "reading the benchmark and its variants, resolving models"
    return conduct("perturb", config, stage, lambda: _prepared(config), _ended)


def _prepared(config: PerturbConfig) -> Prepared:
    """Resolve the run, with its analysis options and the notes to print."""
    from audit.perturb.plan import resolve_perturb

    run = resolve_perturb(config)

    def pre_run_notes() -> tuple[str]:
        """Return a note if the run has fewer questions than the plan needs."""
        from audit.config.dry_run import shortfall

        return (shortfall(run.resolved, run.needed),)

    sets = []
    for item_set in run.sets:
        library = item_set.library
        version = f"{library.header.name} {library.sha256[:12]}"
        sets.append(f"library {version}: {item_set.selection.sentence}")
    return Prepared(
        run.resolved,
        PerturbThresholds.from_mapping(config.verdict),
        {"judged": judged(config), **run.resolved.analysis},
        notes=(*sets, *filter(None, (run.unlike,)), *run.resolved.analysis["held_out"]),
        pre_run_notes=pre_run_notes,
    )


def _ended(run_dir: Path, resolved: ResolvedRun) -> dict[str, Any]:
    """Print the accuracies of a finished run, and return the answers of the run for the report."""
    from audit.perturb.report import read_run
    from audit.runtime.summary import print_cells

    read = read_run(run_dir)
    print_cells(read.outcomes.cells, resolved.audit)
    return {"read": read}


if __name__ == "__main__":
    run_command(main)
