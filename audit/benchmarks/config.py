"""Define what a benchmark is in the configuration: the schema of conf/benchmark/*.yaml.

It has plain types and a default for every field, so that Hydra's ConfigStore can register the class
and every key can be overridden, such as `benchmark=mmlu benchmark.path=~/mmlu
'benchmark.subjects=[astronomy]'`.
"""

from dataclasses import dataclass, field

SUFFIXES = (".parquet", ".jsonl", ".json", ".csv", ".tsv", ".arrow")  # these files can be read


@dataclass
class BenchmarkConfig:
    """Say where the rows are and how to read them.

    `path` overrides `hub`, and `hub` overrides `url`. One of the three must be set, except for the
    benchmarks that ship with the package. The `*_column` fields and everything below them are used
    by `format=mcq_file` only.
    """

    name: str = "elementary"  # is in every shard and every generated id
    format: str = "elementary"  # how a row is read: a key of `registry.FORMATS`
    path: str | None = None  # local file or folder
    hub: str | None = None  # hub dataset id, such as cais/mmlu
    hub_config: str | None = None  # the dataset's configuration, such as ARC-Easy
    split: str = "test"
    revision: str | None = None  # hub commit; null: the newest, resolved at run time and recorded
    url: str | None = None  # the address of the authors' files at one commit
    files: dict[str, str] = field(
        default_factory=dict
    )  # name at that address -> sha256; other files are refused
    subjects: list[str] = field(
        default_factory=list
    )  # mmlu subjects, mmlu_pro or bbq categories; empty: all
    twin: str | None = None  # the benchmark of held-out items that control_benchmark=auto selects
    date_column: str = "date"  # when each item was published; read if one of the next two is set
    dated_until: str | None = None  # leave out items newer than this year, month or day
    dated_after: str | None = None  # keep only items newer than this
    date: str | None = None  # when the items were published, or held-out ones written: 2026-05
    written_by: str | None = (
        None  # people, or the family of the model that wrote them, such as qwen
    )
    shuffle_options: bool = False  # per item, by the run's seed; the permutation is in Item.order

    id_column: str | None = None  # null: ids are <name>/<row number from 0>
    question_column: str = "question"
    choices_column: str = (
        "choices"  # a list, a JSON list in text, or text split at `choices_separator`
    )
    choice_columns: list[str] = field(
        default_factory=list
    )  # one column per option; empty: A, B, C, ... if present
    choices_separator: str | None = None
    answer_column: str = "answer"
    answer_as: str = (
        "auto"  # auto, index, letter, text or label; auto refuses what could mean two options
    )
    index_base: int = 0  # 1 if the first option is number 1
    group_column: str | None = (
        None  # the cluster (subject); null: the passage, or else each item alone
    )
    context_column: str | None = None  # a passage that belongs to the question; "": ignore it
    delimiter: str | None = None  # separates the fields of a csv; null: a comma, in a .tsv a tab
