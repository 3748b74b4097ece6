"""Share engines among runs of one process: within `keep_engines()` a model is loaded once.

An engine is kept if its run ended well. Engines of a failed run are closed at once, all others at
the end of the block, however it ends. An unused engine is closed if another model needs its room.
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

ROOM_WAIT_S = 2.0  # the limit for reserving GPUs that others may release


@dataclass
class _Held:
    """Hold a pool with what it was started for. Pools with equal settings have the same engine."""

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
    """Keep engines beyond their runs within the block. A nested block is part of the outer one."""
    global _held
    if _held is not None:
        yield
        return
    _held = []
    try:
        yield
    finally:
        with ExitStack() as closing:  # all are closed, even if one raises
            for held in reversed(_held):
                closing.callback(held.pool.close)
            _held = None


def take_pool(
    model: ModelConfig,
    weights: Weights | None,
    questions_path: str,
    start: Callable[..., EnginePool],
) -> EnginePool:
    """Return the kept pool of a model, or else a new one. It must be returned with `give_back`.

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
            except EngineError:  # the engine ended meanwhile, so another is started
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
    """Return a pool after a run. It is closed unless engines are kept and the run ended well.

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
