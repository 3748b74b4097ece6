"""A new audit is a record: pipeline, exactly-once, resume, manifest, cost and summary take it as it is."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace

import pytest
import toy_audit
from pipeline_helpers import rows_of
from ray import cloudpickle
from rich.console import Console
from toy_audit import TOY, VERDICTS, judge, page
from toy_run import run_toy

from audit.errors import ConfigError
from audit.shards.cost import run_cost
from audit.shards.manifest import Manifest
from audit.shards.read import load_cells
from audit.statistics.paired import State
from audit.summary import print_cells, summarise

ASKED = ("n=25", "store.rows_per_shard=10", "model.scripted.scripted.accuracy.variant=0.1")
KEY = ("question_id", "arm", "variant", "replicate")


@pytest.fixture(scope="module")
def finished(driver, tmp_path_factory):
    cloudpickle.register_pickle_by_value(toy_audit)  # a test's module, which Ray's workers cannot import
    run_dir = tmp_path_factory.mktemp("toy") / "run"
    result = run_toy(run_dir, *ASKED)
    assert result.failed == {} and result.rows == 75
    return run_dir


def test_every_key_is_there_once_with_the_audits_own_column(finished):
    rows = rows_of(finished)
    assert len({tuple(row[name] for name in KEY) for row in rows}) == len(rows) == 25 * 3
    assert {(row["arm"], row["variant"], row["volume"]) for row in rows} == {
        ("original", 0, 0), ("variant", 1, 1), ("variant", 2, 2),
    }  # fmt: skip
    manifest = Manifest.load(finished)
    assert (manifest.audit, manifest.status) == ("toy", "finished")
    assert set(run_cost(finished, TOY.schema)["scripted"]) == {"original", "variant"}


def test_the_hash_of_a_request_tells_what_was_asked(finished):
    by_question: dict[str, list[dict]] = {}
    for row in rows_of(finished):
        by_question.setdefault(row["question_id"], []).append(row)
    for rows in by_question.values():
        assert len({row["request_sha256"] for row in rows}) == len({row["prompt"] for row in rows}) == 3
        assert all(row["request_sha256"].startswith("text:") for row in rows)


def test_what_is_lost_is_run_again_and_nothing_else(finished, tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(finished, run_dir)
    before = {row["question_id"] + row["arm"] + str(row["variant"]): row["answer"] for row in rows_of(run_dir)}
    first, *kept = sorted((run_dir / "shards").iterdir())
    stamps = {path: path.stat().st_mtime_ns for path in kept}
    first.unlink()
    assert run_toy(run_dir, *ASKED).rows == 75
    assert {path: path.stat().st_mtime_ns for path in kept} == stamps
    after = {row["question_id"] + row["arm"] + str(row["variant"]): row["answer"] for row in rows_of(run_dir)}
    assert after == before  # the same seeds give the same answers


def test_another_configuration_or_audit_is_refused(finished, sweep):
    with pytest.raises(ConfigError, match="volumes: 2 there, 3 now"):
        run_toy(finished, *ASKED, "volumes=3")
    done = sweep("n=25", run_dir=finished)
    assert done.code == 1
    assert "was written by audit toy" in done.out and "neither resumes nor reads them" in done.out


def test_the_summary_compares_with_the_audits_baseline(finished):
    (cell,) = load_cells(finished, TOY.schema)
    original, *variants = summarise(cell, TOY.roles)
    assert original.gain is None and all(row.gain is not None for row in variants)
    out = io.StringIO()
    print_cells([cell], TOY, Console(file=out, width=120))
    assert "n=25" in out.getvalue() and out.getvalue().count("variant") == 2


def test_its_gates_decision_words_and_section_stand_in_the_page_of_every_audit(finished):
    """Shouting costs what the scripted engine was told; with a reply in ten unread the verdict is withheld."""
    (judged,), html = page(finished)
    assert judged["result"]["decision"]["verdict"] == "matters" and VERDICTS["matters"].outcome == "found"
    for text in ("Shouting matters", "Shouting costs", "Readable answers", "✓ pass", "Content-Security-Policy"):
        assert text in html
    assert html.count("<li data-marks=") == 25 and 'id="drill-form"' in html and "Run run" in html
    (cell,) = load_cells(finished, TOY.schema)
    state = cell.state.copy()
    state[:, ::10] = State.UNPARSED
    deaf = judge(replace(cell, state=state))
    assert deaf["result"]["decision"]["verdict"] == "withheld" and deaf["gates"][0].item_count == 3
    assert deaf["result"]["headline"].startswith("Withheld: Readable answers: 88.0% of the answers")


def test_what_cannot_be_presented_is_an_error_row_and_nothing_is_sent(finished, tmp_path):
    exam = tmp_path / "exam.jsonl"
    exam.write_text('{"question": "1 + 1 = ?", "choices": ["2", "3"], "answer": 0}\n')
    overrides = ("benchmark.name=exam", "benchmark.format=mcq_file", f"benchmark.path={exam}", "n=1")
    assert run_toy(tmp_path / "run", *overrides).rows == 3
    original, *variants = sorted(rows_of(tmp_path / "run"), key=lambda row: row["variant"])
    assert original["error"] is None and original["correct"] is not None
    for row in variants:
        assert row["error"] == "the question has no letter"
        assert row["correct"] is None and row["request_sha256"] is None and row["prompt_tokens"] == 0
