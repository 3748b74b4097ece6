"""Which grade the perturbation audit gives simulated models, in worlds of its calibration.

    PYTHONPATH=tests python -m bench.sim_perturb clean memorised memorised_half --references 5
    --models 60

Per cent of models with the exact 95 % interval. The smallest effect that matters is 5 points; 1,000
items, 3 variants."""

import argparse
from collections import Counter

import numpy as np

from audit.judging.forms import Share
from audit.judging.ladder import Grade
from audit.judging.world import World
from audit.perturb.calibrate import EVERY, decision_of
from audit.perturb.worlds import PerturbDesign, simulate

_ABLE = {"logit": True, "accuracy": 0.85, "others": (0.55, 0.75)}
ATTACKS = {  # worlds that the calibration does not have; all but the last two are of models without memory
    "specific_abler": World(**_ABLE, harder=0.08, specific=2.0),
    "broken_and_unread": World(
        logit=True, broken=0.03, broken_where="easy", broken_unseen=True, unparsed=0.04
    ),
    "uneven_softer": World(logit=True, harder=-0.05, uneven=0.03),
    "touchy_weaker": World(
        logit=True, accuracy=0.55, others=(0.60, 0.80), harder_alone=0.03, harder=0.05
    ),
    "memorised_softer": World(logit=True, harder=-0.10, wording=0.3),
    "half_groups": World(logit=True, harder=0.05, wording=0.5, group=50),
}
SHOWN = (Grade.FOUND_STRONG, Grade.FOUND_SUGGESTIVE, Grade.CAUSE_UNKNOWN, Grade.CLEARED)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sim_perturb", description=__doc__)
    parser.add_argument("worlds", nargs="+", choices=[*EVERY, *ATTACKS])
    parser.add_argument("--references", type=int, nargs="+", default=[5])
    parser.add_argument("--models", type=int, default=40)
    arguments = parser.parse_args()
    print(
        "| world | R | strong | suggestive | cause unknown | cleared |\n|---|---|---|---|---|---|",
        flush=True,
    )
    for name in arguments.worlds:
        for references in arguments.references:
            rng = np.random.default_rng([9, references])
            design = PerturbDesign(1000, 3, references)
            world = {**EVERY, **ATTACKS}[name]
            counts = Counter(
                decision_of(simulate(design, world, rng), rng).grade
                for _ in range(arguments.models)
            )
            shares = [str(Share(counts[grade], arguments.models)) for grade in SHOWN]
            print(f"| {name} | {references} | {' | '.join(shares)} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
