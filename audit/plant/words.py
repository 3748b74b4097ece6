"""What a person reads of an experiment: its plan, and its result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from audit.perturb.record import BrokenShare
from audit.plant.config import learning_rate
from audit.plant.indicators import N_SPLITS, Bench
from audit.plant.measure import Reading
from audit.plant.resolve import Experiment
from audit.plant.table import data, legend, markdown, plant_of
from audit.plant.train import PROVENANCE
from audit.report.sensitivity import STANDARD, quote


def plan_lines(experiment: Experiment) -> list[str]:
    """What would be trained and asked."""
    config, halves = experiment.config, experiment.halves
    n, plants = len(halves.questions), len(experiment.forms) * (len(experiment.doses) - 1)
    asked = {
        "memory": n * (2 + config.option_orders + 1 + config.orders),
        "perturb": n * (1 + config.num_variants),
        "sweep": n * 3,
    }
    rows = sum(asked[name] for name in config.audits)
    return [
        f"model    {experiment.model.name} {experiment.weights.revision}",
        f"learnt   {len(halves.learnt)} of {n} items of {config.benchmark.name}; never shown: {len(halves.others)}",
        f"train    {config.train.method}, lr {learning_rate(config):g}, {', '.join(experiment.forms)}, "
        f"{max(experiment.doses)} passes each, kept after {', '.join(str(d) for d in experiment.doses if d)}",
        f"ask      {plants + 1} models, about {rows} questions each ({', '.join(config.audits)})",
        f"to       {experiment.path}",
    ]


def result_of(
    experiment: Experiment, readings: Mapping[str, Reading], n_splits: int = N_SPLITS
) -> tuple[dict[str, Any], str]:
    """(sensitivity.json, the table and the sentences as text)."""
    config, halves = experiment.config, experiment.halves
    review = experiment.library.header.review if experiment.library is not None else None
    questions = halves.questions
    bench = Bench(
        ids=tuple(q.id for q in questions),
        n_options=tuple(len(q.options) for q in questions),
        learnt=np.arange(len(questions)) < len(halves.learnt),
        broken=BrokenShare(review.n, review.broken) if review is not None and review.n else None,
    )
    base = readings["base"]
    plants = [
        plant_of(
            bench,
            label,
            one,
            base,
            _loss(experiment, label),
            alpha=config.alpha,
            seed=config.seed,
            n_splits=n_splits,
        )
        for label, one in readings.items()
    ]
    plants.sort(key=lambda one: (one.passes > 0, one.form, one.passes))
    facts = {
        "model": experiment.model.name,
        "model_revision": experiment.weights.revision,
        "benchmark": config.benchmark.name,
        "benchmark_revision": experiment.benchmark_revision,
        "library": experiment.library.sha256 if experiment.library is not None else None,
        "learnt_items": len(halves.learnt),
        "other_items": len(halves.others),
        "learnt_sha256": halves.learnt_sha256,
        "method": config.train.method,
        "lr": learning_rate(config),
        "batch": config.train.batch,
        "rank": config.train.rank if config.train.method == "lora" else None,
        "modules": config.train.modules if config.train.method == "lora" else None,
        "seed": config.seed,
        "audits": list(config.audits),
    }
    found = data(plants, facts, config.alpha)
    said = [
        f"- {audit}: {quote(found, audit, found['model'], found['benchmark'], STANDARD)}" for audit in config.audits
    ]
    return found, "\n\n".join([markdown(found), legend(), "\n".join(said)]) + "\n"


def _loss(experiment: Experiment, label: str) -> float | None:
    from audit.plant.experiment import folder_of

    path = folder_of(experiment, label) / PROVENANCE
    if not path.is_file():
        return None
    losses = json.loads(path.read_text(encoding="utf-8"))["loss_by_pass"]
    return float(losses[-1])
