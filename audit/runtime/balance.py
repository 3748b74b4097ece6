"""Which replica of a model answers a request (policy only): its affinity's own, unless that is much busier."""

from __future__ import annotations

import threading
import zlib


class Balancer:
    """Affinity first, so that the prefix cache is hit; least loaded when that replica lags behind.

    `slack` is how many requests more than the least loaded replica an affinity's own replica may have waiting.
    """

    def __init__(self, replicas: int, slack: int = 64) -> None:
        self._load = [0] * replicas
        self._slack = slack
        self._lock = threading.Lock()

    def take(self, affinity: str, requests: int) -> int:
        """The replica for these requests, which count as waiting until `give_back`."""
        with self._lock:
            home = zlib.crc32(affinity.encode()) % len(self._load)
            least = min(range(len(self._load)), key=self._load.__getitem__)
            chosen = home if self._load[home] <= self._load[least] + self._slack else least
            self._load[chosen] += requests
            return chosen

    def give_back(self, replica: int, requests: int) -> None:
        with self._lock:
            self._load[replica] -= requests
