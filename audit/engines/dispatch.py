"""Choose an endpoint for each request by weights, concurrency limits, outages and affinity. This
module does no I/O.

An endpoint is ready if it has a free slot, is in service, is not pausing (Retry-After), and its
limits of requests and tokens a minute allow another request (`pace`).

Smooth weighted round robin chooses among ready endpoints. An affinity is a text that related
requests have in common, such as the requests of one question. Weighted rendezvous hashing gives
each affinity one preferred endpoint, its home. The home is chosen unless it would get more than
`AFFINITY_SLACK_PICKS` requests beyond its share. The requests of one question therefore reach the
same server, whose prefix cache can serve them.

After `failures` failures in a row an endpoint is out of service. After each `cooldown_s` one
request probes the endpoint: an answer puts it back into service, a failure starts the next
cooldown.
"""

import asyncio
import hashlib
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from audit.engines.openai_config import CircuitConfig
from audit.engines.pace import Pace

AFFINITY_SLACK_PICKS = 8.0
# When an endpoint is free, at most this many waiting requests are searched for a request whose home
# is this endpoint. The bound limits the work of one decision.
AFFINITY_WINDOW = 64


@dataclass(eq=False)
class Slot:
    """Hold the state of one endpoint. All times are readings of the dispatcher's clock."""

    name: str
    weight: float
    concurrency: int
    circuit: CircuitConfig
    in_flight: int = 0
    credit: float = 0.0  # number of requests by which the endpoint is behind its share
    paused_until: float = 0.0
    failures: int = 0  # consecutive failures
    probe_at: float | None = (
        None  # time from which one request may probe the endpoint; set while it is out of service
    )
    probing: bool = False  # whether a probe (a single test request) is in progress
    pace: Pace = field(default_factory=Pace)

    @property
    def in_service(self) -> bool:
        """Return whether the endpoint is in service."""
        return self.probe_at is None

    def ready(self, now: float) -> bool:
        """Return whether a request may be sent now. If the endpoint is out of service, that request
        is the probe (the single test request).
        """
        open_to_one = self.probe_at is None or (now >= self.probe_at and not self.probing)
        paused = max(self.paused_until, self.pace.at()) > now
        return self.in_flight < self.concurrency and not paused and open_to_one

    def take_out(self, now: float) -> None:
        """Take the endpoint out of service for one cooldown from now."""
        self.probe_at, self.probing, self.failures = now + self.circuit.cooldown_s, False, 0


@dataclass(frozen=True, slots=True)
class Lease:
    """Hold a request's right to call an endpoint.

    `probe` is true if the request tests whether an endpoint that is out of service answers again.
    """

    slot: Slot
    probe: bool


@dataclass(eq=False)
class _Waiter:
    affinity: str
    avoid: Slot | None
    future: asyncio.Future[Lease]
    tokens: int = 0


@dataclass
class Dispatcher:
    """Give leases, which allow requests to call an endpoint.

    After each `acquire` the caller calls exactly one of `answered`, `failed` and `abandoned`.
    """

    slots: Sequence[Slot]
    clock: Callable[[], float] = time.monotonic
    _waiters: deque[_Waiter] = field(default_factory=deque)
    _timer: asyncio.TimerHandle | None = None

    async def acquire(self, affinity: str, avoid: Slot | None = None, tokens: int = 0) -> Lease:
        """Wait for an endpoint.

        Parameters
        ----------
        affinity : str
            A text that related requests have in common. Such requests prefer the same endpoint.
        avoid : Slot or None
            An endpoint that is not used while another endpoint is in service.
        tokens : int
            The largest number of tokens that the request may use, for endpoints with a token limit.

        Returns
        -------
        Lease
            The lease, which the caller releases by `answered`, `failed` or `abandoned`.
        """
        waiter = _Waiter(affinity, avoid, asyncio.get_running_loop().create_future(), tokens)
        self._waiters.append(waiter)
        self._match()
        try:
            return await waiter.future
        except asyncio.CancelledError:
            if (
                waiter.future.done()
                and not waiter.future.cancelled()
                and waiter.future.exception() is None
            ):
                self.abandoned(waiter.future.result())
            raise  # the future is cancelled, so `_match` removes the waiter

    def answered(self, lease: Lease, pause_s: float = 0.0) -> bool:
        """Release a lease after a reply, even if the reply refuses the request.

        Parameters
        ----------
        lease : Lease
            The lease that `acquire` returned for the request.
        pause_s : float
            Time in seconds during which nothing is sent to the endpoint.

        Returns
        -------
        bool
            True if the reply put the endpoint back into service. A late reply to an older
            request can do this, too.
        """
        slot = lease.slot
        came_back = not slot.in_service
        slot.probe_at, slot.probing, slot.failures = None, False, 0
        self._free(lease, pause_s)
        return came_back

    def failed(self, lease: Lease, pause_s: float = 0.0) -> bool:
        """Release a lease after a failure of the endpoint.

        Parameters
        ----------
        lease : Lease
            The lease that `acquire` returned for the request.
        pause_s : float
            Time in seconds during which nothing is sent to the endpoint.

        Returns
        -------
        bool
            True if this failure took the endpoint out of service. Late failures do not extend a
            cooldown.
        """
        slot = lease.slot
        slot.failures += slot.in_service
        went_out = slot.in_service and slot.failures >= slot.circuit.failures
        if went_out or lease.probe:
            slot.take_out(self.clock())
        self._free(lease, pause_s)
        return went_out

    def abandoned(self, lease: Lease) -> None:
        """Release a lease whose call was cancelled.

        If the call was a probe, another probe may be sent at once.
        """
        if lease.probe and lease.slot.probing:
            lease.slot.probe_at, lease.slot.probing = self.clock(), False
        self._free(lease)

    def other_in_service(self, slot: Slot) -> bool:
        """Return whether another endpoint is in service, so that it could take a retry."""
        now = self.clock()
        return any(s is not slot and s.in_service and s.paused_until <= now for s in self.slots)

    def fail_waiters(self, make_error: Callable[[], Exception]) -> None:
        """End every waiting `acquire` with an error."""
        while self._waiters:
            future = self._waiters.popleft().future
            if not future.done():
                future.set_exception(make_error())

    def close(self) -> None:
        """Stop the timer, which gives leases when an endpoint becomes ready."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _free(self, lease: Lease, pause_s: float = 0.0) -> None:
        lease.slot.paused_until = max(lease.slot.paused_until, self.clock() + pause_s)
        lease.slot.in_flight -= 1
        self._match()

    def _match(self) -> None:
        """Give leases until no waiting request can be served. Then set a timer for the time when
        the next endpoint becomes ready.
        """
        # The clock is read only once. If it were read twice, an endpoint that becomes ready between
        # the two readings would be missed.
        now = self.clock()
        while self._waiters:
            if self._waiters[0].future.done():  # the request was cancelled while it waited
                self._waiters.popleft()
                continue
            pick = self._pick(now)
            if pick is None:
                break
            waiter, slot = pick
            self._waiters.remove(waiter)
            slot.in_flight += 1
            slot.pace.sent(now, waiter.tokens)
            slot.probing = slot.probing or not slot.in_service
            waiter.future.set_result(Lease(slot, probe=not slot.in_service))
        self._set_timer(now)

    def _pick(self, now: float) -> tuple[_Waiter, Slot] | None:
        ready = []
        for s in self.slots:
            if s.ready(now):
                ready.append(s)
        window = (
            [w for w in islice(self._waiters, AFFINITY_WINDOW) if not w.future.done()]
            if ready
            else []
        )
        out_of_service = []
        for s in ready:
            if not s.in_service:
                out_of_service.append(s)
        for probed in out_of_service:
            waiters = []
            for w in window:
                if self._usable(w, probed):
                    waiters.append(w)
            if waiters:
                return waiters[0], probed
            ready.remove(probed)
        for waiter in window:
            options = []
            for s in ready:
                if self._usable(waiter, s):
                    options.append(s)
            if options:
                return self._share(waiter, options, ready, window)
        return None

    def _share(
        self, waiter: _Waiter, options: list[Slot], ready: list[Slot], window: list[_Waiter]
    ) -> tuple[_Waiter, Slot]:
        """Choose the home endpoint of the first waiting request, unless the home is too far ahead
        of its share.

        Otherwise choose the endpoint that is most behind its share of the requests. Of the waiting
        requests, choose one whose home is this endpoint, if there is one.
        """
        chosen = self._home(waiter)
        if chosen not in options or chosen.credit <= -AFFINITY_SLACK_PICKS:
            chosen = max(options, key=lambda s: s.credit + s.weight)
            for candidate in window:
                if self._home(candidate) is chosen and self._usable(candidate, chosen):
                    waiter = candidate
                    break
        total = sum(s.weight for s in ready)
        for slot in ready:
            slot.credit += slot.weight / total
        chosen.credit -= 1.0
        return waiter, chosen

    def _usable(self, waiter: _Waiter, slot: Slot) -> bool:
        return waiter.avoid is not slot or not any(
            s is not slot and s.in_service for s in self.slots
        )

    def _home(self, waiter: _Waiter) -> Slot:
        """Return the home of an affinity: an endpoint in service, chosen by hashing.

        If an endpoint goes out of service, only the affinities whose home it was get another home.
        """
        alive = [s for s in self.slots if s.in_service] or self.slots
        return min(alive, key=lambda s: _rendezvous_cost(s.name, waiter.affinity, s.weight))

    def _set_timer(self, now: float) -> None:
        self.close()
        moments: list[float] = []
        for slot in self.slots:
            times = (slot.paused_until, slot.pace.at(), slot.probe_at or 0.0)
            for at in times:
                if at > now:
                    moments.append(at)
        if self._waiters and moments:
            delay = min(moments) - now
            self._timer = asyncio.get_running_loop().call_later(delay + 0.001, self._match)


# The hashes are cached, since all waiting requests are searched for every request that is sent.
@lru_cache(maxsize=1 << 14)
def _rendezvous_cost(name: str, affinity: str, weight: float) -> float:
    digest = hashlib.blake2b(
        f"{name}\0{affinity}".encode(errors="surrogatepass"), digest_size=8
    ).digest()
    uniform = (int.from_bytes(digest) + 0.5) / 2.0**64
    return -math.log(uniform) / weight
