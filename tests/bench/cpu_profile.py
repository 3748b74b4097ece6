"""`cd tests && CPU_PROFILE=cpu.jsonl python -m pytest -p bench.cpu_profile unit`: CPU seconds of
each test and fixture.

A line of JSON each, as it ends: seconds of this process and of its ended children. A busy machine
lengthens them less than the clock. Ray's processes are no children: they count where
CPU_PROFILE_USAGE names the file of a control group's CPU time in nanoseconds, such as
/sys/fs/cgroup/cpuacct/tests/cpuacct.usage, and pytest was started in that group."""

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest


def _cpu_s() -> float:
    if usage := os.environ.get("CPU_PROFILE_USAGE"):
        return int(Path(usage).read_text()) / 1e9
    return sum(os.times()[:4])


def _note(kind: str, name: str, before: float) -> None:
    with Path(os.environ["CPU_PROFILE"]).open("a") as file:
        file.write(
            json.dumps({"kind": kind, "name": name, "cpu_s": round(_cpu_s() - before, 2)}) + "\n"
        )


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Generator[None]:
    before = _cpu_s()
    yield
    if fixturedef.scope != "function":
        _note("fixture", f"{request.node.nodeid}:{fixturedef.argname}", before)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None]:
    before = _cpu_s()
    yield
    _note("test", item.nodeid, before)
