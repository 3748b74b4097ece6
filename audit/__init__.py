"""Audit whether a benchmark score shows ability or memory of the exam.

Every audit has measured error rates, and all audits share one data flow:

    question -> presentations -> engine -> answer -> score -> Arrow shard -> statistics -> verdict
    -> report

AGENTS.md describes the packages. The audits are:

- sweep: routers rewrite the question, and a worker answers from their messages;
- perturb: the model answers reworded questions;
- memory: the benchmark's text gets likelihoods, and the model answers held-out items;
- validity: the model answers edited questions, and each edit has a known effect on the answer.

Each audit has its own folder, and the folders of all audits have the same file names.
`audits.part_of` imports a module of an audit by the audit's name.

The public API is `audit.api`: `run` and the four functions `run_sweep`, `run_perturb`, `run_memory`
and `run_validity` run an audit. `import_logs` imports finished evaluations, `load` reads a run,
`gate` returns the decision on a run (pass, block or review), `compare` compares two runs, and
`find_runs` lists the runs in a folder."""

from __future__ import annotations

import os as _os
import sys as _sys
from importlib.util import find_spec as _find_spec
from pathlib import Path as _Path

# OpenBLAS reads this variable when NumPy is imported. The matrices of this program are small: with
# a second thread, which mostly waits in a loop, the CPU time is four times as large.
_os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A command ends with one sentence on stderr. An import raises ImportError.
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
