"""A job on a cluster of three nodes, one of which loses its power: every row, as an undisturbed run
has it."""

import json
import os
import subprocess
import sys

import pytest
from storm.machines import own_network
from storm.nights import SWEEP

QUESTIONS = 40


@pytest.mark.long
def test_a_node_dies_and_the_job_ends_on_the_other_one(sweep, tmp_path):
    if own_network() is None:
        pytest.skip(
            "three nodes: no network namespace can be made here (root or user namespaces, and `ip`)"
        )
    calm = sweep(*SWEEP[1:], f"n={QUESTIONS}", run_dir=tmp_path / "calm")
    assert calm.code == 0, calm.out
    command = [sys.executable, "-m", "storm.cluster", "node_killed", f"--questions={QUESTIONS}"]
    env = {**os.environ, "PYTHONPATH": "tests"}
    done = subprocess.run(
        [*command, f"--calm={calm.run_dir}"], env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["exit_codes"] == [0], outcome
    assert (outcome["rows"], outcome["lost"], outcome["double"], outcome["wrong"]) == (
        QUESTIONS * 7,
        0,
        0,
        0,
    ), outcome
    assert sum(node.endswith("DEAD") for node in outcome["nodes"]) >= 1, outcome
