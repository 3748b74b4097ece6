"""Run a notebook's code cells in one namespace, without Jupyter."""

import ast
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "docs" / "notebooks"


def run_cells(path: Path) -> list[Any]:
    """The value of each code cell's last expression, shown as a notebook shows it; None where it
    ends otherwise."""
    plain = json.loads(path.read_text(encoding="utf-8"))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    values = []
    for cell in plain["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, path.name, "exec"), namespace)
        values.append(
            None
            if last is None
            else eval(compile(ast.Expression(last.value), path.name, "eval"), namespace)
        )
        show = getattr(values[-1], "_repr_html_", None) or getattr(values[-1], "_repr_svg_", None)
        assert show is None or show() is None or show()
    return values
