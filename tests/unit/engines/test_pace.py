"""Requests and tokens a minute: counted by hand, and against a local server that enforces both."""

import asyncio
import time
from collections import deque
from typing import Any

import pytest
from faulty_server import Call, FaultyServer, Reply, completion, error
from hypothesis import given
from hypothesis import strategies as st

from audit.core.records import GenerationRequest
from audit.engines.config import ModelConfig
from audit.engines.dispatch import Dispatcher, Slot
from audit.engines.openai_config import CircuitConfig, EndpointConfig, RetryConfig
from audit.engines.openai_engine import OpenAIEngine
from audit.engines.pace import Pace, seconds_until, tokens_of


def moments(pace: Pace, tokens: list[int]) -> list[float]:
    """When requests of these tokens are sent that have waited since 0."""
    now, times = 0.0, []
    for each in tokens:
        now = max(now, pace.at())
        times.append(now)
        pace.sent(now, each)
    return times


def test_requests_are_spread_evenly_over_the_minute() -> None:
    assert moments(Pace(120), [1] * 4) == [0.0, 0.5, 1.0, 1.5]


def test_tokens_are_spread_too_and_the_stricter_limit_counts() -> None:
    # 600 tokens a minute: 10 a second; 20 tokens take 2 s
    assert moments(Pace(None, 600), [20, 5, 5]) == [0.0, 2.0, 2.5]
    assert moments(Pace(60, 600), [20, 5, 5]) == [0.0, 2.0, 3.0]


def test_an_estimate_is_corrected_by_what_a_request_took() -> None:
    pace = Pace(None, 600)
    pace.sent(0.0, 100)  # 10 s
    pace.used(100, 30)
    assert pace.at() == 3.0
    pace.used(0, 10)
    assert pace.at() == 4.0


@given(
    rpm=st.integers(1, 5000),
    tpm=st.integers(100, 10**6),
    tokens=st.lists(st.integers(1, 99), max_size=40),
)
def test_no_part_of_a_minute_holds_more_than_its_share(
    rpm: int, tpm: int, tokens: list[int]
) -> None:
    sent = moments(Pace(rpm, tpm), tokens)
    for first, start in enumerate(sent):
        for last in range(first, len(sent)):
            share = (sent[last] - start) / 60
            assert last - first <= rpm * share + 1e-6
            assert sum(tokens[first:last]) <= tpm * share + 1e-6


def test_limits_are_learnt_and_the_smaller_stays() -> None:
    stated = {"x-ratelimit-limit-requests": "300", "x-ratelimit-limit-tokens": "9000"}
    pace = Pace(60)
    pace.learn(stated, 0.0)
    assert (pace.rpm, pace.tpm, pace.at()) == (60, 9000, float("-inf"))
    pace = Pace()
    pace.learn(stated, 0.0)
    assert (pace.rpm, pace.tpm) == (300, 9000)
    for text, limit in (("2", 2), ("500", 500), ("0", 500), ("0.0001", 500), ("-3", 500)):
        pace.learn({"x-ratelimit-limit-requests": text}, 0.0)
        assert pace.rpm == limit  # the latest that can be one


def test_nothing_is_sent_while_nothing_remains() -> None:
    pace = Pace()
    pace.learn({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1.5s"}, 10.0)
    assert pace.at() == 11.5
    pace.learn({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "23h"}, 10.0)
    assert pace.at() == 70.0  # a day's window: asked again after a minute
    pace.learn({"x-ratelimit-remaining-tokens": "7", "x-ratelimit-reset-tokens": "40s"}, 90.0)
    assert pace.at() == 70.0


@given(
    text=st.text(max_size=12)
    | st.sampled_from(["-1", "1e999", "nan", "inf", "9" * 40, "0", "0x10", "1_000"])
)
def test_whatever_a_header_holds_stops_no_run(text: str) -> None:
    names = (
        "limit-requests",
        "limit-tokens",
        "remaining-requests",
        "reset-requests",
        "remaining-tokens",
    )
    pace = Pace()
    pace.learn({f"x-ratelimit-{name}": text for name in names}, 5.0)
    pace.sent(5.0, 3)
    assert pace.at() <= 5.0 + 60.0 * 3
    assert seconds_until({"x-ratelimit-reset-requests": text}, "requests") != float("inf")


def test_a_dispatcher_waits_for_the_pace_and_asks_another_endpoint_meanwhile() -> None:
    now = [0.0]

    async def use() -> list[str]:
        slow = Slot("slow", 1.0, 9, CircuitConfig(), pace=Pace(1))
        free = Slot("free", 1.0, 9, CircuitConfig())
        dispatcher = Dispatcher([slow, free], lambda: now[0])
        slots = [(await dispatcher.acquire(f"q{i}")).slot.name for i in range(6)]
        dispatcher.close()
        return slots

    slots = asyncio.run(use())
    assert slots.count("slow") == 1 and slots.count("free") == 5


WINDOW_S = 1.0


class Limits:
    """A server's behaviour: it takes so many requests and tokens of any second, and refuses the
    others with 429."""

    def __init__(self, requests: int, tokens: int, tells: bool) -> None:
        self.requests, self.tokens, self.tells = requests, tokens, tells
        self.taken: deque[tuple[float, int]] = deque()
        self.refused = 0

    def __call__(self, call: Call) -> Reply:
        now = time.monotonic()
        while self.taken and self.taken[0][0] <= now - WINDOW_S:
            self.taken.popleft()
        tokens = len(call.prompt) // 4 + call.body["max_tokens"]
        headers = (
            {
                "x-ratelimit-limit-requests": str(60 * self.requests),
                "x-ratelimit-limit-tokens": str(60 * self.tokens),
            }
            if self.tells
            else {}
        )
        if len(self.taken) >= self.requests or sum(n for _, n in self.taken) + tokens > self.tokens:
            self.refused += 1
            reply = error(429, "slow down", "rate_limit_exceeded")
            return Reply(429, reply.body, headers)
        self.taken.append((now, tokens))
        body: dict[str, Any] = completion(call.prompt)
        body["usage"] = {"prompt_tokens": tokens - 1, "completion_tokens": 1}
        return Reply(body=body, headers=headers)


def answered(limits: Limits, concurrency: int = 60, **endpoint: Any) -> int:
    """Ask 60 requests of 10 tokens at once; return how many were refused. Every one is answered in
    the end."""

    async def use() -> int:
        async with FaultyServer(limits) as server:
            config = ModelConfig(
                name="m",
                engine="openai",
                retry=RetryConfig(base_delay_s=0.05, max_delay_s=0.5, outage_s=60),
                endpoints=[
                    EndpointConfig(url=server.url, model="m", concurrency=concurrency, **endpoint)
                ],
            )
            engine = OpenAIEngine(config)
            await engine.start()
            requests = [
                GenerationRequest("x" * 32, f"q{i}", "direct/0", seed=i, max_tokens=2)
                for i in range(60)
            ]
            replies = await engine.run(requests)
            await engine.close()
            assert [reply.error for reply in replies] == [None] * 60
            return limits.refused

    assert tokens_of("x" * 32, 2) == 10
    return asyncio.run(use())


@pytest.mark.parametrize("limit", [{"rpm": 30 * 60 * 0.8}, {"tpm": 300 * 60 * 0.8}])
def test_a_server_that_enforces_both_refuses_far_less(
    monkeypatch: pytest.MonkeyPatch, limit: dict[str, float]
) -> None:
    """30 requests and 300 tokens of any second: 60 at once meet 30 refusals at least; in step, next
    to none."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key-of-no-one")
    assert answered(Limits(30, 300, tells=False)) >= 30
    assert answered(Limits(30, 300, tells=False), **limit) < 10


def test_what_a_server_tells_is_kept_to_without_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key-of-no-one")
    untold, informed = (answered(Limits(12, 120, tells), concurrency=4) for tells in (False, True))
    assert informed < untold  # four are sent before the first reply
