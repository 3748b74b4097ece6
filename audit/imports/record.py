"""Define the input and output of the readers of all log formats.

The input is the user's wishes (`Wanted`). The output is the outcomes of one model on one item
(`Imported`).

The module also reads files whose size is limited: rows, a JSON document, or members of a zip. It
never reads a pickle, and never unpacks a zip to disk.
"""

import json
import os
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from audit.benchmarks.files import MAX_DOCUMENT, likely_delimiter, read_rows
from audit.core.errors import BenchmarkError, ConfigError, DataError
from audit.core.guarded_files import check_regular, read_bytes
from audit.core.records import ITEM_ID

Record = dict[str, Any]  # a JSON object
Records = Iterator[tuple[str, Record]]  # pairs (place, object), where the place is for messages
MAX_CELL = 4 << 20  # largest number of characters of a text; no exam item is longer
MAX_SHOWN = 200  # number of characters that are shown of an answer, a key or an error
MAX_OF = 100  # largest number of trials of one item
_RIGHT = ("c", "true", "yes", "y", "t", "correct", "right", "pass", "passed")
_WRONG = ("i", "false", "no", "f", "incorrect", "wrong", "fail", "failed")
_WORDS: dict[str, int | Fraction] = {
    **dict.fromkeys(_RIGHT, 1),
    **dict.fromkeys(_WRONG, 0),
    "p": Fraction(1, 2),
}
_NONE = frozenset(
    (
        "",
        "none",
        "null",
        "nil",
        "nan",
        "-nan",
        "na",
        "n/a",
        "#n/a",
        "#na",
        "<na>",
        "nat",
        "#value!",
        "-",
        "--",
        "?",
    )
)
_CODE = r"[45]\d\d\b"  # pattern of an HTTP status that means an error (4xx or 5xx)
_FAILURE = re.compile(
    rf"""[\s"'\[(*#{{]{{0,4}}(?:
    (?i:(?:(?:api|openai|request|server|http|network|connection|client|internal)[ _-]?){{0,3}}
        (?:error|exception)(?:\s?code)?["'\])]?\s?(?:[:\[({{-]|{_CODE}))
    |(?:[A-Za-z_]{{1,40}}\.){{0,4}}[A-Z][A-Za-z]{{0,39}}(?:Error|Exception)["']?\s?[:(]
    |(?i:HTTP(?:/\d(?:\.\d)?)?[ -]?(?:status|error|code)?[: ]{{0,2}}{_CODE})
    |{_CODE}[ :-]{{1,3}}(?i:client\ error|server\ error|bad\ (?:request|gateway)|unauthori[sz]ed|forbidden
        |not\ found|too\ many\ requests|internal\ server|service\ unavailable|gateway\ time)
    |Traceback\ \(most\ recent
    |(?i:rate\ limit\ (?:exceeded|reached)|(?:request|connection)\ timed\ out|too\ many\ requests
        |internal\ server\ error|service\ unavailable|gateway\ time-?out|bad\ gateway))""",
    re.VERBOSE,
)
NO_ANSWER = "n"  # the score that Inspect writes for a missing answer
_EXPECTED = "expected 0, 1, true, false, a share such as 0.3, or k/n such as 3/10"


@dataclass(frozen=True)
class Wanted:
    """Hold the user's wishes about how a log is read. If a wish is empty, the log decides.

    Attributes
    ----------
    key : str
        Field whose value identifies an item; "text" for a hash of its text.
    metric : str
        Name of the score to read. If an Inspect score has several parts, the name is scorer.part.
    columns : dict
        {field: column}, for the columns of a table.
    answer_as, gold_as : str
        How the columns `answer` and `gold` of a table are read: one of the kinds in
        `audit.imports.typed`.
    filter : str
        Name of the lm-eval filter to read.
    window : tuple of (str, str) or None
        The name of the held-out benchmark, and a period FIRST..LAST. Rows of this benchmark are
        left out if their `date` is outside the period.
    split : str
        A date. Rows of a table from this date on belong to the held-out benchmark that `window`
        names. If it is "", the table itself states the benchmark of each row.
    """

    model: str = ""
    benchmark: str = ""
    key: str = ""
    metric: str = ""
    columns: dict[str, str] = field(default_factory=dict)
    answer_as: str = ""
    gold_as: str = ""
    filter: str = ""
    window: tuple[str, str] | None = None
    split: str = ""

    def key_of(self, record: Any, by_text: str, where: str, home: Any = None) -> str:
        """Return the key that identifies an item: the value of the field that --key names, or else
        `by_text`.

        Parameters
        ----------
        record : Any
            The item's fields.
        by_text : str
            A hash of the item's text.
        where : str
            Where the record is, for errors.
        home : Any
            The item's id if this program exported the task. The id is the same in the logs of all
            models. It is used as key unless --key names another field.
        """
        if home and self.key in ("", ITEM_ID):
            return checked(home, where)
        return by_text if self.key in ("", "text") else field_of(record, self.key, where)

    def model_of(self, named: Any, log: str, why: str) -> str:
        """Return the model's name that the user gave, or else the name in the log.

        Parameters
        ----------
        named : Any
            The model's name in the log.
        log : str
            Name of the log.
        why : str
            Reason why a log may name no model.

        Raises
        ------
        ConfigError
            If neither the user nor the log names the model.
        """
        if model := self.model or str(named or ""):
            return model
        raise ConfigError(
            f"The model of {log} is missing: {why}. Expected the model's name. Add --model NAME."
        )

    def score_of(self, scores: Iterable[str], usual: Sequence[str], where: str) -> str:
        """Return the name of the score to read.

        Parameters
        ----------
        scores : iterable of str
            Names of the sample's scores.
        usual : sequence of str
            Names to look for if the user chose no score. The first name that the sample has is
            read.
        where : str
            Where the sample is, for errors.

        Raises
        ------
        DataError
            If the sample has no such score.
        """
        expected = [self.metric] if self.metric else usual
        names = list(scores)
        for name in expected:
            if name in names:
                return name
        listed = ", ".join(names) or "it has no score"
        raise DataError(
            f"{where} has no score {' or '.join(expected)}; found: {listed}. Say --metric NAME."
        )


@dataclass(frozen=True, slots=True)
class Imported:
    """Hold an outcome: the result of one model on one item in one epoch.

    Attributes
    ----------
    key : str
        Identifies the item in the logs of all models.
    sample : str
        Name of the item in its log, by which repeated items are noticed.
    right, of : int
        `right` of `of` trials were right. `right` is None if no answer could be read, or if the log
        has an error in place of the answer.
    gold : int or None
        Index of the right option; None if it is unknown.
    target : str
        Key of an item whose options are not listed; "" if the log does not state it.
    revision : str
        Revision of the weights; "" if the log does not state it.
    stratum : str
        Group of the item, such as its difficulty. Both sets of items should have equal shares of
        each group. "" if items have no groups.
    counted : bool
        Whether the log states the counts of right and of all trials, and not a decimal score.
    measure : bool
        Whether the score is not a share of right answers but, for example, a probability.
    date : str
        Date of the item (day, month or year); "" if dates are not read.
    cut_off : bool or None
        Whether the reply ended at its token limit; None if the log does not state it.
    task : str
        Name of the task in the log; "" if the log does not state it. It differs from the benchmark
        if the user gave several tasks, such as the subjects of MMLU, the name of one benchmark.
    """

    model: str
    benchmark: str
    key: str
    sample: str
    right: int | None
    of: int = 1
    text: str | None = None
    options: tuple[str, ...] = ()
    gold: int | None = None
    answer: str | None = None
    epoch: int = 1
    error: str | None = None
    revision: str = ""
    stratum: str = ""
    target: str = ""
    counted: bool = False
    measure: bool = False
    cut_off: bool | None = None
    date: str = ""
    task: str = ""


@dataclass(frozen=True)
class Log:
    """Hold the outcomes of a log, which are read on demand, with the name and version of its tool.

    Attributes
    ----------
    score : str
        Name of the score that is read; "" if the format has a single score.
    notes : list of str
        Sentences that a reader of the score should know. The list is filled while outcomes are
        read.
    unfinished : str
        What an incomplete evaluation holds, such as "6 of 400 samples, cancelled"; "" for a
        complete evaluation.
    sampling : str
        Settings with which replies were sampled, such as "temperature 0.7"; "" if the log does not
        state them.
    """

    tool: str
    version: str
    outcomes: Iterator[Imported]
    score: str = ""
    notes: list[str] = field(default_factory=list)
    unfinished: str = ""
    sampling: str = ""


def sampling_of(settings: Any, name: str = "temperature") -> str:
    """Describe the settings with which replies were sampled.

    Parameters
    ----------
    settings : Any
        Settings of generation in the log.
    name : str
        Name of the setting that is the temperature.

    Returns
    -------
    str
        The temperature in words; "" if the settings do not state it.

    Examples
    --------
    >>> sampling_of({"temperature": 0.7}), sampling_of({"do_sample": False, "temperature": 1})
    ('temperature 0.7', 'temperature 0')
    """
    if not isinstance(settings, dict):
        return ""
    if settings.get("do_sample") is False:
        return "temperature 0"
    value = settings.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"temperature {value:g}" if is_number else ""


def is_failure(text: str) -> bool:
    """Return whether a text in place of a reply is the error message of a client or a server.

    Examples
    --------
    >>> is_failure("Error: timed out"), is_failure("HTTP 503"), is_failure("429 Too Many Requests")
    (True, True, True)
    >>> is_failure("The error is 5 %.")
    False
    """
    return _FAILURE.match(text[:400]) is not None


def is_none(text: str) -> bool:
    """Return whether a text is empty or means "no value", such as N/A. "Na" is not such a text."""
    return text.strip().casefold() in _NONE and text.strip() != "Na"


def outcome(value: Any, where: str) -> tuple[int | None, int]:
    """Read a score as the number of right trials and the number of all trials.

    Parameters
    ----------
    value : Any
        The score in the log.
    where : str
        Where the score is, for errors.

    Returns
    -------
    k : int or None
        Number of right trials; None if the score means that there was no answer.
    n : int
        Trials.

    Raises
    ------
    DataError
        If the value is not a share of right trials.

    Examples
    --------
    >>> outcome("C", ""), outcome(0.3, ""), outcome("3/10", ""), outcome("", "")
    ((1, 1), (3, 10), (3, 10), (None, 1))
    """
    share: Fraction | int | float | None = value if isinstance(value, int | float) else None
    if value is None:
        return None, 1
    if isinstance(value, str):
        word = value.strip().casefold()
        if word == NO_ANSWER or is_none(value):
            return None, 1
        k, slash, n = word.partition("/")
        try:
            if slash and 0 <= int(k) <= int(n) <= MAX_OF and int(n):
                return int(k), int(n)
            share = _WORDS[word] if word in _WORDS else float(word)
        except ValueError:
            share = None
    if share is None or not 0 <= share <= 1:  # this form also refuses NaN
        raise DataError(f"{where}: found the score {value!r:.80}, {_EXPECTED}.")
    if share in (0, 1):
        return int(share), 1
    exact = Fraction(share).limit_denominator(MAX_OF)
    return exact.numerator, exact.denominator


def trials(right: Any, of: Any, where: str) -> tuple[int | None, int]:
    """Read a count of right trials and the number of trials.

    Returns
    -------
    k : int or None
        Number of right trials; None if the count is empty.
    n : int
        Trials.

    Raises
    ------
    DataError
        If the count is a fraction and not a whole number. In a column of fractions, 1 would mean
        that all trials were right.
    """
    try:
        n, k = int(of), float(right)
        if 1 <= n <= MAX_OF and 0 <= k <= n and k.is_integer():
            return int(k), n
    except (TypeError, ValueError, OverflowError):
        if right is None or right == "":
            return None, 1
    raise DataError(
        f"{where}: found {right!r:.40} right answers of {of!r:.40}. Expected two whole numbers, such as 3 and 10. "
        "If the column holds fractions, such as 0.3, leave out the column `of`."
    )


def checked(value: Any, where: str) -> str:
    """Check the length of a text in a log, and return the text.

    Raises
    ------
    DataError
        If the text is too long.
    """
    text = value if isinstance(value, str) else str(value)
    if len(text) > MAX_CELL:
        raise DataError(
            f"{where}: a text has {len(text):,} characters, expected at most {MAX_CELL:,}."
        )
    return text


def texts_of(values: Iterable[Any], where: str) -> tuple[str, ...]:
    """Check and return several texts in a log, such as options.

    Raises
    ------
    DataError
        If a text is too long.
    """
    return tuple([checked(value, where) for value in values])


def brief(text: Any) -> str:
    """Shorten a text for display: return its first characters, and a mark if characters were cut
    off.

    Examples
    --------
    >>> brief("B"), brief("x" * 300)[-3:], len(brief("x" * 300))
    ('B', 'xx…', 200)
    """
    shown = text if isinstance(text, str) else str(text)
    return shown if len(shown) <= MAX_SHOWN else f"{shown[: MAX_SHOWN - 1]}…"


def single(value: Any) -> str:
    """Convert a value to text. A list with one entry is converted as this entry.

    Returns
    -------
    str
        The text; "" for None, and JSON for other objects.

    Examples
    --------
    >>> single(["18"]), single(None), single([1, 2]), single(18)
    ('18', '', '[1, 2]', '18')
    """
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def as_list(value: Any) -> list[Any]:
    """Return a list unchanged, and any other value as a list with one entry."""
    return value if isinstance(value, list) else [value]


def first_of(record: Record, names: Iterable[str]) -> Any:
    """Return the value of the first of the given fields that a record has; None if it has none of
    these fields.
    """
    for name in names:
        if name in record:
            return record[name]
    return None


def messages(given: Any, where: str) -> str:
    """Return the text of a question, which is given as a text or as a list of messages."""
    turns = []
    for turn in as_list(given):
        text = first_of(turn, ("content", "prompt")) if isinstance(turn, dict) else turn
        turns.append(single(text))
    return checked("\n".join(turns), where)


def place_of(key: str, options: Sequence[str]) -> int | None:
    """Return the index of the option with a given text.

    Returns
    -------
    int or None
        The index; None if no option has the text, or several options have it.
    """
    return options.index(key) if options.count(key) == 1 else None


def field_of(record: Any, path: str, where: str) -> str:
    """Return the value of a field as a text that can name an item.

    Parameters
    ----------
    record : Any
        A JSON object of the log.
    path : str
        Name of the field; dots lead to inner objects.
    where : str
        Where the record is, for errors.

    Raises
    ------
    DataError
        If the field is missing.
    """
    value = record
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None or isinstance(value, dict | list) or value == "":
        known = ", ".join(sorted(map(str, record))[:12]) if isinstance(record, dict) else "none"
        raise DataError(
            f"{where}: the row has no field {path!r} that could name the item. Its fields are "
            f"{known}."
        )
    return checked(value, where)


def epoch(word: str) -> int:
    return int(word) if word.isdecimal() and len(word) < 6 else 1


def letter_index(value: Any, n: int) -> int | None:
    """Return the index of the option that a letter, or a number from 0 on, names.

    Parameters
    ----------
    value : Any
        The letter or number.
    n : int
        Number of options.

    Returns
    -------
    int or None
        The index; None if the value names no option.

    Examples
    --------
    >>> letter_index("B", 4), letter_index("1", 4), letter_index("F", 4)
    (1, 1, None)
    """
    word = str(value).strip()
    if word.isdecimal() and len(word) < 3:
        place = int(word)
    # Only ASCII letters are accepted, since a character such as the German sharp s becomes two
    # characters in upper case.
    elif len(word) == 1 and word.isascii():
        place = ord(word.upper()) - 65
    else:
        return None
    return place if 0 <= place < n else None


MAX_MEMBER = 64 << 20  # largest size of an unpacked member of a zip, in bytes
MAX_MEMBERS = 1_000_000
# Largest ratio of unpacked to packed size of a large zip; the ratio of logs is 5 to 50.
_PACKED = 200
_ZSTD = 93  # the number of the compression method Zstandard in a zip
# Only these methods of compression are accepted, since no log uses another method. With LZMA, a
# member could request up to 4 GiB of memory.
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTD)


def parse(data: bytes | str, where: str) -> Any:
    """Parse a JSON text, and return its value.

    Raises
    ------
    DataError
        If the text is not JSON.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where} is not JSON ({str(error)[:120]}). Expected a whole log: copy it again."
        ) from error


def document(path: Path) -> Any:
    """Read a JSON file, and return its document.

    Raises
    ------
    DataError
        If the file is too large, or not JSON.
    """
    size = path.stat().st_size
    if size > MAX_DOCUMENT:
        raise DataError(
            f"{path} has {size:,} bytes; expected at most {MAX_DOCUMENT:,}. Save the log as .eval."
        )
    return parse(read_bytes(path, MAX_DOCUMENT, follow=True), str(path))


def rows_of(path: Path, suffix: str) -> Records:
    """Yield the rows of a file.

    Parameters
    ----------
    path : Path
        Path of the file to read.
    suffix : str
        The kind of the file: .csv, .jsonl, .json or .parquet. The file's name may have another
        suffix.

    Yields
    ------
    where : str
        Where the row is, for errors.
    row : dict
        The row.

    Raises
    ------
    DataError
        If the file is not of this kind.
    """
    delimiter = likely_delimiter(path) if suffix == ".csv" else None
    try:
        for place, row in read_rows(path, suffix=suffix, delimiter=delimiter):
            yield f"{path}, {place}", cast(Record, row)
    except BenchmarkError as error:
        raise DataError(f"{path}, {error}") from error


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open a zip, and check the number and the sizes of its members.

    Raises
    ------
    DataError
        If the file is not a complete zip, or if it has too many or too large members.
    """
    try:
        check_regular(path, follow=True)
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise DataError(
            f"{path} is not a whole zip ({error}). Expected an .eval log: copy it again."
        ) from error
    entries = archive.infolist()
    if len(entries) > MAX_MEMBERS:
        raise DataError(f"{path} has {len(entries):,} members; expected at most {MAX_MEMBERS:,}.")
    names = Counter(archive.namelist())
    unpacked = 0
    for entry in entries:
        name = entry.filename
        if names[name] > 1:
            raise DataError(f"{path} has two members {name[:80]!r}; expected one of each name.")
        if entry.compress_type not in _PACKINGS:
            method = f"method {entry.compress_type}; expected deflate or Zstandard"
            raise DataError(f"{path} packs {name[:80]!r} by {method}.")
        unpacked += entry.file_size
    limit = max(MAX_DOCUMENT, _PACKED * path.stat().st_size)
    if unpacked > limit:
        raise DataError(
            f"{path} unpacks to {unpacked:,} bytes; expected at most {limit:,}. No log is "
            "compressed so much."
        )
    return archive


def member(archive: zipfile.ZipFile, name: str, limit: int = MAX_MEMBER) -> Any:
    """Read a member of an archive as JSON, and return its value.

    Parameters
    ----------
    archive : ZipFile
        An open zip, such as a log of Inspect.
    name : str
        Name of the member.
    limit : int
        Largest number of bytes to read. The size that the zip states may be wrong.

    Raises
    ------
    DataError
        If the member is missing, damaged, too large or not JSON.
    """
    where = f"{archive.filename}, {name}"
    try:
        info = archive.getinfo(name)
        with _opened(archive, info) as file:
            data = file.read(min(limit, info.file_size) + 1)
    except KeyError as error:
        raise DataError(
            f"{archive.filename} has no {name}. Expected an .eval log of Inspect."
        ) from error
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        RuntimeError,
        pa.ArrowException,
    ) as error:
        raise DataError(
            f"{where} cannot be read ({error}). Expected a whole .eval log without a password."
        ) from error
    if len(data) > limit:
        raise DataError(f"{where} unpacks to more than {limit:,} bytes; expected one sample.")
    if len(data) != (claimed := archive.getinfo(name).file_size):
        raise DataError(f"{where} unpacks to {len(data):,} bytes or more; expected {claimed:,}.")
    return parse(data, where)


def _opened(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
    """Return a member of a zip as a stream.

    Inspect compresses with Zstandard, which zipfile supports only from Python 3.14 on. Therefore
    Arrow decompresses such a member.
    """
    if info.compress_type != _ZSTD:
        return archive.open(info)
    with Path(str(archive.filename)).open("rb") as file:
        # The lengths of the name and of the extra field are read from the member's own header,
        # since the zip's directory may state other lengths.
        file.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4).ljust(4, b"\0"))
        file.seek(name + extra, os.SEEK_CUR)
        packed = file.read(min(info.compress_size, MAX_MEMBER))
    return pa.CompressedInputStream(pa.BufferReader(packed), "zstd")
