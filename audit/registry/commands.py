"""Run the subcommands of `audit registry`.

Each subcommand prints lines and may return an exit code.
"""

import json
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from audit.core.errors import AuditError, ConfigError, RegistryError
from audit.core.exits import say
from audit.core.guarded_files import nearest
from audit.core.json_types import plain as as_plain
from audit.core.number_text import percent, pvalue, signed_points, with_interval
from audit.governance.keys import load_trusted
from audit.governance.reviews import DECISIONS, Bound, at
from audit.governance.ruling import bound_to, rule_run
from audit.registry import finish, retention, store
from audit.registry.cards import log_wandb, push_card, tag_mlflow, write_card
from audit.registry.database import VARIABLE, Registry, check_clock, open_registry, place_of
from audit.registry.entry import read_entry
from audit.registry.notify import VARIABLE as TO
from audit.registry.notify import addresses, expiring, waiting
from audit.registry.rotation import as_file, rotation
from audit.registry.rotation import draw as drawn
from audit.registry.store import forget_decisions, note_decisions
from audit.registry.trends import Floor, Point, Series, floors_of, series_of
from audit.report.canvas import BLUE, INK, MUTED, PAPER, VERMILLION, plain, styled, svg_text
from audit.shards.files import write_file
from audit.shards.manifest import MANIFEST
from audit.shards.panel import panel_runs, verdict_path


@styled()
def trend_svg(series: Sequence[Series], floors: Sequence[Floor] = ()) -> str:
    """Draw how indicators change over the versions of a model.

    Parameters
    ----------
    series : sequence of Series
        The indicators' values. Each series is drawn in a separate panel.
    floors : sequence of Floor
        The typical values in current models. Each is drawn as a dotted line in the panels whose
        latest point was measured in the same way.

    Returns
    -------
    str
        The SVG document. Equal series give equal bytes.
    """
    figure = Figure(figsize=(7.2, 0.5 + 2.3 * len(series)), layout="constrained")
    axes = np.atleast_1d(np.array(figure.subplots(len(series), 1)))
    for ax, panel in zip(axes, series, strict=True):
        x = np.arange(len(panel.points))
        last = (panel.indicator, panel.points[-1].alike)
        for level in (f for f in floors if (f.indicator, f.alike) == last):
            ax.axhline(100 * level.median, color=MUTED, linewidth=1, linestyle=":", zorder=1)
            ax.annotate(
                "median of current models",
                (0.995, 100 * level.median),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="bottom",
                color=MUTED,
                fontsize=7,
            )
        for k, point in enumerate(panel.points):
            if k and not point.differs:
                pair = [100 * panel.points[k - 1].estimate, 100 * point.estimate]
                ax.plot([k - 1, k], pair, color=BLUE, linewidth=1.2, zorder=2)
            elif k:
                ax.axvline(k - 0.5, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
            changed = point.look is not None and point.look.changed
            colour = VERMILLION if changed else BLUE
            if point.low is not None and point.high is not None:
                ax.vlines(
                    k, 100 * point.low, 100 * point.high, color=colour, linewidth=1.4, zorder=2
                )
            ax.plot(
                k,
                100 * point.estimate,
                marker="D" if changed else "o",
                markersize=6,
                markeredgecolor=colour,
                markerfacecolor=colour if point.sound else PAPER,
                zorder=3,
            )
        ax.axhline(0, color=INK, linewidth=0.6, zorder=0)
        ax.set_xlim(-0.5, max(len(x) - 0.5, 0.5))
        ax.set_xticks(x, [_version(point) for point in panel.points], fontsize=7)
        ax.set_title(
            f"{panel.indicator.replace('_', ' ')} of {plain(panel.model)} on {plain(_where(panel))}"
        )
        ax.set_ylabel({"cs": "CS, %"}.get(panel.indicator, "points"))
    return svg_text(figure)


def list(args: Namespace, now: datetime) -> None:
    """Print a line for each cell (model and benchmark) of every run.

    Parameters
    ----------
    args : Namespace
        Parsed command-line arguments.
    now : datetime
        Current time.
    """
    records = store.cell_records(
        opened(args), model=args.model, benchmark=args.benchmark, audit=args.audit
    )
    if args.json:
        _print_json([asdict(record) for record in records])
        return
    for record in records:
        run, cell = record.run, record.cell
        state = "  on hold" if run["hold"] is not None else ""
        if run["removed"]:
            state = "  removed"
        say(
            f"{run['key'][:12]}  {run['started'][:16]}  {run['audit']:<8} {run['decision']:<11} "
            f"{_named(cell)} ({cell['model_revision'][:15]}): {cell['verdict']}{state}"
        )
    print(f"{len({record.run['key'] for record in records})} runs")


def show(args: Namespace, now: datetime) -> None:
    """Print all registered facts about one run.

    Parameters
    ----------
    args : Namespace
        Parsed command-line arguments.
    now : datetime
        Current time.
    """
    registry = opened(args)
    run = store.find(registry, args.key)
    if args.json:
        records = store.cell_records(registry, key=run["key"])
        cells = [{"cell": record.cell, "indicators": record.indicators} for record in records]
        _print_json({"run": run, "cells": cells})
        return
    for name, value in run.items():
        if value not in (None, "", []):
            say(f"{name:16} {value}")
    for record in store.cell_records(registry, key=run["key"]):
        cell = record.cell
        say(f"\n{_named(cell)}: {cell['verdict']} ({cell['decision']})")
        say(f"  {cell['headline']}")
        say(
            f"  model revision {cell['model_revision']}, benchmark {cell['benchmark_revision']}, n {cell['n']}"
        )
        for name, (estimate, low, high) in sorted(record.indicators.items()):
            print(f"  {name:12} {with_interval(estimate, low, high)}")
        for name, value in sorted(cell["comparable"].items()):
            if value:
                say(f"  {name:12} {value}")


def trends(args: Namespace, now: datetime) -> None:
    """Print each indicator for every version of a model, with a test of change between versions.

    With --floor, the median and range over all current models are printed instead.

    Parameters
    ----------
    args : Namespace
        Parsed command-line arguments.
    now : datetime
        Current time.

    Raises
    ------
    ConfigError
        If options contradict each other, or no registered run has the indicator.
    """
    if args.floor and (args.model or args.chart):
        raise ConfigError(
            "--floor prints the level of all models and has no chart. Leave out --model and "
            "--chart."
        )
    registry = opened(args)
    if args.floor:
        levels = floors_of(
            store.cell_records(registry, benchmark=args.benchmark, audit=args.audit), args.indicator
        )
        if args.json:
            _print_json([asdict(floor) for floor in levels])
            return
        for floor in levels:
            (low, lowest), (high, highest) = floor.models[0], floor.models[-1]
            say(
                f"{floor.indicator} on {_where(floor)}: median {_level(floor, floor.median)} of {len(floor.models)} "
                f"models, from {_level(floor, low)} ({lowest}) to {_level(floor, high)} ({highest})"
            )
        return
    records = store.cell_records(
        registry, model=args.model, benchmark=args.benchmark, audit=args.audit
    )
    every_series = series_of(records, args.indicator, together=len(args.model) > 1)
    if args.chart is not None:
        if not every_series:
            raise ConfigError("No registered run has this indicator, so nothing can be drawn.")
        levels = floors_of(store.cell_records(registry, benchmark=args.benchmark), args.indicator)
        write_file(args.chart, trend_svg(every_series, levels).encode())
    if args.json:
        _print_json([asdict(series) for series in every_series])
        return
    for series in every_series:
        say(f"{series.indicator} of {series.model} on {_where(series)} ({series.audit})")
        for point in series.points:
            say(f"  {point.started[:10]}  {point.revision[:20]:<20} {_described(series, point)}")
    if args.chart is not None:
        print(f"chart    {args.chart}")


def _version(point: Point) -> str:
    return f"{plain(point.revision.removeprefix('sha256:'), 12)}\n{point.started[:10]}"


def _where(series: Series | Floor) -> str:
    return f"{series.benchmark}, {series.context}" if series.context else series.benchmark


def _level(series: Series | Floor, share: float) -> str:
    """Format the value of an indicator.

    A score is formatted as a percentage, any other indicator as a signed difference.
    """
    return percent(share) if series.indicator == "score" else signed_points(share)


def _described(series: Series, point: Point) -> str:
    text = with_interval(point.estimate, point.low, point.high)
    if series.indicator == "score":
        known = point.low is not None and point.high is not None
        text = percent(point.estimate) + (
            f" [{percent(point.low)}, {percent(point.high)}]" if known else ""
        )
    look = point.look
    if not point.sound:
        text += "  a check of the measurement failed: not tested"
    if point.differs:
        text += f"  not comparable with the version before: {', '.join(point.differs)}"
    if look is not None:
        verb = ""
        if look.changed:
            verb = "  CHANGED: rose" if look.difference > 0 else "  CHANGED: fell"
        text += f"  {signed_points(look.difference)} against before, {pvalue(look.adjusted)} (look {look.look}){verb}"
    return text


def opened(args: Namespace, *, make: bool = False) -> Registry:
    """Open the registry that the arguments or the environment name.

    Parameters
    ----------
    args : Namespace
        Parsed command-line arguments.
    make : bool
        True creates the registry if it does not exist.

    Returns
    -------
    Registry
        The open registry database.

    Raises
    ------
    ConfigError
        If no registry is named, or if the named registry does not exist.
    """
    place = place_of(args.registry)
    if place is None:
        raise ConfigError(
            f"No registry is named. Expected --registry outputs/registry.db, or {VARIABLE}."
        )
    return open_registry(place, make=make)


def _print_json(value: Any) -> None:
    print(json.dumps(as_plain(value), indent=1, default=str))


def _named(cell: Mapping[str, Any]) -> str:
    return f"{cell['model']} on {cell['benchmark']}" + (
        f", {cell['context']}" if cell["context"] else ""
    )


_NEWS = timedelta(days=7)


def add(args: Namespace, now: datetime) -> int:
    """Register every given run, and every run in a given folder.

    Parameters
    ----------
    args : Namespace
        Parsed command-line arguments.
    now : datetime
        Time of registration.

    Returns
    -------
    int
        The exit code: 1 if a run was refused, else 0. The reason for a refusal is printed.

    Raises
    ------
    ConfigError
        If a path holds no run.
    RegistryError
        If the database does not answer.
    """
    runs, decided, refused = [], [], 0
    for path in args.paths:
        below = (
            [path]
            if (path / MANIFEST).is_file()
            else sorted(p.parent for p in path.glob(f"**/{MANIFEST}"))
        )
        # The folder of a removed run still holds the decisions on the run. These decisions cannot
        # be registered, since the run's verdict was removed.
        folders = [decisions.parent for decisions in path.glob(f"**/{DECISIONS}")]
        noted = sorted(folder for folder in folders if verdict_path(folder).is_file())
        decided += [(_noted, folder) for folder in noted]
        if not below:
            raise ConfigError(
                f"{path} holds no run.{nearest(path)} Expected run directories, or a folder of them. Example: outputs"
            )
        runs += [(_added, run_dir) for run_dir in below]
    registry = opened(args, make=True)
    for register, folder in (*runs, *decided):
        try:
            say(register(registry, folder, now))
        except RegistryError:
            raise
        except AuditError as error:
            # Most error messages contain the folder already.
            where = "" if str(folder) in str(error) else f"{folder}: "
            say(f"refused  {where}{error}", file=sys.stderr)
            refused = 1
    return refused


def _added(registry: Registry, run_dir: Path, now: datetime) -> str:
    entry = read_entry(run_dir)
    # If a run ended long ago, it is registered, but people are not notified.
    fresh = entry.ended > at(now - _NEWS)
    notice = (
        finish.notice_of(entry.ruling, entry.key, entry.run_dir, entry.notify) if fresh else None
    )
    new = store.add(registry, entry, now, notice)
    return f"{'added' if new else 'known':8} {entry.key[:12]}  {run_dir}"


def _noted(registry: Registry, folder: Path, now: datetime) -> str:
    return f"noted    {note_decisions(registry, folder, _bound(folder), now)} decisions  {folder}"


def hold(args: Namespace, now: datetime) -> None:
    """Put a run on legal hold, so that it is not removed after its retention time.

    Parameters
    ----------
    args : Namespace
        Parsed command-line arguments.
    now : datetime
        Current time.
    """
    reason = _reason(args, "A hold")
    key = store.find(registry := opened(args), args.key)["key"]
    store.set_hold(registry, key, reason)
    print(f"held     {key[:12]}")


def release(args: Namespace, now: datetime) -> None:
    """Release a run from its legal hold.

    Parameters
    ----------
    args : Namespace
        Parsed command-line arguments.
    now : datetime
        Current time.

    Raises
    ------
    ConfigError
        If the run is not on hold.
    """
    registry = opened(args)
    run = store.find(registry, args.key)
    if run["hold"] is None:
        raise ConfigError(f"{run['key'][:12]} is not on hold.")
    store.set_hold(registry, run["key"], None)
    print(f"released {run['key'][:12]}")


def forget(args: Namespace, now: datetime) -> None:
    """Delete the registered decisions on a run, and notify people.

    The files of these decisions must have been moved out of the run's folder before.
    """
    registry = opened(args)
    reason = _reason(args, "To forget decisions")
    number = forget_decisions(registry, args.run_dir, _bound(args.run_dir), reason, now)
    print(f"forgot   {number} decisions")
    finish.send_waiting(registry, now)


def _reason(args: Namespace, subject: str) -> str:
    if reason := str(args.reason).strip():
        return reason
    raise ConfigError(f"{subject} needs a reason: --reason '...'")


def _bound(run_dir: Path) -> Bound:
    ruling = rule_run(run_dir)
    if ruling.problem:
        raise ConfigError(ruling.problem)
    return bound_to(run_dir, ruling)


def expire(args: Namespace, now: datetime) -> int:
    """Print the results that are older than their retention time.

    With --confirm, these results are removed.

    Parameters
    ----------
    args : Namespace
        Parsed command-line arguments.
    now : datetime
        Time of the removal.

    Returns
    -------
    int
        The exit code: 1 if a result could not be removed; else 0.
    """
    registry = opened(args)
    if args.dry_run:
        past = retention.past_retention(registry, now)
        for run, age_days, stays in past:
            action = f"stays: {stays}" if stays else "goes"
            say(
                f"{run['key'][:12]}  {age_days} days, kept {run['retention_days']}  {run['run_dir']}  {action}"
            )
        going = sum(not result.stays for result in past)
        print(f"{going} of {len(past)} runs past their retention would be removed")
        if going:
            print(f"To remove them: audit registry expire --confirm {retention.token_of(past)}")
        return 0
    failed = 0
    for result, problem in retention.expire(registry, args.confirm, now):
        say(
            f"{'failed' if problem else 'removed':8} {result.run['key'][:12]}  {problem or result.run['run_dir']}"
        )
        failed += bool(problem)
    finish.send_waiting(registry, now)
    return 1 if failed else 0


def due(args: Namespace, now: datetime) -> None:
    """Print whether benchmarks and libraries are due for replacement.

    Only suites with the setting rotate_every are considered.

    Parameters
    ----------
    args : Namespace
        Parsed command-line arguments.
    now : datetime
        Current time.
    """
    rotating = rotation(opened(args), now)
    if args.json:
        names = ("kind", "name", "since", "due")
        _print_json([dict(zip(names, row, strict=True)) for row in rotating])
        return
    for kind, name, since, is_due in rotating:
        say(f"{'due' if is_due else 'in time':8} {kind} {name}: since {since}")
        if is_due and kind == "benchmark":
            say(f"         audit registry draw {name} --n 200 --out {name}.jsonl")
    print(f"{sum(is_due for *_, is_due in rotating)} of {len(rotating)} due")


def draw(args: Namespace, now: datetime) -> None:
    """Draw this quarter's held-out sample, and write it to a file.

    The options with which a run uses the file are printed.

    Parameters
    ----------
    args : Namespace
        Parsed command-line arguments.
    now : datetime
        Current time.
    """
    sample = drawn(opened(args), args.benchmark, args.n, now)
    write_file(args.out, as_file(sample))
    name = f"{sample.name}_{sample.period.replace('-', '_')}"
    drew = "drawn" if sample.new else "as before"
    print(f"{drew:8} {len(sample.questions)} questions of {sample.name} for {sample.period}")
    print(f"         {sample.left} questions remain that were never asked")
    print(
        f"Ask them: benchmark=mcq_file benchmark.path={args.out} benchmark.name={name} benchmark.id_column=id "
        "benchmark.answer_as=index benchmark.group_column=group"
    )


def notify(args: Namespace, now: datetime) -> int:
    """Write notices about decisions that expire, and send all waiting notices.

    Parameters
    ----------
    args : Namespace
        Parsed command-line arguments.
    now : datetime
        Time of sending.

    Returns
    -------
    int
        The exit code: 1 if a notice could not be sent or a decision could not be read; else 0.

    Raises
    ------
    ConfigError
        If no address is configured.
    """
    registry = opened(args)
    problems = []
    registry.read(lambda db: check_clock(db, now))
    if args.keys is not None:
        problems = expiring(registry, load_trusted(args.keys), now, args.days)
    for problem in problems:
        say(f"refused  {problem}", file=sys.stderr)
    if not addresses():
        raise ConfigError(f"{waiting(registry)} messages wait, but {TO} names no address.")
    unsent = finish.send_waiting(registry, now)
    print(f"{waiting(registry)} messages wait")
    return 1 if unsent or problems else 0


def card(args: Namespace, now: datetime) -> None:
    """Write the files for a model's repository, and with --push upload them.

    Parameters
    ----------
    args : Namespace
        Parsed command-line arguments.
    now : datetime
        Current time.
    """
    for run_dir in panel_runs(args.run_dir) or [args.run_dir]:
        for path in write_card(run_dir, args.out, args.dataset, args.model):
            print(f"written  {path}")
    if args.push:
        print(f"pushed   {push_card(args.out, args.push)}")


def mlflow(args: Namespace, now: datetime) -> None:
    """Tag a model version in MLflow with the result.

    Parameters
    ----------
    args : Namespace
        Parsed command-line arguments.
    now : datetime
        Current time.
    """
    for run_dir in panel_runs(args.run_dir) or [args.run_dir]:
        for line in tag_mlflow(run_dir, args.name, args.version, args.model):
            say(line)


def wandb(args: Namespace, now: datetime) -> None:
    """Log the result to W&B.

    Parameters
    ----------
    args : Namespace
        Parsed command-line arguments.
    now : datetime
        Current time.
    """
    for run_dir in panel_runs(args.run_dir) or [args.run_dir]:
        say(log_wandb(run_dir, args.project))
