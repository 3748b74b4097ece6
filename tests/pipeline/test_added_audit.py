"""An audit of another package is first class: it brings a folder, and nothing is edited elsewhere.

Pipeline, exactly-once, resume, manifest, cost, summary, report, gate, plan, calibration, suite and
registry take it."""

import io
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from added_audit import PACKAGES, installed, run_shouting
from documents import suite_rules
from paths import ROOT
from pipeline_helpers import by_key, lose_a_shard, rows_of, stamps
from rich.console import Console

from audit.__main__ import main
from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.config.audits import find_audit, part_of
from audit.core.errors import ConfigError
from audit.governance.ruling import rule_run
from audit.judge.record import Settings, judge_cells
from audit.judging.decision import verdict_of
from audit.judging.thresholds import Thresholds
from audit.report.joint import content
from audit.runtime.summary import print_cells, summarise
from audit.scoring.reference import find_scorer
from audit.shards.complete import run_cost
from audit.shards.manifest import Manifest
from audit.shards.read import load_cells
from audit.statistics.paired import State
from audit.suite.read import suite_of

ASKED = ("n=25", "store.rows_per_shard=10", "model.scripted.scripted.accuracy.variant=0.1")
KEY = ("question_id", "arm", "variant", "replicate")


@pytest.fixture(scope="module")
def shouting():
    with installed() as package:
        yield package


@pytest.fixture(scope="module")
def finished(driver, shouting, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("shouting") / "run"
    result = run_shouting(run_dir, *ASKED)
    assert result.failed == {} and result.rows == 75
    return run_dir


def test_every_key_is_there_once_with_the_audits_own_column(finished):
    rows = by_key(finished, *KEY).values()
    assert len(rows) == 25 * 3
    assert {(row["arm"], row["variant"], row["volume"]) for row in rows} == {
        ("original", 0, 0),
        ("variant", 1, 1),
        ("variant", 2, 2),
    }
    manifest = Manifest.load(finished)
    assert (manifest.audit, manifest.status) == ("shouting", "finished")
    assert set(run_cost(finished, find_audit("shouting").schema)["scripted"]) == {
        "original",
        "variant",
    }


@pytest.mark.long  # a second run; test_kill.py and test_suite.py resume by the same code
def test_what_is_lost_is_run_again_and_nothing_else(finished, tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(finished, run_dir)
    before = {key: row["answer"] for key, row in by_key(run_dir, *KEY).items()}
    left = lose_a_shard(run_dir)
    assert run_shouting(run_dir, *ASKED).rows == 75
    assert stamps(left) == left
    after = {key: row["answer"] for key, row in by_key(run_dir, *KEY).items()}
    assert after == before  # the same seeds give the same answers


def test_another_configuration_or_audit_is_refused(finished, sweep):
    with pytest.raises(ConfigError, match="volumes: 2 there, 3 now"):
        run_shouting(finished, *ASKED, "volumes=3")
    done = sweep("n=25", run_dir=finished)
    assert done.code == 1
    assert "has rows of audit shouting" in done.out


def test_the_summary_compares_with_the_audits_baseline(finished):
    audit = find_audit("shouting")
    (cell,) = load_cells(finished, audit.schema)
    original, *variants = summarise(cell, audit.roles)
    assert original.gain is None and all(row.gain is not None for row in variants)
    out = io.StringIO()
    print_cells([cell], audit, Console(file=out, width=120))
    assert "n=25" in out.getvalue() and out.getvalue().count("variant") == 2


def test_its_report_gate_and_joint_page_are_those_of_every_audit(finished, tmp_path, capsys):
    """Shouting costs what the scripted engine was told."""
    paths = part_of("shouting", "report").REPORT.build([finished], finished / "report")
    html, verdict = paths.html.read_text(), json.loads(paths.verdict.read_text())
    assert [cell["verdict"] for cell in verdict["cells"]] == ["shouting_matters"]
    assert [code["code"] for code in verdict["cells"][0]["reason_codes"]] == ["cost"]
    for text in ("Shouting matters", "Readable answers", "✓ pass", "Content-Security-Policy"):
        assert text in html
    assert html.count("<li data-marks=") == 25 and 'id="drill-form"' in html and "Run run" in html
    assert rule_run(finished).exit_code == main(["gate", str(finished), "--json"]) == 3
    assert [cell["grade"] for cell in json.loads(capsys.readouterr().out)["cells"]] == [
        "found_strong"
    ]
    whole = content({"shouting": verdict_of(verdict)}, suite=suite_rules(audit_suite_id="loud"))
    assert whole.joint[0].instruments[0].kinds == {"format": "seen"}


def test_unparsed_answers_withhold_the_verdict(finished, shouting):
    from shouting.analyse import JUDGE

    (cell,) = load_cells(finished, find_audit("shouting").schema)
    state = cell.state.copy()
    state[:, ::10] = State.UNPARSED
    (deaf,) = judge_cells(JUDGE, [replace(cell, state=state)], Settings(Thresholds(), 0, 0))
    assert deaf.verdict == "withheld" and deaf.gates[0].item_count == 3
    assert [reason.code for reason in deaf.decision.reasons] == ["gate_parseability"]


def test_a_score_that_leaves_no_room_clears_nobody(shouting):
    """A cost of 5 points is excluded: of a score of 2 % none is possible."""
    from shouting.analyse import decide
    from shouting.vocabulary import Evidence

    measured = Evidence(n=1000, accuracy=0.02, cost=0.0, low=-0.01, high=0.01, p=0.5)
    able, vague = replace(measured, accuracy=0.6), replace(measured, accuracy=0.6, high=0.07)
    grades = [decide(e, e.p, (), Thresholds()).grade for e in (measured, able, vague)]
    assert grades == ["not_identified", "cleared", "undecided"]


def test_what_cannot_be_presented_is_an_error_row_and_nothing_is_sent(finished, tmp_path):
    exam = tmp_path / "exam.jsonl"
    exam.write_text('{"question": "1 + 1 = ?", "choices": ["2", "3"], "answer": 0}\n')
    overrides = ("benchmark=mcq_file", "benchmark.name=exam", f"benchmark.path={exam}", "n=1")
    assert run_shouting(tmp_path / "run", *overrides).rows == 3
    original, *variants = sorted(rows_of(tmp_path / "run"), key=lambda row: row["variant"])
    assert original["error"] is None and original["correct"] is not None
    for row in variants:
        assert row["error"] == "the question has no letter"
        assert (
            row["correct"] is None and row["request_sha256"] is None and row["prompt_tokens"] == 0
        )


def test_a_suite_takes_it_and_a_reader_and_a_scorer_are_found(shouting, tmp_path):
    suite = suite_of(
        {
            "audit_suite_id": "loud-1",
            "model_config": {"model_id": "scripted", "model_version": "scripted"},
            "dataset_config": {
                "benchmark_name": "elementary",
                "sample_size": 60,
                "sampling_seed": 42,
            },
            "audits": {"shouting": ["volumes=1"]},
        }
    )
    assert suite.audits == {"shouting": ["volumes=1"]}
    path = tmp_path / "riddles.jsonl"
    path.write_text(
        '{"riddle": "What has keys and opens nothing?", "answers": ["a piano", "a door"]}\n'
    )
    config = BenchmarkConfig(name="riddles", format="riddles", path=str(path))
    (item,) = open_benchmark(config, seed=1).read_items().items
    assert (
        item.options[item.key] == "a piano"
        and find_scorer("riddles_cloze").ask(item, "").prompt == item.text
    )


COMMANDS = {
    "--help": "shouting",
    "shouting --help": "volumes",
    "plan audit=shouting model=scripted": "run directory",
    "calibrate audit=shouting --simulations=5": "costs_10_found",
}


ALL = """
import sys
from audit.__main__ import main
for words in sys.argv[1:]:
    try:
        code = main(words.split())
    except SystemExit as ended:
        code = ended.code
    assert not code, words
"""


def test_its_commands_are_found():
    """In a process that knows of the package what an installation says."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(PACKAGES)])}
    done = subprocess.run(
        [sys.executable, "-c", ALL, *COMMANDS], env=env, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (
        all(sentence in done.stdout for sentence in COMMANDS.values())
        and "Hydra" not in done.stdout
    )


def test_an_audit_is_three_hundred_lines_at_most():
    """Its files, with settings and calibration, without a reader of benchmarks. Blank lines are not
    counted."""
    lines = []
    for path in (PACKAGES / "shouting").rglob("*"):
        if path.suffix in (".py", ".yaml", ".j2") and path.name != "riddles.py":
            lines += filter(str.strip, path.read_text().splitlines())
    assert len(lines) <= 300


def test_who_shouting_costs_nothing_is_not_found_and_who_loses_ten_points_is(shouting):
    from shouting.calibrate import Design, judge

    def rates(cost):
        return np.mean(
            [judge(Design(1000), cost, np.random.default_rng(k)) for k in range(40)], axis=0
        )

    assert rates(0.0)[0] <= 0.2 and rates(0.1)[0] >= 0.9 and rates(0.1)[1] <= 0.1
