"""What `audit.registry` does; each subcommand prints lines and returns an exit code. What it only shows: views."""

import argparse
import sys
from datetime import datetime, timedelta
from pathlib import Path

from audit.errors import AuditError, ConfigError
from audit.exits import say
from audit.governance.keys import load_trusted
from audit.governance.reviews import DECISIONS, Bound, bound_to
from audit.governance.ruling import rule_run, verdict_path
from audit.panel import panel_runs
from audit.registry import finish, store
from audit.registry.database import check_clock, utc_now
from audit.registry.decided import forget_decisions, note_decisions
from audit.registry.entry import read_entry
from audit.registry.schema import at
from audit.registry.views import opened
from audit.shards.manifest import MANIFEST

_NEWS = timedelta(days=7)


def add(asked: argparse.Namespace, now: datetime | None) -> int:
    """Register every run given or found below a folder; those that cannot be are named, and the code is 1."""
    registry, found, decided, refused = opened(asked, make=True), [], [], 0
    for path in asked.paths:
        below = [path] if (path / MANIFEST).is_file() else sorted(p.parent for p in path.glob(f"**/{MANIFEST}"))
        # Of what retention removed the decisions stay, and nothing to note them of.
        decided += sorted(p.parent for p in path.glob(f"**/{DECISIONS}") if verdict_path(p.parent).is_file())
        if not below:
            raise ConfigError(f"No run in {path}. Expected run directories, or a folder of them, such as outputs.")
        found += below
    for run_dir in found:
        try:
            entry = read_entry(run_dir)
        except AuditError as error:
            _say_refused(run_dir, error)
            refused += 1
            continue
        fresh = entry.ended > at((now or utc_now()) - _NEWS)  # nobody is told of the runs of an archive
        notice = finish.notice_of(entry.ruling, entry.key, entry.run_dir, entry.notify) if fresh else None
        new = store.add(registry, entry, now or utc_now(), notice)
        say(f"{'added' if new else 'there':8} {entry.key[:12]}  {run_dir}")
    for folder in decided:
        try:
            number = note_decisions(registry, folder, _bound(folder), now or utc_now())
            say(f"noted    {number} decisions  {folder}")
        except AuditError as error:
            _say_refused(folder, error)
            refused += 1
    return 1 if refused else 0


def _say_refused(folder: Path, error: Exception) -> None:
    """The folder is named once: most errors do so themselves."""
    where = "" if str(folder) in str(error) else f"{folder}: "
    say(f"refused  {where}{error}", file=sys.stderr)


def hold(asked: argparse.Namespace, now: datetime | None) -> int:
    reason = asked.reason.strip()
    if not reason:
        raise ConfigError("A hold needs a reason: --reason '...'")
    registry = opened(asked)
    key = store.find(registry, asked.key)["key"]
    store.set_hold(registry, key, reason)
    print(f"held     {key[:12]}")
    return 0


def release(asked: argparse.Namespace, now: datetime | None) -> int:
    registry = opened(asked)
    run = store.find(registry, asked.key)
    if run["hold"] is None:
        raise ConfigError(f"{run['key'][:12]} is not on hold.")
    store.set_hold(registry, run["key"], None)
    print(f"released {run['key'][:12]}")
    return 0


def forget(asked: argparse.Namespace, now: datetime | None) -> int:
    """Begin anew with the decisions on a run whose decisions were moved away; people are told."""
    reason = asked.reason.strip()
    if not reason:
        raise ConfigError("To forget decisions needs a reason: --reason '...'")
    registry, when = opened(asked), now or utc_now()
    number = forget_decisions(registry, asked.run_dir, _bound(asked.run_dir), reason, when)
    print(f"forgot   {number} decisions")
    finish.send_waiting(registry, when)
    return 0


def _bound(run_dir: Path) -> Bound:
    ruling = rule_run(run_dir)
    if ruling.problem:
        raise ConfigError(ruling.problem)
    return bound_to(run_dir, verdict_path(run_dir), ruling)


def expire(asked: argparse.Namespace, now: datetime | None) -> int:
    """Say what would go, or remove it; 1 where something could not be removed."""
    from audit.registry import retention

    registry, when = opened(asked), now or utc_now()
    if asked.dry_run:
        past = retention.past_retention(registry, when)
        for one in past:
            say(one.line)
        going = sum(not one.stays for one in past)
        print(f"{going} of {len(past)} past their retention would go")
        if going:
            print(f"To remove them: python -m audit.registry expire --confirm {retention.token_of(past)}")
        return 0
    failed = 0
    for one, problem in retention.expire(registry, asked.confirm, when):
        say(f"{'failed' if problem else 'removed':8} {one.run['key'][:12]}  {problem or one.run['run_dir']}")
        failed += bool(problem)
    finish.send_waiting(registry, when)
    return 1 if failed else 0


def due(asked: argparse.Namespace, now: datetime | None) -> int:
    """What a suite with rotate_every uses longer than its period."""
    from audit.registry.rotation import rotation

    found = rotation(opened(asked), now or utc_now())
    for one in found:
        say(f"{'due' if one.due else 'in time':8} {one.kind} {one.name}: since {one.since}")
        if one.due and one.kind == "benchmark":
            say(f"         python -m audit.registry draw {one.name} --n 200 --out {one.name}.jsonl")
    print(f"{sum(one.due for one in found)} of {len(found)} due")
    return 0


def draw(asked: argparse.Namespace, now: datetime | None) -> int:
    """Draw and write this period's sample, with what to type to run it."""
    from audit.registry.rotation import as_file
    from audit.registry.rotation import draw as drawn
    from audit.shards.files import write_file

    found = drawn(opened(asked), asked.benchmark, asked.n, now or utc_now())
    write_file(asked.out, as_file(found))
    name = f"{found.name}_{found.period.replace('-', '_')}"
    print(
        f"{'drawn' if found.new else 'as before':8} {len(found.questions)} questions of {found.name} for {found.period}"
    )
    print(f"         {found.left} never asked are left")
    print(
        f"Ask them: benchmark=mcq_file benchmark.path={asked.out} benchmark.name={name} benchmark.id_column=id "
        "benchmark.answer_as=index benchmark.group_column=group"
    )
    return 0


def notify(asked: argparse.Namespace, now: datetime | None) -> int:
    """Write what expires, send what waits; 1 where something could not be sent or read."""
    from audit.registry.notify import VARIABLE as TO
    from audit.registry.notify import addresses, expiring, waiting

    registry, when, problems = opened(asked), now or utc_now(), []
    registry.read(lambda connection: check_clock(connection, when))
    if asked.keys is not None:
        problems = expiring(registry, load_trusted(asked.keys), when, asked.days)
    for problem in problems:
        say(f"refused  {problem}", file=sys.stderr)
    if not addresses():
        raise ConfigError(f"{waiting(registry)} messages wait, and {TO} does not say to whom.")
    unsent = finish.send_waiting(registry, when)
    print(f"{waiting(registry)} messages wait")
    return 1 if unsent or problems else 0


def card(asked: argparse.Namespace, now: datetime | None) -> int:
    from audit.registry.cards import push_card, write_card

    for run_dir in panel_runs(asked.run_dir) or [asked.run_dir]:
        for path in write_card(run_dir, asked.out, asked.dataset, asked.model):
            print(f"written  {path}")
    if asked.push:
        print(f"pushed   {push_card(asked.out, asked.push)}")
    return 0


def mlflow(asked: argparse.Namespace, now: datetime | None) -> int:
    from audit.registry.model_registries import tag_mlflow

    for run_dir in panel_runs(asked.run_dir) or [asked.run_dir]:
        for line in tag_mlflow(run_dir, asked.name, asked.version, asked.model):
            say(line)
    return 0


def wandb(asked: argparse.Namespace, now: datetime | None) -> int:
    from audit.registry.model_registries import log_wandb

    for run_dir in panel_runs(asked.run_dir) or [asked.run_dir]:
        say(log_wandb(run_dir, asked.project))
    return 0
