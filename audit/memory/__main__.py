"""`python -m audit.memory model=... benchmark=...`: run (or resume) a memory audit.

Exit codes: 0 the run finished, whatever the verdict; 1 it did not, or a model failed; with gate=true also 3 (memory of
the text seen, gap to fresh items) and 4 (withheld, underpowered), see `audit.gate`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import hydra
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from audit.command_line import check_composed, start
from audit.config import CONF_DIR
from audit.errors import AuditError
from audit.memory.config import MemoryConfig, from_hydra, register
from audit.references import judged, reference_dirs

register()


@hydra.main(version_base="1.3", config_path=str(CONF_DIR), config_name="memory")
def _composed(cfg: DictConfig) -> None:
    """Hydra's entry."""
    sys.exit(run_config(cfg, check_composed))


def main() -> None:
    """The command: what it refuses, then Hydra, then the run."""
    start(_composed, MemoryConfig)


def run_config(cfg: DictConfig, check: Callable[[], None] = lambda: None) -> int:
    """Validate and run a composed configuration. Errors that teach go to stderr without a traceback."""
    try:
        check()
        config = from_hydra(cfg)
        return _print_plan(config) if config.plan else memory(config)
    except (AuditError, OmegaConfBaseException) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1


def memory(config: MemoryConfig) -> int:
    """Run, decide, write; the exit code. What is heavy is imported once nothing can be refused any more."""
    from audit.memory.resolve import resolve_memory
    from audit.memory.thresholds import MemoryThresholds
    from audit.runtime.progress import Display

    with Display(quiet=not config.progress) as display:
        display.stage("reading the benchmark, resolving models")
        resolved = resolve_memory(config)
        benchmark, *fresh = resolved.samples
        analysis = {
            "seed": config.seed,
            "thresholds": MemoryThresholds.from_mapping(config.verdict).to_dict(),
            "judged": judged(config),
            "references": [str(path) for path in reference_dirs(config)],
            "benchmark": benchmark.benchmark.name,
            "fresh": fresh[0].benchmark.name if fresh else None,
        }
        from audit.runtime.run import run_audit

        result = run_audit(resolved, analysis, display)
    failed = "".join(f"error: model {name} failed: {why}\n" for name, why in result.failed.items())
    if result.rows == 0:
        print(f"error: nothing was measured: every model failed\n{failed}", end="", file=sys.stderr)
        return 1
    code = 0
    if config.report:
        from audit.gate import print_content
        from audit.memory.report import build_report

        paths = build_report([result.run_dir], result.run_dir / "report")
        code = print_content(paths.content)
        print(f"report   {paths.html}")
    print(f"shards   {result.run_dir / 'shards'}\nmanifest {result.run_dir / 'manifest.json'}")
    print(failed, end="", file=sys.stderr, flush=True)
    if result.failed:
        return 1
    return code if config.gate else 0


def _print_plan(config: MemoryConfig) -> int:
    from audit.memory.plan import describe
    from audit.memory.resolve import resolve_memory

    resolved = resolve_memory(config)
    print("\n".join(describe(resolved, config)))
    return 1 if resolved.failed else 0


if __name__ == "__main__":
    main()
