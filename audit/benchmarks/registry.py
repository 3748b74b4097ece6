"""The formats that can be read, by the name that `benchmark.format=<name>` takes; other packages may add some."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from audit.benchmarks import items, rows
from audit.benchmarks.items import Item, question_of
from audit.benchmarks.rows import RawRow, RowContext
from audit.entry_points import added
from audit.errors import unknown_name
from audit.records import Question, Reading


@dataclass(frozen=True, slots=True)
class Format:
    """How one published format is read.

    suffixes: which files of a folder or repository to take, in order of preference. subject_field: the field that names
    the subject (a file's name serves where a row lacks it); "" where the format has no subjects. csv_header: the csv
    begins with column names. reading: of free-form answers (number, code): no options. item: the same row
    with what reference scorers and edits need; None where no such scorer reads this format. asked: its questions can be
    asked as multiple choice; else the options are names of responses (refuses, hate), or sentences to be compared.
    kept: rows that can be asked; others are left out.
    """

    parse: Callable[[RawRow, RowContext], Question]
    suffixes: tuple[str, ...] = (".parquet", ".jsonl", ".json")
    subject_field: str = ""
    csv_header: bool = True
    reading: Reading | None = None
    item: Callable[[RawRow, RowContext], Item] | None = None
    asked: bool = True
    kept: Callable[[RawRow], bool] | None = None


def _of_items(item: Callable[[RawRow, RowContext], Item], suffixes: tuple[str, ...], **more: Any) -> Format:
    return Format(lambda row, context: question_of(item(row, context)), suffixes, item=item, **more)


FORMATS: dict[str, Format] = {
    "mmlu": Format(rows.mmlu, (".parquet", ".csv", ".jsonl"), subject_field="subject", csv_header=False),
    "arc_easy": Format(rows.labelled),
    "arc_challenge": Format(rows.labelled),
    "truthfulqa_mc1": Format(rows.truthfulqa_mc1, (".parquet", ".json")),
    "truthfulqa": _of_items(items.truthfulqa, (".parquet", ".json", ".csv")),
    "crows_pairs": _of_items(items.crows_pairs, (".parquet", ".csv"), asked=False),
    "toxigen": _of_items(items.toxigen, (".parquet", ".json"), asked=False),
    "xstest": _of_items(items.xstest, (".parquet", ".csv"), subject_field="type", asked=False),
    "commonsense_qa": Format(rows.labelled),
    "openbook_qa": Format(rows.labelled),
    "bbq": Format(rows.bbq, (".parquet", ".jsonl"), subject_field="category", item=items.bbq),
    "mmlu_pro": Format(rows.mmlu_pro, subject_field="category"),
    "gsm8k": Format(rows.gsm8k, (".parquet", ".jsonl"), reading=Reading.NUMBER),
    "humaneval": Format(rows.humaneval, (".parquet", ".jsonl"), reading=Reading.CODE),
    "math": Format(
        rows.math, (".parquet", ".jsonl"), subject_field="level", reading=Reading.NUMBER, kept=rows.ends_in_number
    ),
    "mcq_file": Format(rows.mcq_file, (".parquet", ".jsonl", ".json", ".csv", ".tsv", ".arrow")),
    "elementary": Format(rows.elementary, (".jsonl",)),
    "contrast": _of_items(items.contrast, (".jsonl",)),
}


def format_of(name: str) -> Format:
    """The format of this name; ConfigError with the list of known ones otherwise."""
    if name in FORMATS:
        return FORMATS[name]
    if name in added("readers"):
        return added("readers")[name].load()
    raise unknown_name("benchmark", name, (*FORMATS, *added("readers")))
