"""Run the audits on one planted model, and collect the indicators' values from the stored answers.

Each audit runs on each half of the benchmark separately. So a test of the order of items uses items
of one half only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from audit.config.audits import find_audit
from audit.config.base import RunConfig
from audit.config.resolve import ResolvedRun, resolve_run
from audit.core.json_types import attributes
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
# Items that an audit cannot ask are not counted as failures.
_NEVER_SENT = {memory.NOT_ASKED, perturb.NOT_ASKED}


@dataclass
class Reading:
    """Hold the results of one model on n items, in the order of the items.

    NaN stands for an unparsed reply.

    Attributes
    ----------
    correct : dict of str to list
        Maps each "arm/level" to a list with 1 (right) or 0 (wrong) for each item.
    margin : list of float
        For each item as published, log-likelihood (nats) of the gold option minus that of the
        likeliest other option.
    text : dict of str to list
        Log-likelihood (nats per byte) of three texts of each item, given the preceding text. The
        keys are "item" (the item as published), "half" (the second half of the question), and
        "wrong" (the wrong options).
    order : dict of str to list
        Maps each half to one list per shard of items: the log-likelihood (nats) of the shard in the
        published order (first) and in other orders.
    options : list of list
        For each item, log-likelihood (nats) of its options in the published order (first) and in
        other orders.
    errors : int
        Number of requests that failed.
    """

    correct: dict[str, list[float]] = field(default_factory=dict)
    margin: list[float] = field(default_factory=list)
    text: dict[str, list[float]] = field(default_factory=dict)
    order: dict[str, list[list[float]]] = field(default_factory=dict)
    options: list[list[float]] = field(default_factory=list)
    errors: int = 0

    def array(self, key: str) -> FloatArray:
        """Return the answers (1, 0 or NaN) under one key "arm/level" as an array (n,)."""
        return np.asarray(self.correct[key], dtype=float)

    def table(self, keys: Sequence[str]) -> FloatArray:
        """Return the answers (1, 0 or NaN) under several keys "arm/level" as an array (keys, n)."""
        return np.stack([self.array(key) for key in keys])


def place(experiment: Experiment, label: str, audit: str, half: str) -> Path:
    """Return the run directory of an audit, for one model and one half of the benchmark."""
    return experiment.path / "read" / label / f"{audit}-{half}"


def todo(experiment: Experiment, label: str) -> list[tuple[str, str]]:
    """Return the pairs (audit, half of the benchmark) for which the model has no finished run."""
    pairs = product(experiment.config.audits, HALVES)
    return [pair for pair in pairs if not _finished(place(experiment, label, *pair))]


def _finished(run_dir: Path) -> bool:
    return (run_dir / MANIFEST).is_file() and Manifest.load(run_dir).status == "finished"


def resolved(
    experiment: Experiment, label: str, audit: str, half: str, model: ModelConfig, adapter: str = ""
) -> ResolvedRun:
    """Return the resolved run of an audit on one half.

    Parameters
    ----------
    experiment : Experiment
        The resolved experiment: model, items, training texts and directory.
    label : str
        Label of the model.
    audit, half : str
        Name of the audit, and name of the half of the items.
    model : ModelConfig
        Settings of the model.
    adapter : str
        Folder of the adapter of the answering model; "" without an adapter.

    Returns
    -------
    ResolvedRun
        The resolved run of the audit.

    Raises
    ------
    AuditError
        If the run cannot be resolved.

    Notes
    -----
    In the sweep, the base model writes the routers' messages for all planted models. A planted
    model would answer the questions instead of relaying them.
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
    common = [field_.name for field_ in fields(RunConfig)]
    shared: dict[str, Any] = attributes(settings, *common) | fixed
    only = {name: frozenset(_ids(experiment, half))}
    if audit == "memory":
        orders = attributes(settings, "shard_items", "orders", "option_orders")
        config = MemoryConfig(**shared, **orders)
        run = replace(resolve_run(MEMORY, config, only=only), state_of=partial(orders_of, config))
    elif audit == "perturb":
        library = {name: where(experiment.path / FILE)}
        reworded = PerturbConfig(
            **shared, num_variants=settings.num_variants, original_replicates=1
        )
        run = replace(resolve_run(PERTURB, reworded, only=only), state_of=lambda _: library)
    else:
        earlier = None if label == BASE else str(place(experiment, BASE, audit, half))
        sweep = SweepConfig(
            **shared, r=settings.r, clean_replicates=1, noisy_replicates=1, messages_from=earlier
        )
        run = resolve_sweep(sweep, only)
    return replace(run, adapter=adapter)


def _ids(experiment: Experiment, half: str) -> list[str]:
    """Return the ids of the items in one half of the benchmark, in published order."""
    return [question.id for question in getattr(experiment.halves, half)]


def read(experiment: Experiment, label: str) -> Reading:
    """Read the results of all audits of one model, and return them in one record."""
    total = Reading()
    for audit in experiment.config.audits:
        for half in HALVES:
            _add(total, place(experiment, label, audit, half), experiment, audit, half)
    return total


def _add(total: Reading, run_dir: Path, experiment: Experiment, audit: str, half: str) -> None:
    ids = _ids(experiment, half)
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
    """Return how much likelier the gold option is than every other option.

    The margin is the log-likelihood of the gold option minus the largest log-likelihood of the
    other options.

    Parameters
    ----------
    totals : sequence of float or None
        Log-likelihood of each option (nats).
    gold : int
        Index of the gold option.

    Returns
    -------
    float
        The difference; NaN if a log-likelihood is missing.
    """
    if not totals or len(totals) < 2 or None in totals:
        return float("nan")
    values = np.array(totals, dtype=float)
    return float(values[gold] - np.delete(values, gold).max())
