"""Raw rows -> `Item`: one pure function per published format (the authors' file and the hub's fields).

A function raises BenchmarkError without a location; the loader, which knows file and line, puts it in front.
"""

import ast
import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from audit.benchmarks.answers import LETTERS, label_index, letter_index, own_letters, resolve_answer, typed_index
from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.latex import boxed
from audit.benchmarks.reply import MARKER, NUMBER_ALONE, read_key
from audit.errors import BenchmarkError
from audit.records import NO_OPTION, Code, Item

RawRow = Mapping[str, Any] | Sequence[str]
_NOT_WORD = re.compile(r"[\W_]+")

# What other files call the columns, in the order in which they are suggested.
QUESTION_NAMES = ("question", "question_stem", "stem", "query", "prompt", "input", "text", "problem")
ANSWER_NAMES = (
    *("answer", "answerkey", "answer_key", "correct_answer", "correct", "gold", "label", "target", "answer_index"),
    *("answer_idx", "correct_option", "solution", "key"),
)
CHOICES_NAMES = frozenset(("choices", "options", "answers", "candidates", "endings", "alternatives"))
PASSAGE_NAMES = frozenset((
    *("passage", "context", "ctx", "article", "paragraph", "story", "document", "excerpt", "support", "background"),
    *("premise", "scenario", "vignette", "dialogue", "conversation", "table"),
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class RowContext:
    """What a row does not say itself. `number` counts from 0 within `subject` ("" where there are none). scored: the
    item is for a reference scorer, and a row that lacks what that reads is refused."""

    config: BenchmarkConfig
    subject: str
    number: int
    scored: bool = False


def mmlu(row: RawRow, context: RowContext) -> Item:
    """hendrycks/test csv (no header; question, A, B, C, D, letter) or cais/mmlu (question, subject, choices, answer).

    Id mmlu/<subject>/<row>: the text alone is not unique (105 of the 14,042 test rows repeat another).
    """
    if isinstance(row, Mapping):
        options, gold = texts(field(row, "choices")), typed_index(field(row, "answer"))
        text = field(row, "question")
    else:
        if len(row) != 6:
            found = f"{len(row)} fields; the MMLU csv has 6 and no header"
            raise BenchmarkError(f"{found}: question, A, B, C, D, letter. Of other columns: benchmark=mcq_file.")
        text, options = row[0], texts(row[1:5])
        gold = letter_index(row[5], len(options))
    group = f"mmlu/{context.subject}"
    return item_of(context, f"{group}/{context.number}", text, options, gold, group=group)


def labelled(row: RawRow, context: RowContext) -> Item:
    """ARC, CommonsenseQA and OpenBookQA: gold is a label, to be looked up in the item's own labels (ARC has 1234 too).

    File: id, question.stem, question.choices[] = {text, label}, answerKey. Hub: id, question or question_stem,
    choices.text[], choices.label[], answerKey.
    """
    text, asked = field(row, "question", "question_stem"), row
    if isinstance(text, Mapping):
        text, asked = field(text, "stem"), text
    labels, options = _toldchoices(field(asked, "choices"))
    key = field(row, "answerKey")
    if not str(key or "").strip():
        raise BenchmarkError("answerKey is empty: this split has no gold. Use benchmark.split=validation.")
    return item_of(context, own_id(row, "id"), text, options, label_index(key, labels))


def truthfulqa(row: RawRow, context: RowContext) -> Item:
    """TruthfulQA MC1: mc_task.json (mc1_targets {text: 0|1}), the hub (mc1_targets.choices[], .labels[]), or
    TruthfulQA.csv, of whose columns `Best Incorrect Answer` is one of the incorrect ones, so not read.

    Gold is first in every published row, so its options must be shuffled (`shuffle_options`, on by default). Rows have
    no id: truthfulqa/<sha256 of the question, 12 digits>.
    """
    if isinstance(row, Mapping) and "mc1_targets" not in row and "Best Answer" in row:
        if not str(field(row, "Best Answer")).strip("; "):
            raise BenchmarkError("'Best Answer' is empty, and the first of the others is no key.")
        choices = csv_options(row)
        told = {"choices": choices, "labels": [1] + [0] * (len(choices) - 1)}
        row = {"question": field(row, "Question"), "mc1_targets": told}
    targets = field(row, "mc1_targets")
    if not isinstance(targets, Mapping):
        raise BenchmarkError(f"mc1_targets is {_kind(targets)}; expected an object of option: 0 or 1.")
    if set(targets) == {"choices", "labels"} and not isinstance(targets["choices"], int):
        options, flags = texts(targets["choices"]), list(targets["labels"])
    else:
        options, flags = texts(list(targets)), list(targets.values())
    if len(flags) != len(options) or flags.count(1) != 1 or flags.count(0) != len(flags) - 1:
        raise BenchmarkError(f"mc1_targets has labels {flags}; expected one 1 (the true option) and 0 for all others.")
    text = field(row, "question")
    digest = hashlib.sha256(normalised(str(text)).encode()).hexdigest()[:12]
    return item_of(context, f"truthfulqa/{digest}", text, options, flags.index(1))


def csv_options(row: Mapping[str, Any]) -> list[str]:
    """MC1's options out of TruthfulQA.csv: `Best Answer`, then `Incorrect Answers` cut at semicolons, each with a final
    stop (authors' utilities.py: format_best, split_multi_answer), as mc_task.json has them."""
    cut = [text.strip() for text in f"{field(row, 'Best Answer')};{field(row, 'Incorrect Answers')}".split(";")]
    return list(dict.fromkeys(text if text.endswith(".") else f"{text}." for text in cut if text))


def mmlu_pro(row: RawRow, context: RowContext) -> Item:
    """TIGER-Lab/MMLU-Pro: question_id, question, options (3 to 10), answer letter, answer_index.

    Trailing "N/A" options are padding and are dropped, as the authors' own evaluation does.
    """
    options = texts(field(row, "options"))
    gold = letter_index(field(row, "answer"), len(options))
    given = row.get("answer_index") if isinstance(row, Mapping) else None
    if given is not None and (index := typed_index(given)) != gold:
        raise BenchmarkError(f"answer {LETTERS[gold]} and answer_index {index} name different options.")
    while len(options) - 1 > gold and options[-1] == "N/A":
        options = options[:-1]
    return item_of(context, f"mmlu_pro/{own_id(row, 'question_id')}", field(row, "question"), options, gold)


def mcq_file(row: RawRow, context: RowContext) -> Item:
    """Any multiple-choice file; the columns are named in the configuration (see `BenchmarkConfig`)."""
    config = context.config
    text = _column(row, "question_column", config.question_column, QUESTION_NAMES)
    labels, options = _configured_choices(row, config)
    if not labels:
        labels, options = own_letters(options)
    if not options:
        raise BenchmarkError("0 options; a multiple-choice question needs at least two.")
    answer = _column(row, "answer_column", config.answer_column, ANSWER_NAMES)
    gold = resolve_answer(answer, options, labels=labels, form=config.answer_as, base=config.index_base)
    id_ = own_id(row, config.id_column) if config.id_column else f"{config.name}/{context.number}"
    group = str(field(row, config.group_column)).strip() if config.group_column else None
    passage = _passage(row, config)
    if passage and isinstance(text, str) and text.strip():
        text = f"{passage}\n\n{text.strip()}"
        group = group or f"{config.name}/passage-{hashlib.sha256(normalised(passage).encode()).hexdigest()[:12]}"
    return item_of(context, id_, text, options, gold, group=group)


def _passage(row: RawRow, config: BenchmarkConfig) -> str:
    """The passage of a row; "" where the file has none. One that no setting names is refused, not lost."""
    if config.context_column is None and isinstance(row, Mapping):
        read = (config.question_column, config.choices_column, config.answer_column, config.group_column)
        if found := [name for name in row if str(name).lower() in PASSAGE_NAMES and name not in read]:
            raise BenchmarkError(
                f"the column {found[0]!r} is not read, and may be a passage that the question needs. Say "
                f"benchmark.context_column={found[0]}, or benchmark.context_column= (nothing) to leave it out."
            )
    if not config.context_column:
        return ""
    value = field(row, config.context_column)
    if value is not None and not isinstance(value, str):
        raise BenchmarkError(f"the passage in {config.context_column!r} is {_kind(value)}; expected a text.")
    return (value or "").strip()


def _column(row: RawRow, setting: str, name: str, usual: Sequence[str]) -> Any:
    """A configured field; BenchmarkError that names the column which was probably meant."""
    if isinstance(row, Mapping) and name not in row:
        likely = [f"{found}." for wanted in usual for found in row if str(found).lower() == wanted]
        hint = f"Set benchmark.{setting}={next(iter(likely), '...')}"
        raise BenchmarkError(f"no field {name!r}; found: {', '.join(map(str, row)) or 'none'}. {hint}")
    return field(row, name)


def elementary(row: RawRow, context: RowContext) -> Item:
    """The embedded benchmark: id (elementary/<domain>/<nn>), domain, question, choices[4], answer (index)."""
    options, gold = texts(field(row, "choices")), typed_index(field(row, "answer"))
    return item_of(context, own_id(row, "id"), field(row, "question"), options, gold)


def gsm8k(row: RawRow, context: RowContext) -> Item:
    """GSM8K (openai/grade-school-math jsonl; the hub has its fields): question, answer ending in "#### <number>".

    Id gsm8k/<row>. The target is the one number after the marker (`reply.read_key`). An answer without the marker is
    taken where it is the number alone, as GSM1k has it; else the row is refused.
    """
    answer, text = field(row, "answer"), field(row, "question")
    alone = type(answer) is int or (isinstance(answer, str) and NUMBER_ALONE.fullmatch(answer.strip()))
    target = read_key(str(answer)) if alone or (isinstance(answer, str) and MARKER in answer) else None
    if target is None:
        raise BenchmarkError(f"the answer names no number after {MARKER!r}; expected such as '9 * 2 = 18\\n#### 18'.")
    text = stated(text, "the question")
    id_ = f"{context.config.name}/{context.number}"
    return Item(id_, context.config.name, text, (), NO_OPTION, id_, (), target)


def math(row: RawRow, context: RowContext) -> Item:
    """MATH (problem, and a solution with its answer in \\boxed{...}) and MATH-Perturb (problem, answer)."""
    return gsm8k({"question": field(row, "problem"), "answer": _math_key(row)}, context)


def ends_in_number(row: RawRow) -> bool:
    """Whether the answer of a row of MATH is a plain number, as a reply is asked for; others are LaTeX."""
    return NUMBER_ALONE.fullmatch(_math_key(row)) is not None


def _math_key(row: RawRow) -> str:
    known = isinstance(row, Mapping) and row.get("answer") is not None
    return str(field(row, "answer") if known else boxed(str(field(row, "solution"))) or "").strip("$ ")


def humaneval(row: RawRow, context: RowContext) -> Item:
    """HumanEval (openai/human-eval jsonl, Chen et al. 2021; the hub has its fields): task_id, prompt, entry_point,
    canonical_solution, test, which defines check(candidate).

    The tests begin with the prompt, as some use a function that it defines. Nothing is run here.
    """
    names = ("prompt", "canonical_solution", "test", "entry_point")
    prompt, solution, tests, entry_point = texts_ = [field(row, name) for name in names]
    for name, text in zip(names, texts_, strict=True):
        stated(text, name)
    for name, text, needed in (("prompt", prompt, entry_point), ("test", tests, "check")):
        try:
            defined = {getattr(one, "name", "") for one in ast.parse(text).body}
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise BenchmarkError(f"{name} is not Python by itself ({error}).") from error
        if needed not in defined:
            raise BenchmarkError(f"{name} defines no function {needed!r}; found: {', '.join(sorted(defined - {''}))}.")
    id_, code = own_id(row, "task_id"), Code(entry_point, f"{prompt}\n{tests}", solution)
    return Item(id_, context.config.name, prompt, (), NO_OPTION, id_, code=code)


def normalised(text: str) -> str:
    """Text with every run of whitespace as one space: what "the same question" means here."""
    return " ".join(text.split())


def words_alone(text: str) -> str:
    """What two texts share that are one to a reader: case, marks, blanks and forms of characters do not count."""
    return _NOT_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def permutation(id_: str, count: int, seed: int) -> list[int]:
    """The order in which an item's options are shown; it depends on seed and id alone."""
    import numpy as np  # here: a configuration that is refused needs none of it

    id_bits = int.from_bytes(hashlib.sha256(id_.encode()).digest()[:8], "little")
    return np.random.default_rng([seed, id_bits]).permutation(count).tolist()


def shuffled(item: Item, seed: int) -> Item:
    """The item with its options permuted (`permutation`), which is in `order`."""
    if not item.options:
        raise BenchmarkError(f"{item.id} has no options to shuffle. Leave shuffle_options out.")
    order, shown = permutation(item.id, len(item.options), seed), item.shown
    moved = replace(item, options=tuple(item.options[i] for i in order), order=tuple(shown[i] for i in order))
    return moved.keyed(item.key)


def item_of(
    context: RowContext, /, id_: str, text: object, options: tuple[str, ...], gold: int, group: str | None = None,
    **more: Any,
) -> Item:  # fmt: skip
    """The item of a row, in published order, after the checks that every format shares. more: further fields."""
    stem = stated(text, "the question")
    if len(options) < 2:
        raise BenchmarkError(f"{len(options)} option(s); a multiple-choice question needs at least two.")
    if len(options) > len(LETTERS):
        raise BenchmarkError(f"{len(options)} options; at most {len(LETTERS)} (A-Z) can be lettered.")
    if not 0 <= gold < len(options):
        raise BenchmarkError(f"gold index {gold} is outside the {len(options)} options, which count from 0.")
    if group is not None and not group:
        raise BenchmarkError("the group is empty; every item needs one, or leave benchmark.group_column=null.")
    return Item(id_, context.config.name, stem, options, gold, group or id_, tuple(range(len(options))), **more)


def field(row: RawRow, *names: str) -> Any:
    if not isinstance(row, Mapping):
        raise BenchmarkError(f"the row is {_kind(row)}; expected named fields with {names[0]!r}.")
    for name in names:
        if name in row:
            return row[name]
    found = ", ".join(map(str, row)) or "none"
    raise BenchmarkError(f"no field {' or '.join(map(repr, names))}; found: {found}.")


def stated(value: object, what: str) -> str:
    """A text, stripped; BenchmarkError where it is none or blank."""
    if not isinstance(value, str) or not value.strip():
        raise BenchmarkError(f"{what} is {'empty' if isinstance(value, str) else _kind(value)}; expected a text.")
    return value.strip()


def own_id(row: RawRow, name: str) -> str:
    value = field(row, name)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise BenchmarkError(f"the id in {name!r} is {value!r}; expected a text or a whole number.")
    return str(value).strip()


def texts(values: Any) -> tuple[str, ...]:
    """Option texts. Numbers become their text ("0", "4"); "None" and "NA" are ordinary text."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence):
        raise BenchmarkError(f"the options are {_kind(values)}; expected a list of texts.")
    found = []
    for number, value in enumerate(values, start=1):
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value != value:
            raise BenchmarkError(f"option {number} is {value!r}; expected a text.")
        if not str(value).strip():
            raise BenchmarkError(f"option {number} of {len(values)} is empty.")
        found.append(str(value).strip())
    return tuple(found)


def _toldchoices(choices: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(labels, texts) of the file's list of {text, label}, the hub's {text: [...], label: [...]}, or {A: ...}."""
    if isinstance(choices, Mapping) and not {"label", "text"} & set(choices):
        labels, options = texts(list(choices)), texts(list(choices.values()))
    elif isinstance(choices, Mapping):
        labels, options = texts(field(choices, "label")), texts(field(choices, "text"))
    elif isinstance(choices, Sequence) and not isinstance(choices, str):
        labels = texts([field(choice, "label") for choice in choices])
        options = texts([field(choice, "text") for choice in choices])
    else:
        raise BenchmarkError(f"the choices are {_kind(choices)}; expected a list of {{text, label}}.")
    if len(labels) != len(options) or len(set(labels)) != len(labels):
        raise BenchmarkError(f"labels {', '.join(labels)} for {len(options)} options; expected a distinct one each.")
    return labels, options


def _configured_choices(row: RawRow, config: BenchmarkConfig) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(labels or (), texts) of a generic row."""
    columns = list(config.choice_columns)
    if not columns and isinstance(row, Mapping) and config.choices_column not in row:
        columns = _lettered_columns(row, config.choices_column)
    if columns:
        cells = [field(row, column) for column in columns]
        while cells and (cells[-1] in (None, "") or cells[-1] != cells[-1]):  # items with fewer options
            cells.pop()
        return (), texts(cells)
    value = field(row, config.choices_column)
    if isinstance(value, str):
        value = _split_choices(value, config)
    listed = isinstance(value, Sequence) and value and all(isinstance(one, Mapping) for one in value)
    return _toldchoices(value) if listed or isinstance(value, Mapping) else ((), texts(value))


def is_option_list(value: Any) -> bool:
    """Return whether a field is a list of two texts or more, as options are."""
    return isinstance(value, list) and len(value) > 1 and all(isinstance(one, str) for one in value)


def _lettered_columns(row: Mapping[str, Any], wanted: str) -> list[str]:
    """A, B, ... in a row that has no field `wanted`."""
    columns = [letter for letter in LETTERS if letter in row]
    if LETTERS[: len(columns)] != "".join(columns) or len(columns) < 2:
        listed = [name for name, value in row.items() if is_option_list(value)]
        usual = [name for name in row if str(name).lower() in CHOICES_NAMES]
        likely = next(iter([*usual, *listed]), "...")
        free = (
            ""
            if usual or listed or columns
            else (
                " Answers in free text are not scored here: write options, or for numbers say benchmark=gsm8k "
                "benchmark.path=FILE."
            )
        )
        raise BenchmarkError(
            f"no field {wanted!r} and no columns A, B, ...; found: {', '.join(map(str, row))}. "
            f"Set benchmark.choices_column={likely} or 'benchmark.choice_columns=[opt1,opt2,opt3,opt4]'.{free}"
        )
    return columns


def _split_choices(text: str, config: BenchmarkConfig) -> Any:
    if config.choices_separator:
        return text.split(config.choices_separator)
    for read in (json.loads, ast.literal_eval):  # pandas writes a list into a csv as Python does: ['Paris', 'Rome']
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            if isinstance(listed := read(text), list):
                return listed
    found = f"{config.choices_column!r} is text but no list: {text[:60]!r}"
    raise BenchmarkError(f'{found}. Expected ["Paris", "Rome"], or set benchmark.choices_separator="|".')


def _kind(value: object) -> str:
    return {list: "a list", dict: "an object", str: "a text", type(None): "null"}.get(type(value), repr(value))


def text_key(text: str, options: Sequence[str] = ()) -> str:
    """A hash of an item's words: case, blanks, forms of a letter and the order of options do not change it.

    >>> text_key("What  barks?", ["cat", "dog"]) == text_key("what barks?", ["Dog", "cat"])
    True
    """
    forms = [unicodedata.normalize("NFKC", one).casefold() for one in (text, *options)]
    said, *listed = map(normalised, forms)
    parts = "\0".join([said, *sorted(listed)])
    return hashlib.sha256(parts.encode("utf-8", "backslashreplace")).hexdigest()[:24]
