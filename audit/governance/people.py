"""Who ran a run, and how many people have to let it pass: what its own files say of that."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import yaml

from audit.errors import ConfigError
from audit.governance.keys import person
from audit.governance.reviews import SUITES
from audit.panel import panel_runs
from audit.shards.manifest import MANIFEST, Manifest


def runners(run_dir: Path, signers: Collection[str]) -> tuple[str, ...]:
    """Who started the run, an entry a start: a trusted signer, or "" for a start that names none of them and so does
    not tell who it was; empty where nothing is known."""
    known = {person(name): name for name in signers}
    started = (Manifest.load(run).run_by for run in panel_runs(run_dir) or [run_dir] if (run / MANIFEST).is_file())
    return tuple(known.get(person(who), "") for each in started for who in each)


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
