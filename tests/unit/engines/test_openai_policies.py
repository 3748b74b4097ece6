"""When an endpoint is asked, taken out and asked again: the `openai` engine's policies, without I/O."""

import asyncio
import random
from dataclasses import replace

import pytest

from audit.engines.dispatch import Circuit, CircuitState, Dispatcher, make_slot
from audit.engines.openai_config import CircuitConfig, RetryConfig
from audit.engines.retry import FailureKind, backoff_seconds, classify_status, retry_after_seconds


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_circuit_opens_probes_once_and_closes() -> None:
    clock = Clock()
    circuit = Circuit(CircuitConfig(failures=2, cooldown_s=10), clock)
    assert not circuit.failed(probe=circuit.begin())
    circuit.answered()  # in a row: an answer in between starts again
    assert not circuit.failed(probe=False)
    assert circuit.failed(probe=False) and not circuit.allows()
    clock.now = 9.9
    assert not circuit.allows()
    clock.now = 10.0
    assert circuit.allows()
    probe = circuit.begin()
    assert probe and not circuit.allows()  # one probe, no second
    circuit.failed(probe=probe)
    assert circuit.probe_at == 20.0
    clock.now = 20.0
    assert circuit.begin()
    assert not circuit.failed(probe=False)  # a late failure of an older request changes nothing
    assert circuit.state is CircuitState.HALF_OPEN
    assert circuit.answered() and circuit.closed and circuit.times_opened == 1


def test_an_abandoned_probe_may_be_sent_again() -> None:
    clock = Clock()
    circuit = Circuit(CircuitConfig(failures=1, cooldown_s=10), clock)
    circuit.trip()
    clock.now = 10.0
    circuit.abandoned(probe=circuit.begin())
    assert circuit.allows()


def test_round_robin_is_smooth_and_exact_without_affinity() -> None:
    clock = Clock()
    slots = [make_slot(n, w, 10**6, CircuitConfig(), clock) for n, w in (("a", 5.0), ("b", 3.0), ("c", 2.0))]

    async def main() -> None:
        dispatcher = Dispatcher(slots, clock)
        for _ in range(1000):  # one question: its home takes 8 ahead of its share, and then only its share
            await dispatcher.acquire("the one question")

    asyncio.run(main())
    for slot, share in zip(slots, (500, 300, 200), strict=True):
        assert abs(slot.picks - share) <= 9


def test_backoff_grows_is_jittered_and_capped() -> None:
    retry = RetryConfig(base_delay_s=1, max_delay_s=10, jitter=0)
    rng = random.Random(0)
    assert [backoff_seconds(retry, k, rng) for k in (1, 2, 3, 4, 5, 5000)] == [1, 2, 4, 8, 10, 10]
    jittered = [backoff_seconds(replace(retry, jitter=0.5), 3, rng) for _ in range(200)]
    assert 2 <= min(jittered) < 2.2 and 3.8 < max(jittered) <= 4
    assert backoff_seconds(retry, 1, rng, retry_after_s=7) == 7
    assert backoff_seconds(retry, 1, rng, retry_after_s=700) == 10


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 60.0),  # 100 s after the epoch, 40 s have passed
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers, now_epoch_s=40.0) == seconds


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "", FailureKind.AUTH),
        (403, "", FailureKind.AUTH),
        (403, "content_policy_violation", FailureKind.ROW),
        (402, "", FailureKind.QUOTA),
        (429, "insufficient_quota", FailureKind.QUOTA),
        (429, "rate_limit_exceeded", FailureKind.RATE_LIMIT),
        (408, "", FailureKind.TIMEOUT),
        (404, "", FailureKind.UNAVAILABLE),
        (529, "", FailureKind.UNAVAILABLE),
        (500, "", FailureKind.SERVER),
        (500, "context_length_exceeded", FailureKind.ROW),
        (409, "", FailureKind.SERVER),
        (418, "", FailureKind.ROW),
    ],
)
def test_kinds_of_status(status: int, code: str, kind: FailureKind) -> None:
    assert classify_status(status, code, "x").kind is kind
