"""What a run would do, and how many questions a verdict needs."""

from audit.config.dry_run import Planned, planned_answers
from audit.config.resolve import resolve_run
from audit.judging.thresholds import Thresholds
from audit.statistics.wording_design import PLANNED_FLIPS, items_needed
from shouting.audit import SHOUTING
from shouting.config import ShoutingConfig


def planned(config: ShoutingConfig) -> Planned:
    t = Thresholds.from_mapping(config.verdict)
    needed = items_needed(t.effect_of_interest, 1, PLANNED_FLIPS, alpha=t.alpha, power=t.power)
    return planned_answers(resolve_run(SHOUTING, config), needed)
