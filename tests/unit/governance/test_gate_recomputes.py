"""The gate judges the answers, and believes neither an edited report nor a run with something taken
out."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from commands_here import gate as main
from commands_here import registry, report
from governed import NOW, Capsys, decided, gated, rewrite, shard_of

from audit.core.errors import ConfigError
from audit.governance.keys import create_key, load_trusted
from audit.governance.recompute import difference, recomputed_verdict
from audit.judging.decision import read_document
from audit.shards.panel import write_panel


def verdict(run: Path, **new: Any) -> None:
    """Edit the one cell of a run's verdict.json."""
    rewrite(run / "report" / "verdict.json", lambda plain: plain["cells"][0].update(new))


@pytest.mark.parametrize(
    ("stored", "computed", "same"),
    [
        ({"a": 0.1234}, {"a": 0.12340001}, True),  # the last digits are another library's
        ({"a": 0.1234}, {"a": 0.1244}, False),
        ({"a": None}, {"a": 0.1}, False),
        ({"a": True}, {"a": 1}, False),
        ({"cells": [{"verdict": "x"}]}, {"cells": []}, False),
        ({"headline": "one"}, {"headline": "two"}, True),
        ({"reason_codes": []}, {"reason_codes": [{"code": "falls"}]}, True),
        (
            {"gates": [{"name": "a", "status": "pass"}]},
            {"gates": [{"name": "a", "status": "fail"}]},
            False,
        ),
        ({"new": 1}, {"old": 2}, True),  # another version's
        ({}, {"suite": {}}, False),
        ({"suite": {"gate": "source"}}, {"suite": {"gate": "ours"}}, False),
    ],
)
def test_what_counts_as_another_verdict(stored: Any, computed: Any, same: bool) -> None:
    assert (difference(stored, computed) == "") == same == (difference(computed, stored) == "")


def test_what_cannot_be_judged_again_is_said_whatever_is_wrong_with_it(run_dir: Path) -> None:
    rewrite(run_dir / "manifest.json", lambda plain: plain.update(stop={"asked": []}))
    stored = read_document(run_dir / "report" / "verdict.json")
    recomputed, why = recomputed_verdict(run_dir, stored, lambda folder: lambda verdicts: {})
    assert recomputed is None and why


def test_a_registered_run_with_other_bytes_is_refused(
    run_dir: Path, tmp_path: Path, capsys: Capsys
) -> None:
    """Its verdict at its place; its manifest in a copy; and answers under the same fingerprint."""
    place = ["--registry", str(tmp_path / "r.db"), "--trust-report"]
    assert registry(["add", str(run_dir), *place[:2]], NOW) == 0
    copies = [
        Path(shutil.copytree(run_dir, tmp_path / name)) for name in ("same", "manifest", "answers")
    ]
    assert [main([str(run), *place]) for run in (run_dir, *copies)] == [5, 5, 5, 5]
    verdict(run_dir, verdict="no_excess_detected")
    rewrite(copies[1] / "manifest.json", lambda plain: plain.update(platform="another"))
    rewrite(copies[2] / "manifest.json", lambda plain: plain["shards"][0].update(sha256="0" * 64))
    capsys.readouterr()
    for edited, part in ((run_dir, "verdict"), (copies[1], "manifest")):
        assert main([str(edited), *place]) == 1
        assert f"but its {part} changed" in capsys.readouterr().err
    assert main([str(copies[2]), *place]) == 1


@pytest.fixture
def merged(run_dir: Path, other: Path, tmp_path: Path, no_figures: None) -> Path:
    """A panel of two runs."""
    copy = Path(shutil.copytree(other, tmp_path / "other"))
    assert report([str(run_dir), str(copy), "--out", str(tmp_path / "merged")]) == 0
    return tmp_path / "merged"


def test_a_panel_is_judged_over_all_its_runs_and_names_each_once(
    merged: Path, run_dir: Path, tmp_path: Path, capsys: Capsys
) -> None:
    whole = (merged / "verdict.json").read_bytes()
    rewrite(
        merged / "verdict.json",
        lambda plain: [
            c.update(verdict="no_excess_detected", grade="cleared") for c in plain["cells"]
        ],
    )
    assert main([str(merged)]) == 1 and main([str(merged), "--trust-report"]) == 0
    (merged / "verdict.json").write_bytes(whole)
    assert main([str(merged)]) == main([str(merged), "--trust-report"]) == 5
    second = tmp_path / "other"
    lost = shard_of(second).rename(tmp_path / "lost")
    assert main([str(merged), "--trust-report"]) == 1  # an answer is missing
    lost.rename(second / "shards" / "back.arrow")
    second.rename(tmp_path / "away")
    capsys.readouterr()
    assert main([str(merged), "--trust-report"]) == 1
    assert "1 of the 2 runs" in capsys.readouterr().err
    copy = Path(shutil.copytree(run_dir, tmp_path / "copy"))
    for runs in (
        [run_dir, run_dir],
        [run_dir, copy],
        [run_dir],
    ):  # the other's shards could go unseen
        write_panel(merged, runs)
        assert main([str(merged), "--trust-report"]) == 1
    (merged / "panel.json").unlink()
    assert main([str(merged), "--trust-report"]) == 1


@pytest.mark.usefixtures("no_figures")
def test_a_report_of_several_runs_is_gated_where_it_is_written_and_leaves_the_runs_theirs(
    run_dir: Path, other: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(other, tmp_path / "other"))
    before = (run_dir / "report" / "verdict.json").read_bytes()
    assert report([str(run_dir), str(copy)]) == 0
    assert (run_dir / "report" / "verdict.json").read_bytes() == before
    assert main([str(run_dir.parent / f"joint-{run_dir.name}")]) == main([str(run_dir)]) == 5


@pytest.mark.parametrize(
    ("run_by", "alone", "two"),
    [
        ("bob", 0, 0),
        ("alice", 5, 0),
        ("Alice", 5, 0),
        ("alice ", 5, 0),
        ("alice@example.org", 5, 0),  # names no trusted key: nobody knows who that is
        ("", 5, 0),
        ("\u0430lice", 5, 0),  # a Cyrillic a
    ],
)
def test_who_ran_the_audit_is_told_by_name_however_it_is_spelt(
    run_by: str, alone: int, two: int, run_dir: Path, keys: Path
) -> None:
    rewrite(run_dir / "manifest.json", lambda plain: plain.update(run_by=[run_by]))
    for who, code in (("alice", alone), ("bob", two)):
        assert decided(run_dir, keys, who) == 0
        assert gated(run_dir, keys, now=NOW) == code


@pytest.mark.parametrize("name", ["Alice", "\u0430lice", "al ice"])
def test_two_names_that_could_be_one_are_refused(name: str, keys: Path, tmp_path: Path) -> None:
    trusted = Path(shutil.copytree(keys / "trusted", tmp_path / "trusted"))
    _, public = create_key("new", tmp_path)
    shutil.copy(public, trusted / f"{name}.pub")
    with pytest.raises(
        ConfigError, match=r"differ only in upper and lower case|the signer's name is"
    ):
        load_trusted(trusted)


@pytest.mark.parametrize("file", ["manifest.json", "report/verdict.json"])
def test_a_changed_byte_sheds_no_rejection(
    file: str, run_dir: Path, keys: Path, tmp_path: Path
) -> None:
    place = ["--registry", str(tmp_path / "r.db")]
    assert decided(run_dir, keys, "bob", *place, kind="reject") == 0
    assert gated(run_dir, keys, *place) == 3
    with (run_dir / file).open("a") as changed:
        changed.write("\n")
    shutil.rmtree(run_dir / "decisions")
    assert decided(run_dir, keys, "alice", *place) == 1
    assert (
        decided(run_dir, keys, "alice") == 0
    )  # without the registry it can be signed, and helps nothing
    assert gated(run_dir, keys, *place) == 1
    shutil.rmtree(run_dir / "decisions")
    assert registry(["forget", str(run_dir), "--reason", "judged again", *place], NOW) == 0
    assert gated(run_dir, keys, *place) == 5
