"""Which endpoint takes which request, and when: weights, concurrency bounds, outages, affinity. No I/O.

An endpoint is ready when it has a free slot, is in service, is not pausing (Retry-After) and its limits of requests and
tokens a minute allow another (`pace`). Among ready endpoints
smooth weighted round robin decides; an affinity's home (weighted rendezvous hashing) is preferred while that does not
take an endpoint more than `AFFINITY_SLACK_PICKS` ahead of its share: a server-side prefix cache then sees the requests
of one question together. `failures` in a row take an endpoint out of service. After each `cooldown_s` one request tests
it: an answer brings it back, a failure starts the next cooldown."""

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
# How far down the queue a free endpoint looks for a request of its own; it bounds the work of one decision.
AFFINITY_WINDOW = 64


@dataclass(eq=False)
class Slot:
    """One endpoint as the dispatcher sees it. Times are of the dispatcher's clock."""

    name: str
    weight: float
    concurrency: int
    circuit: CircuitConfig
    in_flight: int = 0
    credit: float = 0.0  # picks that it is behind its share
    paused_until: float = 0.0
    failures: int = 0  # in a row
    probe_at: float | None = None  # out of service: from then on one request may test it
    probing: bool = False  # that request is under way
    pace: Pace = field(default_factory=Pace)

    @property
    def in_service(self) -> bool:
        return self.probe_at is None

    def ready(self, now: float) -> bool:
        """Whether a request may be sent now; to an endpoint that is out, that request is the probe."""
        open_to_one = self.probe_at is None or (now >= self.probe_at and not self.probing)
        paused = max(self.paused_until, self.pace.at()) > now
        return self.in_flight < self.concurrency and not paused and open_to_one

    def take_out(self, now: float) -> None:
        """For one cooldown from now, as where it was found dead at the start."""
        self.probe_at, self.probing, self.failures = now + self.circuit.cooldown_s, False, 0


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
    tokens: int = 0


@dataclass
class Dispatcher:
    """Hands out leases. `acquire` and its release (`answered`, `failed` or `abandoned`) come in pairs."""

    slots: Sequence[Slot]
    clock: Callable[[], float] = time.monotonic
    _waiters: deque[_Waiter] = field(default_factory=deque)
    _timer: asyncio.TimerHandle | None = None

    async def acquire(self, affinity: str, avoid: Slot | None = None, tokens: int = 0) -> Lease:
        """Wait for an endpoint; `avoid` is not given while another one is in service. tokens: that the request may
        take, for an endpoint with a limit of them."""
        waiter = _Waiter(affinity, avoid, asyncio.get_running_loop().create_future(), tokens)
        self._waiters.append(waiter)
        self._match()
        try:
            return await waiter.future
        except asyncio.CancelledError:
            if waiter.future.done() and not waiter.future.cancelled() and waiter.future.exception() is None:
                self.abandoned(waiter.future.result())
            raise  # its future is cancelled: `_match` drops the waiter

    def answered(self, lease: Lease, pause_s: float = 0.0) -> bool:
        """The endpoint answered, be it with a refusal; it gets nothing new for `pause_s`. True when it came back (the
        late answer of an older request brings it back too)."""
        slot = lease.slot
        came_back = not slot.in_service
        slot.probe_at, slot.probing, slot.failures = None, False, 0
        self._free(lease, pause_s)
        return came_back

    def failed(self, lease: Lease, pause_s: float = 0.0) -> bool:
        """The endpoint failed; it gets nothing new for `pause_s`. True when that took it out. Late failures do not
        prolong a cooldown."""
        slot = lease.slot
        slot.failures += slot.in_service
        went_out = slot.in_service and slot.failures >= slot.circuit.failures
        if went_out or lease.probe:
            slot.take_out(self.clock())
        self._free(lease, pause_s)
        return went_out

    def abandoned(self, lease: Lease) -> None:
        """The call was cancelled and says nothing about the endpoint; a probe may be sent again at once."""
        if lease.probe and lease.slot.probing:
            lease.slot.probe_at, lease.slot.probing = self.clock(), False
        self._free(lease)

    def other_in_service(self, slot: Slot) -> bool:
        """Whether another endpoint could take a retry soon."""
        now = self.clock()
        return any(s is not slot and s.in_service and s.paused_until <= now for s in self.slots)

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

    def _free(self, lease: Lease, pause_s: float = 0.0) -> None:
        lease.slot.paused_until = max(lease.slot.paused_until, self.clock() + pause_s)
        lease.slot.in_flight -= 1
        self._match()

    def _match(self) -> None:
        """Give leases to waiting requests until no endpoint is ready for any; then wake up when one will be."""
        now = self.clock()  # once: what became ready between a look and the timer would wake nobody
        while self._waiters:
            if self._waiters[0].future.done():  # cancelled while it waited
                self._waiters.popleft()
                continue
            if (pick := self._pick(now)) is None:
                break
            waiter, slot = pick
            self._waiters.remove(waiter)
            slot.in_flight += 1
            slot.pace.sent(now, waiter.tokens)
            slot.probing = slot.probing or not slot.in_service
            waiter.future.set_result(Lease(slot, probe=not slot.in_service))
        self._set_timer(now)

    def _pick(self, now: float) -> tuple[_Waiter, Slot] | None:
        ready = [s for s in self.slots if s.ready(now)]
        window = [w for w in islice(self._waiters, AFFINITY_WINDOW) if not w.future.done()] if ready else []
        for probing in [s for s in ready if not s.in_service]:
            if waiters := [w for w in window if self._usable(w, probing)]:
                return waiters[0], probing
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
        return waiter.avoid is not slot or not any(s is not slot and s.in_service for s in self.slots)

    def _home(self, waiter: _Waiter) -> Slot:
        """The endpoint in service that this affinity hashes to. When one goes out, only its own move."""
        alive = [s for s in self.slots if s.in_service] or self.slots
        return min(alive, key=lambda s: _rendezvous_cost(s.name, waiter.affinity, s.weight))

    def _set_timer(self, now: float) -> None:
        self.close()
        moments = [at for s in self.slots for at in (s.paused_until, s.pace.at(), s.probe_at or 0.0) if at > now]
        if self._waiters and moments:
            delay = min(moments) - now
            self._timer = asyncio.get_running_loop().call_later(delay + 0.001, self._match)


@lru_cache(maxsize=1 << 14)  # the requests that wait are looked through for each that is sent
def _rendezvous_cost(name: str, affinity: str, weight: float) -> float:
    digest = hashlib.blake2b(f"{name}\0{affinity}".encode(errors="surrogatepass"), digest_size=8).digest()
    uniform = (int.from_bytes(digest) + 0.5) / 2.0**64
    return -math.log(uniform) / weight
