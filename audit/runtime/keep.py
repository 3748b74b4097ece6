"""Share loaded engines among the runs of one process.

Within a block `with keep_engines()`, each model is loaded only once.

An engine stays loaded if its run ended without an error. Engines of a failed run are closed at
once. All engines are closed at the end of the block, even after an exception. An unused engine is
closed earlier if another model needs its GPUs.
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
class _KeptPool:
    """Hold a pool of loaded engines, together with the settings of their model.

    The pool can be used again for a model with equal settings.
    """

    model: ModelConfig
    weights: Weights | None
    pool: EnginePool
    used: bool = True

    @property
    def on_cpus(self) -> bool:
        """Return whether the engine computes on CPUs."""
        return self.model.engine == "vllm" and not self.pool.groups


_kept_pools: list[_KeptPool] | None = None  # None if no engines are kept


@contextmanager
def keep_engines() -> Iterator[None]:
    """Keep engines loaded after their runs, until the block ends.

    Nested blocks count as one: engines stay loaded until the outer block ends.
    """
    global _kept_pools
    if _kept_pools is not None:
        yield
        return
    _kept_pools = []
    try:
        yield
    finally:
        with ExitStack() as closing:  # all pools are closed, even if closing one of them raises
            for kept_pool in reversed(_kept_pools):
                closing.callback(kept_pool.pool.close)
            _kept_pools = None


def take_pool(
    model: ModelConfig,
    weights: Weights | None,
    questions_path: str,
    start: Callable[..., EnginePool],
) -> EnginePool:
    """Return a pool of engines for a model: a kept pool if possible, otherwise a new pool.

    The caller must pass the pool to `give_back` after the run.

    Parameters
    ----------
    model : ModelConfig
        Settings of the model.
    weights : Weights or None
        The resolved weights of the model.
    questions_path : str
        Path of the file with the run's questions.
    start : callable
        Function that starts a new pool.

    Returns
    -------
    EnginePool
        The pool of engines for the run.
    """
    if _kept_pools is None:
        return start(model, weights, questions_path)
    for kept_pool in list(_kept_pools):
        if not kept_pool.used and (kept_pool.model, kept_pool.weights) == (model, weights):
            try:
                kept_pool.pool.ask_of(questions_path)
            except EngineError:  # the engine has ended, so a new engine is started
                _kept_pools.remove(kept_pool)
                kept_pool.pool.close()
                break
            kept_pool.used = True
            return kept_pool.pool
    new = _KeptPool(model, weights, start(model, weights, questions_path))
    _kept_pools.append(new)
    # Unused engines are closed, the oldest first, until the GPUs of the new engine are reserved. On
    # CPUs, an unused engine is always closed, because memory is not reserved for engines there.
    unused = [kept_pool for kept_pool in _kept_pools if not kept_pool.used]
    for kept_pool in unused:
        both_on_cpus = new.on_cpus and kept_pool.on_cpus
        if both_on_cpus or not all(group.wait(ROOM_WAIT_S) for group in new.pool.groups):
            _kept_pools.remove(kept_pool)
            kept_pool.pool.close()
    return new.pool


def give_back(pool: EnginePool, *, failed: bool) -> None:
    """Release a pool after a run.

    The pool is closed if the run failed, or outside a block `with keep_engines()`. Otherwise its
    engines stay loaded.

    Parameters
    ----------
    pool : EnginePool
        The pool that `take_pool` returned.
    failed : bool
        Whether the run failed.
    """
    matching = []
    for kept_pool in _kept_pools or ():
        if kept_pool.pool is pool:
            matching.append(kept_pool)
    if matching and not failed:
        matching[0].used = False
        return
    if _kept_pools is not None and matching:
        _kept_pools.remove(matching[0])
    pool.close()
