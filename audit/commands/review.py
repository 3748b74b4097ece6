"""Decide about a run, and sign it.

examples: audit review list outputs; audit review approve outputs/my_run --reason 'read, page 3'
--expires 2027-01-31 --keys keys --key alice.key"""

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from audit.commands.again import add_deciders, known_to
from audit.core.errors import ConfigError
from audit.core.exits import one_line, say
from audit.governance.formats import as_json, as_text
from audit.governance.keys import KEY_VARIABLE, create_key, load_signer, load_trusted
from audit.governance.reviews import Bound, Kind
from audit.governance.ruling import (
    REGISTRY_VARIABLE,
    TRUSTED_VARIABLE,
    Register,
    decide_on,
    home_of,
    queue,
    rule_run,
    ruling_with_decisions,
    verdict_path,
)
from audit.judging.decision import Decision
from audit.shards.panel import panel_of
from audit.shards.working_copy import local_folder

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def run(asked: argparse.Namespace, now: datetime | None = None) -> int:
    """Run one subcommand. now: the time, for who has a clock of their own."""
    now = now or datetime.now(UTC)
    if getattr(asked, "approvals", 1) < 1:
        raise ConfigError(f"--approvals {asked.approvals}: expected at least 1.")
    if asked.what == "keygen":
        private, public = create_key(asked.name, asked.out)
        print(
            f"private  {private} (yours alone: never in a repository, a run or a log)\npublic   {public}"
        )
        return 0
    if asked.what == "list":
        return _list(asked, now)
    if asked.what == "show":
        ruling = ruling_with_decisions(
            asked.run_dir, asked.keys, asked.approvals, now, known_to(asked.registry)
        )
        if asked.json:
            print(as_json(ruling), end="")
        else:
            print(as_text(ruling), end="")
            print(f"report   {verdict_path(home_of(asked.run_dir)).with_name('report.html')}")
        if ruling.problem:
            raise ConfigError(ruling.problem)
        return 0
    if asked.keys is None:
        raise ConfigError(f"Expected --keys FOLDER, or {TRUSTED_VARIABLE}: whose decisions count.")
    if asked.what == "serve":
        return _serve(asked)
    print(f"written  {_decide(asked, now)}")
    ruling = ruling_with_decisions(
        asked.run_dir, asked.keys, asked.approvals, now, known_to(asked.registry)
    )
    print(
        *map(one_line, ruling.decided),
        f"{ruling.decision}: audit gate says so with the same --keys",
        sep="\n",
    )
    return 0


def _serve(asked: argparse.Namespace) -> int:
    """The reviewers' page, until it is stopped."""
    import secrets
    import socket

    from audit.governance.serve import Reviewing, create_app, create_server

    token = secrets.token_urlsafe(32)
    at = f"{f'[{asked.host}]' if ':' in asked.host else asked.host}:{asked.port}"
    names = {at} | ({f"localhost:{asked.port}"} if asked.host in LOOPBACK else set())
    queue(asked.folder)  # This raises ConfigError if the folder holds no run.
    reviewing = Reviewing(
        folder=asked.folder,
        signer=load_signer(asked.key),
        keys=asked.keys,
        approvals=asked.approvals,
        check=known_to(asked.registry),
        registry=_register(asked.registry),
        token=token,
        hosts=frozenset(names),
    )
    family = socket.AF_INET6 if ":" in asked.host else socket.AF_INET
    try:
        listening = socket.create_server((asked.host, asked.port), family=family)
    except OSError as error:
        raise ConfigError(
            f"{at} cannot be listened on ({error.strerror}). Choose another --port."
        ) from error
    if asked.host not in LOOPBACK:
        print(
            f"note: {asked.host} is seen by other machines, and this is HTTP: put TLS before it.",
            file=sys.stderr,
        )
    once = "It opens once; who opens it decides in your name. Ctrl-C ends it."
    print(f"Open http://{at}/login?token={token}\n{once}", flush=True)
    create_server(create_app(reviewing)).run(sockets=[listening])
    return 0


def _decide(asked: argparse.Namespace, now: datetime) -> Path:
    run_dir = home_of(asked.run_dir)
    signer, trusted = load_signer(asked.key), load_trusted(asked.keys)
    ruling = rule_run(run_dir)
    if ruling.problem:
        raise ConfigError(ruling.problem)
    return decide_on(
        run_dir,
        ruling,
        Kind(asked.what),
        reason=asked.reason,
        expires=asked.expires,
        signer=signer,
        trusted=trusted,
        now=now,
        registry=_register(asked.registry),
    )


def _register(place: str | None) -> Register | None:
    """The registry that notes decisions; None where none is named."""
    if not place:
        return None
    from audit.registry.database import open_registry
    from audit.registry.store import check_decisions, note_decisions

    def register(run_dir: Path, bound: Bound, now: datetime | None) -> None:
        registry = open_registry(place)
        if now is None:
            check_decisions(registry, run_dir, bound)
        else:
            note_decisions(registry, run_dir, bound, now)

    return register


def registered(place: str | None) -> list[Path]:
    """As `queue`, of every run that the registry has, wherever it lies."""
    if not place:
        raise ConfigError(
            f"Expected a folder, such as outputs, or the registry: --registry, or {REGISTRY_VARIABLE}."
        )
    from audit.registry.database import open_registry
    from audit.registry.store import all_runs

    runs = [
        Path(one["run_dir"])
        for one in all_runs(open_registry(place, make=False))
        if one["removed"] is None
    ]
    return sorted({panel_of(run) or run for run in runs})


def _list(asked: argparse.Namespace, now: datetime) -> int:
    """What is below a folder, or in the registry, and does not pass, with what was decided."""
    waiting, runs = 0, queue(asked.folder) if asked.folder else registered(asked.registry)
    rulings = {
        run_dir: ruling_with_decisions(
            run_dir, asked.keys, asked.approvals, now, known_to(asked.registry)
        )
        for run_dir in runs
    }
    if asked.json:
        print(
            json.dumps(
                [json.loads(as_json(one)) | {"run_dir": str(at)} for at, one in rulings.items()],
                indent=1,
            )
        )
        return 0
    for run_dir, ruling in rulings.items():
        if ruling.decision != Decision.PASS:
            waiting += 1
            say(f"{ruling.decision!s:12} {run_dir}  {ruling.problem}")
            for sentence in ruling.decided:
                say(f"{'':12} {sentence}")
    print(f"{waiting} of {len(runs)} runs do not pass")
    return 0


def add_words(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")
    shared = argparse.ArgumentParser(add_help=False)
    add_deciders(shared)
    what = "the runs below a folder, or in the registry, that do not pass"
    add = commands.add_parser("list", parents=[shared], help=what).add_argument
    where = "such as outputs (default: every run that the registry has)"
    add("folder", type=local_folder, metavar="FOLDER", nargs="?", help=where)
    add("--json", action="store_true", help="every run, with its ruling")
    add = commands.add_parser(
        "show", parents=[shared], help="a run's verdict, and what was decided"
    ).add_argument
    add("run_dir", type=local_folder, metavar="RUN_DIR")
    add("--json", action="store_true", help="the ruling")
    for kind, text in (
        (Kind.APPROVE, "let a run pass that asks for review"),
        (Kind.REJECT, "block a run"),
        (Kind.OVERRIDE, "let a run pass that was blocked, or on which nothing could be decided"),
    ):
        add = commands.add_parser(str(kind), parents=[shared], help=text).add_argument
        add("run_dir", type=local_folder, metavar="RUN_DIR")
        add("--reason", required=True)
        add("--expires", help="a day or a time, such as 2027-01-31", required=kind != Kind.REJECT)
        add("--key", type=Path, help=f"your private key (default: {KEY_VARIABLE})")
    what = "a page to review and decide on, on this machine"
    add = commands.add_parser("serve", parents=[shared], help=what).add_argument
    add("folder", type=local_folder, metavar="FOLDER")
    add("--key", type=Path, help=f"your private key (default: {KEY_VARIABLE})")
    add("--host", default="127.0.0.1", help="default: 127.0.0.1, which no other machine reaches")
    add("--port", type=int, default=8790)
    add = commands.add_parser("keygen", help="make a pair of keys").add_argument
    add("name", help="whose, such as alice; alice.2027 for a further key of hers")
    add("--out", type=Path, required=True)
