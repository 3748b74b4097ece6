"""Which columns of a file of one's own hold what a question needs: a guess, tried with the reader itself (pure)."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from audit.benchmarks import rows as names
from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.rows import RawRow, RowContext, mcq_file
from audit.errors import BenchmarkError

_IDS = ("id", "question_id", "qid", "item_id", "uid", "guid")
_GROUPS = ("subject", "category", "topic", "domain", "group", "section", "chapter", "passage_id")
_STEMS = "|opt|option|choice|ans|answer|distractor|incorrect|wrong|incorrect_answer|ending|alternative"
_OPTION = re.compile(rf"({_STEMS}|[a-z_]+?(?=_?[0-9])|[a-z_]+(?=_[a-j]$))_?([a-j]|[0-9]{{1,2}})")
_OTHER = re.compile(r"_(id|type|number|count|[a-j]|[0-9]+)$")  # a question's number, or one of several options
_IMAGE_PATH = re.compile(r"(?i)\A(data:image/|[^\s]+\.(png|jpe?g|gif|webp|bmp|tiff?|svg)\Z)")
_FIGURE = re.compile(
    r"(?i)\b(look at|refer to|see|shown in|in|using|from) the (figure|image|picture|diagram|graph|photo|chart)\b"
    r"|\b(figure|image|picture|diagram|graph|photo|chart) (shown|below|above)\b"
)
_WRONG = ("distractor", "incorrect", "wrong", "incorrect_answer")
_TRIED = 20  # rows that are read with each pair of columns: 50 columns are 2,450 pairs
_SEPARATORS = ("|", ";", " / ", "\n", ",")
PARTS = {  # of a question: the setting that names its column
    "question": "question_column", "options": "choices_column", "key": "answer_column", "id": "id_column",
    "group": "group_column", "passage": "context_column",
}  # fmt: skip
# How the key may be written, in the order in which it is tried: the first that reads every row.
_FORMS = (("auto", 0), ("auto", 1), ("index", 0), ("index", 1), ("letter", 0), ("text", 0))


def guess(rows: Sequence[RawRow], config: BenchmarkConfig) -> BenchmarkConfig:
    """The configuration with the columns that these rows seem to have. What `config` sets already is kept.

    rows: the first of a file. Nothing is decided by it: a person sees the guess, and types it.
    """
    if not rows or not isinstance(rows[0], Mapping):
        return config
    columns = {_plain(str(name)): str(name) for name in rows[0]}
    found: dict[str, Any] = {
        "question_column": _named(columns, names.QUESTION_NAMES),
        "answer_column": _named(columns, names.ANSWER_NAMES),
        "id_column": _where(True, rows, _named(columns, _IDS)),
        "context_column": _named(columns, sorted(names.PASSAGE_NAMES)),
        "group_column": _where(False, rows, _named(columns, _GROUPS)),
    }
    options = _option_columns(columns, found["answer_column"])
    listed = _named(columns, sorted(names.CHOICES_NAMES)) or (None if options else _list_column(rows))
    if listed:
        found |= {"choices_column": listed, "choices_separator": _separator(rows, listed)}
    elif options:
        found["choice_columns"] = options
        found["shuffle_options"] = found["answer_column"] in options
    plain = BenchmarkConfig()
    guessed = replace(
        config,
        **{k: v for k, v in found.items() if v not in (None, [], False) and getattr(config, k) == getattr(plain, k)},
    )
    guessed = _filled([row for row in rows[:_TRIED] if isinstance(row, Mapping)], guessed)
    if (config.answer_as, config.index_base) != ("auto", 0):
        return guessed
    forms = [replace(guessed, answer_as=form, index_base=base) for form, base in _FORMS]
    return max(forms, key=lambda one: sum(_reads(row, one) for row in rows))  # the first of the best


def _list_column(rows: Sequence[RawRow]) -> str | None:
    """Return the one column that is a list of texts in every row."""
    every = [row for row in rows if isinstance(row, Mapping)]
    found = [name for name in every[0] if all(names.is_option_list(row.get(name)) for row in every)]
    return str(found[0]) if len(found) == 1 else None


def concerns(rows: Iterable[RawRow], config: BenchmarkConfig) -> list[str]:
    """Return what a reader loses of these rows, a sentence each: images, and an id column whose values repeat."""
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
    said = [
        f"The column {name!r} holds images in {n} of {total} rows. Questions are sent as text, without them."
        for name, n in images.items()
        if n
    ]
    if pictured:
        said.append(f"{pictured} of {total} questions point to a figure, which is not sent. Leave such questions out.")
    for name, values in ids.items():
        repeated = sum(n > 1 for n in values.values())
        if repeated:
            said.append(f"The column {name!r} is not read: {repeated} of its values name several rows.")
    return said


def _is_image(name: str, value: Any) -> bool:
    """Return whether a field holds an image: by its name, or as the path of one."""
    if not value:
        return False
    named = {"image", "images", "img", "picture", "figure", "photo"} & set(_plain(name).split("_"))
    return bool(named) or (isinstance(value, str) and _IMAGE_PATH.search(value) is not None)


def _filled(rows: Sequence[Mapping[str, Any]], config: BenchmarkConfig) -> BenchmarkConfig:
    """With columns for a question and a key that no name told: of those left, what reads most rows, the wordiest."""
    plain = BenchmarkConfig()
    given = [(part, getattr(config, part)) for part in ("question_column", "answer_column")]
    missing = [part for part, name in given if name == getattr(plain, part) and name not in rows[0]]
    used = {*(getattr(config, setting) for setting in PARTS.values()), *config.choice_columns}
    left = [column for column in rows[0] if column not in used]
    chosen = permutations(left, len(missing))
    tried: list[dict[str, Any]] = [dict(zip(missing, one, strict=True)) for one in chosen]

    def fits(one: BenchmarkConfig) -> tuple[int, int]:
        read = [row for row in rows if _reads(row, one)]
        return len(read), sum(map(str.isalpha, "".join(str(row[one.question_column]) for row in read)))

    return max([config, *(replace(config, **columns) for columns in tried)], key=fits)


def other_keys(rows: Sequence[RawRow], config: BenchmarkConfig) -> dict[str, int]:
    """{the setting to type: how many of these rows have another key with it}, where some have.

    A number may count from 0 or from 1, where each row can be read both ways; or it is the text of an option.
    """
    based = replace(config, index_base=1 - config.index_base)
    found = {}
    if all(_reads(row, based) for row in rows):
        found[f"index_base={based.index_base}"] = _differ(rows, config, based)
    if config.answer_as == "index":
        found["answer_as=text"] = _differ(rows, config, replace(config, answer_as="text"))
    return {name: n for name, n in found.items() if n}


def _differ(rows: Sequence[RawRow], config: BenchmarkConfig, other: BenchmarkConfig) -> int:
    return sum(_key(row, config) != _key(row, other) for row in rows if _reads(row, other))


def _key(row: RawRow, config: BenchmarkConfig) -> int:
    return mcq_file(row, RowContext(config, "", 0)).gold


def _plain(name: str) -> str:
    """ "Prompt Text" and "promptText" -> "prompt_text"."""
    return re.sub(r"[\W_]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)).strip("_").lower()


def _named(columns: Mapping[str, str], usual: Sequence[str]) -> str | None:
    """The column of one of these names; else the one that has it as a word, such as "Prompt Text"."""
    exact = [columns[name] for name in usual if name in columns]
    others = {plain: column for plain, column in columns.items() if not _OTHER.search(plain)}
    within = [column for name in usual for plain, column in others.items() if name in plain.split("_")]
    return next(iter([*exact, *within]), None)


def _option_columns(columns: Mapping[str, str], answer: str | None) -> list[str]:
    """The longest row of columns that differ in a letter or number, of a usual name where there is one; the key's own
    before wrong options alone."""
    stems: dict[str, dict[str, str]] = {}
    for plain, column in columns.items():
        if (match := _OPTION.fullmatch(plain)) and (match[1] or match[2].isalpha()):
            stems.setdefault(match[1], {})[match[2]] = column
    usual = {one: places for one, places in stems.items() if one in _STEMS.split("|") and len(places) > 1}
    stem = max(usual or stems, key=lambda one: len(stems[one]), default="")
    places = stems.get(stem, {})
    found = [places[place] for place in sorted(places, key=lambda one: (len(one), one))]
    if stem in _WRONG and answer:
        found = [answer, *found]
    return found if len(found) > 1 else []


def _where(unique: bool, rows: Sequence[Any], column: str | None) -> str | None:
    """The column, where each row has a value, which no other row has, or some other row."""
    values = [str(row.get(column) or "") for row in rows]
    return column if column and all(values) and (len(set(values)) == len(values)) == unique else None


def _separator(rows: Sequence[Any], column: str) -> str | None:
    texts = [row[column] for row in rows if isinstance(row.get(column), str)]
    if not texts or texts[0].lstrip().startswith(("[", "{")):
        return None
    return next((sign for sign in _SEPARATORS if all(sign in text for text in texts)), None)


def _reads(row: RawRow, config: BenchmarkConfig) -> bool:
    try:
        mcq_file(row, RowContext(config, "", 0))
    except BenchmarkError:
        return False
    return True
