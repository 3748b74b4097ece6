"""`PYTHONPATH=tests python -m bench.size`: how large the program is, by room: files, lines, how dense, how branched.

Characters are those of a code line without its indent; blank lines, comments and docstrings are none. Branches: one a
function, and one each for if, for, while, except, and/or, a case and a comprehension's loop.
"""

from __future__ import annotations

import ast
import subprocess
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.BoolOp, ast.comprehension, ast.match_case)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def measure(text: str) -> tuple[int, list[str], list[tuple[int, int]]]:
    """(lines, code lines, (branches, lines) of each function) of a module."""
    tree, lines = ast.parse(text), text.splitlines()
    docs: set[int] = set()
    functions = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docs.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, FUNCTIONS):
            branches = 1 + sum(isinstance(one, BRANCHES) for one in ast.walk(node))
            functions.append((branches, (node.end_lineno or node.lineno) - node.lineno + 1))
    stripped = [line.strip() for k, line in enumerate(lines, 1) if k not in docs]
    return len(lines), [line for line in stripped if line and not line.startswith("#")], functions


def main() -> None:
    listed = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True).stdout.split()
    rooms: dict[str, list[tuple[int, list[str], list[tuple[int, int]]]]] = defaultdict(list)
    for path in map(Path, listed):
        room = "tests" if path.parts[0] == "tests" else "/".join(path.parts[: min(2, len(path.parts) - 1)]) or "."
        rooms[room].append(measure(path.read_text(encoding="utf-8")))
    rooms["all but tests"] = [one for room, found in rooms.items() if room != "tests" for one in found]
    table = Table(
        "room", "files", "lines", "characters a code line", "functions above 15 branches", "above 60 lines", box=None
    )
    for room, found in sorted(rooms.items(), key=lambda pair: sum(one[0] for one in pair[1])):
        code = [line for _, lines, _ in found for line in lines]
        functions = [one for _, _, some in found for one in some]
        wide, long = sum(b > 15 for b, _ in functions), sum(n > 60 for _, n in functions)
        dense = f"{sum(map(len, code)) / max(len(code), 1):.1f}"
        table.add_row(room, str(len(found)), f"{sum(one[0] for one in found):,}", dense, str(wide), str(long))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
