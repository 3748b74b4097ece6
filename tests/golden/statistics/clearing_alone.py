"""The test that clears in the perturbation audit by itself, at the smallest effect that matters:
docs/findings/perturb_calibration.md.

    PYTHONPATH=. python tests/golden/statistics/clearing_alone.py

Schuirmann's test of models that lose exactly 5 points, without the findings that stand before it in
the verdict: as many as it may clear are 5 %. 1,000 items, no references, 3,000 models a world, seed
77 (a standard error of .4)."""

import numpy as np

from audit.judging.simulated import rate, shown, table_text
from audit.perturb.design import PerturbThresholds
from audit.perturb.worlds import WORLDS, PerturbDesign, simulate
from audit.statistics.estimate import mean_of
from audit.statistics.wording_drop import equivalence, item_means

SEED, MODELS = 77, 3000
NAMES = ("memorised_5", "harder", "memorised_5_groups")
DESIGNS = (
    PerturbDesign(1000, 3, 0),
    PerturbDesign(1000, 3, 0, replicates=2),
    PerturbDesign(1000, 9, 0),
)


def refuted(design: PerturbDesign, name: str) -> dict[str, float | None]:
    """Share of models of a world whose drop the data say to be below the smallest effect that
    matters."""
    thresholds, rng = PerturbThresholds(), np.random.default_rng(SEED)
    refutations = []
    for _ in range(MODELS):
        cell = simulate(design, WORLDS[name], rng)
        original, variants = item_means(*cell.tested.pair)
        test = equivalence(
            mean_of(original - variants, cell.cluster), thresholds.effect_of_interest
        )
        refutations.append(test.p_no_larger <= thresholds.alpha)
    return rate(name, np.array(refutations, dtype=float))


def main() -> None:
    rows = [
        [str(d.variants), str(d.replicates), *(shown(refuted(d, name), name) for name in NAMES)]
        for d in DESIGNS
    ]
    print(
        table_text(
            ["variants", "runs of the original", *(name.replace("_", " ") for name in NAMES)], rows
        )
    )


if __name__ == "__main__":
    main()
