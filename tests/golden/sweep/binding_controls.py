"""How often p of an excess is at most .05 where another control binds at each r: two orders of
correcting.

    PYTHONPATH=. python tests/golden/sweep/binding_controls.py        # 1,600 models, some four minutes of one core

The calibration's world of that name, without run variance and the verdict's further conditions.
Before (B33): corrected over r within each control, then the largest over the controls. Now: the
largest first, then Holm over r."""

from functools import reduce

import numpy as np

from audit.sweep.evidence import _at, measure
from audit.sweep.simulation import WORLDS, simulate

MODELS, SEED, ALPHA = 1_600, 11, 0.05


def main() -> None:
    design, world = next(
        (d, w) for name, d, w in WORLDS if name == "another control binds at each r"
    )
    before = now = 0
    for k in range(MODELS):
        rng = np.random.default_rng([SEED, k])
        measured = measure(simulate(design, world, rng).cell, rng=rng, n_resamples=499)
        routers = measured.clean.routers
        within = reduce(
            np.fmax, [_at(c, c.adjusted, routers) for c in measured.plain.comparisons()]
        )
        before += bool((within <= ALPHA).any())
        now += bool((measured.plain.adjusted(routers) <= ALPHA).any())
    print(
        f"{MODELS} models: within each control {before / MODELS:.1%}, after the controls {now / MODELS:.1%}"
    )


if __name__ == "__main__":
    main()
