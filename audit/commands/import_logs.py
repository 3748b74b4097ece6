"""Import finished evaluations: lm-eval, Inspect, HELM, Every Eval Ever, lighteval, OpenCompass,
openai/evals, EvalPlus, promptfoo, runs of this program, tables; and folders of logs.

example: audit import base.eval tuned.eval --held-out base_new.eval tuned_new.eval --judge tuned -o
outputs/imported. NAME=LOG gives the model of one log another name."""

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
    from audit.imports.record import Imported
    from audit.judging.document import Cell

# Verdict that is withheld; number of such verdicts that are printed one by one.
WITHHELD, MAX_TOLD = "withheld", 5
# Tools whose logs may not hold the options.
_NO_OPTIONS = (
    "table",
    "opencompass",
    "openai-evals",
    "promptfoo",
)
HELD_OUT = "held_out"  # name of the held-out items' benchmark in the run


@dataclass(frozen=True)
class Panel:
    """Logs as they were read and joined. known: what sets tell of their models. files: facts of
    every log. changed: items that differ between logs, by benchmark; spare: held-out items beyond
    the strata. released: dates by model, with that of the judged ones under ""."""

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


def read_panel(asked: argparse.Namespace) -> Panel:
    """Read and join the logs of the arguments, and choose the benchmark and the judged models."""
    check_seed(asked.seed)
    _check_forms(asked)
    form = "FIELD=COLUMN, such as --map model=name,item=id,correct=score"
    columns = dict(pair_of("--map", one, form) for one in asked.map.split(",")) if asked.map else {}
    released = _released(asked)
    joined, held_out, files, known = _read(asked, columns, released)
    from audit.imports.join import leave_out_changed, match_strata, rejoin_by_text

    rejoin_by_text(joined)
    changed = leave_out_changed(joined)
    benchmark, judged, joined = _chosen(asked, joined, held_out, released)
    spare = match_strata(joined, benchmark, held_out) if held_out else 0
    return Panel(
        joined, benchmark, held_out, judged, files, known, columns, released, changed, spare
    )


def print_read(panel: Panel, names: Sequence[str]) -> None:
    """Print what was read of each model and set, which scores, and what was left out."""
    _print_table(panel.joined, names)
    _print_scores(panel.files)
    _print_left_out(panel.joined, panel.benchmark, panel.files, panel.changed, panel.spare)


def run(asked: argparse.Namespace) -> int:
    """Read, join, write, judge; a table of what was imported and one line a verdict."""
    panel = read_panel(asked)
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
    from audit.imports.write import Asked, write_run

    known |= dict.fromkeys(judged, Origin(released.get(""), asked.family or None))
    tested: dict[str, Origin] = {}
    references: dict[str, Origin] = {}
    for name in joined.models:
        one = known.get(name, Origin())
        one = replace(one, released=released.get(name, one.released))
        (tested if name in judged else references)[name] = one
    told: dict[str, list[str]] = {"held_out": []}
    if held_out:
        told = check_origin(held_out, asked.held_out_date, None, tested, references)
        told["dates_missing"] = date_words(told["dates_missing"], judged)
    names = [
        benchmark,
        *filter(None, [held_out]),
        *(one for one in joined.items if one.startswith(REWORDED)),
    ]
    print_read(panel, names)
    _print_scope(joined, names, judged, bool(asked.reworded))
    if len(names) > 1:  # A single benchmark is compared with nothing.
        check_joined(joined, names)
    if not asked.below_chance_is_real:
        check_above_guessing(joined, names)
    checks = check_logs(joined, names, asked.options)
    for check in checks:
        if not check.passed:
            say(f"no verdict: {check.name}: {check.detail}")
    options = {
        "columns": panel.columns,
        "joined_by": asked.key,
        "metric": asked.metric,
        "references": asked.references,
        "left_out": {"changed": panel.changed, "of_strata": panel.spare},
        "filter": asked.filter,
        "options": asked.options,
        "below_chance_is_real": asked.below_chance_is_real,
    }
    from audit.judging.together import parts_of
    from audit.memory.report import REPORT as MEMORY
    from audit.perturb.report import REPORT as PERTURB

    write, report = (write_reworded, PERTURB) if asked.reworded else (write_run, MEMORY)
    origins = references | tested
    write(
        asked.out,
        joined,
        Asked(judged, benchmark, held_out, files, options, asked.seed, told, checks, origins),
    )
    paths = report.build([asked.out], asked.out / "report")
    alone = len(judged) == len(joined.models) and not asked.reworded
    cells = [cell for _, part in parts_of(paths.content) for cell in part.cells]
    _print_verdicts(cells, together=("not_identified",) if alone and len(judged) > 1 else ())
    place = shlex.quote(str(asked.out))
    become = f"references build {place} --name NAME --source WHO --licence WHICH --facts CSV   # model,released,family"
    print(
        f"report   {paths.html}\nNext: audit {become if alone and len(judged) > 2 else f'gate {place}'}"
    )
    return 0


def add_words(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_reading(parser)
    add("-o", "--out", type=Path, required=True, metavar="RUN", help="the run directory to write")
    add(
        "--reworded",
        nargs="+",
        default=[],
        metavar="LOG",
        help="logs of the same items in other words",
    )
    add(
        "--judge", nargs="+", default=[], metavar="MODEL", help="default: every model, no reference"
    )


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which logs are read, and how."""
    add = parser.add_argument
    add("logs", nargs="+", metavar="LOG", help="a log or a folder of logs, or NAME=LOG")
    add(
        "--held-out",
        nargs="+",
        default=[],
        metavar="LOG",
        help="logs of held-out items, or the name of a benchmark",
    )
    add(
        "--references",
        nargs="+",
        default=[],
        metavar="MODEL",
        help="or set:NAME; default: all others",
    )
    add("--family", default="", help="of the judged models: a set's models of it are left out")
    add(
        "--held-out-date",
        metavar="DATE",
        help="when the held-out items were written, such as 2024-05 or 2024-05..2024-08",
    )
    newest = "of the judged models, or MODEL=DATE: nothing newer was in their training"
    add("--released", nargs="+", default=[], metavar="DATE", help=newest)
    add("--model", default="", help="where a log does not tell")
    add("--benchmark", default="", help="where a log does not tell; of several, the one to judge")
    add(
        "--map",
        default="",
        metavar="FIELD=COLUMN,...",
        help="of a table: model, item, correct, ...; a nested column is a path: item=doc.id",
    )
    add("--key", default="", metavar="FIELD", help="names an item in every log; text: its words")
    add(
        "--metric",
        "--scorer",
        default="",
        help="the score to read; SCORER.PART of an Inspect score that has parts",
    )
    add("--filter", default="", help="the filter of lm-eval to read, where a log has several")
    add(
        "--options",
        type=int,
        metavar="N",
        help="options of an item where no log lists them; 0: free answers",
    )
    add(
        "--below-chance-is-real",
        action="store_true",
        help="a score far below guessing is no error of the logs",
    )
    forms = "letter, from0, from1, text, number, truth or word, where a table can be read in several ways"
    add(
        "--answer-as",
        default="",
        metavar="FORM",
        help=f"how the answers of a table are written: {forms}",
    )
    add("--gold-as", default="", metavar="FORM", help="how its keys are written")
    add("--seed", type=int, default=0)


def _check_forms(asked: argparse.Namespace) -> None:
    from audit.imports.typed import KINDS

    for value in filter(None, (asked.answer_as, asked.gold_as)):
        check_known("form of answers or keys", value, KINDS)


def _read(
    asked: argparse.Namespace, columns: dict[str, str], released: Mapping[str, str]
) -> tuple[Joined, str | None, list[dict[str, Any]], dict[str, Origin]]:
    """(outcomes joined, the held-out benchmark, facts of every file, what a set tells of its
    models). Every log is read whole before anything is written. released: dates by model, that of
    the judged models under ""."""
    from audit.benchmarks.fresh import Origin, last_date
    from audit.imports.chance import with_options
    from audit.imports.folder import is_folder, read_logs
    from audit.imports.join import Joined
    from audit.imports.record import Wanted

    joined, words = Joined(), asked.held_out
    by_name = len(words) == 1 and not any(
        Path(one).exists() for one in (words[0], words[0].partition("=")[2] or "?")
    )
    held_out = words[0] if by_name else HELD_OUT if words else None
    dates = [released.get(name, released.get("")) for name in asked.judge or ("", *released)]
    before = last_date(asked.held_out_date, map(Origin, dates))
    files, told = _take_sets(asked, joined, held_out, before)
    for word, benchmark, prefix in _given(asked, by_name):
        name, equals, rest = word.partition("=")
        path, model = (
            (Path(rest), name) if equals and not Path(word).exists() else (Path(word), asked.model)
        )
        # A folder holds several benchmarks, of which --benchmark chooses one.
        several = benchmark == asked.benchmark and is_folder(path)
        wanted = Wanted(
            model,
            "" if several else benchmark,
            asked.key,
            asked.metric,
            columns,
            asked.answer_as,
            asked.gold_as,
            asked.filter,
        )
        for place, log in read_logs(path, wanted):
            shown = str(place.relative_to(path)) if place != path else path.name
            if isinstance(log, str):
                say(f"left out: {shown}: {log}")
                continue
            outcomes = with_options(log.outcomes, asked.options) if asked.options else log.outcomes
            joined.add(
                shown,
                _prefixed(outcomes, prefix) if prefix else outcomes,
                log.unfinished,
                log.sampling,
            )
            about = {
                "tool": log.tool,
                "version": log.version,
                "score": log.score,
                "unfinished": log.unfinished,
                "notes": list(log.notes),
            }
            about = {
                name: value for name, value in about.items() if value or name in ("tool", "version")
            }
            files += [{**one, **about} for one in _hashes(place, "" if place == path else shown)]
    return joined, held_out, files, told


def _given(asked: argparse.Namespace, by_name: bool) -> list[tuple[str, str, str]]:
    """(log, name of its benchmark, prefix of that) of each log; "" leaves the log's own name.
    by_name: the held-out items are a benchmark of the logs."""
    from audit.imports.reworded import REWORDED

    logs = [(word, "" if by_name else asked.benchmark, "") for word in asked.logs]
    held_out = [(word, HELD_OUT, "") for word in ([] if by_name else asked.held_out)]
    return logs + held_out + [(word, "", REWORDED) for word in asked.reworded]


def _take_sets(
    asked: argparse.Namespace, joined: Joined, held_out: str | None, before: str | None
) -> tuple[list[dict[str, Any]], dict[str, Origin]]:
    """Joins the sets among the references, and names their models in place of them; (facts of each,
    what it tells of them)."""
    from audit.config.references import PREFIX
    from audit.imports.sets import take_set

    files: list[dict[str, Any]] = []
    told: dict[str, Origin] = {}
    for word in [one for one in asked.references if one.startswith(PREFIX)]:
        taken = take_set(
            word.removeprefix(PREFIX), asked.family, asked.benchmark, held_out or "", before
        )
        joined.add(word, taken.outcomes)
        files.append(taken.about)
        place = asked.references.index(word)
        asked.references[place : place + 1] = taken.models
        told |= taken.models
    return files, told


def _hashes(path: Path, name: str) -> list[dict[str, str]]:
    """Name and hash of a log's file, or of those in its folder. name: of a log in a folder of
    logs."""
    from audit.shards.files import file_sha256

    inside = (
        sorted([*path.glob("*.json"), *path.glob("shards/*.arrow")]) if path.is_dir() else [path]
    )
    shown = {
        one: f"{name}/{one.name}" if name and path.is_dir() else name or one.name for one in inside
    }
    return [{"file": shown[one], "sha256": file_sha256(one, follow=True)} for one in inside]


def date_words(missing: Iterable[str], judged: Collection[str]) -> list[str]:
    """Return the options that state missing dates of models, "" for the held-out items."""
    words = dict[str, None]()
    for name in missing:
        model = "--released DATE" if name in judged else f"--released {name}=DATE"
        words[model if name else "--held-out-date DATE"] = None
    return list(words)


def _released(asked: argparse.Namespace) -> dict[str, str]:
    """--released: dates by model, that of the judged models under "". ConfigError for what is no
    date."""
    from audit.benchmarks.fresh import check_date

    told = [one.rpartition("=")[::2] for one in asked.released]
    for date in (asked.held_out_date, *(date for _, date in told)):
        check_date(date)
    of_all = [date for name, date in told if not name]
    if len(of_all) > 1:
        raise ConfigError(
            f"--released {' '.join(of_all)}: expected one date, and MODEL=DATE for each other model."
        )
    return dict(told)


def _chosen(
    asked: argparse.Namespace, joined: Joined, held_out: str | None, released: Iterable[str]
) -> tuple[str, list[str], Joined]:
    """(the benchmark to judge, the judged models, the outcomes of these and the references).
    released: models with a date."""
    from audit.imports.join import leave_out_shared, only

    benchmark = _benchmark(asked, joined, held_out)
    for name in (*asked.judge, *asked.references, *filter(None, released)):
        check_known("model of the logs", name, joined.models)
    judged = asked.judge or [name for name in joined.models if name not in asked.references]
    if twice := sorted(set(judged) & set(asked.references)):
        raise ConfigError(
            f"{twice[0]} is judged and a reference; expected it in --judge or --references, not in both."
        )
    joined = only(joined, {*judged, *asked.references} if asked.references else set(joined.models))
    if held_out is not None and (shared := leave_out_shared(joined, benchmark, held_out)):
        say(f"left out: {shared} held-out items that are items of {benchmark} too")
    return benchmark, judged, joined


def _benchmark(asked: argparse.Namespace, joined: Joined, held_out: str | None) -> str:
    """The one to judge."""
    from audit.imports.reworded import REWORDED

    if held_out and asked.reworded:
        raise ConfigError(
            "Found --held-out and --reworded. Expected one of them: they are two audits, so two imports."
        )
    others = [name for name in joined.items if name != held_out and not name.startswith(REWORDED)]
    if not others:
        raise ConfigError(
            "The logs hold no outcome beside the held-out ones. Expected a log with samples."
        )
    if held_out is not None and held_out not in joined.items:
        raise unknown_name("--held-out (a log, or a benchmark of the logs)", held_out, others)
    benchmark = asked.benchmark if asked.benchmark in others else others[0]
    if len(others) > 1 and benchmark != asked.benchmark:
        raise ConfigError(
            f"The logs hold {len(others)} benchmarks ({', '.join(sorted(others)[:6])}); expected one, such as "
            f"--benchmark {shlex.quote(others[0])}."
        )
    return benchmark


def _print_verdicts(cells: Sequence[Cell], together: Sequence[str]) -> None:
    """Print a line a verdict; many withheld ones, and the verdicts in `together`, are counted."""
    n = Counter(cell.verdict for cell in cells)
    counted = {*together, *([WITHHELD] if n[WITHHELD] > MAX_TOLD else [])}
    for cell in cells:
        if cell.verdict not in counted:
            say(f"{cell.verdict}: {cell.headline}")
    for verdict in sorted(counted & n.keys()):
        print(f"{verdict}: {n[verdict]} models; the report has each")


def _prefixed(outcomes: Iterable[Imported], prefix: str) -> Iterator[Imported]:
    """Yield the outcomes under names of benchmarks that begin with a prefix."""
    for one in outcomes:
        yield replace(one, benchmark=prefix + one.benchmark)


def _print_scores(files: Sequence[Mapping[str, Any]]) -> None:
    """Print the names of the scores that were read, with the files of each, and what a reader of
    them has to know."""
    read: dict[tuple[str, str], list[str]] = {}
    for one in files:
        if one.get("score"):
            read.setdefault((one["tool"], one["score"]), []).append(one["file"])
    for (tool, score), names in read.items():
        say(
            f"score: {score} of {tool}, in {names[0]}{f' and {len(names) - 1} others' if len(names) > 1 else ''}"
        )
    for note in dict.fromkeys(note for one in files for note in one.get("notes", ())):
        say(f"note: {note}")
    for one in files:
        if one.get("unfinished"):
            say(f"not finished: {one['file']}: {one['unfinished']}. No gate passes this run.")


def _print_left_out(
    joined: Joined,
    benchmark: str,
    files: Sequence[Mapping[str, Any]],
    changed: Mapping[str, int],
    spare: int,
) -> None:
    for name, n in changed.items():
        say(
            f"left out: {n} items of {name}: their key or options differ between logs, or are one option"
        )
    untold = any(one.get("tool") in _NO_OPTIONS for one in files)
    if untold and not any(one.options for one in joined.items[benchmark].values()):
        print(
            "note: no log lists options, so answers count as free. If they were chosen, guesses can make a gap:"
        )
        print("  give the number of options, such as --options 4")
    if spare:
        print(
            f"left out: {spare} held-out items, so that each stratum is as large a part of both sets"
        )


def _print_table(joined: Joined, names: Sequence[str]) -> None:
    from audit.imports.join import counts

    print(
        f"{'model':<36} {'benchmark':<28} {'items':>7} {'lacking':>8} {'accuracy':>9} {'unparsed':>9}"
    )
    for one in counts(joined):
        if one.benchmark in names:
            counted = f"{one.items:>7,} {one.lacking:>8,} {one.accuracy:>9.3f} {one.unparsed:>9,}"
            part = joined.partial.get((one.model, one.benchmark), "")
            say(
                f"{one.model:<36} {one.benchmark:<28} {counted}{f'  partial: {part}' if part else ''}"
            )


def _print_scope(
    joined: Joined, names: Sequence[str], judged: Sequence[str], reworded: bool
) -> None:
    """Print what the logs can show, and what is missing."""
    others = len(joined.models) - len(judged)
    what = "drop under rewording" if reworded else "score on held-out items"
    score = f"{what}, of {len(judged)} model{'s' * (len(judged) > 1)} against {others} references"
    needs = [] if len(names) > 1 else ["--held-out LOG or --reworded LOG"]
    if not others and not reworded:
        needs += ["--judge MODEL" if len(judged) > 1 else "logs of other models as references"]
    can = f"nothing yet, it needs {' and '.join(needs)}" if needs else score
    print(
        f"can be judged: {can}; cannot: likelihood of the text, order of items (no weights), and whatever asks the"
    )
    again = "sweep, edits" if reworded else "sweep, rewordings, edits"
    print(f"  model again ({again}). Accuracy is of the answers that could be parsed.")
    if not others and not reworded and len(judged) > 1:
        print(
            "No model is judged against the others, because none is named: --judge MODEL; the others become references."
        )
