"""Recompute the published tables of a paper, and check whether they are consistent (`audit
reanalyze`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALPHA = 0.05  # significance level of every test


def place(typed: Path | None, default: str, *, force: bool) -> Path:
    """Return the folder to write into.

    Parameters
    ----------
    typed : Path or None
        The folder of --out.
    default : str
        Folder to use if --out is not given. The content of this folder is always replaced.
    force : bool
        Whether the folder of --out may already contain an analysis, which is then replaced.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ConfigError
        If the folder of --out already contains an analysis, and `force` is false.
    """
    from audit.shards.files import check_new

    if typed is not None:
        present = sorted(typed.iterdir()) if typed.is_dir() else []
        for path in present[:1]:  # the names of the tables depend on the paper
            check_new(path, typed, force=force)
    return typed or Path(default)


def write_all(
    out: Path, result: Any, tables: Mapping[str, str], figures: Mapping[str, Figure]
) -> list[Path]:
    """Write reanalysis.json, the tables and the figures into a folder.

    Parameters
    ----------
    out : Path
        Folder to write into.
    result : object
        Content of reanalysis.json.
    tables : mapping of str to str
        Text of each table, by file name.
    figures : mapping of str to Figure
        Figures, by file name without suffix.

    Returns
    -------
    list of Path
        Paths of the written files.

    Raises
    ------
    ShardError
        If a file cannot be written.
    """
    from audit.report.canvas import svg_text
    from audit.shards.files import disk_error

    files = {"reanalysis.json": json.dumps(result, indent=2) + "\n", **tables}
    for name, figure in figures.items():
        files[f"{name}.svg"] = svg_text(figure)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise disk_error(out, error) from error
    return [out / name for name in files]


def print_json(paths: Iterable[Path]) -> None:
    """Print the .json file among the given files."""
    (path,) = filter(lambda path: path.suffix == ".json", paths)
    print(path.read_text(encoding="utf-8"), end="")
