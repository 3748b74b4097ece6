"""Run the audits on one planted model and collect the inputs of the indicators from their shards.

Each audit runs on each half separately, so neighbours whose order is tested are of one half.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from audit.config.audits import find_audit
from audit.config.base import RunConfig
from audit.config.resolve import ResolvedRun, resolve_run
from audit.engines.config import ModelConfig
from audit.memory import audit as memory
from audit.memory.audit import MEMORY, Orders
from audit.memory.cells import load_memory
from audit.memory.config import MemoryConfig
from audit.memory.design import Arm as MemoryArm
from audit.memory.plan import orders_of
from audit.memory.record import TEXT_SCORES
from audit.perturb import audit as perturb
from audit.perturb.audit import PERTURB
from audit.perturb.config import PerturbConfig
from audit.plant.resolve import Experiment
from audit.shards.complete import read_outcomes
from audit.shards.manifest import MANIFEST, Manifest
from audit.shards.read import iter_columns
from audit.shards.working_copy import where
from audit.statistics.paired import FloatArray
from audit.statistics.values import to_values
from audit.sweep.config import SweepConfig
from audit.sweep.replay import resolve_sweep
from audit.variants.arrow import FILE

BASE = "base"
HALVES = ("learnt", "others")
_ROWS = ("question_id", "arm", "gold", "option_logprobs", "error")
_NEVER_SENT = {
    memory.NOT_ASKED,
    perturb.NOT_ASKED,
}  # an item that an audit could not ask about is not a failure


@dataclass
class Reading:
    """Hold what one model did with n items, in order; NaN: no answer, or nothing that could be
    read.

    Attributes
    ----------
    correct : dict of str to list
        By "arm/level", 1 right, 0 wrong.
    margin : list of float
        Log-likelihood of the gold option less that of the best other one (nats), as published.
    text : dict of str to list
        Log-likelihood (nats a byte) of the "item" as published, of the second "half" of its
        question and of its "wrong" options, each given what precedes it.
    order : dict of str to list
        By half, log-likelihood (nats) of each shard in the published order (first) and others.
    options : list of list
        The same of each item's list of options.
    errors : int
        Requests that failed.
    """

    correct: dict[str, list[float]] = field(default_factory=dict)
    margin: list[float] = field(default_factory=list)
    text: dict[str, list[float]] = field(default_factory=dict)
    order: dict[str, list[list[float]]] = field(default_factory=dict)
    options: list[list[float]] = field(default_factory=list)
    errors: int = 0

    def array(self, key: str) -> FloatArray:
        return np.asarray(self.correct[key], dtype=float)


def place(experiment: Experiment, label: str, audit: str, half: str) -> Path:
    """Return the run directory of one audit of one model on one half."""
    return experiment.path / "read" / label / f"{audit}-{half}"


def todo(experiment: Experiment, label: str) -> list[tuple[str, str]]:
    """Return the audits and halves of which a model has no finished run."""
    both = [(audit, half) for audit in experiment.config.audits for half in HALVES]
    return [pair for pair in both if not _finished(place(experiment, label, *pair))]


def _finished(run_dir: Path) -> bool:
    return (run_dir / MANIFEST).is_file() and Manifest.load(run_dir).status == "finished"


def resolved(
    experiment: Experiment, label: str, audit: str, half: str, model: ModelConfig, adapter: str = ""
) -> ResolvedRun:
    """Return the run of one audit on one half.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    label : str
        Label of the model.
    audit, half : str
        Audit, and half of the items.
    model : ModelConfig
        The model.
    adapter : str
        Folder of the answering model's adapter; "" without one.

    Returns
    -------
    ResolvedRun
        The run.

    Raises
    ------
    AuditError
        If it cannot be resolved.

    Notes
    -----
    The base model writes the routers' messages of the sweep, as a planted one answers instead of
    relaying. So every plant gets the same messages.
    """
    settings, name = experiment.config, experiment.config.benchmark.name
    run_dir = place(experiment, label, audit, half)
    fixed = {
        "model": {model.name: model},
        "verdict": {},
        "n": "all",
        "canary": False,
        "run_dir": str(run_dir),
    }
    shared: dict[str, Any] = {
        field_.name: getattr(settings, field_.name) for field_ in fields(RunConfig)
    } | fixed
    only = {name: frozenset(q.id for q in getattr(experiment.halves, half))}
    if audit == "memory":
        orders = {
            field_: getattr(settings, field_)
            for field_ in ("shard_items", "orders", "option_orders")
        }
        config = MemoryConfig(**shared, **orders)
        run = replace(resolve_run(MEMORY, config, only=only), own=partial(orders_of, config))
    elif audit == "perturb":
        library = {name: where(experiment.path / FILE)}
        reworded = PerturbConfig(
            **shared, num_variants=settings.num_variants, original_replicates=1
        )
        run = replace(resolve_run(PERTURB, reworded, only=only), own=lambda _: library)
    else:
        earlier = None if label == BASE else str(place(experiment, BASE, audit, half))
        sweep = SweepConfig(
            **shared, r=settings.r, clean_replicates=1, noisy_replicates=1, messages_from=earlier
        )
        run = resolve_sweep(sweep, only)
    return replace(run, adapter=adapter)


def read(experiment: Experiment, label: str) -> Reading:
    """Return what every audit read of one model, together."""
    total = Reading()
    for audit in experiment.config.audits:
        for half in HALVES:
            _add(total, place(experiment, label, audit, half), experiment, audit, half)
    return total


def _add(total: Reading, run_dir: Path, experiment: Experiment, audit: str, half: str) -> None:
    ids = [q.id for q in getattr(experiment.halves, half)]
    margins = dict.fromkeys(ids, float("nan"))
    for batch in iter_columns(run_dir, find_audit(audit).schema, _ROWS):
        for row in batch.to_pylist():
            total.errors += row["error"] is not None and row["error"] not in _NEVER_SENT
            if row["arm"] == MemoryArm.SCORE:
                margins[row["question_id"]] = margin(row["option_logprobs"], row["gold"])
    if audit != "memory":
        (cell,) = read_outcomes(run_dir, find_audit(audit).schema).cells
        order = [cell.question_ids.index(id_) for id_ in ids]
        for setting in cell.settings:
            values = total.correct.setdefault(f"{setting.arm}/{setting.level}", [])
            values += to_values(cell.row(setting))[order].tolist()
        return
    settings = experiment.config
    orders = Orders(
        str(run_dir), settings.seed, settings.shard_items, settings.orders, settings.option_orders
    )
    models = list(Manifest.load(run_dir).models)
    (cell_record,) = load_memory(run_dir, models, (), settings.benchmark.name, None, orders)
    tested = cell_record.tested[0]
    total.margin += margins.values()
    total.correct.setdefault(f"{MemoryArm.SCORE}/0", []).extend(tested.score.tolist())
    for name in TEXT_SCORES:
        total.text.setdefault(name, []).extend(tested.texts[name].tolist())
    total.options += tested.options.tolist()
    total.order[half] = tested.order.tolist()


def margin(totals: Sequence[float | None] | None, gold: int) -> float:
    """Return the log-likelihood of the gold option less that of the best other one; NaN if one is
    missing."""
    if not totals or len(totals) < 2 or None in totals:
        return float("nan")
    values = np.array(totals, dtype=float)
    return float(values[gold] - np.delete(values, gold).max())
