"""Requests to the replicas of one model, and their replies in order."""

import math
import threading
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from audit.errors import EngineDiedError, EngineError, EngineLoadError, EngineLoadingError
from audit.records import Generation, GenerationRequest

_WEIGHT = 0.1  # of the newest observation of a replica's pace


class Balancer:
    """Affinity first, so that the prefix cache is hit; the replica that is done soonest when that one lags behind.
    `slack` is how many requests more than at that replica may wait at an affinity's own. Requests at a slow replica
    count for more, as its pace shows: else the chunks in flight end up waiting for it alone
    (`tests/bench/fleet.py`)."""

    def __init__(self, replicas: int, slack: int = 32) -> None:
        self._load = [0] * replicas
        self._pace: list[float | None] = [None] * replicas  # seconds a waiting request, as last seen
        self._away = [0.0] * replicas  # until when it is not asked, by this machine's monotonic clock; inf: it is gone
        self._slack = slack
        self._lock = threading.Lock()

    def take(self, affinity: str) -> int:
        """The replica for this request, which counts as waiting until `give_back`."""
        with self._lock:
            asked = self._asked()
            chosen = home = self._home(affinity, asked)
            if self._load[home] > 0 and len(asked) > 1:
                usual = self._usual()
                least = min(asked, key=lambda replica: self._queue(replica, usual))
                if self._queue(home, usual) > self._queue(least, usual) + self._slack:
                    chosen = least
            self._load[chosen] += 1
            return chosen

    def give_back(self, replica: int, requests: int, seconds: float | None = None) -> None:
        """seconds: from `take` until the requests were answered; None where they were not."""
        with self._lock:
            if seconds is not None:
                # Longer with more requests waiting there, if only beyond what a replica answers at once.
                seen = seconds / (self._load[replica] + self._slack)
                before = self._pace[replica]
                self._pace[replica] = seen if before is None else before + _WEIGHT * (seen - before)
            self._load[replica] -= requests

    def lost(self, replica: int) -> bool:
        """A replica answers no more: its affinities move, each to one other. False when there is no other."""
        with self._lock:
            others = any(until < math.inf for one, until in enumerate(self._away) if one != replica)
            if others:
                self._away[replica] = math.inf
            return others

    def unreachable(self, replica: int, for_s: float) -> None:
        """A replica may answer again after so many seconds: others are asked meanwhile, where there are any."""
        with self._lock:
            asked = self._asked()
            if replica in asked and len(asked) > 1:
                self._away[replica] = time.monotonic() + for_s

    def _asked(self) -> list[int]:
        """Those that are there; where none is, those that may come back."""
        now = time.monotonic()
        there = [replica for replica, until in enumerate(self._away) if until <= now]
        return there or [replica for replica, until in enumerate(self._away) if until < math.inf]

    def _home(self, affinity: str, asked: Sequence[int]) -> int:
        home = zlib.crc32(affinity.encode()) % len(self._load)
        if home in asked:
            return home
        return asked[zlib.crc32(f"{affinity}|{home}".encode()) % len(asked)]

    def _queue(self, replica: int, usual: float) -> float:
        """Requests waiting there, in requests of a replica of the usual pace."""
        pace = self._pace[replica]
        return (self._load[replica] + 1) * (1.0 if pace is None else pace / usual)

    def _usual(self) -> float:
        known = [pace for pace in self._pace if pace]
        return sum(known) / len(known) if known else 1.0


_AGAIN_S = 1.0  # before what an unreachable replica was asked is asked again
_UNREACHABLE_S = 15.0  # that a replica is passed over for; Ray takes about this long to give a node up


@dataclass(frozen=True, slots=True)
class Share:
    """The requests of one call that one replica was given, by their indices."""

    replica: int
    indices: list[int]
    sent_s: float


class EngineCaller:
    """Sends requests to the replicas of one model and puts the replies back in order. What a replica was asked that
    died for good goes to the others; one that cannot be reached is passed over for a while, a last one waited for."""

    def __init__(self, engines: Sequence[Any]) -> None:
        self._engines = engines
        self._balancer = Balancer(len(engines))

    def __call__(self, requests: Sequence[GenerationRequest], priority: int = 0) -> list[Generation]:
        """priority: of two calls that wait at an engine, the one of the smaller number is answered first."""
        replies: list[Generation | None] = [None] * len(requests)
        waiting = self._send(requests, range(len(requests)), priority)
        try:
            while waiting:
                done, _ = ray.wait(list(waiting), num_returns=1)
                share = waiting.pop(done[0])
                found, seconds = None, None
                try:
                    found = ray.get(done[0])
                    seconds = time.monotonic() - share.sent_s
                except (ray.exceptions.ActorUnavailableError, EngineLoadingError):
                    # Not dead: Ray starts it again when there is room, and it loads; or Ray says that it died.
                    self._balancer.unreachable(share.replica, _UNREACHABLE_S)
                    time.sleep(_AGAIN_S)
                except (ray.exceptions.RayActorError, EngineDiedError, EngineLoadError) as error:
                    if not self._balancer.lost(share.replica):
                        if isinstance(error, EngineError):
                            raise
                        raise EngineDiedError(
                            "An engine's process died and was not started again (max_restarts). Type the same command "
                            f"again: it goes on where this one stopped. {str(error).splitlines()[0]}"
                        ) from None  # the original cannot travel back to the driver
                finally:
                    self._balancer.give_back(share.replica, len(share.indices), seconds)
                if found is None:
                    waiting |= self._send(requests, share.indices, priority)
                    continue
                for i, reply in zip(share.indices, found, strict=True):
                    replies[i] = reply
        except ray.exceptions.RaySystemError as error:
            # Ray Data would try this again for ever; a reply that cannot be read will not be readable then.
            raise EngineError(f"A reply of the engine could not be read: {error}") from error
        finally:
            for share in waiting.values():
                self._balancer.give_back(share.replica, len(share.indices))
        return [reply for reply in replies if reply is not None]

    def _send(self, requests: Sequence[GenerationRequest], indices: Iterable[int], priority: int) -> dict[Any, Share]:
        shares: dict[int, list[int]] = {}
        for i in indices:
            shares.setdefault(self._balancer.take(requests[i].affinity), []).append(i)
        return {
            self._engines[replica].run.remote([requests[i] for i in own], priority): Share(
                replica, own, time.monotonic()
            )
            for replica, own in shares.items()
        }
