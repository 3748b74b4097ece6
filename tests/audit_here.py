"""An audit in this process: starting the command anew costs ten seconds a time."""

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import audit.registry.commands  # noqa: F401  it takes svg_text by name, which must not be that of `undrawn`
from audit.config.audits import part_of
from audit.config.command_line import configured
from audit.core.exits import lines, plainly
from audit.report import canvas

# The smallest design, which tests count the rows of; the defaults are those of a verdict.
SMALL = (
    "n=100",
    "draws=independent",
    "ensemble_control=false",
    "clean_replicates=1",
    "noisy_replicates=1",
)


@dataclass
class Finished:
    """An audit that ran in this process, as the command would have: exit code and what it
    printed."""

    code: int
    out: str
    run_dir: Path


def heard(work: Callable[[], int]) -> tuple[int, str]:
    """(what it returns, what it printed)."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = work()
    return code, out.getvalue()


@contextlib.contextmanager
def undrawn() -> Iterator[None]:
    """Reports without drawings: they take seconds, and few tests are about them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canvas, "svg_text", lambda figure: '<svg viewBox="0 0 1 1"></svg>')
        patch.setattr(canvas, "png_bytes", lambda figure: b"")
        yield


def audit_here(audit: str, run_dir: Path | str, *words: str) -> Finished:
    """As `python -m audit.<audit>` with these words, on the Ray that this process has."""

    def run() -> int:
        return int(
            getattr(part_of(audit, "__main__"), audit)(
                configured(audit, [f"run_dir={run_dir}", *words])
            )
        )

    return Finished(*heard(plainly(run, lines)), run_dir)


def sweep_here(
    *overrides: str, run_dir: Path, model: str = "scripted", report: bool = False
) -> Finished:
    """On the embedded questions where no others are named. model: "" where a word names an
    endpoint."""
    words = [*([f"model={model}"] if model else []), f"report={report}".lower(), *SMALL, *overrides]
    named = any(word.startswith(("benchmark=", "data=")) for word in words)
    return audit_here("sweep", run_dir, *([] if named else ["benchmark=elementary"]), *words)
