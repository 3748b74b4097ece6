"""Do the unit tests bite? A random sample of one-token mutants of what decides, each with the tests that know it.

    python -m venv /tmp/mutants && /tmp/mutants/bin/pip install cosmic-ray==8.7.0
    git clone . /tmp/mutated && cd /tmp/mutated       # files are changed in place: run it in a copy
    PYTHONPATH=. /tmp/mutants/bin/python -m tests.mutants --python .venv/bin/python --n 150 --out mutants.jsonl

A place is drawn at random, then one of cosmic-ray's mutations of it; what changes nothing but an annotation does not
count. Each mutant meets the test files that import its module (of its own folder, where none does), until one fails.
A line of JSON a mutant: killed or survived, and its diff. The same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

UNDER_TEST = ("audit/statistics", "audit/verdict", "audit/scoring", "audit/shards", "audit/sweep/decide.py")
TESTS = Path("tests/unit")
SLOWEST_S = 900  # a test that takes longer is taken for an endless loop, which is a kill


def modules() -> list[Path]:
    found = [p for name in UNDER_TEST for p in (Path(name).rglob("*.py") if Path(name).is_dir() else [Path(name)])]
    return sorted(p for p in found if p.name != "__init__.py")


def places() -> dict[tuple[str, tuple[int, int]], list[tuple[str, int]]]:
    """(module, position) -> the mutations of that place: (operator, occurrence)."""
    found: dict[tuple[str, tuple[int, int]], list[tuple[str, int]]] = defaultdict(list)
    operators = [(name, get_operator(name)) for name in operator_names()]
    for path in modules():
        tree = get_ast_from_path(path)
        for name, operator in operators:
            if operator.arguments():
                continue
            at = (start for node in ast_nodes(tree) for start, _ in operator().mutation_positions(node))
            for k, start in enumerate(at):
                found[str(path), start].append((name, k))
    return found


def mutants(seed: int) -> Iterator[tuple[str, str, str]]:
    """(module, operator, mutated text) in random order, without those that change an annotation alone."""
    rng = random.Random(seed)
    by_place = places()
    for path, start in rng.sample(sorted(by_place), len(by_place)):
        name, k = rng.choice(by_place[path, start])
        text = Path(path).read_text(encoding="utf-8")
        changed = mutate_code(text, get_operator(name)(), k)
        if changed is not None and meaning(changed) not in (meaning(text), ""):
            yield path, name, changed


def meaning(text: str) -> str:
    """The code without its annotations, which nothing evaluates; "" where it is no code."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(0)
    return ast.dump(tree)


def tests_of(path: str) -> list[str]:
    """Those of its own folder first, then by name."""
    dotted = path.removesuffix(".py").replace("/", ".")
    package, name = dotted.rsplit(".", 1)
    wanted = (f"from {dotted} import", f"from {package} import {name}", f"import {dotted}")
    texts = {p: p.read_text(encoding="utf-8") for p in TESTS.rglob("test_*.py")}
    found = [p for p, text in texts.items() if any(one in text for one in wanted)]
    own = TESTS / package.split(".")[1]
    return [str(p) for p in sorted(found or own.glob("test_*.py"), key=lambda p: (p.parent != own, p.name))]


def survives(path: str, changed: str, python: str) -> tuple[bool, str]:
    """Whether every test passes on the changed module, and what pytest said last. The module is put back."""
    module = Path(path)
    before = module.read_bytes()
    command = [python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", *tests_of(path)]
    env = {**os.environ, "PYTHONPATH": ".", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        module.write_text(changed, encoding="utf-8")
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=SLOWEST_S)
    except subprocess.TimeoutExpired:
        return False, "no end"
    finally:
        module.write_bytes(before)
    if done.returncode not in (0, 1, 2):  # 2: the module does not even load
        raise RuntimeError(f"pytest ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.returncode == 0, done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="the interpreter that the tests run with")
    parser.add_argument("--n", type=int, default=150)
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    asked = parser.parse_args()
    done = asked.out.read_text(encoding="utf-8").splitlines() if asked.out.exists() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in done]
    for k, (path, operator, changed) in zip(range(asked.n), mutants(asked.seed), strict=False):
        if k < len(rows):
            continue
        before, start = Path(path).read_text(encoding="utf-8"), time.monotonic()
        diff = [*difflib.unified_diff(before.splitlines(), changed.splitlines(), lineterm="", n=0)][2:]
        alive, said = survives(path, changed, asked.python)
        row = {"k": k, "path": path, "operator": operator, "survived": alive, "diff": diff, "said": said}
        rows.append({**row, "seconds": round(time.monotonic() - start)})
        with asked.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(rows[-1]) + "\n")
        killed = sum(not one["survived"] for one in rows)
        print(f"{killed} of {len(rows)} killed; {path} {'SURVIVED' if alive else 'killed'} {diff}", flush=True)


if __name__ == "__main__":
    main()
