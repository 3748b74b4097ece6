"""A small finished run, copies of it that say other things, and a registry of its own for every
test."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from governed import keys, rewrite
from servers_here import free_port

from audit.judging.decision import words
from audit.registry.database import Registry, open_registry

sys.path.insert(0, str(Path(__file__).parent))

from registered_runs import make_run

__all__ = ["keys"]


@pytest.fixture(scope="session")
def built_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """To be read only."""
    return make_run(tmp_path_factory.mktemp("registered") / "run")


@pytest.fixture
def edited_run(built_run: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the run that says other things: edited_run("b", manifest={...}, verdict={...},
    cell={...}, suite={...})."""

    def tell(
        name: str = "run",
        manifest: dict[str, Any] | None = None,
        verdict: dict[str, Any] | None = None,
        cell: dict[str, Any] | None = None,
        suite: dict[str, Any] | None = None,
    ) -> Path:
        folder = Path(shutil.copytree(built_run, tmp_path / name))
        rewrite(folder / "manifest.json", lambda plain: plain.update(manifest or {}))
        rewrite(folder / "report" / "verdict.json", lambda plain: plain.update(verdict or {}))
        fields = dict(cell or {})
        if fields.get("verdict") in words():
            fields["grade"] = str(words()[fields["verdict"]].grade)
        rewrite(folder / "report" / "verdict.json", lambda plain: plain["cells"][0].update(fields))
        if suite is not None:
            (folder / "suite.json").write_text(json.dumps(suite))
        return folder

    return tell


@pytest.fixture
def place(tmp_path: Path) -> list[str]:
    """The words that name the registry of the test."""
    return ["--registry", str(tmp_path / "registry.db")]


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return open_registry(str(tmp_path / "registry.db"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL of this test's own; skipped by name where its server is not
    installed."""
    paths = [*sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres")), shutil.which("postgres")]
    paths = [Path(path) for path in paths if path]
    if not paths:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt-get install postgresql)")
    bin_ = paths[-1].resolve().parent
    as_user: dict[str, Any] = {}
    folder = Path(
        tempfile.mkdtemp(prefix="audit-pg-")
    )  # pytest's own folders are closed to the server's user
    if os.geteuid() == 0:  # it refuses to run as root
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_user = {"user": user.pw_uid, "group": user.pw_gid}
    port = free_port()
    data = folder / "data"
    run = {"cwd": folder, "check": True, "capture_output": True, "timeout": 120, **as_user}
    subprocess.run(
        [bin_ / "initdb", "-D", data, "-U", "audits", "-A", "trust", "-N", "-E", "UTF8"], **run
    )
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    subprocess.run(
        [bin_ / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start"], **run
    )
    try:
        yield f"postgresql://audits@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([bin_ / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **run)
        shutil.rmtree(folder)
