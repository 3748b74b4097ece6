"""`python -m audit.sweep model=llama3_70b r=1..9`: run (or resume) a router-worker audit.

Exit codes: 0 the run finished, whatever the verdict; 1 it did not, or a model failed; with gate=true also 3 (excess)
and 4 (withheld, brittle or underpowered), see `audit.gate`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import hydra
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from audit.command_line import check_composed, start
from audit.config import CONF_DIR, protocol_of
from audit.errors import AuditError
from audit.exits import run_command
from audit.sweep.config import SweepConfig, from_hydra, register, worker_of
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
        from audit.summary import print_cells

        early = None
        if config.stop == "early":
            from audit.sweep.early import settled

            panel = len(config.model) * len(resolved.samples)
            early = EarlyStop(config.stop_batch, partial(settled, thresholds=thresholds, panel=panel))
        result = run_audit(resolved, analysis, display, early)
    if result.rows == 0:
        _print_failed(result.failed)  # every model did
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
            control_benchmark=control,
            reads=[read],
        )
        code = print_content(paths.content)
        print(f"report   {paths.html}")
    print(f"shards   {result.run_dir / 'shards'}\nmanifest {result.run_dir / 'manifest.json'}")
    if result.failed:
        _print_failed(result.failed)
        return 1
    return code if config.gate else 0


def print_plan(config: SweepConfig, as_json: bool = False) -> int:
    """What the run would do, in lines or for programs; the exit code: 1 where a model cannot run."""
    from audit.plan_cost import planned_cost
    from audit.resolve import resolve_run
    from audit.shards.manifest import plain
    from audit.sweep.audit import SWEEP
    from audit.sweep.calibrate_early import expected, load_table
    from audit.sweep.plan import SHOWN_QUESTIONS, describe, early_lines, make_plan
    from audit.sweep.thresholds import SweepThresholds

    resolved = resolve_run(SWEEP, config)
    design = resolved.design
    thresholds = SweepThresholds.from_mapping(config.verdict)
    panel = len(config.model) * len(resolved.samples)
    groups = {one.benchmark.name: len({q.group for q in one.questions()}) for one in resolved.samples}
    table = load_table()
    told: list[dict[str, Any]] = []
    lines = [f"run directory  {resolved.path}{'  (exists: it would be resumed)' if resolved.path.exists() else ''}"]
    lines += [f"{name}: cannot run: {why}" for name, why in resolved.failed.items()]
    for name, model in config.model.items():
        for one in resolved.samples:
            some = [q for q, _ in zip(one.questions(), range(SHOWN_QUESTIONS), strict=False)]
            plan = make_plan(
                config, name, design, some, one.sample.n,
                thresholds=thresholds, groups=groups[one.benchmark.name], panel=panel,
            )  # fmt: skip
            other = worker_of(config, model)
            cost = planned_cost(config.cost, plan.tokens, {name: model, other.name: other})
            told.append({"model": name, "benchmark": one.benchmark.name, **asdict(plan), "cost": asdict(cost)})
            lines.append(f"{name} on {one.benchmark.name}, prompts {protocol_of(config, model)['name']}")
            lines += describe(plan, design, thresholds, cost.lines())
            if one.sample.n_distinct < plan.questions_needed:
                lines.append(f"  NOTE: {one.benchmark.name} has {one.sample.n_distinct:,} distinct questions in all.")
            if table:
                lines += early_lines(expected(one.sample.n, plan.router_counts, table))
    if as_json:
        print(json.dumps(plain({"run_dir": str(resolved.path), "failed": resolved.failed, "plans": told}), indent=1))
    else:
        print("\n".join(lines))
    return 1 if resolved.failed else 0


def _print_failed(failed: dict[str, str]) -> None:
    for name, why in failed.items():
        print(f"error: model {name} failed: {why}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run_command(main)
