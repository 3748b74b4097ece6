"""Guess which columns of a user's file hold the parts of a question, by trying to read the rows.

The module does no I/O.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from audit.benchmarks import rows as names
from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.rows import RawRow, RowContext, mcq_file
from audit.core.errors import BenchmarkError

_IDS = ("id", "question_id", "qid", "item_id", "uid", "guid")
_GROUPS = ("subject", "category", "topic", "domain", "group", "section", "chapter", "passage_id")
_STEMS = (
    "|opt|option|choice|ans|answer|distractor|incorrect|wrong|incorrect_answer|ending|alternative"
)
_OPTION = re.compile(rf"({_STEMS}|[a-z_]+?(?=_?[0-9])|[a-z_]+(?=_[a-j]$))_?([a-j]|[0-9]{{1,2}})")
# A column with one of these endings has other contents than the rest of its name says. For example,
# question_id holds no question, and answer_a holds no key.
_OTHER = re.compile(r"_(id|type|number|count|[a-j]|[0-9]+)$")
_IMAGE_PATH = re.compile(r"(?i)\A(data:image/|[^\s]+\.(png|jpe?g|gif|webp|bmp|tiff?|svg)\Z)")
_FIGURE = re.compile(
    r"(?i)\b(look at|refer to|see|shown in|in|using|from) the (figure|image|picture|diagram|graph|photo|chart)\b"
    r"|\b(figure|image|picture|diagram|graph|photo|chart) (shown|below|above)\b"
)
_WRONG = ("distractor", "incorrect", "wrong", "incorrect_answer")
_TRIED = 20  # number of rows that are read with each pair of columns; 50 columns make 2,450 pairs
_SEPARATORS = ("|", ";", " / ", "\n", ",")
PARTS = {  # the parts of a question, and the setting that names the column of each part
    "question": "question_column",
    "options": "choices_column",
    "key": "answer_column",
    "id": "id_column",
    "group": "group_column",
    "passage": "context_column",
}
# Forms in which the key may be written, in the order in which they are tried. The first form with
# which the most rows can be read is used.
_FORMS = (("auto", 0), ("auto", 1), ("index", 0), ("index", 1), ("letter", 0), ("text", 0))


def guess(rows: Sequence[RawRow], config: BenchmarkConfig) -> BenchmarkConfig:
    """Guess the configuration with which the rows of a file can be read.

    Parameters
    ----------
    rows : sequence of RawRow
        First rows of the file.
    config : BenchmarkConfig
        Configuration that a person typed. Its fields that are set are kept.

    Returns
    -------
    BenchmarkConfig
        The suggested configuration, which a person checks and types. The program does not use it by
        itself.
    """
    if not rows or not isinstance(rows[0], Mapping):
        return config
    columns = {_plain(str(name)): str(name) for name in rows[0]}
    settings: dict[str, Any] = {
        "question_column": _named(columns, names.QUESTION_NAMES),
        "answer_column": _named(columns, names.ANSWER_NAMES),
        "id_column": _where(True, rows, _named(columns, _IDS)),
        "context_column": _named(columns, sorted(names.PASSAGE_NAMES)),
        "group_column": _where(False, rows, _named(columns, _GROUPS)),
    }
    options = _option_columns(columns, settings["answer_column"])
    listed = _named(columns, sorted(names.CHOICES_NAMES)) or (
        None if options else _list_column(rows)
    )
    if listed:
        settings |= {"choices_column": listed, "choices_separator": _separator(rows, listed)}
    elif options:
        settings["choice_columns"] = options
        settings["shuffle_options"] = settings["answer_column"] in options
    plain = BenchmarkConfig()
    changes = {}
    for name, value in settings.items():
        unset = getattr(config, name) == getattr(plain, name)
        if unset and value not in (None, [], False):
            changes[name] = value
    guessed = replace(config, **changes)
    guessed = _filled([row for row in rows[:_TRIED] if isinstance(row, Mapping)], guessed)
    if (config.answer_as, config.index_base) != ("auto", 0):
        return guessed
    forms = [replace(guessed, answer_as=form, index_base=base) for form, base in _FORMS]
    # If several forms are equally good, max returns the first form.
    return max(forms, key=lambda form: sum(_reads(row, form) for row in rows))


def _list_column(rows: Sequence[RawRow]) -> str | None:
    """Return the column that is a list of texts in every row; None if there is no such column, or
    more than one."""
    mappings = []
    for row in rows:
        if isinstance(row, Mapping):
            mappings.append(row)
    listed = []
    for name in mappings[0]:
        if all(names.is_option_list(row.get(name)) for row in mappings):
            listed.append(str(name))
    return listed[0] if len(listed) == 1 else None


def concerns(rows: Iterable[RawRow], config: BenchmarkConfig) -> list[str]:
    """Return warnings about contents of a file that the program does not use.

    Parameters
    ----------
    rows : iterable of RawRow
        All rows of the file.
    config : BenchmarkConfig
        Configuration with which they are read.

    Returns
    -------
    list of str
        Sentences about images, about figures, and about an unused id column with repeated values.
    """
    total, pictured = 0, 0
    images: Counter[str] = Counter()
    ids: dict[str, Counter[str]] = {}
    for row in rows:
        if not isinstance(row, Mapping):
            continue
        total += 1
        pictured += _FIGURE.search(str(row.get(config.question_column, ""))) is not None
        for name, value in row.items():
            images[str(name)] += _is_image(str(name), value)
            if _plain(str(name)) in _IDS and config.id_column is None:
                ids.setdefault(str(name), Counter())[str(value)] += 1
    sentences = []
    for name, n in images.items():
        if n:
            sentences.append(
                f"The column {name!r} has images in {n} of {total} rows. Questions are sent as "
                "text, without images."
            )
    if pictured:
        sentences.append(
            f"{pictured} of {total} questions refer to a figure, which is not sent. Leave such "
            "questions out."
        )
    for name, values in ids.items():
        repeated = sum(n > 1 for n in values.values())
        if repeated:
            sentences.append(
                f"The column {name!r} is not used as id, because {repeated} of its values occur in "
                "several rows."
            )
    return sentences


def _is_image(name: str, value: Any) -> bool:
    """Return whether a field holds an image, judging by its name or its value (the path of an
    image)."""
    if not value:
        return False
    named = {"image", "images", "img", "picture", "figure", "photo"} & set(_plain(name).split("_"))
    return bool(named) or (isinstance(value, str) and _IMAGE_PATH.search(value) is not None)


def _filled(rows: Sequence[Mapping[str, Any]], config: BenchmarkConfig) -> BenchmarkConfig:
    """Add a column for the question and for the key if no name suggested one.

    The function tries the columns that have no role yet, and chooses those with which the most rows
    can be read. Among equally good columns it chooses those with the most letters.
    """
    plain = BenchmarkConfig()
    given = [(part, getattr(config, part)) for part in ("question_column", "answer_column")]
    missing = []
    for part, name in given:
        if name == getattr(plain, part) and name not in rows[0]:
            missing.append(part)
    used = {*(getattr(config, setting) for setting in PARTS.values()), *config.choice_columns}
    left = []
    for column in rows[0]:
        if column not in used:
            left.append(column)
    chosen = permutations(left, len(missing))
    candidates = [config]
    for columns in chosen:
        settings: dict[str, Any] = dict(zip(missing, columns, strict=True))
        candidates.append(replace(config, **settings))

    def fit(candidate: BenchmarkConfig) -> tuple[int, int]:
        read = []
        for row in rows:
            if _reads(row, candidate):
                read.append(row)
        text = "".join(str(row[candidate.question_column]) for row in read)
        return len(read), sum(map(str.isalpha, text))

    return max(candidates, key=fit)


def other_keys(rows: Sequence[RawRow], config: BenchmarkConfig) -> dict[str, int]:
    """Return other settings that can read the rows, but would give some of them another key.

    Parameters
    ----------
    rows : sequence of RawRow
        First rows of the file.
    config : BenchmarkConfig
        Configuration with which they are read.

    Returns
    -------
    dict
        Maps each setting, as a person types it, to the number of rows that would have another key.
        The settings differ in the meaning of a number: an index from 0, an index from 1, or the
        text of an option.
    """
    based = replace(config, index_base=1 - config.index_base)
    counts = {}
    if all(_reads(row, based) for row in rows):
        counts[f"index_base={based.index_base}"] = _differ(rows, config, based)
    if config.answer_as == "index":
        counts["answer_as=text"] = _differ(rows, config, replace(config, answer_as="text"))
    counted = {}
    for name, n in counts.items():
        if n:
            counted[name] = n
    return counted


def _differ(rows: Sequence[RawRow], config: BenchmarkConfig, other: BenchmarkConfig) -> int:
    return sum(_key(row, config) != _key(row, other) for row in rows if _reads(row, other))


def _key(row: RawRow, config: BenchmarkConfig) -> int:
    return mcq_file(row, RowContext(config, "", 0)).gold


def _plain(name: str) -> str:
    """Return a column name in plain form: "Prompt Text" and "promptText" give "prompt_text"."""
    return re.sub(r"[\W_]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)).strip("_").lower()


def _named(columns: Mapping[str, str], usual: Sequence[str]) -> str | None:
    """Return the column with one of the usual names.

    If no column has such a name, return a column whose name contains one as a word ("Prompt Text").
    """
    for name in usual:
        if name in columns:
            return columns[name]
    for name in usual:
        for plain, column in columns.items():
            if name in plain.split("_") and not _OTHER.search(plain):
                return column
    return None


def _option_columns(columns: Mapping[str, str], answer: str | None) -> list[str]:
    """Return the columns of the options.

    These are the longest series of columns whose names differ only in a letter or number. A series
    with a usual name is preferred. The right option's column is put before those of wrong options.
    """
    stems: dict[str, dict[str, str]] = {}
    for plain, column in columns.items():
        if (match := _OPTION.fullmatch(plain)) and (match[1] or match[2].isalpha()):
            stems.setdefault(match[1], {})[match[2]] = column
    usual = {}
    for stem, places in stems.items():
        if stem in _STEMS.split("|") and len(places) > 1:
            usual[stem] = places
    longest = max(usual or stems, key=lambda stem: len(stems[stem]), default="")
    places = stems.get(longest, {})
    options = [places[place] for place in sorted(places, key=lambda place: (len(place), place))]
    if longest in _WRONG and answer:
        options = [answer, *options]
    return options if len(options) > 1 else []


def _where(unique: bool, rows: Sequence[Any], column: str | None) -> str | None:
    """Return the column if every row has a value in it, and the values are unique (or repeat if
    `unique` is False)."""
    values = [str(row.get(column) or "") for row in rows]
    return (
        column if column and all(values) and (len(set(values)) == len(values)) == unique else None
    )


def _separator(rows: Sequence[Any], column: str) -> str | None:
    texts = []
    for row in rows:
        if isinstance(row.get(column), str):
            texts.append(row[column])
    if not texts or texts[0].lstrip().startswith(("[", "{")):
        return None
    for sign in _SEPARATORS:
        if all(sign in text for text in texts):
            return sign
    return None


def _reads(row: RawRow, config: BenchmarkConfig) -> bool:
    try:
        mcq_file(row, RowContext(config, "", 0))
    except BenchmarkError:
        return False
    return True
