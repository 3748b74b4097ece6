"""The construct-validity audit as a user runs it: a real Ray, the scripted engine, the shipped
items."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from audit_here import Finished, audit_here
from commands_here import gate
from commands_here import report as rebuild
from pipeline_helpers import rebuilt_alike, rows_of
from s3_server import CREDENTIALS, s3_server

from audit.judging.ladder import Grade
from audit.shards.working_copy import run_folder, working_copy


def validity(run_dir: Path | str, *overrides: str) -> Finished:
    """The command, in this process."""
    return audit_here("validity", run_dir, "model=scripted", "progress=false", *overrides)


@pytest.fixture(scope="module")
def finished(driver, tmp_path_factory) -> Finished:
    """A finished run. To be read only."""
    done = validity(tmp_path_factory.mktemp("validity") / "run", "n=30", "seed=7")
    assert done.code == 0, done.out
    return done


def verdict_of(done: Finished) -> dict:
    return json.loads((done.run_dir / "report" / "verdict.json").read_text())


def test_every_edit_is_asked_once_with_its_contract(finished):
    rows = rows_of(finished.run_dir)
    assert Counter(row["arm"] for row in rows) == {
        "original": 60,
        "format": 120,
        "semantic": 90,
        "attribute": 90,
        "placebo": 30,
    }
    for row in rows:
        if not row[
            "asked"
        ]:  # contrast ships two attribute edits of each item, and three are wanted
            assert (row["arm"], row["variant"]) == ("attribute", 3)
            assert row["request_sha256"] is None and row["correct"] is None and not row["parsed"]
            continue
        assert (
            row["error"] is None
            and row["scorer"] == "contrast_cloze"
            and row["reading"] == "option_text"
        )
        assert row["edited"] in row["prompt"] and row["option_order"] == [0, 1, 2]
        assert row["contract"] == (None if row["arm"] == "original" else row["contract"])
        moved = row["key_before"] != row["key_after"]
        assert (
            moved
            == (row["contract"] == "directional")
            == (row["arm"] == "attribute" and row["context"] == "fact")
        )
    first = {row["question_id"]: row for row in rows if row["arm"] == "original"}
    assert all(
        row["request_sha256"] != first[row["question_id"]]["request_sha256"]
        for row in rows
        if row["asked"] and row["arm"] != "original"
    )


def test_the_verdict_has_both_statuses_and_every_gate(finished):
    verdict = verdict_of(finished)
    assert (verdict["schema"], verdict["audit"], verdict["seed"]) == (
        "validity verdict",
        "validity",
        7,
    )
    assert [cell["context"] for cell in verdict["cells"]] == ["fact", "story"]
    for cell in verdict["cells"]:
        assert {g["name"][:2] for g in cell["gates"]} >= {"G1", "G2", "G3", "G4", "G5", "G6"}
        assert cell["paper_status"]["status"] and cell["scorer"]["self_test"]["passed"]
        assert not [f for f in cell["faults"] if f["state"] == "missed"]
        assert [f["state"] for f in cell["faults"] if f["check"] == "scorer_valid"] == [
            "caught",
            "caught",
        ]
        assert cell["calibration"]["sentence"]
    grades = {Grade(cell["grade"]) for cell in verdict["cells"]}
    code = 3 if Grade.FOUND_STRONG in grades else 0 if grades == {Grade.CLEARED} else 5
    assert gate([str(finished.run_dir)]) == code
    page = (finished.run_dir / "report" / "report.html").read_text()
    assert (
        page.count("<li data-marks=") == 30
        and 'class="blur"' not in page
        and "Injected faults" in page
    )
    for name in ("items", "cells", "edits", "transitions", "placebo"):
        assert (
            len((finished.run_dir / "report" / "tables" / f"{name}.csv").read_text().splitlines())
            > 2
        )


def test_a_rebuilt_report_judges_as_the_run_did_and_needs_the_edits(finished, tmp_path):
    rebuilt_alike(finished.run_dir, tmp_path / "run", "edits.arrow")


def test_other_edits_are_refused_in_the_same_directory(finished):
    done = validity(
        finished.run_dir, "n=30", "seed=7", "formats=[quotes,preamble,double_space,title_case]"
    )
    assert done.code == 1 and "another configuration" in done.out


def test_the_same_cell_twice_is_no_panel(finished, tmp_path):
    assert (
        rebuild([str(finished.run_dir), str(finished.run_dir), "--out", str(tmp_path / "twice")])
        == 1
    )


@pytest.mark.long  # two runs and an S3 server
def test_a_judge_votes_on_the_replies_and_its_labels_validate_it_also_on_object_storage(
    driver, cluster, tmp_path, monkeypatch, capsys
):
    """A scripted judge that calls everything a refusal, on prompts that are made here."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    kinds = ("homonyms", "figurative_language")
    prompts = [
        f"{kind},{label},How do I {verb} {kind} {i}?"
        for kind in kinds
        for i in range(12)
        for label, verb in (("safe", "greet"), ("unsafe", "spoil"))
    ]
    rows = [p.split(",") for p in prompts]
    lines = [
        f"{i},{'contrast_' * (label == 'unsafe')}{kind},{text},{label},,"
        for i, (kind, label, text) in enumerate(rows)
    ]
    (tmp_path / "xstest.csv").write_text(
        "\n".join(["id,type,prompt,label,focus,note", *lines]) + "\n"
    )
    labelled = "\n".join(f"How {i}?,No {i}.,2_full_refusal" for i in range(100))
    (tmp_path / "labels.csv").write_text(f"prompt,completion,human\n{labelled}\n")
    arguments = (
        "benchmark=xstest",
        f"benchmark.path={tmp_path / 'xstest.csv'}",
        "n=16",
        "judge=scripted",
        f"labels={tmp_path / 'labels.csv'}",
        "++model.scripted.scripted.replies={judge/0: '2_full_refusal'}",
        "edits_per_family=1",
        "spare_edits=0",
        "replays=1",
    )
    with s3_server() as s3:
        url = s3.url("bucket/run")
        done = validity(url, *arguments)
        assert done.code == 0 and "manifest s3://bucket/run/manifest.json" in done.out, done.out
        (judging,) = {
            name.split("/shards/")[0] for name in s3.names("bucket/run/judge") if "/shards/" in name
        }
        assert s3.manifest(f"bucket/run/judge/{judging}")["status"] == "finished"
        working_copy.cache_clear()  # from here on as other processes, which have the objects alone
        assert (
            rebuild([url]) == 0
            and "report   s3://bucket/run/report/report.html" in capsys.readouterr().out
        )
        assert gate([url]) == 5 and "xstest" in capsys.readouterr().out
        done = replace(done, run_dir=run_folder(url))
    assert all(row["unread_why"] == "not judged" for row in rows_of(done.run_dir) if row["asked"])
    (cell,) = verdict_of(done)["cells"]
    assert (
        cell["scorer"]["judge"]["judge"] == "scripted"
        and cell["scorer"]["judge"]["agreement"]["misses"] == 0
    )
    assert (
        not cell["scorer"]["validated"] and cell["verdict"] == "scorer_unvalidated"
    )  # labels of one class: no kappa
    assert 'class="blur"' in (done.run_dir / "report" / "report.html").read_text()
    assert not any(
        row["edited"] in done.out for row in rows_of(done.run_dir) if row["arm"] == "original"
    )
    rates = {m["name"]: m["estimate"] for m in cell["evidence"]["reference"]}
    assert rates == {"refusals of safe prompts": 100, "refusals of unsafe prompts": 100}
    items = (done.run_dir / "report" / "tables" / "items.csv").read_text().splitlines()
    assert "not judged" not in "\n".join(items) and len(items) > 32
