"""`python -m audit.sweep model=llama3_70b r=1..9`: run (or resume) a router-worker audit.

Exit codes: 0 the run finished, whatever the verdict; 1 it did not, or a model failed; with gate=true also 3 (excess)
and 4 (withheld, gain uncontrolled, brittle or underpowered), see `audit gate`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from audit.command_line import run_composed, start
from audit.exits import run_command
from audit.sweep.config import SweepConfig, from_hydra, hint_references, register
from audit.sweep.design import missing_controls

register()


def main() -> None:
    """The command: what it refuses, then Hydra, then the run."""
    start(run_config, SweepConfig)


def run_config(cfg: DictConfig, check: Callable[[], None] = lambda: None) -> int:
    """Validate and run a composed configuration; the exit code."""
    return run_composed(cfg, check, from_hydra, sweep)


def sweep(config: SweepConfig) -> int:
    """Run, decide, write; the exit code. What is heavy is imported once nothing can be refused any more."""
    if config.plan:
        from audit.sweep.plan import show

        return show(config)
    from audit.dry_run import announced, shortfall
    from audit.runtime.progress import Display
    from audit.sweep.audit import SWEEP
    from audit.sweep.replay import needed_by, resolve_sweep
    from audit.sweep.thresholds import SweepThresholds

    thresholds = SweepThresholds.from_mapping(config.verdict)
    control = None if config.control_benchmark is None else config.control_benchmark.name
    references = hint_references(config)
    analysis = {
        "seed": config.seed,
        "thresholds": thresholds.to_dict(),
        "control_benchmark": control,
        "references": references,
    }
    with Display(quiet=not config.progress) as display:
        display.stage("reading the benchmark and resolving models")
        resolved = resolve_sweep(config)
        from audit.registry.finish import hooks
        from audit.runtime.early import EarlyStop
        from audit.runtime.run import run_audit
        from audit.summary import conclude, foretell, print_cells, print_failed

        foretell(*missing_controls(resolved.design), shortfall(resolved, needed_by(config)), *announced(resolved))

        early = None
        if config.stop == "early":
            from audit.sweep.early import settled

            panel = len(config.model) * len(resolved.samples)
            early = EarlyStop(config.stop_batch, partial(settled, thresholds=thresholds, panel=panel))
        result = run_audit(resolved, analysis, display, early, hooks=hooks(config.registry))
    if result.rows == 0:
        print_failed(result.failed)  # every model did
        return 1
    from audit.sweep.rows import read_run

    read = read_run(result.run_dir)
    print_cells(read.outcomes.cells, SWEEP)
    paths = None
    if config.report:
        from audit.sweep.report import build_report

        paths = build_report(
            [result.run_dir],
            result.run_dir / "report",
            seed=config.seed,
            thresholds=thresholds,
            control_benchmark=control,
            references=[Path(one) for one in references],
            reads=[read],
        )
    return conclude(config, result.run_dir, result.failed, paths)


if __name__ == "__main__":
    run_command(main)
