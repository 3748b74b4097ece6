"""`PYTHONPATH=tests python -m bench.size`: how large the program is, by room: files, lines, how
dense, how branched.

Characters are those of a code line without its indent; blank lines, comments and docstrings are
none. Branches: one a function, and one each for if, for, while, except, and/or, a case and a
comprehension's loop.

An assert reads a sentence where it compares with a text of three words in a row that the program
says in that order."""

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.While,
    ast.ExceptHandler,
    ast.BoolOp,
    ast.comprehension,
    ast.match_case,
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def measure(text: str) -> tuple[int, list[str], list[tuple[int, int]]]:
    """(lines, code lines, (branches, lines) of each function) of a module."""
    tree, lines = ast.parse(text), text.splitlines()
    docs: set[int] = set()
    functions = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            docs.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, FUNCTIONS):
            branches = 1 + sum(isinstance(child, BRANCHES) for child in ast.walk(node))
            functions.append((branches, (node.end_lineno or node.lineno) - node.lineno + 1))
    stripped = [line.strip() for k, line in enumerate(lines, 1) if k not in docs]
    return len(lines), [line for line in stripped if line and not line.startswith("#")], functions


def spoken(text: str) -> set[tuple[str, ...]]:
    """Every three words that stand in a row: no path, name, key or number among them."""
    triples: set[tuple[str, ...]] = set()
    for part in re.findall(
        r"(?:(?<![\w./=-])[A-Za-z][A-Za-z'-]*[,;:]? )+[A-Za-z][A-Za-z'-]*(?![\w/=(])", text
    ):
        words = re.findall(r"[a-z'-]+", part.lower())
        triples.update(zip(words, words[1:], words[2:], strict=False))
    return triples


def texts(tree: ast.AST) -> Iterator[str]:
    """The texts in it, but for those that something is looked up by."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield tree.value
    parts = [tree.value] if isinstance(tree, ast.Subscript) else ast.iter_child_nodes(tree)
    for part in parts:
        yield from texts(part)


def product(listed: list[str]) -> Iterator[str]:
    """What the program may say: the texts of its code, and its templates and prompts."""
    for path in map(Path, listed):
        if path.parts[0] in ("audit", "jobs"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            yield from (
                n.value
                for n in ast.walk(tree)
                if isinstance(n, ast.Constant) and isinstance(n.value, str)
            )
    for path in Path("audit").rglob("*.j2"):
        yield path.read_text(encoding="utf-8")


def sentences(
    phrases: set[tuple[str, ...]], tests: list[Path]
) -> Iterator[tuple[Path, ast.Assert, bool]]:
    """(file, assert, whether it reads a sentence) of every assert of the tests."""
    for path in tests:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assert):
                compared = [
                    comparison
                    for comparison in ast.walk(node.test)
                    if isinstance(comparison, ast.Compare)
                ]
                sides = [
                    side
                    for comparison in compared
                    for side in (comparison.left, *comparison.comparators)
                ]
                yield (
                    path,
                    node,
                    any(phrases & spoken(text) for side in sides for text in texts(side)),
                )


def main() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], capture_output=True, text=True, check=True
    ).stdout.split()
    rooms: dict[str, list[tuple[int, list[str], list[tuple[int, int]]]]] = defaultdict(list)
    for path in map(Path, listed):
        room = (
            "tests"
            if path.parts[0] == "tests"
            else "/".join(path.parts[: min(2, len(path.parts) - 1)]) or "."
        )
        rooms[room].append(measure(path.read_text(encoding="utf-8")))
    rooms["all but tests"] = [
        module for room, group in rooms.items() if room != "tests" for module in group
    ]
    table = Table(
        "room",
        "files",
        "lines",
        "characters a code line",
        "functions above 15 branches",
        "above 60 lines",
        box=None,
    )
    for room, members in sorted(
        rooms.items(), key=lambda pair: sum(module[0] for module in pair[1])
    ):
        code = [line for _, lines, _ in members for line in lines]
        functions = [size for _, _, sizes in members for size in sizes]
        wide, long = sum(b > 15 for b, _ in functions), sum(n > 60 for _, n in functions)
        dense = f"{sum(map(len, code)) / max(len(code), 1):.1f}"
        table.add_row(
            room,
            str(len(members)),
            f"{sum(module[0] for module in members):,}",
            dense,
            str(wide),
            str(long),
        )
    Console(width=120).print(table)
    phrases = {words for text in product(listed) for words in spoken(text)}
    read = [
        reads
        for *_, reads in sentences(phrases, [Path(p) for p in listed if p.startswith("tests/")])
    ]
    print(
        f"\nAsserts that read a sentence: {sum(read)} of {len(read):,} ({sum(read) / len(read):.1%})"
    )


if __name__ == "__main__":
    main()
