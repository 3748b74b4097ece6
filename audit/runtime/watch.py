"""Show the progress of a run.

The progress is read from the run's manifest and shards alone, so any process can watch a run, even
after the run has ended.
"""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache, partial
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console, Group
from rich.text import Text

from audit.config.audits import audit_of
from audit.config.plan_cost import CostConfig, spent
from audit.core.aliases import named
from audit.core.errors import AuditError
from audit.core.exits import one_line
from audit.core.guarded_files import read_json
from audit.engines.config import ModelConfig
from audit.report.build import goes_on
from audit.runtime.progress import Display
from audit.shards.attempt import ATTEMPT
from audit.shards.complete import count_answers
from audit.shards.files import SHARDS
from audit.shards.manifest import Manifest
from audit.shards.panel import panel_runs
from audit.shards.schema import RowSchema
from audit.shards.shard_file import read_shard, shard_paths

_SAMPLE = ("model", "arm", "question_id", "response", "options", "answer", "answer_number", "error")
_COUNTED = ("model", "arm", "question_id", "reading", "answer_form", "parsed", "correct")
_PRICED = (
    "name",
    "engine",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "gpu_share",
    "replicas",
)
_SHOWN = 120  # largest number of characters of a reply that are shown


def runs_of(folder: Path) -> list[Path]:
    """Return the run in a run directory, or the runs in the folder of a suite or panel."""
    return panel_runs(folder) or [folder]


def look(run_dirs: Sequence[Path], now: float | None = None) -> tuple[Group, bool]:
    """Return one table for each run, with its progress according to its present shards.

    Parameters
    ----------
    run_dirs : sequence of Path
        Directories of the runs.
    now : float or None
        Unix time; None reads the clock.

    Returns
    -------
    tuple of Group and bool
        The tables, and True if all runs could be read. If a run cannot be read, the problem is
        shown in place of its table.
    """
    shown: list[Any] = []
    well = True
    for run_dir in run_dirs:
        try:
            shown += _look(run_dir, time.time() if now is None else now)
        # The run has not started, or a shard was replaced during the reading.
        except (
            AuditError,
            OSError,
        ) as error:
            shown.append(Text(one_line(f"{named(run_dir)}: {error}")))
            well = False
        except (KeyError, TypeError, ValueError) as error:
            shown.append(Text(one_line(f"{named(run_dir)} cannot be shown ({error!r}).")))
            well = False
    return Group(*shown), well


def counted(run_dir: Path) -> dict[str, Any]:
    """Return the state of a run as data for other programs.

    The data contain the numbers of requested and stored rows of each model and arm. Raises
    AuditError if the run cannot be read.
    """
    manifest, schema = Manifest.load(run_dir), audit_of(run_dir).schema
    arms: dict[str, dict[str, dict[str, int]]] = {}
    for model, totals in _totals(manifest).items():
        arms[model] = {}
        for arm, total in totals.items():
            arms[model][arm] = {"total": total, "rows": 0, "errors": 0, "unparsed": 0}
    for path in shard_paths(run_dir / SHARDS):
        for name, counts in _counted(path, path.stat().st_size, path.stat().st_mtime_ns, schema):
            for row in counts.to_pylist():
                for key in ("rows", "errors", "unparsed"):
                    arms[name][row["arm"]][key] += row[key]
    return {
        "run_dir": str(run_dir),
        "audit": manifest.audit,
        "status": manifest.status,
        "models": arms,
    }


def as_text(run_dirs: Sequence[Path]) -> str:
    """Return the tables of `look` as text, for the page of a run in progress."""
    console = Console(file=StringIO(), width=110, color_system=None)
    console.print(look(run_dirs)[0])
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def _look(run_dir: Path, now: float) -> list[Any]:
    manifest, schema = Manifest.load(run_dir), audit_of(run_dir).schema
    files = sorted((path.stat().st_mtime, path) for path in shard_paths(run_dir / SHARDS))
    begun = _begun(run_dir, manifest)
    clock = [begun]
    display = Display(quiet=True, clock=lambda: clock[0])
    totals, cost = _totals(manifest), CostConfig(**manifest.config.get("cost", {}))
    display.begin(totals, partial(spent, cost, _called(manifest)), cost.currency)

    def count(shards: Iterable[tuple[float, Path]]) -> None:
        for written, path in shards:
            clock[0] = max(begun, written)
            for name, counts in _counted(
                path, path.stat().st_size, path.stat().st_mtime_ns, schema
            ):
                display.counts(name, counts)

    # Shards of an earlier start are counted as done, but not for the pace.
    count(file for file in files if file[0] < begun)
    clock[0] = begun
    for name in totals:
        display.engine_kept(name)
    count(file for file in files if file[0] >= begun)
    if goes_on(run_dir):
        clock[0] = now
    elif manifest.ended:
        clock[0] = datetime.fromisoformat(manifest.ended).timestamp()
    shown = [
        Text(one_line(f"{named(run_dir)}  {manifest.audit} {manifest.status}")),
        display.table(),
    ]
    return (
        [*shown, Text(_sample(files[-1][1], schema), no_wrap=True, overflow="ellipsis")]
        if files
        else shown
    )


def _begun(run_dir: Path, manifest: Manifest) -> float:
    """Return the Unix time at which the latest start began."""
    path = run_dir / ATTEMPT
    stamp = read_json(path)["started"] if path.is_file() else manifest.started
    return datetime.fromisoformat(stamp).timestamp()


def _totals(manifest: Manifest) -> dict[str, dict[str, int]]:
    """Map each model and arm to the number of expected rows."""
    arms = Counter(str(setting["arm"]) for setting in manifest.settings)
    questions = Counter(dict.fromkeys(manifest.models, 0))
    for (model, _), n in manifest.question_counts().items():
        questions[model] += n
    totals = {}
    for model, n in questions.items():
        totals[model] = {arm: k * n for arm, k in arms.items()}
    return totals


def _called(manifest: Manifest) -> dict[str, tuple[ModelConfig, ModelConfig]]:
    """Map each model to the settings of its preparing model and of its answering model.

    Only the settings on which the price depends are included.
    """
    configs = [
        *manifest.config.get("model", {}).values(),
        *filter(None, [manifest.config.get("worker")]),
    ]
    priced = {}
    for config in configs:
        priced_keys = {}
        for key in _PRICED:
            if key in config:
                priced_keys[key] = config[key]
        priced[config["name"]] = ModelConfig(**priced_keys)
    unknown = ModelConfig(engine="")
    called = {}
    for name, facts in manifest.models.items():
        called[name] = (priced.get(name, unknown), priced.get(facts.get("worker", name), unknown))
    return called


@lru_cache(maxsize=65536)
def _counted(path: Path, size: int, mtime_ns: int, schema: RowSchema) -> list[tuple[str, pa.Table]]:
    """Map each model in a shard to the counts of its rows; each shard is read only once."""
    rows = read_shard(
        path, schema, (*_COUNTED, schema.level, *schema.failure_columns, *schema.cost_columns)
    )
    names = pc.unique(rows["model"]).to_pylist()
    counts = []
    for name in names:
        counts.append((name, count_answers(rows.filter(pc.equal(rows["model"], name)), schema)))
    return counts


def _sample(path: Path, schema: RowSchema) -> str:
    """Return the last reply of a shard as one line without control characters.

    Control characters are removed because a model's text may be hostile.
    """
    rows = read_shard(path, schema, _SAMPLE)
    (row,) = rows.slice(rows.num_rows - 1).to_pylist()
    option = (
        row["options"][row["answer"]]
        if row["options"] and row["answer"] is not None
        else row["answer_number"]
    )
    text = one_line(row["error"] or row["response"] or option or "")[:_SHOWN]
    return f"one reply  {one_line(', '.join((row['model'], row['arm'], row['question_id'])))}: {text!r}"
