"""List the formats of benchmarks that can be read.

The setting `benchmark.format` names a format. Other packages may add formats.
"""

from collections.abc import Callable
from dataclasses import dataclass

from audit.benchmarks import items, rows
from audit.benchmarks.rows import RawRow, RowContext
from audit.core.entry_points import added
from audit.core.errors import unknown_name
from audit.core.records import Item, Reading


@dataclass(frozen=True, slots=True)
class Format:
    """State how one published format is read.

    Parameters
    ----------
    parse : callable
        Function that converts a row to an item.
    suffixes : tuple of str
        Kinds of files, in order of preference.
    subject_field : str
        Field with the subject; if a row lacks it, the name of the file is used. "" if the format
        has no subjects.
    csv_header : bool
        True if a csv begins with column names.
    reading : Reading or None
        How free-form answers (numbers or code) are read; None if the items have options.
    answerable : bool
        True if a model can be asked the questions. If False, the options are names of responses
        (refuses, hate), or sentences to compare.
    row_filter : callable or None
        Function that returns True for a row whose question can be asked; other rows are left out.
        None keeps all rows.
    """

    parse: Callable[[RawRow, RowContext], Item]
    suffixes: tuple[str, ...] = (".parquet", ".jsonl", ".json")
    subject_field: str = ""
    csv_header: bool = True
    reading: Reading | None = None
    answerable: bool = True
    row_filter: Callable[[RawRow], bool] | None = None


FORMATS: dict[str, Format] = {
    "mmlu": Format(
        rows.mmlu, (".parquet", ".csv", ".jsonl"), subject_field="subject", csv_header=False
    ),
    "arc_easy": Format(rows.labelled),
    "arc_challenge": Format(rows.labelled),
    "truthfulqa_mc1": Format(rows.truthfulqa, (".parquet", ".json", ".csv")),
    "truthfulqa": Format(rows.truthfulqa, (".parquet", ".json", ".csv")),
    "crows_pairs": Format(items.crows_pairs, (".parquet", ".csv"), answerable=False),
    "toxigen": Format(items.toxigen, (".parquet", ".json"), answerable=False),
    "xstest": Format(items.xstest, (".parquet", ".csv"), subject_field="type", answerable=False),
    "commonsense_qa": Format(rows.labelled),
    "openbook_qa": Format(rows.labelled),
    "bbq": Format(items.bbq, (".parquet", ".jsonl"), subject_field="category"),
    "mmlu_pro": Format(rows.mmlu_pro, subject_field="category"),
    "gsm8k": Format(rows.gsm8k, (".parquet", ".jsonl"), reading=Reading.NUMBER),
    "humaneval": Format(rows.humaneval, (".parquet", ".jsonl"), reading=Reading.CODE),
    "math": Format(
        rows.math,
        (".parquet", ".jsonl"),
        subject_field="level",
        reading=Reading.NUMBER,
        row_filter=rows.ends_in_number,
    ),
    "mcq_file": Format(rows.mcq_file, (".parquet", ".jsonl", ".json", ".csv", ".tsv", ".arrow")),
    "elementary": Format(rows.elementary, (".jsonl",)),
    "contrast": Format(items.contrast, (".jsonl",)),
}


def format_of(name: str) -> Format:
    """Return the format with a given name.

    Raises ConfigError, with the known names, if there is no such format.
    """
    if name in FORMATS:
        return FORMATS[name]
    if name in added("readers"):
        return added("readers")[name].load()
    raise unknown_name("benchmark", name, (*FORMATS, *added("readers")))
