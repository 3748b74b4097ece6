"""People's decisions on a run: `python -m audit.review list|show|approve|reject|override|serve|keygen`.

Exit codes: 0 done; 1 refused, or what is there does not hold; 2 wrong usage. What follows for the run: `audit.gate`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from securesystemslib.signer import Signer

from audit.errors import AuditError, ConfigError, RegistryError
from audit.exits import run_command
from audit.gate import REGISTRY_VARIABLE, TRUSTED_VARIABLE, home_of, rule_run, ruling_with_decisions, verdict_path
from audit.governance.decision import Decision, Ruling
from audit.governance.formats import as_text
from audit.governance.keys import KEY_VARIABLE, Trusted, create_key, load_signer, load_trusted
from audit.governance.reviews import Kind, bound_to, decide, parse_time
from audit.panel import PANEL, panel_of, panel_runs
from audit.printable import one_line
from audit.shards.manifest import MANIFEST, TOMBSTONE
from audit.shards.working_copy import local_folder

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def main(arguments: Sequence[str] | None = None, now: datetime | None = None) -> int:
    """Run one subcommand. now: the time, for who has a clock of their own."""
    asked = _parser().parse_args(arguments)
    now = now or datetime.now(UTC)
    try:
        if getattr(asked, "approvals", 1) < 1:
            raise ConfigError(f"--approvals {asked.approvals}: expected at least 1.")
        if asked.what == "keygen":
            private, public = create_key(asked.name, asked.out)
            print(f"private  {private} (yours alone: never in a repository, a run or a log)\npublic   {public}")
            return 0
        if asked.what == "list":
            return _list(asked, now)
        if asked.what == "show":
            ruling = ruling_with_decisions(asked.run_dir, asked.keys, asked.approvals, now, asked.registry)
            print(as_text(ruling), end="")
            print(f"report   {verdict_path(home_of(asked.run_dir)).with_name('report.html')}")
            if ruling.problem:
                raise ConfigError(ruling.problem)
            return 0
        if asked.what == "serve":
            return _serve(asked)
        print(f"written  {_decide(asked, now)}")
        return 0
    except AuditError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 1


def _serve(asked: argparse.Namespace) -> int:
    """The reviewers' page, until it is stopped."""
    import secrets
    import socket

    import uvicorn

    from audit.governance.serve import Reviewing, create_app

    if asked.keys is None:
        raise ConfigError(f"Expected --keys FOLDER, or {TRUSTED_VARIABLE}: whose decisions count.")
    token, at = secrets.token_urlsafe(32), f"{f'[{asked.host}]' if ':' in asked.host else asked.host}:{asked.port}"
    names = {at} | ({f"localhost:{asked.port}"} if asked.host in LOOPBACK else set())
    queue(asked.folder)  # there is one
    app = create_app(
        Reviewing(
            folder=asked.folder,
            signer=load_signer(asked.key),
            trusted=load_trusted(asked.keys),
            keys=asked.keys,
            approvals=asked.approvals,
            registry=asked.registry,
            token=token,
            hosts=frozenset(names),
        )
    )
    try:
        listening = socket.create_server(
            (asked.host, asked.port), family=socket.AF_INET6 if ":" in asked.host else socket.AF_INET
        )
    except OSError as error:
        raise ConfigError(f"{at} cannot be listened on ({error.strerror}). Choose another --port.") from error
    if asked.host not in LOOPBACK:
        print(f"note: {asked.host} is seen by other machines, and this is HTTP: put TLS before it.", file=sys.stderr)
    print(
        f"Open http://{at}/login?token={token}\nWhoever has this address decides in your name. Ctrl-C ends it.",
        flush=True,
    )
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, server_header=False))
    server.run(sockets=[listening])
    return 0


def _decide(asked: argparse.Namespace, now: datetime) -> Path:
    run_dir = home_of(asked.run_dir)
    if asked.keys is None:
        raise ConfigError(f"Expected --keys FOLDER, or {TRUSTED_VARIABLE}: whose decisions count.")
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
        registry=asked.registry,
    )


def decide_on(
    run_dir: Path,
    ruling: Ruling,
    kind: Kind,
    *,
    reason: str,
    expires: str | None,
    signer: Signer,
    trusted: Mapping[str, Trusted],
    now: datetime,
    registry: str | None,
) -> Path:
    """Sign a decision on a run, add it, and note it in the registry where there is one; the file. expires: as typed.

    Raises ConfigError where it would have no effect, SignatureError where what was decided before does not hold,
    RegistryError where the registry does not answer.
    """
    bound, until = bound_to(run_dir, verdict_path(run_dir), ruling), parse_time(expires) if expires else None
    opened = None
    if registry:
        from audit.registry.database import open_registry
        from audit.registry.decided import check_decisions, note_decisions

        opened = open_registry(registry)
        check_decisions(opened, run_dir, bound)
    path = decide(
        run_dir, ruling, bound, kind, reason=reason, expires=until, signer=signer, trusted=trusted, now=now
    )  # fmt: skip
    if opened is not None:
        try:
            note_decisions(opened, run_dir, bound, now)
        except RegistryError as error:
            raise RegistryError(
                f"{error} The decision counts ({path}), and the registry does not know of it: audit registry add "
                f"{run_dir}"
            ) from error
    return path


def queue(folder: Path) -> list[Path]:
    """Every run, panel and suite below a folder, but for what retention removed. The runs of a panel or suite are
    decided on together."""
    panels = {path.parent: panel_runs(path.parent) or [] for path in folder.glob(f"**/{PANEL}")}
    gone = {panel for panel, members in panels.items() if all((run / TOMBSTONE).is_file() for run in members)}
    together = {run.resolve() for members in panels.values() for run in members}
    alone = {path.parent for path in folder.glob(f"**/{MANIFEST}") if path.parent.resolve() not in together}
    runs = sorted({*panels, *alone} - gone)
    if not runs:
        raise ConfigError(f"No run below {folder}. Expected a folder of run directories, such as outputs.")
    return runs


def registered(place: str | None) -> list[Path]:
    """As `queue`, of every run that the registry has, wherever it lies."""
    if not place:
        raise ConfigError(f"Expected a folder, such as outputs, or the registry: --registry, or {REGISTRY_VARIABLE}.")
    from audit.registry.database import open_registry
    from audit.registry.store import all_runs

    runs = [Path(one["run_dir"]) for one in all_runs(open_registry(place, make=False)) if one["removed"] is None]
    return sorted({panel_of(run) or run for run in runs})


def _list(asked: argparse.Namespace, now: datetime) -> int:
    """What is below a folder, or in the registry, and does not pass, with what was decided."""
    waiting, runs = 0, queue(asked.folder) if asked.folder else registered(asked.registry)
    for run_dir in runs:
        ruling = ruling_with_decisions(run_dir, asked.keys, asked.approvals, now, asked.registry)
        if ruling.decision != Decision.PASS:
            waiting += 1
            print(one_line(f"{ruling.decision!s:12} {run_dir}  {ruling.problem}"))
            for said in ruling.said:
                print(one_line(f"{'':12} {said}"))
    print(f"{waiting} of {len(runs)} runs do not pass")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m audit.review", description="Decide about a run, and sign it.")
    commands = parser.add_subparsers(dest="what", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    default = os.environ.get(TRUSTED_VARIABLE)
    shared.add_argument(
        "--keys", type=Path, default=Path(default) if default else None,
        help=f"folder of the trusted public keys (default: {TRUSTED_VARIABLE})",
    )  # fmt: skip
    shared.add_argument(
        "--approvals", type=int, default=1, help="people that are needed (default: what the suite says, else 1)"
    )
    shared.add_argument(
        "--registry", default=os.environ.get(REGISTRY_VARIABLE),
        help=f"it notes decisions, so that none is deleted unseen (default: {REGISTRY_VARIABLE})",
    )  # fmt: skip
    listed = commands.add_parser(
        "list", parents=[shared], help="the runs below a folder, or in the registry, that do not pass"
    )
    listed.add_argument(
        "folder", type=local_folder, nargs="?", help="such as outputs (default: every run that the registry has)"
    )
    shown = commands.add_parser("show", parents=[shared], help="a run's verdict, and what was decided")
    shown.add_argument("run_dir", type=local_folder)
    for kind, text in (
        (Kind.APPROVE, "let a run pass that asks for review"),
        (Kind.REJECT, "block a run"),
        (Kind.OVERRIDE, "let a run pass that was blocked, or on which nothing could be decided"),
    ):
        one = commands.add_parser(str(kind), parents=[shared], help=text)
        one.add_argument("run_dir", type=local_folder)
        one.add_argument("--reason", required=True)
        one.add_argument("--expires", help="a day or a time, such as 2027-01-31", required=kind != Kind.REJECT)
        one.add_argument("--key", type=Path, help=f"your private key (default: {KEY_VARIABLE})")
    served = commands.add_parser("serve", parents=[shared], help="a page to review and decide on, on this machine")
    served.add_argument("folder", type=local_folder)
    served.add_argument("--key", type=Path, help=f"your private key (default: {KEY_VARIABLE})")
    served.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1, which no other machine reaches")
    served.add_argument("--port", type=int, default=8790)
    made = commands.add_parser("keygen", help="make a pair of keys")
    made.add_argument("name", help="whose, such as alice; alice.2027 for a further key of hers")
    made.add_argument("--out", type=Path, required=True)
    return parser


if __name__ == "__main__":
    run_command(main)
