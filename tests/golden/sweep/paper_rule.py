"""Rates of the paper's rule (any gain above zero) on clean models, by the cost of noise:
docs/findings/calibration.md.

    PYTHONPATH=. python tests/golden/sweep/paper_rule.py

Models of `audit.sweep.simulation`: 100 questions, nine independent settings, one clean run,
discordance 0.2; 2,000 of each cost, seed 42."""

import numpy as np

from audit.judging.simulated import rate, shown, table_text
from audit.judging.world import World
from audit.sweep.record import sweep_of
from audit.sweep.simulation import Design, simulate

SEED, MODELS = 42, 2000
COSTS = (0, 1, 2, 3, 5, 10)  # points
DESIGN = Design(100, 9, "independent", direct=False, ensemble=False)


def fired(cost: float, models: int, rng: np.random.Generator) -> dict[str, float | None]:
    """Return two rates for clean models that noise costs `cost` (0-1): the share of settings with a
    violation, and the share of models with at least one violation."""
    gains = []
    for _ in range(models):
        sweep = sweep_of(simulate(DESIGN, World(gain=-cost), rng).cell)
        gains.append(np.mean(sweep.noisy - sweep.clean, axis=1) > 0)
    settings = np.array(gains, dtype=float)
    return rate("settings", settings.mean(axis=1)) | rate("models", settings.max(axis=1))


def main() -> None:
    rows = []
    for cost in COSTS:
        rates = fired(cost / 100, MODELS, np.random.default_rng([SEED, cost]))
        rows.append([str(cost), shown(rates, "settings"), shown(rates, "models")])
    print(
        table_text(
            [
                "points that noise costs",
                "settings with a violation, %",
                "clean models with at least one violation, %",
            ],
            rows,
        )
    )


if __name__ == "__main__":
    main()
