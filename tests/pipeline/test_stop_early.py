"""A run that may stop early, as a user starts it: batches, looks, the stop, and what resumes or is refused."""

from pipeline_helpers import keys_of

from audit.shards.complete import cell_rows, count_rows, largest_clusters
from audit.shards.manifest import Manifest
from audit.shards.read import load_cells
from audit.sweep.analyse import analyse
from audit.sweep.audit import SCHEMA
from audit.sweep.vocabulary import Verdict

BOTH = "[scripted,other]"
ASKED = ("r=1", "n=90", "stop=early", "stop_batch=30")
REMEMBERS = "model.scripted.scripted.accuracy={direct: 0.65, forward_full: 0.65, noisy_rewrite: 0.95}"


def test_a_run_stops_where_a_verdict_is_there_and_asks_the_model_beside_it_every_question(sweep, own_model):
    path = own_model("other", "worker: {max_tokens: 8}")  # of which nothing is found
    run = sweep(*ASKED, REMEMBERS, path, model=BOTH)
    assert run.code == 0, run.out
    stop = Manifest.load(run.run_dir).stop
    assert stop["asked"] == {"scripted": {"elementary": 60}, "other": {"elementary": 90}}  # not the first, not the last
    assert stop["looks"] == {"scripted": 2, "other": 3}
    keys = keys_of(run.run_dir)
    assert len(keys) == len(set(keys)) == 3 * (60 + 90)
    rows = cell_rows(run.run_dir, count_rows(run.run_dir, SCHEMA))
    assert all(one.complete for one in rows)  # what was not asked is not missing
    assert {one.model: one.expected for one in rows} == {"scripted": 3 * 60, "other": 3 * 90}

    # The same command again asks nothing.
    again = sweep(*ASKED, REMEMBERS, path, run_dir=run.run_dir, model=BOTH)
    assert again.code == 0 and keys_of(run.run_dir) == keys

    early = largest_clusters([run.run_dir])
    assert early == {("scripted", "elementary"): 1, ("other", "elementary"): 1}
    verdict = analyse(load_cells(run.run_dir, SCHEMA), n_resamples=99, early=early)
    (cell,) = (one for one in verdict.results if one.model == "scripted")
    assert cell.verdict == Verdict.UNCONTROLLED, cell.reasons  # settled: what is open no question more would tell
    assert cell.p_value is not None and cell.p_value <= 0.05
    assert "stopped_early" in {reason.code for reason in cell.decision.reasons}
    assert cell.calibration is None  # that is of a fixed number of questions
    assert [c.p for c in cell.contrasts if c.name == "clean_vs_direct"] == [None]

    # It is not extended as a run of a fixed number of questions, nor the other way round.
    for changed in (("r=1", "n=90"), (*ASKED, "n=120")):
        refused = sweep(*changed, REMEMBERS, path, run_dir=run.run_dir, model=BOTH)
        assert refused.code == 1 and "not extended after its answers were there to look at" in refused.out
