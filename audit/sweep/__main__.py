"""Run or resume a router-worker audit: `python -m audit.sweep model=llama3_70b r=1..9`.

The exit code is 0 if the run finished, whatever the verdict. The code is 1 if the run did not
finish or a model failed. With gate=true the code can also be 3 (excess), 4 (gain uncontrolled) or 5
(no decision), as in `audit gate`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.config.command_line import start
from audit.core.exits import run_command
from audit.runtime.conduct import Prepared, conduct
from audit.sweep.config import SweepConfig, from_hydra, hint_references
from audit.sweep.design import SweepThresholds, missing_controls

if TYPE_CHECKING:
    from audit.config.resolve import ResolvedRun


def main() -> None:
    """Check the arguments, compose the configuration with Hydra and run the sweep."""
    start(SweepConfig, from_hydra, sweep)


def sweep(config: SweepConfig) -> int:
    """Plan or run one sweep.

    Parameters
    ----------
    config : SweepConfig
        The composed options.

    Returns
    -------
    int
        The exit code.
    """
    return conduct(
        "sweep",
        config,
        "reading the benchmark and resolving models",
        lambda: _prepared(config),
        _ended,
    )


def _prepared(config: SweepConfig) -> Prepared:
    from audit.sweep.replay import reachable, resolve_sweep

    thresholds, resolved = SweepThresholds.from_mapping(config.verdict), resolve_sweep(config)
    control = None if config.control_benchmark is None else config.control_benchmark.name
    analysis = {"control_benchmark": control, "references": hint_references(config)}

    def pre_run_notes() -> tuple[str, ...]:
        from audit.config.dry_run import shortfall

        return (*missing_controls(resolved.design), shortfall(resolved, *reachable(config)))

    return Prepared(resolved, thresholds, analysis, pre_run_notes=pre_run_notes)


def _ended(run_dir: Path, resolved: ResolvedRun) -> dict[str, Any]:
    from audit.runtime.summary import print_cells
    from audit.sweep.report import read_run

    read = read_run(run_dir)
    print_cells(read.outcomes.cells, resolved.audit)
    return {"reads": [read]}


if __name__ == "__main__":
    run_command(main)
