"""A run directory on a real S3 server (moto's, a process of its own): what is stored, what counts,
what is refused."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from commands_here import gate, report
from s3_server import CREDENTIALS, S3Server, s3_server
from servers_here import Quiet, http_here
from shard_rows import row, write

from audit import load
from audit.core.aliases import named
from audit.core.errors import AuditError, ConfigError, ShardError
from audit.core.records import Item, Setting
from audit.shards.attempt import DRIVER
from audit.shards.complete import verify_run
from audit.shards.keys import KeySet, digest_grid
from audit.shards.manifest import RunDir, open_run_dir
from audit.shards.object_store import open_store
from audit.shards.questions import QUESTIONS, QuestionFile, write_questions
from audit.shards.read import scan_run
from audit.shards.working_copy import fetch_shards, run_folder, where, working_copy
from audit.sweep.audit import SCHEMA


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    before = dict(os.environ)
    os.environ |= CREDENTIALS
    with s3_server() as server:
        yield server
    os.environ.clear()
    os.environ |= before


def start(url: str) -> RunDir:
    """As the next start of a driver, with nothing of what an earlier one had on its disk."""
    working_copy.cache_clear()
    return open_run_dir(working_copy(url), SCHEMA, "f", {})


def finish(run: RunDir, questions: int) -> None:
    settings = [Setting(row().arm, 1, 0)]
    expected = KeySet.of(
        digest_grid("m", "b", [f"q{k}" for k in range(questions)], settings).reshape(-1, 2)
    )
    fetch_shards(run.path)
    verification = verify_run(run.path, SCHEMA, expected, run.attempt)
    verification.require_complete()
    run.update(status="finished", shards=[shard.record() for shard in verification.shards])


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("s3://AKIAKEY:hidden@bucket/run", "contains a key or password"),
        ("s3://bucket/run?secret_key=hidden", "contains a key or password"),
        (
            "abfss://:hidden@account.dfs.core.windows.net/c/run",
            "contains a key or password",
        ),
        ("s3://bucket/run?anonymous=hidden", "has no parameter anonymous"),
        ("s3://bucket", "is not a folder in a bucket"),
        ("az://bucket/run", "Azure is abfss://"),
        ("http://bucket/run", "scheme of the run_dir is http://"),
    ],
)
def test_a_url_that_cannot_be_one_is_refused_before_anything_is_asked(url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        open_store(url)
    assert "hidden" not in str(caught.value)


def test_a_killed_run_goes_on_and_only_what_the_manifest_lists_counts(s3: S3Server) -> None:
    url = s3.url("bucket/exp/run")
    first = start(url)
    write_questions(first.path, [Item(f"q{k}", "b", "x", ("a", "b"), 0, "g") for k in range(4)])
    write(where(first.path), first.attempt, row(0), row(1))
    first.close()  # killed before it wrote more

    second = start(url)
    assert second.manifest.attempts == 2 and scan_run(second.path, SCHEMA).rows == 2
    assert len(QuestionFile(where(second.path / QUESTIONS))) == 4  # as another node reads them
    write(where(second.path), second.attempt, row(1), row(2), row(3))  # q1 twice
    finish(second, 4)
    second.close()
    listed = sorted(shard["file"] for shard in s3.manifest("bucket/exp/run")["shards"])
    assert [
        name.removeprefix("shards/") for name in s3.names("bucket/exp/run/shards")
    ] == listed and len(listed) == 2
    assert len(set(s3.keys("bucket/exp/run"))) == len(s3.keys("bucket/exp/run")) == 4

    # A worker of the killed attempt wakes up, past its look at attempt.json.
    late = f"shards/m-0123456789abcdef.{first.attempt[:8]}.arrow"
    open_store(url).put(late, s3.read(f"bucket/exp/run/shards/{listed[0]}"))
    working_copy.cache_clear()
    assert scan_run(run_folder(url), SCHEMA).duplicates == 0 and load(url).answers().num_rows == 4
    assert str(load(url).path) not in repr(load(url)) and "s3://bucket/exp/run" in repr(load(url))
    with start(url) as third:
        assert scan_run(third.path, SCHEMA).rows == 4 and late not in s3.names("bucket/exp/run")


def test_a_superseded_driver_and_its_writers_change_nothing(s3: S3Server) -> None:
    url = s3.url("bucket/two")
    first = start(url)
    open_store(url).put(
        DRIVER, b'{"pid": 1, "host": "another-machine", "pid_space": "", "born": "7"}'
    )
    with pytest.warns(UserWarning, match="process 1 on another-machine"):
        second = start(url)
    before = s3.read("bucket/two/manifest.json")
    with pytest.raises(ShardError, match="superseded: it belongs to attempt"):
        write(where(first.path), first.attempt, row(0))
    with pytest.raises(ShardError, match="superseded: it belongs to attempt"):
        first.update(status="finished")
    first.close()
    assert s3.names("bucket/two/shards") == [] and s3.read("bucket/two/manifest.json") == before
    second.close()


def test_a_refused_command_changes_nothing_for_the_driver_at_work(s3: S3Server) -> None:
    """Refused for what it asks or for its weights, it is not the next driver, and deletes no list
    of tasks."""
    url = s3.url("bucket/refused")
    working_copy.cache_clear()
    first = open_run_dir(working_copy(url), SCHEMA, "f", {}, {"m": {"revision": "c1"}})
    open_store(url).put(
        DRIVER, b'{"pid": 1, "host": "another-machine", "pid_space": "", "born": "7"}'
    )
    open_store(url).put("tasks/m-1.npy", b"tasks")
    before = {name: s3.read(f"bucket/refused/{name}") for name in s3.names("bucket/refused")}
    for fingerprint, revision in (("other", "c1"), ("f", "c2")):
        working_copy.cache_clear()
        with pytest.raises(ConfigError, match=r"another configuration|this start has c2"):
            open_run_dir(working_copy(url), SCHEMA, fingerprint, {}, {"m": {"revision": revision}})
    assert {
        name: s3.read(f"bucket/refused/{name}") for name in s3.names("bucket/refused")
    } == before
    assert "tasks/m-1.npy" in before
    first.update(status="failed")  # it goes on
    first.close()


HOLD = """
import sys, time
from audit.shards.manifest import open_run_dir
from audit.shards.working_copy import working_copy
from audit.sweep.audit import SCHEMA
open_run_dir(working_copy(sys.argv[1]), SCHEMA, "f", {})
print("open", flush=True)
time.sleep(60)
"""


def test_a_second_driver_on_this_machine_is_refused_and_a_killed_one_is_not_missed(
    s3: S3Server,
) -> None:
    url = s3.url("bucket/lock")
    driver = subprocess.Popen([sys.executable, "-c", HOLD, url], stdout=subprocess.PIPE, text=True)
    try:
        assert driver.stdout is not None and driver.stdout.readline() == "open\n"
        with pytest.raises(
            ShardError, match=rf"in use by another run \(process {driver.pid} on"
        ) as caught:
            start(url)
        assert "run_dir=s3://bucket/lock_2" in named(caught.value)
        driver.kill()
        driver.wait()
        with start(url) as run:
            assert run.manifest.attempts == 2
    finally:
        driver.kill()
    assert DRIVER not in s3.names("bucket/lock")


def test_a_store_that_refuses_is_one_sentence_and_nothing_is_lost(s3: S3Server) -> None:
    with pytest.raises(
        ShardError, match="the bucket nowhere does not exist, and this program creates none"
    ):
        start(s3.url("nowhere/run"))
    with pytest.raises(
        ShardError, match=r"s3://bucket/run cannot|s3://bucket/run.* the store does not answer"
    ):
        start("s3://bucket/run?endpoint_override=127.0.0.1:9&scheme=http")
    with start(s3.url("bucket/kept")) as run:
        write(where(run.path), run.attempt, row(0))
    s3.ask(
        "POST", "moto-api/reset-auth", b"0"
    )  # from now on keys are looked at, and ours is nobody's
    try:
        with pytest.raises(ShardError, match=r"access was refused.*AWS_ACCESS_KEY_ID") as caught:
            start(s3.url("bucket/kept"))
    finally:
        s3.ask("POST", "moto-api/reset-auth", b"inf")
    assert not any(value in str(caught.value) for value in CREDENTIALS.values())
    with start(s3.url("bucket/kept")) as run:
        assert scan_run(run.path, SCHEMA).rows == 1


class Full(Quiet):
    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.reply(507)  # Insufficient Storage


def test_a_put_that_fails_is_one_sentence(s3: S3Server) -> None:
    with http_here(Full) as full:
        store = open_store(
            f"s3://bucket/run?endpoint_override={full.removeprefix('http://')}&scheme=http"
        )
        with pytest.raises(
            ShardError, match=r"s3://bucket/run/shards/x could not be written: .*remain valid"
        ):
            store.put("shards/x", b"rows")


def test_commands_that_need_a_folder_say_so(
    s3: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    from commands_here import compare, runs

    url = s3.url("bucket/absent")
    with pytest.raises(SystemExit):
        compare([url, url])
    assert "s3://" in capsys.readouterr().err
    assert runs(["s3://bucket/exp"]) == 1 and "s3://bucket/exp" in capsys.readouterr().err
    assert gate([url]) == 1 and "s3://bucket/absent" in capsys.readouterr().err
    assert report([url]) == 1 and "s3://bucket/absent" in capsys.readouterr().err
    assert report([url, url]) == 1 and "--follow" in capsys.readouterr().err
    with pytest.raises(AuditError, match="contains nothing"):
        load(url)
