"""`python -m audit.plan <the sweep's overrides>`: what a sweep would do, and whether it could find anything.

Prints the number of calls, an estimate of tokens, the run directory and the minimum detectable gain. Starts nothing.
"""

from __future__ import annotations

import sys

import hydra
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from audit.command_line import check_composed, start
from audit.config import CONF_DIR, protocol_of
from audit.errors import AuditError
from audit.exits import run_command
from audit.sweep.config import SweepConfig, from_hydra, register

register()

_SHOWN_QUESTIONS = 50


@hydra.main(version_base="1.3", config_path=str(CONF_DIR), config_name="sweep")
def _composed(cfg: DictConfig) -> None:
    """Hydra's entry."""
    run_command(lambda: run_config(cfg))


def main() -> None:
    """The command: what it refuses, then Hydra, then the plan."""
    start(_composed, SweepConfig)


def run_config(cfg: DictConfig) -> int:
    """Check and print. Errors that teach go to stderr without a traceback."""
    try:
        check_composed()
        return _print_plan(from_hydra(cfg))
    except (AuditError, OmegaConfBaseException) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1


def _print_plan(config: SweepConfig) -> int:
    from audit.calibrate_early import expected, load_table
    from audit.resolve import resolve_run
    from audit.sweep.audit import SWEEP
    from audit.sweep.plan import describe, early_lines, make_plan
    from audit.verdict.thresholds import Thresholds

    resolved = resolve_run(SWEEP, config)
    design = resolved.design
    thresholds = Thresholds.from_mapping(config.verdict)
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


if __name__ == "__main__":
    run_command(main)
