"""What a run would do, and the smallest cost that it could find."""

from __future__ import annotations

from audit.dry_run import planned_calls, reach, show_plan
from audit.plan_cost import PlannedCalls
from audit.resolve import ResolvedRun, resolve_run
from audit.statistics.wording_design import PLANNED_FLIPS, items_needed
from shouting.audit import SHOUTING
from shouting.config import ShoutingConfig, ShoutingThresholds


def resolve(config: ShoutingConfig) -> ResolvedRun:
    return resolve_run(SHOUTING, config)


def show(config: ShoutingConfig) -> int:
    run, t = resolve(config), ShoutingThresholds.from_mapping(config.verdict)
    needed = items_needed(t.effect_of_interest, 1, PLANNED_FLIPS, alpha=t.alpha, power=t.power)
    lines = lambda asked: [line for one in asked for line in one.planned.lines()]  # noqa: E731
    return show_plan(run, lambda asked: [*lines(asked), *reach(run, asked, needed)])


def calls_of(config: ShoutingConfig) -> list[PlannedCalls]:
    return planned_calls(resolve(config))
