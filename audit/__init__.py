"""Is a benchmark score ability, or memory of the exam? Audits with measured error rates, on one
data flow.

    question -> presentations -> engine -> answer -> score -> Arrow shard -> statistics -> verdict
    -> report

AGENTS.md says what is in which room. The audits are sweep (router-worker), perturb (rewordings),
memory (likelihoods, held-out items) and validity (edits with contracts): one folder each, with the
same file names. A command finds an audit by its name: `audits.part_of`.

The public API is `audit.api`: `run_sweep` and the others run an audit, `import_logs` reads finished
evaluations, `load` reads a run, `gate` decides on it, `compare` compares two, `find_runs` lists a
folder."""

from __future__ import annotations

import os as _os
import sys as _sys
from importlib.util import find_spec as _find_spec
from pathlib import Path as _Path

# Before numpy is imported. Matrices here are small: a second thread spins more than it works (4
# times the CPU).
_os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A command ends with one sentence, an import with an ImportError.
if _sys.version_info < (3, 11) or _find_spec("omegaconf") is None:
    raise (SystemExit if _Path(_sys.argv[0]).name in ("-m", "audit") else ImportError)(
        f"error: {_sys.executable} is Python {_sys.version.split()[0]}. Expected 3.11 or later with this program's "
        "packages: in a checkout 'make install', then .venv/bin/python -m audit; elsewhere pip install benchmark-audit."
    )

from audit.api import (
    compare,
    find_runs,
    gate,
    import_logs,
    load,
    run,
    run_memory,
    run_perturb,
    run_sweep,
    run_validity,
)
from audit.core.errors import (
    AuditError,
    BenchmarkError,
    ConfigError,
    DataError,
    EngineError,
    ShardError,
    UsageError,
)

__all__ = [
    "AuditError",
    "BenchmarkError",
    "ConfigError",
    "DataError",
    "EngineError",
    "ShardError",
    "UsageError",
    "compare",
    "find_runs",
    "gate",
    "import_logs",
    "load",
    "run",
    "run_memory",
    "run_perturb",
    "run_sweep",
    "run_validity",
]


def __dir__() -> list[str]:
    return __all__
