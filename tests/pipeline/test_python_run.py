"""`audit.run` in a process of its own, as a notebook has it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from notebook_cells import NOTEBOOKS, ROOT

import audit
from audit.errors import ConfigError


def test_the_first_audit_of_a_notebook(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]), "RAY_AUTH_MODE": "disabled"}
    for name in ("RAY_ADDRESS", "AUDIT_REGISTRY"):
        env.pop(name, None)
    words = [sys.executable, "-m", "notebook_cells", str(NOTEBOOKS / "first_audit.ipynb")]
    with tempfile.TemporaryDirectory(prefix="r-", dir="/tmp") as place:  # Ray's sockets lie here: short paths
        env["RAY_TMPDIR"] = place
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        own = Path(place, f"ray-{os.getuid()}")  # no other user of the machine is let into it
        assert list(own.glob("ray/session_*")) and own.stat().st_mode & 0o777 == 0o700
    assert audit.load(tmp_path / "first_audit").manifest.status == "finished"
    assert (tmp_path / "first_audit" / "report" / "report.html").is_file()


def test_what_the_command_refuses_is_an_exception() -> None:
    with pytest.raises(ConfigError, match="modle"):
        audit.run("sweep", modle="scripted")
    with pytest.raises(ConfigError, match="audit sweep plan=true"):
        audit.run("sweep", model="scripted", plan=True)
    with pytest.raises(ConfigError, match="sweeep"):
        audit.run("sweeep")
    with pytest.raises(AttributeError, match=r"audit\.run\('sweep'"):
        audit.__getattr__("sweep")
