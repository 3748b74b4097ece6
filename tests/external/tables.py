"""ConStat's published tables: public models against public references, and models contaminated on
purpose."""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from audit.statistics.between_models import predictive
from audit.statistics.priors import PRIORS
from external.judged import rate

FOLDER = "constat/tables"
BENCHMARKS = ("arc", "gsm8k", "hellaswag", "mmlu")
REFERENCES, DRAWS, LEVEL = 8, 40, 0.05
_ITEMS_DF = 400.0


def report(data: Path) -> Iterator[str]:
    """Lines of markdown. A model counts as found where more than half of the draws of references
    find it."""
    yield "| sets | public models found | planted models found |\n|---|---|---|"
    for kind, prior in (("synthetic", "held_out"), ("rephrase", "rewording")):
        for benchmark in BENCHMARKS:
            path = data / FOLDER / f"{benchmark}_{kind}.csv"
            if not path.is_file():
                yield f"| {benchmark}, {kind} | not here | |"
                continue
            public, planted = counts(path, prior)
            yield f"| {benchmark}, {kind} | {rate(*public)} | {rate(*planted)} |"


def counts(path: Path, prior: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (found, all) of the public models and of the planted ones."""
    with path.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    gaps = np.array([float(r["score_model"]) - float(r["score_model_ref"]) for r in rows])
    errors = np.array(
        [np.hypot(float(r["score_model_std"]), float(r["score_model_ref_std"])) for r in rows]
    )
    # Contaminated in fact, by the authors' own rule: better than on the half that was kept out, and
    # above 30 %.
    made = np.array(["contamination-models" in r["model"] for r in rows])
    real = np.array([float(r["score_model"]) > max(float(r["no_cont"] or 0), 0.3) for r in rows])
    public = np.flatnonzero(~made)
    rng = np.random.default_rng(0)
    times = np.zeros(len(rows))
    for k in np.flatnonzero(~made | real):
        for _ in range(DRAWS):
            others = rng.permutation(public[public != k])[:REFERENCES]
            sampling = float(np.mean(errors[others] ** 2))
            items = float(np.hypot(errors[k], np.sqrt(sampling / REFERENCES)))
            beyond, spread = float(gaps[k] - gaps[others].mean()), float(gaps[others].var(ddof=1))
            prediction = predictive(
                beyond, items, _ITEMS_DF, spread, sampling, REFERENCES, PRIORS[prior]
            )
            times[k] += prediction.pvalue <= LEVEL
    often = times > DRAWS / 2
    return (int(often[public].sum()), public.size), (
        int(often[made & real].sum()),
        int((made & real).sum()),
    )
