"""Engines that outlive a run: which one a run gets, and that none is left, whatever happens."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from audit.core.errors import EngineDiedError
from audit.engines.config import ModelConfig
from audit.runtime.keep import give_back, keep_engines, take_pool


@dataclass
class Group:
    """Of GPUs: reserved once one of `behind` has closed."""

    behind: list[Pool]

    def wait(self, _: float) -> bool:
        return not self.behind or any(pool.closed for pool in self.behind)


@dataclass
class Pool:
    model: ModelConfig
    groups: list[Group] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    closed: bool = False
    dead: bool = False

    def ask_of(self, path: str) -> None:
        if self.dead:
            raise EngineDiedError("gone")
        self.paths.append(path)

    def close(self) -> None:
        assert not self.closed
        self.closed = True


@dataclass
class Starts:
    """Counts the engines that are started; `behind`: pools that the next one's GPUs wait for."""

    pools: list[Pool] = field(default_factory=list)
    gpus: bool = True
    behind: list[Pool] = field(default_factory=list)

    def __call__(self, model: ModelConfig, weights: object, path: str) -> Pool:
        self.pools.append(Pool(model, [Group(list(self.behind))] if self.gpus else []))
        return self.pools[-1]


A, B = ModelConfig(name="a", path="a"), ModelConfig(name="b", path="b")


def run(start: Starts, model: ModelConfig, path: str = "questions", failed: bool = False) -> Pool:
    pool = take_pool(model, None, path, start)
    give_back(pool, failed=failed)
    return pool


def test_without_it_every_run_has_an_engine_of_its_own():
    start = Starts()
    assert run(start, A) is not run(start, A)
    assert [pool.closed for pool in start.pools] == [True, True]


def test_the_same_model_is_started_once_and_told_of_the_next_questions():
    start = Starts()
    with keep_engines():
        first = run(start, A)
        with keep_engines():  # a block inside does not end it
            assert run(start, replace(A), "others") is first
        assert not first.closed and first.paths == ["others"]
        assert (
            run(start, replace(A, max_num_seqs=8)) is not first
        )  # another configuration is another engine
        assert take_pool(A, None, "q", start) is first
        assert take_pool(A, None, "q", start) is not first  # which is in use
    assert len(start.pools) == 3 and all(pool.closed for pool in start.pools)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_failed_run_leaves_no_engine(error: type[BaseException]):
    start = Starts()
    with pytest.raises(error), keep_engines():
        engine = run(start, A)
        assert run(start, B, failed=True).closed and not engine.closed
        take_pool(B, None, "q", start)  # and one that was never given back
        raise error
    assert len(start.pools) == 3 and all(pool.closed for pool in start.pools)
    assert run(start, A).closed  # and nothing is kept any more


def test_one_that_died_meanwhile_is_replaced():
    start = Starts()
    with keep_engines():
        run(start, A).dead = True
        assert run(start, A) is start.pools[1] and start.pools[0].closed


def test_an_unused_engine_gives_way_only_where_there_is_no_room():
    start = Starts()
    with keep_engines():
        first, second = run(start, A), run(start, B)
        assert not first.closed  # both fit
        start.behind = [first]
        third = run(start, replace(A, name="c"))
        assert (first.closed, second.closed, third.closed) == (True, False, False)


def test_models_on_cpus_take_turns():
    start = Starts(gpus=False)
    with keep_engines():
        first = run(start, A)
        small = run(start, replace(A, name="s", engine="scripted"))
        assert not first.closed and run(start, B) and first.closed and not small.closed
