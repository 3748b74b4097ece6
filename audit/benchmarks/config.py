"""Define what a benchmark is in the configuration: the schema of conf/benchmark/*.yaml.

It has plain types and a default for every field, so that Hydra's ConfigStore can register the class
and every key can be overridden, such as `benchmark=mmlu benchmark.path=~/mmlu
'benchmark.subjects=[astronomy]'`.
"""

from dataclasses import dataclass, field
from pathlib import Path

from audit.core.errors import BenchmarkError
from audit.core.guarded_files import nearest

# Suffixes of files that can be read.
SUFFIXES = (".parquet", ".jsonl", ".json", ".csv", ".tsv", ".arrow")


@dataclass
class BenchmarkConfig:
    """Say where the rows are and how to read them.

    `path` overrides `hub`, and `hub` overrides `url`. One of the three must be set, except for the
    benchmarks that ship with the package. The `*_column` fields and everything below them are used
    by `format=mcq_file` only.
    """

    name: str = "elementary"  # part of every shard and every generated id
    format: str = "elementary"  # how a row is read: a key of `registry.FORMATS`
    path: str | None = None  # local file or folder
    hub: str | None = None  # hub dataset id, such as cais/mmlu
    hub_config: str | None = None  # the dataset's configuration, such as ARC-Easy
    split: str = "test"
    revision: str | None = None  # hub commit; null: the newest, resolved at run time and recorded
    url: str | None = None  # the address of the authors' files at one commit
    # sha256 of each file at `url`, by its name; other files are refused.
    files: dict[str, str] = field(default_factory=dict)
    # Subjects of mmlu, or categories of mmlu_pro or bbq; empty: all.
    subjects: list[str] = field(default_factory=list)
    twin: str | None = None  # the benchmark of held-out items that control_benchmark=auto selects
    # Column with the date of each item, read if one of the next two fields is set.
    date_column: str = "date"
    dated_until: str | None = None  # leave out items newer than this year, month or day
    dated_after: str | None = None  # keep only items newer than this date
    # When the benchmark was published, or the held-out items written: 2026-05, or 2026-05..2026-08.
    date: str | None = None
    written_by: str | None = (
        None  # who wrote the items: people, or a family of models, such as qwen
    )
    # Options of each item are shuffled by the run's seed; Item.order has the permutation.
    shuffle_options: bool = False

    id_column: str | None = None  # null: ids are <name>/<row number from 0>
    question_column: str = "question"
    choices_column: str = (
        "choices"  # a list, a JSON list in text, or text split at `choices_separator`
    )
    # One column per option; empty: A, B, C, ... if present.
    choice_columns: list[str] = field(default_factory=list)
    choices_separator: str | None = None
    answer_column: str = "answer"
    answer_as: str = (
        "auto"  # auto, index, letter, text or label; auto refuses what could mean two options
    )
    index_base: int = 0  # 1 if the first option is number 1
    group_column: str | None = (
        # Column of the cluster, such as the subject; null: the passage, or else each item alone.
        None
    )
    context_column: str | None = None  # a passage that belongs to the question; "": ignore it
    delimiter: str | None = None  # separates the fields of a csv; null: a comma, in a .tsv a tab


def check_path(path: str) -> Path:
    """Return the path of a benchmark's file or folder. Raises BenchmarkError if it is not there."""
    root = Path(path).expanduser()
    if not root.exists():
        raise BenchmarkError(
            f"{path}: no such file or folder (looked from {Path.cwd()}).{nearest(path)} "
            f"Expected a file ({', '.join(SUFFIXES)}) or a folder of them."
        )
    return root
