"""The whole product once: the embedded model, real vLLM, real Ray, a report at the end; long: kill
-9 in the middle."""

import json
import multiprocessing
import os
import re
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow.dataset as ds
import pytest
import ray
from audit_here import Finished, sweep_here
from bench.engine import router_requests, sent
from outcome_tables import iter_outcomes
from transformers import AutoTokenizer

from audit.config.base import load_model_config
from audit.core.records import GenerationRequest
from audit.engines.precision import computes_in_bfloat16_here
from audit.engines.vllm_engine import is_cpu_build
from audit.runtime.actors import EnginePool

N, SETTINGS = 8, 1 + 2 + 2  # direct; forward_full and noisy_rewrite at r=1..2
SHARDS = 8  # 24 router sets, three a shard


def sweep(run_dir: Path) -> Finished:
    words = (f"n={N}", "r=1..2", "draws=nested", "ensemble_control=true")
    few = ("store.rows_per_shard=5", "cluster.chunks_in_flight=2")
    return sweep_here(*words, *few, run_dir=run_dir, model="smollm2_135m", report=True)


def shards_of(run_dir: Path) -> dict[str, int]:
    return {p.name: p.stat().st_mtime_ns for p in (run_dir / "shards").glob("*.arrow")}


def engine_core(pool: EnginePool) -> int:
    """The pid of vLLM's inner engine process, as the actor that started it knows it."""
    (actor,) = pool.actors
    (core,) = ray.get(
        actor.__ray_call__.remote(
            lambda _: [child.pid for child in multiprocessing.active_children()]
        )
    )
    return int(core)


class Killer(threading.Thread):
    """kill -9 of vLLM's inner process once two shards are there; its actor lives on, and holds a
    dead engine."""

    def __init__(self, run_dir: Path, core: int) -> None:
        super().__init__(daemon=True)
        self.run_dir, self.core, self.kept = run_dir, core, {}

    def run(self) -> None:
        deadline = time.monotonic() + 1500
        while time.monotonic() < deadline and len(shards_of(self.run_dir)) < 2:
            time.sleep(0.1)
        os.kill(self.core, signal.SIGKILL)
        self.kept = shards_of(self.run_dir)


def assert_finished(run_dir: Path, precision: str) -> None:
    """Assert that every key is stored once, with an answer of the one engine, and that the run has
    its report."""
    rows = ds.dataset(run_dir / "shards", format="ipc").to_table().to_pylist()
    keys = {(r["question_id"], r["arm"], r["routers"], r["replicate"]) for r in rows}
    assert len(rows) == len(keys) == N * SETTINGS
    for row in rows:
        assert row["error"] is None and row["parsed"]
        assert len(row["option_logprobs"]) == len(row["options"]) == 4
        assert all(value < 0 for value in row["option_logprobs"])
        assert {row["engine_id"], *row["router_engine_ids"]} == {
            "smollm2_135m/0"
        }  # one copy of the model
        assert len(row["router_messages"]) == row["routers"]
        if row["arm"] != "direct":
            assert any(row["router_messages"])
    assert sum(row["cached_tokens"] for row in rows) > 0  # the prefix cache is hit
    answers = [row["answer"] for row in rows]
    assert len(set(answers)) > 1

    manifest = json.loads((run_dir / "manifest.json").read_text())
    assert manifest["status"] == "finished"
    assert manifest["models"]["smollm2_135m"]["revision"].startswith("sha256:")
    assert manifest["precision"] == {"smollm2_135m": precision}
    if is_cpu_build() and not computes_in_bfloat16_here():
        assert precision == "float32"
    verdict = json.loads((run_dir / "report" / "verdict.json").read_text())
    assert [cell["model"] for cell in verdict["cells"]] == ["smollm2_135m"]
    assert "smollm2_135m" in (run_dir / "report" / "report.html").read_text()


def test_a_real_sweep_ends_with_a_report_and_is_not_done_again(tmp_path, engine_here):
    done = sweep(tmp_path / "run")
    assert done.code == 0, done.out
    stored = shards_of(tmp_path / "run")
    assert len(stored) == SHARDS
    assert re.search("40 of 40 rows are already stored", sweep(tmp_path / "run").out)
    assert shards_of(tmp_path / "run") == stored
    assert_finished(tmp_path / "run", engine_here.precision)


@pytest.mark.long  # vLLM loads again, for two CPU minutes; tests/pipeline/test_kill.py kills scripted engines
def test_a_real_sweep_survives_the_death_of_its_engine_and_ends_with_a_report(
    tmp_path, engine_here
):
    run_dir = tmp_path / "run"
    killer = Killer(run_dir, engine_core(engine_here))
    killer.start()
    done = sweep(run_dir)
    killer.join(60)
    assert done.code == 0, done.out
    assert engine_core(engine_here) != killer.core
    assert 2 <= len(killer.kept) < len(shards_of(run_dir)) == SHARDS
    assert killer.kept.items() <= shards_of(run_dir).items()  # finished work is not repeated
    assert_finished(run_dir, engine_here.precision)


@pytest.mark.long
def test_what_raw_vllm_is_timed_with_is_what_the_sweep_asked(
    tmp_path, engine_here, run_requests, embedded_model_dir
):
    """`make gpu` holds the sweep against these requests: as many tokens, and asked again, the
    stored messages."""
    done = sweep_here("n=3", "r=1..2", run_dir=tmp_path / "run", model="smollm2_135m")
    assert done.code == 0, done.out
    rows = list(iter_outcomes(done.run_dir))
    routed = router_requests(done.run_dir)
    scored = [GenerationRequest(row.prompt, "", "", 0, continuations=row.options) for row in rows]
    model, tokenizer = (
        load_model_config("smollm2_135m"),
        AutoTokenizer.from_pretrained(embedded_model_dir),
    )
    room = SimpleNamespace(model_config=SimpleNamespace(max_model_len=model.max_model_len))
    raw = SimpleNamespace(get_tokenizer=lambda: tokenizer, llm_engine=room)
    tokens = [
        sum(len(p["prompt_token_ids"]) for p, _ in sent(raw, model, requests))
        for requests in (routed, scored)
    ]
    assert tokens == [
        sum(row.router_prompt_tokens for row in rows),
        sum(row.prompt_tokens for row in rows),
    ]
    stored = [text for row in rows for text in row.router_messages]
    replies = [reply.text for reply in run_requests(routed)]
    assert len(replies) == len(stored) == 3 * (1 + 1 + 2)  # forward_full r=1, noisy r=1..2
    assert len(set(stored)) > len(stored) / 2  # two routers may pass on the same words
    # Rounding in another batch shape may tip a sample, as in test_real_engine.
    assert sum(a == b for a, b in zip(replies, stored, strict=True)) > len(stored) / 2, (
        replies,
        stored,
    )
