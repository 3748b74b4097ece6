"""Runs of one audit -> its report: report.html, verdict.json, tables/*.csv, figures/*.{png,svg}.

Everything is rebuilt from the run directories alone. Files are written whole, verdict.json last.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from audit.audits import Audit, has_part, part_of
from audit.convictions import reservations
from audit.errors import ConfigError, DataError
from audit.judge.record import Judge, Settings, judge_cells
from audit.records import CellRows
from audit.report.build import ReportPaths, write_report
from audit.report.sensitivity import quote
from audit.shards.complete import Seen, cell_rows, contents, count_rows
from audit.shards.manifest import Manifest
from audit.shards.read import load_cells
from audit.statistics.notice import Field
from audit.verdict.run import CellResult, JudgedRun
from audit.verdict.shipped import shipped_table
from audit.verdict.thresholds import Limits

Verdict = TypeVar("Verdict", bound=JudgedRun[Any, Any])
Behind = TypeVar("Behind")
Result = TypeVar("Result", bound=CellResult)


@dataclass(frozen=True)
class Report(Generic[Verdict, Behind]):
    """How the runs of one audit become its report.

    judge: run directories and what is asked -> their verdict, and what `page` of the audit's `page.py` needs beside it.
    takes: arguments of `audit report` that are this audit's. options: run directories and these -> keywords of `judge`.
    """

    judge: Callable[..., tuple[Verdict, Behind]]
    takes: tuple[str, ...] = ("seed",)
    options: Callable[[Sequence[Path], Mapping[str, Any]], Mapping[str, Any]] = lambda run_dirs, asked: asked

    def build(self, run_dirs: Sequence[Path], out: Path, **asked: Any) -> ReportPaths:
        """Judge the runs and write their report into `out`."""
        verdict, behind = self.judge(list(map(Path, run_dirs)), **asked)
        own = has_part(verdict.audit, "page")
        drawn = part_of(verdict.audit, "page") if own else import_module("audit.report.plain")  # needs matplotlib
        return write_report(Path(out), verdict, drawn.page(verdict, behind))

    def of_runs(self, run_dirs: Sequence[Path], out: Path, asked: Mapping[str, Any]) -> ReportPaths:
        """`audit report`: judged as the manifests say, but for what is asked."""
        for name in (name for name, value in asked.items() if value is not None and name not in self.takes):
            taken = ", ".join(f"--{one.replace('_', '-')}" for one in self.takes)
            raise ConfigError(f"--{name.replace('_', '-')} does not belong to this audit. Its report takes {taken}.")
        return self.build(run_dirs, out, **self.options(run_dirs, {name: asked.get(name) for name in self.takes}))

    def verdict_of(self, run_dirs: Sequence[Path]) -> dict[str, Any]:
        """What verdict.json holds of runs as their manifests ask for it; nothing is written."""
        return self.judge(list(map(Path, run_dirs)), **self.options(run_dirs, dict.fromkeys(self.takes)))[0].to_dict()


def report_of_answers(
    audit: Audit, judge: Judge[Any, Any, Any, Any], verdict: type[Verdict], limits: type[Limits]
) -> Report[Verdict, Path]:
    """Return the report of an audit whose cells are the answers of one run (`CellOutcomes`) and nothing else.

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
    """The run directory of an audit whose runs are judged one by one. DataError for several."""
    if len(run_dirs) != 1:
        raise DataError(
            f"{len(run_dirs)} runs of the {audit} audit were given. Expected one: to judge several models together, "
            "run them in one job, such as 'model=[llama3_8b,qwen3_8b]'."
        )
    return Path(run_dirs[0])


def head_of(settings: Settings[Any], seen: Sequence[Seen], rows: Sequence[CellRows]) -> dict[str, Any]:
    """The head of a `JudgedRun`. seen: the rows that were read, by run; rows: those found and expected."""
    return {
        "seed": settings.seed,
        "n_resamples": settings.n_resamples,
        "thresholds": settings.thresholds.to_dict(),
        "runs": tuple({"models": contents(one)} for one in seen),
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
    """The result with what its references leave open and what the audit was measured to notice. judged: indicators
    that could be judged, as the sensitivity of the others is not this run's."""
    quoted = quote(sensitivity, audit, result.model, result.benchmark, design, judged)
    return replace(result, cannot_exclude=(*result.cannot_exclude, *reservations(analysis)), sensitivity=quoted)
