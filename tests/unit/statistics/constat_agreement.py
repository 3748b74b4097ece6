"""How well `performance_curve` agrees with ConStat's published tables, from the aggregate figures
that they hold.

    PYTHONPATH=. python tests/unit/statistics/constat_agreement.py ../shared/data/constat/tables 500

The tables give each model's two accuracies with standard errors, not its answers. Items are
therefore resampled as normal draws with these errors, and the errors of the models of one draw are
correlated (they met the same items); the correlation, which is not published, is set to .4 for
every table. The authors' reference models are the first twenty of each table (the list is in their
program); a tested model is not its own reference."""

import csv
import sys
from pathlib import Path

import numpy as np

from audit.statistics.performance_curve import curve_test

REFERENCES = 20
ITEM_CORRELATION = 0.4
GUESSING = {"gsm8k": 0.0, "arc": 0.25, "mmlu": 0.25, "hellaswag": 0.25}
GUESSING_REFERENCE = {"gsm8k_reference": 0.25, "arc_reference": 0.25, "hellaswag_reference": 0.0}


def agreement(table, rows, n_draws, seed=0):
    """Share of equal decisions at p < .05, and how far deltas and p-values lie apart."""
    rng = np.random.default_rng(seed)
    names = [r["model"] for r in rows]
    y, x, y_se, x_se = (
        np.array([float(r[k]) for r in rows])
        for k in ("score_model", "score_model_ref", "score_model_std", "score_model_ref_std")
    )
    guess = GUESSING[table.split("_")[0]]
    anchor = (guess, GUESSING_REFERENCE.get(table, guess))
    results = []
    for i in range(len(rows)):
        models = [i, *(j for j in range(REFERENCES) if names[j] != names[i])]

        def drawn(value, se, models=models):
            shared, specific = (
                rng.standard_normal((n_draws + 1, 1)),
                rng.standard_normal((n_draws + 1, len(models))),
            )
            noise = np.sqrt(ITEM_CORRELATION) * shared + np.sqrt(1 - ITEM_CORRELATION) * specific
            noise[0] = 0
            return np.clip(value[models] + se[models] * noise, 0, 1)

        items = tuple(
            max(int(v * (1 - v) / s**2), 1) if s > 0 else 1000
            for v, s in ((y[i], y_se[i]), (x[i], x_se[i]))
        )
        results.append(
            curve_test(drawn(y, y_se), drawn(x, x_se), anchor=anchor, anchor_items=items, rng=rng)
        )
    p, delta = np.array([r.pvalue for r in results]), np.array([r.delta for r in results])
    published_p, published_delta = (
        np.array([float(r[k]) for r in rows]) for k in ("p_value", "delta")
    )
    return {
        "models": len(rows),
        "decisions": float(np.mean((p < 0.05) == (published_p < 0.05))),
        "flagged": int(np.sum(p < 0.05)),
        "published_flagged": int(np.sum(published_p < 0.05)),
        "delta_correlation": float(np.corrcoef(delta, published_delta)[0, 1]),
        "median_delta_difference": float(np.median(np.abs(delta - published_delta))),
        "median_p_difference": float(np.median(np.abs(p - published_p))),
        "p_differences_90": float(np.quantile(np.abs(p - published_p), 0.9)),
    }


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).glob("*.csv")):
        with path.open() as handle:
            figures = agreement(path.stem, list(csv.DictReader(handle)), int(sys.argv[2]))
        print(path.stem, " ".join(f"{k}={v:.4g}" for k, v in figures.items()), flush=True)
