"""Reference models that were run earlier: a run directory of the same benchmark and the very same orders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.errors import ConfigError
from audit.shards.manifest import Manifest

_SAME = ("seed", "n", "shard_items", "orders", "option_orders", "control_benchmark")


def check_reference(run_dir: Path, benchmark: str, config: Mapping[str, Any]) -> None:
    """ConfigError when a run cannot serve as reference: another audit, benchmark, fresh set or orders; unfinished."""
    manifest = Manifest.load(run_dir)
    if manifest.audit != "memory":
        raise ConfigError(f"Reference {run_dir} is a run of audit {manifest.audit or 'unknown'}; expected memory.")
    if benchmark not in manifest.benchmark:
        raise ConfigError(
            f"Reference {run_dir} is of {', '.join(manifest.benchmark) or 'no benchmark'}; expected {benchmark}."
        )
    for name in _SAME:
        if manifest.config.get(name) != config.get(name):
            raise ConfigError(
                f"Reference {run_dir} was run with {name}={manifest.config.get(name)}, and this run has "
                f"{config.get(name)}: the same orders of the same items are compared. Run it again with {name}="
                f"{config.get(name)}."
            )
    if manifest.status != "finished":
        raise ConfigError(f"Reference {run_dir} is {manifest.status}. Type its command again to finish it.")
