"""Send requests to the replicas of one model, and return their replies in order."""

import math
import threading
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from audit.core.errors import EngineDiedError, EngineError, EngineLoadError, EngineLoadingError
from audit.core.records import Generation, GenerationRequest

# number of additional requests that may wait at the home replica, compared to the replica with the
# shortest queue
SLACK = 32
_WEIGHT = 0.1  # weight of the newest observation in the moving average of a replica's pace


class Balancer:
    """Choose a replica for each request.

    Requests with the same affinity have the same home replica. The home replica is preferred,
    because its prefix cache may hold the beginning of the prompt. If its queue is longer than the
    shortest queue by more than `SLACK`, the replica with the shortest queue is chosen instead.

    The length of a queue is measured in requests, multiplied by the relative time that the replica
    needs for a request. Without this weight, all chunks in flight would finally wait for a slow
    replica (`tests/bench/fleet.py`).
    """

    def __init__(self, replicas: int) -> None:
        self._load = [0] * replicas
        # For each replica, the moving average of the seconds per waiting request; None if unknown.
        self._pace: list[float | None] = [None] * replicas
        # For each replica, the time (monotonic clock) until which it is skipped; inf if it is lost.
        self._away = [0.0] * replicas
        self._lock = threading.Lock()

    def take(self, affinity: str) -> int:
        """Choose a replica for a request.

        The request counts as waiting at this replica until `give_back` is called.

        Parameters
        ----------
        affinity : str
            Key of the request. Requests with the same key prefer the same replica.

        Returns
        -------
        int
            Index of the chosen replica.
        """
        with self._lock:
            usable = self._usable()
            chosen = home = self._home(affinity, usable)
            if self._load[home] > 0 and len(usable) > 1:
                usual = self._usual()
                least = min(usable, key=lambda replica: self._queue(replica, usual))
                if self._queue(home, usual) > self._queue(least, usual) + SLACK:
                    chosen = least
            self._load[chosen] += 1
            return chosen

    def give_back(self, replica: int, requests: int, seconds: float | None = None) -> None:
        """Record that requests at a replica were answered or have failed.

        Parameters
        ----------
        replica : int
            Index of the replica.
        requests : int
            The number of requests.
        seconds : float or None
            The time from `take` until the requests were answered; None if the requests failed.
        """
        with self._lock:
            if seconds is not None:
                # The time grows with the number of waiting requests. Up to about `SLACK` requests
                # are answered at the same time, so smaller numbers do not affect the time.
                seen = seconds / (self._load[replica] + SLACK)
                before = self._pace[replica]
                self._pace[replica] = seen if before is None else before + _WEIGHT * (seen - before)
            self._load[replica] -= requests

    def lost(self, replica: int) -> bool:
        """Remove a lost replica, and return whether another replica is left.

        The requests that prefer the lost replica then prefer other replicas. If no other replica is
        left, nothing is changed.
        """
        with self._lock:
            away = [*self._away[:replica], *self._away[replica + 1 :]]
            others = any(until < math.inf for until in away)
            if others:
                self._away[replica] = math.inf
            return others

    def unreachable(self, replica: int, for_s: float) -> None:
        """Skip a replica for some seconds, unless it is the only replica that can be reached.

        Parameters
        ----------
        replica : int
            Index of the replica.
        for_s : float
            Number of seconds for which the replica is skipped.
        """
        with self._lock:
            usable = self._usable()
            if replica in usable and len(usable) > 1:
                self._away[replica] = time.monotonic() + for_s

    def _usable(self) -> list[int]:
        """Return the indices of the reachable replicas.

        If no replica is reachable, return the indices of all replicas that are not lost.
        """
        now = time.monotonic()
        reachable = []
        for replica, until in enumerate(self._away):
            if until <= now:
                reachable.append(replica)
        return reachable or [
            replica for replica, until in enumerate(self._away) if until < math.inf
        ]

    def _home(self, affinity: str, usable: Sequence[int]) -> int:
        home = zlib.crc32(affinity.encode()) % len(self._load)
        if home in usable:
            return home
        return usable[zlib.crc32(f"{affinity}|{home}".encode()) % len(usable)]

    def _queue(self, replica: int, usual: float) -> float:
        """Return the weighted length of the queue at a replica.

        The length is (waiting requests + 1) * pace / usual pace, where the pace is measured in
        seconds per waiting request.
        """
        pace = self._pace[replica]
        return (self._load[replica] + 1) * (1.0 if pace is None else pace / usual)

    def _usual(self) -> float:
        known = []
        for pace in self._pace:
            if pace:
                known.append(pace)
        return sum(known) / len(known) if known else 1.0


_RETRY_S = 1.0  # time to wait before requests to an unreachable replica are repeated
# time for which a replica is skipped; Ray needs about this time to detect a lost node
_UNREACHABLE_S = 15.0
_SILENT_S = 10.0  # a replica that answered nothing for this time is called again


@dataclass(frozen=True, slots=True)
class Share:
    """Hold the indices of the requests that were sent to one replica in one call."""

    replica: int
    indices: list[int]
    sent_s: float


class EngineCaller:
    """Send requests to the replicas of one model, and return the replies in order.

    If a replica dies, its requests are sent to other replicas. A replica that cannot be reached is
    skipped for some seconds, unless it is the last replica.
    """

    def __init__(self, engines: Sequence[Any]) -> None:
        self._engines = engines
        self._balancer = Balancer(len(engines))

    def __call__(
        self, requests: Sequence[GenerationRequest], priority: int = 0
    ) -> list[Generation]:
        """Send requests to the replicas, and return the replies in the order of the requests.

        Parameters
        ----------
        requests : sequence of GenerationRequest
            Requests to the model.
        priority : int
            Priority of the requests. An engine answers requests with smaller numbers first.

        Returns
        -------
        list of Generation
            One reply for each request.

        Raises
        ------
        EngineError
            If no replica is left, or a reply cannot be read.
        """
        replies: list[Generation | None] = [None] * len(requests)
        waiting = self._send(requests, range(len(requests)), priority)
        try:
            while waiting:
                done, _ = ray.wait(list(waiting), num_returns=1, timeout=_SILENT_S)
                if not done:
                    self._call_silent({share.replica for share in waiting.values()})
                    continue
                share = waiting.pop(done[0])
                answers, seconds = None, None
                try:
                    answers = ray.get(done[0])
                    seconds = time.monotonic() - share.sent_s
                except (ray.exceptions.ActorUnavailableError, EngineLoadingError):
                    # The replica is not dead yet. Ray restarts it when GPUs are free, or reports
                    # later that it is dead.
                    self._balancer.unreachable(share.replica, _UNREACHABLE_S)
                    time.sleep(_RETRY_S)
                except (ray.exceptions.RayActorError, EngineDiedError, EngineLoadError) as error:
                    if not self._balancer.lost(share.replica):
                        if isinstance(error, EngineError):
                            raise
                        # A new error is raised, since the original exception cannot be sent to the
                        # driver.
                        raise EngineDiedError(
                            "An engine's process died and was not restarted (max_restarts). To continue, type the same "
                            f"command again. {str(error).splitlines()[0]}"
                        ) from None
                finally:
                    self._balancer.give_back(share.replica, len(share.indices), seconds)
                if answers is None:
                    waiting |= self._send(requests, share.indices, priority)
                    continue
                for i, reply in zip(share.indices, answers, strict=True):
                    replies[i] = reply
        except ray.exceptions.RaySystemError as error:
            # Without this error, Ray Data would repeat the call forever, although the reply would
            # remain unreadable.
            raise EngineError(f"A reply of the engine could not be read: {error}") from error
        finally:
            for share in waiting.values():
                self._balancer.give_back(share.replica, len(share.indices))
        answered = []
        for reply in replies:
            if reply is not None:
                answered.append(reply)
        return answered

    def _call_silent(self, replicas: Iterable[int]) -> None:
        """Call replicas that have not answered for some time, so that Ray reports lost replicas.

        A call to a replica that Ray is restarting may be queued, if this process does not know of
        the restart yet. Ray lets a queued call fail only when another call follows.
        """
        for replica in replicas:
            self._engines[replica].progress.remote()

    def _send(
        self, requests: Sequence[GenerationRequest], indices: Iterable[int], priority: int
    ) -> dict[Any, Share]:
        shares: dict[int, list[int]] = {}
        for i in indices:
            shares.setdefault(self._balancer.take(requests[i].affinity), []).append(i)
        calls: dict[Any, Share] = {}
        for replica, chosen in shares.items():
            call = self._engines[replica].run.remote([requests[i] for i in chosen], priority)
            calls[call] = Share(replica, chosen, time.monotonic())
        return calls
