"""Show how a question file is read: columns, problems, and three questions as a model sees them.

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

_GUESSED_ROWS = 200  # number of rows from which the columns are guessed
_SHOWN = 3  # number of questions, and of unreadable rows, that are printed
_WIDTH = 1200  # largest number of characters of a printed question
Counts = dict[str, Counter[Any]]


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the subcommand show."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    show = commands.add_parser(
        "show", help="print how every column is read, and the options that correct it"
    )
    show.add_argument(
        "file",
        metavar="FILE",
        help="a csv, tsv, jsonl, json, parquet or arrow file, or a folder of such files",
    )
    show.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    show.add_argument(
        "overrides",
        nargs="*",
        metavar="benchmark.KEY=VALUE",
        help="settings that replace a wrong guess",
    )


def run(arguments: Namespace) -> int:
    """Print how a question file is read, and the command to type next.

    Returns
    -------
    int
        Exit code 0, or 1 if a row cannot be read.
    """
    config = _guessed(arguments.file, arguments.overrides)
    benchmark = open_benchmark(config)
    questions, problems, counts = _read(benchmark)
    code = FAILED if problems else OK
    if arguments.json:
        content = _as_json(benchmark, questions, counts, problems)
        print(json.dumps(content, indent=1, ensure_ascii=False))
        return code
    report = [
        *_columns(benchmark, counts),
        *_questions(questions),
        *_counts(benchmark, counts, problems),
    ]
    print(lines("\n".join(report)))
    words = " ".join(benchmark_words(config))
    if problems:
        _print_problems(words, arguments, counts)
        return code
    rows = _first_rows(benchmark)
    for setting, n in other_keys(rows, config).items():
        print(
            f"\nCOMPARE THE KEYS ABOVE: with benchmark.{setting} {n} of {len(rows)} rows have another key."
        )
    model = _model_words(arguments.overrides)
    print(lines(f"\nTo go on:    audit plan {words} {model} n=all"))
    print(lines(_correction(arguments.file)))
    return code


def _print_problems(words: str, arguments: Namespace, counts: Counts) -> None:
    """Print why the settings failed, and settings or a format with which the file can perhaps be
    read."""
    print(lines(f"\nTried with:  {words}"))
    if any(str(name).endswith("?") for name in counts["columns"]):
        print("The first line looks like a question. Expected the names of the columns above it.")
    correction = _correction(arguments.file)
    print(lines(f"{correction} 'benchmark.choice_columns=[COLUMN,COLUMN]'"))
    known = _published(arguments.file)
    if known:
        audit = "" if FORMATS[known[0]].answerable else "audit=validity "
        words = " ".join(benchmark_words(BenchmarkConfig(known[0], known[0], arguments.file)))
        command = f"audit plan {audit}{words} {_model_words(arguments.overrides)}"
        print(lines(f"The file has the format of {' or '.join(known)}: {command}"))


def _correction(file: str) -> str:
    """Return the command that reads a file with other columns."""
    settings = " ".join(f"benchmark.{PARTS[part]}=COLUMN" for part in ("question", "key"))
    return f"To correct:  audit data show {shlex.quote(file)} {settings}"


def _first_rows(benchmark: Benchmark) -> list[Any]:
    return [row for _, row, _ in islice(benchmark.located_rows(), _GUESSED_ROWS)]


def _model_words(overrides: Sequence[str]) -> str:
    """Return the arguments that name a model, or `model=scripted` if no argument names a model."""
    keys = ("model", "endpoint", "model_id", "api_key_env")
    words = [word for word in overrides if word.partition("=")[0] in keys]
    return shlex.join(words) or "model=scripted"


def _guessed(file: str, overrides: Sequence[str]) -> BenchmarkConfig:
    """Return the benchmark's settings: those that were typed, and guesses for all other
    settings."""
    from audit.config.command_line import compose_command
    from audit.sweep.config import SweepConfig

    path = Path(file).expanduser()
    for word in overrides:
        if "=" not in word:
            raise UsageError(
                f"Argument is {word!r}. Expected benchmark.KEY=VALUE. "
                "Example: benchmark.answer_column=Key"
            )
    composed = compose_command("sweep", [f"data={file}", *overrides], SweepConfig)
    config: BenchmarkConfig = OmegaConf.to_object(
        OmegaConf.merge(BenchmarkConfig, composed.benchmark)
    )
    if config.delimiter is None and path.is_file() and path.suffix.lower() == ".csv":
        config = replace(config, delimiter=likely_delimiter(path))
    guessed = guess(_first_rows(open_benchmark(config)), config)
    typed = any(word.startswith("benchmark.index_base=") for word in overrides)
    return replace(guessed, index_base=config.index_base) if typed else guessed


def _published(file: str) -> list[str]:
    """Return the published formats that read the first rows of a file.

    A format comes first if its name is part of the file's name.
    """
    readable = []
    # These formats are left out: they are not published, or ship with the package.
    for name in set(FORMATS) - {"mcq_file", "elementary", "contrast"}:
        with suppress(AuditError):
            benchmark = open_benchmark(BenchmarkConfig(name, name, file))
            n = 0
            for _, row, context in islice(benchmark.located_rows(), _GUESSED_ROWS):
                FORMATS[name].parse(row, context)
                n += 1
            if n:
                readable.append(name)
    stem = Path(file).stem.lower().replace("-", "_")
    return sorted(readable, key=lambda name: (name not in stem, name))


def _read(benchmark: Benchmark) -> tuple[list[Item], list[str], Counts]:
    """Return the first questions, the problem of each unreadable row, and counts.

    The counts are the numbers of rows, columns, options and keys.
    """
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
        if benchmark.config.shuffle_options:
            question = shuffled(question, benchmark.seed)
        counts["options"][len(question.options)] += 1
        counts["key"][LETTERS[question.gold]] += 1
        if len(questions) < _SHOWN:
            questions.append(question)
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
            attributes(item, "id", "text", "options", "gold", "group") for item in questions
        ],
        "problems": list(problems),
        "warnings": [] if problems else list(benchmark.warnings),
    }


def _columns(benchmark: Benchmark, counts: Counts) -> list[str]:
    """Return a line for each part of a question, with the columns from which the part is read."""
    config, present = benchmark.config, counts["columns"]
    choices = config.choice_columns
    if not choices and config.choices_column not in present:
        choices = sorted(set("ABCDEFGHIJ") & set(present))
    columns = {}
    for part, setting in PARTS.items():
        column = getattr(config, setting)
        columns[part] = [column] if column else []
    columns["options"] = list(choices) or columns["options"]
    cut = f", cut at {config.delimiter!r}" if config.delimiter else ""
    report = [f"{config.path}: {counts['rows'].total():,} rows{cut}"]
    used = set[str]()
    for part in PARTS:
        used.update(columns[part])
        names = [name if name in present else f"{name} (missing)" for name in columns[part]]
        report.append(one_line(f"  {part:<9} {', '.join(names) or 'none'}"))
    unread = ", ".join(str(name) for name in present if name not in used)
    report.append(one_line(f"  {'not read':<9} {unread or 'none'}"))
    return report


def _questions(questions: Sequence[Item]) -> list[str]:
    """Return the questions as the model sees them under the default prompts.

    Each line of a prompt is marked, so that a question cannot imitate the program's output.
    """
    protocol = load_protocol(load_group("protocol", "song2026"))
    report = []
    for question in questions:
        text = direct_prompt(protocol, question, Reading.LETTER)
        if len(text) > _WIDTH:
            text = f"{text[:_WIDTH]} ... ({len(text):,} characters)"
        report += ["", one_line(question.id)]
        report += [f"  | {line}" for line in text.split("\n")]
        key = f"{LETTERS[question.gold]}  {question.options[question.gold]}"
        report.append(one_line(f"  key: {key}"))
    return report


def _counts(benchmark: Benchmark, counts: Counts, problems: Sequence[str]) -> list[str]:
    report = [""]
    for name, title in (("options", "options a question"), ("key", "keys")):
        values = ", ".join(f"{value}: {n:,}" for value, n in sorted(counts[name].items()))
        report.append(f"{title:<19}{values}")
    if problems:
        report.append(f"cannot be read     {len(problems):,} rows; duplicates were not counted")
        return report + [one_line(f"  {text}") for text in problems[:_SHOWN]]
    return [*report, f"warnings           {' '.join(benchmark.warnings) or 'none'}"]
