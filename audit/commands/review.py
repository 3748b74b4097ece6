"""Decide about a run, and sign the decision.

examples: audit review list outputs; audit review approve outputs/my_run --reason 'read, page 3'
--expires 2027-01-31 --keys keys --key alice.key"""

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from audit.commands.again import add_decision_arguments, registry_check
from audit.core.errors import ConfigError
from audit.core.exits import say
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
from audit.judging.decision import Decision, Ruling
from audit.shards.panel import panel_of
from audit.shards.working_copy import local_folder

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def run(arguments: argparse.Namespace, now: datetime | None = None) -> int:
    """Run the subcommand that was typed.

    Parameters
    ----------
    arguments : Namespace
        The arguments of the command line.
    now : datetime, optional
        The time, for decisions that expire. Without it the clock is read.

    Returns
    -------
    int
        Exit code 0.

    Raises
    ------
    ConfigError
        If an option is missing or out of range, or the run has a problem.
    """
    now = now or datetime.now(UTC)
    if getattr(arguments, "approvals", 1) < 1:
        raise ConfigError(f"--approvals is {arguments.approvals}. Expected at least 1.")
    if arguments.action == "keygen":
        private, public = create_key(arguments.name, arguments.out)
        print(f"private  {private} (keep it secret: never in a repository, a run or a log)")
        print(f"public   {public}")
        return 0
    if arguments.action == "list":
        return _list(arguments, now)
    if arguments.action == "show":
        ruling = _ruling(arguments, now)
        if arguments.json:
            print(as_json(ruling), end="")
        else:
            print(as_text(ruling), end="")
            print(f"report   {verdict_path(home_of(arguments.run_dir)).with_name('report.html')}")
        if ruling.problem:
            raise ConfigError(ruling.problem)
        return 0
    if arguments.keys is None:
        raise ConfigError(
            f"--keys is missing. Expected the folder of the public keys whose decisions count. "
            f"Example: --keys keys, or {TRUSTED_VARIABLE}=keys"
        )
    if arguments.action == "serve":
        return _serve(arguments)
    print(f"written  {_decide(arguments, now)}")
    ruling = _ruling(arguments, now)
    for sentence in ruling.decided:
        say(sentence)
    print(f"decision {ruling.decision} (audit gate decides the same with the same --keys)")
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    """Serve the reviewers' page until the process is stopped."""
    import secrets
    import socket

    from audit.governance.serve import Reviewing, create_app, create_server

    token = secrets.token_urlsafe(32)
    host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    address = f"{host}:{arguments.port}"
    names = {address}
    if arguments.host in LOOPBACK:
        names.add(f"localhost:{arguments.port}")
    queue(arguments.folder)  # This raises ConfigError if the folder holds no run.
    reviewing = Reviewing(
        folder=arguments.folder,
        signer=load_signer(arguments.key),
        keys=arguments.keys,
        approvals=arguments.approvals,
        check=registry_check(arguments.registry),
        registry=_register(arguments.registry),
        token=token,
        hosts=frozenset(names),
    )
    family = socket.AF_INET6 if ":" in arguments.host else socket.AF_INET
    try:
        listening = socket.create_server((arguments.host, arguments.port), family=family)
    except OSError as error:
        raise ConfigError(
            f"Address {address} cannot be used ({error.strerror}). Expected a free port. "
            f"Example: --port {arguments.port + 1}"
        ) from error
    if arguments.host not in LOOPBACK:
        print(
            f"note: other machines can reach {arguments.host}. HTTP is not encrypted: use a TLS proxy.",
            file=sys.stderr,
        )
    print(f"Open http://{address}/login?token={token}")
    print("The link works once. Whoever opens it decides in your name. Ctrl-C ends the server.")
    sys.stdout.flush()
    create_server(create_app(reviewing)).run(sockets=[listening])
    return 0


def _decide(arguments: argparse.Namespace, now: datetime) -> Path:
    run_dir = home_of(arguments.run_dir)
    signer, trusted = load_signer(arguments.key), load_trusted(arguments.keys)
    ruling = rule_run(run_dir)
    if ruling.problem:
        raise ConfigError(ruling.problem)
    return decide_on(
        run_dir,
        ruling,
        Kind(arguments.action),
        reason=arguments.reason,
        expires=arguments.expires,
        signer=signer,
        trusted=trusted,
        now=now,
        registry=_register(arguments.registry),
    )


def _register(place: str | None) -> Register | None:
    """Return a function that records decisions in the registry, or None without a registry."""
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
    """Return the runs of the registry, in the form in which `queue` returns the runs of a folder.

    Parameters
    ----------
    place : str or None
        The file or address of the registry.

    Returns
    -------
    list[Path]
        The sorted run directories. A run of a panel is replaced by the panel.

    Raises
    ------
    ConfigError
        If no registry is named.
    """
    if not place:
        raise ConfigError(
            "The folder is missing. Expected a folder of runs, or a registry (--registry or "
            f"{REGISTRY_VARIABLE}). Example: audit review list outputs"
        )
    from audit.registry.database import open_registry
    from audit.registry.store import all_runs

    run_dirs = set()
    for row in all_runs(open_registry(place, make=False)):
        if row["removed"] is None:
            run_dir = Path(row["run_dir"])
            run_dirs.add(panel_of(run_dir) or run_dir)
    return sorted(run_dirs)


def _ruling(arguments: argparse.Namespace, now: datetime) -> Ruling:
    """Return the ruling on the named run, with the decisions of trusted people."""
    check = registry_check(arguments.registry)
    return ruling_with_decisions(arguments.run_dir, arguments.keys, arguments.approvals, now, check)


def _list(arguments: argparse.Namespace, now: datetime) -> int:
    """Print the runs without the decision "pass" in a folder or registry, each with its
    decision."""
    runs = queue(arguments.folder) if arguments.folder else registered(arguments.registry)
    check = registry_check(arguments.registry)
    rulings = {
        run_dir: ruling_with_decisions(run_dir, arguments.keys, arguments.approvals, now, check)
        for run_dir in runs
    }
    if arguments.json:
        listed = []
        for run_dir, ruling in rulings.items():
            listed.append(json.loads(as_json(ruling)) | {"run_dir": str(run_dir)})
        print(json.dumps(listed, indent=1))
        return 0
    waiting = 0
    for run_dir, ruling in rulings.items():
        if ruling.decision != Decision.PASS:
            waiting += 1
            say(f"{ruling.decision!s:12} {run_dir}  {ruling.problem}")
            for sentence in ruling.decided:
                say(f"{'':12} {sentence}")
    print(f"{waiting} of {len(runs)} runs do not pass")
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare a subcommand for each kind of decision, and the subcommands list, show and serve."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="COMMAND")
    shared = argparse.ArgumentParser(add_help=False)
    add_decision_arguments(shared)
    text = "list the runs of a folder, or of the registry, that do not pass"
    add = commands.add_parser("list", parents=[shared], help=text).add_argument
    folder = "a folder of runs, such as outputs (default: every run of the registry)"
    add("folder", type=local_folder, metavar="FOLDER", nargs="?", help=folder)
    add("--json", action="store_true", help="print every run with its ruling, as JSON")
    text = "print a run's verdict and the decisions on it"
    add = commands.add_parser("show", parents=[shared], help=text).add_argument
    add("run_dir", type=local_folder, metavar="RUN_DIR")
    add("--json", action="store_true", help="print the ruling as JSON")
    for kind, text in (
        (Kind.APPROVE, "let a run pass that needs a review"),
        (Kind.REJECT, "block a run"),
        (Kind.OVERRIDE, "let a run pass that is blocked or has no decision"),
    ):
        add = commands.add_parser(str(kind), parents=[shared], help=text).add_argument
        add("run_dir", type=local_folder, metavar="RUN_DIR")
        add("--reason", required=True)
        add("--expires", help="a day or a time, such as 2027-01-31", required=kind != Kind.REJECT)
        add("--key", type=Path, help=f"your private key (default: {KEY_VARIABLE})")
    text = "serve a page on this machine, to review runs and to decide"
    add = commands.add_parser("serve", parents=[shared], help=text).add_argument
    add("folder", type=local_folder, metavar="FOLDER")
    add("--key", type=Path, help=f"your private key (default: {KEY_VARIABLE})")
    host = "the address to serve (default: 127.0.0.1, which other machines cannot reach)"
    add("--host", default="127.0.0.1", help=host)
    add("--port", type=int, default=8790)
    add = commands.add_parser("keygen", help="make a pair of keys").add_argument
    add("name", help="the owner, such as alice; alice.2027 for a second key of alice")
    add("--out", type=Path, required=True, help="the folder to write")
