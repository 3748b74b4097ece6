"""The formats that can be read, by the name that `benchmark.format=<name>` takes; other packages may add some."""

from collections.abc import Callable
from dataclasses import dataclass

from audit.benchmarks import items, rows
from audit.benchmarks.rows import RawRow, RowContext
from audit.entry_points import added
from audit.errors import unknown_name
from audit.records import Item, Reading


@dataclass(frozen=True, slots=True)
class Format:
    """How one published format is read.

    suffixes: which files of a folder or repository to take, in order of preference. subject_field: the field that names
    the subject (a file's name serves where a row lacks it); "" where the format has no subjects. csv_header: the csv
    begins with column names. reading: of free-form answers (number, code): no options. asked: its questions can be
    asked as multiple choice; else the options are names of responses (refuses, hate), or sentences to be compared.
    kept: rows that can be asked; others are left out.
    """

    parse: Callable[[RawRow, RowContext], Item]
    suffixes: tuple[str, ...] = (".parquet", ".jsonl", ".json")
    subject_field: str = ""
    csv_header: bool = True
    reading: Reading | None = None
    asked: bool = True
    kept: Callable[[RawRow], bool] | None = None


FORMATS: dict[str, Format] = {
    "mmlu": Format(rows.mmlu, (".parquet", ".csv", ".jsonl"), subject_field="subject", csv_header=False),
    "arc_easy": Format(rows.labelled),
    "arc_challenge": Format(rows.labelled),
    "truthfulqa_mc1": Format(rows.truthfulqa, (".parquet", ".json", ".csv")),
    "truthfulqa": Format(rows.truthfulqa, (".parquet", ".json", ".csv")),
    "crows_pairs": Format(items.crows_pairs, (".parquet", ".csv"), asked=False),
    "toxigen": Format(items.toxigen, (".parquet", ".json"), asked=False),
    "xstest": Format(items.xstest, (".parquet", ".csv"), subject_field="type", asked=False),
    "commonsense_qa": Format(rows.labelled),
    "openbook_qa": Format(rows.labelled),
    "bbq": Format(items.bbq, (".parquet", ".jsonl"), subject_field="category"),
    "mmlu_pro": Format(rows.mmlu_pro, subject_field="category"),
    "gsm8k": Format(rows.gsm8k, (".parquet", ".jsonl"), reading=Reading.NUMBER),
    "humaneval": Format(rows.humaneval, (".parquet", ".jsonl"), reading=Reading.CODE),
    "math": Format(
        rows.math, (".parquet", ".jsonl"), subject_field="level", reading=Reading.NUMBER, kept=rows.ends_in_number
    ),
    "mcq_file": Format(rows.mcq_file, (".parquet", ".jsonl", ".json", ".csv", ".tsv", ".arrow")),
    "elementary": Format(rows.elementary, (".jsonl",)),
    "contrast": Format(items.contrast, (".jsonl",)),
}


def format_of(name: str) -> Format:
    """The format of this name; ConfigError with the list of known ones otherwise."""
    if name in FORMATS:
        return FORMATS[name]
    if name in added("readers"):
        return added("readers")[name].load()
    raise unknown_name("benchmark", name, (*FORMATS, *added("readers")))
