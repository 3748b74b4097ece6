"""Models of one job side by side: who runs beside whom, who waits, and that whatever ends the loop
ends every run."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator
from functools import partial

import pytest

from audit.core.errors import AuditError, EngineError, ShardError
from audit.engines.config import ModelConfig
from audit.engines.openai_config import EndpointConfig
from audit.runtime import placement
from audit.runtime.placement import NoRoom, may_run_beside, run_in_turns


class Job:
    """Runs of `steps` steps each, in a cluster with room for `room` GPUs; each model takes those of
    `gpus`."""

    def __init__(self, gpus: dict[str, int], room: int, steps: int = 3) -> None:
        self.gpus, self.room, self.steps = gpus, room, steps
        self.log: list[str] = []
        self.running: set[str] = set()
        self.most = 0
        self.failed: dict[str, str] = {}
        self.raises: dict[str, BaseException] = {}

    def work(self, name: str, others: Callable[[], bool]) -> Generator[None]:
        if others() and isinstance(self.raises.get(name), NoRoom):
            self.log.append(f"{name} has no room")
            raise self.raises.pop(name)
        self.log.append(f"{name} starts")
        self.running.add(name)
        try:
            for step in range(self.steps):
                assert sum(self.gpus[model] for model in self.running) <= self.room
                self.most = max(self.most, len(self.running))
                yield
                if step == 1 and name in self.raises:
                    raise self.raises[name]
        finally:
            self.running.remove(name)
            self.log.append(f"{name} ends")

    def may_join(self, name: str, running: Collection[str]) -> bool:
        return sum(self.gpus[model] for model in (name, *running)) <= self.room

    def ended(self, name: str, error: AuditError | None) -> None:
        if error is not None:
            self.failed[name] = str(error)

    def run(self) -> Job:
        def start(name: str):
            return lambda others: self.work(name, others)

        run_in_turns({name: start(name) for name in self.gpus}, self.may_join, self.ended)
        return self


def test_those_that_fit_run_at_once_and_the_others_in_their_turn():
    job = Job({"a": 4, "b": 8, "c": 2, "d": 2, "e": 2}, room=8).run()
    starts = [line[0] for line in job.log if line.endswith("starts")]
    assert starts == [
        "a",
        "c",
        "d",
        "b",
        "e",
    ]  # b needs all; e found no room beside a, c and d, and b came first
    assert job.most == 3 and not job.running


def test_one_that_fails_is_named_and_the_others_go_on():
    job = Job({"a": 1, "b": 1, "c": 1}, room=2)
    job.raises["a"] = EngineError("it died")
    job.run()
    assert (
        job.failed == {"a": "it died"} and {"b ends", "c ends"} < set(job.log) and not job.running
    )


@pytest.mark.parametrize(
    "error", [ShardError("the disk is full"), KeyboardInterrupt(), RuntimeError("a bug")]
)
def test_what_ends_the_job_ends_every_run(error: BaseException):
    job = Job({"a": 1, "b": 1, "c": 1}, room=2, steps=9)
    job.raises["a"] = error
    with pytest.raises(type(error)):
        job.run()
    assert job.log == ["a starts", "b starts", "a ends", "b ends"] and not job.failed


def test_one_whose_gpus_another_job_took_waits_for_an_end_and_is_not_a_failure():
    job = Job({"a": 1, "b": 1, "c": 1}, room=3)
    job.raises["b"] = NoRoom()
    job.run()
    assert job.log[:3] == ["a starts", "b has no room", "c starts"]
    assert (
        job.log.index("b starts") > job.log.index("a ends") and not job.failed and not job.running
    )


def test_each_knows_whether_others_run_at_that_moment():
    answers: dict[str, list[bool]] = {"long": [], "short": []}

    def run(name: str, steps: int, others: Callable[[], bool]) -> Generator[None]:
        for _ in range(steps):
            answers[name].append(others())
            yield

    runs = {"long": partial(run, "long", 4), "short": partial(run, "short", 2)}
    run_in_turns(runs, lambda name, running: True, lambda name, error: None)
    assert answers == {"long": [True, True, True, False], "short": [True, True]}


def test_nodes_that_join_are_used_before_one_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(placement, "_ASK_AGAIN_S", 0.0)
    job = Job({"a": 1, "b": 1}, room=1, steps=9)
    names: list[str] = []

    def may_join(name: str, running: Collection[str]) -> bool:
        names.append(name)
        job.room = 1 + (len(names) > 3)  # another node
        return Job.may_join(job, name, running)

    job.may_join = may_join
    job.run()
    assert job.log[:2] == ["a starts", "b starts"] and len(names) == 4


def test_room_is_counted_in_gpus():
    large = ModelConfig(name="large", tensor_parallel_size=4)
    small = ModelConfig(name="small", replicas=2)
    hosted = ModelConfig(
        name="hosted", engine="openai", endpoints=[EndpointConfig(url="https://a/v1")]
    )
    assert may_run_beside([small], [large], 6) and not may_run_beside([small], [large], 5)
    assert not may_run_beside(
        [small, large], [small], 7
    )  # a router and its worker, each with an engine
    assert may_run_beside([hosted], [large], 4) and may_run_beside([large], [hosted], 4)
    assert may_run_beside([ModelConfig(engine="scripted")], [large, small], 6)
    assert may_run_beside(
        [large], [large, small], math.inf
    )  # an autoscaler starts what is not there


def test_engines_that_compute_on_the_cpus_take_turns():
    first, other, bert = ModelConfig(), ModelConfig(path="b"), ModelConfig(engine="masked_lm")
    assert not may_run_beside([first], [other], 0) and not may_run_beside([bert], [first], 0)
    assert may_run_beside([bert], [first], 1) and not may_run_beside([bert], [bert], 1)
    assert may_run_beside([first], [ModelConfig(engine="scripted")], 0)


def at(*urls: str) -> list[ModelConfig]:
    return [ModelConfig(engine="openai", endpoints=[EndpointConfig(url=url) for url in urls])]


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8000/v1",
        "http://LOCALHOST:8000/v1/",
        "http://127.0.0.1:8000/v1",
        "http://[::1]:8000/v1",
    ],
)
def test_a_server_is_asked_for_one_model_at_a_time_under_whatever_name(url: str):
    assert not may_run_beside(at("https://c/v1", url), at("http://127.0.0.1:8000/v1"), 0)
    assert may_run_beside(at(url), at("http://127.0.0.1:8001/v1"), 0)
    assert may_run_beside(at(url), at("http://127.0.0.1:8000/other/v1"), 0)
    assert not may_run_beside(at("https://A.example:443/v1"), at("https://a.example/v1/"), 0)
