"""Read and write PANEL/panel.json, the runs of a common report; relative paths let both be moved
together.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from audit.core.errors import ConfigError
from audit.core.guarded_files import read_json
from audit.shards.files import make_folder, write_file
from audit.shards.manifest import MANIFEST

PANEL = "panel.json"
SUITE = "suite.json"  # stands beside panel.json if a suite made the runs


def write_panel(folder: Path, run_dirs: Sequence[Path]) -> None:
    """Write the list of runs of the report in `folder`. Raises ShardError if the disk refuses."""
    make_folder(folder)
    runs = []
    for run_dir in run_dirs:
        runs.append(Path(os.path.relpath(run_dir.resolve(), folder.resolve())).as_posix())
    write_file(folder / PANEL, (json.dumps({"runs": runs}, indent=1) + "\n").encode())


def panel_of(run_dir: Path) -> Path | None:
    """Return the panel or suite in the folder above that a run belongs to; None if it belongs to
    none.
    """
    above = run_dir.resolve().parent
    runs = panel_runs(above) or []
    return above if run_dir.resolve() in (run.resolve() for run in runs) else None


def panel_runs(folder: Path) -> list[Path] | None:
    """Return the run directories of a panel.

    Parameters
    ----------
    folder : Path
        The panel's folder.

    Returns
    -------
    list of Path or None
        None if the folder is not a panel.

    Raises
    ------
    ConfigError
        If panel.json cannot be read.
    """
    path = folder / PANEL
    try:
        runs = read_json(path)["runs"]
        if not runs or not all(isinstance(run, str) for run in runs):
            raise ValueError("it names no runs")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} is not the list of a panel's runs ({error}). Build the report again."
        ) from error
    return [folder / run for run in runs]


def verdict_path(run_dir: Path) -> Path:
    """Return the path of a run's verdict.json; a panel may hold it in the folder itself."""
    inside = run_dir / "report" / "verdict.json"
    panel = run_dir / "verdict.json"
    return (
        panel
        if panel.is_file() and not (run_dir / MANIFEST).exists() and not inside.exists()
        else inside
    )
