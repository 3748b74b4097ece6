"""Read and write PANEL/panel.json, which lists the runs of a common report.

The paths in panel.json are relative, so that the report and the runs can be moved together.
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
# If the runs belong to a suite, this file is in the same folder as panel.json.
SUITE = "suite.json"


def write_panel(folder: Path, run_dirs: Sequence[Path]) -> None:
    """Write panel.json, which lists the runs of the report in `folder`.

    Raises ShardError if the file cannot be written.
    """
    make_folder(folder)
    runs = []
    for run_dir in run_dirs:
        runs.append(Path(os.path.relpath(run_dir.resolve(), folder.resolve())).as_posix())
    write_file(folder / PANEL, (json.dumps({"runs": runs}, indent=1) + "\n").encode())


def panel_of(run_dir: Path) -> Path | None:
    """Return the folder of the panel or suite to which a run belongs; None for a single run.

    The panel or suite is the folder above the run.
    """
    above = run_dir.resolve().parent
    runs = panel_runs(above) or []
    return above if run_dir.resolve() in (run.resolve() for run in runs) else None


def panel_runs(folder: Path) -> list[Path] | None:
    """Return the run directories of a panel.

    Parameters
    ----------
    folder : Path
        Directory of the panel.

    Returns
    -------
    list of Path or None
        The run directories; None if the folder is not a panel.

    Raises
    ------
    ConfigError
        If panel.json cannot be read.
    """
    path = folder / PANEL
    try:
        runs = read_json(path)["runs"]
        if not runs or not all(isinstance(run, str) for run in runs):
            raise ValueError("it lists no runs")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} is not a list of the runs of a panel ({error}). Build the report again."
        ) from error
    return [folder / run for run in runs]


def verdict_path(run_dir: Path) -> Path:
    """Return the path of a run's verdict.json.

    In a panel, the file may be in the panel's folder itself.
    """
    inside = run_dir / "report" / "verdict.json"
    panel = run_dir / "verdict.json"
    return (
        panel
        if panel.is_file() and not (run_dir / MANIFEST).exists() and not inside.exists()
        else inside
    )
