"""Compute the verdict on validity runs from their shards and their files of edits."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from audit.core.errors import ConfigError, DataError
from audit.core.package_data import shipped_table
from audit.governance.chronology import chronology_of
from audit.judge.record import Settings
from audit.judge.report import Report, head_of
from audit.shards.complete import cell_rows, count_rows
from audit.statistics.selectivity import N_RESAMPLES
from audit.validity.analyse import JUDGE, RunVerdict, analyse
from audit.validity.as_paper import merged
from audit.validity.audit import SCHEMA
from audit.validity.cells import ItemRows, item_rows, load_validity, read_analysis, read_table
from audit.validity.design import ValidityThresholds
from audit.validity.edits.file import FILE, read_about


def judge(
    run_dirs: Sequence[Path], *, seed: int | None = None, n_resamples: int = N_RESAMPLES
) -> tuple[RunVerdict, tuple[Sequence[Path], ItemRows]]:
    """Judge one run, or several runs as one panel.

    Parameters
    ----------
    run_dirs : sequence of Path
        The run directories.
    seed : int or None
        Seed of the analysis; by default the seed of the runs.
    n_resamples : int
        Number of resamples.

    Returns
    -------
    verdict : RunVerdict
        The verdict.
    behind : tuple
        The run directories, and the rows of the runs.

    Raises
    ------
    DataError
        If two runs contain the same cell (model, benchmark and context).
    ConfigError
        If the runs have different thresholds or seeds.
    """
    analyses = list(map(read_analysis, run_dirs))
    settings_of = [(a["thresholds"], a["seed"] if seed is None else seed) for a in analyses]
    if any(settings != settings_of[0] for settings in settings_of):
        raise ConfigError(
            "The runs have different thresholds or seeds. Expected the same verdict.* and seed for "
            "all runs. Run them again with the same values. Stored answers are kept."
        )
    thresholds = ValidityThresholds.from_mapping(settings_of[0][0])
    settings = Settings(
        thresholds, int(settings_of[0][1]), n_resamples, shipped_table(JUDGE.shipped)
    )
    seen = [count_rows(run_dir, SCHEMA) for run_dir in run_dirs]
    rows = list(chain.from_iterable(map(cell_rows, run_dirs, seen)))
    tables = list(map(read_table, run_dirs))
    cells = tuple(chain.from_iterable(map(load_validity, run_dirs, tables)))
    names = [cell.name for cell in cells]
    if len(set(names)) < len(names):
        raise DataError(
            f"{max(names, key=names.count)} is in more than one run. "
            "Expected each model and benchmark in one run only."
        )
    replaced: Counter[str] = Counter()
    for run_dir in run_dirs:
        replaced.update(read_about(run_dir / FILE)["replaced"])
    verdict = RunVerdict(
        **head_of(settings, seen, rows),
        edits={"replaced": dict(sorted(replaced.items()))},
        cells=cells,
        chronology=merged(map(chronology_of, run_dirs)),
        results=analyse(cells, settings),
    )
    return verdict, (run_dirs, item_rows(run_dirs, tables))


REPORT = Report(judge)
