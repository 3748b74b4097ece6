"""The score without memory of models that were contaminated on purpose, against what they score
where they were not.

    PYTHONPATH=. python tests/golden/statistics/constat_without_memory.py [FOLDER with ConStat's
    tables] [R] [DRAWS]

ConStat's authors fine-tuned models on half of a benchmark and published their accuracy on the other
half (`no_cont`): the truth. Models count that the authors call really contaminated: a score above
that and above .3 (eight of MMLU's broke in training and guess). Held-out items are their synthetic
ones, references R random public models (5, of 40 draws).

The tables have accuracies, no answers. So this checks what identifies the number (do held-out items
and references tell it?), the prior and the hull of the scales, not the fit to answers: the errors
are binomial, of models taken as independent, and those of ability take both sets' difficulties as
equally spread (1.5 logits). The truth is measured on 170 to 1,000 items, which is 1.5 to 3.8 points
of the RMSE; the second cover adds this error."""

import csv
import sys
from functools import partial
from pathlib import Path

import numpy as np
import scipy
from scipy.special import expit

from audit.statistics.between_models import predictive
from audit.statistics.priors import PRIORS

REFERENCES, DRAWS, SEED = 5, 40, 22
CHANCES = {"arc": 0.25, "gsm8k": 0.0, "hellaswag": 0.25, "mmlu": 0.25}  # of a guess
EXAMS = tuple(CHANCES)


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(31)
_ABILITIES = np.linspace(-15, 15, 6001)
_ACCURACIES = expit(_ABILITIES[:, None] - 1.5 * _NODES) @ _WEIGHTS / _WEIGHTS.sum()


def to_ability(accuracy, chance):
    return np.interp((accuracy - chance) / (1 - chance), _ACCURACIES, _ABILITIES)


def to_accuracy(ability, chance):
    return chance + (1 - chance) * np.interp(ability, _ABILITIES, _ACCURACIES)


def scales_of(chance):
    """(to the scale, back, least accuracy) of points, of ability, and of ability where all
    guess."""
    maps = [(lambda p: p, lambda p: p, 0.005)]
    for c in (0.0, chance) if chance else (0.0,):
        maps.append((partial(to_ability, chance=c), partial(to_accuracy, chance=c), c + 0.005))
    return maps


def rows_of(path):
    """(planted, public): arrays (models, 6): score, its error, score on the other set, its error,
    truth, its error."""
    columns = (
        "score_model",
        "score_model_std",
        "score_model_ref",
        "score_model_ref_std",
        "no_cont",
        "no_cont_std",
    )
    with path.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    sides = [
        [r for r in rows if ("contamination-models" in r["model"]) == planted]
        for planted in (True, False)
    ]
    return [np.array([[float(r[c] or "nan") for c in columns] for r in side]) for side in sides]


def without_prior(difference, se, spread, sampling, references):
    """Limits by t with R - 1 degrees of freedom: the references alone tell how models differ."""
    error = np.sqrt(se**2 + max(spread - sampling, 0) * (1 + 1 / references))
    half = scipy.stats.t.ppf(0.975, references - 1) * error
    return difference - half, difference + half


def scales(tested, references, chance):
    """(estimate, low, high) by points, by ability, of all scales, and of all without a prior."""
    shrunk, plain = [], []
    for to, back, least in scales_of(chance):
        gaps, variances = [], []
        for s, e, s_ref, e_ref, *_ in (tested, *references):
            a, b = (np.clip(x, least, 0.995) for x in (s, s_ref))
            slopes = [(to(x + 1e-4) - to(x - 1e-4)) / 2e-4 for x in (a, b)]
            gaps.append(float(to(a) - to(b)))
            variances.append(float((slopes[0] * e) ** 2 + (slopes[1] * e_ref) ** 2))
        bounded = np.clip(references[:, 0], least, 0.995)
        unit = (
            1.0
            if to(0.5) == 0.5
            else float(np.mean([1e-4 / (to(x + 1e-4) - to(x)) for x in bounded]))
        )
        difference = (gaps[0] - np.mean(gaps[1:])) * unit
        se = unit * np.sqrt(variances[0] + np.mean(variances[1:]) / len(references))
        spread, sampling = unit**2 * np.var(gaps[1:], ddof=1), unit**2 * np.mean(variances[1:])
        prediction = predictive(
            difference, se, 500.0, spread, sampling, len(references), PRIORS["score"]
        )
        low, high = without_prior(difference, se, spread, sampling, len(references))
        score = to(np.clip(tested[0], least, 0.995))
        for rows, limits in ((shrunk, (prediction.high, prediction.low)), (plain, (high, low))):
            rows.append(
                [float(np.clip(back(score - x / unit), 0, 1)) for x in (difference, *limits)]
            )
    hulls = [
        [
            np.mean([x[0] for x in estimates]),
            min(x[1] for x in estimates),
            max(x[2] for x in estimates),
        ]
        for estimates in (shrunk, plain)
    ]
    return [*shrunk[:2], *hulls]


def measured(folder, exam, comparison, references, draws):
    """By scale: bias, RMSE, cover, cover with the truth's own error; and the mean width and number
    of models."""
    planted, public = rows_of(folder / f"{exam}_{comparison}.csv")
    planted = planted[(planted[:, 0] > planted[:, 4]) & (planted[:, 0] > 0.3)]
    rng = np.random.default_rng([SEED, EXAMS.index(exam)])
    rows = []
    for model in planted:
        for _ in range(draws):
            chosen = public[rng.choice(len(public), references, replace=False)]
            truth, error = model[4], 1.96 * model[5]
            for k, (estimate, low, high) in enumerate(scales(model, chosen, CHANCES[exam])):
                lower, upper = (
                    estimate - np.hypot(estimate - low, error),
                    estimate + np.hypot(high - estimate, error),
                )
                rows.append(
                    [k, estimate - truth, low <= truth <= high, lower <= truth <= upper, high - low]
                )
    table = np.array(rows)
    summaries = []
    for k in range(4):
        subset = table[table[:, 0] == k]
        summaries.append(
            (
                100 * subset[:, 1].mean(),
                100 * np.sqrt(np.mean(subset[:, 1] ** 2)),
                *(100 * subset[:, 2:].mean(axis=0)),
            )
        )
    return summaries, len(planted), 100 * float((planted[:, 0] - planted[:, 4]).mean())


def main(folder, references=REFERENCES, draws=DRAWS):
    print(
        "| exam | held-out items | models | inflation | scale | bias | RMSE | holds | with the truth's error | width |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for comparison in ("synthetic", "rephrase"):
        for exam in EXAMS:
            summaries, models, inflation = measured(folder, exam, comparison, references, draws)
            for scale, (bias, rmse, holds, wider, width) in zip(
                ("points", "ability", "**all**", "all, no prior"), summaries, strict=True
            ):
                print(
                    f"| {exam} | {comparison} | {models} | {inflation:.0f} | {scale} | {bias:+.1f} | {rmse:.1f} | "
                    f"{holds:.0f} | {wider:.0f} | {width:.0f} |"
                )


if __name__ == "__main__":
    main(
        Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data/constat/tables"),
        *map(int, sys.argv[2:]),
    )
