"""A hostile endpoint under a whole run: every key once, none of its faults taken for an answer, its
API key nowhere."""

from pathlib import Path

import pytest
import ray
from pipeline_helpers import rows_of
from storm.endpoint import BAD, KEY, KEY_ENV, Hostile, answer_to, serving

from audit.shards.manifest import Manifest

# `cluster` starts with the key in its environment: what its processes hold, a log could tell.
FAST = (
    "retry={base_delay_s: 0.02, max_delay_s: 0.2, jitter: 0.5, max_attempts: 6, outage_s: 60}",
    "circuit={failures: 5, cooldown_s: 0.2}",
)


@pytest.mark.long
def test_an_endpoint_that_misbehaves_at_a_fifth_of_the_calls(
    sweep, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(KEY_ENV, KEY)
    hostile = Hostile(seed=1)
    with serving(hostile) as server:
        endpoint = (
            f"endpoints=[{{url: '{server.url}', model: m, api_key_env: {KEY_ENV}, "
            "timeout_s: 2, concurrency: 32}]"
        )
        words = [f"model.openai_compatible.{word}" for word in (endpoint, *FAST)]
        done = sweep("r=1..2", "n=40", *words, model="openai_compatible")
    assert done.code == 0, done.out
    assert hostile.did.total() - hostile.did["answered"] > 30 and len(hostile.did) > 8, hostile.did
    assert all(call.headers["authorization"] == f"Bearer {KEY}" for call in server.calls)

    rows = rows_of(done.run_dir)
    assert len(rows) == len({(r["question_id"], r["arm"], r["routers"]) for r in rows}) == 40 * 4
    answered = [r for r in rows if r["error"] is None]
    assert len(answered) >= 150  # six attempts: next to none fails all of them
    assert all(r["response"] == answer_to(r["prompt"]) and BAD not in r["prompt"] for r in answered)
    assert not any(r["parsed"] or r["correct"] for r in rows if r["error"] is not None)

    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    written = [*done.run_dir.rglob("*"), *logs.rglob("*")]
    assert sum(path.is_file() for path in written) > 20
    assert [path for path in written if path.is_file() and KEY.encode() in path.read_bytes()] == []
    assert KEY not in done.out


def test_a_run_stops_at_its_amount_and_goes_on_with_a_larger_one(
    sweep, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(KEY_ENV, KEY)
    with serving(Hostile(seed=1, share=0.0, changed_after=17)) as server:
        endpoint = f"endpoints=[{{url: '{server.url}', model: m, api_key_env: {KEY_ENV}, concurrency: 32}}]"
        # A call reads 12 tokens and writes 3: at a dollar a token of either 15. A question of r=1
        # is three answers and two messages: 75, and 4 questions are 300.
        money = "+cost.prices.openai_compatible={prompt: 1000000, generated: 1000000}"
        words = ["r=1", "n=4", "canary=false", f"model.openai_compatible.{endpoint}", money]

        stopped = sweep(*words, "cost.max=250", model="openai_compatible")
        n_calls, rows = len(server.calls), rows_of(stopped.run_dir)
        assert stopped.code == 1 and "cost.max=500" in stopped.out, stopped.out
        assert "about 20 calls" in stopped.out  # before anything was asked
        assert Manifest.load(stopped.run_dir).models_stopped == {
            "openai_compatible": {"code": "spent", "cost_max": 500}
        }
        assert len(rows) == 3 * 3 and n_calls == 5 * 3  # 3 questions are 225

        resumed = sweep(*words, "cost.max=250", model="openai_compatible")
        assert resumed.code == 1 and len(server.calls) == n_calls
        done = sweep(*words, "cost.max=500", model="openai_compatible")
        assert done.code == 0 and len(rows_of(done.run_dir)) == 12 and len(server.calls) == 20, (
            done.out
        )

    # Each start greets the endpoint, which counts there and not in the run.
    (calls,) = Manifest.load(done.run_dir).backends.values()
    assert sum(calls.values()) == 20 and {key.split()[1] for key in calls} == {"fp_1", "fp_2"}
    assert "fp_1" not in stopped.out and "fp_2" in done.out
