"""Registered once, whole or not at all, by many writers, whoever is killed; and what is refused."""

import json
import os
import random
import signal
import sqlite3
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from commands_here import registry as main
from governed import Capsys, Patch
from registered_runs import NOW, EditedRun
from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import OperationalError

from audit.core.errors import ConfigError, RegistryError
from audit.registry import database, finish
from audit.registry.database import Registry, open_registry, place_of
from audit.registry.entry import Entry, content_key, key_of, read_entry
from audit.registry.schema import cells, indicators, metadata, notices, runs
from audit.registry.store import Notice, add, cell_records, find, write_notice
from audit.shards.manifest import Manifest

GOLDEN = Path(__file__).parents[2] / "golden" / "registry"


def test_a_run_is_registered_once_with_all_of_it(registry: Registry, edited_run: EditedRun) -> None:
    folder = edited_run(suite={"audit_suite_id": "s1", "governance": {"result_retention_days": 30}})
    entry = read_entry(folder)
    assert add(registry, entry, NOW) and not add(registry, entry, NOW)
    (row,) = cell_records(registry)
    verdict = json.loads((folder / "report" / "verdict.json").read_text())["cells"][0]
    assert (row.cell["model"], row.cell["benchmark"], row.cell["n"]) == ("m", "synthetic", 12)
    assert row.cell["model_revision"] == "rev1" and row.cell["verdict"] == verdict["verdict"]
    effect = verdict["effect"]
    assert row.indicators["excess"] == (
        effect["mean_gain"],
        effect["mean_ci_low"],
        effect["mean_ci_high"],
    )
    assert row.indicators["score"][0] == verdict["score"]
    assert (
        row.run["suite"] == "s1"
        and row.run["retention_days"] == 30
        and row.run["run_dir"] == str(folder)
    )
    assert len(row.cell["ids"]) == 12 and row.run["run_by"] == ["carol"]
    assert entry.key == key_of(folder)


def test_the_key_is_of_the_content_and_not_of_the_place(
    registry: Registry, edited_run: EditedRun
) -> None:
    here, elsewhere = read_entry(edited_run("here")), read_entry(edited_run("there"))
    assert here.key == elsewhere.key
    assert add(registry, here, NOW) and not add(registry, elsewhere, NOW)
    assert find(registry, here.key[:8])["run_dir"] == elsewhere.run_dir  # where it is now
    for name, changes in {
        "weights": {"manifest": {"models": {"m": {"revision": "rev2"}}}},
        "judged anew": {"cell": {"reasons": ["another"]}},
        "suite": {"suite": {"audit_suite_id": "s"}},
    }.items():
        assert read_entry(edited_run(name, **changes)).key != here.key, name
    answers = replace(
        Manifest.load(Path(here.run_dir)), shards=[{"file": "x", "rows": 1, "sha256": "e" * 64}]
    )
    assert content_key(answers, here.verdict_sha256, None) != here.key


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"manifest": {"status": "failed", "models_failed": {"m": "no memory"}}}, "no memory"),
        ({"manifest": {"status": "running"}}, "not finished"),
        ({"manifest": {"ended": None}}, "Expected a time"),
        ({"cell": {"verdict": "perhaps"}}, "perhaps"),
        ({"suite": {"governance": {"result_retention_days": "soon"}}}, "whole days"),
        ({"suite": {"governance": {"rotate_every": "week"}}}, "quarter"),
        ({"suite": []}, "not a suite"),
    ],
)
def test_what_is_not_finished_or_unsound_is_refused(
    edited_run: EditedRun, changes: dict, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        read_entry(edited_run(**changes))


def test_a_registry_of_an_earlier_version_gets_the_tables_of_the_schema(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "registry.db") as earlier:
        earlier.executescript((GOLDEN / "version_0001.sql").read_text())
    opened = open_registry(str(tmp_path / "registry.db"))
    assert opened.read(lambda c: compare_metadata(MigrationContext.configure(c), metadata)) == []


def test_a_registry_of_a_newer_program_is_refused_unchanged(
    registry: Registry, tmp_path: Path
) -> None:
    registry.write(lambda c: c.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    before = registry.read(
        lambda c: c.execute(text("SELECT name, sql FROM sqlite_master ORDER BY name")).all()
    )
    with pytest.raises(ConfigError, match=r"9999.*newer program"):
        open_registry(str(tmp_path / "registry.db"))
    assert before == registry.read(
        lambda c: c.execute(text("SELECT name, sql FROM sqlite_master ORDER BY name")).all()
    )


def test_a_clock_that_went_backwards_is_refused(registry: Registry, edited_run: EditedRun) -> None:
    entry = read_entry(edited_run())
    add(registry, entry, NOW)
    later = replace(entry, key="b" * 64)
    with pytest.raises(RegistryError, match="Correct the clock"):
        add(registry, later, NOW - timedelta(hours=1))
    assert len(cell_records(registry)) == 1
    assert add(
        registry, later, NOW - timedelta(seconds=30)
    )  # clocks of a cluster differ by seconds


@pytest.mark.parametrize(
    "place",
    [
        "oracle://x/y",
        "postgresql://u:pw@h",
        "postgresql://h/d?password=pw",
        ":memory:",
        "sqlite://",
        "://",
    ],
)
def test_addresses_that_cannot_be_used_are_refused_without_showing_a_password(
    place: str, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(database, "_WAITS_S", ())
    with pytest.raises((ConfigError, RegistryError)) as refused:
        open_registry(place_of(place) or "")
    assert "pw" not in str(refused.value).replace("PGPASSWORD", "").replace(".pgpass", "").replace(
        "password", ""
    )


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("not a database, however long it goes on" * 100)
    with pytest.raises(RegistryError, match="file is not a database"):
        open_registry(str(tmp_path / "notes.db"))


def _children(
    place: str, entries: list[Entry], writers: int, *, kill: int, rng: random.Random
) -> None:
    """Fork writers that add every entry in an order of their own; some are killed at once, some in
    the middle."""
    pids = []
    for number in range(writers):
        pid = os.fork()
        if pid == 0:
            try:
                shuffled = entries[:]
                random.Random(number).shuffle(shuffled)
                opened = open_registry(place)
                for entry in shuffled:
                    add(
                        opened, entry, NOW, finish.notice_of(entry.ruling, entry.key, entry.run_dir)
                    )
                os._exit(0)
            except BaseException as error:
                print(repr(error)[:500], flush=True)
                os._exit(1)
        pids.append(pid)
    for pid in pids[:kill]:
        time.sleep(rng.uniform(0.01, 0.08))
        os.kill(pid, signal.SIGKILL)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert codes[kill:] == [0] * (writers - kill)


def _all_whole(place: str, entries: list[Entry]) -> None:
    opened = open_registry(place)
    counts = opened.read(
        lambda c: [
            c.scalar(select(func.count()).select_from(t))
            for t in (runs, cells, indicators, notices)
        ]
    )
    assert counts == [len(entries), len(entries), len(entries) * 2, len(entries)]


@pytest.fixture
def entries(edited_run: EditedRun) -> list[Entry]:
    """Twelve runs that block, each with its notice."""
    blocking = read_entry(edited_run(cell={"verdict": "excess"}))
    return [replace(blocking, key=f"{k:064x}") for k in range(12)]


def test_many_writers_and_some_killed_lose_and_double_nothing(
    entries: list[Entry], tmp_path: Path
) -> None:
    """All twelve runs by three writers at once, into a file that none of them has seen; two more
    are killed."""
    place = str(tmp_path / "registry.db")
    _children(place, entries, 5, kill=2, rng=random.Random(0))
    _all_whole(place, entries)
    assert sqlite3.connect(place).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_in_a_real_postgresql_the_same_holds(
    postgres: str, entries: list[Entry], registry: Registry
) -> None:
    _children(postgres, entries, 3, kill=1, rng=random.Random(1))
    _all_whole(postgres, entries)
    opened = open_registry(postgres)
    assert opened.read(lambda c: compare_metadata(MigrationContext.configure(c), metadata)) == []
    for entry in entries:
        add(registry, entry, NOW)
    assert [row.indicators for row in cell_records(opened)] == [
        row.indicators for row in cell_records(registry)
    ]
    assert find(opened, entries[3].key)["decision"] == "block"
    # The server drops every connection in the middle of a write: it is made again, whole, and once.
    tried = []
    written = select(func.count()).select_from(notices).where(notices.c.about == "broken off")

    def change(connection: Connection) -> None:
        write_notice(connection, Notice("broken off", "block", "t", "b"), NOW)
        tried.append(connection)
        if len(tried) == 1:
            others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            opened.read(lambda c: c.execute(text(others + "AND datname = current_database()")))
        connection.execute(text("SELECT 1"))

    opened.write(change)
    assert len(tried) == 2 and opened.read(lambda c: c.scalar(written)) == 1


def test_a_write_that_the_database_lost_is_made_again_whole(
    registry: Registry, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(database, "_WAITS_S", (0.0,))
    tried = []

    def change(connection: Connection) -> None:
        write_notice(connection, Notice("k", "block", "t", "b"), NOW)
        tried.append(connection)
        if len(tried) == 1:
            raise OperationalError("COMMIT", {}, OSError("server closed the connection"))

    registry.write(change)
    assert (
        len(tried) == 2
        and registry.read(lambda c: c.scalar(select(func.count()).select_from(notices))) == 1
    )


def test_without_a_registry_a_run_touches_nothing(
    edited_run: EditedRun, monkeypatch: Patch
) -> None:
    for name in ("AUDIT_REGISTRY", "AUDIT_NOTIFY"):
        monkeypatch.delenv(name, raising=False)
    folder = edited_run()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    finish.check(None)
    finish.finished(None, folder)
    finish.failed(None, folder, "it broke")
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_list_and_show(
    edited_run: EditedRun, place: list[str], tmp_path: Path, capsys: Capsys
) -> None:
    folder = edited_run("a\x1b[2Jb")
    assert main(["add", str(folder / "nowhere"), *place]) == 1
    assert not Path(place[1]).exists()  # a misspelt name leaves no empty database behind
    assert main(["add", str(folder.parent), *place]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert main(["list", *place]) == 0
    out = capsys.readouterr().out
    assert "m on synthetic (rev1)" in out and out.endswith("1 runs\n")
    assert main(["list", "--model", "other", *place]) == 0 and capsys.readouterr().out == "0 runs\n"
    assert main(["show", read_entry(folder).key[:6], *place]) == 0
    out = capsys.readouterr().out
    assert "excess" in out and "\x1b" not in out
    unfinished = edited_run("unfinished", manifest={"status": "running"})
    assert main(["add", str(unfinished), *place]) == 1
    assert capsys.readouterr().err.count("unfinished") == 1
    for words in (["show", "nowhere"], ["show", "ffff"], ["add", str(tmp_path / "nothing")]):
        assert main([*words, *place]) == 1
    assert main(["list"]) == 1 and "AUDIT_REGISTRY" in capsys.readouterr().err
