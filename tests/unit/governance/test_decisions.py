"""Signed decisions: who may let a run pass, for how long, and that nothing of it can be changed
unseen."""

import base64
import json
import shutil
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from commands_here import evidence, gate, report, review
from documents import typed, verdict_named
from governed import LATER, NOW, Capsys, Patch, decided, first, flip, gated, rewrite, shard_of
from junitparser import JUnitXml

import audit
from audit.core.errors import AuditError, ConfigError
from audit.governance.formats import FORMATS
from audit.governance.keys import create_key, load_signer
from audit.governance.reviews import Decided, Kind, honour, parse_time
from audit.governance.ruling import bound_to
from audit.judging.decision import CellRuling, Decision, Ruling, failed, rule
from audit.judging.ladder import Grade
from audit.shards.manifest import Manifest, open_run_dir
from audit.shards.panel import write_panel
from audit.sweep.audit import SCHEMA


def test_an_override_lets_a_run_pass_says_so_in_every_format_and_expires(
    run_dir: Path, keys: Path, capsys: Capsys
) -> None:
    assert gated(run_dir, keys) == 5
    assert decided(run_dir, keys, "alice") == 0
    capsys.readouterr()
    for kind in FORMATS:
        assert gated(run_dir, keys, "--format", kind) == 0
        out = capsys.readouterr().out
        assert "alice" in out
        if kind == "json":
            plain = json.loads(out)
            assert plain["overridden"] and (plain["decision"], plain["verdict_decision"]) == (
                "pass",
                "no decision",
            )
        if kind == "junit":
            xml = JUnitXml.fromstring(out.encode())
            assert (xml.tests, xml.failures, xml.errors) == (1, 0, 0)
    last = datetime(2026, 12, 31, 23, 59, 58, tzinfo=UTC)
    assert gated(run_dir, keys, now=last) == 0
    assert gated(run_dir, keys, now=last + timedelta(seconds=1)) == 5
    assert "EXPIRED" in capsys.readouterr().out
    assert gated(run_dir, keys, "--approvals", "2") == 5  # four eyes
    assert decided(run_dir, keys, "bob", now=LATER) == 0
    assert gated(run_dir, keys, "--approvals", "2") == 0
    assert (
        decided(run_dir, keys, "bob", kind="reject", now=LATER) == 0
    )  # the last word of each counts
    assert gated(run_dir, keys) == 3


def test_each_start_of_a_run_says_who_started_it(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("AUDIT_RUN_BY", "carol")
    open_run_dir(tmp_path / "run", SCHEMA, "f00", {}).close()
    monkeypatch.delenv("AUDIT_RUN_BY")
    open_run_dir(tmp_path / "run", SCHEMA, "f00", {}).close()
    assert Manifest.load(tmp_path / "run").run_by == ["carol", ""]


@pytest.mark.parametrize(("approvals", "code"), [(1, 0), (2, 5), ("two", 1), (0, 1), (True, 1)])
def test_a_suite_says_how_many_people_are_needed(
    approvals: object, code: int, run_dir: Path, keys: Path, capsys: Capsys
) -> None:
    (run_dir / "suite.json").write_text(
        json.dumps({"governance": {"approvals_required": approvals}})
    )
    assert decided(run_dir, keys, "alice") == 0
    assert gated(run_dir, keys) == code
    if code == 1:
        assert "approvals_required" in capsys.readouterr().err
        return
    assert (
        gated(run_dir, keys, "--approvals", "3") == 5
    )  # the gate may ask for more, and never for less
    assert decided(run_dir, keys, "bob") == 0
    assert gated(run_dir, keys, "--approvals", "1") == 0


def test_a_second_key_is_no_second_person(run_dir: Path, keys: Path, tmp_path: Path) -> None:
    trusted = shutil.copytree(keys / "trusted", tmp_path / "trusted")
    _, public = create_key("alice.2027", tmp_path / "new")
    shutil.copy(public, trusted)
    for key in (keys / "alice.key", tmp_path / "new" / "alice.2027.key"):
        assert decided(run_dir, keys, "alice", "--key", str(key), "--keys", str(trusted)) == 0
    assert gate([str(run_dir), "--keys", str(trusted), "--approvals", "2"], LATER) == 5


# --- what was changed afterwards, and clocks that jump: more of it in tests/attack
# ------------------------------------


def test_an_answer_that_was_changed_after_the_run_does_not_pass(run_dir: Path, keys: Path) -> None:
    """Nobody has decided, and no count of rows moved: the manifest's hash of the shard alone shows
    it."""
    shard = shard_of(run_dir)
    good = shard.read_bytes()
    assert gated(run_dir, keys) == 5 and len(audit.load(run_dir).answers()) > 0
    for at in [*range(0, len(good), len(good) // 40), len(good) - 1]:
        shard.write_bytes(good)
        flip(shard, at)
        assert gated(run_dir, keys) == 1, at
        for table in (
            "answers",
            "settings",
            "results",
        ):  # who loads the run reads none of it either
            with pytest.raises(AuditError):
                getattr(audit.load(run_dir), table)()


def test_no_byte_of_a_decision_can_change(overridden: Path, keys: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(overridden, tmp_path / "run"))
    data = first(run).read_bytes()
    for at in range(0, len(data), len(data) // 80):
        first(run).write_bytes(data)
        flip(first(run), at)
        assert gated(run, keys) == 1, at


def test_decisions_that_nobody_can_check_do_not_pass(
    overridden: Path, tmp_path: Path, capsys: Capsys, monkeypatch: Patch
) -> None:
    monkeypatch.delenv("AUDIT_TRUSTED_KEYS", raising=False)
    assert gate([str(overridden)], LATER) == 1  # decisions that nobody can check
    assert gate([str(overridden), "--keys", str(tmp_path)], LATER) == 1
    assert str(tmp_path) in capsys.readouterr().err


def test_a_deleted_decision_is_missed_where_a_registry_knows_of_it(
    run_dir: Path, keys: Path, tmp_path: Path, capsys: Capsys, monkeypatch: Patch
) -> None:
    """The last of two, all of them, and one in the place of another; and how to begin anew, which
    people hear of."""
    from commands_here import registry

    from audit.registry import database

    place, trusted = ["--registry", str(tmp_path / "r.db")], ["--keys", str(keys / "trusted")]
    for who in ("alice", "bob"):
        assert decided(run_dir, keys, who, *place, kind="reject") == 0
    assert gate([str(run_dir), *trusted, *place], LATER) == 3
    folder, away = run_dir / "decisions", tmp_path / "away"
    shutil.copytree(folder, away)
    (folder / "0002.dsse.json").unlink()
    assert gate([str(run_dir), *trusted, *place], LATER) == 1
    assert "2" in capsys.readouterr().err
    assert (
        decided(run_dir, keys, "bob", *place, kind="reject", now=LATER) == 1
    )  # nobody decides on top of a gap
    assert decided(run_dir, keys, "bob", kind="reject", now=LATER) == 0  # another second decision
    assert gate([str(run_dir), *trusted, *place], LATER + timedelta(hours=1)) == 1
    shutil.rmtree(folder)
    assert gate([str(run_dir), *trusted], LATER) == 5  # without a registry nothing shows it
    assert gate([str(run_dir), *trusted, *place], LATER) == 1
    shutil.copytree(away, folder)
    assert gate([str(run_dir), *trusted, *place], LATER) == 3
    assert (
        registry(["forget", str(run_dir), "--reason", "key stolen", *place], LATER) == 1
    )  # they are still there
    shutil.rmtree(folder)
    assert registry(["forget", str(run_dir), "--reason", " ", *place], LATER) == 1
    assert registry(["forget", str(run_dir), "--reason", "key stolen", *place], LATER) == 0
    assert gate([str(run_dir), *trusted, *place], LATER) == 5
    assert registry(["forget", str(run_dir), "--reason", "again", *place], LATER) == 1
    monkeypatch.setattr(database, "_WAITS_S", ())
    capsys.readouterr()
    down = ["--registry", "postgresql://nobody@127.0.0.1:1/audits"]
    assert gate([str(run_dir), *trusted, *down], LATER) == 1 and down[1] in capsys.readouterr().err
    (tmp_path / "empty.db").touch()
    for name in ("misspelt.db", "empty.db"):  # which would know of nothing
        assert gate([str(run_dir), *trusted, "--registry", str(tmp_path / name)], LATER) == 1
        assert name in capsys.readouterr().err
    assert not (tmp_path / "misspelt.db").exists()


def test_decisions_made_without_the_registry_are_noted_later(
    overridden: Path, keys: Path, tmp_path: Path, capsys: Capsys
) -> None:
    from commands_here import registry

    run = Path(shutil.copytree(overridden, tmp_path / "run"))
    place = ["--registry", str(tmp_path / "r.db")]
    assert registry(["add", str(run), *place], NOW) == 0
    assert "noted    1 decisions" in capsys.readouterr().out
    first(run).unlink()
    assert gated(run, keys, *place) == 1


# --- what is refused
# -------------------------------------------------------------------------------------------------


def test_a_decision_without_effect_is_refused(run_dir: Path, keys: Path, capsys: Capsys) -> None:
    for kind, who, words, why in (
        ("approve", "alice", (), "approvals are for a review"),
        ("override", "mallory", (), "no public key among the trusted"),
        ("override", "alice", ("--reason", "  "), "The reason has 0"),
        ("override", "alice", ("--expires", "2026-11-19"), "in the future"),
        ("override", "alice", ("--expires", "2036-12-31"), "at most"),
        ("override", "alice", ("--expires", "2026-12-31T10:00:00"), "no time zone"),
        ("override", "alice", ("--expires", "soon"), "2027-01-31T18:00:00"),
        ("override", "nobody", (), "cannot be read"),
        ("reject", "alice", ("--expires", "2026-12-31"), "does not expire"),
    ):
        assert decided(run_dir, keys, who, *words, kind=kind) == 1
        assert why in capsys.readouterr().err
    (run_dir / "report" / "verdict.json").unlink()
    assert decided(run_dir, keys, "alice") == 1
    assert not (run_dir / "decisions").exists()


def test_a_failed_run_passes_by_nobodys_word(overridden: Path, keys: Path, tmp_path: Path) -> None:
    people = [Decided(Kind.OVERRIDE, who, "r", NOW, LATER) for who in ("alice", "bob", "carol")]
    assert honour(failed("run", "why"), people, ("dave",), 1, NOW).exit_code == 1
    run = Path(shutil.copytree(overridden, tmp_path / "run"))
    rewrite(run / "manifest.json", lambda plain: plain.update({"status": "failed"}))
    assert gated(run, keys) == 1


def ruling(word: str) -> Ruling:
    return rule(typed(verdict_named(word)))


@pytest.mark.parametrize(
    ("word", "kinds", "run_by", "approvals", "code"),
    [
        ("gain_uncontrolled", {"alice": "approve"}, ("carol",), 1, 0),
        ("gain_uncontrolled", {"alice": "approve"}, (), 1, 4),  # alice may have run it herself
        ("gain_uncontrolled", {"alice": "approve"}, ("carol", ""), 1, 4),
        ("gain_uncontrolled", {"alice": "approve", "bob": "override"}, (), 1, 0),
        ("gain_uncontrolled", {"alice": "approve"}, ("alice",), 1, 4),
        ("gain_uncontrolled", {"alice": "approve", "bob": "approve"}, ("alice", "bob"), 2, 4),
        ("gain_uncontrolled", {"alice": "approve", "bob": "approve"}, ("alice",), 2, 0),
        ("gain_uncontrolled", {"alice": "approve", "bob": "reject"}, ("carol",), 1, 3),
        ("excess", {"alice": "approve", "bob": "approve"}, ("carol",), 1, 3),
        ("excess", {"alice": "override"}, ("carol",), 1, 0),
        ("excess", {"alice": "reject"}, ("carol",), 1, 3),
        ("underpowered", {"alice": "approve"}, ("carol",), 1, 5),
        ("underpowered", {"alice": "override"}, ("carol",), 1, 0),
        ("no_excess_detected", {}, (), 1, 0),
        ("no_excess_detected", {"alice": "reject"}, ("carol",), 1, 3),
    ],
)
def test_who_can_let_what_pass(
    word: str, kinds: dict[str, str], run_by: tuple[str, ...], approvals: int, code: int
) -> None:
    people = [
        Decided(Kind(k), who, "r", NOW, None if k == "reject" else LATER)
        for who, k in kinds.items()
    ]
    outcome = honour(ruling(word), people, run_by, approvals, NOW)
    assert outcome.exit_code == code
    assert (outcome.decision == "pass") == (code == 0)
    assert outcome.overridden == (code == 0 and word != "no_excess_detected")
    if "reject" not in kinds.values():  # expired: nothing but the verdict is left
        assert (
            honour(ruling(word), people, run_by, approvals, LATER).exit_code
            == ruling(word).exit_code
        )


def test_a_rejected_run_is_red_in_junit() -> None:
    people = [Decided(Kind.REJECT, "alice", "no", NOW, None)]
    xml = JUnitXml.fromstring(
        FORMATS["junit"](honour(ruling("no_excess_detected"), people, (), 1, NOW)).encode()
    )
    assert xml.failures == 1


def test_a_private_key_is_refused_when_others_may_read_it_and_is_never_shown(
    keys: Path, tmp_path: Path, capsys: Capsys, monkeypatch: Patch
) -> None:
    key = Path(shutil.copy(keys / "alice.key", tmp_path / "alice.key"))
    secret = key.read_text().splitlines()[1]
    assert (keys / "alice.key").stat().st_mode & 0o777 == 0o600
    for mode in (0o644, 0o640, 0o604, 0o660):
        key.chmod(mode)
        with pytest.raises(ConfigError, match="others may have read") as caught:
            load_signer(key)
        assert secret not in str(caught.value)
    monkeypatch.setenv("AUDIT_SIGNING_KEY", (keys / "alice.key").read_text())
    assert load_signer(None).public_key == load_signer(keys / "alice.key").public_key
    monkeypatch.setenv("AUDIT_SIGNING_KEY", secret)
    with pytest.raises(ConfigError, match="no readable private key") as caught:
        load_signer(None)
    assert secret not in str(caught.value) and caught.value.__cause__ is None
    assert review(["keygen", "eve", "--out", str(tmp_path)]) == 0
    assert "PRIVATE" not in capsys.readouterr().out
    assert review(["keygen", "eve", "--out", str(tmp_path)]) == 1  # never overwritten
    assert review(["keygen", "../eve", "--out", str(tmp_path)]) == 1


def test_the_queue_lists_what_does_not_pass(
    overridden: Path, run_dir: Path, keys: Path, capsys: Capsys
) -> None:
    trusted = ["--keys", str(keys / "trusted")]
    assert review(["list", str(run_dir.parent), *trusted], LATER) == 0
    out = capsys.readouterr().out
    assert str(run_dir) in out and "1 of 1" in out
    assert review(["list", str(overridden.parent), *trusted], LATER) == 0
    assert "0 of 1" in capsys.readouterr().out
    assert review(["show", str(overridden), *trusted], LATER) == 0
    assert "alice" in capsys.readouterr().out


def test_times() -> None:
    assert parse_time("2027-01-31") == datetime(2027, 1, 31, 23, 59, 59, tzinfo=UTC)
    assert parse_time("2027-01-31T18:00:00+02:00") == datetime(2027, 1, 31, 16, 0, 0, tzinfo=UTC)


@pytest.fixture
def panel(run_dir: Path, tmp_path: Path) -> Path:
    """A panel of one run, with that run's report as its own."""
    folder = tmp_path / "panel"
    shutil.copytree(run_dir / "report", folder / "report")
    write_panel(folder, [run_dir])
    return folder


def test_a_decision_on_a_panel_binds_every_run_of_it(
    panel: Path, run_dir: Path, keys: Path, capsys: Capsys
) -> None:
    trusted = ["--keys", str(keys / "trusted")]
    assert gate([str(panel), *trusted], NOW) == 5
    assert review(["list", str(panel.parent), *trusted], NOW) == 0
    listed = capsys.readouterr().out
    assert "1 of 1 runs" in listed  # its run is decided on with it
    assert decided(panel, keys, "carol") == 0
    assert gate([str(panel), *trusted], NOW) == 5  # who ran one of its runs does not decide alone
    assert decided(panel, keys, "alice") == 0
    assert gate([str(panel), *trusted], NOW) == 0
    payload = json.loads(
        base64.b64decode(json.loads((panel / "decisions/0001.dsse.json").read_text())["payload"])
    )
    assert payload["predicate"]["models"] == {"../run": {"m": "abc123"}} and payload["predicate"][
        "run"
    ] == {"../run": "f00"}
    rewrite(run_dir / "manifest.json", lambda plain: plain.update(platform="another"))
    assert gate([str(panel), *trusted], NOW) == 1
    assert "another ../run/manifest.json" in capsys.readouterr().err


def test_runs_of_one_name_are_all_bound(panel: Path, run_dir: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run_dir, tmp_path / "elsewhere" / run_dir.name))
    write_panel(panel, [run_dir, other])
    bound = bound_to(panel, failed("panel", ""))
    assert {"../run/manifest.json", "../elsewhere/run/manifest.json"} < set(bound.subjects)
    assert set(bound.facts["models"]) == {"../run", "../elsewhere/run"}


@pytest.mark.usefixtures("no_figures")
def test_the_pack_of_merged_runs_has_each_of_them_and_its_verdict_is_computed_again(
    run_dir: Path, other: Path, keys: Path, tmp_path: Path, capsys: Capsys
) -> None:
    pack, panel, trusted = (
        tmp_path / "pack.zip",
        tmp_path / "merged",
        ["--keys", str(keys / "trusted")],
    )
    sign = ["-o", str(pack), "--key", str(keys / "alice.key"), "--with-shards"]
    assert report([str(run_dir), str(other), "--out", str(panel)]) == 0
    assert evidence([str(panel), *sign]) == 0
    assert evidence(["verify", str(pack), *trusted]) == 0
    assert "computed again from the shards: the same bytes" in capsys.readouterr().out
    with zipfile.ZipFile(pack) as archive:
        names = set(archive.namelist())
    both = {
        f"run/{run}/{file}" for run in ("run", "other") for file in ("manifest.json", "shards.json")
    }
    assert both | {"run/panel.json", "run/report/verdict.json", "run/report/report.html"} <= names
    data = pack.read_bytes()
    at = data.index(b'"fingerprint"', data.index(b"run/run/manifest.json"))
    pack.write_bytes(data[:at] + b"\x01" + data[at + 1 :])
    assert evidence(["verify", str(pack), *trusted]) == 1
    assert "manifest.json" in capsys.readouterr().err
    # Whoever holds a key and writes other verdicts, of the panel and of one of its runs, is found
    # by the shards.
    texts = {
        path: path.read_text()
        for path in (panel / "verdict.json", run_dir / "report" / "verdict.json")
    }
    for path, text in texts.items():
        path.write_text(text.replace('"underpowered"', '"no_excess_detected"'))
    assert evidence([str(panel), *sign, "--force"]) == 0
    assert evidence(["verify", str(pack), *trusted]) == 1
    err = capsys.readouterr().err
    assert "(run/report/verdict.json: cells[" in err and "; run/run/report/verdict.json: " in err
    for path, text in texts.items():
        path.write_text(text)
    shutil.copy(panel / "verdict.json", run_dir / "report")
    assert evidence([str(panel), *sign, "--force"]) == 1
    assert "covers 2 runs" in capsys.readouterr().err


def test_a_folder_of_several_runs_is_told_the_command_that_reports_them(
    run_dir: Path, tmp_path: Path, capsys: Capsys
) -> None:
    write_panel(tmp_path / "panel", [run_dir])
    assert report([f"{tmp_path / 'panel'}/"]) == 1
    assert f"audit report {tmp_path / 'panel'}" in (message := capsys.readouterr().err)
    assert message.split()[-2:] == [
        "--out",
        f"{tmp_path / 'panel'}_2",
    ]  # not the folder whose page it would overwrite


def test_a_failed_check_that_is_a_reason_is_told_once() -> None:
    failed = (("parse", "Read: 3 of 9."), ("chance", "Right: 1 of 9."))
    cell = CellRuling(
        "sweep",
        "m",
        "b",
        "withheld",
        Grade.CHECK_FAILED,
        Decision.NO_DECISION,
        "h",
        ("Parsed: Read: 3 of 9.",),
        (),
        (),
        failed,
    )
    ruling = Ruling("r", Decision.NO_DECISION, 5, Decision.NO_DECISION, cells=(cell,))
    for kind in ("junit", "markdown"):
        assert [FORMATS[kind](ruling).count(quoted) for quoted in ("3 of 9", "1 of 9")] == [1, 1]
