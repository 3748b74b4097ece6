"""`python -m audit.plan <the sweep's overrides>`: what a sweep would do, and whether it could find anything.

Prints the number of calls, an estimate of tokens, hours and money (`conf/cost`), the run directory, the minimum
detectable gain and the questions that the effect of interest needs; with `--json` for programs. Starts nothing.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

import hydra
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from audit.command_line import check_composed, start
from audit.config import CONF_DIR, protocol_of
from audit.errors import AuditError
from audit.exits import run_command
from audit.shards.manifest import plain
from audit.sweep.config import SweepConfig, from_hydra, register, worker_of

register()

_SHOWN_QUESTIONS = 50


def main() -> None:
    """The command: what it refuses, then Hydra, then the plan. `--json` anywhere among the overrides."""
    as_json = "--json" in sys.argv[1:]
    sys.argv[1:] = [word for word in sys.argv[1:] if word != "--json"]

    @hydra.main(version_base="1.3", config_path=str(CONF_DIR), config_name="sweep")
    def composed(cfg: DictConfig) -> None:
        """Hydra's entry."""
        run_command(lambda: run_config(cfg, as_json))

    start(composed, SweepConfig)


def run_config(cfg: DictConfig, as_json: bool) -> int:
    """Check and print. Errors that teach go to stderr without a traceback."""
    try:
        check_composed()
        return _print_plan(from_hydra(cfg), as_json)
    except (AuditError, OmegaConfBaseException) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1


def _print_plan(config: SweepConfig, as_json: bool) -> int:
    from audit.calibrate_early import expected, load_table
    from audit.plan_cost import planned_cost
    from audit.resolve import resolve_run
    from audit.sweep.audit import SWEEP
    from audit.sweep.plan import describe, early_lines, make_plan
    from audit.verdict.thresholds import Thresholds

    resolved = resolve_run(SWEEP, config)
    design = resolved.design
    thresholds = Thresholds.from_mapping(config.verdict)
    panel = len(config.model) * len(resolved.samples)
    groups = {one.benchmark.name: len({q.group for q in one.questions()}) for one in resolved.samples}
    table = load_table()
    told: list[dict[str, Any]] = []
    lines = [f"run directory  {resolved.path}{'  (exists: it would be resumed)' if resolved.path.exists() else ''}"]
    lines += [f"{name}: cannot run: {why}" for name, why in resolved.failed.items()]
    for name, model in config.model.items():
        for one in resolved.samples:
            some = [q for q, _ in zip(one.questions(), range(_SHOWN_QUESTIONS), strict=False)]
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


if __name__ == "__main__":
    run_command(main)
