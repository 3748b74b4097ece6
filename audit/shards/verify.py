"""Every key once: none lost, none twice. The last thing a run does before it calls itself finished."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audit.errors import ShardError
from audit.shards.keys import Digests, KeySet
from audit.shards.read import CorruptShard, RunScan, scan_run
from audit.shards.schema import RowSchema
from audit.shards.shard_file import ShardInfo
from audit.shards.write import keep_rows


@dataclass(frozen=True)
class VerifyReport:
    """What a run holds against what it should, in rows."""

    rows: int
    expected: int
    missing: int
    unexpected: int
    duplicates_removed: int
    corrupt: tuple[CorruptShard, ...]
    shards: tuple[ShardInfo, ...]

    @property
    def complete(self) -> bool:
        return not self.missing and not self.unexpected

    def require_complete(self) -> None:
        """ShardError when rows are missing or do not belong to the run."""
        if self.complete:
            return
        raise ShardError(
            f"The run holds {self.rows} rows where {self.expected} were expected: {self.missing} missing, "
            f"{self.unexpected} that no question and setting of this run asks for. Type the same command "
            f"again: it runs what is missing."
        )


def verify_run(run_dir: Path | str, schema: RowSchema, expected: KeySet, attempt: str) -> VerifyReport:
    """Compare a run with what it should hold, after removing rows whose key is also in an older shard.

    expected: the keys that it should hold (`KeySet.of(digest_grid(...))`).
    Damaged shards are moved to quarantine and their rows counted as missing.
    """
    run_dir = Path(run_dir)
    scan = scan_run(run_dir, schema)
    corrupt, removed = scan.corrupt, scan.duplicates
    if scan.digests is not None:
        _remove_duplicates(run_dir, schema, scan, scan.digests, attempt)
        scan = scan_run(run_dir, schema)
        corrupt += scan.corrupt
        if scan.duplicates:
            raise ShardError(f"{scan.duplicates} keys of {run_dir} occur twice again: does another driver write there?")
    common = expected.common(scan.done)
    missing, unexpected = len(expected) - common, scan.rows - common
    return VerifyReport(scan.rows, len(expected), missing, unexpected, removed, corrupt, scan.shards)


def _remove_duplicates(run_dir: Path, schema: RowSchema, scan: RunScan, digests: Digests, attempt: str) -> None:
    """Of the rows with one key, the first row of the oldest shard stays."""
    ages = [(info.path.stat().st_mtime_ns, info.path.name) for info in scan.shards]
    rank = np.empty(len(ages), dtype=np.int64)
    rank[sorted(range(len(ages)), key=ages.__getitem__)] = np.arange(len(ages))
    shard_of = np.repeat(np.arange(len(scan.shards), dtype=np.int32), [info.rows for info in scan.shards])
    hi, lo = digests[:, 0], digests[:, 1]
    order = np.lexsort((np.arange(scan.rows), rank[shard_of], lo, hi))
    again = np.zeros(scan.rows, dtype=bool)
    again[order[1:]] = (hi[order[1:]] == hi[order[:-1]]) & (lo[order[1:]] == lo[order[:-1]])
    for shard in np.unique(shard_of[again]):
        keep_rows(run_dir, scan.shards[shard].path, schema, ~again[shard_of == shard], attempt)
