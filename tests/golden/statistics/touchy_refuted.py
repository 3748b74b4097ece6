"""What it would cost to call a drop beyond reference only where touchiness is refuted: docs/perturb_calibration.md.

    PYTHONPATH=. python tests/golden/statistics/touchy_refuted.py [models]

A touchy model whose log-odds fall by one amount turns right into wrong exp(amount) times as often as wrong into right,
item by item. So its drop is in proportion to how often an item is wrong as published and right as reworded. The rule
tests that a drop lies on harder items than that, by the hardness that `drop_profile` uses. Printed are per cent called
beyond reference by today's rule, and by it and this one. Takes ten minutes of one core with 400 models.
"""

import sys

import numpy as np

from audit.perturb.design import PerturbThresholds
from audit.perturb.evidence import run_tests
from audit.perturb.record import PerturbCell
from audit.perturb.worlds import OTHERS, UNHELD, WORLDS, PerturbDesign, simulate
from audit.statistics.values import average
from audit.statistics.wording_drop import above_pvalue, item_means, mean_of

LIMITS = PerturbThresholds()
DESIGNS = [PerturbDesign(1000, 3, 5), PerturbDesign(1000, 3, 8), PerturbDesign(3000, 3, 8)]
SHOWN = ("touchy_itself", "broken_unseen", "memorised", "memorised_half")


def touchy_pvalue(cell: PerturbCell) -> float:
    """One-sided, for a drop beyond the references on harder items than a common fall of log-odds has."""
    references = [one.pair for one in cell.references]
    own, reworded = item_means(*cell.tested.pair)
    drops = np.stack([np.subtract(*item_means(*pair)) for pair in references])
    wrong = np.stack([1 - average(np.concatenate(pair)) for pair in references])
    hard = np.stack([average(np.delete(wrong, k, axis=0)) for k in range(len(references))])
    excess, shape = average(own - reworded - drops), (1 - own) * reworded
    hardness = average(hard)
    size = np.nanmean(excess) / np.nanmean(shape)
    centre = np.nanmean(hardness * shape) / np.nanmean(shape)
    lies = average((hard - centre) * (own - reworded - drops - size * shape))
    return above_pvalue(mean_of(lies, cell.cluster))


def main() -> None:
    models = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    worlds = {**WORLDS, **OTHERS, **UNHELD}
    for design in DESIGNS:
        for name in SHOWN:
            found = []
            for k in range(models):
                rng = np.random.default_rng([7, design.n, design.references, k])
                cell = simulate(design, worlds[name], rng)
                tests = run_tests(cell, LIMITS, rng=rng)
                now = tests.beyond_p is not None and tests.beyond_p <= LIMITS.alpha
                found.append((now, now and touchy_pvalue(cell) <= LIMITS.alpha))
            now, both = 100 * np.mean(found, axis=0)
            print(f"{design.n} items, {design.references} references, {name}: {now:.1f} -> {both:.1f}", flush=True)


if __name__ == "__main__":
    main()
