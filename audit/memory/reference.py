"""Reference models that were run earlier: a run directory of the same benchmark and the very same orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from audit.errors import ConfigError
from audit.references import reference_runs

_SAME = ("seed", "n", "shard_items", "orders", "option_orders", "control_benchmark")


def check_references(paths: Sequence[Path], benchmark: str, config: Mapping[str, Any], own: Sequence[str] = ()) -> None:
    """ConfigError when a run asked of another fresh set or other orders, and as `reference_runs`."""
    for path, manifest in reference_runs(paths, "memory", benchmark, own):
        for name in _SAME:
            if manifest.config.get(name) != config.get(name):
                raise ConfigError(
                    f"Reference {path} was run with {name}={manifest.config.get(name)}, and this run has "
                    f"{config.get(name)}: the same orders of the same items are compared. Run it again with {name}="
                    f"{config.get(name)}."
                )
