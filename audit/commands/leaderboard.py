"""Rank many models by their score and by their score without memory.

The command reads answers to an exam and to held-out items. It judges each model against the other
models (or against --references), as `audit import` does. It writes leaderboard.html,
leaderboard.json, the table as csv, and the figure as svg and png.

example: audit leaderboard scores.csv --map correct=right,of=n --benchmark before --held-out after
-o outputs/board"""

from __future__ import annotations

import contextlib
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from audit.commands.again import add_force
from audit.commands.import_logs import Panel, add_reading, check_paths, read_panel
from audit.core.errors import ConfigError
from audit.core.exits import say

if TYPE_CHECKING:
    from audit.benchmarks.fresh import Origin
    from audit.core.records import Item
    from audit.imports.join import Joined
    from audit.memory.leaderboard import Leaderboard
    from audit.memory.record import MemoryCell

# A leaderboard needs a judged model, and two other models that show how much models differ.
SMALLEST = 3


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments: logs, folder to write, and facts about the models."""
    add_reading(parser)
    add = parser.add_argument
    add("-o", "--out", type=Path, required=True, metavar="FOLDER", help="the folder to write")
    facts = (
        "a csv with the columns model, released, family; a model is only judged against models of "
    )
    facts += "other families"
    add("--facts", type=Path, metavar="CSV", help=facts)
    add("--title", default="", help="title of the page (default: the benchmark's name)")
    add("--json", action="store_true", help="print leaderboard.json in place of the table")
    add_force(parser)
    parser.set_defaults(judge=[], reworded=[])


def run(arguments: Namespace) -> int:
    """Judge every model of the logs, write the page, and print the ranks.

    Returns
    -------
    int
        Exit code 0, whatever the verdicts are.

    Raises
    ------
    ConfigError
        If held-out items are missing, fewer than three models have both sets, or the folder holds
        another leaderboard.
    """
    from audit.shards.files import check_new

    written = ("leaderboard.html", "tables", "figures")
    check_new(arguments.out / "leaderboard.json", arguments.out, written, force=arguments.force)
    check_paths(arguments)
    if not arguments.held_out and not arguments.split:
        raise ConfigError(
            "Held-out items are missing. Expected logs of items that no model can have seen, or a "
            "date (--split): items of the table from that date on are then held out. "
            "Example: --held-out new.csv"
        )
    # Notes about the input are not results, so they go to stderr.
    with contextlib.redirect_stdout(sys.stderr):
        panel = read_panel(arguments)
        board, references, families = _judged(arguments, panel)
    from audit.judging.result import json_text
    from audit.memory.leaderboard_page import document, figure, page, table
    from audit.report.build import write_parts
    from audit.shards.files import write_file

    _, _, figures = write_parts(
        arguments.out, {"leaderboard.csv": table(board)}, {"leaderboard": figure(board)}
    )
    typed = f"audit leaderboard {shlex.join(arguments.typed)}"
    html = page(
        board,
        figures,
        references=references,
        families=families,
        files=panel.files,
        command=typed,
        title=arguments.title,
    )
    content = document(board, panel.files)
    for name, text in (("leaderboard.html", html), ("leaderboard.json", json_text(content))):
        write_file(arguments.out / name, text.encode("utf-8", "backslashreplace"))
    if arguments.json:
        print(json_text(content), end="")
    else:
        _print(board)
        print(f"page     {arguments.out / 'leaderboard.html'}")
    return 0


def _judged(arguments: Namespace, panel: Panel) -> tuple[Leaderboard, Sequence[str], bool]:
    """Return the leaderboard, the references that the user named, and whether families are
    known."""
    from audit.commands.import_logs import print_read
    from audit.imports.chance import check_above_guessing
    from audit.imports.checks import check_logs
    from audit.imports.join import lacking, only
    from audit.memory.cells import score_cells
    from audit.memory.leaderboard import Row, leaderboard

    names = [panel.benchmark, str(panel.held_out)]
    short = lacking(panel.joined, names)
    print_read(panel, names, arguments.options)
    models = _complete(panel.joined.models, short)
    joined = only(panel.joined, set(models))
    checks = tuple(check_logs(joined, names, arguments.options))
    if not arguments.below_chance_is_real:
        check_above_guessing(joined, names)
    origins = _origins(arguments, panel, models)
    chosen = _chosen(arguments.references, models)
    date = arguments.held_out_date
    references = {name: _references(name, chosen or models, origins, date) for name in models}
    questions, scores = _outcomes(joined, names, models)
    cells = []
    for cell in score_cells(questions, scores, references, arguments.seed):
        cells.append(replace(_with_origin(cell, origins, names[1], date), log_checks=checks))
    missing = [Row(model, None, why=f"{why}.") for model, why in short.items()]
    board = leaderboard(cells, seed=arguments.seed, chosen=bool(chosen), unjudged=missing)
    return board, chosen, any(origin.family for origin in origins.values())


def _complete(models: Iterable[str], short: Mapping[str, str]) -> list[str]:
    """Return the models with answers to both sets. Raises ConfigError if fewer than SMALLEST models
    remain."""
    complete = [name for name in models if name not in short]
    if len(complete) < SMALLEST:
        hint = " ".join(short.values()) or "Example: a csv with a row for each model and item"
        raise ConfigError(
            f"Number of models with both sets is {len(complete)}. Expected at least {SMALLEST}. {hint}"
        )
    return complete


def _origins(arguments: Namespace, panel: Panel, models: Sequence[str]) -> dict[str, Origin]:
    """Map each model to its release date and family. The file of `--facts` takes precedence over
    reference sets."""
    from audit.benchmarks.fresh import Origin
    from audit.imports.sets import facts_of

    origins = {}
    for name in models:
        released = panel.released.get(name, panel.released.get(""))
        origins[name] = panel.known.get(name, Origin(released, None))
    for name, facts in facts_of(arguments.facts, models).items():
        known = {key: value for key, value in facts.items() if value}
        origins[name] = replace(origins[name], **known)
    return origins


def _chosen(named: Iterable[str], models: Sequence[str]) -> list[str]:
    """Return the named references with answers to both sets. Raises ConfigError if too few
    references remain."""
    from audit.memory.design import MemoryThresholds

    chosen = [name for name in named if name in models]
    least = MemoryThresholds().references_min
    if chosen and len(chosen) < least:
        raise ConfigError(
            f"Number of references with both sets is {len(chosen)} ({', '.join(chosen)}). Expected {least:g} or more, "
            "which show how much models differ. Example: --references CLEAN_A CLEAN_B CLEAN_C"
        )
    return chosen


def _outcomes(
    joined: Joined, names: Sequence[str], models: Sequence[str]
) -> tuple[dict[str, list[Item]], dict[tuple[str, str], dict[str, list[float | None]]]]:
    """Return the questions of each set, and the scores of each model on the set."""
    from audit.imports.join import shares
    from audit.imports.write import questions_of

    questions = {}
    for benchmark in names:
        questions[benchmark] = questions_of(joined, benchmark)
    scores = {}
    for model in models:
        for benchmark in names:
            scores[model, benchmark] = shares(joined, model, benchmark)
    return questions, scores


def _references(
    model: str, others: Sequence[str], origins: Mapping[str, Origin], date: str | None
) -> list[str]:
    """Return the models that a model is judged against.

    They are the models of other families. If some held-out items are newer than the judged model,
    only the models that are older than all held-out items remain.
    """
    from audit.benchmarks.fresh import has_newer, is_newer

    origin = origins[model]
    other_families = []
    for name in others:
        same_family = origin.family and origin.family == origins[name].family
        if name != model and not same_family:
            other_families.append(name)
    if date is None or origin.released is None or not has_newer(date, origin.released):
        return other_families
    older = []
    for name in other_families:
        released = origins[name].released
        if released is None or is_newer(date, released):
            older.append(name)
    return older


def _with_origin(
    cell: MemoryCell, origins: Mapping[str, Origin], held_out: str, date: str | None
) -> MemoryCell:
    """Return the cell with two additions: the families of all models, and the options with which a
    person states missing dates."""
    from audit.benchmarks.fresh import check_origin
    from audit.commands.import_logs import date_words

    references = {member.model: origins[member.model] for member, _ in cell.references}
    facts = check_origin(held_out, date, None, {cell.model: origins[cell.model]}, references)
    families = {name: origin.family for name, origin in origins.items() if origin.family}
    missing = date_words(facts["dates_missing"], ())
    return replace(cell, undated=tuple(missing), families=families)


def _print(board: Leaderboard) -> None:
    from audit.core.number_text import bare_pvalue, percent
    from audit.memory.leaderboard import cautions, sentence

    say(sentence(board))
    width = max(len(row.model) for row in board.rows)
    head = (
        f"{'rank':>5} {'without':>7}  {'model':<{width}}  {'score':>6}  {'without memory':<25} "
        f"{'p, Holm':>8}  verdict"
    )
    print(f"\n{head}")
    for row in board.rows:
        score = percent(row.score.estimate, whole=False) if row.score else "-"
        if row.without is None:
            say(f"{'-':>5} {'-':>7}  {row.model:<{width}}  {score:>6}  not judged: {row.why}")
            continue
        low, high = percent(row.without.low), percent(row.without.high)
        without = f"{percent(row.without.estimate)} ({low} to {high})"
        if row.at_most:
            without = f"at most {high}"
        ranks = f"{row.rank:>5} {row.rank_without:>7}"
        p = bare_pvalue(row.adjusted)
        say(f"{ranks}  {row.model:<{width}}  {score:>6}  {without:<25} {p:>8}  {row.word}")
    print()
    for caution in cautions(board):
        say(f"note: {caution}")
