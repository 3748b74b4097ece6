"""Messages by mail and webhook to real servers on this machine; ones that refuse, ones that hang;
no secret shown."""

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from commands_here import registry as main
from governed import Capsys, Patch, decided
from registered_runs import NOW, EditedRun
from servers_here import Quiet, http_here, mail_here
from sqlalchemy import select, update

from audit.core.errors import ConfigError
from audit.registry import finish, notify
from audit.registry.database import Registry
from audit.registry.entry import read_entry
from audit.registry.notify import addresses, send, send_waiting, unreached, waiting
from audit.registry.schema import notices
from audit.registry.store import Notice, add, write_notice

NOTE = Notice("k", "block", "Audit blocks: m", "the body\nof it")
SECRET = "hunter2secret"


@pytest.fixture(autouse=True)
def quick(monkeypatch: Patch) -> None:
    monkeypatch.setattr(notify, "_WAIT_S", 0.01)
    for name in ("AUDIT_REGISTRY", "AUDIT_NOTIFY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def mail() -> Iterator[tuple[str, list[Any]]]:
    """The address of a mail server, and what it received."""
    messages: list[Any] = []
    with mail_here(messages) as address:
        yield address, messages


@dataclass
class Hook:
    """A webhook that answers with `codes` in turn, the last for ever."""

    address: str = ""
    received: list[Any] = field(default_factory=list)
    codes: list[int] = field(default_factory=lambda: [200])


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()

    class Handler(Quiet):
        def do_POST(self) -> None:
            body, code = (
                self.request_body(),
                made.codes.pop(0) if len(made.codes) > 1 else made.codes[0],
            )
            if code == 200:
                made.received.append(json.loads(body))
            self.reply(code)

    with http_here(Handler) as address:
        made.address = f"json://user:{SECRET}@{address.removeprefix('http://')}/hook"
        yield made


@pytest.fixture
def hanging() -> Iterator[str]:
    """The address of a mail server that takes a connection and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"mailto://u:{SECRET}@127.0.0.1:{server.getsockname()[1]}?from=a@example.org&to=b@example.org&mode=insecure"


def test_mails_and_a_webhook_arrive_also_to_people_whom_a_suite_names(
    mail: tuple[str, list[Any]], hook: Hook
) -> None:
    title, body = (
        "Audit blocks: m\r\nBcc: everyone@example.org\x1b[2J\u202e",
        "a <script>alert(1)</script> & b",
    )
    hostile = Notice("k", "block", title, body, ("a@example.org", "b@example.org"))
    server = mail[0].replace("to=team", "cc=other@example.org&to=team")
    assert send(hostile, [hook.address, server]) == ""
    assert sorted(str(letter["to"]) for letter in mail[1]) == [
        "a@example.org",
        "b@example.org",
        "team@example.org",
    ]
    assert [str(letter["cc"]) for letter in mail[1] if letter["cc"]] == ["other@example.org"]
    for message in mail[1]:
        assert message["bcc"] is None and message["subject"].startswith("Audit blocks: m Bcc")
        for part in message.walk():  # markup may stand in a text, and nowhere else
            assert part.get_content_type() != "text/html" or "<script>" not in part.get_content()
    (posted,) = hook.received
    assert (
        posted["title"].startswith("Audit blocks: m Bcc")
        and posted["title"].isprintable()
        and posted["type"] == "failure"
    )
    assert unreached([hook.address, server], hostile.to) == unreached([hook.address], ()) == ""
    assert "names (2) are not notified" in unreached([hook.address], hostile.to)


def test_what_fails_is_tried_again_and_then_said_without_the_address(
    hook: Hook, capfd: Capsys
) -> None:
    hook.codes = [500, 503, 200]
    assert send(NOTE, [hook.address]) == "" and len(hook.received) == 1
    hook.codes = [500]
    problem = send(NOTE, [hook.address])
    assert "1 of 1" in problem and "3 tries" in problem
    assert SECRET not in "".join(capfd.readouterr())


def test_a_mail_server_that_hangs_is_given_up(hanging: str, hook: Hook, monkeypatch: Patch) -> None:
    monkeypatch.setattr(notify, "_GIVE_UP_S", 1)  # enough for the other address on a busy machine
    problem = send(NOTE, [hanging, hook.address])
    assert "1 of 2" in problem and "1 s, 3 tries" in problem and len(hook.received) == 1


def test_addresses_that_cannot_be_read_are_not_shown(monkeypatch: Patch) -> None:
    monkeypatch.setenv("AUDIT_NOTIFY", f"json://localhost nonsense://{SECRET}")
    with pytest.raises(ConfigError, match="address 2 of 2") as refused:
        addresses()
    assert SECRET not in str(refused.value)


def test_what_could_not_be_sent_waits_and_is_sent_once(registry: Registry, hook: Hook) -> None:
    for _ in range(2):
        registry.write(lambda c: write_notice(c, NOTE, NOW))
    hook.codes = [500]
    (problem,) = send_waiting(registry, [hook.address], NOW)
    assert "1 of 1" in problem and waiting(registry) == 1
    (row,) = registry.read(lambda c: c.execute(select(notices)).all())
    assert row.tries == 1 and "1 of 1" in row.problem and SECRET not in row.problem
    hook.codes = [200]
    assert send_waiting(registry, [hook.address], NOW) == [] and waiting(registry) == 0
    assert send_waiting(registry, [hook.address], NOW) == [] and len(hook.received) == 1


def test_a_message_of_a_sender_that_died_is_taken_over(registry: Registry, hook: Hook) -> None:
    registry.write(lambda c: write_notice(c, NOTE, NOW))
    registry.write(lambda c: c.execute(update(notices).values(claimed="2026-11-20T11:58:00+00:00")))
    send_waiting(registry, [hook.address], NOW)
    assert not hook.received  # two minutes ago: it may still be sending
    send_waiting(registry, [hook.address], NOW + timedelta(minutes=10))
    assert len(hook.received) == 1


TITLES = {
    "block": "blocks",
    "review": "asks for a review",
    "no decision": "ends without a decision",
}


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [
        ("excess", "block"),
        ("gain_uncontrolled", "review"),
        ("underpowered", "no decision"),
        ("no_excess_detected", None),
    ],
)
def test_a_finished_run_tells_of_every_end_but_a_pass(
    verdict: str,
    kind: str | None,
    edited_run: EditedRun,
    hook: Hook,
    tmp_path: Path,
    monkeypatch: Patch,
    capsys: Capsys,
) -> None:
    folder = edited_run(cell={"verdict": verdict})
    monkeypatch.setenv("AUDIT_NOTIFY", hook.address)
    place = str(tmp_path / "registry.db")
    for _ in range(2):  # the same command again tells nobody again
        finish.finished(place, folder, NOW)
    assert [notice["title"] for notice in hook.received] == (
        [f"Audit {TITLES[kind]}: m"] if kind else []
    )
    assert SECRET not in "".join(capsys.readouterr())


def test_a_failure_is_told_with_and_without_a_registry(
    edited_run: EditedRun, hook: Hook, tmp_path: Path, monkeypatch: Patch
) -> None:
    folder = edited_run()
    monkeypatch.setenv("AUDIT_NOTIFY", hook.address)
    finish.failed(None, folder, "EngineDiedError: no memory; key sk-abcdefghijklmnop1234")
    finish.failed(str(tmp_path / "registry.db"), folder, "EngineDiedError: no memory", NOW)
    assert [notice["title"] for notice in hook.received] == ["Audit failed: run"] * 2
    assert (
        "no memory" in hook.received[0]["message"] and "sk-abc" not in hook.received[0]["message"]
    )


def test_a_database_that_is_down_stops_no_run_and_keeps_nobody_from_hearing_of_it(
    edited_run: EditedRun, hook: Hook, monkeypatch: Patch, capsys: Capsys
) -> None:
    from audit.registry import database

    monkeypatch.setattr(database, "_WAITS_S", (0.01,))
    monkeypatch.setenv("AUDIT_NOTIFY", hook.address)
    down, folder = "postgresql://nobody@127.0.0.1:1/audits", edited_run(cell={"verdict": "excess"})
    finish.check(down)
    assert "2 tries" in capsys.readouterr().err and not hook.received
    finish.finished(down, folder, NOW)
    assert len(hook.received) == 1 and f"registry add {folder}" in capsys.readouterr().err
    finish.failed(down, folder, "no memory", NOW)
    assert len(hook.received) == 2 and "2 tries" in capsys.readouterr().err


def test_decisions_that_expire_are_told_before_and_after(
    registry: Registry,
    edited_run: EditedRun,
    hook: Hook,
    keys: Path,
    place: list[str],
    monkeypatch: Patch,
    capsys: Capsys,
) -> None:
    folder = edited_run(cell={"verdict": "gain_uncontrolled"})
    add(registry, read_entry(folder), NOW)
    assert decided(folder, keys, "alice", "--expires", "2026-12-10", kind="approve") == 0
    place += ["--keys", str(keys / "trusted")]
    assert main(["notify", *place], NOW) == 1 and "AUDIT_NOTIFY" in capsys.readouterr().err
    monkeypatch.setenv("AUDIT_NOTIFY", hook.address)
    for when, seen in (
        (NOW, 0),
        (datetime(2026, 12, 5, tzinfo=UTC), 1),
        (datetime(2026, 12, 6, tzinfo=UTC), 1),
        (datetime(2026, 12, 12, tzinfo=UTC), 2),
    ):
        assert main(["notify", *place], when) == 0
        assert len(hook.received) == seen
    assert "7 days" in hook.received[0]["title"] and "expired" in hook.received[1]["title"]
    verdict = folder / "report" / "verdict.json"
    verdict.write_text(verdict.read_text() + " ")
    assert main(["notify", *place], datetime(2026, 12, 13, tzinfo=UTC)) == 1
    assert "verdict.json" in capsys.readouterr().err
