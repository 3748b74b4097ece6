"""Engines that several runs of one process share: under `keep_engines()` a model is loaded once.

An engine is kept where its run ended well. The engines of a run that failed are closed at once, all others at the end
of the block, however it ends. One that nobody uses gives way to another model that would find no room beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audit.errors import EngineError

if TYPE_CHECKING:
    from audit.engines.config import ModelConfig
    from audit.engines.weights import Weights
    from audit.runtime.actors import EnginePool

ROOM_WAIT_S = 2.0  # for GPUs to be reserved that others may give back


@dataclass
class _Held:
    """A pool with what it was started for. Two are the same engine where all of this is equal."""

    model: ModelConfig
    weights: Weights | None
    pool: EnginePool
    used: bool = True

    @property
    def on_cpus(self) -> bool:
        return self.model.engine == "vllm" and not self.pool.groups


_held: list[_Held] | None = None  # None: nothing is kept


@contextmanager
def keep_engines() -> Iterator[None]:
    """Within it, engines outlive their runs; a block inside another is part of it."""
    global _held
    if _held is not None:
        yield
        return
    _held = []
    try:
        yield
    finally:
        with ExitStack() as closing:  # all of them, whatever one of them does
            for one in reversed(_held):
                closing.callback(one.pool.close)
            _held = None


def take_pool(
    model: ModelConfig, weights: Weights | None, questions_path: str, start: Callable[..., EnginePool]
) -> EnginePool:
    """The pool that is kept for this model, else a new one of `start`. To be given back with `give_back`."""
    if _held is None:
        return start(model, weights, questions_path)
    for one in list(_held):
        if not one.used and (one.model, one.weights) == (model, weights):
            try:
                one.pool.ask_of(questions_path)
            except EngineError:  # it ended since: another is started
                _held.remove(one)
                one.pool.close()
                break
            one.used = True
            return one.pool
    new = _Held(model, weights, start(model, weights, questions_path))
    _held.append(new)
    # Unused engines are closed, the oldest first, until the new one's GPUs are reserved. On CPUs models take turns:
    # nobody reserves memory there.
    for one in [one for one in _held if not one.used]:
        if (new.on_cpus and one.on_cpus) or not all(group.wait(ROOM_WAIT_S) for group in new.pool.groups):
            _held.remove(one)
            one.pool.close()
    return new.pool


def give_back(pool: EnginePool, *, failed: bool) -> None:
    """A run is done with a pool. It is closed unless engines are kept and the run ended well."""
    held = next((one for one in _held or () if one.pool is pool), None)
    if held is not None and not failed:
        held.used = False
        return
    if _held is not None and held is not None:
        _held.remove(held)
    pool.close()
