"""The sweep as a user runs it: the command, a real Ray, the scripted engine, shards on disk."""

import csv
import html
import json
import shutil
from collections import Counter
from dataclasses import replace
from operator import itemgetter

import pyarrow.dataset as ds
import pytest
from audit_here import Finished, sweep_here
from commands_here import gate
from commands_here import report as rebuild
from pipeline_helpers import keys_of, lose_a_shard, rows_of, stamps, write_model

from audit.core.errors import ConfigError, DataError
from audit.shards.manifest import Manifest
from audit.sweep.audit import SCHEMA
from audit.sweep.design import Aggregator
from audit.sweep.page import AGGREGATED
from audit.sweep.report import REPORT, analysis_options


def test_a_sweep_writes_every_key_once_and_documents_itself(nested_run):
    run = nested_run
    # direct 1, forward_full r=1..3 and a second clean replicate, noisy r=1..3: 1 + 4 + 3 settings
    keys = keys_of(run.run_dir)
    assert len(keys) == len(set(keys)) == 30 * 8
    table = ds.dataset(run.run_dir / "shards", format="ipc").to_table()
    assert table.schema.names == SCHEMA.columns.names
    manifest = json.loads((run.run_dir / "manifest.json").read_text())
    assert manifest["status"] == "finished"
    assert sum(s["rows"] for s in manifest["shards"]) == 240
    assert len(manifest["sampled_ids"]["elementary"]) == 30
    assert manifest["models"]["scripted"]["revision"] == "scripted"
    assert "noisy_rewrite" in run.out and "accuracy" in run.out


def test_each_replicate_is_asked_of_an_engine_of_its_own_start(nested_run):
    engines = {(row["replicate"], row["engine_id"]) for row in rows_of(nested_run.run_dir)}
    assert engines == {(0, "scripted/0"), (1, "scripted/0#1")}
    ((took),) = json.loads((nested_run.run_dir / "manifest.json").read_text())["timings"].values()
    assert took["load_s"] > 0 and took["generate_s"] > 0


def test_the_worker_is_sent_nothing_of_the_question_that_no_message_holds(independent_run):
    """On the text that was really sent: with the messages cut out of it, the prompt says nothing of
    the question."""
    seen = 0
    for row in rows_of(independent_run.run_dir):
        if row["arm"] == "direct":
            assert row["question"] in row["prompt"]
            continue
        rest = row["prompt"]
        for message in row["router_messages"]:
            assert message in rest  # the worker does see every message whole
            rest = rest.replace(message, "", 1)
        assert row["question"] not in rest
        assert not any(
            f"{letter}. {option}" in rest
            for letter, option in zip("ABCD", row["options"], strict=True)
        )
        seen += 1
    assert seen == 20 * 4  # clean, and noisy at three r


def test_nested_draws_share_messages_and_prompt_prefixes(nested_run):
    rows = {
        (r["question_id"], r["routers"]): r
        for r in rows_of(nested_run.run_dir)
        if r["arm"] == "noisy_rewrite"
    }
    for (question_id, r), row in rows.items():
        assert len(row["router_messages"]) == r
        if r > 1:
            shorter = rows[question_id, r - 1]
            assert row["router_messages"][:-1] == shorter["router_messages"]
            assert row["prompt"].startswith(shorter["prompt"].rstrip())
    question = next(iter(rows))[0]
    assert len(set(rows[question, 3]["router_messages"])) > 1  # routers differ by their seeds


def test_independent_draws_share_no_router_seed(independent_run):
    stored = rows_of(independent_run.run_dir)
    rows = {(r["question_id"], r["routers"]): r for r in stored if r["arm"] == "noisy_rewrite"}
    shared = sum(
        rows[q, 1]["router_messages"][0] == rows[q, 3]["router_messages"][0]
        for q, r in rows
        if r == 1
    )
    assert shared < 20  # the scripted router has three ways to delete: a third agree by chance


def test_one_engine_serves_both_roles(independent_run):
    for row in rows_of(independent_run.run_dir):
        assert {row["engine_id"], *row["router_engine_ids"]} == {"scripted/0"}


@pytest.fixture(scope="module")
def two_models(driver, tmp_path_factory) -> Finished:
    """A run of a model with two replicas, which another model answers for, and of one that does
    not load; stored as parquet."""
    folder = tmp_path_factory.mktemp("two_models")
    write_model(folder / "conf", "broken", "scripted: {fail_to_load: true}")
    write_model(folder / "conf", "other", "worker: {max_tokens: 8}")
    more = (f"hydra.searchpath=[file://{folder / 'conf'}]", "worker=other", "store.format=parquet")
    words = ("r=3", "n=40", "model.scripted.replicas=2", *more)
    return sweep_here(*words, run_dir=folder / "run", model="[scripted,broken]")


def test_replicas_share_the_work_by_question_and_store_parquet_on_request(two_models):
    """The replicas pass the messages on; another model, the worker, answers."""
    rows = ds.dataset(two_models.run_dir / "shards", format="parquet").to_table().to_pylist()
    routed = [row for row in rows if row["arm"] != "direct"]
    passed_on = [row["router_engine_ids"] for row in routed]
    assert len(rows) == 40 * 3 and {row["engine_id"] for row in routed} == {"other/0"}
    assert set().union(*passed_on) == {"scripted/0", "scripted/1"}
    # Question affinity: the prefix cache is on that replica. By chance the three messages of 1
    # question in 4 are of one; what a slow replica cannot take goes to the other, more of it on a
    # busy machine.
    noisy = [engines for engines in passed_on if len(engines) == 3]
    assert len(noisy) == 40 and sum(len(set(engines)) == 1 for engines in noisy) > 20


def test_a_model_that_fails_to_load_is_named_and_the_others_finish_side_by_side(two_models):
    run = two_models
    assert run.code == 1
    assert "model broken failed" in run.out and "fail_to_load" in run.out
    shards = ds.dataset(run.run_dir / "shards", format="parquet")
    keys = Counter(map(itemgetter("question_id", "arm"), shards.to_table().to_pylist()))
    assert len(keys) == 120 and set(keys.values()) == {1}
    manifest = json.loads((run.run_dir / "manifest.json").read_text())
    assert (
        list(manifest["models_failed"]) == ["broken"]
        and "fail_to_load" in manifest["models_failed"]["broken"]
    )
    assert {key.rpartition("/")[0] for key in manifest["timings"]} == {"scripted"}
    (missing,) = REPORT.build([run.run_dir], run.run_dir / "report", n_resamples=200).incomplete
    assert (missing.model, missing.found, missing.expected) == ("broken", 0, 120)
    assert gate([str(run.run_dir)]) == 1
    assert side_by_side(run, "broken", 40), run.out


def side_by_side(run: Finished, other: str, n: int = 10) -> bool:
    """Return whether the second model's engine was loading before the first model had ended."""
    last = run.out.index(f"scripted: direct {n}/{n}")
    return run.out.index(f"{other}: loading the engine") < last


@pytest.mark.long  # two runs of two models
def test_models_apart_store_the_rows_that_they_store_side_by_side(sweep, own_model, tmp_path):
    words = ("r=1", "n=10", own_model("other", "worker: {max_tokens: 8}"))
    run = sweep(*words, model="[scripted,other]")
    serial = sweep(
        *words, "cluster.models_at_once=1", model="[scripted,other]", run_dir=tmp_path / "apart"
    )
    assert run.code == serial.code == 0, run.out + serial.out
    assert side_by_side(run, "other") and not side_by_side(serial, "other")
    by_key = itemgetter("model", "question_id", "arm", "routers")
    assert sorted(rows_of(run.run_dir), key=by_key) == sorted(rows_of(serial.run_dir), key=by_key)


def test_the_same_command_again_finds_all_done_and_another_is_refused(
    independent_run, sweep, tmp_path
):
    shutil.copytree(independent_run.run_dir, tmp_path / "run")
    before = stamps((tmp_path / "run" / "shards").iterdir())
    repeated = sweep("r=1..3", "n=20")
    assert repeated.code == 0, repeated.out
    assert "100 of 100 rows" in repeated.out
    other = sweep("r=1..3", "n=21")
    assert other.code == 1
    assert "another configuration" in other.out and "n: 20 there, 21 now" in other.out
    assert stamps((tmp_path / "run" / "shards").iterdir()) == before


@pytest.mark.long  # two runs; tests/unit/runtime/test_pool.py tests the precision
def test_a_run_goes_on_in_the_precision_of_its_rows(sweep, tmp_path):
    words = ("r=1", "n=8", "model.scripted.dtype=float32")
    assert sweep(*words).code == 0
    run_dir = tmp_path / "run"
    made = Manifest.load(run_dir)
    assert made.precision == {"scripted": "float32"}
    replace(made, precision={"scripted": "bfloat16"}).save(
        run_dir
    )  # as another machine's processor had it
    lose_a_shard(run_dir)
    assert sweep(*words).code == 0
    assert Manifest.load(run_dir).precision == {"scripted": "bfloat16"}


def test_a_control_benchmark_is_run_beside_and_a_rebuilt_report_judges_as_the_run_did(
    sweep, tmp_path
):
    """Seed, thresholds and control benchmark come from the manifest: the same verdict.json, to the
    byte."""
    for name, word in (("exam", "What"), ("fresh", "Now what")):
        rows = [
            {
                "question": f"{word} is {i} + {i}?",
                "choices": [f"{2 * i}", f"{2 * i + 1}"],
                "answer": 0,
            }
            for i in range(12)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    exam = (
        "benchmark=mcq_file",
        f"benchmark.path={tmp_path}/exam.jsonl",
        "verdict.alpha=0.01",
        "seed=7",
    )
    fresh = ("=mcq_file", f".path={tmp_path}/fresh.jsonl", ".name=fresh")
    run = sweep(
        "r=1..2", "n=12", *exam, *(f"control_benchmark{word}" for word in fresh), "report=true"
    )
    assert run.code == 0, run.out
    rows = rows_of(run.run_dir)
    assert len({row["benchmark"] for row in rows}) == 2 and len(rows) == 2 * 12 * 4
    verdict = run.run_dir / "report" / "verdict.json"
    before = verdict.read_bytes()
    assert json.loads(before)["thresholds"]["alpha"] == 0.01
    verdict.unlink()
    assert rebuild([str(run.run_dir)]) == 0
    assert verdict.read_bytes() == before
    assert rebuild([str(run.run_dir), "--seed", "8", "--out", str(tmp_path / "other")]) == 0
    assert (tmp_path / "other" / "verdict.json").read_bytes() != before  # so the seed does reach it


def test_runs_that_were_judged_differently_are_no_panel_by_accident(tmp_path):
    for name, alpha in (("a", 0.05), ("b", 0.01)):
        (tmp_path / name).mkdir()
        Manifest("f", {}, analysis={"seed": 42, "thresholds": {"alpha": alpha}}).save(
            tmp_path / name
        )
    runs = [tmp_path / "a", tmp_path / "b"]
    assert analysis_options(runs[:1], {"seed": None}).keys() == {"seed", "thresholds"}
    with pytest.raises(ConfigError, match="values of thresholds of these runs differ"):
        analysis_options(runs, {"seed": None})


@pytest.mark.long  # three runs of 150 questions
def test_another_model_answers_the_stored_messages_and_the_gain_is_set_against_its_own(
    independent_run, sweep, own_model, tmp_path
):
    replies = "{forward_full/router: echo, noisy_rewrite/router: noise}"
    accuracy = "{direct: 0.5, forward_full: 0.5, noisy_rewrite: 0.9}"
    path = own_model("gains", f"scripted: {{accuracy: {accuracy}, replies: {replies}}}")
    words = ("n=150", "r=1", "noisy_replicates=2", "clean_replicates=2", path)
    place = tmp_path / "tested"
    tested = sweep(*words, model="gains", run_dir=place)
    before = verdict_of(place)
    assert before["verdict"] == "gain_uncontrolled" and "hint_reference" in before["what_to_do"][0]

    other = sweep(*words, f"messages_from={place}", run_dir=tmp_path / "other")
    mine, borrowed = (
        {
            (r["question_id"], r["arm"], r["routers"], r["replicate"]): r
            for r in rows_of(run.run_dir)
        }
        for run in (tested, other)
    )
    assert mine.keys() == borrowed.keys()
    assert all(mine[k]["router_messages"] == borrowed[k]["router_messages"] for k in mine)
    assert all(mine[k]["prompt"] == borrowed[k]["prompt"] for k in mine)
    assert not any(r["router_calls"] for r in borrowed.values())  # no router was called

    resumed = sweep(*words, f"hint_reference={other.run_dir}", model="gains", run_dir=place)
    assert resumed.code == 0, resumed.out
    assert verdict_of(place)["verdict"] == "excess"  # the manifest knows the reference

    with pytest.raises(DataError, match="messages_from=RUN_DIR"):
        REPORT.build([place], tmp_path / "no", references=[independent_run.run_dir], n_resamples=99)


def test_messages_of_other_questions_are_refused(independent_run, sweep, tmp_path):
    refused = sweep(
        "n=20", "r=1..4", f"messages_from={independent_run.run_dir}", run_dir=tmp_path / "other"
    )
    assert (
        refused.code == 1
        and "has no messages of" in refused.out
        and not (tmp_path / "other").exists()
    )


@pytest.mark.long  # two runs, three reports
def test_the_worker_reads_a_summary_or_answers_each_message_for_a_vote(nested_run, sweep, tmp_path):
    """The same router messages whatever becomes of them; rows, costs and verdict of each way to put
    them together."""
    words = ("n=30", "r=1..3", "draws=nested", "ensemble_control=true")
    runs = {"concatenate": nested_run}
    runs |= {
        aggregator: sweep(*words, f"aggregator={aggregator}", run_dir=tmp_path / aggregator)
        for aggregator in ("summary", "vote")
    }
    key = itemgetter("question_id", "arm", "routers")
    stored = (
        [row for row in rows_of(run.run_dir) if not row["replicate"]] for run in runs.values()
    )
    whole, summary, vote = ({key(row): row for row in rows} for rows in stored)
    assert len({Manifest.load(run.run_dir).fingerprint for run in runs.values()}) == 3
    for at, row in whole.items():
        r = at[2]
        messages, summary_row, vote_row = row["router_messages"], summary[at], vote[at]
        assert summary_row["router_messages"][:r] == vote_row["router_messages"] == messages
        if r == 0:
            assert summary_row["prompt"] == vote_row["prompt"] == row["prompt"]
            continue
        assert (
            len(summary_row["router_messages"]) == r + 1
            and summary_row["router_messages"][-1] in summary_row["prompt"]
        )
        assert (row["router_calls"], summary_row["router_calls"], vote_row["router_calls"]) == (
            1,
            2,
            1,
        )
        if r == 1:  # a vote of one is the answer
            assert (
                vote_row["response"] == row["response"]
                and vote_row["request_sha256"] == row["request_sha256"]
            )
        else:
            ballots = [line[4:] for line in vote_row["response"].splitlines()]
            assert len(ballots) == r and vote_row["request_sha256"] is None
            counts = {
                letter: ballots.count(letter) for letter in ballots
            }  # in the order in which they were named
            assert "ABCD"[vote_row["answer"]] == max(counts, key=counts.__getitem__)
            assert vote_row["prompt"].startswith(vote[*at[:2], r - 1]["prompt"])
            assert (
                vote_row["prompt_tokens"] < 2 * len(vote_row["prompt"]) / 4 / r
            )  # it pays for the new ballot alone
    for name, run in runs.items():
        gates = {
            gate["name"]: gate
            for gate in verdict_of(run.run_dir, tmp_path / f"{name}-report")["gates"]
        }
        reached = gates["manipulation_reached_worker"]
        assert (reached["status"], reached["numbers"]["lost"]) == ("pass", 0.0), name
        page = (tmp_path / f"{name}-report" / "report.html").read_text()
        lead = page.partition('<p class="lead">')[2].partition("</p>")[0]
        assert AGGREGATED[Aggregator(name)] in html.unescape(lead)
    refused = sweep(*words, f"messages_from={runs['summary'].run_dir}", run_dir=tmp_path / "no")
    assert refused.code == 1 and "summary" in refused.out and not (tmp_path / "no").exists()


@pytest.mark.long  # two runs of 150 questions
def test_what_deleting_words_costs_is_told_and_no_verdict_rests_on_it(sweep, own_model, tmp_path):
    """A model that needs the question falls by 9 points for 10 words in 100."""
    replies = "{forward_full/router: echo, noisy_rewrite/router: noise}"
    scripted = (
        f"{{accuracy: {{deleted: 0.9}}, gain_per_level: {{deleted: -0.009}}, replies: {replies}}}"
    )
    path, verdicts = own_model("able", f"scripted: {scripted}"), []
    for words in ((), ("dose=[0,.1,.2,.4,.6]",)):
        run = sweep("n=150", "r=1", path, *words, model="able", run_dir=tmp_path / f"{len(words)}")
        verdict = verdict_of(run.run_dir)
        verdicts.append(
            {k: v for k, v in verdict.items() if k not in ("headline", "watermark")}
        )  # answers found
        assert ('id="dose"' in (run.run_dir / "report" / "report.html").read_text()) == bool(words)
    assert verdicts[0] == verdicts[1]  # to the last figure
    rows = list(csv.DictReader((run.run_dir / "report" / "tables" / "dose.csv").open()))
    assert [float(row["deleted"]) for row in rows] == [0, 0.1, 0.2, 0.4, 0.6]
    # Of one draw; that a model which does not read has none:
    # test_how_often_it_says_that_words_matter.
    assert float(rows[0]["slope_at_zero"]) < -0.5 and float(rows[0]["slope_high"]) < 0


def verdict_of(run_dir, out=None) -> dict:
    place = out or run_dir / "report"
    assert rebuild([str(run_dir), "--out", str(place)]) == 0
    return json.loads((place / "verdict.json").read_text())["cells"][0]
