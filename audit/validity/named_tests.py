"""named_tests=true: the tests that the program's chronology names, run once, and their ends kept beside the shards.

G6 asks that a fix be guarded by a test. That a test is there `audit.chronology check` sees; that it passes is seen
here: one subprocess of pytest for all of them, from the checkout. An installed package has no tests, and then nothing
is run and the gate says so. What a report reads is RUN_DIR/named_tests.json.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

from audit.chronology import Chronology, checkout, project_chronology
from audit.errors import ShardError
from audit.shards.files import write_file
from audit.validity.result import NamedTests

FILE = "named_tests.json"
LIMIT_S = 600.0  # they take about a minute of one core


def run_named_tests(run_dir: Path) -> NamedTests:
    """Of the program's own chronology; kept in the run's directory. What all passed there already is not run again."""
    chronology, root = project_chronology(), checkout()
    path = run_dir / FILE
    if path.is_file():
        before = read_named_tests(run_dir)
        if before is not None and set(before.states) == set(chronology.tests) and not before.ended("failed"):
            return before
    found = (
        NamedTests({}, "an installed package has no tests; run from a source checkout")
        if root is None
        else run_tests(chronology, root)
    )
    write_file(path, (json.dumps(asdict(found), indent=1) + "\n").encode())
    return found


def run_tests(chronology: Chronology, root: Path, limit_s: float = LIMIT_S) -> NamedTests:
    """The named tests below root/tests in one pytest. A test that no file has is missing, and not run."""
    where: dict[str, str] = {}
    for name in chronology.tests:
        file, test = name.split("::")
        for path in sorted((root / "tests").rglob(file)):
            if re.search(rf"^\s*(?:async )?def {test}\(", path.read_text(encoding="utf-8"), re.MULTILINE):
                where[name] = f"{path.relative_to(root)}::{test}"
    states = dict.fromkeys(chronology.tests, "missing")
    if not where:
        return NamedTests(states)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "junit.xml"
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        started = subprocess.Popen(
            [*words, *where.values()], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | {"PYTHONPATH": str(root)}, start_new_session=True,
        )  # fmt: skip
        try:
            said, _ = started.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()
            return NamedTests({}, f"they took longer than {limit_s:g} s")
        if not report.is_file():
            return NamedTests({}, f"pytest could not run them: {said.strip().splitlines()[-1:] or 'it said nothing'}")
        ended = _ended(report)
    return NamedTests(states | {name: ended.get(name, "not collected") for name in where})


def _ended(report: Path) -> dict[str, str]:
    """test_file.py::test_name -> how it ended, in its worst case of parameters."""
    found: dict[str, str] = {}
    order = ("skipped", "passed", "failed")
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - written by pytest a moment ago
        name = f"{case.get('classname', '').split('.')[-1]}.py::{case.get('name', '').split('[')[0]}"
        tags = {child.tag for child in case}
        state = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
        found[name] = max(found.get(name, state), state, key=order.index)
    return found


def read_named_tests(run_dir: Path) -> NamedTests | None:
    """What was kept; None where it was not asked for. ShardError for a file that cannot be read."""
    path = run_dir / FILE
    if not path.is_file():
        return None
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return NamedTests({str(k): str(v) for k, v in raw["states"].items()}, str(raw["why"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ShardError(f"{path} cannot be read ({error}). Delete it, and type the run's command again.") from None


def of_runs(run_dirs: Iterable[Path]) -> NamedTests | None:
    """Of several runs together: a test that failed for one has failed."""
    found = [one for one in map(read_named_tests, run_dirs) if one is not None]
    if not found:
        return None
    states: dict[str, str] = {}
    for one in found:
        states |= {name: state for name, state in one.states.items() if states.get(name) != "failed"}
    return NamedTests(states, next((one.why for one in found if one.why), ""))
