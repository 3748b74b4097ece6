"""Import finished evaluations of other tools as a run, and judge them.

The command reads logs of lm-eval, Inspect, HELM, Every Eval Ever, lighteval, OpenCompass,
openai/evals, EvalPlus, promptfoo and of this program, tables, and folders of logs.

example: audit import base.eval tuned.eval --held-out base_new.eval tuned_new.eval --judge tuned -o
outputs/imported. NAME=LOG gives the model of a log another name."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.commands.again import pair_of
from audit.core.errors import ConfigError, check_known, check_seed, unknown_name
from audit.core.exits import say

if TYPE_CHECKING:
    from audit.benchmarks.fresh import Origin
    from audit.imports.join import Joined
    from audit.imports.record import Imported, Log
    from audit.judge.gates import LogCheck
    from audit.judging.document import Cell

WITHHELD = "withheld"  # the verdict code of a model whose verdict is not reported
MAX_WITHHELD = 5  # If there are more withheld verdicts, only their number is printed.
# The logs of these tools may lack the options of an item.
_NO_OPTIONS = (
    "table",
    "opencompass",
    "openai-evals",
    "promptfoo",
)
HELD_OUT = "held_out"  # name of the held-out items' benchmark in the run


@dataclass(frozen=True)
class Panel:
    """Hold the logs after they were read and joined.

    Attributes
    ----------
    joined : Joined
        The outcomes of all models.
    benchmark : str
        The benchmark to judge.
    held_out : str or None
        The benchmark of the held-out items.
    judged : list[str]
        The models to judge.
    files : list[dict]
        Facts about every log, such as its hash.
    known : dict[str, Origin]
        Release date and family of each model of the reference sets.
    columns : dict[str, str]
        Maps each field to a column of a table (`--map`).
    released : dict[str, str]
        Release dates by model. The key "" has the date of the judged models.
    changed : dict[str, int]
        Maps each benchmark to the number of its items that differ between the logs.
    spare : int
        Number of held-out items that were left out, so that each stratum (such as a subject) has
        the same share in both sets.
    """

    joined: Joined
    benchmark: str
    held_out: str | None
    judged: list[str]
    files: list[dict[str, Any]]
    known: dict[str, Origin]
    columns: dict[str, str]
    released: dict[str, str]
    changed: dict[str, int]
    spare: int


def read_panel(arguments: argparse.Namespace) -> Panel:
    """Read and join the logs, and choose the benchmark and the judged models.

    Parameters
    ----------
    arguments : Namespace
        The arguments that `add_reading` declares, with `judge` and `reworded`.

    Returns
    -------
    Panel
        The joined logs.

    Raises
    ------
    ConfigError
        If an argument does not fit the logs.
    """
    check_seed(arguments.seed)
    _check_forms(arguments)
    form = "FIELD=COLUMN. Example: --map model=name,item=id,correct=score"
    fields = ",".join(arguments.map).split(",") if any(arguments.map) else []
    columns = dict(pair_of("--map", field, form) for field in fields)
    if arguments.split:
        columns["date"] = _split(arguments)[0]
    released = _released(arguments)
    joined, held_out, files, known = _read(arguments, columns, released)
    if arguments.split:
        arguments.held_out_date = _split_dates(arguments, joined)
    from audit.imports.join import leave_out_changed, match_strata, rejoin_by_text

    rejoin_by_text(joined)
    changed = leave_out_changed(joined)
    benchmark, judged, joined = _chosen(arguments, joined, held_out, released)
    spare = match_strata(joined, benchmark, held_out) if held_out else 0
    return Panel(
        joined, benchmark, held_out, judged, files, known, columns, released, changed, spare
    )


def print_read(panel: Panel, names: Sequence[str], options: int | None) -> None:
    """Print the items of each model, the scores that were read, and the items that were left out.

    Parameters
    ----------
    panel : Panel
        The logs, read and joined.
    names : Sequence[str]
        The benchmarks to print.
    """
    _print_table(panel.joined, names)
    _print_scores(panel.files)
    _print_left_out(panel.joined, panel.changed, panel.spare)
    if options is None:
        _print_no_options(panel)


def run(arguments: argparse.Namespace) -> int:
    """Import the logs as a run and judge it. Print a table of the items and a line per verdict.

    Returns
    -------
    int
        Exit code 0, whatever the verdicts are.
    """
    panel = read_panel(arguments)
    joined, benchmark, held_out, judged = (
        panel.joined,
        panel.benchmark,
        panel.held_out,
        panel.judged,
    )
    released, known, files = panel.released, panel.known, panel.files
    from audit.benchmarks.fresh import Origin, check_origin
    from audit.imports.chance import check_above_guessing
    from audit.imports.checks import check_logs
    from audit.imports.join import check_joined
    from audit.imports.reworded import REWORDED, write_reworded
    from audit.imports.write import RunFacts, write_run

    known |= dict.fromkeys(judged, Origin(released.get(""), arguments.family or None))
    tested: dict[str, Origin] = {}
    references: dict[str, Origin] = {}
    for name in joined.models:
        origin = known.get(name, Origin())
        origin = replace(origin, released=released.get(name, origin.released))
        (tested if name in judged else references)[name] = origin
    names = [benchmark]
    origin_facts: dict[str, list[str]] = {"held_out": []}
    if held_out:
        names.append(held_out)
        origin_facts = check_origin(held_out, arguments.held_out_date, None, tested, references)
        origin_facts["dates_missing"] = date_words(origin_facts["dates_missing"], judged)
    names += [name for name in joined.items if name.startswith(REWORDED)]
    print_read(panel, names, arguments.options)
    _print_scope(joined, names, judged, bool(arguments.reworded))
    if len(names) > 1:  # A single benchmark needs no comparison.
        check_joined(joined, names)
    if not arguments.below_chance_is_real:
        check_above_guessing(joined, names)
    checks = check_logs(joined, names, arguments.options)
    _print_failed(checks)
    options = _options_of(arguments, panel)
    from audit.judging.together import parts_of
    from audit.memory.report import REPORT as MEMORY
    from audit.perturb.report import REPORT as PERTURB

    write, report = (write_reworded, PERTURB) if arguments.reworded else (write_run, MEMORY)
    origins = references | tested
    write(
        arguments.out,
        joined,
        RunFacts(
            judged,
            benchmark,
            held_out,
            files,
            options,
            arguments.seed,
            origin_facts,
            checks,
            origins,
        ),
    )
    paths = report.build([arguments.out], arguments.out / "report")
    alone = len(judged) == len(joined.models) and not arguments.reworded
    cells: list[Cell] = []
    for _, part in parts_of(paths.content):
        cells += part.cells
    _print_verdicts(cells, counted=("not_identified",) if alone and len(judged) > 1 else ())
    next_command = _next_command(arguments.out, may_be_set=alone and len(judged) > 2)
    print(f"report   {paths.html}\nNext: audit {next_command}")
    return 0


def _print_failed(checks: Sequence[LogCheck]) -> None:
    for check in checks:
        if not check.passed:
            say(f"no verdict: {check.name}: {check.detail}")


def _options_of(arguments: argparse.Namespace, panel: Panel) -> dict[str, Any]:
    """Return the options with which the logs were read, for the manifest."""
    from audit.benchmarks.fresh import is_span

    options = {
        "columns": panel.columns,
        "joined_by": arguments.key,
        "metric": arguments.metric,
        "references": arguments.references,
        "left_out": {"changed": panel.changed, "of_strata": panel.spare},
        "filter": arguments.filter,
        "options": arguments.options,
        "below_chance_is_real": arguments.below_chance_is_real,
    }
    if is_span(arguments.held_out_date):
        options["held_out_date"] = arguments.held_out_date
    if arguments.split:
        options["split"] = arguments.split
    return options


def _next_command(run: Path, *, may_be_set: bool) -> str:
    """Return the command to type next: `audit gate`, or the command that builds a reference set."""
    if not may_be_set:
        return f"gate {shlex.quote(str(run))}"
    build = f"references build {shlex.quote(str(run))} --name NAME --source WHO"
    return f"{build} --licence WHICH --facts CSV   # model,released,family"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments: logs, run to write, and models to judge."""
    add = parser.add_argument
    add_reading(parser)
    add("-o", "--out", type=Path, required=True, metavar="RUN", help="the run directory to write")
    add(
        "--reworded",
        action="extend",
        nargs="+",
        default=[],
        metavar="LOG",
        help="logs of the same items, reworded",
    )
    judge = "the models to judge (default: every model that is not a reference)"
    add("--judge", action="extend", nargs="+", default=[], metavar="MODEL", help=judge)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that name the logs and how they are read."""
    add = parser.add_argument
    logs = "a log or a folder of logs; NAME=LOG names the log's model"
    add("logs", nargs="+", metavar="LOG", help=logs)
    add(
        "--held-out",
        action="extend",
        nargs="+",
        default=[],
        metavar="LOG",
        help="logs of held-out items, or the name of a benchmark",
    )
    split = "a table with a column of dates: rows from this date on are the held-out items"
    add("--split", default="", metavar="COLUMN=DATE", help=split)
    add(
        "--references",
        action="extend",
        nargs="+",
        default=[],
        metavar="MODEL",
        help="reference models, or set:NAME (default: all models that are not judged)",
    )
    family = "family of the judged models; models of a set that have this family are left out"
    add("--family", default="", help=family)
    held_out_date = "when the held-out items were written: 2024-05 or 2024-05..2024-08"
    add("--held-out-date", metavar="DATE", help=held_out_date)
    released = "release date of the judged models, or MODEL=DATE; training ended before this date"
    add("--released", action="extend", nargs="+", default=[], metavar="DATE", help=released)
    add("--model", default="", help="name of the model, if a log does not have it")
    benchmark = (
        "name of the benchmark, if a log does not have it; if it has several: which to judge"
    )
    add("--benchmark", default="", help=benchmark)
    columns = (
        "columns of a table: model, item, correct, ...; a nested column is a path: item=doc.id"
    )
    add("--map", action="append", default=[], metavar="FIELD=COLUMN,...", help=columns)
    key = "the field that identifies an item in every log; text: the item's text"
    add("--key", default="", metavar="FIELD", help=key)
    metric = "the score to read; SCORER.PART for an Inspect score that has parts"
    add("--metric", "--scorer", default="", help=metric)
    add("--filter", default="", help="the lm-eval filter to read, if a log has several")
    options = "number of options of an item, if no log lists them; 0: free answers"
    add("--options", type=int, metavar="N", help=options)
    real = "accept scores far below guessing: they are not an error of the logs"
    add("--below-chance-is-real", action="store_true", help=real)
    answers = "how a table writes its answers, if several ways are possible: "
    answers += "letter, from0, from1, text, number, truth or word"
    add("--answer-as", default="", metavar="FORM", help=answers)
    add("--gold-as", default="", metavar="FORM", help="how a table writes its keys")
    add("--seed", type=int, default=0)


def _check_forms(arguments: argparse.Namespace) -> None:
    from audit.imports.typed import KINDS

    for value in filter(None, (arguments.answer_as, arguments.gold_as)):
        check_known("form of answers or keys", value, KINDS)


def _read(
    arguments: argparse.Namespace, columns: dict[str, str], released: Mapping[str, str]
) -> tuple[Joined, str | None, list[dict[str, Any]], dict[str, Origin]]:
    """Return the joined outcomes, the held-out benchmark's name, facts about files, and model
    origins.

    Every log is read completely before the run is written. `released` has dates by model, and the
    date of the judged models under "".
    """
    from audit.benchmarks.fresh import Origin, is_span, last_date
    from audit.imports.folder import is_folder, read_logs
    from audit.imports.join import Joined
    from audit.imports.record import Wanted

    joined = Joined()
    by_name = _names_benchmark(arguments.held_out)
    held_out, split, written = _held_out_set(arguments, by_name)
    dates = [released.get(name, released.get("")) for name in arguments.judge or ("", *released)]
    before = last_date(written, map(Origin, dates))
    window = None
    if held_out and (split or is_span(written)):
        window = (held_out, written)
    check_paths(arguments)
    files, origins = _take_sets(arguments, joined, held_out, before)
    for word, benchmark, prefix in _given(arguments, by_name):
        path, model = _path_and_model(word, arguments.model)
        # A folder may hold several benchmarks. Then all are read, and --benchmark selects one.
        several = benchmark == arguments.benchmark and is_folder(path)
        wanted = Wanted(
            model,
            "" if several else benchmark,
            arguments.key,
            arguments.metric,
            columns,
            arguments.answer_as,
            arguments.gold_as,
            arguments.filter,
            window,
            split,
        )
        for place, log in read_logs(path, wanted):
            below = "" if place == path else str(place.relative_to(path))
            shown = below or path.name
            if isinstance(log, str):
                say(f"left out: {shown}: {log}")
                continue
            if split and log.tool != "table":
                raise ConfigError(
                    f"{shown} is a log of {log.tool}. Expected a table for --split, or logs of both "
                    "sets. Example: --held-out new.eval"
                )
            outcomes = _outcomes(log, arguments.options, prefix)
            joined.add(shown, outcomes, log.unfinished, log.sampling)
            facts = _log_facts(log)
            for entry in _hashes(place, below):
                files.append({**entry, **facts})
    return joined, held_out, files, origins


def _held_out_set(arguments: argparse.Namespace, by_name: bool) -> tuple[str | None, str, Any]:
    """Return the held-out benchmark, the date of --split, and the dates of the held-out items.

    `by_name`: --held-out names a benchmark of the logs, not further logs.
    """
    dates = arguments.held_out_date
    if arguments.split:
        _, split = _split(arguments)
        return HELD_OUT, split, dates or f"{split}.."
    if not arguments.held_out:
        return None, "", dates
    return arguments.held_out[0] if by_name else HELD_OUT, "", dates


def _path_and_model(word: str, model: str) -> tuple[Path, str]:
    """Return the path of LOG or NAME=LOG, and the name of its model."""
    name, equals, rest = word.partition("=")
    if equals and not Path(word).exists():
        return Path(rest), name
    return Path(word), model


def _outcomes(log: Log, options: int | None, prefix: str) -> Iterator[Imported]:
    """Return the outcomes of a log.

    If set, `options` is their number of options, and `prefix` is put before the benchmark's name.
    """
    from audit.imports.chance import with_options

    outcomes = with_options(log.outcomes, options) if options else log.outcomes
    return _prefixed(outcomes, prefix) if prefix else outcomes


def _log_facts(log: Log) -> dict[str, Any]:
    """Return the facts about a log for the manifest. All outcomes of the log must have been
    read."""
    facts: dict[str, Any] = {"tool": log.tool, "version": log.version}
    known = {"score": log.score, "unfinished": log.unfinished, "notes": list(log.notes)}
    for name, value in known.items():
        if value:
            facts[name] = value
    return facts


def _split(arguments: argparse.Namespace) -> tuple[str, str]:
    """Return the column and the date of --split.

    Raises ConfigError if --held-out is set too, or if the text after the equals sign is not a
    single date.
    """
    from audit.benchmarks.fresh import check_date, is_span

    form = "COLUMN=DATE. Example: --split date=2023-09"
    column, date = pair_of("--split", arguments.split, form)
    if arguments.held_out:
        raise ConfigError(
            "Both --split and --held-out are set. Expected one of them: --split takes the held-out "
            "items from the same table."
        )
    if is_span(date):
        raise ConfigError(f"--split is {arguments.split!r}. Expected a single date: {form}")
    check_date(date)
    return column, date


def _split_dates(arguments: argparse.Namespace, joined: Joined) -> str:
    """Print how many items are dated before the date of --split, and how many later.

    Return FIRST..LAST, the dates of the later items. Raises ConfigError if a side has no item, or
    if an item is on both sides.
    """
    from audit.benchmarks.fresh import span_of

    column, date = _split(arguments)
    sides: dict[bool, list[str]] = {True: [], False: []}
    new_items = joined.items.get(HELD_OUT, {})
    for name, items in joined.items.items():
        sides[name == HELD_OUT] += [item.date for item in items.values() if item.date]
        both = items.keys() & new_items.keys() if name != HELD_OUT else ()
        if both:
            raise ConfigError(
                f"Item {min(both)[:80]!r} has rows dated before {date} and rows dated {date} or "
                f"later. Expected the same date in the column {column} of all rows of the item."
            )
    older, newer = sorted(sides[False]), sides[True]
    if not older or not newer:
        where = "before it" if older else "from it on"
        dates = sorted(older or newer or {date})
        # The later half of the dates is an example, unless it is the refused date itself.
        example = [other for other in dates if other != date] or ["DATE"]
        raise ConfigError(
            f"--split is {arguments.split}, and all items are dated {where}. Expected a date with "
            f"items on both sides. Example: --split {column}={example[len(example) // 2]}"
        )
    span = span_of(newer)
    say(f"split: {len(older):,} items before {date}, {len(newer):,} held-out items of {span}")
    return span


def check_paths(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for the first log that does not exist, before any log is read."""
    from audit.core.guarded_files import nearest
    from audit.imports.folder import SUFFIXES

    by_name = _names_benchmark(arguments.held_out)
    words = [word for word, _, _ in _given(arguments, by_name)]
    # A single argument that is not a file is the name of a benchmark, unless it looks like a path.
    if by_name and Path(arguments.held_out[0]).suffix in SUFFIXES:
        words += arguments.held_out
    for word in words:
        path, _ = _path_and_model(word, "")
        if not path.exists():
            raise ConfigError(
                f"{path} does not exist.{nearest(path)} Expected a log, such as logs/a.eval."
            )


def _names_benchmark(words: Sequence[str]) -> bool:
    """Return True if the arguments of --held-out are the name of a benchmark, not logs."""
    if len(words) != 1:
        return False
    path = words[0].partition("=")[2] or "?"
    return not Path(words[0]).exists() and not Path(path).exists()


def _given(arguments: argparse.Namespace, by_name: bool) -> list[tuple[str, str, str]]:
    """Return (log, benchmark, prefix) for each log.

    `benchmark` replaces the benchmark's name in the log; "" keeps the name in the log. `prefix`
    is put before the name. If `by_name` is True, the held-out items are a benchmark of
    `arguments.logs`, which --held-out names.
    """
    from audit.imports.reworded import REWORDED

    logs = [(word, "" if by_name else arguments.benchmark, "") for word in arguments.logs]
    held_out = [(word, HELD_OUT, "") for word in ([] if by_name else arguments.held_out)]
    return logs + held_out + [(word, "", REWORDED) for word in arguments.reworded]


def _take_sets(
    arguments: argparse.Namespace, joined: Joined, held_out: str | None, before: str | None
) -> tuple[list[dict[str, Any]], dict[str, Origin]]:
    """Add the reference sets of `--references` to the joined logs.

    In `arguments.references` the names of a set's models replace the set. Return the facts about
    each set, and the origin of each of its models.
    """
    from audit.config.references import PREFIX
    from audit.imports.sets import take_set

    files: list[dict[str, Any]] = []
    origins: dict[str, Origin] = {}
    for word in [word for word in arguments.references if word.startswith(PREFIX)]:
        taken = take_set(
            word.removeprefix(PREFIX), arguments.family, arguments.benchmark, held_out or "", before
        )
        joined.add(word, taken.outcomes)
        files.append(taken.about)
        place = arguments.references.index(word)
        arguments.references[place : place + 1] = taken.models
        origins |= taken.models
    return files, origins


def _hashes(path: Path, name: str) -> list[dict[str, str]]:
    """Return name and hash of the log's file, or of each of its files if the log is a folder.

    If the log is in a folder of logs, `name` replaces the name of its file.
    """
    from audit.shards.files import file_sha256

    if not path.is_dir():
        return [{"file": name or path.name, "sha256": file_sha256(path, follow=True)}]
    hashes = []
    for file in sorted([*path.glob("*.json"), *path.glob("shards/*.arrow")]):
        shown = f"{name}/{file.name}" if name else file.name
        hashes.append({"file": shown, "sha256": file_sha256(file, follow=True)})
    return hashes


def date_words(missing: Iterable[str], judged: Collection[str]) -> list[str]:
    """Return the options that state missing dates.

    Parameters
    ----------
    missing : Iterable[str]
        The models without a date. "" stands for the held-out items.
    judged : Collection[str]
        The judged models. Their date is `--released DATE`, without a name.

    Returns
    -------
    list[str]
        Each option once, such as `--released llama=DATE`.
    """
    words = dict[str, None]()
    for name in missing:
        model = "--released DATE" if name in judged else f"--released {name}=DATE"
        words[model if name else "--held-out-date DATE"] = None
    return list(words)


def _released(arguments: argparse.Namespace) -> dict[str, str]:
    """Map each model in --released to its release date. The key "" has the judged models' date.

    Raises ConfigError if a date is invalid.
    """
    from audit.benchmarks.fresh import check_date

    dates = [word.rpartition("=")[::2] for word in arguments.released]
    for date in (arguments.held_out_date, *(date for _, date in dates)):
        check_date(date)
    unnamed = [date for name, date in dates if not name]
    if len(unnamed) > 1:
        raise ConfigError(
            f"--released is {' '.join(unnamed)}. Expected at most one date without a model. "
            f"Example: --released {unnamed[0]} MODEL={unnamed[1]}"
        )
    return dict(dates)


def _chosen(
    arguments: argparse.Namespace, joined: Joined, held_out: str | None, released: Iterable[str]
) -> tuple[str, list[str], Joined]:
    """Return the benchmark to judge, the judged models, and the outcomes that are needed.

    The needed outcomes are those of the judged models and the references. `released` has the names
    of the models whose release date was stated.
    """
    from audit.imports.join import leave_out_shared, only

    benchmark = _benchmark(arguments, joined, held_out)
    for name in (*arguments.judge, *arguments.references, *filter(None, released)):
        check_known("model of the logs", name, joined.models)
    judged = arguments.judge or [name for name in joined.models if name not in arguments.references]
    both = sorted(set(judged) & set(arguments.references))
    if both:
        raise ConfigError(
            f"Model {both[0]} is in --judge and in --references. Expected it in only one of them."
        )
    joined = only(
        joined, {*judged, *arguments.references} if arguments.references else set(joined.models)
    )
    if held_out is not None:
        shared = leave_out_shared(joined, benchmark, held_out)
        if shared:
            say(f"left out: {shared} held-out items that are items of {benchmark} too")
    return benchmark, judged, joined


def _benchmark(arguments: argparse.Namespace, joined: Joined, held_out: str | None) -> str:
    """Return the name of the benchmark to judge, as named by --benchmark or as the only one."""
    from audit.imports.reworded import REWORDED

    if held_out and arguments.reworded:
        raise ConfigError(
            "Both --held-out and --reworded are set. Expected one of them: each needs its own import."
        )
    others = [name for name in joined.items if name != held_out and not name.startswith(REWORDED)]
    if not others:
        raise ConfigError(
            "The logs have outcomes of held-out items only. Expected a log of the benchmark too."
        )
    if held_out is not None and held_out not in joined.items:
        raise unknown_name("--held-out (a log, or a benchmark of the logs)", held_out, others)
    benchmark = arguments.benchmark if arguments.benchmark in others else others[0]
    if len(others) > 1 and benchmark != arguments.benchmark:
        raise ConfigError(
            f"The logs have {len(others)} benchmarks ({', '.join(sorted(others)[:6])}). "
            f"Expected the name of one. Example: --benchmark {shlex.quote(others[0])}. With the "
            "logs' files in place of their folder, any name makes them one benchmark."
        )
    return benchmark


def _print_verdicts(cells: Sequence[Cell], counted: Sequence[str]) -> None:
    """Print a line for each verdict.

    For the verdicts in `counted`, only the number of models is printed. The same holds for more
    than MAX_WITHHELD withheld verdicts.
    """
    n = Counter(cell.verdict for cell in cells)
    summed = set(counted)
    if n[WITHHELD] > MAX_WITHHELD:
        summed.add(WITHHELD)
    for cell in cells:
        if cell.verdict not in summed:
            say(f"{cell.verdict}: {cell.headline}")
    for verdict in sorted(summed & n.keys()):
        print(f"{verdict}: {n[verdict]} models; the report lists each")


def _prefixed(outcomes: Iterable[Imported], prefix: str) -> Iterator[Imported]:
    """Yield the outcomes with a prefix before the name of their benchmark."""
    for outcome in outcomes:
        yield replace(outcome, benchmark=prefix + outcome.benchmark)


def _print_scores(files: Sequence[Mapping[str, Any]]) -> None:
    """Print which scores were read from which files, notes on the files, and unfinished logs."""
    files_by_score: dict[tuple[str, str], list[str]] = {}
    notes = dict[str, None]()
    for file in files:
        if file.get("score"):
            files_by_score.setdefault((file["tool"], file["score"]), []).append(file["file"])
        notes |= dict.fromkeys(file.get("notes", ()))
    for (tool, score), names in files_by_score.items():
        others = f" and {len(names) - 1} others" if len(names) > 1 else ""
        say(f"score: {score} of {tool}, in {names[0]}{others}")
    for note in notes:
        say(f"note: {note}")
    for file in files:
        if file.get("unfinished"):
            say(f"not finished: {file['file']}: {file['unfinished']}. No gate passes this run.")


def _print_no_options(panel: Panel) -> None:
    """Print a note if the questions may have had options, but the logs list none."""
    may_lack_options = any(file.get("tool") in _NO_OPTIONS for file in panel.files)
    items = panel.joined.items[panel.benchmark]
    if may_lack_options and not any(item.options for item in items.values()):
        print(
            "note: the logs list no options, so all answers count as free text. If the models chose"
        )
        print("  among options, guessing can cause a gap. State their number. Example: --options 4")


def _print_left_out(joined: Joined, changed: Mapping[str, int], spare: int) -> None:
    for name, n in changed.items():
        say(
            f"left out: {n} items of {name}: the logs differ in key or options, "
            "or list one option only"
        )
    if spare:
        print(f"left out: {spare} held-out items, so that strata have the same shares in both sets")


def _print_table(joined: Joined, names: Sequence[str]) -> None:
    from audit.imports.join import counts

    print(
        f"{'model':<36} {'benchmark':<28} {'items':>7} {'lacking':>8} {'accuracy':>9} {'unparsed':>9}"
    )
    for row in counts(joined):
        if row.benchmark in names:
            numbers = f"{row.items:>7,} {row.lacking:>8,} {row.accuracy:>9.3f} {row.unparsed:>9,}"
            partial = joined.partial.get((row.model, row.benchmark), "")
            note = f"  partial: {partial}" if partial else ""
            say(f"{row.model:<36} {row.benchmark:<28} {numbers}{note}")


def _print_scope(
    joined: Joined, names: Sequence[str], judged: Sequence[str], reworded: bool
) -> None:
    """Print what can be judged from the logs, what cannot, and which options are missing."""
    references = len(joined.models) - len(judged)
    contrast = "drop under rewording" if reworded else "score on held-out items"
    models = f"{len(judged)} model{'s' if len(judged) > 1 else ''}"
    possible = f"{contrast}, of {models} against {references} references"
    needs = [] if len(names) > 1 else ["--held-out LOG or --reworded LOG"]
    if not references and not reworded:
        needs += ["--judge MODEL" if len(judged) > 1 else "logs of other models as references"]
    if needs:
        possible = f"nothing yet; the import needs {' and '.join(needs)}"
    print(f"can be judged: {possible}")
    asking = "sweep, edits" if reworded else "sweep, rewordings, edits"
    print(f"cannot be judged: likelihood of the text and order of items (no weights); {asking}")
    print("  (the model must answer again). Accuracy counts only the answers that were parsed.")
    if not references and not reworded and len(judged) > 1:
        print("No reference is named. Expected --judge MODEL: the other models become references.")
