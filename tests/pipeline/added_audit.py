"""The audit of another package (tests/packages/shouting), found by its entry point and run as its
command runs it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from ray import cloudpickle

from audit.config.command_line import compose_command
from audit.config.resolve import resolve_run
from audit.core.entry_points import added
from audit.judging.thresholds import Thresholds
from audit.runtime.progress import Display
from audit.runtime.run import RunResult, run_audit

PACKAGES = Path(__file__).resolve().parents[1] / "packages"


@contextmanager
def installed() -> Iterator[ModuleType]:
    """The package, as if it were installed here; Ray's workers, where it is not, are sent its
    functions."""
    sys.path.insert(0, str(PACKAGES))
    added.cache_clear()
    import shouting.config

    cloudpickle.register_pickle_by_value(shouting)
    try:
        yield shouting
    finally:
        sys.path.remove(str(PACKAGES))
        added.cache_clear()


def run_shouting(run_dir: Path, *words: str) -> RunResult:
    from shouting.audit import SHOUTING
    from shouting.config import ShoutingConfig, from_hydra

    arguments = ("model=scripted", f"run_dir={run_dir}", "progress=false", *words)
    config = from_hydra(compose_command("shouting", arguments, ShoutingConfig))
    thresholds = Thresholds.from_mapping(config.verdict).to_dict()
    with Display(quiet=True) as display:
        return run_audit(
            resolve_run(SHOUTING, config), {"seed": config.seed, "thresholds": thresholds}, display
        )
