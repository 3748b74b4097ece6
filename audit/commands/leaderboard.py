"""Rank many models by their score and by their score without memory, from answers to an exam and to
held-out items.

Each model is judged against the others (or against --references), as `audit import` judges it.
Written into the folder: leaderboard.html (offline), leaderboard.json, and the table as csv and the
figure as svg and png.

example: audit leaderboard scores.csv --map correct=right,of=n --benchmark before --held-out after
-o outputs/board"""

from __future__ import annotations

import contextlib
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from audit.commands.import_logs import Panel, add_reading, read_panel
from audit.core.errors import ConfigError
from audit.core.exits import say

if TYPE_CHECKING:
    from audit.benchmarks.fresh import Origin
    from audit.memory.leaderboard import Leaderboard
    from audit.memory.record import MemoryCell

SMALLEST = 3  # fewest models of a panel: one judged, and two to show how much models differ


def add_words(parser: ArgumentParser) -> None:
    add_reading(parser)
    add = parser.add_argument
    add("-o", "--out", type=Path, required=True, metavar="FOLDER", help="the folder to write")
    facts = (
        "a csv with the columns model, released, family: no model is judged against its own family"
    )
    add("--facts", type=Path, metavar="CSV", help=facts)
    add("--title", default="", help="of the page; default: the benchmark's name")
    add("--json", action="store_true", help="print leaderboard.json in place of the table")
    parser.set_defaults(judge=[], reworded=[])


def run(asked: Namespace) -> int:
    """Judge every model of the logs, write the page, and print the ranks."""
    if not asked.held_out:
        raise ConfigError(
            "Held-out items are missing. Expected logs of items that no model can have seen. "
            "Example: --held-out new.csv"
        )
    # What is printed about the input is no result, so it goes to stderr.
    with contextlib.redirect_stdout(sys.stderr):
        panel = read_panel(asked)
        board, references, families = _judged(asked, panel)
    from audit.judging.result import json_text
    from audit.memory.leaderboard_page import document, figure, page, table
    from audit.report.build import write_parts
    from audit.shards.files import write_file

    _, _, figures = write_parts(
        asked.out, {"leaderboard.csv": table(board)}, {"leaderboard": figure(board)}
    )
    typed = f"audit leaderboard {shlex.join(asked.typed)}"
    html = page(
        board,
        figures,
        references=references,
        families=families,
        files=panel.files,
        command=typed,
        title=asked.title,
    )
    content = document(board, panel.files)
    for name, text in (("leaderboard.html", html), ("leaderboard.json", json_text(content))):
        write_file(asked.out / name, text.encode("utf-8", "backslashreplace"))
    if asked.json:
        print(json_text(content), end="")
    else:
        _print(board)
        print(f"page     {asked.out / 'leaderboard.html'}")
    return 0


def _judged(asked: Namespace, panel: Panel) -> tuple[Leaderboard, Sequence[str], bool]:
    """Return the leaderboard, the named references, and whether families are known."""
    from audit.benchmarks.fresh import Origin
    from audit.commands.import_logs import print_read
    from audit.imports.chance import check_above_guessing
    from audit.imports.checks import check_logs
    from audit.imports.join import lacking, only, shares
    from audit.imports.sets import facts_of
    from audit.imports.write import question
    from audit.memory.cells import score_cells
    from audit.memory.leaderboard import Row, leaderboard

    joined, names = panel.joined, [panel.benchmark, str(panel.held_out)]
    short = lacking(joined, names)
    print_read(panel, names)
    models = [name for name in joined.models if name not in short]
    if len(models) < SMALLEST:
        few = f"Number of models with both sets is {len(models)}. Expected at least {SMALLEST}"
        raise ConfigError(
            f"{few}. {' '.join(short.values()) or 'Example: a csv with a row for each model and item'}"
        )
    joined = only(joined, set(models))
    checks = tuple(check_logs(joined, names, asked.options))
    if not asked.below_chance_is_real:
        check_above_guessing(joined, names)
    dated = {name: panel.released.get(name, panel.released.get("")) for name in models}
    origins = {name: panel.known.get(name, Origin(dated[name], None)) for name in models}
    for name, one in facts_of(asked.facts, joined.models).items():
        known = {key: value for key, value in one.items() if value}
        origins[name] = replace(origins[name], **known)
    chosen = [name for name in asked.references if name in models]
    references = {
        name: _references(name, chosen or models, origins, asked.held_out_date) for name in models
    }
    cells = score_cells(
        {
            one: [question(one, key, item) for key, item in joined.items[one].items()]
            for one in names
        },
        {(model, one): shares(joined, model, one) for model in models for one in names},
        references,
        asked.seed,
    )
    cells = tuple(_with_origin(cell, origins, names[1], asked.held_out_date) for cell in cells)
    cells = tuple(replace(cell, log_checks=checks) for cell in cells)
    missing = [Row(model, None, why=f"{why}.") for model, why in short.items()]
    board = leaderboard(cells, seed=asked.seed, chosen=bool(chosen), unjudged=missing)
    return board, chosen, any(one.family for one in origins.values())


def _references(
    model: str, others: Sequence[str], origins: Mapping[str, Origin], date: str | None
) -> list[str]:
    """Return the models that a model is judged against: not of its family, and as new to the items
    as it is."""
    from audit.benchmarks.fresh import has_newer, is_newer

    own = origins[model]
    kept = [
        one
        for one in others
        if one != model and not (own.family and own.family == origins[one].family)
    ]
    if date is None or own.released is None or not has_newer(date, own.released):
        return kept
    released = [(one, origins[one].released) for one in kept]
    return [one for one, when in released if when is None or is_newer(date, when)]


def _with_origin(
    cell: MemoryCell, origins: Mapping[str, Origin], held_out: str, date: str | None
) -> MemoryCell:
    """Return the cell with what is known of its models' families and dates."""
    from audit.benchmarks.fresh import check_origin
    from audit.commands.import_logs import date_words

    theirs = {one.model: origins[one.model] for one, _ in cell.references}
    told = check_origin(held_out, date, None, {cell.model: origins[cell.model]}, theirs)
    families = {name: one.family for name, one in origins.items() if one.family}
    missing = date_words(told["dates_missing"], ())
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
        known = (
            f"at most {high}"
            if row.at_most
            else f"{percent(row.without.estimate)} ({low} to {high})"
        )
        p = bare_pvalue(row.adjusted)
        say(
            f"{row.rank:>5} {row.rank_without:>7}  {row.model:<{width}}  {score:>6}  {known:<25} {p:>8}  {row.word}"
        )
    print()
    for caution in cautions(board):
        say(f"note: {caution}")
