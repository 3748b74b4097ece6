"""Reference models that were run earlier: a run directory of the same benchmark and the very same library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from audit.errors import ConfigError
from audit.references import reference_runs


def check_references(paths: Sequence[Path], library: str, benchmark: str, own: Sequence[str] = ()) -> None:
    """ConfigError when a run asked another library (sha256), and as `reference_runs`."""
    for path, manifest in reference_runs(paths, "perturb", benchmark, own):
        theirs = str(manifest.config.get("variants"))
        if theirs != library:
            raise ConfigError(
                f"Reference {path} asked the variants of library {theirs[:12]}, and this run those of {library[:12]}. "
                f"Drops are compared on the same variants only: run the reference again with variants={library[:12]}."
            )
