"""Define the configuration of a benchmark: the schema of conf/benchmark/*.yaml.

Every field has a plain type and a default, so that Hydra's ConfigStore can register the class and
every key can be overridden, such as `benchmark=mmlu benchmark.path=~/mmlu
'benchmark.subjects=[astronomy]'`.
"""

from dataclasses import dataclass, field
from pathlib import Path

from audit.core.errors import BenchmarkError
from audit.core.guarded_files import nearest

# Suffixes of the files that can be read.
SUFFIXES = (".parquet", ".jsonl", ".json", ".csv", ".tsv", ".arrow")


@dataclass
class BenchmarkConfig:
    """State where the rows of a benchmark are and how they are read.

    `path` takes precedence over `hub`, and `hub` over `url`. One of the three must be set, except
    for benchmarks that ship with the package. The `*_column` fields and all fields below them are
    used only by `format=mcq_file`.
    """

    name: str = "elementary"  # The name is in every shard and every generated id.
    format: str = "elementary"  # format of the rows: a key of `registry.FORMATS`
    path: str | None = None  # local file or folder
    hub: str | None = None  # id of a dataset on the hub, such as cais/mmlu
    hub_config: str | None = None  # configuration of the dataset, such as ARC-Easy
    split: str = "test"
    revision: str | None = None  # commit on the hub; null uses and records the newest commit
    url: str | None = None  # address of the authors' files at one commit
    # sha256 of each file at `url` by its name; files with another hash are refused.
    files: dict[str, str] = field(default_factory=dict)
    # Subjects (mmlu) or categories (mmlu_pro, bbq) to read. An empty list reads all.
    subjects: list[str] = field(default_factory=list)
    twin: str | None = None  # benchmark with held-out items, used by control_benchmark=auto
    # Column with the date of each item; read only if `dated_until` or `dated_after` is set.
    date_column: str = "date"
    dated_until: str | None = None  # leave out items newer than this year, month or day
    dated_after: str | None = None  # keep only items newer than this date
    # Date when the items were published or, for held-out items, written, such as 2026-05 or
    # 2026-05..2026-08.
    date: str | None = None
    written_by: str | None = (
        None  # who wrote the items: "people", or a family of models, such as qwen
    )
    # Whether the options of each item are shuffled by the run's seed; Item.order has the
    # permutation.
    shuffle_options: bool = False

    id_column: str | None = None  # column of the ids; with null, ids are <name>/<row number from 0>
    question_column: str = "question"
    # Each cell is a list, a JSON list as text, or a text that is split at `choices_separator`.
    choices_column: str = "choices"
    # Columns of the options, one for each option. An empty list uses A, B, C, ... if the file has
    # these columns.
    choice_columns: list[str] = field(default_factory=list)
    choices_separator: str | None = None
    answer_column: str = "answer"
    answer_as: str = (
        "auto"  # auto, index, letter, text or label; auto refuses a value that may mean two options
    )
    index_base: int = 0  # index of the first option in the column of the key: 0 or 1
    group_column: str | None = (
        # Column that names the cluster of an item, such as its subject. With null, the items of the
        # same passage are a cluster, and an item without a passage is its own cluster.
        None
    )
    # column of a passage that the question needs; "" ignores all passages
    context_column: str | None = None
    # separator of fields in a csv; null means a comma, or a tab in a .tsv
    delimiter: str | None = None


def check_path(path: str) -> Path:
    """Return the path of a benchmark's file or folder. Raises BenchmarkError if it does not
    exist."""
    root = Path(path).expanduser()
    if not root.exists():
        raise BenchmarkError(
            f"{path}: no such file or folder (looked from {Path.cwd()}).{nearest(path)} "
            f"Expected a file ({', '.join(SUFFIXES)}) or a folder of them."
        )
    return root
