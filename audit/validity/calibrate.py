"""How often the procedure is wrong where it should say neither: models whose three families move answers equally.

    python -m audit.calibrate audit=validity --out audit/data/calibration_validity.json

Each simulated item has a propensity to change (a beta variable, so items differ), and under every family three edits
that change its answer with that propensity: the true ratio is 1 and the true difference 0. The statistics are the very
functions that the analysis calls. The table ships as audit/data/calibration_validity.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from audit.shards.files import write_file
from audit.statistics.paired import FloatArray
from audit.statistics.selectivity import ratio, selectivity
from audit.verdict.simulated import make_parser

ALPHA_EACH = 0.025
CLUSTERS = (24, 36, 60, 200)
CHANGES = (0.03, 0.1, 0.25, 0.5)  # mean share of edits that change an answer, of every family
EDITS = 3
MODELS = 2000
SPREAD = 2.0  # a + b of the beta: items differ much
_RATIO_RESAMPLES, _RATIO_MODELS = 200, 250


def simulate(clusters: int, change: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean change of each of `clusters` independent items under attribute, format and semantic edits."""
    p = rng.beta(SPREAD * change, SPREAD * (1 - change), clusters)
    drawn = rng.random((3, EDITS, clusters)) < p
    attr, fmt, sem = drawn.mean(axis=1)
    return attr, fmt, sem


def rates(clusters: int, change: float, models: int, rng: np.random.Generator) -> dict[str, float]:
    """Share of models that are called selective or non-selective, by ours and by the plain interval of the ratio."""
    place = np.arange(clusters)
    ours = np.zeros(2)
    plain = np.zeros(2)
    for k in range(models):
        families = simulate(clusters, change, rng)
        found = selectivity(*families, place)
        ours += (found.above_p <= ALPHA_EACH, found.below_p <= ALPHA_EACH)
        if k < _RATIO_MODELS:
            csr = ratio(*families, place, rng=rng, n_resamples=_RATIO_RESAMPLES)
            plain += (csr.low > 1, csr.high < 1)
    tried = min(models, _RATIO_MODELS)
    return {
        "clusters": clusters,
        "change": change,
        "selective": ours[0] / models,
        "non_selective": ours[1] / models,
        "csr_selective": plain[0] / tried,
        "csr_non_selective": plain[1] / tried,
    }


def build(models: int, seed: int = 42) -> dict[str, Any]:
    """The whole table."""
    designs = [
        rates(clusters, change, models, np.random.default_rng([seed, clusters, round(1000 * change)]))
        for clusters in CLUSTERS
        for change in CHANGES
    ]
    return {
        "models": models,
        "ratio_models": min(models, _RATIO_MODELS),
        "edits": EDITS,
        "seed": seed,
        "designs": designs,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    asked = make_parser("validity", __doc__).parse_args(argv)
    table = build(asked.simulations or MODELS)
    for row in table["designs"]:
        print("  ".join(f"{name} {value:.4g}" for name, value in row.items()))
    if asked.out is not None:
        write_file(asked.out, (json.dumps(table, indent=1) + "\n").encode())
    return 0
