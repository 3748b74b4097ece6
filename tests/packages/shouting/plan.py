"""What a run would do, and the smallest cost that it could find."""

from audit.dry_run import Planned, reach
from audit.resolve import ResolvedRun, resolve_run
from audit.statistics.wording_design import PLANNED_FLIPS, items_needed
from shouting.audit import SHOUTING
from shouting.config import ShoutingConfig, ShoutingThresholds


def resolve(config: ShoutingConfig) -> ResolvedRun:
    return resolve_run(SHOUTING, config)


def planned(config: ShoutingConfig) -> Planned:
    run, t = resolve(config), ShoutingThresholds.from_mapping(config.verdict)
    needed = items_needed(t.effect_of_interest, 1, PLANNED_FLIPS, alpha=t.alpha, power=t.power)
    lines = lambda asked: [line for one in asked for line in one.planned.lines()]  # noqa: E731
    return Planned(run, lambda asked: [*lines(asked), *reach(run, asked, needed)])
