"""The source's rule at other thresholds than its own, on a finished run; and how often it is wrong on a clean model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audit.perturb.evidence import clean_alarms
from audit.perturb.report import run_library
from audit.perturb.rows import perturb_cells, read_run
from audit.shards.manifest import Manifest
from audit.statistics.contamination_score import ArticleResult, FalseAlarms, Rule, article_result
from audit.statistics.wording_drop import item_means, wording_flips


@dataclass(frozen=True)
class SourceRuled:
    """One judged model. alarms: by `Rule`, in the order asked; None where no clean model like it can be simulated."""

    model: str
    benchmark: str
    results: tuple[ArticleResult, ...]
    alarms: tuple[FalseAlarms | None, ...]


def source_ruled(run_dir: Path, rules: tuple[Rule, ...]) -> tuple[SourceRuled, ...]:
    """Every judged model of a run under each rule. Raises DataError where no item can be compared."""
    manifest = Manifest.load(run_dir)
    cells = perturb_cells(read_run(run_dir), manifest.analysis["judged"], [], run_library(run_dir, manifest).header)
    found = []
    for cell in cells:
        original, variants = cell.tested.pair
        compared = item_means(original, variants)[1]
        n, accuracy = int(np.sum(~np.isnan(compared))), float(np.nanmean(compared)) if cell.n else float("nan")
        flips = wording_flips(variants, original)
        results = tuple(article_result(original, variants, rule) for rule in rules)
        seed = int(manifest.analysis["seed"])
        alarms = tuple(clean_alarms(n, accuracy, variants, flips, np.random.default_rng(seed), rule) for rule in rules)
        found.append(SourceRuled(cell.tested.model, cell.benchmark, results, alarms))
    return tuple(found)
