"""Is a benchmark score ability, or memory of the exam? Audits with measured error rates, on one data flow.

    question -> presentations -> engine -> answer -> score -> Arrow shard -> statistics -> verdict -> report

AGENTS.md says what is in which room. The audits are sweep (router-worker), perturb (rewordings), memory (likelihoods,
held-out items) and validity (edits with contracts): one folder each, with the same file names. A command finds an audit
by its name: `audits.part_of`.

The public API: `run` an audit, `load` a run, `find_runs` in a folder; their errors are `errors.AuditError`.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from audit.loading import Run, RunEntry

__all__ = ["find_runs", "load", "run"]

# Before numpy is imported. Matrices here are small: a second thread spins more than it works (4 times the CPU).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if sys.version_info < (3, 11) or find_spec("omegaconf") is None:  # a sentence, or of an import an ImportError
    raise (SystemExit if Path(sys.argv[0]).name in ("-m", "audit") else ImportError)(
        f"error: {sys.executable} is Python {sys.version.split()[0]}. Expected 3.11 or later with this program's "
        "packages: in a checkout 'make install', then .venv/bin/python -m audit; elsewhere pip install benchmark-audit."
    )


def load(run_dir: Path | str) -> Run:
    """The run in a directory, as tables (`audit.loading.Run`)."""
    from audit.loading import load as found

    return found(run_dir)


def find_runs(folder: Path | str = "outputs") -> list[RunEntry]:
    """Every run in a folder, latest first (`audit.loading.RunEntry`)."""
    from audit.loading import find_runs as found

    return found(folder)


def run(audit: str, **options: Any) -> Run:
    """Run (or resume) an audit in this process, as the command does, and load it (`audit.loading.Run`).

    audit: sweep, perturb, memory or validity. options: the command's, such as model="qwen3_8b", n=200, r="1..3",
    references=["a", "b"]; a mapping sets what is below a key, as benchmark={"path": "exam.csv"} does. Raises
    ConfigError for what the command refuses, AuditError where no model finished.
    """
    from audit.audits import part_of
    from audit.command_line import configured
    from audit.errors import AuditError, ConfigError
    from audit.loading import load as found
    from audit.plain_words import words

    if options.get("plan"):
        raise ConfigError(f"plan=True gives no run. Expected the command: audit {audit} plan=true ...")
    config = configured(audit, list(words(options)))
    code = getattr(part_of(audit, "__main__"), audit)(config)
    if config.run_dir is None:
        raise AuditError(f"audit.run({audit!r}) ended with exit code {code} and no run; the reason is printed above.")
    return found(config.run_dir)
