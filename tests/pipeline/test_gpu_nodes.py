"""A node with GPUs is killed and no GPU is spare: the other engine finishes the run, and the
terminal says so."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long  # three Ray nodes of its own, two minutes each


@pytest.mark.parametrize("case", ["running", "loading", "joins"])
def test_the_other_engine_finishes_the_run(case: str) -> None:
    env = {**os.environ, "PYTHONPATH": "tests"}
    command = [sys.executable, "-m", "storm.gpu_nodes", case]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert outcome["killed"] and (outcome["exit_code"], outcome["lost"]) == (0, 0), outcome
    assert len(outcome["said"]) == 1 and "with 2 GPUs" in outcome["said"][0], outcome
    assert outcome["nothing_stored_s"] <= 90, (
        outcome
    )  # with a stage that was there: its process starts anew
