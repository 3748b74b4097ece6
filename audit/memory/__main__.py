"""`python -m audit.memory model=... benchmark=...`: run (or resume) a memory audit.

Exit codes: 0 the run finished, whatever the verdict; 1 it did not, or a model failed; with gate=true also 3 (memory of
the text seen, gap to held-out items) and 4 (withheld, underpowered), see `audit gate`.
"""

from __future__ import annotations

from collections.abc import Callable

from omegaconf import DictConfig

from audit.command_line import run_composed, start
from audit.exits import run_command
from audit.memory.config import ALONE, MemoryConfig, from_hydra, register, score_alone
from audit.references import judged

register()


def main() -> None:
    """The command: what it refuses, then Hydra, then the run."""
    start(run_config, MemoryConfig)


def run_config(cfg: DictConfig, check: Callable[[], None] = lambda: None) -> int:
    """Validate and run a composed configuration; the exit code."""
    return run_composed(cfg, check, from_hydra, memory)


def memory(config: MemoryConfig) -> int:
    """Run, decide, write; the exit code. What is heavy is imported once nothing can be refused any more."""
    if config.plan:
        from audit.memory.plan import show

        return show(config)
    from audit.memory.resolve import resolve_memory
    from audit.memory.thresholds import MemoryThresholds
    from audit.runtime.progress import Display

    with Display(quiet=not config.progress) as display:
        display.stage("reading the benchmark, resolving models")
        resolved = resolve_memory(config)
        benchmark, *fresh = resolved.samples
        for note in resolved.analysis["held_out"]:
            display.note(note)
        if score_alone(config):
            display.note(ALONE)
        analysis = {
            "seed": config.seed,
            "thresholds": MemoryThresholds.from_mapping(config.verdict).to_dict(),
            "judged": judged(config),
            **resolved.analysis,
            "benchmark": benchmark.benchmark.name,
            "fresh": fresh[0].benchmark.name if fresh else None,
        }
        from audit.registry.finish import hooks
        from audit.runtime.run import run_audit
        from audit.summary import conclude, print_failed

        result = run_audit(resolved, analysis, display, hooks=hooks(config.registry))
    if result.rows == 0:
        print_failed(result.failed)  # every model did
        return 1
    paths = None
    if config.report:
        from audit.memory.report import build_report

        paths = build_report([result.run_dir], result.run_dir / "report")
    return conclude(config, result.run_dir, result.failed, paths)


if __name__ == "__main__":
    run_command(main)
