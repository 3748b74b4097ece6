"""Open a benchmark: find its files, determine their revision, and stream their questions."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.resources import files as package_files
from pathlib import Path

from audit.benchmarks import hub
from audit.benchmarks.config import SUFFIXES, BenchmarkConfig, check_path
from audit.benchmarks.files import (
    DataFile,
    content_hash,
    labelled_rows,
    missing_shards,
    select_files,
    some_names,
)
from audit.benchmarks.fresh import is_newer
from audit.benchmarks.guess import concerns
from audit.benchmarks.items import Items, without_contradictions
from audit.benchmarks.registry import Format, format_of
from audit.benchmarks.rows import RawRow, RowContext, shuffled
from audit.benchmarks.sample import Census, take_census
from audit.core.errors import BenchmarkError, ConfigError, check_seed, unknown_name
from audit.core.records import Item

# If 20 keys are drawn at random from four options, the probability that no key is the first option
# is .003.
_KEYS = 20
_EMBEDDED = ("elementary", "contrast")  # benchmarks that ship with the package
_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Benchmark:
    """Hold an opened benchmark: its files and its revision are known, and no row has been read yet.

    Reading raises BenchmarkError, with file and line, for a row that cannot be used.

    Parameters
    ----------
    config : BenchmarkConfig
        Settings that state where the rows are and how they are read.
    revision : str
        Hub commit, or sha256:... of local files.
    files : tuple of DataFile
        Files that are read, in order.
    seed : int
        Seed of the permutations of options.
    notes : tuple of str
        Remarks about the files, found when the benchmark was opened.
    only : frozenset of str or None
        Ids of the questions to read; None reads all.
    """

    config: BenchmarkConfig
    revision: str
    files: tuple[DataFile, ...]
    seed: int
    notes: tuple[str, ...] = ()
    only: frozenset[str] | None = None

    @property
    def name(self) -> str:
        """Return the name of the benchmark."""
        return self.config.name

    @cached_property
    def census(self) -> Census:
        """Return the census: counts and duplicates. Every row is read once, and thereby
        validated."""
        return take_census(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return warnings for readers of a result: duplicates, conflicting keys, repeated
        options."""
        census = self.census
        n, repeats = census.n_total, sum(len(group) - 1 for group in census.duplicates)
        unlikely = self.config.format == "mcq_file" and census.lowest_key > 0 and n >= _KEYS
        sentences = {
            f"{repeats} of {n} questions repeat another exactly; only the first of each is sampled.": repeats,
            f"{census.conflicting} repeated questions have different gold answers.": census.conflicting,
            f"{census.repeated_options} questions have two options with the same text.": census.repeated_options,
            f"The first option is right in none of {n} questions. If keys count from 1, write "
            "benchmark.index_base=1.": unlikely,
        }
        remarks = []
        for sentence, holds in sentences.items():
            if holds:
                remarks.append(sentence)
        return (*self.notes, *remarks, *self._concerns)

    @cached_property
    def _concerns(self) -> tuple[str, ...]:
        """Return warnings about parts of a user's file that are not used: images, and repeated
        ids."""
        if self.config.format != "mcq_file" or self.config.path is None:
            return ()
        return tuple(concerns((row for _, row, _ in self.located_rows()), self.config))

    def iter_questions(self) -> Iterator[Item]:
        """Yield every item in order. Each call starts from the beginning; few rows are in
        memory."""
        return (item for _, item in self.iter_located())

    def iter_located(self) -> Iterator[tuple[str, Item]]:
        """Yield (place, item); a place is a text such as "arc.jsonl, line 3"."""
        try:
            for where, item in self._read():
                yield where, shuffled(item, self.seed) if self.config.shuffle_options else item
        except BenchmarkError as error:
            if self.config.format != "mcq_file" or not self.config.path:
                raise
            shown = f"audit data show {shlex.quote(self.config.path)}"
            raise BenchmarkError(
                f"{error}\nHow the whole file is read, and what to type: {shown}"
            ) from error

    def _read(self, scored: bool = False) -> Iterator[tuple[str, Item]]:
        """Yield (place, item) of each item that `only` selects."""
        parse = format_of(self.config.format).parse
        for where, row, context in self.located_rows(scored):
            try:
                item = parse(row, context)
            except BenchmarkError as error:
                raise BenchmarkError(f"{where}: {error}") from error
            if self.only is None or item.id in self.only:
                yield where, item

    def read_items(self) -> Items:
        """Return all items that can be scored, with the facts that reference scorers and edits
        need.

        Returns
        -------
        Items
            The items, in the order of the file. A text that occurs with both labels (10 in ToxiGen)
            is excluded, and its ids are listed.

        Raises
        ------
        BenchmarkError
            If a row cannot be used, or if an id occurs twice.
        """
        items: dict[str, Item] = {}
        for where, item in self._read(scored=True):
            if items.setdefault(item.id, item) is not item:
                raise BenchmarkError(f"{where}: id {item.id!r} occurs twice. Ids must be unique.")
        return without_contradictions(items.values())

    def located_rows(self, scored: bool = False) -> Iterator[tuple[str, RawRow, RowContext]]:
        """Yield every row with its place and context.

        Parameters
        ----------
        scored : bool
            True if reference scorers need the items; see `RowContext`.

        Yields
        ------
        tuple of str, RawRow and RowContext
            Place, row and context. Rows of other subjects or dates than the configured ones are
            left out.

        Raises
        ------
        BenchmarkError
            If there is no row.
        ConfigError
            If a configured subject does not occur.
        """
        format_, wanted = format_of(self.config.format), set(self.config.subjects)
        seen: Counter[str] = Counter()  # number of rows so far, by subject
        for file in self.files:
            for where, row in labelled_rows(
                file, header=format_.csv_header, delimiter=self.config.delimiter
            ):
                subject = _subject(row, file, format_)
                number = seen[subject]
                seen[subject] += 1
                if (wanted and subject not in wanted) or not _in_dates(row, self.config, where):
                    continue
                if format_.row_filter is not None and not format_.row_filter(row):
                    continue
                yield where, row, RowContext(self.config, subject, number, scored)
        if not seen:
            named = ", ".join(file.label for file in self.files)
            size = sum(file.path.stat().st_size for file in self.files)
            raise BenchmarkError(f"{named}: no rows ({size} bytes).")
        if missing := sorted(wanted - set(seen)):
            raise unknown_name(f"subject of {self.name}", missing[0], seen)


def open_benchmark(config: BenchmarkConfig, *, seed: int = 42) -> Benchmark:
    """Find the files of a benchmark, and determine their revision.

    Parameters
    ----------
    config : BenchmarkConfig
        Configuration that names a local path, a benchmark of the package, a hub dataset, or an
        address.
    seed : int
        Seed of the permutations of options, if the configuration shuffles them.

    Returns
    -------
    Benchmark
        The opened benchmark.

    Raises
    ------
    ConfigError
        If the configuration cannot be used.
    BenchmarkError
        If the files cannot be fetched.
    """
    format_ = format_of(config.format)
    _check(config, format_, seed)
    if config.path is not None:
        files = _local_files(config, format_)
        return Benchmark(config, content_hash(files), files, seed)
    if config.format in _EMBEDDED and config.hub is None:
        name = f"{config.format}.jsonl"
        embedded = DataFile(Path(str(package_files("audit").joinpath("data", name))), name)
        return Benchmark(config, content_hash([embedded]), (embedded,), seed)
    if config.hub is not None:
        commit, files, notes = hub.fetch(config, format_.suffixes)
        return Benchmark(config, commit, files, seed, notes)
    if config.url is not None and config.files:
        named = tuple(_data_file(Path(name), name, format_) for name in config.files)
        files = _of_subjects(config, named)
        paths = hub.fetch_pinned(config, [file.label for file in files])
        files = tuple(replace(file, path=path) for file, path in zip(files, paths, strict=True))
        return Benchmark(config, content_hash(files), files, seed)
    raise ConfigError(
        f"{config.name} names neither a file nor a dataset of the hub. Expected a file, such as "
        "data=my_exam.csv, or for held-out items control_benchmark=mcq_file "
        "control_benchmark.path=unseen.jsonl."
    )


def _check(config: BenchmarkConfig, format_: Format, seed: int) -> None:
    """Raise ConfigError for errors that can be found before files are searched."""
    if not _SAFE_NAME.fullmatch(config.name):
        raise ConfigError(
            f"benchmark.name is {config.name!r}. Expected letters, digits, '_', '-' and '.'. "
            "Example: my_exam."
        )
    check_seed(seed)
    if config.subjects and not format_.subject_field:
        raise ConfigError(
            f"benchmark.subjects is {config.subjects}, but format {config.format} has no subjects. "
            "Expected an empty list."
        )
    if config.delimiter is not None and len(config.delimiter.replace("\\t", "\t")) != 1:
        raise ConfigError(
            f"benchmark.delimiter is {config.delimiter!r}. Expected one character. Example: "
            "'benchmark.delimiter=\";\"'."
        )


def _local_files(config: BenchmarkConfig, format_: Format) -> tuple[DataFile, ...]:
    root = check_path(str(config.path))
    if root.is_file():
        return (_data_file(root, root.name, format_),)
    try:
        names = []
        for p in root.rglob("*"):
            if p.is_file():
                names.append(p.relative_to(root).as_posix())
    except OSError as error:
        raise BenchmarkError(
            f"benchmark.path={config.path} cannot be read: {error.strerror or error}."
        ) from error
    data_files = []
    for name in _chosen(names, config, format_.suffixes):
        data_files.append(_data_file(root / name, name, format_))
    files = tuple(data_files)
    # If no name of a file states a subject, each row has a field with its subject.
    named = {file.subject for file in files}
    return _of_subjects(config, files) if named & set(config.subjects) else files


def _of_subjects(config: BenchmarkConfig, files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
    """Return the files of the configured subjects."""
    named, wanted = [file.subject for file in files], config.subjects
    if unknown := sorted(set(wanted) - set(named)):
        raise unknown_name(f"subject of {config.name}", unknown[0], named)
    selected = []
    for file in files:
        if not wanted or file.subject in wanted:
            selected.append(file)
    return tuple(selected)


def _chosen(names: list[str], config: BenchmarkConfig, suffixes: tuple[str, ...]) -> list[str]:
    """Return the files of the benchmark in a folder.

    Raises BenchmarkError if a user's folder has files of several kinds, or if a part is missing.
    """
    shown: tuple[str, ...] = SUFFIXES
    # Dataset.save_to_disk writes Arrow files, and JSON files with metadata only, for one or more
    # splits.
    if {"state.json", "dataset_dict.json"} & set(names):
        # These are cache files, which `Dataset.map` and `Dataset.filter` write.
        names = [name for name in names if not Path(name).name.startswith("cache-")]
        suffixes = shown = (".arrow",)
    of_kind = partial(
        select_files, names, config=config.hub_config, split=config.split, strict=False
    )
    kinds = []
    for files in (of_kind(suffixes=(suffix,)) for suffix in suffixes):
        if files:
            kinds.append(files)
    if not kinds:
        listed = some_names(sorted(n for n in names if n.lower().endswith(shown)), 5)
        raise BenchmarkError(
            f"benchmark.path is {config.path}, which has no {' or '.join(suffixes)} file of split "
            f"{config.split!r}. Its data files: {listed}. Name one file, or another split, such as "
            "benchmark.split=validation."
        )
    # A .json file often contains only metadata, so it is not counted as data.
    tables = []
    for files in kinds:
        if not files[0].lower().endswith(".json"):
            tables.append(files[0])
    # A folder of a published format may have several kinds of files, because its files are known.
    if config.format == "mcq_file" and len(tables) > 1:
        raise BenchmarkError(
            f"benchmark.path is {config.path}, which has several kinds of files: "
            f"{' and '.join(tables)}. Name one file, or keep one kind in the folder."
        )
    if missing := missing_shards(kinds[0]):
        raise BenchmarkError(
            f"benchmark.path is {config.path}, which has only a part of the benchmark: "
            f"{some_names(missing, 3)} missing. Download the rest, or name one file."
        )
    return kinds[0]


def _data_file(path: Path, label: str, format_: Format) -> DataFile:
    """Return a file with the subject that its name states.

    The subject is astronomy for astronomy_test.csv, and Age for Age.x.jsonl.
    """
    stem = path.name.split(".")[0]
    subject = (
        re.sub(r"_(test|val|validation|dev|train)$", "", stem) if format_.subject_field else ""
    )
    return DataFile(path, label, subject)


def _in_dates(row: RawRow, config: BenchmarkConfig, where: str) -> bool:
    """Return whether the date of a row is within `dated_until` and `dated_after`.

    Raises BenchmarkError if the row has no date.
    """
    if config.dated_until is None and config.dated_after is None:
        return True
    value = str(row.get(config.date_column) or "")[:10] if isinstance(row, Mapping) else ""
    limits = {config.dated_until: False, config.dated_after: True}
    try:
        return all(
            is_newer(value, date) == newer for date, newer in limits.items() if date is not None
        )
    except ConfigError as error:
        raise BenchmarkError(
            f"{where}: column {config.date_column!r}: {error} Name the column with the dates: "
            "benchmark.date_column=released."
        ) from error


def _subject(row: RawRow, file: DataFile, format_: Format) -> str:
    value = (
        row.get(format_.subject_field) if isinstance(row, dict) and format_.subject_field else None
    )
    return str(value).strip() if value else file.subject
