"""`python -m audit.perturb model=... benchmark=... variants=...`: run (or resume) a semantic-perturbation audit.

Exit codes: 0 the run finished, whatever the verdict; 1 it did not, or a model failed; with gate=true also 3 (drop
beyond reference) and 4 (withheld, cause unknown or underpowered), see `audit.gate`.
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
from audit.exits import run_command
from audit.perturb.config import PerturbConfig, from_hydra, register
from audit.references import judged, reference_dirs

register()


@hydra.main(version_base="1.3", config_path=str(CONF_DIR), config_name="perturb")
def _composed(cfg: DictConfig) -> None:
    """Hydra's entry."""
    run_command(lambda: run_config(cfg, check_composed))


def main() -> None:
    """The command: what it refuses, then Hydra, then the run."""
    start(_composed, PerturbConfig)


def run_config(cfg: DictConfig, check: Callable[[], None] = lambda: None) -> int:
    """Validate and run a composed configuration. Errors that teach go to stderr without a traceback."""
    try:
        check()
        config = from_hydra(cfg)
        return _print_plan(config) if config.plan else perturb(config)
    except (AuditError, OmegaConfBaseException) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1


def perturb(config: PerturbConfig) -> int:
    """Run, decide, write; the exit code. What is heavy is imported once nothing can be refused any more."""
    from audit.perturb.audit import PERTURB
    from audit.perturb.resolve import resolve_perturb
    from audit.perturb.thresholds import PerturbThresholds
    from audit.runtime.progress import Display

    analysis = {
        "seed": config.seed,
        "thresholds": PerturbThresholds.from_mapping(config.verdict).to_dict(),
        "judged": judged(config),
        "references": [str(path) for path in reference_dirs(config)],
    }
    with Display(quiet=not config.progress) as display:
        display.stage("reading the benchmark and its variants, resolving models")
        run = resolve_perturb(config)
        for one in run.sets:
            display.note(f"library {one.library.header.name} {one.library.sha256[:12]}: {one.selection.sentence}")
        if run.unlike:
            display.note(run.unlike)
        from audit.runtime.run import run_audit
        from audit.summary import print_cells

        result = run_audit(run.resolved, analysis, display)
    failed = "".join(f"error: model {name} failed: {why}\n" for name, why in result.failed.items())
    if result.rows == 0:
        print(failed, end="", file=sys.stderr)  # every model did
        return 1
    from audit.perturb.rows import read_run

    read = read_run(result.run_dir)
    print_cells(read.outcomes.cells, PERTURB)
    code = 0
    if config.report:
        from audit.gate import print_content
        from audit.perturb.report import build_report
        from audit.registry import finish

        paths = build_report([result.run_dir], result.run_dir / "report", read=read)
        code = print_content(paths.content)
        print(f"report   {paths.html}")
        finish.finished(config.registry, result.run_dir)
    print(f"shards   {result.run_dir / 'shards'}\nmanifest {result.run_dir / 'manifest.json'}")
    print(failed, end="", file=sys.stderr, flush=True)
    if result.failed:
        return 1
    return code if config.gate else 0


def _print_plan(config: PerturbConfig) -> int:
    from audit.perturb.plan import describe
    from audit.perturb.resolve import resolve_perturb

    run = resolve_perturb(config)
    print("\n".join(describe(run, config)))
    return 1 if run.resolved.failed else 0


if __name__ == "__main__":
    run_command(main)
