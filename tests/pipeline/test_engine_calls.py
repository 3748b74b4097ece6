"""What a stage does when a replica cannot be reached: ask again, elsewhere meanwhile; an error only
when it is gone."""

import os

import pytest
import ray

from audit.core.errors import EngineDiedError
from audit.core.records import GenerationRequest
from audit.runtime.call import EngineCaller

REQUESTS = [
    GenerationRequest(prompt=str(i), affinity=f"q{i}", label="direct/0", seed=0) for i in range(8)
]


@ray.remote(num_cpus=0, max_task_retries=0)
class Replica:
    """Its process ends at its first `deaths` calls; then it answers with what it was asked."""

    def __init__(self, folder: str, deaths: int) -> None:
        self._folder, self._deaths = folder, deaths

    def run(self, requests, priority):
        died = len(os.listdir(self._folder))
        if died < self._deaths:
            open(os.path.join(self._folder, str(died)), "w").close()
            os._exit(1)
        return [request.prompt for request in requests]


def replica(folder, deaths: int, restarts: int):
    folder.mkdir()
    return Replica.options(max_restarts=restarts).remote(str(folder), deaths)


@pytest.mark.parametrize("others", [0, 1])
def test_a_replica_that_is_started_again_is_asked_again(driver, tmp_path, others):
    """Also the last one: Ray says "unavailable" of it, and not that it died."""
    engines = [replica(tmp_path / str(i), deaths, 2) for i, deaths in enumerate((2, *[0] * others))]
    assert EngineCaller(engines)(REQUESTS) == [request.prompt for request in REQUESTS]


def test_one_that_is_not_started_again_is_the_error(driver, tmp_path):
    with pytest.raises(EngineDiedError, match="was not restarted"):
        EngineCaller([replica(tmp_path / "0", 2, 1)])(REQUESTS)
