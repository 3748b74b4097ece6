"""The run of an audit: resolve, say what it will cost, ask, print, report. Heavy imports stand inside: what is refused
first loads none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.audits import find_audit, part_of
from audit.exits import tell

if TYPE_CHECKING:
    from audit.config import RunConfig
    from audit.resolve import ResolvedRun
    from audit.verdict.thresholds import Limits


@dataclass(frozen=True)
class Prepared:
    """What an audit resolved. analysis: what the manifest keeps for its verdict beside seed and thresholds. notes: said
    while it is resolved; foretold: what a person should know before engines load (empty texts say nothing)."""

    resolved: ResolvedRun
    thresholds: Limits
    analysis: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    foretold: tuple[str, ...] = ()


def conduct(
    audit: str,
    config: RunConfig,
    stage: str,
    prepare: Callable[[], Prepared],
    ended: Callable[[Path, ResolvedRun], Mapping[str, Any]] = lambda run_dir, resolved: {},
) -> int:
    """Plan; or run (or resume), judge, write. The exit code. Raises AuditError.

    stage: what `prepare` does, for the display. ended: of a run that has rows, prints what was measured; what it read
    goes to the audit's `REPORT.build`.
    """
    if config.plan:
        planned = part_of(audit, "plan").planned(config)
        from audit.runtime.room import foreseen

        return int(planned.show(foreseen(planned.resolved)))
    from audit.runtime.progress import Display

    with Display(quiet=not config.progress) as display:
        display.stage(stage)
        ready = prepare()
        for note in ready.notes:
            display.note(note)
        from audit.dry_run import announced
        from audit.registry.finish import hooks
        from audit.runtime.run import run_audit
        from audit.summary import conclude, print_failed

        for text in filter(None, (*ready.foretold, *announced(ready.resolved))):
            tell(f"note: {text}")
        analysis = {"seed": config.seed, "thresholds": ready.thresholds.to_dict(), **ready.analysis}
        result = run_audit(ready.resolved, analysis, display, hooks=hooks(config.registry))
    if result.rows == 0:
        print_failed(result.failed)  # every model did
        return 1
    run_dir, paths = result.run_dir, None
    read = ended(run_dir, ready.resolved)
    if config.report:
        report = part_of(audit, "report").REPORT
        paths = report.build([run_dir], run_dir / "report", **{**report.options([run_dir], {}), **read})
    return conclude(config, run_dir, result.failed, paths)


def conduct_answers(audit: str, config: RunConfig, limits: type[Limits]) -> int:
    """Plan or run an audit that resolves nothing beside models and questions; return the exit code."""

    def prepare() -> Prepared:
        from audit.resolve import resolve_run

        return Prepared(resolve_run(find_audit(audit), config), limits.from_mapping(config.verdict), {})

    return conduct(audit, config, "reading the benchmark, resolving models", prepare)
