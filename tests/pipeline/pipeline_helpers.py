"""Reading a run as any Arrow reader sees it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds


def rows_of(run_dir: Path) -> list[dict]:
    """Every row of a run, as any Arrow reader sees it."""
    return ds.dataset(run_dir / "shards", format="ipc").to_table().to_pylist()


def keys_of(run_dir: Path) -> list[tuple]:
    columns = ["model", "benchmark", "question_id", "arm", "routers", "replicate"]
    table = ds.dataset(run_dir / "shards", format="ipc").to_table(columns=columns)
    return sorted(tuple(row.values()) for row in table.to_pylist())
