"""Build the report of one audit's runs: report.html, verdict.json, tables/*.csv,
figures/*.{png,svg}.

Everything is rebuilt from the run directories alone. Each file is written completely or not at all,
verdict.json last.
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
    """Hold how the runs of one audit become its report.

    Parameters
    ----------
    judge : callable
        Returns, for run directories and options, their verdict and what the audit's `page.py` also
        needs.
    takes : tuple of str
        The options of `audit report` for this audit.
    options : callable
        Returns the keywords of `judge` for run directories and these options.
    """

    judge: Callable[..., tuple[Verdict, Behind]]
    takes: tuple[str, ...] = ("seed",)
    options: Callable[[Sequence[Path], Mapping[str, Any]], Mapping[str, Any]] = (
        lambda run_dirs, asked: asked
    )

    def build(self, run_dirs: Sequence[Path], out: Path, **asked: Any) -> ReportPaths:
        """Judge the runs, and write their report.

        Parameters
        ----------
        run_dirs : sequence of Path
            The runs.
        out : Path
            The folder.
        asked : Any
            Keywords of `judge`.

        Returns
        -------
        ReportPaths
            The files.
        """
        verdict, behind = self.judge(list(map(Path, run_dirs)), **asked)
        if has_part(verdict.audit, "page"):
            page = part_of(verdict.audit, "page").page
        else:
            from audit.report.plain import page  # This import loads matplotlib.
        return write_report(Path(out), verdict, page(verdict, behind))

    def of_runs(self, run_dirs: Sequence[Path], out: Path, asked: Mapping[str, Any]) -> ReportPaths:
        """Build the report for `audit report`.

        Parameters
        ----------
        run_dirs : sequence of Path
            The runs.
        out : Path
            The folder.
        asked : mapping
            The options as typed; they override the manifests.

        Returns
        -------
        ReportPaths
            The files.

        Raises
        ------
        ConfigError
            If an option belongs to another audit.
        """
        if foreign := [
            name for name, value in asked.items() if value is not None and name not in self.takes
        ]:
            option = f"--{foreign[0].replace('_', '-')}"
            known = ", ".join(f"--{name.replace('_', '-')}" for name in self.takes)
            raise ConfigError(f"{option} does not belong to this audit. Its report takes {known}.")
        given = {name: asked.get(name) for name in self.takes}
        return self.build(run_dirs, out, **self.options(run_dirs, given))

    def verdict_of(self, run_dirs: Sequence[Path]) -> dict[str, Any]:
        """Return the content of verdict.json for runs, judged as their manifests say. Nothing is
        written."""
        options = self.options(run_dirs, dict.fromkeys(self.takes))
        verdict, _ = self.judge(list(map(Path, run_dirs)), **options)
        return verdict.to_dict()


def report_of_answers(
    audit: Audit, judge: Judge[Any, Any, Any, Any], verdict: type[Verdict], limits: type[Limits]
) -> Report[Verdict, Path]:
    """Return the report of an audit whose cells are the answers of one run (`CellOutcomes`) and
    nothing else.

    Parameters
    ----------
    audit : Audit
        The audit.
    judge : Judge
        How its cells are judged.
    verdict : type
        Its `JudgedRun`, without fields beyond those of the head, the cells and the results.
    limits : type
        Its thresholds.
    """

    def judged(run_dirs: Sequence[Path], *, seed: int | None = None) -> tuple[Verdict, Path]:
        run_dir = only(run_dirs, audit.name)
        analysis = Manifest.load(run_dir).analysis
        own_seed = int(analysis["seed"]) if seed is None else seed
        table = shipped_table(judge.shipped) if judge.shipped else None
        settings = Settings(limits.from_mapping(analysis["thresholds"]), own_seed, 0, table)
        seen = count_rows(run_dir, audit.schema)
        cells = tuple(load_cells(run_dir, audit.schema))
        head = head_of(settings, [seen], cell_rows(run_dir, seen))
        return verdict(**head, cells=cells, results=judge_cells(judge, cells, settings)), run_dir

    return Report(judged)


def only(run_dirs: Sequence[Path], audit: str) -> Path:
    """Return the run directory of an audit whose runs are judged one by one.

    Raises DataError if there are several.
    """
    if len(run_dirs) != 1:
        raise DataError(
            f"{len(run_dirs)} runs of the {audit} audit were given. Expected one. To judge several models together, "
            "run them in one job. Example: 'model=[llama3_8b,qwen3_8b]'"
        )
    return Path(run_dirs[0])


def head_of(
    settings: Settings[Any], seen: Sequence[Seen], rows: Sequence[CellRows]
) -> dict[str, Any]:
    """Return the first fields of a `JudgedRun`.

    Parameters
    ----------
    settings : Settings
        How cells were judged.
    seen : sequence of Seen
        The rows that were read, by run.
    rows : sequence of CellRows
        The rows that exist and are expected.

    Returns
    -------
    dict
        Keyword arguments.
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
    """Add to a result what its references leave open, and what the audit was measured to notice.

    Parameters
    ----------
    result : Result
        The result.
    audit : str
        The audit.
    analysis : mapping
        The manifest's `analysis`.
    sensitivity : mapping
        As `load_sensitivity` returns.
    design : Field
        The run's design.
    judged : set of str or None
        The indicators that could be judged; the sensitivity of others does not apply.

    Returns
    -------
    Result
        The result with these sentences.
    """
    quoted = quote(sensitivity, audit, result.model, result.benchmark, design, judged)
    return replace(
        result, cannot_exclude=(*result.cannot_exclude, *reservations(analysis)), sensitivity=quoted
    )
