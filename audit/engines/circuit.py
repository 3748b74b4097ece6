"""Circuit breaker: takes an endpoint out after failures in a row, and back in after one successful probe.

    CLOSED --`failures` in a row--> OPEN --cooldown_s--> HALF_OPEN (one probe) --answered--> CLOSED
                                     ^                       |
                                     +--------failed---------+

Pure policy: no I/O, and the clock comes in.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

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
