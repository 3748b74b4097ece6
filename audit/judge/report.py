"""Build the report of the runs of one audit: page, verdict.json, tables and figures.

The report is built only from the run directories. Each file is written completely or not at all,
and verdict.json is written last.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from audit.config.audits import Audit, has_part, part_of
from audit.core.errors import ConfigError, DataError
from audit.core.package_data import shipped_table
from audit.core.records import CellRows
from audit.judge.record import Judge, Settings, judge_cells
from audit.judging.run import CellResult, JudgedRun
from audit.judging.thresholds import Limits
from audit.registry.convictions import reservations
from audit.report.build import ReportPaths, write_report
from audit.report.sensitivity import quote
from audit.shards.complete import Seen, cell_rows, contents, count_rows
from audit.shards.manifest import Manifest
from audit.shards.read import load_cells
from audit.statistics.notice import Field

Verdict = TypeVar("Verdict", bound=JudgedRun[Any, Any])
Behind = TypeVar("Behind")
Result = TypeVar("Result", bound=CellResult)


@dataclass(frozen=True)
class Report(Generic[Verdict, Behind]):
    """Hold the functions that build the report of an audit from its runs.

    Parameters
    ----------
    judge : callable
        Function from run directories to two results: the verdict, and further data for the audit's
        `page.py`.
    takes : tuple of str
        Options of `audit report` that this audit accepts.
    options : callable
        Function that returns the keyword arguments of `judge`. Its arguments are the run
        directories and the options in `takes`.
    """

    judge: Callable[..., tuple[Verdict, Behind]]
    takes: tuple[str, ...] = ("seed",)
    options: Callable[[Sequence[Path], Mapping[str, Any]], Mapping[str, Any]] = (
        lambda run_dirs, options: options
    )

    def build(self, run_dirs: Sequence[Path], out: Path, **keywords: Any) -> ReportPaths:
        """Judge the runs, and write their report.

        Parameters
        ----------
        run_dirs : sequence of Path
            Directories of the runs.
        out : Path
            Directory for the report.
        **keywords : Any
            Keyword arguments of `judge`.

        Returns
        -------
        ReportPaths
            Paths of the written files.
        """
        verdict, behind = self.judge(list(map(Path, run_dirs)), **keywords)
        if has_part(verdict.audit, "page"):
            page = part_of(verdict.audit, "page").page
        else:
            from audit.report.plain import page  # Imported here because it loads matplotlib.
        return write_report(Path(out), verdict, page(verdict, behind))

    def of_runs(self, run_dirs: Sequence[Path], out: Path, typed: Mapping[str, Any]) -> ReportPaths:
        """Build the report for the command `audit report`.

        Parameters
        ----------
        run_dirs : sequence of Path
            Directories of the runs.
        out : Path
            Directory for the report.
        typed : mapping
            Options that the user typed. They take precedence over the options in the manifests.

        Returns
        -------
        ReportPaths
            Paths of the written files.

        Raises
        ------
        ConfigError
            If an option belongs to another audit.
        """
        for name, value in typed.items():
            if value is not None and name not in self.takes:
                option = f"--{name.replace('_', '-')}"
                known = ", ".join(f"--{known.replace('_', '-')}" for known in self.takes)
                raise ConfigError(
                    f"Option {option} does not belong to this audit. Expected {known}."
                )
        given = {name: typed.get(name) for name in self.takes}
        return self.build(run_dirs, out, **self.options(run_dirs, given))

    def verdict_of(self, run_dirs: Sequence[Path]) -> dict[str, Any]:
        """Return the content of verdict.json for some runs, without writing a file.

        The analysis options are read from the manifests of the runs.
        """
        options = self.options(run_dirs, dict.fromkeys(self.takes))
        verdict, _ = self.judge(list(map(Path, run_dirs)), **options)
        return verdict.to_dict()


def report_of_answers(
    audit: Audit, judge: Judge[Any, Any, Any, Any], verdict: type[Verdict], limits: type[Limits]
) -> Report[Verdict, Path]:
    """Return the `Report` of an audit that judges only the answers of a single run.

    Parameters
    ----------
    audit : Audit
        Definition of the audit.
    judge : Judge
        The audit's function for each step of judging a cell.
    verdict : type
        Type of the verdict: a subclass of `JudgedRun` without further fields.
    limits : type
        Class of the audit's thresholds.

    Returns
    -------
    Report
        Functions that build the report.
    """

    def judged(run_dirs: Sequence[Path], *, seed: int | None = None) -> tuple[Verdict, Path]:
        run_dir = only(run_dirs, audit.name)
        analysis = Manifest.load(run_dir).analysis
        run_seed = int(analysis["seed"]) if seed is None else seed
        table = shipped_table(judge.shipped) if judge.shipped else None
        settings = Settings(limits.from_mapping(analysis["thresholds"]), run_seed, 0, table)
        seen = count_rows(run_dir, audit.schema)
        cells = tuple(load_cells(run_dir, audit.schema))
        head = head_of(settings, [seen], cell_rows(run_dir, seen))
        return verdict(**head, cells=cells, results=judge_cells(judge, cells, settings)), run_dir

    return Report(judged)


def only(run_dirs: Sequence[Path], audit: str) -> Path:
    """Return the single run directory of an audit that judges one run at a time.

    Parameters
    ----------
    run_dirs : sequence of Path
        Run directories.
    audit : str
        Name of the audit, for the error message.

    Returns
    -------
    Path
        The run directory.

    Raises
    ------
    DataError
        If the number of run directories is not 1.
    """
    if len(run_dirs) != 1:
        raise DataError(
            f"The number of runs of audit {audit} is {len(run_dirs)}. Expected 1. To judge several "
            "models together, run them in one job. Example: 'model=[llama3_8b,qwen3_8b]'"
        )
    return Path(run_dirs[0])


def head_of(
    settings: Settings[Any], seen: Sequence[Seen], rows: Sequence[CellRows]
) -> dict[str, Any]:
    """Return the first fields of a `JudgedRun` as keyword arguments.

    Parameters
    ----------
    settings : Settings
        Thresholds and seed.
    seen : sequence of Seen
        Counted rows of each run.
    rows : sequence of CellRows
        Number of existing rows and number of expected rows of each cell.

    Returns
    -------
    dict
        Keyword arguments of `JudgedRun`.
    """
    return {
        "seed": settings.seed,
        "n_resamples": settings.n_resamples,
        "thresholds": settings.thresholds.to_dict(),
        "runs": tuple({"models": contents(counts)} for counts in seen),
        "rows": tuple(rows),
    }


def with_reservations(
    result: Result,
    audit: str,
    analysis: Mapping[str, Any],
    sensitivity: Mapping[str, Any],
    design: Field,
    judged: set[str] | None = None,
) -> Result:
    """Add reservations about the references and the audit's sensitivity to the result of a cell.

    Parameters
    ----------
    result : Result
        Result of a cell.
    audit : str
        Name of the audit.
    analysis : mapping
        The section `analysis` of the run's manifest.
    sensitivity : mapping
        Measured sensitivities of the audit, as returned by `load_sensitivity`.
    design : Field
        Design of the run.
    judged : set of str or None
        Names of the indicators that were judged; None for all. The sensitivity of other indicators
        is not quoted.

    Returns
    -------
    Result
        The result with a sentence for each reservation.
    """
    quoted = quote(sensitivity, audit, result.model, result.benchmark, design, judged)
    return replace(
        result, cannot_exclude=(*result.cannot_exclude, *reservations(analysis)), sensitivity=quoted
    )
