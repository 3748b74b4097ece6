"""Reference models that were run earlier: a run directory of the same benchmark and the very same library."""

from __future__ import annotations

from pathlib import Path

from audit.errors import ConfigError
from audit.shards.manifest import Manifest


def check_reference(run_dir: Path, library: str, benchmark: str) -> None:
    """ConfigError when a run cannot serve as reference: another audit, library (sha256) or benchmark, or unfinished."""
    manifest = Manifest.load(run_dir)
    if manifest.audit != "perturb":
        raise ConfigError(f"Reference {run_dir} is a run of audit {manifest.audit or 'unknown'}; expected perturb.")
    theirs = str(manifest.config.get("variants"))
    if theirs != library:
        raise ConfigError(
            f"Reference {run_dir} asked the variants of library {theirs[:12]}, and this run those of {library[:12]}. "
            f"Drops are compared on the same variants only: run the reference again with variants={library[:12]}."
        )
    if benchmark not in manifest.benchmark:
        raise ConfigError(
            f"Reference {run_dir} is of {', '.join(manifest.benchmark) or 'no benchmark'}; expected {benchmark}."
        )
    if manifest.status != "finished":
        raise ConfigError(f"Reference {run_dir} is {manifest.status}. Type its command again to finish it.")
