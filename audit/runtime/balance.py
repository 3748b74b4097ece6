"""Which replica of a model answers a request (policy only): its affinity's own, unless that is much busier."""

from __future__ import annotations

import threading
import time
import zlib

_WEIGHT = 0.1  # of the newest observation of a replica's pace


class Balancer:
    """Affinity first, so that the prefix cache is hit; the replica that is done soonest when that one lags behind.

    `slack` is how many requests more than at that replica may wait at an affinity's own. Requests at a slow replica
    count for more, as its pace shows: a queue of equal length would take it longer, and the chunks in flight would end
    up waiting for it alone (`tests/bench/fleet.py`).
    """

    def __init__(self, replicas: int, slack: int = 32) -> None:
        self._load = [0] * replicas
        self._pace: list[float | None] = [None] * replicas  # seconds a waiting request, as last seen
        self._alive = list(range(replicas))
        self._back_at: dict[int, float] = {}  # of those that cannot be reached, by this machine's monotonic clock
        self._slack = slack
        self._lock = threading.Lock()

    def take(self, affinity: str, requests: int) -> int:
        """The replica for these requests, which count as waiting until `give_back`."""
        with self._lock:
            if self._back_at:
                self._find_again()
            home = self._home(affinity)
            chosen = home
            if self._load[home] > 0 and len(self._alive) > 1:
                usual = self._usual()
                least = min(self._alive, key=lambda replica: self._queue(replica, usual))
                if self._queue(home, usual) > self._queue(least, usual) + self._slack:
                    chosen = least
            self._load[chosen] += requests
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
            self._back_at.pop(replica, None)
            others = [one for one in self._alive if one != replica]
            if not others:
                others = list(self._back_at)
                self._back_at.clear()
            self._alive = others or self._alive
            return bool(others)

    def unreachable(self, replica: int, for_s: float) -> None:
        """A replica may answer again after so many seconds: others are asked meanwhile, where there are any."""
        with self._lock:
            if replica in self._alive and len(self._alive) > 1:
                self._alive.remove(replica)
                self._back_at[replica] = time.monotonic() + for_s

    def _find_again(self) -> None:
        now = time.monotonic()
        found = [replica for replica, at in self._back_at.items() if at <= now]
        for replica in found:
            del self._back_at[replica]
        self._alive = sorted([*self._alive, *found])

    def _home(self, affinity: str) -> int:
        home = zlib.crc32(affinity.encode()) % len(self._load)
        if home in self._alive:
            return home
        return self._alive[zlib.crc32(f"{affinity}|{home}".encode()) % len(self._alive)]

    def _queue(self, replica: int, usual: float) -> float:
        """Requests waiting there, in requests of a replica of the usual pace."""
        pace = self._pace[replica]
        return (self._load[replica] + 1) * (1.0 if pace is None else pace / usual)

    def _usual(self) -> float:
        known = [pace for pace in self._pace if pace]
        return sum(known) / len(known) if known else 1.0
