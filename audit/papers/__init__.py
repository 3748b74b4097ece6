"""Read a paper's published tables again and check them against themselves (`audit reanalyze`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_all(
    out: Path, found: Any, tables: Mapping[str, str], figures: Mapping[str, Figure]
) -> list[Path]:
    """Write reanalysis.json, the tables and the figures into a folder.

    Parameters
    ----------
    out : Path
        The folder.
    found : object
        JSON content of reanalysis.json.
    tables : mapping of str to str
        Texts by file name.
    figures : mapping of str to Figure
        Figures by file name without suffix.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    ShardError
        If the disk refuses.
    """
    from audit.report.canvas import svg_text
    from audit.shards.files import disk_error

    drawn = {f"{name}.svg": svg_text(figure) for name, figure in figures.items()}
    files = {"reanalysis.json": json.dumps(found, indent=2) + "\n", **tables, **drawn}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise disk_error(out, error) from error
    return [out / name for name in files]
