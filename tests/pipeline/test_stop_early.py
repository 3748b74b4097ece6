"""A run that may stop early, as a user starts it: batches, looks, the stop, and what resumes or is refused."""

from pipeline_helpers import keys_of

from audit.shards.complete import cell_rows, count_rows, largest_clusters
from audit.shards.manifest import Manifest
from audit.shards.read import load_cells
from audit.sweep.analyse import analyse
from audit.sweep.audit import SCHEMA
from audit.sweep.vocabulary import Verdict

ASKED = ("r=1", "n=150", "stop=early", "stop_batch=30")
REMEMBERS = "model.scripted.scripted.accuracy={direct: 0.65, forward_full: 0.65, noisy_rewrite: 0.95}"


def test_a_run_stops_where_its_verdict_is_there_and_is_complete(sweep):
    run = sweep(*ASKED, REMEMBERS)
    assert run.code == 0, run.out
    stop = Manifest.load(run.run_dir).stop
    n, looks = stop["asked"]["scripted"]["elementary"], stop["looks"]["scripted"]
    assert 30 < n < 150 and n == 30 * looks  # several batches, and not all of them
    keys = keys_of(run.run_dir)
    assert len(keys) == len(set(keys)) == 3 * n
    (rows,) = cell_rows(run.run_dir, count_rows(run.run_dir, SCHEMA))
    assert rows.complete and rows.expected == 3 * n  # what was not asked is not missing

    # The same command again asks nothing.
    again = sweep(*ASKED, REMEMBERS, run_dir=run.run_dir)
    assert again.code == 0 and keys_of(run.run_dir) == keys

    early = largest_clusters([run.run_dir])
    assert early == {("scripted", "elementary"): 1}
    verdict = analyse(load_cells(run.run_dir, SCHEMA), n_resamples=99, early=early)
    (cell,) = verdict.results
    assert cell.verdict == Verdict.UNCONTROLLED, cell.reasons  # settled: what is open no question more would tell
    assert cell.p_value is not None and cell.p_value <= 0.05
    assert "stopped_early" in {reason.code for reason in cell.decision.reasons}
    assert cell.calibration is None  # that is of a fixed number of questions
    assert [c.p for c in cell.contrasts if c.name == "clean_vs_direct"] == [None]

    # It is not extended as a run of a fixed number of questions, nor the other way round.
    for changed in (("r=1", "n=150", REMEMBERS), (*ASKED, "n=180", REMEMBERS)):
        refused = sweep(*changed, run_dir=run.run_dir)
        assert refused.code == 1 and "not extended after its answers were there to look at" in refused.out


def test_without_a_finding_every_question_is_asked_also_of_two_models_side_by_side(sweep, own_model):
    path = own_model("other", "worker: {max_tokens: 8}")
    run = sweep("r=1", "n=60", "stop=early", "stop_batch=40", path, model="[scripted,other]")
    assert run.code == 0, run.out
    stop = Manifest.load(run.run_dir).stop
    assert stop["asked"] == {name: {"elementary": 60} for name in ("scripted", "other")}
    assert stop["looks"] == {"scripted": 2, "other": 2}
    assert len(keys_of(run.run_dir)) == len(set(keys_of(run.run_dir))) == 2 * 3 * 60
