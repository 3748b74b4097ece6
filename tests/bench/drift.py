"""Held-out items that are harder for every model, as newer problems are: what is found, cleared,
and covered?

    PYTHONPATH=tests python -m bench.drift [--models 50] [--references 5] [--only WORD]

Items have skewed difficulties, a discrimination of their own and may be guessed (golden/statistics'
score_without_memory.py makes them), so that no world is the null hypothesis of the audit's own
tests. The held-out set costs the average reference 0, 5, 10 or 20 points: as many points for every
model, or as many logits. Models suit the two sets by 2 points (standard deviation) more or less.
`leaked`: two of five references learnt half of the exam too. The whole decision of a run with
scores alone is counted, of 1,000 items and 500 held-out ones."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "golden" / "statistics"))
import score_without_memory as made
from external.judged import FOUND, Set, panel, rate

DRIFTS = (0.0, 0.05, 0.10, 0.20)
TAU = 0.02
SHARES = {"clean": 0.0, "15 %": 0.15, "half": 0.5}
MODELS = {"like": (0.7, 0.7), "abler": (0.75, 0.65), "weaker": (0.62, 0.7)}  # tested, references
VERDICTS = (FOUND, "withheld", "memory_cause_unknown", "nothing_seen_by_this_instrument")
HEAD = "| world | found | withheld | cause unknown | cleared | score covers | width | upper limit alone |"


def world(
    drift: float, form: str, models: str, learnt: float, guess: float, references: int
) -> made.World:
    """Return a world that costs the average reference `drift` points, in points or in logits alike
    for all."""
    tested, others = MODELS[models]
    same = made.World(tested, others, references, learnt, uneven=TAU, guess=guess)
    if form == "points":
        return replace(same, harder=drift)
    harder = made.located(same, others, same.spread) - made.located(
        same, others - drift, same.spread
    )
    return replace(same, logits=harder)


def judged(scenario: made.World, centre: tuple, seed: list[int], leaked: int = 0) -> tuple:
    """Return (verdict, whether the score without memory holds the truth, its width, whether it is
    an upper limit)."""
    rng = np.random.default_rng(seed)
    truth, a, b, _ = made.simulate(rng, scenario, centre)
    for k in range(1, 1 + leaked):
        a[k, rng.random(made.N) < 0.5] = 1
    names = [f"{maker} {k}" for k, maker in zip(range(len(a)), "abcdefghijklmnopq", strict=False)]
    options = round(1 / scenario.guess) if scenario.guess else 0
    sides = [Set(dict(zip(names, x, strict=True)), np.full(x.shape[1], options)) for x in (a, b)]
    (result,) = panel(*sides, {names[0]: names[1:]}, seed=seed[-1])
    estimate = result.without.estimate
    if estimate is None:
        return str(result.decision.verdict), np.nan, np.nan, np.nan
    limits = estimate.without
    return (
        str(result.decision.verdict),
        limits.low <= truth <= limits.high,
        limits.high - limits.low,
        estimate.at_most,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--references", type=int, default=5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print(HEAD + "\n|---|---|---|---|---|---|---|---|")
    cases = [
        (d, f, m, s, g, 0)
        for d in DRIFTS
        for f in ("points", "logits")
        for m in MODELS
        for s in SHARES
        for g in (0.0, 0.25)
        if not (d == 0 and f == "logits")
    ]
    cases += [(0.0, "points", "like", s, 0.0, 2) for s in SHARES]
    for place, (drift, form, models, share, guess, leaked) in enumerate(cases):
        name = f"{100 * drift:.0f} {form}, {models}, {share}, guess {guess}" + (
            f", {leaked} leaked" if leaked else ""
        )
        if not all(word in name for word in options.only.split(";")):
            continue
        scenario = world(drift, form, models, SHARES[share], guess, options.references)
        centre = made.centre_of(scenario)
        rows = [judged(scenario, centre, [45, place, k], leaked) for k in range(options.models)]
        verdicts = [row[0] for row in rows]
        counts = [
            verdicts.count(v)
            for v in (FOUND, "withheld", "memory_cause_unknown", "nothing_seen_by_this_instrument")
        ]
        numbers = np.array([row[1:] for row in rows], dtype=float)
        covers, known = numbers[:, 0], int(np.sum(~np.isnan(numbers[:, 0])))
        coverage = rate(int(np.nansum(covers)), known) if known else "-"
        width, upper = (100 * np.nanmean(numbers[:, k]) if known else np.nan for k in (1, 2))
        shown = " | ".join(f"{count} of {len(rows)}" for count in counts)
        print(f"| {name} | {shown} | {coverage} | {width:.1f} | {upper:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
