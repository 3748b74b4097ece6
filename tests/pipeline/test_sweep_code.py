"""A sweep of programming problems and one of numbers: what is sent, what becomes of each reply, and
a whole report."""

import json
import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from audit_here import sweep_here
from pipeline_helpers import rows_of

from audit.registry.database import open_registry
from audit.registry.entry import key_of
from audit.registry.store import cell_records

PROBLEMS = Path(__file__).parents[1] / "unit/scoring/problems.jsonl"
FORGED = "    import os; os.write(4, b'verdict passed'); os._exit(0)"  # as the continuation of the prompt


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap (bubblewrap) is not installed")
def test_each_reply_of_code_becomes_what_it_is(driver: None, tmp_path: Path) -> None:
    replies = {"noisy_rewrite/1": "I would rather not.", "noisy_rewrite/2": FORGED}
    entries = ", ".join(f"{label}: {json.dumps(text)}" for label, text in replies.items())
    run = sweep_here(
        "benchmark=humaneval",
        f"benchmark.path={PROBLEMS}",
        "n=all",
        "r=1..2",
        "canary=false",
        "model.scripted.scripted.accuracy={direct: 1.0, forward_full: 0.0, noisy_rewrite: 1.0}",
        f"+model.scripted.scripted.replies={{{entries}}}",
        run_dir=tmp_path / "run",
        report=True,
    )
    assert run.code == 0, run.out
    forms = defaultdict(set)
    for row in rows_of(run.run_dir):
        forms[row["arm"], row["routers"]].add((row["answer_form"], row["correct"], row["error"]))
        assert (row["reading"], row["options"], row["gold"], row["answer"]) == (
            "code",
            [],
            -1,
            None,
        )
        if row["arm"] != "direct":
            assert (
                row["question"] not in row["prompt"] or row["arm"] == "forward_full"
            )  # its messages are the question
    assert forms["direct", 0] == {("passed", True, None)}
    assert all(correct is False for _, correct, _ in forms["forward_full", 1])
    assert forms["noisy_rewrite", 1] == {("none", None, None)}
    assert forms["noisy_rewrite", 2] == {("ended", False, None)}
    verdict = json.loads((run.run_dir / "report" / "verdict.json").read_text())
    gates = {gate["name"]: gate["status"] for gate in verdict["cells"][0]["gates"]}
    assert gates["answer_leak"] == "not_applicable" and gates["parseability"] == "fail"


def test_numbers_are_passed_on_and_scored_and_the_run_registers_itself_once(
    driver: None, tmp_path: Path
) -> None:
    path = tmp_path / "sums.jsonl"
    rows = [
        {"question": f"A jar holds {k} and {k + 1} nuts. How many?", "answer": f"#### {2 * k + 1}"}
        for k in range(9)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    place, run_dir = tmp_path / "registry.db", tmp_path / "run"
    words = ("benchmark=gsm8k", f"benchmark.path={path}", "n=all", "r=1..2", f"registry={place}")
    run, repeated = (sweep_here(*words, run_dir=run_dir, report=True) for _ in range(2))
    assert run.code == repeated.code == 0, run.out + repeated.out
    key = key_of(run_dir)
    assert (
        f"registry {key[:12]} in {place}" in run.out
        and f"{key[:12]}, known already" in repeated.out
    )
    (record,) = cell_records(open_registry(str(place)))
    assert record.run["key"] == key and record.cell["model"] == "scripted" and record.cell["n"] == 9
    stored = rows_of(run.run_dir)
    assert {row["answer_form"] for row in stored} == {"marked"} and {
        row["correct"] for row in stored
    } == {True, False}
    assert all("option" not in row["prompt"] for row in stored)
