"""A bit of a shard that changed gives no other answer: what judges refuses it, as the reader does
(test_shards_read.py)."""

from pathlib import Path

import audit
from audit.errors import AuditError

FLIPS = 80


def places(size: int) -> list[tuple[int, int]]:
    """(byte, bit) over the whole file, its first and last bytes among them."""
    spread = {round(k * (size - 1) / (FLIPS - 1)) for k in range(FLIPS)}
    return [(at, at % 8) for at in sorted(spread)]


def flipped(data: bytes, at: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1 << bit
    return bytes(changed)


def test_nothing_that_reads_a_finished_run_takes_a_changed_shard(run_dir: Path) -> None:
    (path,) = (run_dir / "shards").glob("*.arrow")
    good, taken = path.read_bytes(), []
    for at, bit in places(len(good)):
        path.write_bytes(flipped(good, at, bit))
        for name in ("answers", "settings", "results"):
            try:
                getattr(audit.load(run_dir), name)()
                taken.append((name, at, bit))
            except AuditError:
                pass
    path.write_bytes(good)
    assert taken == [] and len(audit.load(run_dir).answers()) > 0
