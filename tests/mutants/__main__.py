"""Do the unit tests bite? A random sample of one-token mutants of what decides, each with the tests
that know it.

    python -m venv /tmp/mutants && /tmp/mutants/bin/pip install cosmic-ray==8.7.0
    echo PATH/.venv/lib/python3.11/site-packages > /tmp/mutants/lib/python3.11/site-packages/ours.pth
    git clone . /tmp/mutated && cd /tmp/mutated       # files are changed in place: run it in a copy
    PYTHONPATH=. /tmp/mutants/bin/python -m tests.mutants --n 150 --out mutants.jsonl

A place is drawn at random, then one of cosmic-ray's mutations of it; what changes nothing but an
annotation does not count. Each mutant meets the test files that import its module (of its own
folder, where none does), until one fails. A line of JSON a mutant: killed or survived, and its
diff. A time-out counts as killed: a test that ends within its seconds on the program as it is, and
not within ten times as many on the mutant. The same command goes on where it stopped; with
`--again` it asks the survivors by slow tests and by all of their folder."""

import argparse
import ast
import difflib
import importlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOMS, FILES = ("statistics", "verdict", "scoring", "shards"), ("decide.py", "gates.py")
TESTS = Path("tests/unit")
# A test that takes longer is skipped, as simulations do: a survivor is asked again, with more. All
# tests together take no longer than the last.
SLOW_CPU_S, AGAIN_CPU_S, SLOWEST_CPU_S = 3.0, 60.0, 900
CUT = "cut off: "
ENDLESS = 10  # times as long as a test that ended may take
# Imported once, as the tests of a mutant are mostly imports.
PRELOADED = (
    "pyarrow.dataset",
    "pyarrow.parquet",
    "scipy.stats",
    "hydra",
    "statsmodels.api",
    "hypothesis",
    "jsonschema",
)


def modules() -> list[Path]:
    paths = {
        p for room in ROOMS for p in Path("audit", room).rglob("*.py") if p.name != "__init__.py"
    }
    return sorted(paths.union(*(Path("audit").glob(f"*/{name}") for name in FILES)))


def places() -> dict[tuple[str, tuple[int, int]], list[tuple[str, int]]]:
    """(module, position) -> the mutations of that place: (operator, occurrence)."""
    mutations: dict[tuple[str, tuple[int, int]], list[tuple[str, int]]] = defaultdict(list)
    operators = [(name, get_operator(name)) for name in operator_names()]
    for path in modules():
        tree = get_ast_from_path(path)
        for name, operator in operators:
            if operator.arguments():
                continue
            at = (
                start
                for node in ast_nodes(tree)
                for start, _ in operator().mutation_positions(node)
            )
            for k, start in enumerate(at):
                mutations[str(path), start].append((name, k))
    return mutations


def mutants(seed: int) -> Iterator[tuple[str, str, str]]:
    """(module, operator, mutated text) in random order, without those that change an annotation
    alone."""
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


def tests_of(path: str, all_of_folder: bool = False) -> list[str]:
    """Those that import the module, of its own folder first; else those called after it. Then all
    of its folder."""
    dotted = path.removesuffix(".py").replace("/", ".")
    package, name = dotted.rsplit(".", 1)
    wanted = (f"from {dotted} import", f"from {package} import {name}", f"import {dotted}")
    texts = {p: p.read_text(encoding="utf-8") for p in TESTS.rglob("test_*.py")}
    matches = [p for p, text in texts.items() if any(module in text for module in wanted)]
    folder = TESTS / package.split(".")[1]
    matches = matches or [*folder.glob("test_*.py")] or [*TESTS.rglob(f"test_*{name}*.py")]
    ordered = sorted(matches, key=lambda p: (p.parent != folder, p.name))
    return [
        str(p)
        for p in dict.fromkeys(
            [*ordered, *(sorted(folder.glob("test_*.py")) if all_of_folder else ())]
        )
    ]


def survives(path: str, changed: str, tests: list[str], slow_s: float) -> tuple[bool, str]:
    """Whether every test passes on the changed module, and the first that does not, or "no end"."""
    alive, message, cut = _meet(path, changed, tests, slow_s)
    if alive and cut:
        *_, slow = _meet(path, Path(path).read_text(encoding="utf-8"), cut, slow_s)
        if quick := [test for test in cut if test not in slow]:
            alive, message, endless = _meet(path, changed, quick, ENDLESS * slow_s)
            return (False, "no end") if endless else (alive, message)
    return alive, message


def _meet(path: str, changed: str, tests: list[str], slow_s: float) -> tuple[bool, str, list[str]]:
    """As `survives`, with the tests that were cut off after `slow_s`. The module is put back."""
    module = Path(path)
    before = module.read_bytes()
    with tempfile.TemporaryFile() as output:
        try:
            module.write_text(changed, encoding="utf-8")
            child = os.fork() or _ask(tests, output.fileno(), slow_s)
            _, status = os.waitpid(child, 0)
        finally:
            module.write_bytes(before)
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return False, "no end", []
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1, 2):  # 2: the module does not even load
        raise RuntimeError("\n".join([f"pytest ended with {code}", *lines]))
    first = next((line for line in lines if line.startswith(("FAILED", "ERROR"))), lines[-1])
    return code == 0, first, [line.removeprefix(CUT) for line in lines if line.startswith(CUT)]


class Hurry:
    """Gives a test so many seconds of CPU, and says at the end which took more."""

    def __init__(self, slow_s: float) -> None:
        self.slow_s, self.asked, self.cut = slow_s, "", dict[str, None]()

    def stop(self, *_: object) -> NoReturn:
        self.cut[self.asked] = None
        pytest.skip("slow")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.asked = item.nodeid
        signal.setitimer(signal.ITIMER_PROF, self.slow_s, self.slow_s)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def _ask(tests: list[str], out: int, slow_s: float) -> NoReturn:
    """In a child, which has what `PRELOADED` names from its parent, and no module of the
    program."""
    os.dup2(out, 1)
    os.dup2(out, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (SLOWEST_CPU_S, SLOWEST_CPU_S + 10))
    hurry = Hurry(slow_s)
    signal.signal(signal.SIGPROF, hurry.stop)
    options = ["-x", "-q", "--no-header", "--tb=no", "--disable-warnings", "-o", "timeout=0"]
    code = int(pytest.main([*options, *tests], plugins=[hurry]))
    print(*(f"\n{CUT}{test}" for test in hurry.cut), sep="")
    sys.stdout.flush()
    os._exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--n", type=int, default=150)
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument(
        "--again", action="store_true", help="the survivors in --out, by all tests of their folder"
    )
    arguments = parser.parse_args()
    for name in PRELOADED:
        importlib.import_module(name)
    sys.dont_write_bytecode = True
    lines = arguments.out.read_text(encoding="utf-8").splitlines() if arguments.out.exists() else []
    rows: dict[int, dict[str, Any]] = {row["k"]: row for row in map(json.loads, lines)}
    for k, (path, operator, changed) in zip(
        range(arguments.n), mutants(arguments.seed), strict=False
    ):
        if (k in rows) != arguments.again or (arguments.again and not rows[k]["survived"]):
            continue
        before, start = Path(path).read_text(encoding="utf-8"), time.monotonic()
        diff = [*difflib.unified_diff(before.splitlines(), changed.splitlines(), lineterm="", n=0)][
            2:
        ]
        tests = tests_of(path, all_of_folder=arguments.again)
        alive, message = survives(
            path, changed, tests, AGAIN_CPU_S if arguments.again else SLOW_CPU_S
        )
        row = {
            "k": k,
            "path": path,
            "operator": operator,
            "survived": alive,
            "diff": diff,
            "said": message,
        }
        rows[k] = {**row, "seconds": round(time.monotonic() - start)}
        with arguments.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(rows[k]) + "\n")
        killed = sum(not mutant["survived"] for mutant in rows.values())
        print(
            f"{killed} of {len(rows)} killed; {path} {'SURVIVED' if alive else 'killed'} {diff}",
            flush=True,
        )


if __name__ == "__main__":
    main()
