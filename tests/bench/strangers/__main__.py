"""What the judges say in worlds of somebody who did not write them, and how often that is false.

    PYTHONPATH=tests python -m bench.strangers --audits sweep perturb validity --models 40

`Stranger.right` is stated before a model is drawn. Per cent of models with the exact 95 % interval;
the last column has the rate of false verdicts (`truth.FALSE`)."""

import argparse
import time
from collections import Counter

import numpy as np

from audit.judging.forms import Share
from audit.judging.ladder import Grade
from bench.strangers import perturb, sweep, validity
from bench.strangers.truth import FALSE

WORLDS = {"sweep": sweep.WORLDS, "perturb": perturb.WORLDS, "validity": validity.WORLDS}
SHOWN = (Grade.FOUND_STRONG, Grade.FOUND_SUGGESTIVE, Grade.CAUSE_UNKNOWN, Grade.CLEARED)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.strangers", description=__doc__)
    parser.add_argument("--audits", nargs="+", choices=WORLDS, default=[*WORLDS])
    parser.add_argument("--worlds", nargs="+", default=[])
    parser.add_argument("--models", type=int, default=40)
    asked = parser.parse_args()
    head = ["audit, world", "right", *(str(grade) for grade in SHOWN), "other", "false", "CPU s"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for audit in asked.audits:
        for name, world in WORLDS[audit].items():
            if asked.worlds and name not in asked.worlds:
                continue
            began = time.process_time()
            rng = np.random.default_rng([2046, *name.encode()])
            counts = Counter(world.judge(rng) for _ in range(asked.models))
            false = sum(counts[grade] for grade in FALSE[world.right])
            shown = [str(Share(counts[grade], asked.models)) for grade in SHOWN]
            other = asked.models - sum(counts[grade] for grade in SHOWN)
            row = [f"{audit}, {name}", world.right, *shown, other, Share(false, asked.models)]
            row.append(f"{time.process_time() - began:.1f}")
            print(f"| {' | '.join(map(str, row))} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
