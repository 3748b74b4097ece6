"""Are the items that are named really from memory, and how many are named?

    PYTHONPATH=. python tests/golden/statistics/items_from_memory.py      # docs/understand/score_without_memory.md

The worlds of score_without_memory.py, with likelihoods: of an item's text a part is common to all
models, a part each model's own (t with 5 degrees of freedom, so not normal). What was learnt is
likelier to the tested model by so many standard deviations of what it has beyond its references.
Uneven: models suit the two sets differently, by 2 points and a tenth of a spread."""

import sys

import numpy as np
from score_without_memory import M, N, World, centre_of, simulate

from audit.statistics.without_memory import from_memory

_SD = 0.7  # of 0.5 t with 5 degrees of freedom, less the mean of five such

WORLDS = {
    "clean": (World(), 0.0),
    "clean, uneven": (World(uneven=0.02), 0.0),
    "clean, held-out items' spread .3, .85 against .60": (World(0.85, 0.6, held_out=0.3), 0.0),
    "15 % learnt, answers alone": (World(knows=0.15), None),
    "50 % learnt, answers alone": (World(knows=0.5), None),
    "50 % learnt, answers alone, R=8": (World(knows=0.5, references=8), None),
    "15 % learnt, text +2": (World(knows=0.15), 2.0),
    "15 % learnt, text +2, uneven": (World(knows=0.15, uneven=0.02), 2.0),
    "30 % learnt, text +2": (World(knows=0.3), 2.0),
    "15 % learnt, text +4": (World(knows=0.15), 4.0),
}


def likelihoods(rng, world, learnt, gain):
    """(published, held-out) of each model."""
    common = rng.standard_normal(N), rng.standard_normal(M)
    pairs = []
    for k in range(1 + world.references):
        sides = [side + 0.5 * rng.standard_t(5, side.size) for side in common]
        sides[0] = (
            sides[0]
            + 5 * world.uneven * rng.standard_normal()
            + (_SD * gain * learnt if k == 0 else 0)
        )
        pairs.append((sides[0], sides[1]))
    return pairs


def rates(rng, world, gain, times):
    """Per cent: false of the named, a hundredth of how many are named, named of the learnt, false
    of the first ten."""
    centre, rows = centre_of(world), []
    for _ in range(times):
        _, a, b, learnt = simulate(rng, world, centre)
        texts = () if gain is None else likelihoods(rng, world, learnt, gain)
        result = from_memory((a[0], b[0]), list(zip(a[1:], b[1:], strict=True)), texts)
        named, ten = result.named, result.order[:10]
        false = np.sum(named & ~learnt) / max(named.sum(), 1)
        rows.append(
            [
                false,
                named.sum() / 100,
                np.sum(named & learnt) / max(learnt.sum(), 1),
                np.mean(~learnt[ten]),
            ]
        )
    return 100 * np.array(rows)


def main(times):
    print(
        "| world | false discoveries, % | items named | of what was learnt, % | of the first ten false, % |"
    )
    print("|---|---|---|---|---|")
    for k, (name, (world, gain)) in enumerate(WORLDS.items()):
        rows = rates(np.random.default_rng([23, k]), world, gain, times)
        mean, se = rows.mean(axis=0), rows[:, 0].std() / np.sqrt(times)
        print(
            f"| {name} | {mean[0]:.1f} ± {se:.1f} | {mean[1]:.1f} | {mean[2]:.1f} | {mean[3]:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
