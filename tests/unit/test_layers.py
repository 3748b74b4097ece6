"""The structure of the program, read from its own imports: no arrow runs back up, and only two
rooms know an engine."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typed_here import forked

from audit.config.audits import AUDITS, part_of
from audit.core.package_data import shipped_table
from audit.judge.record import Judge
from audit.judge.report import Report
from audit.report.joint import SUITE_TABLE

ROOT = Path(__file__).resolve().parents[2]

# From the ground up; a module belongs to its longest prefix. It may import from its own layer and
# from those below.
LAYERS = (
    ("audit.core",),
    ("audit.benchmarks", "audit.statistics"),
    ("audit.scoring", "audit.shards"),
    ("audit.engines",),
    ("audit.config",),
    ("audit.judging",),
    ("audit.report", "audit.export"),
    ("audit.governance",),
    ("audit.registry", "audit.judge"),
    ("audit.runtime", "audit.variants"),
    ("audit.sweep", "audit.perturb", "audit.memory", "audit.validity"),
    ("audit.plant", "audit.suite", "audit.imports", "audit.papers"),
    ("audit.commands", "audit.api"),
    ("audit.__main__",),
)
SHARED = tuple(prefix for layer in LAYERS[:10] for prefix in layer if prefix != "audit.variants")
RANK = {prefix: rank for rank, layer in enumerate(LAYERS) for prefix in layer}
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "audit").rglob("*.py"))
}


@cache
def nodes(path: Path, *kinds: type[ast.AST]) -> list[Any]:
    return [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, kinds)
    ]


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its head or inside a function."""
    for node in nodes(path, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module is not None:
            yield node.module
            yield from (
                name for alias in node.names if (name := f"{node.module}.{alias.name}") in FILES
            )


def rank(module: str) -> int | None:
    parts = module.split(".")
    ranks = (RANK.get(".".join(parts[:n])) for n in range(len(parts), 1, -1))
    return next((r for r in ranks if r is not None), None)


def test_no_import_runs_back_up() -> None:
    upward = {
        f"{module} imports {other}"
        for module, path in FILES.items()
        for other in imports(path)
        if other.startswith("audit.")
        and (here := rank(module)) is not None
        and (rank(other) or 0) > here
    }
    assert not upward
    assert all(rank(module) is not None for module in FILES if module != "audit"), (
        "give the new module a layer"
    )


def room(module: str) -> str:
    """The first package under audit, or the top-level module; what starts a package is a room above
    it."""
    return module if module.endswith(".__main__") else ".".join(module.split(".")[:2])


def test_no_two_rooms_import_each_other() -> None:
    """However long the way round, and wherever the imports stand: the rooms can be read one after
    the other."""
    below: dict[str, set[str]] = {}
    for module, path in FILES.items():
        targets = {room(other) for other in imports(path) if other.startswith("audit.")}
        below.setdefault(room(module), set()).update(targets - {room(module)})
    try:
        TopologicalSorter(below).prepare()
    except CycleError as error:
        pytest.fail(f"these rooms import each other: {' <- '.join(error.args[1])}")


def test_no_circle_inside_a_room() -> None:
    """Modules can be read one after the other too. A package that is named only on the way to its
    modules is not imported."""
    below: dict[str, set[str]] = {}
    for module, path in FILES.items():
        below[module] = set()
        for node in nodes(path, ast.Import, ast.ImportFrom):
            if isinstance(node, ast.Import):
                below[module].update(alias.name for alias in node.names)
                continue
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                below[module].add(name if name in FILES else str(node.module))
        below[module] &= FILES.keys() - {module}
    try:
        TopologicalSorter(below).prepare()
    except CycleError as error:
        pytest.fail(f"these modules import each other: {' <- '.join(error.args[1])}")


def test_no_import_hides_in_a_string() -> None:
    """A name of ours given to import_module is an arrow that the other tests do not see."""
    hidden = {}
    for module, path in FILES.items():
        for node in nodes(path, ast.Call):
            if getattr(node.func, "attr", getattr(node.func, "id", "")) in (
                "import_module",
                "__import__",
            ):
                texts = [
                    constant.value
                    for constant in ast.walk(node)
                    if isinstance(constant, ast.Constant)
                ]
                if any(str(text).startswith("audit") for text in texts):
                    hidden[module] = ast.unparse(node)
    # `audits.part_of` finds a part of an audit by the name of its package, which may be anybody's.
    assert not hidden


@pytest.mark.parametrize(("package", "room"), [("ray", "audit.runtime"), ("vllm", "audit.engines")])
def test_one_room_alone_knows(package: str, room: str) -> None:
    users = {
        m for m, path in FILES.items() if any(i.split(".")[0] == package for i in imports(path))
    }
    assert users and all(user.startswith(room) for user in users)


def test_the_shared_rooms_know_no_audit() -> None:
    """An audit is looked up by its name (`audits.part_of`), so that a new one is a folder and a
    word in AUDITS."""
    folders = tuple(f"audit.{path.parent.name}" for path in (ROOT / "audit").glob("*/audit.py"))
    assert {"audit.sweep", "audit.perturb"} <= set(folders)
    known = {
        f"{module} imports {other}"
        for module, path in FILES.items()
        if module.startswith(SHARED)
        for other in imports(path)
        if other.startswith(folders)
    }
    assert not known


def test_the_shared_rooms_and_commands_name_no_routers() -> None:
    """But `audit.plant`, which runs the sweep, the sweep's paper, and who lists all audits or
    quotes a title."""
    named = {
        module
        for module, path in FILES.items()
        if re.search(r"router", path.read_text(encoding="utf-8"), re.IGNORECASE)
    }
    exempt = tuple(f"audit.{audit}" for audit in (*AUDITS, "plant", "papers.song2026"))
    assert "audit.sweep.design" in named
    assert {m for m in named if not m.startswith(exempt)} == {
        "audit",
        "audit.api",
        "audit.commands",
        "audit.suite.schema",
        "audit.suite.calibrate",
        "audit.suite.worlds",
        "audit.report.sensitivity",
    }


def test_every_audit_has_the_same_files() -> None:
    """Who has read one has read all; `part_of` finds what commands need by its name."""
    names = (
        "__main__",
        "audit",
        "config",
        "design",
        "analyse",
        "evidence",
        "decide",
        "vocabulary",
        "report",
        "page",
    )
    for audit in AUDITS:
        missing = [name for name in names if f"audit.{audit}.{name}" not in FILES]
        assert not missing and any(module.startswith(f"audit.{audit}.gates") for module in FILES), (
            audit,
            missing,
        )
        assert isinstance(part_of(audit, "analyse").JUDGE, Judge) and isinstance(
            part_of(audit, "report").REPORT, Report
        )
        assert (
            callable(part_of(audit, "report").REPORT.of_runs)
            and part_of(audit, "vocabulary").VERDICTS
        )
        assert callable(part_of(audit, "plan").planned)
        assert (
            part_of(audit, "vocabulary").INSTRUMENT.audit
            == part_of(audit, "analyse").RunVerdict.audit
            == audit
        )


def test_calibration_tables_have_one_form_and_one_writer() -> None:
    """An audit hands in what is simulated; only `audit.judging.simulated` draws, counts, parses
    options and writes."""
    calibrations = [part_of(audit, "calibrate") for audit in AUDITS]
    for module in (*calibrations, import_module("audit.suite.calibrate")):
        assert callable(module.procedures) and not hasattr(module, "main"), module.__name__
        text = FILES[module.__name__].read_text(encoding="utf-8")
        assert not re.search(r"import json|ArgumentParser\(|default_rng\(\[", text), module.__name__
    for name in (*(part_of(audit, "analyse").JUDGE.shipped for audit in AUDITS), SUITE_TABLE):
        table = shipped_table(name)
        assert isinstance(table["seed"], int) and table["designs"], name
        assert all("design" in entry for entry in table["designs"]), name


def test_what_is_refused_first_needs_no_arrays() -> None:
    """NumPy and Arrow take a third of a second of CPU: more than the rest of a refusal but
    Hydra."""
    code = "import sys, importlib\nfor one in sys.argv[1:]: importlib.import_module(one)\n"
    code += "print(sorted({'numpy', 'pyarrow', 'jsonschema', 'jinja2'} & set(sys.modules)))"
    names = ["audit.__main__", *(f"audit.{audit}.__main__" for audit in AUDITS)]
    out = subprocess.run(
        [sys.executable, "-c", code, *names], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert out.stdout == "[]\n"


LIGHT = [
    ["audit.sweep", "--help"],
    ["audit", "plan", "--help"],
    ["audit", "gate", "--help"],
    ["audit", "report", "--help"],
    ["audit", "review", "--help"],
    ["audit", "registry", "--help"],
    ["audit", "--help"],
    ["audit", "compare", "--help"],
    ["audit", "export", "--help"],
    ["audit", "watch", "--help"],
    ["audit", "open", "--help"],
    ["audit.sweep", "r=9..1"],
    ["audit.sweep", "verdict.alpha=2"],
    ["audit.sweep", "model=scripted", "benchmark=mcq_file", "benchmark.path=nowhere.jsonl"],
    ["audit", "plan", "model=scripted", "n=10"],
    ["audit", "calibrate", "audit=perturb", "--help"],
    ["audit.perturb", "--help"],
    ["audit.perturb", "model=scripted", "variants=nowhere"],
    ["audit", "plan", "audit=perturb", "model=scripted", "n=10"],
    ["audit.validity", "--help"],
    ["audit.validity", "model=scripted", "formats=[lower_case]"],
    ["audit.validity", "model=scripted", "edits=show", "n=4"],
    ["audit.validity", "model=scripted", "benchmark=bbq", "judge=scripted"],
    ["audit", "plan", "audit=memory", "model=scripted"],
    ["audit", "suite", "--help"],
    ["audit", "suite", "demo", "model_version=latest"],
    ["audit.plant", "--help"],
    ["audit.plant", "model=scripted"],
    ["audit.plant", "plan=true", "n=30"],
]


def test_what_starts_nothing_loads_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import runpy, sys; module, *sys.argv[1:] = sys.argv[1:]\n"
        "try: runpy.run_module(module, run_name='__main__', alter_sys=True)\n"
        "except SystemExit: pass\n"
        "heavy = {'ray', 'vllm', 'torch', 'matplotlib', 'transformers', 'openai'}\n"
        "heavy |= {'scipy.stats'} if '--help' in sys.argv else set()\n"
        "found = sorted(heavy & set(sys.modules))\n"
        "print('heavy:', found, file=sys.stderr)"
    )
    results = forked(code, [(words, {}) for words in LIGHT], tmp_path)
    for words, (_, text) in zip(LIGHT, results, strict=True):
        assert text.endswith("heavy: []\n") and "Traceback" not in text, (words, text[-2000:])
