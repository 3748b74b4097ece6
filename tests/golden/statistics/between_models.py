"""How much do public models differ? The scales of `audit.statistics.priors.PRIORS`, and the level
they give.

    PYTHONPATH=. python tests/golden/statistics/between_models.py [FOLDER with ConStat's tables]

First table, from ConStat's published accuracies: the spread, in points, of a public model's
difference (benchmark less comparison) from other public models', as observed, and without the
sampling error of its two accuracies (taken as independent, which takes too much away for rewordings
of the same items). It is robust (median absolute deviation), as some public models are
contaminated. Second table, normal draws: false positives and what is found, by `t` with R - 1
degrees of freedom and with the prior."""

import csv
import sys
from pathlib import Path

import numpy as np
import scipy

from audit.statistics.between_models import predictive
from audit.statistics.priors import TauPrior

SEED, DRAWS, ITEMS_SE = 42, 1500, 0.02
LEVEL = 0.05 / 6


def spreads(folder: Path) -> list[tuple[str, float, float]]:
    """(table, spread as observed, spread without sampling error), points."""
    results = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8") as lines:
            rows = [
                row for row in csv.DictReader(lines) if "contamination-models" not in row["model"]
            ]
        gaps = np.array([float(r["score_model"]) - float(r["score_model_ref"]) for r in rows])
        sampling = np.mean(
            [float(r["score_model_std"]) ** 2 + float(r["score_model_ref_std"]) ** 2 for r in rows]
        )
        observed = 1.4826 * float(np.median(np.abs(gaps - np.median(gaps))))
        results.append(
            (path.stem, 100 * observed, 100 * float(np.sqrt(max(observed**2 - sampling, 0.0))))
        )
    return results


def rates(
    references: int, tau: float, true: float, scale: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Share of models found by (t with R - 1 degrees of freedom, the prior)."""
    gaps = tau * rng.standard_normal((DRAWS, 1 + references)) + ITEMS_SE / np.sqrt(
        2
    ) * rng.standard_normal((DRAWS, 1 + references))
    items = ITEMS_SE * np.sqrt((1 + 1 / references) / 2)
    difference = true + gaps[:, 0] - gaps[:, 1:].mean(axis=1)
    spread = gaps[:, 1:].var(axis=1, ddof=1)
    sampling = ITEMS_SE**2 / 2
    se = np.sqrt(items**2 + np.maximum(spread - sampling, 0) * (1 + 1 / references))
    old = scipy.stats.t.sf(difference / se, references - 1) <= LEVEL
    prior = TauPrior(scale)
    new = [
        predictive(float(d), float(items), 400, float(s), sampling, references, prior).pvalue
        <= LEVEL
        for d, s in zip(difference, spread, strict=True)
    ]
    return float(old.mean()), float(np.mean(new))


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("../shared/data/constat/tables")
    print("| comparison | spread, points | without sampling error |\n|---|---|---|")
    for name, observed, true in spreads(folder):
        print(f"| {name} | {observed:.1f} | {true:.1f} |")
    print(
        "\n| scale | references | tau | false positives at .05 / 6: t, prior | +10 found | +15 found |"
    )
    print("|---|---|---|---|---|---|")
    for scale in (0.03, 0.035):
        for references in (3, 5, 8):
            for tau in (0.0, 0.02, 0.04):
                rng = np.random.default_rng([SEED, references])
                cells = [rates(references, tau, true, scale, rng) for true in (0.0, 0.10, 0.15)]
                shown = " | ".join(f"{100 * a:.1f}, {100 * b:.1f}" for a, b in cells)
                print(f"| {scale} | {references} | {100 * tau:.0f} | {shown} |")


if __name__ == "__main__":
    main()
