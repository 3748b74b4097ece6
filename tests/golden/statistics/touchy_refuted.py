"""What it would cost to call a drop beyond reference only where touchiness is refuted: docs/perturb_calibration.md.

    PYTHONPATH=. python tests/golden/statistics/touchy_refuted.py [models]

Printed are per cent called beyond reference, and per cent for which `drop_profile` refutes a common fall of log-odds,
a touchy model's, too. Takes ten minutes of one core with 400 models.
"""

import sys

import numpy as np

from audit.perturb.design import PerturbThresholds
from audit.perturb.evidence import run_tests
from audit.perturb.worlds import OTHERS, UNHELD, WORLDS, PerturbDesign, simulate

LIMITS = PerturbThresholds()
DESIGNS = [PerturbDesign(1000, 3, 5), PerturbDesign(1000, 3, 8), PerturbDesign(3000, 3, 8)]
SHOWN = ("touchy_itself", "broken_unseen", "memorised", "memorised_half")


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
                found.append((now, now and tests.profile is not None and tests.profile.refutes_touchy))
            now, both = 100 * np.mean(found, axis=0)
            print(f"{design.n} items, {design.references} references, {name}: {now:.1f} -> {both:.1f}", flush=True)


if __name__ == "__main__":
    main()
