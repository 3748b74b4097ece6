"""Who ran a run, and how many people have to let it pass: what its own files say of that."""

from __future__ import annotations

from pathlib import Path

import yaml

from audit.errors import ConfigError
from audit.governance.reviews import SUITES
from audit.panel import panel_runs
from audit.shards.manifest import MANIFEST, Manifest


def runners(run_dir: Path) -> tuple[str, ...]:
    """Who started the run, an entry a start, "" for one that did not say; empty where nothing is known."""
    runs = panel_runs(run_dir) or [run_dir]
    return tuple(who for run in runs if (run / MANIFEST).is_file() for who in Manifest.load(run).run_by)


def approvals_required(run_dir: Path) -> int:
    """How many people a suite asks for (`governance.approvals_required`), of the run or of one of a panel; 1 without.

    ConfigError where a suite cannot be read: it may ask for more.
    """
    needed = 1
    for folder in (run_dir, *(panel_runs(run_dir) or [])):
        for path in (folder / name for name in SUITES if (folder / name).is_file()):
            try:
                found = yaml.safe_load(path.read_text(encoding="utf-8"))  # JSON is YAML
                asked = ((found.get("suite") or found).get("governance") or {}).get("approvals_required", 1)
                if isinstance(asked, bool) or not isinstance(asked, int) or asked < 1:
                    raise ValueError(f"approvals_required is {asked!r}")
            except (OSError, yaml.YAMLError, AttributeError, ValueError) as error:
                raise ConfigError(f"{path} does not say how many have to approve ({error}). Restore it.") from error
            needed = max(needed, asked)
    return needed
