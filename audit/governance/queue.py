"""What waits for a decision below a folder, and a decision signed, added and noted: of the command and of the page."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol

from securesystemslib.signer import Signer

from audit.decision import Ruling
from audit.errors import ConfigError, RegistryError
from audit.governance.keys import Trusted
from audit.governance.reviews import Bound, Kind, bound_to, decide, parse_time
from audit.governance.ruling import verdict_path
from audit.panel import PANEL, panel_runs
from audit.shards.manifest import MANIFEST, TOMBSTONE


class Register(Protocol):
    """Who knows how many decisions a run has, so that none is deleted unseen."""

    def check(self, run_dir: Path, bound: Bound) -> None:
        """SignatureError where a decision is gone; RegistryError where it cannot be asked."""

    def note(self, run_dir: Path, bound: Bound, now: datetime) -> None:
        """Note the decisions that are there."""


def decide_on(
    run_dir: Path,
    ruling: Ruling,
    kind: Kind,
    *,
    reason: str,
    expires: str | None,
    signer: Signer,
    trusted: Mapping[str, Trusted],
    now: datetime,
    registry: Register | None,
) -> Path:
    """Sign a decision on a run, add it, and note it in the registry where there is one; the file. expires: as typed.

    Raises ConfigError where it would have no effect, SignatureError where what was decided before does not hold,
    RegistryError where the registry does not answer.
    """
    bound, until = bound_to(run_dir, verdict_path(run_dir), ruling), parse_time(expires) if expires else None
    if registry is not None:
        registry.check(run_dir, bound)
    path = decide(run_dir, ruling, bound, kind, reason=reason, expires=until, signer=signer, trusted=trusted, now=now)
    if registry is not None:
        try:
            registry.note(run_dir, bound, now)
        except RegistryError as error:
            raise RegistryError(
                f"{error} The decision counts ({path}), and the registry does not know of it: audit registry add "
                f"{run_dir}"
            ) from error
    return path


def queue(folder: Path) -> list[Path]:
    """Every run, panel and suite below a folder, but for what retention removed. The runs of a panel or suite are
    decided on together."""
    panels = {path.parent: panel_runs(path.parent) or [] for path in folder.glob(f"**/{PANEL}")}
    gone = {panel for panel, members in panels.items() if all((run / TOMBSTONE).is_file() for run in members)}
    together = {run.resolve() for members in panels.values() for run in members}
    alone = {path.parent for path in folder.glob(f"**/{MANIFEST}") if path.parent.resolve() not in together}
    runs = sorted({*panels, *alone} - gone)
    if not runs:
        raise ConfigError(f"No run below {folder}. Expected a folder of run directories, such as outputs.")
    return runs
