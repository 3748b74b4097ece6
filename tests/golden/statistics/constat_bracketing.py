"""Strong models against weak references, on ConStat's published rewordings: what bracketing takes
away.

    PYTHONPATH=. python tests/golden/statistics/constat_bracketing.py [FOLDER with ConStat's tables]

The tables hold each public model's accuracy on a benchmark and on its rewording, with standard
errors, and no answers. So the test is rebuilt from these: a tested model of the strongest third,
five references of the weakest (or any), drawn 3,000 times. A model's drop has the error of its two
accuracies, and of two models' drops .4 of that is common. Per cent of draws called a drop beyond
reference by t with R - 1 degrees of freedom: in points and as a share; in log-odds too; and with
references that bracket. Nobody knows which public models remember ARC: the figure is no error rate.
What it shows is that the test called the strong models alike, and that with bracketing it does not.
"""

import csv
import sys
from pathlib import Path

import numpy as np
import scipy

from audit.perturb.design import PerturbThresholds
from audit.perturb.evidence import Bracket

TABLES = ("arc_rephrase", "gsm8k_rephrase", "hellaswag_rephrase", "mmlu_rephrase")
SEED, DRAWS, REFERENCES, COMMON = 42, 3000, 5, 0.4
GUESSING = {"gsm8k": 0.0}  # others: one of four


def called(path: Path, *, weak: bool, rng: np.random.Generator) -> tuple[float, float, float]:
    """Share of draws called beyond reference by points and share, by all three scales, and with
    bracketing as well. weak: the references are from the weakest third and the tested model is from
    the strongest."""
    with path.open(encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if "contamination-models" not in row["model"]]
    before, after, se_b, se_a = (
        np.array([float(r[k]) for r in rows])
        for k in ("score_model", "score_model_ref", "score_model_std", "score_model_ref_std")
    )
    chance = GUESSING.get(path.stem.split("_")[0], 0.25)
    order, third = np.argsort(after), len(rows) // 3
    margin = PerturbThresholds().bracket_margin
    hits = np.zeros((DRAWS, 3))
    for k in range(DRAWS):
        i = int(rng.choice(order[-third:] if weak else order))
        others = rng.choice(
            [j for j in (order[:third] if weak else order) if j != i], REFERENCES, replace=False
        )
        height = (after[i] - chance) / (after[others] - chance)
        odds = scipy.special.logit(before[others]) - scipy.special.logit(after[others])
        expected = (
            before[others] - after[others],
            (before[others] - after[others]) * height,
            scipy.special.expit(scipy.special.logit(after[i]) + odds) - after[i],
        )
        tested_variance = (se_b[i] ** 2 + se_a[i] ** 2) * (1 - COMMON)
        reference_variance = np.mean(se_b[others] ** 2 + se_a[others] ** 2) * (1 - COMMON)
        p = []
        for drops in expected:
            models = max(drops.var(ddof=1) - reference_variance, 0.0) * (1 + 1 / REFERENCES)
            se = np.sqrt(tested_variance + reference_variance / REFERENCES + models)
            p.append(
                scipy.special.stdtr(REFERENCES - 1, -(before[i] - after[i] - drops.mean()) / se)
            )
        bracket = Bracket(after[i], after[others].min(), after[others].max(), margin).holds
        hits[k] = max(p[:2]) <= 0.05, max(p) <= 0.05, max(p) <= 0.05 and bracket
    two, three, bracketed = hits.mean(axis=0).tolist()
    return two, three, bracketed


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("../shared/data/constat/tables")
    print(
        "| table | references | points and share | and log-odds | and bracketing |\n|---|---|---|---|---|"
    )
    for name in TABLES:
        for weak in (True, False):
            rng = np.random.default_rng([SEED, weak])
            shown = " | ".join(
                f"{100 * x:.1f}" for x in called(folder / f"{name}.csv", weak=weak, rng=rng)
            )
            print(f"| {name} | {'weakest third' if weak else 'any'} | {shown} |")


if __name__ == "__main__":
    main()
