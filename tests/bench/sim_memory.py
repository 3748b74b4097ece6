"""What the memory audit says of simulated models, in worlds of the calibration and in others.

    PYTHONPATH=tests python -m bench.sim_memory clean half tau_4 --references 5 --score-alone
    --models 60

The worlds are those of `audit.memory.worlds`, and OTHERS, where held-out items are guessed at
another rate. Per cent of models with the exact 95 % interval."""

import argparse
from collections import Counter

import numpy as np

from audit.judging.forms import LETTERS, Share
from audit.judging.world import World
from audit.memory.calibrate import decision_of
from audit.memory.worlds import WORLDS, MemoryDesign, simulate

_ABLE = {"accuracy": 0.85, "others": (0.55, 0.65), "guess": 0.25}
_WEAK = {"accuracy": 0.45, "others": (0.7, 0.8), "guess": 0.25}
OTHERS = {
    "sillier": World(
        **_ABLE, fresh_guess=0.45
    ),  # wrong options of held-out items are easier to rule out
    "sillier_like": World(guess=0.25, fresh_guess=0.45),
    "sillier_half": World(guess=0.25, fresh_guess=0.45, answers=0.5),
    "four_to_ten": World(
        guess=0.25, fresh_guess=0.10, fresh_options=10, fresh_harder=0.10
    ),  # as MMLU to MMLU-Pro
    "four_to_ten_abler": World(**_ABLE, fresh_guess=0.10, fresh_options=10, fresh_harder=0.10),
    "four_to_ten_weaker": World(**_WEAK, fresh_guess=0.10, fresh_options=10, fresh_harder=0.10),
    "four_to_ten_half": World(
        guess=0.25, fresh_guess=0.10, fresh_options=10, fresh_harder=0.10, answers=0.5
    ),
    "hidden_options_weaker": World(
        **_WEAK, fresh_guess=0.10, fresh_harder=0.10
    ),  # and the log does not say how many
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sim_memory", description=__doc__)
    parser.add_argument("worlds", nargs="+", choices=[*WORLDS, *OTHERS])
    parser.add_argument("--references", type=int, nargs="+", default=[5])
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--score-alone", action="store_true")
    arguments = parser.parse_args()
    print(
        "| world | R | found | cleared | cause unknown | no decision |\n|---|---|---|---|---|---|",
        flush=True,
    )
    for name in arguments.worlds:
        for references in arguments.references:
            design = MemoryDesign(1000, 500, references, score_alone=arguments.score_alone)
            rng, world = np.random.default_rng([9, references]), {**WORLDS, **OTHERS}[name]
            counts = Counter(
                LETTERS[decision_of(simulate(design, world, rng), rng).grade]
                for _ in range(arguments.models)
            )
            shares = [
                Share(sum(counts[symbol] for symbol in group), arguments.models)
                for group in ("FS", "C", "R", "O")
            ]
            print(f"| {name} | {references} | {' | '.join(map(str, shares))} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
