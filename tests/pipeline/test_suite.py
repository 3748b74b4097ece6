"""A suite as a user runs it: four audits of the scripted engine in one Ray, interrupted, resumed,
gated and packed."""

import json
import signal
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from audit_here import heard, undrawn
from commands_here import evidence, gate, registry
from commands_here import report as rebuild
from commands_here import suite as main
from pipeline_helpers import engines, launch, rows_of, until

from audit.config.audits import find_audit
from audit.core.errors import ConfigError
from audit.core.exits import INTERRUPTED
from audit.governance.formats import FORMATS
from audit.governance.keys import create_key
from audit.governance.ruling import rule_run
from audit.registry.database import open_registry
from audit.registry.store import cell_records
from audit.runtime import keep
from audit.shards.manifest import Manifest
from audit.suite.judge import judge_suite

AUDITS = {
    "sweep": [
        "r=1",
        "arms=[forward_full,noisy_rewrite]",
        "clean_replicates=1",
        "noisy_replicates=1",
    ],
    "perturb": ["num_variants=2"],
    "memory": ["option_orders=1"],
    "validity": ["benchmark=contrast", "n=6", "edits_per_family=1"],
}
SUITE = {
    "audit_suite_id": "tiny",
    "model_config": {"model_id": "scripted", "model_version": "scripted"},
    "dataset_config": {"benchmark_name": "elementary", "sample_size": 12, "sampling_seed": 7},
    "audits": AUDITS,
    "domains": {"general": {"review_required_above_cs": 0.5}},
}


@dataclass
class Walked:
    """A suite that was interrupted within its second audit, and resumed. engines: started by the
    second start."""

    run_dir: Path
    suite: Path
    gated_between: tuple[int, str]
    shards_between: dict[str, int]
    code: int
    out: str
    engines: Counter[str]


def command(suite: Path, run_dir: Path, *words: str) -> tuple[int, str]:
    return heard(lambda: main([str(suite), f"run_dir={run_dir}", "progress=false", *words]))


def interrupted(env: dict[str, str], suite: Path, run_dir: Path, shards: Path) -> tuple[int, str]:
    """Exit code and output of the real command, stopped by Ctrl-C once a folder has a shard."""
    slow = (
        "model.scripted.scripted.latency_s=0.3",
        "store.rows_per_shard=8",
        "cluster.chunks_in_flight=1",
    )
    words = [sys.executable, "-m", "audit", "suite", str(suite), f"run_dir={run_dir}", *slow]
    process = launch(words, env)
    until(lambda: list(shards.glob("*.arrow")), process)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=900)
    return process.returncode, out


def times_of(run_dir: Path) -> dict[str, int]:
    return {
        str(path.relative_to(run_dir)): path.stat().st_mtime_ns
        for path in run_dir.glob("*/shards/*.arrow")
    }


@pytest.fixture(scope="module")
def walked(cluster, driver, tmp_path_factory) -> Walked:
    folder = tmp_path_factory.mktemp("suite")
    suite, run_dir = folder / "suite.json", folder / "run"
    suite.write_text(json.dumps(SUITE))
    stopped, said_then = interrupted(cluster.env, suite, run_dir, run_dir / "perturb" / "shards")
    assert stopped == INTERRUPTED, said_then
    part = rows_of(run_dir / "perturb")
    assert (
        f"Stopped: {len(part)} rows kept in {run_dir / 'perturb'}; the same command goes on"
        in said_then
    )
    assert not [mark for mark in ("Traceback", "[E ", "logging.cc", "***") if mark in said_then], (
        said_then
    )
    between = heard(lambda: gate([str(run_dir)]))
    times, before = times_of(run_dir), engines()
    with undrawn():
        code, out = command(suite, run_dir)
    return Walked(run_dir, suite, between, times, code, out, engines() - before)


def test_what_was_interrupted_does_not_pass_and_what_finished_is_not_done_again(walked):
    code, out = walked.gated_between
    assert (
        code == 1
        and "sweep finished, 24 of 24 answers; perturb stopped" in out
        and "memory not started" in out
    )
    now = times_of(walked.run_dir)
    assert walked.shards_between and all(
        now[path] == when for path, when in walked.shards_between.items()
    )
    attempts = {audit: Manifest.load(walked.run_dir / audit).attempts for audit in AUDITS}
    assert attempts == {"sweep": 1, "perturb": 2, "memory": 1, "validity": 1}
    assert "finished already" in walked.out


def test_one_engine_answers_all_audits_and_each_row_is_there_once(walked):
    assert walked.engines == {"DEAD": 1} and keep._kept_pools is None
    for audit in AUDITS:
        rows, key = rows_of(walked.run_dir / audit), find_audit(audit).schema.key
        keys = [tuple(row[name] for name in key) for row in rows]
        assert rows and len(set(keys)) == len(keys)
        assert not [row for row in rows if row["error"] is not None and row.get("asked", True)]


def test_one_report_one_verdict_one_exit_code(walked, capsys):
    verdict = json.loads((walked.run_dir / "report" / "verdict.json").read_text())
    assert set(verdict["audits"]) == set(AUDITS)
    suite = verdict["suite"]
    assert suite["model"] == {
        "claimed": False,
        "found": "scripted",
        "name": "scripted",
        "stated": "scripted",
    }
    assert (suite["domain"], suite["thresholds"]["review_required_above_cs"]) == ("general", 0.5)
    (source,) = suite["source"]
    assert source["n"] == 12 and {number["name"] for number in source["numbers"]} < set(
        suite["thresholds"]
    )
    ruling = rule_run(walked.run_dir)
    assert not ruling.problem and {cell.audit for cell in ruling.cells} == set(AUDITS)
    assert (
        walked.code == ruling.exit_code and walked.code in (0, 3, 4, 5) and "RULE  " in walked.out
    )
    for name in FORMATS:
        assert gate([str(walked.run_dir), "--format", name, "--trust-report"]) == walked.code
        assert "false positives" in capsys.readouterr().out, name
    pages = [walked.run_dir / folder / "report" / "report.html" for folder in ("", *AUDITS)]
    assert all(page.is_file() for page in pages) and "Suite tiny" in pages[0].read_text()


def test_the_evidence_packs_of_a_suite_and_of_two_of_its_audits_verify(walked, tmp_path, capsys):
    private, public = create_key("alice", tmp_path)
    (tmp_path / "trusted").mkdir()
    public.rename(tmp_path / "trusted" / public.name)
    pack = tmp_path / "pack.zip"
    signed = [str(walked.run_dir), "-o", str(pack), "--key", str(private)]
    assert evidence(signed) == 0
    assert evidence(["verify", str(pack), "--keys", str(tmp_path / "trusted")]) == 0
    assert "not computed again" in capsys.readouterr().out
    assert evidence([*signed, "--with-shards", "--force"]) == 0
    assert evidence(["verify", str(pack), "--keys", str(tmp_path / "trusted")]) == 0
    assert "computed again from the shards: the same bytes" in capsys.readouterr().out
    two = [str(walked.run_dir / "sweep"), str(walked.run_dir / "perturb")]
    assert rebuild([*two, "--out", str(tmp_path / "joint")]) == 0
    assert (
        evidence(
            [str(tmp_path / "joint"), "-o", str(pack), "--unsigned", "--with-shards", "--force"]
        )
        == 0
    )
    assert evidence(["verify", str(pack), "--unsigned"]) == 0, capsys.readouterr().err
    assert "computed again from the shards: the same bytes" in capsys.readouterr().out


def test_each_run_of_a_suite_is_registered_and_their_suite_is_one(walked, tmp_path, capsys):
    place = str(tmp_path / "registry.db")
    assert registry(["add", str(walked.run_dir), "--registry", place]) == 0, capsys.readouterr().err
    rows = {record.run["audit"]: record.run for record in cell_records(open_registry(place))}
    assert set(rows) == set(AUDITS) and {row["retention_days"] for row in rows.values()} == {365}
    assert (
        len({row["suite_sha256"] for row in rows.values()}) == 1
        and rows["sweep"]["suite"] == "tiny"
    )


def test_a_suite_that_was_changed_after_its_verdict_does_not_pass(walked, capsys):
    suite = walked.run_dir / "suite.json"
    before = suite.read_text()
    suite.write_text(before.replace('"gate": "ours"', '"gate": "source"'))
    try:
        assert gate([str(walked.run_dir)]) == 1 and "suite.json" in capsys.readouterr().err
        with pytest.raises(
            ConfigError
        ):  # nor is its report built again: each run has the suite beside it
            judge_suite(walked.run_dir, walked.run_dir / "elsewhere")
    finally:
        suite.write_text(before)
    assert gate([str(walked.run_dir)]) == walked.code


def test_the_same_command_again_starts_no_engine_and_says_the_same(walked):
    before, verdict = engines(), (walked.run_dir / "report" / "verdict.json").read_bytes()
    code, out = command(walked.suite, walked.run_dir)
    assert (code, out.count("finished already")) == (walked.code, 4) and engines() == before
    assert (walked.run_dir / "report" / "verdict.json").read_bytes() == verdict


def test_another_suite_does_not_go_into_its_directory(walked):
    code, out = command(
        walked.suite, walked.run_dir, "governance.review_required_above_cs=0.9", "sweep.r=1..2"
    )
    assert code == 1 and "suite.governance.review_required_above_cs" in out and "words.sweep" in out
