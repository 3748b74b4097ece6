"""Which endpoint takes which request, and when: weights, concurrency bounds, circuits, affinity.

No I/O: endpoints are opaque here. An endpoint is ready when it has a free slot, its circuit lets a request through and
it is not pausing (Retry-After). Among ready endpoints smooth weighted round robin decides; an affinity's home (weighted
rendezvous hashing, so that homes follow the weights by themselves) is preferred while that does not take an endpoint
more than `AFFINITY_SLACK_PICKS` ahead of its share: a server-side prefix cache then sees the requests of one
question together.

The circuit breaker takes an endpoint out after failures in a row, and back in after one successful probe:

    CLOSED --`failures` in a row--> OPEN --cooldown_s--> HALF_OPEN (one probe) --answered--> CLOSED
                                     ^                       |
                                     +--------failed---------+
"""

import asyncio
import hashlib
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

from audit.engines.openai_config import CircuitConfig


class CircuitState(StrEnum):
    """Whether an endpoint takes requests."""

    CLOSED = "closed"  # takes requests
    OPEN = "open"  # takes none until the cooldown is over
    HALF_OPEN = "half_open"  # one probe is under way


class Circuit:
    """State of one endpoint. `clock` returns seconds that never go back (time.monotonic)."""

    def __init__(self, config: CircuitConfig, clock: Callable[[], float]) -> None:
        self._config = config
        self._clock = clock
        self._failures_in_a_row = 0
        self._probe_at = 0.0
        self.state = CircuitState.CLOSED
        self.times_opened = 0

    @property
    def closed(self) -> bool:
        return self.state is CircuitState.CLOSED

    @property
    def probe_at(self) -> float | None:
        """Clock time at which an open circuit lets a probe through; None in the other states."""
        return self._probe_at if self.state is CircuitState.OPEN else None

    def allows(self) -> bool:
        """Whether a request may be sent now; for an open circuit that request is the probe."""
        if self.state is CircuitState.OPEN:
            return self._clock() >= self._probe_at
        return self.closed

    def begin(self) -> bool:
        """Note that a request is sent; True when it is the probe."""
        if self.closed:
            return False
        self.state = CircuitState.HALF_OPEN
        return True

    def answered(self) -> bool:
        """The endpoint is alive; True when that closes the circuit. A late answer of an older request counts too."""
        reopened = not self.closed
        self.state = CircuitState.CLOSED
        self._failures_in_a_row = 0
        return reopened

    def failed(self, *, probe: bool) -> bool:
        """The endpoint failed; True when that opens a closed circuit. Late failures do not prolong the cooldown."""
        if probe:
            self._open()
            return False
        if not self.closed:
            return False
        self._failures_in_a_row += 1
        if self._failures_in_a_row < self._config.failures:
            return False
        self.trip()
        return True

    def abandoned(self, *, probe: bool) -> None:
        """A request was cancelled before it told anything; a probe may be sent again at once."""
        if probe and self.state is CircuitState.HALF_OPEN:
            self.state = CircuitState.OPEN
            self._probe_at = self._clock()

    def trip(self) -> None:
        """Open now (an endpoint found dead at start)."""
        self.times_opened += 1
        self._open()

    def _open(self) -> None:
        self.state = CircuitState.OPEN
        self._failures_in_a_row = 0
        self._probe_at = self._clock() + self._config.cooldown_s


AFFINITY_SLACK_PICKS = 8.0
# How far down the queue a free endpoint looks for a request of its own; it bounds the work of one decision.
AFFINITY_WINDOW = 64


@dataclass(eq=False)
class Slot:
    """One endpoint as the dispatcher sees it. `credit` is how many picks it is behind its share."""

    name: str
    weight: float
    concurrency: int
    circuit: Circuit
    in_flight: int = 0
    max_in_flight: int = 0
    picks: int = 0
    credit: float = 0.0
    paused_until: float = 0.0


@dataclass(frozen=True, slots=True)
class Lease:
    """A request's right to call an endpoint; `probe` when it is the one that tests an open circuit."""

    slot: Slot
    probe: bool


@dataclass(eq=False)
class _Waiter:
    affinity: str
    avoid: Slot | None
    future: asyncio.Future[Lease]
    home: Slot | None = None
    homes_version: int = -1


@dataclass
class Dispatcher:
    """Hands out leases. `acquire` and its release (`answered`, `failed` or `abandoned`) come in pairs."""

    slots: Sequence[Slot]
    clock: Callable[[], float] = time.monotonic
    _waiters: deque[_Waiter] = field(default_factory=deque)
    _timer: asyncio.TimerHandle | None = None
    _homes_version: int = 0

    async def acquire(self, affinity: str, avoid: Slot | None = None) -> Lease:
        """Wait for an endpoint; `avoid` is not given while another one is in service."""
        waiter = _Waiter(affinity, avoid, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        self._match()
        try:
            return await waiter.future
        except asyncio.CancelledError:
            if waiter.future.done() and not waiter.future.cancelled() and waiter.future.exception() is None:
                self.abandoned(waiter.future.result())
            raise  # its future is cancelled: `_match` drops the waiter

    def answered(self, lease: Lease, pause_s: float = 0.0) -> bool:
        """The endpoint answered, be it with a refusal; it gets nothing new for `pause_s`. True when it came back."""
        lease.slot.paused_until = max(lease.slot.paused_until, self.clock() + pause_s)
        came_back = lease.slot.circuit.answered()
        self._homes_version += came_back
        self._free(lease)
        return came_back

    def failed(self, lease: Lease, pause_s: float = 0.0) -> bool:
        """The endpoint failed; it gets nothing new for `pause_s`. True when that took it out."""
        lease.slot.paused_until = max(lease.slot.paused_until, self.clock() + pause_s)
        went_out = lease.slot.circuit.failed(probe=lease.probe)
        self._homes_version += went_out
        self._free(lease)
        return went_out

    def abandoned(self, lease: Lease) -> None:
        """The call was cancelled and says nothing about the endpoint."""
        lease.slot.circuit.abandoned(probe=lease.probe)
        self._free(lease)

    def other_in_service(self, slot: Slot) -> bool:
        """Whether another endpoint could take a retry soon."""
        now = self.clock()
        return any(s is not slot and s.circuit.closed and s.paused_until <= now for s in self.slots)

    def fail_waiters(self, make_error: Callable[[], Exception]) -> None:
        """Raise in every waiting `acquire`."""
        while self._waiters:
            future = self._waiters.popleft().future
            if not future.done():
                future.set_exception(make_error())

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _free(self, lease: Lease) -> None:
        lease.slot.in_flight -= 1
        self._match()

    def _match(self) -> None:
        """Give leases to waiting requests until no endpoint is ready for any; then wake up when one will be."""
        while self._waiters:
            if self._waiters[0].future.done():  # cancelled while it waited
                self._waiters.popleft()
                continue
            pick = self._pick()
            if pick is None:
                break
            waiter, slot = pick
            self._waiters.remove(waiter)
            slot.in_flight += 1
            slot.max_in_flight = max(slot.max_in_flight, slot.in_flight)
            slot.picks += 1
            waiter.future.set_result(Lease(slot, slot.circuit.begin()))
        self._set_timer()

    def _pick(self) -> tuple[_Waiter, Slot] | None:
        now = self.clock()
        ready = [s for s in self.slots if s.in_flight < s.concurrency and s.paused_until <= now and s.circuit.allows()]
        window = [w for w in islice(self._waiters, AFFINITY_WINDOW) if not w.future.done()] if ready else []
        probing = next((s for s in ready if not s.circuit.closed), None)
        if probing is not None:  # an endpoint gets its chance to come back before anything else
            for waiter in window:
                if self._usable(waiter, probing):
                    return waiter, probing
            ready.remove(probing)
        for waiter in window:
            if options := [s for s in ready if self._usable(waiter, s)]:
                return self._share(waiter, options, ready, window)
        return None

    def _share(
        self, waiter: _Waiter, options: list[Slot], ready: list[Slot], window: list[_Waiter]
    ) -> tuple[_Waiter, Slot]:
        """The waiter's home, unless that is too far ahead of its share; else who is most behind, for one of its own."""
        chosen = self._home(waiter)
        if chosen not in options or chosen.credit <= -AFFINITY_SLACK_PICKS:
            chosen = max(options, key=lambda s: s.credit + s.weight)
            own = (w for w in window if self._home(w) is chosen and self._usable(w, chosen))
            waiter = next(own, waiter)
        total = sum(s.weight for s in ready)
        for slot in ready:
            slot.credit += slot.weight / total
        chosen.credit -= 1.0
        return waiter, chosen

    def _usable(self, waiter: _Waiter, slot: Slot) -> bool:
        return waiter.avoid is not slot or not any(s is not slot and s.circuit.closed for s in self.slots)

    def _home(self, waiter: _Waiter) -> Slot:
        """The endpoint in service that this affinity hashes to. When one goes out, only its own move."""
        if waiter.home is None or waiter.homes_version != self._homes_version:
            alive = [s for s in self.slots if s.circuit.closed] or list(self.slots)
            waiter.home = min(alive, key=lambda s: _rendezvous_cost(s.name, waiter.affinity, s.weight))
            waiter.homes_version = self._homes_version
        return waiter.home

    def _set_timer(self) -> None:
        self.close()
        if not self._waiters:
            return
        now = self.clock()
        wake = [s.paused_until for s in self.slots if s.paused_until > now]
        wake += [at for s in self.slots if (at := s.circuit.probe_at) is not None and at > now]
        if wake:
            delay = min(wake) - now
            self._timer = asyncio.get_running_loop().call_later(delay + 0.001, self._match)


def make_slot(name: str, weight: float, concurrency: int, circuit: CircuitConfig, clock: Callable[[], float]) -> Slot:
    return Slot(name, weight, concurrency, Circuit(circuit, clock))


def _rendezvous_cost(name: str, affinity: str, weight: float) -> float:
    digest = hashlib.blake2b(f"{name}\0{affinity}".encode(errors="surrogatepass"), digest_size=8).digest()
    uniform = (int.from_bytes(digest) + 0.5) / 2.0**64
    return -math.log(uniform) / weight
