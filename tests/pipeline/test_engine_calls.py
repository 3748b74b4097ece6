"""What a stage does when a replica cannot be reached: ask again, elsewhere meanwhile; an error only
when it is gone."""

import os
import time

import pytest
import ray
from long_tests import long

from audit.core.errors import EngineDiedError
from audit.core.records import GenerationRequest
from audit.runtime.call import EngineCaller

REQUESTS = [
    GenerationRequest(prompt=str(i), affinity=f"q{i}", label="direct/0", seed=0) for i in range(8)
]


@ray.remote(num_cpus=0, max_task_retries=0)
class Replica:
    """Its process ends at its first `deaths` calls; then it answers with what it was asked.

    `room`: a file without which it does not start again, as without a free GPU."""

    def __init__(self, folder: str, deaths: int, room: str = "") -> None:
        self._folder, self._deaths = folder, deaths
        while room and os.listdir(folder) and not os.path.exists(room):
            time.sleep(0.1)

    def progress(self):
        return 0

    def run(self, requests, priority):
        died = len(os.listdir(self._folder))
        if died < self._deaths:
            open(os.path.join(self._folder, str(died)), "w").close()
            os._exit(1)
        return [request.prompt for request in requests]


def replica(folder, deaths: int, restarts: int):
    folder.mkdir()
    return Replica.options(max_restarts=restarts).remote(str(folder), deaths)


@pytest.mark.parametrize("others", [0, long(1)])
def test_a_replica_that_is_started_again_is_asked_again(driver, tmp_path, others):
    """Also the last one: Ray says "unavailable" of it, and not that it died."""
    engines = [replica(tmp_path / str(i), deaths, 2) for i, deaths in enumerate((2, *[0] * others))]
    assert EngineCaller(engines)(REQUESTS) == [request.prompt for request in REQUESTS]


def test_one_that_is_not_started_again_is_the_error(driver, tmp_path):
    with pytest.raises(EngineDiedError, match="was not restarted"):
        EngineCaller([replica(tmp_path / "0", 2, 1)])(REQUESTS)


@ray.remote(num_cpus=0, max_retries=0)
def first_calls(engines):
    """The answers to the first calls of a process, as of a stage that is started again."""
    return EngineCaller(engines)(REQUESTS)


def test_a_process_that_calls_a_lost_replica_first_does_not_wait_for_it(driver, tmp_path):
    """It has not heard yet that the replica is lost, and another one could answer."""
    room, lost = tmp_path / "room", tmp_path / "lost"
    lost.mkdir()
    replicas = Replica.options(max_restarts=1)
    engines = [replicas.remote(str(lost), 1, str(room)), replica(tmp_path / "other", 0, 0)]
    with pytest.raises(ray.exceptions.ActorUnavailableError):
        ray.get(engines[0].run.remote([], 0))
    try:
        answers = ray.get(first_calls.remote(engines), timeout=120)
        assert answers == [request.prompt for request in REQUESTS]
    finally:
        room.touch()
