"""A sweep in this process: starting the command anew costs ten seconds a time."""

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path

from hydra import compose, initialize_config_dir

from audit.command_line import hydra_arguments, run_composed
from audit.config import CONF_DIR
from audit.short_forms import expand
from audit.sweep.__main__ import sweep
from audit.sweep.config import SweepConfig, from_hydra

# The smallest design, which tests count the rows of; the defaults are those of a verdict.
SMALL = ("n=100", "draws=independent", "ensemble_control=false", "clean_replicates=1", "noisy_replicates=1")


@dataclass
class Finished:
    """A sweep that ran in this process, as the command would have: exit code and what it printed."""

    code: int
    out: str
    run_dir: Path


def sweep_here(*overrides: str, run_dir: Path, model: str = "scripted", report: bool = False) -> Finished:
    """As `python -m audit.sweep` with these words, on the Ray that this process has; on the embedded questions where no
    others are named. model: "" where a word names an endpoint."""
    out = io.StringIO()
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF_DIR)):
        words = [f"run_dir={run_dir}", f"report={report}".lower(), *SMALL, *overrides]
        words = [f"model={model}", *words] if model else words
        named = any(word.startswith(("benchmark=", "data=")) for word in words)
        words, notes = expand(words if named else ["benchmark=elementary", *words], "sweep")
        cfg = compose("sweep", hydra_arguments(words, SweepConfig))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        print(*notes, sep="\n")
        code = run_composed(cfg, from_hydra, sweep)
    return Finished(code, out.getvalue(), run_dir)
