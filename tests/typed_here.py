"""Commands as typed into a shell, without a new process for each: one costs a second of the
processor or more."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from audit.__main__ import main
from audit.core.exits import run_command


@dataclass
class Typed:
    """What a command came to: its exit code, and what it wrote to stdout and stderr."""

    code: int
    out: str
    err: str


def typed(*words: str, folder: Path | None = None) -> Typed:
    """`audit WORDS` in this process, from a folder."""
    out, err, heeded = io.StringIO(), io.StringIO(), signal.getsignal(signal.SIGTERM)
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        patch.setattr(sys, "argv", ["audit", *words])
        if folder is not None:
            patch.chdir(folder)
        try:
            run_command(lambda: main(words))
        finally:
            GlobalHydra.instance().clear()
            signal.signal(signal.SIGTERM, heeded)
    code = ended.value.code
    return Typed(
        code if isinstance(code, int) else int(code is not None), out.getvalue(), err.getvalue()
    )


# What nearly every command loads, once; a child of it goes on from there.
_FORKS = """
import json, os, sys, tempfile, traceback
import hydra, jinja2, numpy, omegaconf, pyarrow, yaml
import audit.config.command_line, audit.config.base

code, jobs = json.load(sys.stdin)
for words, env in jobs:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            os.environ.update(env)
            sys.argv = ["-c", *words]
            try:
                exec(code, {"__name__": "__main__"})
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        os.waitpid(child, 0)
        print(json.dumps([(out.seek(0), out.read().decode())[1], (err.seek(0), err.read().decode())[1]]), flush=True)
"""


def forked(
    code: str, jobs: Sequence[tuple[Sequence[str], dict[str, str]]], folder: Path
) -> list[tuple[str, str]]:
    """(stdout, stderr) of `python -c CODE WORDS` with more variables in its environment, each in a
    process of its own.

    All are children of one, which has loaded Hydra, NumPy and how `audit` composes a configuration.
    """
    env = {"PYTHONPATH": str(Path(__file__).resolve().parents[1]), "PATH": "", "HOME": str(folder)}
    env |= {name: os.environ[name] for name in ("PYTHONDONTWRITEBYTECODE",) if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", _FORKS],
        input=json.dumps([code, jobs]),
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def built_wheel(folder: Path, source: Path) -> Path:
    """Build the wheel of a checkout into a folder."""
    words = ["hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=source, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel
