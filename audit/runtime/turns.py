"""Whose turn it is among the models of one job: those that fit beside each other run at once, the others wait.

One thread runs them all. A model's run is a generator that yields wherever it waits; what it waits for (engines, Ray
Data) works in processes and threads of its own. So Ctrl-C, the manifest, the display and kept engines need no locks,
and whatever ends the loop ends every run: `close()` raises at its yield, and it gives its engines back.
"""

import math
import time
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import ExitStack
from functools import partial

from audit.errors import AuditError, ShardError

STEP_S = 0.05  # between two steps of what is waited for
_ASK_AGAIN_S = 30.0  # nodes may have joined


class NoRoom(Exception):
    """Raised by a run that joined others and found that its GPUs are taken or lie apart; it holds nothing."""


def run_in_turns(
    runs: Mapping[str, Callable[[Callable[[], bool]], Generator[None]]],
    may_join: Callable[[str, Collection[str]], bool],
    ended: Callable[[str, AuditError | None], None],
) -> None:
    """Run all, in the order of `runs` where they cannot run at once.

    runs: start one, with what tells whether others run at that moment. may_join(name, running): is there room for it
    beside those? ended(name, error): it ran to its end, or raised this; the others go on. ShardError (the disk or the
    run directory) and what is no AuditError end all.
    """
    waiting, running, refused = list(runs), dict[str, Generator[None]](), set[str]()
    asked_at = -math.inf  # who may join; again once one has ended
    with ExitStack() as opened:
        while waiting or running:
            ask = time.monotonic() >= asked_at + _ASK_AGAIN_S
            asked_at = time.monotonic() if ask else asked_at
            for name in list(waiting) if ask else ():
                if not running or (name not in refused and may_join(name, running)):
                    waiting.remove(name)
                    running[name] = run = runs[name](partial(_others, name, running))
                    opened.callback(run.close)
            for name, run in list(running.items()):
                error: AuditError | None = None
                try:
                    next(run)
                    continue
                except NoRoom:
                    waiting = [one for one in runs if one in {name, *waiting}]  # in its place
                    refused.add(name)
                except StopIteration:
                    pass
                except ShardError:
                    raise
                except AuditError as failure:
                    error = failure
                del running[name]
                asked_at = -math.inf
                if name not in waiting:
                    refused.clear()
                    ended(name, error)
            time.sleep(STEP_S)


def _others(name: str, running: Collection[str]) -> bool:
    return any(one != name for one in running)
