"""Show how a question file is read: columns, three questions as a model sees them, what is wrong.

examples: audit data show exam.csv; corrected: audit data show exam.csv benchmark.answer_column=Key
"""

import json
import shlex
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from audit.benchmarks.answers import LETTERS
from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.files import likely_delimiter
from audit.benchmarks.guess import PARTS, guess, other_keys
from audit.benchmarks.load import Benchmark, open_benchmark
from audit.benchmarks.registry import FORMATS
from audit.benchmarks.rows import mcq_file, shuffled
from audit.config.base import load_group
from audit.config.plain_words import benchmark_words
from audit.core.errors import AuditError, BenchmarkError, UsageError
from audit.core.exits import FAILED, OK, lines, one_line
from audit.core.json_types import attributes
from audit.core.prompting import direct_prompt, load_protocol
from audit.core.records import Item, Reading

_LOOKED_AT = 200  # rows from which the columns are guessed
_SHOWN = 3  # questions, and rows that cannot be read, that are shown
_WIDTH = 1200  # characters of a shown question
Counts = dict[str, Counter[Any]]


def add_words(parser: ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    show = commands.add_parser(
        "show", help="the guess of all columns at once, and the options to type"
    )
    show.add_argument(
        "file", metavar="FILE", help="csv, tsv, jsonl, json, parquet, arrow; or a folder of them"
    )
    show.add_argument("--json", action="store_true")
    show.add_argument(
        "overrides", nargs="*", metavar="benchmark.KEY=VALUE", help="where the guess is wrong"
    )


def run(asked: Namespace) -> int:
    """Print what is read of a file."""
    config = _guessed(asked.file, asked.overrides)
    benchmark = open_benchmark(config)
    questions, problems, read = _read(benchmark)
    if asked.json:
        print(
            json.dumps(_as_json(benchmark, questions, read, problems), indent=1, ensure_ascii=False)
        )
        return FAILED if problems else OK
    print(
        lines(
            "\n".join(
                [
                    *_columns(benchmark, read),
                    *_questions(questions),
                    *_counts(benchmark, read, problems),
                ]
            )
        )
    )
    words = " ".join(benchmark_words(config))
    rows = [row for _, row, _ in islice(benchmark.located_rows(), _LOOKED_AT)]
    for setting, n in ({} if problems else other_keys(rows, config)).items():
        print(
            f"\nCOMPARE THE KEYS ABOVE: with benchmark.{setting} {n} of {len(rows)} rows have another key."
        )
    print(
        lines(
            f"\nTried with:  {words}"
            if problems
            else f"\nTo go on:    audit plan {words} {_model_words(asked.overrides)} n=all"
        )
    )
    settings = " ".join(f"benchmark.{PARTS[part]}=COLUMN" for part in ("question", "key"))
    if problems:
        settings += " 'benchmark.choice_columns=[COLUMN,COLUMN]'"
        if any(str(name).endswith("?") for name in read["columns"]):
            print(
                "The first line has to name the columns, and looks like a question: put such a line before it."
            )
    print(lines(f"To correct:  audit data show {shlex.quote(asked.file)} {settings}"))
    if problems and (known := _published(asked.file)):
        audit = "" if FORMATS[known[0]].answerable else "audit=validity "
        words = " ".join(benchmark_words(BenchmarkConfig(known[0], known[0], asked.file)))
        print(
            lines(
                f"It reads as {' or '.join(known)}: audit plan {audit}{words} {_model_words(asked.overrides)}"
            )
        )
    return FAILED if problems else OK


def _model_words(overrides: Sequence[str]) -> str:
    """Return the words that name a model, or those of the scripted one."""
    keys = ("model", "endpoint", "model_id", "api_key_env")
    words = [word for word in overrides if word.partition("=")[0] in keys]
    return shlex.join(words) or "model=scripted"


def _guessed(file: str, overrides: Sequence[str]) -> BenchmarkConfig:
    """The configuration that was typed, with a guess for the rest."""
    from audit.config.command_line import compose_command
    from audit.sweep.config import SweepConfig

    path = Path(file).expanduser()
    for word in overrides:
        if "=" not in word:
            raise UsageError(
                f"Word is {word!r}. Expected benchmark.KEY=VALUE. Example: benchmark.answer_column=Key"
            )
    composed = compose_command("sweep", [f"data={file}", *overrides], SweepConfig)
    config: BenchmarkConfig = OmegaConf.to_object(
        OmegaConf.merge(BenchmarkConfig, composed.benchmark)
    )
    if config.delimiter is None and path.is_file() and path.suffix.lower() == ".csv":
        config = replace(config, delimiter=likely_delimiter(path))
    guessed = guess(
        [row for _, row, _ in islice(open_benchmark(config).located_rows(), _LOOKED_AT)], config
    )
    typed = any(word.startswith("benchmark.index_base=") for word in overrides)
    return replace(guessed, index_base=config.index_base) if typed else guessed


def _published(file: str) -> list[str]:
    """The published formats that read the first rows of a file, the one that its name holds
    first."""
    found = []
    # These formats are not published, or ship with the package.
    for name in set(FORMATS) - {"mcq_file", "elementary", "contrast"}:
        with suppress(AuditError):
            benchmark = open_benchmark(BenchmarkConfig(name, name, file))
            read = [
                FORMATS[name].parse(row, of)
                for _, row, of in islice(benchmark.located_rows(), _LOOKED_AT)
            ]
            found += [name] if read else []
    told = Path(file).stem.lower().replace("-", "_")
    return sorted(found, key=lambda name: (name not in told, name))


def _read(benchmark: Benchmark) -> tuple[list[Item], list[str], Counts]:
    """The first questions, what is wrong with which rows, and counts of rows, columns, options and
    keys."""
    questions: list[Item] = []
    problems: list[str] = []
    counts: Counts = {name: Counter() for name in ("rows", "columns", "options", "key")}
    for where, row, context in benchmark.located_rows():
        counts["rows"]["all"] += 1
        counts["columns"].update(row.keys() if isinstance(row, dict) else ())
        try:
            question = mcq_file(row, context)
        except BenchmarkError as error:
            problems.append(f"{where}: {error}")
            continue
        question = (
            shuffled(question, benchmark.seed) if benchmark.config.shuffle_options else question
        )
        counts["options"][len(question.options)] += 1
        counts["key"][LETTERS[question.gold]] += 1
        questions += [question] if len(questions) < _SHOWN else []
    return questions, problems, counts


def _as_json(
    benchmark: Benchmark, questions: Sequence[Item], counts: Counts, problems: Sequence[str]
) -> dict[str, Any]:
    return {
        "file": benchmark.config.path,
        "rows": counts["rows"].total(),
        "columns": list(counts["columns"]),
        "words": benchmark_words(benchmark.config),
        "options": {str(n): rows for n, rows in sorted(counts["options"].items())},
        "keys": dict(sorted(counts["key"].items())),
        "questions": [
            attributes(one, "id", "text", "options", "gold", "group") for one in questions
        ],
        "problems": list(problems),
        "warnings": [] if problems else list(benchmark.warnings),
    }


def _columns(benchmark: Benchmark, counts: Counts) -> list[str]:
    """Which column each part of a question is read from."""
    config, there = benchmark.config, counts["columns"]
    several = config.choice_columns or (
        [] if config.choices_column in there else sorted(set("ABCDEFGHIJ") & set(there))
    )
    found = {
        part: [getattr(config, setting)]
        for part, setting in PARTS.items()
        if getattr(config, setting)
    }
    found["options"] = several or found["options"]
    used = {column for columns in found.values() for column in columns}
    shown = {
        part: ", ".join(f"{c}{'' if c in there else ' (not there)'}" for c in found.get(part, ()))
        for part in PARTS
    }
    shown["not read"] = ", ".join(str(name) for name in there if name not in used)
    cut = f", cut at {config.delimiter!r}" if config.delimiter else ""
    return [f"{config.path}: {counts['rows'].total():,} rows{cut}"] + [
        one_line(f"  {part:<9} {columns or 'none'}") for part, columns in shown.items()
    ]


def _questions(questions: Sequence[Item]) -> list[str]:
    """As the model will see them under the default prompts, each line marked, so that none passes
    for one of ours."""
    protocol = load_protocol(load_group("protocol", "song2026"))
    found = []
    for question in questions:
        text = direct_prompt(protocol, question, Reading.LETTER)
        text = text if len(text) <= _WIDTH else f"{text[:_WIDTH]} ... ({len(text):,} characters)"
        key = f"{LETTERS[question.gold]}  {question.options[question.gold]}"
        found += [
            "",
            one_line(question.id),
            *(f"  | {line}" for line in text.split("\n")),
            one_line(f"  key: {key}"),
        ]
    return found


def _counts(benchmark: Benchmark, counts: Counts, problems: Sequence[str]) -> list[str]:
    names = {"options": "options a question", "key": "keys"}
    found = [
        f"{title:<19}" + ", ".join(f"{x}: {n:,}" for x, n in sorted(counts[c].items()))
        for c, title in names.items()
    ]
    if problems:
        found.append(f"cannot be read     {len(problems):,} rows; duplicates were not counted")
        return ["", *found, *(one_line(f"  {text}") for text in problems[:_SHOWN])]
    return ["", *found, f"take note          {' '.join(benchmark.warnings) or 'nothing'}"]
