"""What only concerns a paper: its published tables, read again and checked against themselves (`audit reanalyze`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_all(out: Path, found: Any, tables: Mapping[str, str], figures: Mapping[str, Figure]) -> list[Path]:
    """reanalysis.json, the tables and the figures under `out`; their paths. ShardError when the disk refuses."""
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
