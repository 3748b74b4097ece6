"""A run's shards -> its report."""

from collections.abc import Sequence
from pathlib import Path

from audit.judge.record import Settings, judge_cells
from audit.judge.report import Report, head_of, only
from audit.shards.complete import cell_rows, count_rows
from audit.shards.manifest import Manifest
from audit.shards.read import load_cells
from shouting.analyse import JUDGE
from shouting.audit import SHOUTING
from shouting.config import ShoutingThresholds
from shouting.vocabulary import RunVerdict


def judge(run_dirs: Sequence[Path], *, seed: int | None = None) -> tuple[RunVerdict, Path]:
    run_dir = only(run_dirs, "shouting")
    analysis = Manifest.load(run_dir).analysis
    thresholds = ShoutingThresholds.from_mapping(analysis["thresholds"])
    settings = Settings(thresholds, analysis["seed"] if seed is None else seed, 0)
    seen = count_rows(run_dir, SHOUTING.schema)
    cells = tuple(load_cells(run_dir, SHOUTING.schema))
    head = head_of(settings, [seen], cell_rows(run_dir, seen))
    return RunVerdict(**head, cells=cells, results=judge_cells(JUDGE, cells, settings)), run_dir


REPORT = Report(judge)
report_runs, build_report, verdict_of = REPORT.of_runs, REPORT.build, REPORT.verdict_of
