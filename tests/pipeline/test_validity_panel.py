"""`audit validity benchmark=[a,b]`: two runs of one engine, and one report of both that the gate
checks."""

import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from audit_here import heard, undrawn
from commands_here import gate
from commands_here import report as rebuild
from pipeline_helpers import engines, rows_of

from audit.core.exits import OK
from audit.governance.ruling import rule_run
from audit.judging.ladder import Decision
from audit.runtime import keep
from audit.validity.__main__ import main
from audit.validity.report import REPORT


@pytest.fixture(scope="module")
def benchmarks(tmp_path_factory) -> Path:
    """A folder of configurations with a second benchmark: the shipped items under another name."""
    folder = tmp_path_factory.mktemp("conf")
    (folder / "benchmark").mkdir()
    (folder / "benchmark" / "second.yaml").write_text(
        "name: second\nformat: contrast\npath: null\nsplit: test\n"
    )
    return folder


def command(run_dir: Path, *words: str) -> tuple[int, str]:
    """As typed, in this process."""

    def run() -> int:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
            patch.setattr(
                sys,
                "argv",
                ["validity", "model=scripted", f"run_dir={run_dir}", "progress=false", *words],
            )
            main()
        return int(ended.value.code or 0)

    return heard(run)


def two(benchmarks: Path) -> tuple[str, ...]:
    return "--config-dir", str(benchmarks), "benchmark=[contrast,second]", "n=12"


@pytest.fixture(scope="module")
def finished(driver, benchmarks, tmp_path_factory) -> Iterator[tuple[Path, str, Counter[str]]]:
    """(the panel's folder, what was printed, engines that were started meanwhile). To be read
    only."""
    run_dir = tmp_path_factory.mktemp("panel") / "run"
    before = engines()
    with undrawn():
        code, out = command(run_dir, *two(benchmarks))
    assert code == 0, out
    yield run_dir, out, engines() - before


@pytest.mark.long  # test_suite.py: one engine answers four audits
def test_one_engine_answers_both_and_is_gone_afterwards(finished):
    run_dir, _, started = finished
    assert started == {"DEAD": 1} and keep._kept_pools is None
    for name in ("contrast", "second"):
        rows = rows_of(run_dir / name)
        assert {row["benchmark"] for row in rows} == {name}
        keys = [(row["question_id"], row["arm"], row["variant"], row["replicate"]) for row in rows]
        assert len(set(keys)) == len(keys) == 12 * 13  # 2 originals, 4 + 3 + 3 edits, 1 placebo


@pytest.mark.long  # tests/unit/governance/test_gate_recomputes.py has the report of several runs
def test_one_report_is_of_both_and_corrects_over_all_cells_also_when_it_is_built_later(
    finished, tmp_path
):
    run_dir, out, _ = finished
    panel = json.loads((run_dir / "report" / "verdict.json").read_text())
    assert {cell["benchmark"] for cell in panel["cells"]} == {"contrast", "second"} and len(
        panel["runs"]
    ) == 2
    assert "All 2 benchmarks together" in out
    alone = json.loads((run_dir / "contrast" / "report" / "verdict.json").read_text())["cells"]
    for cell in alone:
        (same,) = [
            c
            for c in panel["cells"]
            if (c["benchmark"], c["context"]) == (cell["benchmark"], cell["context"])
        ]
        assert same["above_p"] >= cell["above_p"]
    assert (
        rebuild([str(run_dir / name) for name in ("contrast", "second")] + ["--out", str(tmp_path)])
        == 0
    )
    assert json.loads((tmp_path / "verdict.json").read_text())["cells"] == panel["cells"]


@pytest.mark.long  # tests/unit/governance/test_gate_recomputes.py: the gate misses a run
def test_the_gate_takes_the_panel_as_one_and_misses_a_run(finished, tmp_path, capsys):
    run_dir, _, _ = finished
    ruling = rule_run(run_dir)
    assert not ruling.problem and len(ruling.cells) == 4
    assert gate([str(run_dir), "--format", "junit"]) == ruling.exit_code
    copy = tmp_path / "copy"
    shutil.copytree(run_dir, copy)
    shard = next((copy / "second" / "shards").glob("*.arrow"))
    shard.unlink()
    assert gate([str(copy)]) == 1
    shutil.rmtree(copy / "second")
    assert gate([str(copy)]) == 1
    assert "1 of the 2 runs" in capsys.readouterr().err


@pytest.mark.long  # test_sweep.py has a model that does not load
def test_a_failed_run_leaves_no_engine_and_no_report_of_a_part(driver, benchmarks, tmp_path):
    before = engines()
    code, out = command(
        tmp_path / "run", *two(benchmarks), "model.scripted.scripted.fail_to_load=true"
    )
    assert code == 1 and "scripted.fail_to_load is true" in out
    assert set(engines() - before) == {"DEAD"} and keep._kept_pools is None
    assert not (tmp_path / "run" / "report").exists()
    assert gate([str(tmp_path / "run")]) == 1


@pytest.mark.long  # four runs
def test_templates_and_system_prompts_are_crossed_on_one_engine(driver, tmp_path):
    before = engines()
    code, out = command(
        tmp_path, "n=6", "edits_per_family=1", "template=[plain,task]", "system=[none,helpful]"
    )
    assert code in (OK, Decision.NO_DECISION.exit_code), out
    assert engines() - before == {"DEAD": 1}
    sent = {run.name: rows_of(run) for run in tmp_path.iterdir() if run.is_dir()}
    assert set(sent) == {
        f"template_{t}-system_{s}" for t in ("plain", "task") for s in ("none", "helpful")
    }
    for name, rows in sent.items():
        assert {row["prompt"].startswith("Here is a task.") for row in rows if row["asked"]} == {
            "_task-" in name
        }
    hashes = [{row["request_sha256"] for row in rows if row["asked"]} for rows in sent.values()]
    assert sum(map(len, hashes)) == len(
        set.union(*hashes)
    )  # a system prompt alone is another request
    lines = (tmp_path / "variance.csv").read_text().splitlines()
    assert (
        len(lines) == 1 + 2 * 7 and lines[1].split(",")[2] == "template"
    )  # two contexts, 2^3 - 1 effects
    assert (tmp_path / "facets.csv").read_text().splitlines()[1].split(",")[1] == "4"


DATA = Path("../shared/data")
FILES = {
    "truthfulqa": "truthfulqa/mc_task.json",
    "bbq": "bbq/data/Sexual_orientation.jsonl",
    "crows_pairs": "crows_pairs/crows_pairs_anonymized.csv",
    "toxigen": "toxigen/safenlp/toxiGen.json",
    "xstest": "xstest/xstest_prompts.csv",
}
SCORERS = {
    "truthfulqa": "truthfulqa_lettered",
    "bbq": "bbq_race",
    "crows_pairs": "crows_causal_full",
    "toxigen": "toxigen_targeted",
    "xstest": "xstest_strmatch",
}
ABSENT = [name for name, file in FILES.items() if not (DATA / file).is_file()]


@pytest.mark.long
@pytest.mark.skipif(bool(ABSENT), reason=f"../shared/data has no {', '.join(ABSENT)}")
def test_the_five_benchmarks_in_one_job_over_their_real_files(driver, tmp_path):
    """Every reading the scorers know, from the authors' files to shards, statuses and one report of
    all."""
    words = [
        f"benchmark=[{','.join(FILES)}]",
        f"benchmark.path=[{','.join(str((DATA / file).resolve()) for file in FILES.values())}]",
        "scorer=[null,null,crows_causal_full,null,null]",
        "n=4",
        "edits_per_family=1",
        "spare_edits=0",
        "replays=1",
        "report=false",
    ]
    code, out = command(tmp_path / "run", *words)
    assert code == 0, out
    for name, scorer in SCORERS.items():
        rows = [row for row in rows_of(tmp_path / "run" / name) if row["asked"]]
        assert {row["scorer"] for row in rows} == {scorer} and not any(row["error"] for row in rows)
        assert {row["arm"] for row in rows} == {
            "original",
            "format",
            "semantic",
            "attribute",
            "placebo",
        }
        moved = {row["contract"] for row in rows if row["arm"] == "attribute"}
        directional = name in ("truthfulqa", "toxigen", "xstest")
        assert moved <= ({"directional"} if directional else {"invariant", "directional"}) and moved
        hashes = {
            row["arm"]: row["request_sha256"]
            for row in rows
            if row["question_id"] == rows[0]["question_id"]
        }
        assert len(set(hashes.values())) == 5  # every edit asks something else
        assert sum(row["parsed"] for row in rows) > 0.8 * len(rows)
        assert not any(row["edited"] in out for row in rows)
    REPORT.build([tmp_path / "run" / name for name in FILES], tmp_path / "report", n_resamples=100)
    panel = json.loads((tmp_path / "report" / "verdict.json").read_text())
    assert 'class="blur"' in (tmp_path / "report" / "report.html").read_text()
    assert {cell["benchmark"] for cell in panel["cells"]} == set(FILES) and len(panel["runs"]) == 5
    assert all(cell["verdict"] and cell["paper_status"] is not None for cell in panel["cells"])
    unproven = {cell["benchmark"] for cell in panel["cells"] if not cell["scorer"]["validated"]}
    assert unproven == {"toxigen", "xstest"}  # no human label backs them here
