"""What goes and what stays, whoever pulls the plug; and what is due, and drawn the same
everywhere."""

import base64
import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from commands_here import registry as main
from governed import Capsys, Patch, decided
from registered_runs import NOW, EditedRun

from audit.core.errors import ConfigError
from audit.registry import retention
from audit.registry.database import Registry
from audit.registry.entry import read_entry
from audit.registry.rotation import draw, period_of, rotation
from audit.registry.store import add, all_runs, cell_records, set_hold
from audit.shards.manifest import Manifest, open_run_dir
from audit.shards.panel import write_panel
from audit.sweep.audit import SCHEMA

SUITE = {
    "audit_suite_id": "s",
    "governance": {"result_retention_days": 30, "rotate_every": "quarter"},
}
LATER = NOW + timedelta(days=60)


@pytest.fixture
def run(registry: Registry, edited_run: EditedRun) -> Path:
    folder = edited_run("old", suite=SUITE, cell={"verdict": "no_excess_detected"})
    (folder / "notes.txt").write_text("a person's own")
    add(registry, read_entry(folder), NOW)
    return folder


def stays(registry: Registry, now: datetime = LATER) -> list[str]:
    return [past.stays for past in retention.past_retention(registry, now)]


def test_what_is_past_its_retention_goes_and_leaves_its_hashes(
    registry: Registry, run: Path, place: list[str], capsys: Capsys
) -> None:
    assert retention.past_retention(registry, NOW) == []  # ended 19 days ago
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert main(["expire", "--dry-run", *place], LATER) == 0
    output = capsys.readouterr().out
    assert "79 days, kept 30" in output and "1 of 1" in output
    assert before == {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    token = output.split("--confirm ")[1].strip()
    assert (
        main(["expire", "--confirm", "0" * 16, *place], LATER) == 1
        and run.joinpath("shards").is_dir()
    )
    assert main(["expire", "--confirm", token, *place], LATER) == 0
    assert sorted(path.name for path in run.iterdir()) == [
        "notes.txt",
        "suite.json",
        "tombstone.json",
    ]
    (kept_run,) = all_runs(registry)
    stone = json.loads((run / "tombstone.json").read_text())
    assert kept_run["removed"] and stone["verdict_sha256"] == kept_run["verdict_sha256"]
    assert (
        cell_records(registry)[0].indicators["excess"][0] is not None
    )  # the trend keeps its point
    assert stays(registry) == []


def test_a_hold_keeps_a_run_until_it_is_released(
    registry: Registry, run: Path, place: list[str]
) -> None:
    key = all_runs(registry)[0]["key"]
    assert main(["hold", key[:8], "--reason", "case 7", *place]) == 0
    assert stays(registry) == ["on hold: case 7"]
    assert (
        retention.expire(registry, retention.token_of([]), LATER) == []
        and (run / "shards").is_dir()
    )
    assert main(["hold", key[:8], "--reason", " ", *place]) == 1
    assert main(["release", key[:8], *place]) == 0 and main(["release", key[:8], *place]) == 1
    assert stays(registry) == [""]


def test_what_is_under_review_or_counts_stays(
    registry: Registry, edited_run: EditedRun, keys: Path
) -> None:
    folder = edited_run("old", suite=SUITE, cell={"verdict": "gain_uncontrolled"})
    add(registry, read_entry(folder), NOW)
    assert stays(registry) == ["under review: nobody has decided"]
    assert decided(folder, keys, "alice", "--expires", "2027-02-28", kind="approve") == 0
    assert "2027-02-28" in stays(registry)[0]
    assert stays(registry, datetime(2027, 3, 1, tzinfo=UTC)) == [""]
    (folder / "decisions" / "0002.dsse.json").write_text("{}")
    assert "decision" in stays(registry, datetime(2027, 3, 1, tzinfo=UTC))[0]


def test_a_run_stays_while_its_suite_is_under_review_and_the_page_of_all_goes_with_the_last(
    registry: Registry, edited_run: EditedRun, tmp_path: Path
) -> None:
    home = tmp_path / "suite"
    home.mkdir()
    folder = edited_run("suite/sweep", suite=SUITE, cell={"verdict": "gain_uncontrolled"})
    write_panel(home, [folder])
    shutil.copytree(folder / "report", home / "report")
    add(registry, read_entry(folder), NOW)
    assert stays(registry) == ["under review with its suite: nobody has decided"]
    (home / "decisions").mkdir()
    envelope = {
        "payload": base64.b64encode(
            b'{"predicate": {"expires": "2027-02-28T00:00:00+00:00"}}'
        ).decode()
    }
    (home / "decisions" / "0001.dsse.json").write_text(json.dumps(envelope))
    assert "2027-02-28" in stays(registry)[0]
    later = datetime(2027, 3, 1, tzinfo=UTC)
    retention.expire(registry, retention.token_of(retention.past_retention(registry, later)), later)
    assert (
        not (home / "report").exists()
        and (home / "decisions").is_dir()
        and (folder / "tombstone.json").is_file()
    )


def test_a_directory_with_something_else_or_none_stays(registry: Registry, run: Path) -> None:
    with (run / "report" / "verdict.json").open("a") as verdict:
        verdict.write(" ")
    assert stays(registry) == ["its directory holds another result now"]
    shutil.move(run, run.with_name("moved"))
    assert stays(registry) == ["its directory cannot be reached from this machine"]


def test_a_run_judged_again_goes_with_the_newest_judgement(
    registry: Registry, run: Path, edited_run: EditedRun
) -> None:
    rejudged = edited_run(
        "again", cell={"verdict": "no_excess_detected", "reasons": ["judged again"]}
    )  # of no suite: kept
    add(registry, read_entry(rejudged), NOW + timedelta(days=1))
    assert stays(registry) == ["the same answers were judged again, in a run that is kept"]
    set_hold(registry, read_entry(rejudged).key, "case 8")
    assert stays(registry) == ["on hold: case 8"]


@pytest.mark.parametrize("fail_at", ["shards", "manifest.json", "finish"])
def test_a_kill_in_the_middle_is_finished_by_the_next(
    registry: Registry, run: Path, fail_at: str, monkeypatch: Patch
) -> None:
    token, before = (
        retention.token_of(retention.past_retention(registry, LATER)),
        Manifest.load(run),
    )
    real_unlink, real_rmtree, real_notice = Path.unlink, shutil.rmtree, retention.write_notice

    def stop(name: str) -> None:
        if name == fail_at:
            raise KeyboardInterrupt

    def unlink(self: Path, missing_ok: bool = False) -> None:
        stop(self.name)
        real_unlink(self, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        patch.setattr(shutil, "rmtree", lambda path: (stop(path.name), real_rmtree(path)))
        patch.setattr(retention, "write_notice", lambda *a: (stop("finish"), real_notice(*a)))
        with pytest.raises(KeyboardInterrupt):
            retention.expire(registry, token, LATER)
    assert (run / "tombstone.json").is_file() and all_runs(registry)[0]["removed"] is None
    with pytest.raises(
        ConfigError, match=r"tombstone\.json"
    ):  # what it would ask, the next one would remove
        open_run_dir(run, SCHEMA, before.fingerprint, before.config)
    assert (
        retention.expire(
            registry, retention.token_of(retention.past_retention(registry, LATER)), LATER
        )[0][1]
        == ""
    )
    assert (
        not (run / "shards").exists()
        and not (run / "manifest.json").exists()
        and all_runs(registry)[0]["removed"]
    )


def test_a_run_that_is_going_on_is_not_touched(registry: Registry, run: Path) -> None:
    from audit.shards.attempt import RunLock

    token = retention.token_of(retention.past_retention(registry, LATER))
    lock = RunLock.take(run)
    try:
        ((_, problem),) = retention.expire(registry, token, LATER)
    finally:
        lock.release()
    assert problem and (run / "shards").is_dir()


def test_a_clock_that_went_backwards_expires_and_draws_nothing(
    registry: Registry, run: Path, place: list[str], tmp_path: Path, capsys: Capsys
) -> None:
    before = NOW - timedelta(days=400)
    for words in (
        ["expire", "--dry-run"],
        ["due"],
        ["draw", "elementary", "--n", "3", "--out", str(tmp_path / "d")],
    ):
        assert main([*words, *place], before) == 1
        assert "clock" in capsys.readouterr().err


def test_what_is_due_and_what_is_in_time(
    registry: Registry, run: Path, edited_run: EditedRun
) -> None:
    assert [period_of(f"2026-{m:02d}-15") for m in (1, 3, 4, 12)] == [
        "2026-Q1",
        "2026-Q1",
        "2026-Q2",
        "2026-Q4",
    ]
    (version,) = rotation(registry, NOW)
    assert (version.kind, version.name, version.since, version.due) == (
        "benchmark",
        "synthetic",
        "2026-Q4",
        False,
    )
    (version,) = rotation(registry, LATER)
    assert version.due
    later = {"started": "2027-01-04T00:00:00+00:00", "fingerprint": "e" * 64}
    library = {"library": {"name": "lib", "sha256": "5" * 64}}
    reworded = edited_run("reworded", manifest=later, verdict=library, suite=SUITE)
    add(registry, read_entry(reworded), LATER)
    versions = {(version.kind, version.name): version for version in rotation(registry, LATER)}
    assert set(versions) == {("benchmark", "synthetic"), ("library", "lib")}
    # The library is this quarter's; the benchmark has the version of last year still, however often
    # it is run.
    assert not versions["library", "lib"].due and versions["benchmark", "synthetic"].due
    assert {version.due for version in rotation(registry, LATER + timedelta(days=90))} == {True}


def test_draws_are_the_same_everywhere_and_ask_nothing_twice(
    registry: Registry, tmp_path: Path
) -> None:
    from audit.registry.database import open_registry

    first = draw(registry, "elementary", 50, NOW)
    assert first.new and first.period == "2026-Q4" and first.left == 208 - 50
    repeat = draw(registry, "elementary", 50, NOW + timedelta(days=3))
    assert not repeat.new and repeat.questions == first.questions and repeat.left == first.left
    elsewhere = draw(open_registry(str(tmp_path / "other.db")), "elementary", 50, NOW)
    assert elsewhere.questions == first.questions
    following = draw(registry, "elementary", 50, LATER)
    assert following.period == "2027-Q1" and not {q.id for q in following.questions} & {
        q.id for q in first.questions
    }
    for n, now, says in (
        (40, LATER, "drawn in 2027-Q1 already"),
        (200, LATER + timedelta(days=90), "108 questions"),
    ):
        with pytest.raises(Exception, match=says):
            draw(registry, "elementary", n, now)


def test_a_draw_leaves_out_what_runs_asked_and_is_a_benchmark(
    registry: Registry, edited_run: EditedRun, place: list[str], tmp_path: Path, capsys: Capsys
) -> None:
    from audit.benchmarks.config import BenchmarkConfig
    from audit.benchmarks.load import open_benchmark

    rows = [
        {"question": f"What is {k} + {k}?", "choices": [str(2 * k), "0", "x"], "answer": 0}
        for k in range(1, 21)
    ]
    (tmp_path / "exam.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ids = [f"exam/{k}" for k in range(15)]
    entry = read_entry(edited_run("b"))
    cell = replace(entry.cells[0], benchmark="exam", ids=tuple(ids))
    add(registry, replace(entry, cells=(cell,)), NOW)
    out = tmp_path / "held_out.jsonl"
    assert (
        main(["draw", str(tmp_path / "exam.jsonl"), "--n", "4", "--out", str(out), *place], NOW)
        == 0
    )
    assert "1 questions remain that were never asked" in capsys.readouterr().out
    config = BenchmarkConfig(
        name="exam_2026_Q4",
        format="mcq_file",
        path=str(out),
        id_column="id",
        answer_as="index",
        group_column="group",
    )
    drawn = list(open_benchmark(config).iter_questions())
    assert len(drawn) == 4 and not {q.id for q in drawn} & set(ids)
    assert all(q.options[q.gold] == str(2 * (int(q.id.split("/")[1]) + 1)) for q in drawn)
