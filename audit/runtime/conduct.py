"""Run an audit from its configuration to its report.

The steps are: resolve the configuration, print the cost, ask the questions, print the results, and
write the report.

Modules that load slowly are imported inside the functions, so that a refused command does not load
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.config.audits import Hooks, find_audit, part_of
from audit.core.exits import tell
from audit.registry.wanted import wanted

if TYPE_CHECKING:
    from audit.config.base import RunConfig
    from audit.config.resolve import ResolvedRun
    from audit.judging.thresholds import Limits


@dataclass(frozen=True)
class Prepared:
    """Hold a resolved run, with the options for its analysis and texts for the terminal.

    Attributes
    ----------
    resolved : ResolvedRun
        The resolved run.
    thresholds : Limits
        The thresholds of the verdict.
    analysis : mapping
        Further facts that the verdict depends on. The manifest stores these facts together with the
        seed and the thresholds.
    notes : tuple of str
        Texts that are printed after the audit was resolved.
    pre_run_notes : callable
        Returns texts that are printed before the engines load. It is called only if no check
        refused the run. Empty texts are skipped.
    """

    resolved: ResolvedRun
    thresholds: Limits
    analysis: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    pre_run_notes: Callable[[], Iterable[str]] = tuple


def conduct(
    audit: str,
    config: RunConfig,
    stage: str,
    prepare: Callable[[], Prepared],
    ended: Callable[[Path, ResolvedRun], Mapping[str, Any]] = lambda run_dir, resolved: {},
) -> int:
    """Print the plan of an audit, or run the audit to the end.

    Running means: start or resume the run, ask the questions, compute the verdict, and write the
    report. With the option `plan`, only the plan is printed.

    Parameters
    ----------
    audit : str
        Name of the audit.
    config : RunConfig
        The composed options.
    stage : str
        Description of the step `prepare`, for the progress display.
    prepare : callable
        Function that resolves the configuration to a run.
    ended : callable
        Function that prints the results. It is called only if the run has rows. It returns keyword
        arguments for the audit's `REPORT.build`.

    Returns
    -------
    int
        The exit code.

    Raises
    ------
    AuditError
        If the run cannot be started or completed.
    """
    if config.plan:
        planned = part_of(audit, "plan").planned(config)
        from audit.runtime.room import foreseen

        return int(planned.show(foreseen(planned.resolved)))
    from audit.runtime.progress import Display

    with Display(quiet=not config.progress) as display:
        display.stage("checking the run directory and endpoints")
        from audit.runtime.first_checks import check_start

        check_start(find_audit(audit), config)
        display.stage(stage)
        ready = prepare()
        for note in ready.notes:
            display.note(note)
        from audit.runtime.run import run_audit

        analysis = {"seed": config.seed, "thresholds": ready.thresholds.to_dict(), **ready.analysis}
        result = run_audit(
            ready.resolved, analysis, display, _hooks(config), lambda: _announce(ready)
        )
    from audit.runtime.summary import conclude, print_failed

    if result.rows == 0:
        print_failed(result.failed)  # no rows: every model failed
        return 1
    run_dir, paths = result.run_dir, None
    read = ended(run_dir, ready.resolved)
    if config.report:
        report = part_of(audit, "report").REPORT
        paths = report.build(
            [run_dir], run_dir / "report", **{**report.options([run_dir], {}), **read}
        )
    return conclude(config, run_dir, result.failed, paths)


def _hooks(config: RunConfig) -> Hooks:
    if not wanted(config.registry):
        return Hooks()
    from audit.registry.finish import hooks

    return hooks(config.registry)


def _announce(ready: Prepared) -> None:
    """Print notes before the run: its cost, and the effects that it cannot detect."""
    from audit.config.dry_run import announced

    for text in filter(None, (*ready.pre_run_notes(), *announced(ready.resolved))):
        tell(f"note: {text}")


def conduct_answers(audit: str, config: RunConfig, limits: type[Limits]) -> int:
    """Plan or run an audit that needs only models and questions, and return the exit code."""

    def prepare() -> Prepared:
        from audit.config.resolve import resolve_run

        return Prepared(
            resolve_run(find_audit(audit), config), limits.from_mapping(config.verdict), {}
        )

    return conduct(audit, config, "reading the benchmark, resolving models", prepare)
