"""A model that answers nonsense is stopped after its first answers, and nothing is lost.

That one with a quarter unparsed is not stopped: test_reask.py, which runs with the canary.
"""

import json

import pytest
from faulty_server import Reply, completion
from omegaconf import OmegaConf
from pipeline_helpers import rows_of
from storm.endpoint import serving

from audit.shards.manifest import Manifest

NONSENSE = "++model.scripted.scripted.replies={direct/0: 'Hm?\x1b[2J I like trains'}"


WORDS = ("n=60", "r=1", "arms=[direct]", "reask=false", "store.rows_per_shard=4", NONSENSE)


def test_nonsense_stops_with_two_replies(sweep):
    done = sweep(*WORDS)
    assert done.code == 1
    assert (
        "reply 1: 'Hm?\ufffd[2J I like trains'" in done.out
        and "reply 2" in done.out
        and "reply 3" not in done.out
    )
    assert "\x1b" not in done.out and "canary=false" in done.out
    ids = {row["question_id"] for row in rows_of(done.run_dir)}
    before = Manifest.load(done.run_dir)
    assert (
        20 <= len(ids) <= 60
        and before.status == "stopped"
        and list(before.models_failed) == ["scripted"]
    )
    assert before.models_stopped == {"scripted": {"code": "canary"}}


@pytest.mark.long  # two runs; test_endpoint_storm.py goes on where a run was stopped
def test_a_run_that_was_stopped_for_nonsense_goes_on_where_it_is_told_to(sweep):
    done = sweep(*WORDS)
    assert done.code == 1
    ids = {row["question_id"] for row in rows_of(done.run_dir)}
    before = Manifest.load(done.run_dir)
    done = sweep(*WORDS, "canary=false", run_dir=done.run_dir)
    rows = rows_of(done.run_dir)
    assert done.code == 0 and len(rows) == 60 and ids <= {row["question_id"] for row in rows}
    assert Manifest.load(done.run_dir).fingerprint == before.fingerprint


def test_of_an_endpoint_no_more_is_asked_than_the_first_answers_need(sweep):
    with serving(lambda call: Reply(body=completion("You are welcome!"))) as server:
        done = sweep("n=80", "r=1", f"endpoint={server.url}", "model_id=m", model="")
        calls = len(server.calls)
    assert done.code == 1 and done.out.count("You are welcome!") == 2
    rows = rows_of(done.run_dir)
    assert {row["model"] for row in rows} == set(Manifest.load(done.run_dir).models) == {"m"}
    assert len(rows) == 20 == len({row["question_id"] for row in rows})
    # 20 of 240 tasks: 7 of direct (1 call), 7 of forward_full and 6 of noisy_rewrite (2 calls)
    assert calls == 7 + 2 * 13
    stored = OmegaConf.load(
        done.run_dir / "model" / "m.yaml"
    )  # what `endpoint=` stood for, as a file of conf/model
    assert (stored.engine, stored.endpoints[0].url, stored.endpoints[0].model) == (
        "openai",
        server.url,
        "m",
    )
    assert "welcome" not in json.dumps(Manifest.load(done.run_dir).config)
