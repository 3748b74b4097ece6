"""What goes wrong inside a stage arrives at the driver as the error that it was, and early."""

import time

import pytest

from audit.audits import Work
from audit.command_line import configured
from audit.config import protocol_of
from audit.engines.config import SamplingConfig
from audit.errors import ShardError
from audit.prompting import load_protocol
from audit.records import Reading
from audit.runtime.pipeline import ChunkRun
from audit.runtime.stages import StageContext
from audit.sweep.audit import SWEEP, Own
from audit.sweep.config import design_of


def test_a_run_directory_that_a_node_does_not_see_is_named(driver, tmp_path):
    config = configured("sweep", ["model=scripted"])
    context = StageContext(
        audit=SWEEP,
        work=Work(
            design=design_of(config),
            protocol=load_protocol(protocol_of(config, config.model["scripted"]), SWEEP.templates),
            model="scripted",
            reading=Reading.LETTER,
            preparing=SamplingConfig(8, 0.0, 1.0),
            answering=SamplingConfig(8, 0.0, 1.0),
            seed=1,
            own=Own(),
        ),
        run_dir=str(tmp_path),
        questions_path=str(tmp_path / "questions.arrow"),
        tasks_path=str(tmp_path / "absent.npy"),
        attempt="a",
        store_format="arrow",
        tasks_per_chunk=1,
        model_revision="scripted",
        option_normalisation="token",
        preparing_engines=(),
        answering_engines=(),
    )
    run = ChunkRun(context, n_tasks=1, chunks_in_flight=1, load_timeout_s=60)
    expected = r"absent.npy cannot be read .*every node shares"
    with pytest.raises(ShardError, match=expected):  # while an engine would still load
        for _ in range(600):
            run.check()
            time.sleep(0.1)
    with pytest.raises(ShardError, match=expected) as caught:
        list(run.counts())
    assert "UDF" not in str(caught.value)  # Ray Data's own advice on its settings
    run.close()
