"""Run or resume a memory audit: `python -m audit.memory model=... benchmark=...`.

The exit code is 0 if the run finished, whatever the verdict, and 1 if it did not finish or a model
failed. With gate=true, the exit code can also be 3 or 4 (see `audit gate`): 3 for memory of the
text or a gap to held-out items, and 4 for a verdict that is withheld or underpowered.
"""

from audit.config.command_line import start
from audit.config.references import judged
from audit.core.exits import run_command
from audit.memory.config import ALONE, MemoryConfig, from_hydra, score_alone
from audit.memory.design import MemoryThresholds
from audit.runtime.conduct import Prepared, conduct


def main() -> None:
    """Check the arguments, compose the configuration with Hydra and run the memory audit."""
    start(MemoryConfig, from_hydra, memory)


def memory(config: MemoryConfig) -> int:
    """Plan or run one memory audit.

    Parameters
    ----------
    config : MemoryConfig
        Options of the run, composed by Hydra.

    Returns
    -------
    int
        The exit code.
    """
    return conduct(
        "memory", config, "reading the benchmark, resolving models", lambda: _prepared(config)
    )


def _prepared(config: MemoryConfig) -> Prepared:
    from audit.memory.plan import cautions, resolve_memory

    resolved = resolve_memory(config)
    benchmark, *fresh = (sample.benchmark.name for sample in resolved.samples)
    sets = {"benchmark": benchmark, "fresh": fresh[0] if fresh else None}
    return Prepared(
        resolved,
        MemoryThresholds.from_mapping(config.verdict),
        {"judged": judged(config), **resolved.analysis, **sets},
        pre_run_notes=lambda: cautions(resolved, config),
        notes=(*resolved.analysis["held_out"], *([ALONE] if score_alone(config) else [])),
    )


if __name__ == "__main__":
    run_command(main)
