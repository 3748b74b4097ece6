"""A run that may stop early, as a user starts it: batches, looks, the stop, and what resumes or is refused."""

from pipeline_helpers import keys_of

from audit.shards.complete import cell_rows, count_rows, stopped_early
from audit.shards.manifest import Manifest
from audit.shards.read import load_cells
from audit.sweep.analyse import analyse
from audit.sweep.audit import SCHEMA

BOTH = "[scripted,other]"
# What no look at so few questions could bound is no effect of interest here.
ASKED = ("r=1", "n=88", "stop=early", "verdict.effect_of_interest=0.9")
REMEMBERS = "model.scripted.scripted.accuracy={direct: 0.5, forward_full: 0.5, noisy_rewrite: 1.0}"


def test_a_run_stops_where_nothing_is_seen_and_asks_the_model_beside_it_every_question(sweep, own_model):
    path = own_model("other", "worker: {max_tokens: 8}")  # of which nothing is found
    run = sweep(*ASKED, REMEMBERS, path, model=BOTH)
    assert run.code == 0, run.out
    asked = Manifest.load(run.run_dir).stop["asked"]
    stopped = asked["other"]["elementary"]
    assert asked["scripted"] == {"elementary": 88} and stopped in (22, 44, 66)
    keys = keys_of(run.run_dir)
    rows = cell_rows(run.run_dir, count_rows(run.run_dir, SCHEMA))
    settings = len(Manifest.load(run.run_dir).settings)
    assert all(one.complete for one in rows)  # what was not asked is not missing
    assert {one.model: one.expected for one in rows} == {"scripted": settings * 88, "other": settings * stopped}
    assert len(keys) == len(set(keys)) == settings * (88 + stopped)

    # The same command again asks nothing.
    again = sweep(*ASKED, REMEMBERS, path, run_dir=run.run_dir, model=BOTH)
    assert again.code == 0 and keys_of(run.run_dir) == keys

    early = stopped_early([run.run_dir])
    assert early == {("other", "elementary"): 88}
    verdict = analyse(load_cells(run.run_dir, SCHEMA), n_resamples=99, stopped=early)
    said = {cell.model: {reason.code for reason in cell.decision.reasons} for cell in verdict.results}
    assert "stopped_early" in said["other"] and "stopped_early" not in said["scripted"]

    # It is not extended as a run of a fixed number of questions, nor the other way round.
    for changed in (("r=1", "n=88", ASKED[3]), (*ASKED, "n=120")):
        refused = sweep(*changed, REMEMBERS, path, run_dir=run.run_dir, model=BOTH)
        assert refused.code == 1 and "not extended after its answers were there to look at" in refused.out
