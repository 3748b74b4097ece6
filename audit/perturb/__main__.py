"""`python -m audit.perturb model=... benchmark=... variants=...`: run (or resume) a semantic-perturbation audit.

Exit codes: 0 the run finished, whatever the verdict; 1 it did not, or a model failed; with gate=true also 3 (drop
beyond reference) and 4 (withheld, cause unknown or underpowered), see `audit gate`.
"""

from __future__ import annotations

from collections.abc import Callable

from omegaconf import DictConfig

from audit.command_line import run_composed, start
from audit.exits import run_command
from audit.perturb.config import PerturbConfig, from_hydra, register
from audit.references import judged

register()


def main() -> None:
    """The command: what it refuses, then Hydra, then the run."""
    start(run_config, PerturbConfig)


def run_config(cfg: DictConfig, check: Callable[[], None] = lambda: None) -> int:
    """Validate and run a composed configuration; the exit code."""
    return run_composed(cfg, check, from_hydra, perturb)


def perturb(config: PerturbConfig) -> int:
    """Run, decide, write; the exit code. What is heavy is imported once nothing can be refused any more."""
    if config.plan:
        from audit.perturb.plan import show

        return show(config)
    from audit.dry_run import announced, shortfall
    from audit.perturb.audit import PERTURB
    from audit.perturb.resolve import resolve_perturb
    from audit.perturb.thresholds import PerturbThresholds
    from audit.runtime.progress import Display

    with Display(quiet=not config.progress) as display:
        display.stage("reading the benchmark and its variants, resolving models")
        run = resolve_perturb(config)
        for one in run.sets:
            display.note(f"library {one.library.header.name} {one.library.sha256[:12]}: {one.selection.sentence}")
        if run.unlike:
            display.note(run.unlike)
        for note in run.resolved.analysis["held_out"]:
            display.note(note)
        analysis = {
            "seed": config.seed,
            "thresholds": PerturbThresholds.from_mapping(config.verdict).to_dict(),
            "judged": judged(config),
            **run.resolved.analysis,
        }
        from audit.registry.finish import hooks
        from audit.runtime.run import run_audit
        from audit.summary import conclude, foretell, print_cells, print_failed

        foretell(shortfall(run.resolved, run.needed), *announced(run.resolved))

        result = run_audit(run.resolved, analysis, display, hooks=hooks(config.registry))
    if result.rows == 0:
        print_failed(result.failed)  # every model did
        return 1
    from audit.perturb.rows import read_run

    read = read_run(result.run_dir)
    print_cells(read.outcomes.cells, PERTURB)
    paths = None
    if config.report:
        from audit.perturb.report import build_report

        paths = build_report([result.run_dir], result.run_dir / "report", read=read)
    return conclude(config, result.run_dir, result.failed, paths)


if __name__ == "__main__":
    run_command(main)
