"""What goes wrong inside a stage arrives at the driver as the error that it was, and early."""

import time

import pytest

from audit.config.command_line import configured
from audit.config.resolve import resolve_run
from audit.core.errors import ShardError
from audit.runtime.pipeline import ChunkRun
from audit.runtime.stages import StageContext
from audit.sweep.audit import SWEEP


def test_a_run_directory_that_a_node_does_not_see_is_named(driver, tmp_path):
    words = ("model=scripted", "benchmark=elementary", f"run_dir={tmp_path}")
    work = resolve_run(SWEEP, configured("sweep", words)).work("scripted", tmp_path)
    absent = (str(tmp_path), str(tmp_path / "questions.arrow"), str(tmp_path / "absent.npy"))
    context = StageContext(SWEEP, work, *absent, "attempt", "arrow", 1, "scripted", "token", (), ())
    run = ChunkRun(context, n_tasks=1, chunks_in_flight=1, load_timeout_s=60)
    expected = r"absent.npy cannot be read .*every node shares"
    with pytest.raises(ShardError, match=expected):  # while an engine would still load
        for _ in range(9_000):  # for what hangs: a stage of a busy machine starts late
            run.check()
            time.sleep(0.1)
    with pytest.raises(ShardError, match=expected) as caught:
        list(run.counts())
    assert "UDF" not in str(caught.value)  # Ray Data's own advice on its settings
    run.close()
