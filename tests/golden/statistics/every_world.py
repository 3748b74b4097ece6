"""D in each of the validity audit's sixteen worlds: a table of
docs/findings/validity_calibration.md.

    PYTHONPATH=. python tests/golden/statistics/every_world.py

`audit calibrate audit=validity` measures with many models the world that it found to be the worst
with few. Here all have MODELS, and the largest rate of the sixteen is printed: as a maximum it lies
above its own mean, where several are near to it."""

import numpy as np

from audit.judging.simulated import table_text
from audit.statistics.selectivity import selectivity
from audit.validity.calibrate import ALPHA_EACH, WORLDS, simulate

SEED, MODELS = 42, 4000
DESIGNS = (
    (60, 0.1),
    (200, 0.03),
    (200, 0.1),
    (200, 0.25),
    (200, 0.5),
)  # independent items, share that changes


def largest(clusters: int, change: float, models: int) -> tuple[float, float]:
    """(selective, non-selective): the largest share of any world, 0-1."""
    shares = []
    for k, world in enumerate(WORLDS):
        rng = np.random.default_rng([SEED, clusters, round(1000 * change), k])
        place = np.repeat(np.arange(clusters), world.per_cluster)
        tests = [selectivity(*simulate(world, clusters, change, rng), place) for _ in range(models)]
        shares.append(
            np.mean([(t.above_p <= ALPHA_EACH, t.below_p <= ALPHA_EACH) for t in tests], axis=0)
        )
    above, below = np.max(shares, axis=0)
    return float(above), float(below)


def main() -> None:
    rows = []
    for clusters, change in DESIGNS:
        shares = largest(clusters, change, MODELS)
        rows.append(
            [f"{clusters}, {100 * change:g} %", *(f"{100 * share:.1f} %" for share in shares)]
        )
    head = [
        "independent items, surface edits change",
        "selective, at most",
        "non-selective, at most",
    ]
    print(table_text(head, rows))


if __name__ == "__main__":
    main()
