"""The structure of the program, read from its own imports: no arrow runs back up, and only two rooms know an engine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from audit.audits import AUDITS, part_of

ROOT = Path(__file__).resolve().parents[2]

# From the ground up; a module belongs to its longest prefix. It may import from its own layer and from those below.
LAYERS = (
    ("audit.errors", "audit.exits", "audit.records", "audit.config_keys", "audit.verdict",
     "audit.chronology", "audit.printable"),
    ("audit.benchmarks", "audit.prompting", "audit.scoring", "audit.statistics"),
    ("audit.shards",),
    ("audit.engines",),
    ("audit.config", "audit.references", "audit.audits", "audit.plan_cost"),
    ("audit.resolve", "audit.command_line", "audit.panel", "audit.report", "audit.summary", "audit.gate",
     "audit.governance", "audit.evidence", "audit.review", "audit.registry"),
    ("audit.runtime", "audit.variants"),
    ("audit.sweep", "audit.perturb", "audit.memory", "audit.validity"),
    ("audit.plant", "audit.suite", "audit.plan", "audit.calibrate", "audit.calibrate_early", "audit.reanalyze",
     "audit.loading", "audit.compare", "audit.export", "audit.runs",
     "audit.completion", "audit.__main__"),
)  # fmt: skip
SHARED = tuple(prefix for layer in LAYERS[:7] for prefix in layer if prefix != "audit.variants")
RANK = {prefix: rank for rank, layer in enumerate(LAYERS) for prefix in layer}
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "audit").rglob("*.py"))
}


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its head or inside a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


def rank(module: str) -> int | None:
    parts = module.split(".")
    found = (RANK.get(".".join(parts[:n])) for n in range(len(parts), 1, -1))
    return next((r for r in found if r is not None), None)


def test_no_import_runs_back_up() -> None:
    upward = {
        f"{module} imports {other}"
        for module, path in FILES.items()
        for other in imports(path)
        if other.startswith("audit.") and (here := rank(module)) is not None and (rank(other) or 0) > here
    }
    assert not upward
    assert all(rank(module) is not None for module in FILES if module != "audit"), "give the new module a layer"


@pytest.mark.parametrize(("package", "room"), [("ray", "audit.runtime"), ("vllm", "audit.engines")])
def test_one_room_alone_knows(package: str, room: str) -> None:
    users = {m for m, path in FILES.items() if any(i.split(".")[0] == package for i in imports(path))}
    assert users and all(user.startswith(room) for user in users)


def test_the_shared_rooms_know_no_audit() -> None:
    """An audit is looked up by its name (`audits.part_of`), so that a new one is a folder and a word in AUDITS."""
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
    """But `audit.plant`, which runs the sweep, and who lists all audits or quotes a title."""
    named = {
        module
        for module, path in FILES.items()
        if re.search(r"router", path.read_text(encoding="utf-8"), re.IGNORECASE)
    }
    own = tuple(f"audit.{audit}" for audit in (*AUDITS, "plant"))
    assert "audit.sweep.design" in named
    assert {m for m in named if not m.startswith(own)} == {"audit", "audit.__main__", "audit.suite.schema"}


def test_every_audit_has_the_same_files() -> None:
    """Who has read one has read all; `part_of` finds what commands need by its name."""
    names = ("__main__", "audit", "config", "design", "present", "columns", "decide", "words", "vocabulary", "report")
    for audit in AUDITS:
        missing = [name for name in names if f"audit.{audit}.{name}" not in FILES]
        assert not missing and any(module.startswith(f"audit.{audit}.gates") for module in FILES), (audit, missing)
        assert callable(part_of(audit, "report").report_runs) and part_of(audit, "vocabulary").VERDICTS


def test_what_is_refused_first_needs_no_arrays() -> None:
    """NumPy and Arrow take a third of a second of CPU: more than the rest of a refusal but Hydra."""
    code = "import sys, importlib\nfor one in sys.argv[1:]: importlib.import_module(one)\n"
    code += "print(sorted({'numpy', 'pyarrow', 'jsonschema', 'jinja2'} & set(sys.modules)))"
    names = [f"audit.{audit}.__main__" for audit in AUDITS]
    out = subprocess.run([sys.executable, "-c", code, *names], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"


LIGHT = [
    ["audit.sweep", "--help"],
    ["audit.plan", "--help"],
    ["audit.gate", "--help"],
    ["audit.report", "--help"],
    ["audit.review", "--help"],
    ["audit.registry", "--help"],
    ["audit.compare", "--help"],
    ["audit.export", "--help"],
    ["audit.sweep", "r=9..1"],
    ["audit.sweep", "verdict.alpha=2"],
    ["audit.sweep", "model=scripted", "benchmark=mcq_file", "benchmark.path=nowhere.jsonl"],
    ["audit.plan", "model=scripted", "n=10"],
    ["audit.calibrate", "audit=perturb", "--help"],
    ["audit.perturb", "--help"],
    ["audit.perturb", "model=scripted", "variants=nowhere"],
    ["audit.plan", "audit=perturb", "model=scripted", "n=10"],
    ["audit.validity", "--help"],
    ["audit.validity", "model=scripted", "formats=[lower_case]"],
    ["audit.validity", "model=scripted", "edits=show", "n=4"],
    ["audit.validity", "model=scripted", "benchmark=bbq", "judge=scripted"],
    ["audit.plan", "audit=memory", "model=scripted"],
    ["audit.suite", "--help"],
    ["audit.suite", "demo", "model_version=latest"],
    ["audit.plant", "--help"],
    ["audit.plant", "model=scripted"],
    ["audit.plant", "plan=true", "n=30"],
]


@pytest.mark.parametrize("words", LIGHT, ids=" ".join)
def test_what_starts_nothing_loads_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    code = (
        "import runpy, sys; module, *sys.argv[1:] = sys.argv[1:]\n"
        "try: runpy.run_module(module, run_name='__main__', alter_sys=True)\n"
        "except SystemExit: pass\n"
        "heavy = {'ray', 'vllm', 'torch', 'matplotlib', 'transformers', 'openai'}\n"
        "heavy |= {'scipy.stats'} if '--help' in sys.argv else set()\n"
        "found = sorted(heavy & set(sys.modules))\n"
        "print('heavy:', found, file=sys.stderr)"
    )
    env = {"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.stderr.endswith("heavy: []\n"), done.stderr[-2000:]
    assert "Traceback" not in done.stderr
