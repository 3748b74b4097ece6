"""`python -m audit.sweep model=llama3_70b r=1..9`: run (or resume) a router-worker audit.

Exit codes: 0 the run finished, whatever the verdict; 1 it did not, or a model failed; with gate=true also 3 (excess)
and 4 (withheld, brittle or underpowered), see `audit.gate`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import hydra
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from audit.command_line import check_composed, start
from audit.config import CONF_DIR
from audit.errors import AuditError
from audit.exits import run_command
from audit.sweep.config import SweepConfig, from_hydra, register
from audit.sweep.design import missing_controls

register()


@hydra.main(version_base="1.3", config_path=str(CONF_DIR), config_name="sweep")
def _composed(cfg: DictConfig) -> None:
    """Hydra's entry."""
    run_command(lambda: run_config(cfg, check_composed))


def main() -> None:
    """The command: what it refuses, then Hydra, then the run."""
    start(_composed, SweepConfig)


def run_config(cfg: DictConfig, check: Callable[[], None] = lambda: None) -> int:
    """Validate and run a composed configuration. Errors that teach go to stderr without a traceback.

    check: what else can be refused, such as `check_composed` inside a Hydra job.
    """
    try:
        check()
        return sweep(from_hydra(cfg))
    except (AuditError, OmegaConfBaseException) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1


def sweep(config: SweepConfig) -> int:
    """Run, decide, write; the exit code. What is heavy is imported once nothing can be refused any more."""
    from audit.resolve import resolve_run
    from audit.runtime.progress import Display
    from audit.sweep.audit import SWEEP
    from audit.verdict.thresholds import Thresholds

    thresholds = Thresholds.from_mapping(config.verdict)
    control = None if config.control_benchmark is None else config.control_benchmark.name
    analysis = {
        "seed": config.seed,
        "thresholds": thresholds.to_dict(),
        "control_benchmark": control,
    }
    with Display(quiet=not config.progress) as display:
        display.stage("reading the benchmark and resolving models")
        resolved = resolve_run(SWEEP, config)
        for text in missing_controls(resolved.design):
            print(f"note: {text}", file=sys.stderr, flush=True)
        from audit.runtime.early import EarlyStop
        from audit.runtime.run import run_audit
        from audit.summary import print_summary

        early = None
        if config.stop == "early":
            from audit.verdict.early import settled

            panel = len(config.model) * len(resolved.samples)
            early = EarlyStop(config.stop_batch, partial(settled, thresholds=thresholds, panel=panel))
        result = run_audit(resolved, analysis, display, early)
    if result.rows == 0:
        _print_failed(result.failed)  # every model did
        return 1
    print_summary(result.run_dir, SWEEP)
    code = 0
    if config.report:
        from audit.gate import print_verdict
        from audit.report.build import build_report

        paths = build_report(
            [result.run_dir],
            result.run_dir / "report",
            seed=config.seed,
            thresholds=thresholds,
            control_benchmark=control,
        )
        code = print_verdict(result.run_dir)
        print(f"report   {paths.html}")
    print(f"shards   {result.run_dir / 'shards'}\nmanifest {result.run_dir / 'manifest.json'}")
    if result.failed:
        _print_failed(result.failed)
        return 1
    return code if config.gate else 0


def _print_failed(failed: dict[str, str]) -> None:
    for name, why in failed.items():
        print(f"error: model {name} failed: {why}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run_command(main)
