"""Convert raw rows to items: one pure function for each published format.

Each reads the authors' file and the hub's fields. A function raises BenchmarkError without a
location; the loader, which knows file and line, adds it.
"""

import ast
import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from audit.benchmarks.answers import (
    LETTERS,
    label_index,
    letter_index,
    own_letters,
    resolve_answer,
    typed_index,
)
from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.latex import boxed
from audit.benchmarks.reply import MARKER, NUMBER_ALONE, read_key
from audit.core.errors import BenchmarkError
from audit.core.records import NO_OPTION, Code, Item

RawRow = Mapping[str, Any] | Sequence[str]
_NOT_WORD = re.compile(r"[\W_]+")

# Users' files name the columns so. They are suggested in this order.
QUESTION_NAMES = (
    "question",
    "question_stem",
    "stem",
    "query",
    "prompt",
    "input",
    "text",
    "problem",
)
ANSWER_NAMES = (
    *(
        "answer",
        "answerkey",
        "answer_key",
        "correct_answer",
        "correct",
        "gold",
        "label",
        "target",
        "answer_index",
    ),
    *("answer_idx", "correct_option", "solution", "key"),
)
CHOICES_NAMES = frozenset(
    ("choices", "options", "answers", "candidates", "endings", "alternatives")
)
PASSAGE_NAMES = frozenset(
    (
        *(
            "passage",
            "context",
            "ctx",
            "article",
            "paragraph",
            "story",
            "document",
            "excerpt",
            "support",
            "background",
        ),
        *("premise", "scenario", "vignette", "dialogue", "conversation", "table"),
    )
)


@dataclass(frozen=True, slots=True)
class RowContext:
    """Hold what a row does not say itself.

    Parameters
    ----------
    config : BenchmarkConfig
        How rows are read.
    subject : str
        The row's subject; "" without subjects.
    number : int
        The row's number within the subject, from 0.
    scored : bool
        Whether a reference scorer needs the item. If so, a row that lacks what it reads is refused.
    """

    config: BenchmarkConfig
    subject: str
    number: int
    scored: bool = False


def mmlu(row: RawRow, context: RowContext) -> Item:
    """Read a row of hendrycks/test (csv without header) or cais/mmlu.

    Parameters
    ----------
    row : RawRow
        Question, A, B, C, D and letter; or question, subject, choices and answer.
    context : RowContext
        Subject and number.

    Returns
    -------
    Item
        With the id mmlu/<subject>/<row>: texts are not unique (105 of the 14,042 test rows repeat
        another).

    Raises
    ------
    BenchmarkError
        If the row is not valid.
    """
    if isinstance(row, Mapping):
        options, gold = texts(field(row, "choices")), typed_index(field(row, "answer"))
        text = field(row, "question")
    else:
        if len(row) != 6:
            raise BenchmarkError(
                f"{len(row)} fields; the MMLU csv has 6 and no header: question, A, B, C, D, letter. "
                "For other columns: benchmark=mcq_file."
            )
        text, options = row[0], texts(row[1:5])
        gold = letter_index(row[5], len(options))
    group = f"mmlu/{context.subject}"
    return item_of(context, f"{group}/{context.number}", text, options, gold, group=group)


def labelled(row: RawRow, context: RowContext) -> Item:
    """Read a row of ARC, CommonsenseQA or OpenBookQA, whose gold is one of the item's own labels.

    Parameters
    ----------
    row : RawRow
        File: id, question.stem, question.choices[] = {text, label}, answerKey. Hub: id, question or
        question_stem, choices.text[], choices.label[], answerKey. ARC has the labels 1234 too.
    context : RowContext
        The configuration.

    Returns
    -------
    Item
        With the row's id.

    Raises
    ------
    BenchmarkError
        If the row is not valid.
    """
    text, question = field(row, "question", "question_stem"), row
    if isinstance(text, Mapping):
        text, question = field(text, "stem"), text
    labels, options = _labelled_choices(field(question, "choices"))
    key = field(row, "answerKey")
    if not str(key or "").strip():
        raise BenchmarkError(
            "answerKey is empty: this split has no gold. Use benchmark.split=validation."
        )
    return item_of(context, own_id(row, "id"), text, options, label_index(key, labels))


def truthfulqa(row: RawRow, context: RowContext) -> Item:
    """Read a row of TruthfulQA MC1.

    Parameters
    ----------
    row : RawRow
        mc_task.json (mc1_targets {text: 0|1}), the hub (mc1_targets.choices[], .labels[]), or
        TruthfulQA.csv. Of the csv, `Best Incorrect Answer` repeats an incorrect one, so it is not
        read.
    context : RowContext
        The configuration.

    Returns
    -------
    Item
        With the id truthfulqa/<sha256 of the question, 12 digits>, since rows have none.

    Raises
    ------
    BenchmarkError
        If the row is not valid.

    Notes
    -----
    The gold is first in every published row, so options must be shuffled (`shuffle_options`, which
    is on by default).
    """
    if isinstance(row, Mapping) and "mc1_targets" not in row and "Best Answer" in row:
        if not str(field(row, "Best Answer")).strip("; "):
            raise BenchmarkError("'Best Answer' is empty, and the first of the others is no key.")
        choices = csv_options(row)
        first_is_right = [1, *(0 for _ in choices[1:])]
        row = {
            "question": field(row, "Question"),
            "mc1_targets": {"choices": choices, "labels": first_is_right},
        }
    targets = field(row, "mc1_targets")
    if not isinstance(targets, Mapping):
        raise BenchmarkError(
            f"mc1_targets is {_kind(targets)}; expected an object of option: 0 or 1."
        )
    if set(targets) == {"choices", "labels"} and not isinstance(targets["choices"], int):
        options, flags = texts(targets["choices"]), list(targets["labels"])
    else:
        options, flags = texts(list(targets)), list(targets.values())
    if len(flags) != len(options) or flags.count(1) != 1 or flags.count(0) != len(flags) - 1:
        raise BenchmarkError(
            f"mc1_targets has labels {flags}; expected one 1 (the true option) and 0 for all others."
        )
    text = field(row, "question")
    digest = hashlib.sha256(normalised(str(text)).encode()).hexdigest()[:12]
    return item_of(context, f"truthfulqa/{digest}", text, options, flags.index(1))


def csv_options(row: Mapping[str, Any]) -> list[str]:
    """Return MC1's options in a row of TruthfulQA.csv, as mc_task.json has them.

    They are `Best Answer`, then `Incorrect Answers` split at semicolons, each with a final stop
    (authors' utilities.py: format_best, split_multi_answer).
    """
    cut = []
    for text in f"{field(row, 'Best Answer')};{field(row, 'Incorrect Answers')}".split(";"):
        cut.append(text.strip())
    options = []
    for text in cut:
        if text:
            options.append(text if text.endswith(".") else f"{text}.")
    return list(dict.fromkeys(options))


def mmlu_pro(row: RawRow, context: RowContext) -> Item:
    """Read a row of TIGER-Lab/MMLU-Pro.

    Parameters
    ----------
    row : RawRow
        With question_id, question, options (3 to 10), answer letter and answer_index.
    context : RowContext
        The configuration.

    Returns
    -------
    Item
        Trailing "N/A" options are padding and are removed, as in the authors' evaluation.

    Raises
    ------
    BenchmarkError
        If the row is not valid.
    """
    options = texts(field(row, "options"))
    gold = letter_index(field(row, "answer"), len(options))
    given = row.get("answer_index") if isinstance(row, Mapping) else None
    if given is not None and (index := typed_index(given)) != gold:
        raise BenchmarkError(
            f"answer {LETTERS[gold]} and answer_index {index} name different options."
        )
    while len(options) - 1 > gold and options[-1] == "N/A":
        options = options[:-1]
    return item_of(
        context, f"mmlu_pro/{own_id(row, 'question_id')}", field(row, "question"), options, gold
    )


def mcq_file(row: RawRow, context: RowContext) -> Item:
    """Read a row of any multiple-choice file.

    Parameters
    ----------
    row : RawRow
        Its columns are named in the configuration (see `BenchmarkConfig`).
    context : RowContext
        The configuration and the row's number.

    Returns
    -------
    Item
        A passage precedes the question's text, and is the group unless one is configured.

    Raises
    ------
    BenchmarkError
        If the row is not valid.
    """
    config = context.config
    text = _column(row, "question_column", config.question_column, QUESTION_NAMES)
    labels, options = _configured_choices(row, config)
    if not labels:
        labels, options = own_letters(options)
    if not options:
        raise BenchmarkError("0 options; a multiple-choice question needs at least two.")
    answer = _column(row, "answer_column", config.answer_column, ANSWER_NAMES)
    gold = resolve_answer(
        answer, options, labels=labels, form=config.answer_as, base=config.index_base
    )
    id_ = own_id(row, config.id_column) if config.id_column else f"{config.name}/{context.number}"
    group = str(field(row, config.group_column)).strip() if config.group_column else None
    passage = _passage(row, config)
    if passage and isinstance(text, str) and text.strip():
        text = f"{passage}\n\n{text.strip()}"
        group = (
            group
            or f"{config.name}/passage-{hashlib.sha256(normalised(passage).encode()).hexdigest()[:12]}"
        )
    return item_of(context, id_, text, options, gold, group=group)


def _passage(row: RawRow, config: BenchmarkConfig) -> str:
    """Return the passage of a row; "" if the file has none.

    A passage column that no setting names is refused, not ignored.
    """
    if config.context_column is None and isinstance(row, Mapping):
        read = (
            config.question_column,
            config.choices_column,
            config.answer_column,
            config.group_column,
        )
        unread = []
        for name in row:
            if str(name).lower() in PASSAGE_NAMES and name not in read:
                unread.append(name)
        if unread:
            raise BenchmarkError(
                f"the column {unread[0]!r} is not read, and may be a passage that the question needs. Say "
                f"benchmark.context_column={unread[0]}, or benchmark.context_column= (nothing) to leave it out."
            )
    if not config.context_column:
        return ""
    value = field(row, config.context_column)
    if value is not None and not isinstance(value, str):
        raise BenchmarkError(
            f"the passage in {config.context_column!r} is {_kind(value)}; expected a text."
        )
    return (value or "").strip()


def _column(row: RawRow, setting: str, name: str, usual: Sequence[str]) -> Any:
    """Return a configured field. Raises BenchmarkError that names the probable column if it is
    missing."""
    if isinstance(row, Mapping) and name not in row:
        usual_columns = []
        for column in row:
            if str(column).lower() in usual:
                usual_columns.append(column)
        likely = sorted(usual_columns, key=_rank_in(usual))
        hint = f"Set benchmark.{setting}={f'{likely[0]}.' if likely else '...'}"
        raise BenchmarkError(
            f"no field {name!r}; found: {', '.join(map(str, row)) or 'none'}. {hint}"
        )
    return field(row, name)


def _rank_in(usual: Sequence[str]) -> Callable[[str], int]:
    return lambda column: usual.index(str(column).lower())


def elementary(row: RawRow, context: RowContext) -> Item:
    """Read a row of the embedded benchmark: id, domain, question, choices[4] and answer (index)."""
    options, gold = texts(field(row, "choices")), typed_index(field(row, "answer"))
    return item_of(context, own_id(row, "id"), field(row, "question"), options, gold)


def gsm8k(row: RawRow, context: RowContext) -> Item:
    """Read a row of GSM8K (openai/grade-school-math jsonl; the hub has its fields).

    Parameters
    ----------
    row : RawRow
        With question, and an answer that ends in "#### <number>" or is the number alone (GSM1k).
    context : RowContext
        The row's number.

    Returns
    -------
    Item
        With the id gsm8k/<row>. The target is the one number after the marker (`reply.read_key`).

    Raises
    ------
    BenchmarkError
        If the answer has no such number.
    """
    answer, text = field(row, "answer"), field(row, "question")
    alone = type(answer) is int or (
        isinstance(answer, str) and NUMBER_ALONE.fullmatch(answer.strip())
    )
    target = (
        read_key(str(answer)) if alone or (isinstance(answer, str) and MARKER in answer) else None
    )
    if target is None:
        raise BenchmarkError(
            f"the answer names no number after {MARKER!r}; expected such as '9 * 2 = 18\\n#### 18'."
        )
    text = stated(text, "the question")
    id_ = f"{context.config.name}/{context.number}"
    return Item(id_, context.config.name, text, (), NO_OPTION, id_, (), target)


def math(row: RawRow, context: RowContext) -> Item:
    r"""Read a row of MATH (problem, and a solution with a \boxed{...} answer) or MATH-Perturb
    (answer)."""
    return gsm8k({"question": field(row, "problem"), "answer": _math_key(row)}, context)


def ends_in_number(row: RawRow) -> bool:
    """Return whether the answer of a row of MATH is a plain number; the others are LaTeX."""
    return NUMBER_ALONE.fullmatch(_math_key(row)) is not None


def _math_key(row: RawRow) -> str:
    known = isinstance(row, Mapping) and row.get("answer") is not None
    return str(field(row, "answer") if known else boxed(str(field(row, "solution"))) or "").strip(
        "$ "
    )


def humaneval(row: RawRow, context: RowContext) -> Item:
    """Read a row of HumanEval (openai/human-eval jsonl, Chen et al. 2021; the hub has its fields).

    Parameters
    ----------
    row : RawRow
        With task_id, prompt, entry_point, canonical_solution, and test, which defines
        check(candidate).
    context : RowContext
        The configuration.

    Returns
    -------
    Item
        Its tests begin with the prompt, since some use a function that it defines. Nothing is run
        here.

    Raises
    ------
    BenchmarkError
        If the row is not valid.
    """
    names = ("prompt", "canonical_solution", "test", "entry_point")
    prompt, solution, tests, entry_point = texts_ = [field(row, name) for name in names]
    for name, text in zip(names, texts_, strict=True):
        stated(text, name)
    for name, text, needed in (("prompt", prompt, entry_point), ("test", tests, "check")):
        try:
            defined = {getattr(node, "name", "") for node in ast.parse(text).body}
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise BenchmarkError(f"{name} is not valid Python by itself ({error}).") from error
        if needed not in defined:
            raise BenchmarkError(
                f"{name} defines no function {needed!r}; found: {', '.join(sorted(defined - {''}))}."
            )
    id_, code = own_id(row, "task_id"), Code(entry_point, f"{prompt}\n{tests}", solution)
    return Item(id_, context.config.name, prompt, (), NO_OPTION, id_, code=code)


def normalised(text: str) -> str:
    """Return a text with every run of whitespace as one space. Equal results are the same
    question."""
    return " ".join(text.split())


def words_alone(text: str) -> str:
    """Return a text without what readers ignore: case, marks, blanks and forms of characters."""
    return _NOT_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def permutation(id_: str, count: int, seed: int) -> list[int]:
    """Return the order in which an item's options are shown. It depends on seed and id alone.

    Parameters
    ----------
    id_ : str
        The item's id.
    count : int
        The number of options.
    seed : int
        The run's seed.

    Returns
    -------
    list of int
        Published positions in the order shown.
    """
    import numpy as np  # Refusing a configuration must not load NumPy.

    id_bits = int.from_bytes(hashlib.sha256(id_.encode()).digest()[:8], "little")
    return np.random.default_rng([seed, id_bits]).permutation(count).tolist()


def shuffled(item: Item, seed: int) -> Item:
    """Return an item with its options permuted.

    Parameters
    ----------
    item : Item
        The item.
    seed : int
        The run's seed.

    Returns
    -------
    Item
        `order` holds the permutation (see `permutation`).

    Raises
    ------
    BenchmarkError
        If it has no options.
    """
    if not item.options:
        raise BenchmarkError(f"{item.id} has no options to shuffle. Leave shuffle_options out.")
    order, shown = permutation(item.id, len(item.options), seed), item.shown
    options = []
    order_shown = []
    for i in order:
        options.append(item.options[i])
        order_shown.append(shown[i])
    moved = replace(item, options=tuple(options), order=tuple(order_shown))
    return moved.keyed(item.key)


def item_of(
    context: RowContext,
    /,
    id_: str,
    text: object,
    options: tuple[str, ...],
    gold: int,
    group: str | None = None,
    **more: Any,
) -> Item:
    """Build an item in published order, after the checks that every format shares.

    Parameters
    ----------
    context : RowContext
        The configuration.
    id_ : str
        The item's id.
    text : object
        The question.
    options : tuple of str
        The options' texts.
    gold : int
        The position of the right option.
    group : str or None
        The cluster; None makes the item its own.
    more : Any
        Further fields of the item.

    Returns
    -------
    Item
        The item.

    Raises
    ------
    BenchmarkError
        If the question is empty, or options, gold or group are not valid.
    """
    stem = stated(text, "the question")
    if len(options) < 2:
        raise BenchmarkError(
            f"{len(options)} option(s); a multiple-choice question needs at least two."
        )
    if len(options) > len(LETTERS):
        raise BenchmarkError(
            f"{len(options)} options; at most {len(LETTERS)} (A-Z) can be lettered."
        )
    if not 0 <= gold < len(options):
        raise BenchmarkError(
            f"gold index {gold} is outside the {len(options)} options, which count from 0."
        )
    if group is not None and not group:
        raise BenchmarkError(
            "the group is empty; every item needs one, or leave benchmark.group_column=null."
        )
    return Item(
        id_,
        context.config.name,
        stem,
        options,
        gold,
        group or id_,
        tuple(range(len(options))),
        **more,
    )


def field(row: RawRow, *names: str) -> Any:
    """Return a field of a row.

    Parameters
    ----------
    row : RawRow
        The row.
    names : str
        Its possible names; the first that the row has is read.

    Returns
    -------
    Any
        The value.

    Raises
    ------
    BenchmarkError
        If the row has none of them.
    """
    if not isinstance(row, Mapping):
        raise BenchmarkError(f"the row is {_kind(row)}; expected named fields with {names[0]!r}.")
    for name in names:
        if name in row:
            return row[name]
    columns = ", ".join(map(str, row)) or "none"
    raise BenchmarkError(f"no field {' or '.join(map(repr, names))}; found: {columns}.")


def stated(value: object, name: str) -> str:
    """Return a text, stripped. Raises BenchmarkError, which calls it `name`, if it is not a text or
    blank."""
    if not isinstance(value, str) or not value.strip():
        raise BenchmarkError(
            f"{name} is {'empty' if isinstance(value, str) else _kind(value)}; expected a text."
        )
    return value.strip()


def own_id(row: RawRow, name: str) -> str:
    """Return the id in a field. Raises BenchmarkError unless it is a text or a whole number."""
    value = field(row, name)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise BenchmarkError(f"the id in {name!r} is {value!r}; expected a text or a whole number.")
    return str(value).strip()


def texts(values: Any) -> tuple[str, ...]:
    """Return option texts. Numbers become text ("0", "4"); "None" and "NA" are ordinary text.

    Raises BenchmarkError if there is no list, or an option is empty or not a text.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence):
        raise BenchmarkError(f"the options are {_kind(values)}; expected a list of texts.")
    cleaned = []
    for number, value in enumerate(values, start=1):
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value != value:
            raise BenchmarkError(f"option {number} is {value!r}; expected a text.")
        if not str(value).strip():
            raise BenchmarkError(f"option {number} of {len(values)} is empty.")
        cleaned.append(str(value).strip())
    return tuple(cleaned)


def _labelled_choices(choices: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (labels, texts) of a list of {text, label}, of {text: [...], label: [...]}, or of {A:
    ...}."""
    if isinstance(choices, Mapping) and not {"label", "text"} & set(choices):
        labels, options = texts(list(choices)), texts(list(choices.values()))
    elif isinstance(choices, Mapping):
        labels, options = texts(field(choices, "label")), texts(field(choices, "text"))
    elif isinstance(choices, Sequence) and not isinstance(choices, str):
        labels = texts([field(choice, "label") for choice in choices])
        options = texts([field(choice, "text") for choice in choices])
    else:
        raise BenchmarkError(
            f"the choices are {_kind(choices)}; expected a list of {{text, label}}."
        )
    if len(labels) != len(options) or len(set(labels)) != len(labels):
        raise BenchmarkError(
            f"labels {', '.join(labels)} for {len(options)} options; expected a distinct one each."
        )
    return labels, options


def _configured_choices(
    row: RawRow, config: BenchmarkConfig
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (labels or (), texts) of a user's row."""
    columns = list(config.choice_columns)
    if not columns and isinstance(row, Mapping) and config.choices_column not in row:
        columns = _lettered_columns(row, config.choices_column)
    if columns:
        cells = [field(row, column) for column in columns]
        # Items with fewer options have empty cells at the end.
        while cells and (cells[-1] in (None, "") or cells[-1] != cells[-1]):
            cells.pop()
        return (), texts(cells)
    value = field(row, config.choices_column)
    if isinstance(value, str):
        value = _split_choices(value, config)
    listed = (
        isinstance(value, Sequence) and value and all(isinstance(entry, Mapping) for entry in value)
    )
    return _labelled_choices(value) if listed or isinstance(value, Mapping) else ((), texts(value))


def is_option_list(value: Any) -> bool:
    """Return whether a field is a list of at least two texts, as options are."""
    return (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(entry, str) for entry in value)
    )


def _lettered_columns(row: Mapping[str, Any], wanted: str) -> list[str]:
    """Return A, B, ... in a row that has no field `wanted`."""
    columns = []
    for letter in LETTERS:
        if letter in row:
            columns.append(letter)
    if LETTERS[: len(columns)] != "".join(columns) or len(columns) < 2:
        listed = []
        for name, value in row.items():
            if is_option_list(value):
                listed.append(name)
        usual = []
        for name in row:
            if str(name).lower() in CHOICES_NAMES:
                usual.append(name)
        likely = [*usual, *listed, "..."][0]
        free = ""
        if not (usual or listed or columns):
            free = (
                " Answers in free text are not scored here: write options, or for numbers say benchmark=gsm8k "
                "benchmark.path=FILE."
            )
        raise BenchmarkError(
            f"no field {wanted!r} and no columns A, B, ...; found: {', '.join(map(str, row))}. "
            f"Set benchmark.choices_column={likely} or 'benchmark.choice_columns=[opt1,opt2,opt3,opt4]'.{free}"
        )
    return columns


def _split_choices(text: str, config: BenchmarkConfig) -> Any:
    if config.choices_separator:
        return text.split(config.choices_separator)
    # In a csv, pandas writes a list as Python does: ['Paris', 'Rome'].
    for read in (
        json.loads,
        ast.literal_eval,
    ):
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            if isinstance(listed := read(text), list):
                return listed
    raise BenchmarkError(
        f"{config.choices_column!r} is text but no list: {text[:60]!r}. "
        'Expected ["Paris", "Rome"], or set benchmark.choices_separator="|".'
    )


def _kind(value: object) -> str:
    return {list: "a list", dict: "an object", str: "a text", type(None): "null"}.get(
        type(value), repr(value)
    )


def text_key(text: str, options: Sequence[str] = ()) -> str:
    """Return a hash of an item's words.

    Parameters
    ----------
    text : str
        The question.
    options : sequence of str
        The options' texts.

    Returns
    -------
    str
        24 hexadecimal digits. Case, blanks, forms of a letter and the order of options do not
        matter.

    Examples
    --------
    >>> text_key("What  barks?", ["cat", "dog"]) == text_key("what barks?", ["Dog", "cat"])
    True
    """
    forms = [unicodedata.normalize("NFKC", part).casefold() for part in (text, *options)]
    question, *listed = map(normalised, forms)
    parts = "\0".join([question, *sorted(listed)])
    return hashlib.sha256(parts.encode("utf-8", "backslashreplace")).hexdigest()[:24]
