"""Read a folder of logs whole: each file, or folder of a run, is a model or a benchmark, as it says
itself."""

import os
from collections.abc import Iterator
from pathlib import Path

from audit.core.errors import ConfigError, DataError
from audit.imports.detect import read_log
from audit.imports.formats.helm import STATE
from audit.imports.record import Log, Wanted
from audit.imports.totals import NoOutcomesError
from audit.shards.manifest import MANIFEST

SUFFIXES = (".eval", ".jsonl", ".json", ".parquet", ".csv")
MAX_FILES, MAX_DEPTH = 10_000, 12
# Folders of a run of OpenCompass.
_RESULTS, _PREDICTIONS, _SUMMARY = (
    "results",
    "predictions",
    "summary",
)
# End of file names of Every Eval Ever, whose aggregate is read with them.
_SAMPLES = "_samples.jsonl"


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder of logs, and not itself the folder of a run."""
    return path.is_dir() and not _is_run(path)


def read_logs(path: Path, wanted: Wanted) -> Iterator[tuple[Path, Log | str]]:
    """Yield (path, log) of each log that a file or folder is; of what holds no outcome, (path,
    reason).

    Raises ConfigError if a folder holds no log. A file by itself that holds no outcome is refused.
    """
    if not is_folder(path):
        yield path, read_log(path, wanted)
        return
    taken: set[tuple[str, ...]] = set()
    reason = "no file is a log"
    runs, files = logs_in(path)
    yield from ((one, "a file beside folders of runs") for one in files if runs)
    for one in runs or files:
        place = one.relative_to(path).parts
        if _PREDICTIONS in place and _swapped(place) in taken:
            yield one, "predictions, whose results are read"
            continue
        try:
            log = read_log(one, wanted)
        except NoOutcomesError as error:
            reason = str(error)
            yield one, reason
            continue
        taken.add(place)
        yield one, log
    if not taken:
        raise ConfigError(
            f"The folder {path} has no log: {reason}. Expected log files, such as {path}/*.jsonl."
        )


def logs_in(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return (folders of runs, files) below a folder, results before predictions. Links and hidden
    files are no logs.

    Raises DataError if it has more files or levels than logs have.
    """
    runs: list[Path] = []
    files: list[Path] = []
    for root, folders, names in os.walk(folder):
        here = Path(root)
        visible = [name for name in folders if not name.startswith(".")]
        folders[:] = sorted(name for name in visible if not (here / name).is_symlink())
        if len(here.relative_to(folder).parts) > MAX_DEPTH:
            raise DataError(
                f"The folder {here} is more than {MAX_DEPTH} levels deep. Expected the folder of the logs."
            )
        runs += [here / name for name in folders if _is_run(here / name)]
        folders[:] = [name for name in folders if here / name not in runs]
        if {_PREDICTIONS, _SUMMARY} <= set(folders):
            folders.remove(_SUMMARY)
        files += [here / name for name in sorted(names) if _is_log(here / name, names)]
        if len(runs) + len(files) > MAX_FILES:
            raise DataError(
                f"The folder {folder} has more than {MAX_FILES:,} logs. Expected fewer: give some of them."
            )
    return runs, sorted(files, key=lambda one: (_PREDICTIONS in one.relative_to(folder).parts, one))


def _is_run(folder: Path) -> bool:
    return (folder / MANIFEST).is_file() or (folder / STATE).is_file()


def _is_log(file: Path, beside: list[str]) -> bool:
    regular = file.is_file() and not file.is_symlink() and not file.name.startswith(".")
    totals = f"{file.stem}{_SAMPLES}" in beside or _has_samples(file, beside)
    return regular and file.suffix in SUFFIXES and not totals


def _has_samples(file: Path, beside: list[str]) -> bool:
    """Return whether a file is lm-eval's results, and its samples are beside it."""
    if not file.name.startswith("results_"):
        return False
    end = f"{file.stem.removeprefix('results')}.jsonl"
    return any(name.startswith("samples_") and name.endswith(end) for name in beside)


def _swapped(place: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_RESULTS if one == _PREDICTIONS else one for one in place)
