"""Send messages to people, by mail, chat or webhook, through apprise.

The addresses are secret. They are stored only in the environment variable AUDIT_NOTIFY, and are
never printed.

If a message cannot be sent, the failure is reported. The message stays in the registry, and is sent
together with the next message. So every message arrives at least once. A message can arrive twice
if the process died between sending the message and recording that it was sent.
"""

import logging
import os
import threading
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from sqlalchemy import Connection, or_, select, update

from audit.core.errors import AuditError, ConfigError
from audit.core.exits import one_line
from audit.governance.keys import Keys
from audit.governance.reviews import at, chain_of, decision_files
from audit.governance.ruling import bound_to, rule_run
from audit.registry.database import Registry
from audit.registry.schema import notices
from audit.registry.store import Notice, all_runs, write_notice
from audit.shards.panel import panel_of

VARIABLE = "AUDIT_NOTIFY"
_TRIES = 3
_WAIT_S = 0.5  # seconds to wait before the second try; the wait doubles before each further try
_GIVE_UP_S = 15.0  # time limit of one try; apprise limits only the time of each read
# If a process began to send a message longer ago than this, it must be dead, and another process
# sends the message.
_CLAIM = timedelta(minutes=5)


def addresses() -> list[str]:
    """Return the addresses in AUDIT_NOTIFY, which are separated by spaces.

    Returns
    -------
    list of str
        The addresses; empty if AUDIT_NOTIFY is not set.

    Raises
    ------
    ConfigError
        If apprise cannot read an address. The message states only the position of the address,
        since the address may contain a password.
    """
    listed = os.environ.get(VARIABLE, "").split()
    for place, address in enumerate(listed, 1):
        if _target(address) is None:
            raise ConfigError(
                f"apprise cannot read address {place} of {len(listed)} in {VARIABLE} (the address "
                "is not shown, since it may hold a password). "
                "Expected addresses separated by spaces. Example: "
                "mailtos://user:password@mail.example.org?to=team@example.org slack://token_a/token_b/token_c"
            )
    return listed


def unreached(to: Sequence[str], people: Sequence[str]) -> str:
    """Return the reason why the people named by a suite cannot be notified.

    The reason is "" if all can be notified, or if the suite names no people.
    """
    if people and not any(map(_is_mail, to)):
        return (
            f"The people whom the suite names ({len(people)}) are not notified: "
            f"{VARIABLE} has no mail server (mailtos://...)"
        )
    return ""


def send(notice: Notice, to: Sequence[str]) -> str:
    """Send a notice to every address, with three tries for each address.

    Parameters
    ----------
    notice : Notice
        The message. The first mail server among the addresses also sends it to the recipients that
        the notice names.
    to : sequence of str
        Addresses in the notation of apprise.

    Returns
    -------
    str
        Description of the failures, without addresses; "" if the notice was sent to all addresses.
    """
    servers = list(filter(_is_mail, to))
    # The mail server, login and sender of the address are used, but with the recipients of the
    # notice.
    if notice.to and servers:
        parts = urlsplit(servers[0])
        parameters = []
        for pair in parse_qsl(parts.query, True):
            if pair[0] not in ("to", "cc", "bcc"):
                parameters.append(pair)
        query = urlencode([*parameters, ("to", ",".join(notice.to))])
        to = [*to, urlunsplit(parts._replace(path="", query=query))]
    failed = []
    for place, address in enumerate(to, 1):
        problem = _send_one(notice, address)
        for k in range(_TRIES - 1):
            if problem:
                time.sleep(_WAIT_S * 2**k)
                problem = _send_one(notice, address)
        if problem:
            failed.append(f"address {place} of {len(to)} {problem}, {_TRIES} tries")
    return "; ".join(failed)


def send_waiting(registry: Registry, to: Sequence[str], now: datetime) -> list[str]:
    """Send every notice that waits in the registry, including notices of earlier runs.

    Parameters
    ----------
    registry : Registry
        The open registry database.
    to : sequence of str
        Addresses in the notation of apprise.
    now : datetime
        Time of sending.

    Returns
    -------
    list of str
        A line for each notice that could not be sent.
    """
    problems = []
    for row in registry.write(lambda db: _claimed(db, now)):
        problem = send(
            Notice(row.about, row.kind, row.title, row.body, tuple(row.recipients or ())), to
        )
        done = {"claimed": None, "problem": problem} | ({} if problem else {"sent": at(now)})
        noted = update(notices).where(notices.c.id == row.id).values(done)
        registry.write(methodcaller("execute", noted))
        if problem:
            problems.append(f"{row.title}: {problem}")
    return problems


def waiting(registry: Registry) -> int:
    """Return the number of notices that have not been sent yet."""
    return len(
        registry.read(
            lambda c: c.execute(select(notices.c.id).where(notices.c.sent.is_(None))).all()
        )
    )


def _claimed(db: Connection, now: datetime) -> list[Any]:
    free = notices.c.sent.is_(None) & or_(
        notices.c.claimed.is_(None), notices.c.claimed < at(now - _CLAIM)
    )
    query = select(notices).where(free).order_by(notices.c.id).with_for_update(skip_locked=True)
    rows = list(db.execute(query))
    claim = update(notices).where(notices.c.id.in_([row.id for row in rows]))
    db.execute(claim.values(claimed=at(now), tries=notices.c.tries + 1))
    return rows


def _is_mail(address: str) -> bool:
    return address.startswith(("mailto://", "mailtos://"))


def _target(address: str) -> Any:
    """Return an address as an object of apprise; None if apprise cannot read the address.

    apprise's log would show addresses, so it is turned off. A redirect would send the message to
    another server, so it is not followed.
    """
    import apprise

    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    target = apprise.Apprise(asset=apprise.AppriseAsset(http_redirects=False))
    return target if target.add(address) else None


def _send_one(notice: Notice, address: str) -> str:
    """Send a notice to one address, and return the reason of a failure; "" after a success.

    This function runs in a thread with a time limit, since a slow server may send only one byte per
    minute.
    """
    import apprise

    outcome: list[str] = []
    # apprise loads a hundred plugins. The loading time must not count towards the time limit of the
    # server.
    target = _target(address)

    def work() -> None:
        kind = (
            apprise.NotifyType.FAILURE
            if notice.kind in ("failure", "block")
            else apprise.NotifyType.WARNING
        )
        options = {"notify_type": kind, "body_format": apprise.NotifyFormat.TEXT}
        try:
            sent = target.notify(title=one_line(notice.title), body=notice.body, **options)
            outcome.append("" if sent else "did not accept it")
        except Exception as error:  # noqa: BLE001 - plugins raise anything; the text may show the address
            outcome.append(f"failed ({type(error).__name__})")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(_GIVE_UP_S)
    return outcome[0] if outcome else f"did not answer within {_GIVE_UP_S:g} s"


def expiring(registry: Registry, trusted: Keys, now: datetime, days: int) -> list[str]:
    """Write a notice about every decision that has expired or expires soon.

    Parameters
    ----------
    registry : Registry
        The open registry database.
    trusted : Keys
        Public keys of the people who may sign decisions.
    now : datetime
        Current time.
    days : int
        A decision expires soon if it expires within this number of days.

    Returns
    -------
    list of str
        A line for each run whose decisions are invalid or cannot be read.
    """
    problems = []
    # Decisions on a run that belongs to a suite are stored in the folder of the suite.
    homes: dict[Path, str] = {}
    for run in all_runs(registry):
        if run["removed"] is None:
            folder = Path(run["run_dir"])
            homes.setdefault(panel_of(folder) or folder, run["key"])
    for run_dir, key in homes.items():
        if not decision_files(run_dir):
            continue
        try:
            decided = chain_of(run_dir, bound_to(run_dir, rule_run(run_dir)), trusted, now)
        except (AuditError, OSError) as error:
            problems.append(f"{key[:12]}: {error}")
            continue
        last = {decision.signer: decision for decision, _ in decided}
        for decision in last.values():
            if decision.expires is None or decision.expires > now + timedelta(days=days):
                continue
            state, when = f"expires within {days} days", "soon"
            if decision.expires <= now:
                state, when = "has expired", "past"
            about = f"{key[:40]} {decision.signer[:40]} {at(decision.expires)} {when}"
            body = f"{decision.sentence(now)}\nRun {run_dir}. After it expires, the verdict alone counts again."
            notice = Notice(about, "expiry", f"Decision on audit {key[:12]} {state}", body)
            registry.write(partial(write_notice, notice=notice, now=now))
    return problems
