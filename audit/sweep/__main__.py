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
from audit.config import CONF_DIR, protocol_of
from audit.errors import AuditError
from audit.sweep.config import SweepConfig, from_hydra, register
from audit.sweep.design import missing_controls

_SHOWN_QUESTIONS = 50  # of which a plan takes the lengths

register()


@hydra.main(version_base="1.3", config_path=str(CONF_DIR), config_name="sweep")
def _composed(cfg: DictConfig) -> None:
    """Hydra's entry."""
    sys.exit(run_config(cfg, check_composed))


def main() -> None:
    """The command: what it refuses, then Hydra, then the run."""
    start(_composed, SweepConfig)


def run_config(cfg: DictConfig, check: Callable[[], None] = lambda: None) -> int:
    """Validate and run a composed configuration. Errors that teach go to stderr without a traceback.

    check: what else can be refused, such as `check_composed` inside a Hydra job.
    """
    try:
        check()
        config = from_hydra(cfg)
        return print_plan(config) if config.plan else sweep(config)
    except (AuditError, OmegaConfBaseException) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1


def sweep(config: SweepConfig) -> int:
    """Run, decide, write; the exit code. What is heavy is imported once nothing can be refused any more."""
    from audit.resolve import resolve_run
    from audit.runtime.progress import Display
    from audit.sweep.audit import SWEEP
    from audit.sweep.thresholds import SweepThresholds

    thresholds = SweepThresholds.from_mapping(config.verdict)
    analysis = {
        "seed": config.seed,
        "thresholds": thresholds.to_dict(),
        "control_benchmark": config.control_benchmark,
    }
    with Display(quiet=not config.progress) as display:
        display.stage("reading the benchmark and resolving models")
        resolved = resolve_run(SWEEP, config)
        for text in missing_controls(resolved.design):
            print(f"note: {text}", file=sys.stderr, flush=True)
        from audit.runtime.early import EarlyStop
        from audit.runtime.run import run_audit
        from audit.summary import print_cells

        early = None
        if config.stop == "early":
            from audit.sweep.early import settled

            panel = len(config.model) * len(resolved.samples)
            early = EarlyStop(config.stop_batch, partial(settled, thresholds=thresholds, panel=panel))
        result = run_audit(resolved, analysis, display, early)
    if result.rows == 0:
        print("error: nothing was measured: every model failed", file=sys.stderr)
        _print_failed(result.failed)
        return 1
    from audit.sweep.rows import read_run

    read = read_run(result.run_dir)
    print_cells(read.outcomes.cells, SWEEP)
    code = 0
    if config.report:
        from audit.gate import print_content
        from audit.sweep.report import build_report

        paths = build_report(
            [result.run_dir],
            result.run_dir / "report",
            seed=config.seed,
            thresholds=thresholds,
            control_benchmark=config.control_benchmark,
            reads=[read],
        )
        code = print_content(paths.content)
        print(f"report   {paths.html}")
    print(f"shards   {result.run_dir / 'shards'}\nmanifest {result.run_dir / 'manifest.json'}")
    if result.failed:
        _print_failed(result.failed)
        return 1
    return code if config.gate else 0


def print_plan(config: SweepConfig) -> int:
    """What the run would do; the exit code: 1 where a model cannot run."""
    from audit.resolve import resolve_run
    from audit.sweep.audit import SWEEP
    from audit.sweep.calibrate_early import expected, load_table
    from audit.sweep.plan import describe, early_lines, make_plan
    from audit.sweep.thresholds import SweepThresholds

    resolved = resolve_run(SWEEP, config)
    design = resolved.design
    thresholds = SweepThresholds.from_mapping(config.verdict)
    panel = len(config.model) * len(resolved.samples)
    groups = {one.benchmark.name: len({q.group for q in one.questions()}) for one in resolved.samples}
    print(f"run directory  {resolved.path}{'  (exists: it would be resumed)' if resolved.path.exists() else ''}")
    for name, why in resolved.failed.items():
        print(f"{name}: cannot run: {why}")
    for name in config.model:
        for one in resolved.samples:
            some = [q for q, _ in zip(one.questions(), range(_SHOWN_QUESTIONS), strict=False)]
            print(f"{name} on {one.benchmark.name}, prompts {protocol_of(config, config.model[name])['name']}")
            plan = make_plan(
                config, name, design, some, one.sample.n,
                thresholds=thresholds, groups=groups[one.benchmark.name], panel=panel,
            )  # fmt: skip
            print("\n".join(describe(plan, design, thresholds)))
            if table := load_table():
                print("\n".join(early_lines(expected(one.sample.n, plan.router_counts, table))))
    return 1 if resolved.failed else 0


def _print_failed(failed: dict[str, str]) -> None:
    for name, why in failed.items():
        print(f"error: model {name} failed: {why}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
