"""Convert raw rows to items: one pure function for each published format.

Each function accepts rows of the authors' file, and rows with the field names of the hub. The
message of its BenchmarkError does not name file and line: the loader adds them.
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

# Usual names of columns in users' files. They are suggested in this order.
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
    """Hold the facts about a row that the row itself does not state.

    Parameters
    ----------
    config : BenchmarkConfig
        Configuration with which rows are read.
    subject : str
        Subject of the row; "" if the benchmark has no subjects.
    number : int
        Number of the row within the subject, from 0.
    scored : bool
        True if a reference scorer needs the item. A row that lacks the fields that the scorer reads
        is then refused.
    """

    config: BenchmarkConfig
    subject: str
    number: int
    scored: bool = False


def mmlu(row: RawRow, context: RowContext) -> Item:
    """Convert a row of hendrycks/test (csv without header) or cais/mmlu to an item.

    Parameters
    ----------
    row : RawRow
        Row with question, A, B, C, D and letter; or with question, subject, choices and answer.
    context : RowContext
        Context with subject and number.

    Returns
    -------
    Item
        The item. Its id is mmlu/<subject>/<row>, because texts are not unique (105 of the 14,042
        test rows repeat another).

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
                f"the row has {len(row)} fields; expected 6 fields of the MMLU csv without header: "
                "question, A, B, C, D, letter. For other columns: benchmark=mcq_file."
            )
        text, options = row[0], texts(row[1:5])
        gold = letter_index(row[5], len(options))
    group = f"mmlu/{context.subject}"
    return item_of(context, f"{group}/{context.number}", text, options, gold, group=group)


def labelled(row: RawRow, context: RowContext) -> Item:
    """Convert a row of ARC, CommonsenseQA or OpenBookQA, whose gold is a label, to an item.

    Parameters
    ----------
    row : RawRow
        Row of the file (id, question.stem, question.choices[] = {text, label}, answerKey), or of
        the hub (id, question or question_stem, choices.text[], choices.label[], answerKey). ARC
        also uses the labels 1 to 4.
    context : RowContext
        Context with the configuration.

    Returns
    -------
    Item
        The item, with the id of the row.

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
    """Convert a row of TruthfulQA MC1 to an item.

    Parameters
    ----------
    row : RawRow
        Row of mc_task.json (mc1_targets {text: 0|1}), of the hub (mc1_targets.choices[],
        .labels[]), or of TruthfulQA.csv. In the csv, `Best Incorrect Answer` repeats an incorrect
        answer, so it is not read.
    context : RowContext
        Context with the configuration.

    Returns
    -------
    Item
        The item. Its id is truthfulqa/<sha256 of the question, 12 digits>, because rows have no id.

    Raises
    ------
    BenchmarkError
        If the row is not valid.

    Notes
    -----
    The gold is the first option in every published row, so options must be shuffled
    (`shuffle_options`, which is on by default).
    """
    if isinstance(row, Mapping) and "mc1_targets" not in row and "Best Answer" in row:
        if not str(field(row, "Best Answer")).strip("; "):
            raise BenchmarkError(
                "'Best Answer' is empty, and the first entry of 'Correct Answers' cannot be used "
                "as the key."
            )
        choices = csv_options(row)
        first_is_right = [1, *(0 for _ in choices[1:])]
        row = {
            "question": field(row, "Question"),
            "mc1_targets": {"choices": choices, "labels": first_is_right},
        }
    targets = field(row, "mc1_targets")
    if not isinstance(targets, Mapping):
        raise BenchmarkError(
            f"mc1_targets is {_kind(targets)}; expected an object of the form {{option: 0 or 1}}."
        )
    if set(targets) == {"choices", "labels"} and not isinstance(targets["choices"], int):
        options, flags = texts(targets["choices"]), list(targets["labels"])
    else:
        options, flags = texts(list(targets)), list(targets.values())
    if len(flags) != len(options) or flags.count(1) != 1 or flags.count(0) != len(flags) - 1:
        raise BenchmarkError(
            f"mc1_targets has the labels {flags}; expected one 1 (the true option), and 0 for all "
            "others."
        )
    text = field(row, "question")
    digest = hashlib.sha256(normalised(str(text)).encode()).hexdigest()[:12]
    return item_of(context, f"truthfulqa/{digest}", text, options, flags.index(1))


def csv_options(row: Mapping[str, Any]) -> list[str]:
    """Return the options of MC1 in a row of TruthfulQA.csv, as they are in mc_task.json.

    The options are `Best Answer`, followed by the parts of `Incorrect Answers` between semicolons.
    Each option ends with a full stop (authors' utilities.py: format_best, split_multi_answer).
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
    """Convert a row of TIGER-Lab/MMLU-Pro to an item.

    Parameters
    ----------
    row : RawRow
        Row with question_id, question, options (3 to 10), answer letter and answer_index.
    context : RowContext
        Context with the configuration.

    Returns
    -------
    Item
        The item. "N/A" options at the end are padding and are removed, as in the authors'
        evaluation.

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
            f"answer is {LETTERS[gold]} and answer_index is {index}, which are different options; "
            "expected the same."
        )
    while len(options) - 1 > gold and options[-1] == "N/A":
        options = options[:-1]
    return item_of(
        context, f"mmlu_pro/{own_id(row, 'question_id')}", field(row, "question"), options, gold
    )


def mcq_file(row: RawRow, context: RowContext) -> Item:
    """Convert a row of any multiple-choice file to an item.

    Parameters
    ----------
    row : RawRow
        Row whose columns are named in the configuration (see `BenchmarkConfig`).
    context : RowContext
        Context with the configuration and the row's number.

    Returns
    -------
    Item
        The item. A passage precedes the text of the question, and is the item's group unless the
        configuration names another column for the group.

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
        raise BenchmarkError("the row has 0 options; expected at least two.")
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
    """Return the passage of a row; "" if the file has no passages.

    Raises BenchmarkError if a column seems to hold a passage, but no setting names this column.
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
                f"the column {unread[0]!r} is not read, and may hold a passage that the question "
                f"needs. Set benchmark.context_column={unread[0]}, or benchmark.context_column= "
                "(nothing) to leave it out."
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
    """Return a configured field of a row.

    Raises BenchmarkError if the row lacks the field. The message names the column that is probably
    meant.
    """
    if isinstance(row, Mapping) and name not in row:
        usual_columns = []
        for column in row:
            if str(column).lower() in usual:
                usual_columns.append(column)
        likely = sorted(usual_columns, key=_rank_in(usual))
        hint = f"Set benchmark.{setting}={f'{likely[0]}.' if likely else '...'}"
        raise BenchmarkError(
            f"the row has no field {name!r}; its fields: {', '.join(map(str, row)) or 'none'}. "
            f"{hint}"
        )
    return field(row, name)


def _rank_in(usual: Sequence[str]) -> Callable[[str], int]:
    return lambda column: usual.index(str(column).lower())


def elementary(row: RawRow, context: RowContext) -> Item:
    """Convert a row of the embedded benchmark (id, domain, question, choices[4], answer index)."""
    options, gold = texts(field(row, "choices")), typed_index(field(row, "answer"))
    return item_of(context, own_id(row, "id"), field(row, "question"), options, gold)


def gsm8k(row: RawRow, context: RowContext) -> Item:
    """Convert a row of GSM8K to an item (openai/grade-school-math jsonl; the hub has the same
    fields).

    Parameters
    ----------
    row : RawRow
        Row with a question, and an answer that ends in "#### <number>" or is only the number
        (GSM1k).
    context : RowContext
        Context with the row's number.

    Returns
    -------
    Item
        The item, with the id gsm8k/<row>. Its target is the only number after the marker
        (`reply.read_key`).

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
            f"the answer has no number after {MARKER!r}; expected an answer such as '9 * 2 = "
            "18\\n#### 18'."
        )
    text = stated(text, "the question")
    id_ = f"{context.config.name}/{context.number}"
    return Item(id_, context.config.name, text, (), NO_OPTION, id_, (), target)


def math(row: RawRow, context: RowContext) -> Item:
    r"""Convert a row of MATH or MATH-Perturb to an item.

    MATH has a problem, and a solution with a \boxed{...} answer; MATH-Perturb has an answer
    field.
    """
    return gsm8k({"question": field(row, "problem"), "answer": _math_key(row)}, context)


def ends_in_number(row: RawRow) -> bool:
    """Return whether the answer of a row of MATH is a plain number, not LaTeX."""
    return NUMBER_ALONE.fullmatch(_math_key(row)) is not None


def _math_key(row: RawRow) -> str:
    known = isinstance(row, Mapping) and row.get("answer") is not None
    return str(field(row, "answer") if known else boxed(str(field(row, "solution"))) or "").strip(
        "$ "
    )


def humaneval(row: RawRow, context: RowContext) -> Item:
    """Convert a row of HumanEval to an item (openai/human-eval jsonl, Chen et al. 2021; or the
    hub's).

    Parameters
    ----------
    row : RawRow
        Row with task_id, prompt, entry_point, canonical_solution, and test, which defines
        check(candidate).
    context : RowContext
        Context with the configuration.

    Returns
    -------
    Item
        The item. Its tests begin with the prompt, because some tests use a function that the prompt
        defines. This function runs no code.

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
                f"{name} does not define the function {needed!r}; it defines: "
                f"{', '.join(sorted(defined - {''}))}."
            )
    id_, code = own_id(row, "task_id"), Code(entry_point, f"{prompt}\n{tests}", solution)
    return Item(id_, context.config.name, prompt, (), NO_OPTION, id_, code=code)


def normalised(text: str) -> str:
    """Return a text in which every run of whitespace is one space.

    Two texts are the same question if this function returns the same result for both.
    """
    return " ".join(text.split())


def words_alone(text: str) -> str:
    """Return a text without the differences that readers ignore.

    These are differences in case, punctuation, whitespace and forms of characters.
    """
    return _NOT_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def permutation(id_: str, count: int, seed: int) -> list[int]:
    """Return the order in which the options of an item are shown; it depends only on seed and id.

    Parameters
    ----------
    id_ : str
        Id of the item.
    count : int
        Number of options.
    seed : int
        Seed of the run.

    Returns
    -------
    list of int
        Published positions of the options, in the order in which they are shown.
    """
    import numpy as np  # Imported here, so that refusing a configuration does not load NumPy.

    id_bits = int.from_bytes(hashlib.sha256(id_.encode()).digest()[:8], "little")
    return np.random.default_rng([seed, id_bits]).permutation(count).tolist()


def shuffled(item: Item, seed: int) -> Item:
    """Return an item with its options permuted.

    Parameters
    ----------
    item : Item
        The item.
    seed : int
        Seed of the run.

    Returns
    -------
    Item
        The item with permuted options; `order` holds the permutation (see `permutation`).

    Raises
    ------
    BenchmarkError
        If the item has no options.
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
    """Build an item with options in published order, after the checks that all formats share.

    Parameters
    ----------
    context : RowContext
        Context with the configuration.
    id_ : str
        Id of the item.
    text : object
        Text of the question.
    options : tuple of str
        Texts of the options.
    gold : int
        Position of the right option.
    group : str or None
        Cluster of the item; None makes the item a cluster of its own.
    more : Any
        Further fields of the item.

    Returns
    -------
    Item
        The item.

    Raises
    ------
    BenchmarkError
        If the question is empty, or if options, gold or group are not valid.
    """
    stem = stated(text, "the question")
    if len(options) < 2:
        raise BenchmarkError(f"the row has {len(options)} option(s); expected at least two.")
    if len(options) > len(LETTERS):
        raise BenchmarkError(
            f"the row has {len(options)} options; expected at most {len(LETTERS)}, which can be "
            "lettered A-Z."
        )
    if not 0 <= gold < len(options):
        raise BenchmarkError(
            f"gold index {gold} is outside the {len(options)} options, which count from 0."
        )
    if group is not None and not group:
        raise BenchmarkError(
            "the group is empty; expected a group for every item, or benchmark.group_column=null."
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
        Row of a file. Fields have names only if the row is a mapping.
    names : str
        Possible names of the field; the first that the row has is read.

    Returns
    -------
    Any
        Value of the field.

    Raises
    ------
    BenchmarkError
        If the row has none of these fields.
    """
    if not isinstance(row, Mapping):
        raise BenchmarkError(f"the row is {_kind(row)}; expected named fields with {names[0]!r}.")
    for name in names:
        if name in row:
            return row[name]
    columns = ", ".join(map(str, row)) or "none"
    raise BenchmarkError(
        f"the row has no field {' or '.join(map(repr, names))}; its fields: {columns}."
    )


def stated(value: object, name: str) -> str:
    """Return a text without the whitespace around it.

    Raises BenchmarkError if the value is blank or not a text. The message calls the value `name`.
    """
    if not isinstance(value, str) or not value.strip():
        raise BenchmarkError(
            f"{name} is {'empty' if isinstance(value, str) else _kind(value)}; expected a text."
        )
    return value.strip()


def own_id(row: RawRow, name: str) -> str:
    """Return the id in a field; raise BenchmarkError if it is neither a text nor a whole number."""
    value = field(row, name)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise BenchmarkError(f"the id in {name!r} is {value!r}; expected a text or a whole number.")
    return str(value).strip()


def texts(values: Any) -> tuple[str, ...]:
    """Return the texts of options. Numbers become texts ("0", "4"); "None" and "NA" are kept as
    texts.

    Raises BenchmarkError if there is no list, or if an option is empty or not a text.
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
    """Return (labels, texts) of choices in any published form.

    The forms are a list of {text, label}, {text: [...], label: [...]}, and {A: ...}.
    """
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
            f"there are {len(options)} options with the labels {', '.join(labels)}; expected a "
            "distinct label for each."
        )
    return labels, options


def _configured_choices(
    row: RawRow, config: BenchmarkConfig
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (labels, texts) of a user's row; labels are () if the file has no labels."""
    columns = list(config.choice_columns)
    if not columns and isinstance(row, Mapping) and config.choices_column not in row:
        columns = _lettered_columns(row, config.choices_column)
    if columns:
        cells = [field(row, column) for column in columns]
        # If an item has fewer options than other items, its last cells are empty.
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
    """Return whether a field may hold the options, which are a list of at least two texts."""
    return (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(entry, str) for entry in value)
    )


def _lettered_columns(row: Mapping[str, Any], wanted: str) -> list[str]:
    """Return the names of the option columns A, B, ... if a row has no field `wanted`."""
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
                " Answers in free text are not scored here. Give options, or for numbers write "
                "benchmark=gsm8k benchmark.path=FILE."
            )
        raise BenchmarkError(
            f"the row has neither a field {wanted!r} nor columns A, B, ...; its fields: "
            f"{', '.join(map(str, row))}. "
            f"Set benchmark.choices_column={likely} or 'benchmark.choice_columns=[opt1,opt2,opt3,opt4]'.{free}"
        )
    return columns


def _split_choices(text: str, config: BenchmarkConfig) -> Any:
    if config.choices_separator:
        return text.split(config.choices_separator)
    # pandas writes a list into a csv as Python does: ['Paris', 'Rome'].
    for read in (
        json.loads,
        ast.literal_eval,
    ):
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            if isinstance(listed := read(text), list):
                return listed
    raise BenchmarkError(
        f"{config.choices_column!r} is a text that is not a list: {text[:60]!r}. "
        'Expected ["Paris", "Rome"], or set benchmark.choices_separator="|".'
    )


def _kind(value: object) -> str:
    return {list: "a list", dict: "an object", str: "a text", type(None): "null"}.get(
        type(value), repr(value)
    )


def text_key(text: str, options: Sequence[str] = ()) -> str:
    """Return a hash of the words of an item.

    Parameters
    ----------
    text : str
        Text of the question.
    options : sequence of str
        Texts of the options.

    Returns
    -------
    str
        24 hexadecimal digits. The hash does not depend on case, whitespace, forms of a letter, or
        the order of options.

    Examples
    --------
    >>> text_key("What  barks?", ["cat", "dog"]) == text_key("what barks?", ["Dog", "cat"])
    True
    """
    forms = [unicodedata.normalize("NFKC", part).casefold() for part in (text, *options)]
    question, *listed = map(normalised, forms)
    parts = "\0".join([question, *sorted(listed)])
    return hashlib.sha256(parts.encode("utf-8", "backslashreplace")).hexdigest()[:24]
