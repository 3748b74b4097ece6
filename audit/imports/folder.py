"""Read all logs in a folder.

A log is a file, or the folder of a run. Each log states its model and its benchmark.
"""

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
# A run of OpenCompass has folders of these names.
_RESULTS, _PREDICTIONS, _SUMMARY = (
    "results",
    "predictions",
    "summary",
)
# Names of sample files of Every Eval Ever end in this way. A file of samples is read together with
# its aggregate, not by itself.
_SAMPLES = "_samples.jsonl"


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder that contains logs.

    The folder of a single run is itself a log, so the function returns False for such a folder.
    """
    return path.is_dir() and not _is_run(path)


def read_logs(path: Path, wanted: Wanted) -> Iterator[tuple[Path, Log | str]]:
    """Yield the logs of a file or folder.

    Parameters
    ----------
    path : Path
        Path of a log file, of the folder of a run, or of a folder with several logs.
    wanted : Wanted
        How to read the logs.

    Yields
    ------
    place : Path
        Path of a file, or of the folder of a run.
    log : Log or str
        The log, or the reason why a file is left out if the file has no outcomes.

    Raises
    ------
    ConfigError
        If a folder holds no log, or if `path` is a file without outcomes.
    """
    if not is_folder(path):
        yield path, read_log(path, wanted)
        return
    read_parts: set[tuple[str, ...]] = set()
    reason = "no file is a log"
    runs, files = logs_in(path)
    if runs:
        for file in files:
            yield file, "a file beside folders of runs"
    for place in runs or files:
        parts = place.relative_to(path).parts
        if _PREDICTIONS in parts and _swapped(parts) in read_parts:
            yield place, "predictions, whose results are read"
            continue
        try:
            log = read_log(place, wanted)
        except NoOutcomesError as error:
            reason = str(error)
            yield place, reason
            continue
        read_parts.add(parts)
        yield place, log
    if not read_parts:
        raise ConfigError(
            f"The folder {path} has no log: {reason}. Expected log files, such as {path}/*.jsonl."
        )


def logs_in(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the logs below a folder. Links and hidden files are not logs.

    Returns
    -------
    runs : list of Path
        Paths of the folders of runs.
    files : list of Path
        Paths of the other files. Results come before predictions.

    Raises
    ------
    DataError
        If the folder has more files or levels than logs have.
    """
    runs: list[Path] = []
    files: list[Path] = []
    for root, folders, names in os.walk(folder):
        here = Path(root)
        if len(here.relative_to(folder).parts) > MAX_DEPTH:
            raise DataError(
                f"The folder {here} is more than {MAX_DEPTH} levels deep. Expected the folder of the logs."
            )
        below = []
        for name in sorted(folders):
            if name.startswith(".") or (here / name).is_symlink():
                continue
            if _is_run(here / name):
                runs.append(here / name)
            else:
                below.append(name)
        if {_PREDICTIONS, _SUMMARY} <= set(below):
            below.remove(_SUMMARY)
        folders[:] = below  # assigning in place makes os.walk enter only these folders
        for name in sorted(names):
            if _is_log(here / name, names):
                files.append(here / name)
        if len(runs) + len(files) > MAX_FILES:
            raise DataError(
                f"The folder {folder} has more than {MAX_FILES:,} logs. Expected fewer: give some of them."
            )
    files.sort(key=lambda file: (_PREDICTIONS in file.relative_to(folder).parts, file))
    return runs, files


def _is_run(folder: Path) -> bool:
    return (folder / MANIFEST).is_file() or (folder / STATE).is_file()


def _is_log(file: Path, beside: list[str]) -> bool:
    regular = file.is_file() and not file.is_symlink() and not file.name.startswith(".")
    totals = f"{file.stem}{_SAMPLES}" in beside or _has_samples(file, beside)
    return regular and file.suffix in SUFFIXES and not totals


def _has_samples(file: Path, beside: list[str]) -> bool:
    """Return whether a file holds results of lm-eval, with a file of the samples in the same
    folder.
    """
    if not file.name.startswith("results_"):
        return False
    end = f"{file.stem.removeprefix('results')}.jsonl"
    return any(name.startswith("samples_") and name.endswith(end) for name in beside)


def _swapped(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_RESULTS if part == _PREDICTIONS else part for part in parts)
