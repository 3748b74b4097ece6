"""Why t has R - 1 degrees of freedom in `audit.statistics.set_difference`: the figures of docs/memory.md.

    PYTHONPATH=. python tests/golden/statistics/few_references.py

Gaps of a model and of R references, all normal: each has an error of its own from the items (standard deviation 1,
known on DF_ITEMS degrees of freedom) and a true part that differs between models by tau = 2. tau^2 is estimated as in
`set_difference`, by the references' spread beyond the items', cut at 0. Printed: how often it is estimated as 0, and
the share of one-sided tests that reject, at .05 / 6 and at .05, by either choice of the degrees of freedom.
"""

import numpy as np
import scipy

SEED, DRAWS = 42, 400_000
TAU, DF_ITEMS = 2.0, 400.0
LEVELS = (0.05 / 6, 0.05)


def rejected(references: int, rng: np.random.Generator) -> tuple[float, dict[str, list[float]]]:
    """(share with tau estimated as 0, {choice: share that rejects at each of LEVELS})."""
    gaps = np.hypot(1.0, TAU) * rng.standard_normal((DRAWS, 1 + references))
    own, others = gaps[:, 0], gaps[:, 1:]
    errors = 1 + 1 / references
    models = np.maximum(others.var(axis=1, ddof=1) - 1, 0.0) * errors
    t = (own - others.mean(axis=1)) / np.sqrt(errors + models)
    satterthwaite = (errors + models) ** 2 / (errors**2 / DF_ITEMS + models**2 / (references - 1))
    choices = {"Satterthwaite": satterthwaite, "R - 1": np.full(DRAWS, references - 1.0)}
    found = {
        name: [float(np.mean(scipy.stats.t.sf(t, df) <= level)) for level in LEVELS] for name, df in choices.items()
    }
    return float(np.mean(models == 0)), found


def main() -> None:
    print("| references | tau estimated as 0, % | degrees of freedom | rejected at .05 / 6, % | at .05, % |")
    print("|---|---|---|---|---|")
    for references in (3, 5):
        none, found = rejected(references, np.random.default_rng([SEED, references]))
        for name, (small, large) in found.items():
            print(f"| {references} | {100 * none:.1f} | {name} | {100 * small:.2f} | {100 * large:.1f} |")


if __name__ == "__main__":
    main()
