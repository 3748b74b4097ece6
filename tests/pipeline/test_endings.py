"""How a run ends that a person stops, or whose endpoint is dead: one sentence, and what is stored
is kept."""

import os
import signal
import time

import pytest
from pipeline_helpers import keys_of, until
from servers_here import free_port

from audit.core.errors import ConfigError
from audit.runtime.start import _stderr_held_back

SWEEP = (
    "benchmark=elementary",
    "r=1",
    "n=60",
    "arms=[direct]",
    "store.rows_per_shard=6",
    "cluster.chunks_in_flight=1",
)
SLOW = "scripted: {latency_s: 2}"  # a call: time to be stopped in, on a busy machine too


@pytest.mark.long  # a driver and two models; test_suite.py stops a run by Ctrl-C, test_exit_codes.py by SIGTERM
def test_sigterm_keeps_what_two_models_stored_side_by_side_and_says_so(command, own_model):
    """Ctrl-C ends a run in the same way: test_suite.py."""
    path = own_model("one", SLOW)
    own_model("two", f"{SLOW}\nworker: {{max_tokens: 8}}")
    run = command(*SWEEP, path, model="[one,two]")
    until(
        lambda: {key[0] for key in keys_of(run.run_dir, empty=True)} == {"one", "two"}, run.process
    )
    run.process.send_signal(signal.SIGTERM)
    code, out = run.wait()
    keys = keys_of(run.run_dir)
    assert (
        code == 143 and {key[0] for key in keys} == {"one", "two"} and len(set(keys)) == len(keys)
    ), out
    assert all(
        sum(key[0] == name for key in keys) < 60 for name in ("one", "two")
    )  # neither waited for the other
    assert out.rstrip().endswith(
        f"Stopped: {len(keys)} rows kept in {run.run_dir}; the same command goes on"
    )
    # What Ray's core says of its own settings, of the level of its own log, and of a signal that it
    # gets.
    assert not [mark for mark in ("Traceback", "[E ", "logging.cc", "***") if mark in out], out


def test_a_dead_endpoint_is_one_sentence_soon(sweep):
    began = time.process_time()  # of the processor: a busy machine lengthens it less than the clock
    dead = f"model.openai_compatible.endpoints=[{{url: 'http://127.0.0.1:{free_port()}/v1', model: m}}]"
    done = sweep("r=1", "n=5", dead, model="openai_compatible")
    assert done.code == 1
    assert done.out.count("error") == 1, done.out
    assert "joining Ray" not in done.out and time.process_time() - began < 15


def test_a_token_that_a_ray_refuses_is_named_and_not_said_twenty_times(capfd):
    with pytest.raises(ConfigError, match="RAY_AUTH_MODE=token"), _stderr_held_back():
        for _ in range(20):
            os.write(
                2,
                b"gcs_client.cc:210: RPC error: InvalidAuthToken: Authentication token is missing",
            )
        raise ConnectionError("Failed to connect")
    assert "InvalidAuthToken" not in capfd.readouterr().err
    with pytest.raises(ConnectionError), _stderr_held_back():
        os.write(2, b"what else Ray's core says")
        raise ConnectionError("Failed to connect")
    assert "what else Ray's core says" in capfd.readouterr().err
