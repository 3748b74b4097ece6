"""Share engines among runs of one process: within `keep_engines()` a model is loaded once.

An engine is kept if its run ended well. Engines of a failed run are closed at once. All other
engines are closed at the end of the block, even after an exception. An unused engine is closed if
another model needs its GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audit.core.errors import EngineError

if TYPE_CHECKING:
    from audit.engines.config import ModelConfig
    from audit.engines.weights import Weights
    from audit.runtime.actors import EnginePool

ROOM_WAIT_S = 2.0  # time limit for reserving GPUs that other jobs may release


@dataclass
class _Held:
    """Hold a pool with the settings that it was started with. Pools with equal settings have the
    same engine.
    """

    model: ModelConfig
    weights: Weights | None
    pool: EnginePool
    used: bool = True

    @property
    def on_cpus(self) -> bool:
        """Return whether the engine computes on CPUs."""
        return self.model.engine == "vllm" and not self.pool.groups


_held: list[_Held] | None = None  # None if no engines are kept


@contextmanager
def keep_engines() -> Iterator[None]:
    """Keep engines after their runs within the block. A nested block is part of the outer block."""
    global _held
    if _held is not None:
        yield
        return
    _held = []
    try:
        yield
    finally:
        with ExitStack() as closing:  # all pools are closed, even if closing one of them raises
            for held in reversed(_held):
                closing.callback(held.pool.close)
            _held = None


def take_pool(
    model: ModelConfig,
    weights: Weights | None,
    questions_path: str,
    start: Callable[..., EnginePool],
) -> EnginePool:
    """Return the kept pool of a model, or else a new pool. The caller returns the pool with
    `give_back`.

    Parameters
    ----------
    model : ModelConfig
        The model's settings.
    weights : Weights or None
        Its resolved weights.
    questions_path : str
        The questions of the run.
    start : callable
        Starts a new pool.

    Returns
    -------
    EnginePool
        The pool.
    """
    if _held is None:
        return start(model, weights, questions_path)
    for held in list(_held):
        if not held.used and (held.model, held.weights) == (model, weights):
            try:
                held.pool.ask_of(questions_path)
            except EngineError:  # the engine has ended, so a new engine is started
                _held.remove(held)
                held.pool.close()
                break
            held.used = True
            return held.pool
    new = _Held(model, weights, start(model, weights, questions_path))
    _held.append(new)
    # Unused engines are closed, the oldest first, until the new one's GPUs are reserved. On CPUs
    # models take turns, because memory is not reserved there.
    unused = [held for held in _held if not held.used]
    for held in unused:
        both_on_cpus = new.on_cpus and held.on_cpus
        if both_on_cpus or not all(group.wait(ROOM_WAIT_S) for group in new.pool.groups):
            _held.remove(held)
            held.pool.close()
    return new.pool


def give_back(pool: EnginePool, *, failed: bool) -> None:
    """Return a pool after a run. The pool is closed unless engines are kept and the run ended well.

    Parameters
    ----------
    pool : EnginePool
        The pool.
    failed : bool
        Whether the run failed.
    """
    kept = []
    for held in _held or ():
        if held.pool is pool:
            kept.append(held)
    if kept and not failed:
        kept[0].used = False
        return
    if _held is not None and kept:
        _held.remove(kept[0])
    pool.close()
