"""The `openai` engine against a misbehaving local server: every fault here really goes over a
socket."""

import asyncio
import logging
import pickle
import random
import socket
import time
import traceback
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import httpx2
import pytest
from faulty_server import Call, FaultyServer, Reply, completion, echo, error, letters_completion
from servers_here import free_port

from audit.core.errors import ConfigError, EndpointAuthError, EngineError
from audit.core.records import FinishReason, Generation, GenerationRequest
from audit.engines import openai_endpoint
from audit.engines.config import ModelConfig
from audit.engines.dispatch import Dispatcher, Lease, Slot
from audit.engines.openai_config import CircuitConfig, EndpointConfig, RetryConfig, endpoint_id
from audit.engines.openai_endpoint import Endpoint
from audit.engines.openai_engine import OpenAIEngine
from audit.engines.port import BACKEND, drifts, request_sha256
from audit.engines.redact import Redactor
from audit.engines.retry import Kind, classify_code, classify_status

KEY = "sk-test-0123456789-do-not-leak"
KEY_ENV = "AUDIT_TEST_KEY"
FAST_RETRY = RetryConfig(
    max_attempts=4, base_delay_s=0.01, max_delay_s=0.05, jitter=0.5, outage_s=60.0
)
OUTAGE = replace(
    FAST_RETRY, outage_s=0.5
)  # only where an outage is expected: a busy machine is as silent
FAST_CIRCUIT = CircuitConfig(failures=3, cooldown_s=0.05)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)


def request(prompt: str = "hi", question: str = "q", **kwargs: Any) -> GenerationRequest:
    return GenerationRequest(prompt, affinity=question, label="direct/0", seed=7, **kwargs)


def endpoint(server: FaultyServer, path: str = "", **kwargs: Any) -> EndpointConfig:
    return EndpointConfig(
        **{
            "url": server.url + path,
            "model": "m",
            "api_key_env": KEY_ENV,
            "timeout_s": 60.0,
            **kwargs,
        }
    )


def engine_of(*endpoints: EndpointConfig, **kwargs: Any) -> OpenAIEngine:
    fast: dict[str, Any] = {"retry": FAST_RETRY, "circuit": FAST_CIRCUIT, **kwargs}
    return OpenAIEngine(
        ModelConfig(engine="openai", endpoints=list(endpoints), **fast), random.Random(0)
    )


async def started(*endpoints: EndpointConfig, **kwargs: Any) -> OpenAIEngine:
    engine = engine_of(*endpoints, **kwargs)
    await engine.start()
    return engine


def with_servers(
    use: Callable[..., Awaitable[Any]], *behaviours: Callable[[Call], Reply], **kwargs: Any
) -> Any:
    """Run `use(engine, *servers)` with a server for each behaviour."""

    async def main() -> Any:
        async with AsyncExitStack() as stack:
            servers = [
                await stack.enter_async_context(FaultyServer(behave)) for behave in behaviours
            ]
            options = {
                k: kwargs.pop(k)
                for k in list(kwargs)
                if k in (*EndpointConfig.__dataclass_fields__, "path")
            }
            engine = await started(*(endpoint(server, **options) for server in servers), **kwargs)
            stack.push_async_callback(engine.close)
            return await use(engine, *servers)

    return asyncio.run(main())


async def until(true: Callable[[], bool]) -> None:
    """Wait for it; a busy machine takes what it takes."""
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


def run(
    behave: Callable[[Call], Reply], wanted: list[GenerationRequest] | int, **kwargs: Any
) -> tuple[list[Generation], list[Call], dict[str, float]]:
    """What so many requests get in one run, what was sent, and the engine's counts."""
    requests = [request(str(i)) for i in range(wanted)] if isinstance(wanted, int) else wanted

    async def use(engine: OpenAIEngine, server: FaultyServer) -> Any:
        return await engine.run(requests), server.calls, engine.stats()

    return with_servers(use, behave, **kwargs)  # type: ignore[no-any-return]


def reply_to(
    behave: Callable[[Call], Reply], wanted: GenerationRequest | None = None, **kwargs: Any
) -> Generation:
    return run(behave, [wanted or request()], **kwargs)[0][0]


def first_then(first: Reply, times: int = 1) -> Callable[[Call], Reply]:
    """`first` for the first `times` calls, then well."""
    return lambda call: first if call.number <= times else echo(call)


# --- a healthy endpoint ---


def test_generation_fields_and_what_was_sent() -> None:
    async def use(engine: OpenAIEngine, server: FaultyServer) -> tuple[Generation, Call, str]:
        sent_request = request("2+2?", max_tokens=5, temperature=0.7, top_p=0.9, system="Be brief.")
        return (await engine.run([sent_request]))[0], server.calls[0], endpoint_id(endpoint(server))

    got, call, engine_id = with_servers(
        use, echo, extra_body={"chat_template_kwargs": {"enable_thinking": False}}
    )
    sent = request_sha256(request("2+2?", system="Be brief."))
    assert sent != request_sha256(request("2+2?"))
    assert sent.startswith("text:")  # an endpoint tells no token ids
    assert got == Generation("2+2?", FinishReason.STOP, 12, 8, 3, engine_id, request_sha256=sent)
    assert engine_id.startswith("127.0.0.1:") and engine_id.endswith("#m")
    assert call.path == "/v1/chat/completions"
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert call.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "2+2?"},
        ],
        "max_tokens": 5,
        "temperature": 0.7,
        "top_p": 0.9,
        "seed": 7,
        "chat_template_kwargs": {"enable_thinking": False},
    }


def test_fields_that_an_endpoint_refuses_are_not_sent() -> None:
    options = {
        "send_seed": False,
        "send_temperature": False,
        "max_tokens_field": "max_completion_tokens",
    }
    _, (call,), _ = run(echo, 1, **options)
    assert set(call.body) == {"model", "messages", "max_completion_tokens"}


def test_versions_of_a_backend_are_counted_and_a_change_is_said() -> None:
    async def use(engine: OpenAIEngine, server: FaultyServer) -> dict[str, float]:
        for number in range(4):
            await engine.run([request(f"q{number}")])
        return engine.stats()

    def versions(call: Call) -> Reply:
        return Reply(
            body=completion() | {"system_fingerprint": "fp_1" if call.number <= 3 else "fp_2"}
        )

    counts = {key: n for key, n in with_servers(use, versions).items() if key.startswith(BACKEND)}
    assert sorted(counts.values()) == [1.0, 3.0] and {key[-4:] for key in counts} == {
        "fp_1",
        "fp_2",
    }
    assert len(drifts({key.removeprefix(BACKEND): int(n) for key, n in counts.items()})) == 1
    assert drifts({"a fp_1": 3, "b fp_2": 4}) == []


def test_a_backend_that_tells_another_version_each_time_fills_no_memory() -> None:
    _, _, stats = run(
        lambda call: Reply(body=completion() | {"system_fingerprint": f"{call.number}" * 900}),
        60,
        concurrency=8,
    )
    counts = {key: n for key, n in stats.items() if key.startswith(BACKEND)}
    assert len(counts) == 21 and sum(counts.values()) == 60 and max(map(len, counts)) < 200


def test_order_is_kept_when_replies_come_back_in_reverse() -> None:
    def later_first(call: Call) -> Reply:
        return Reply(body=completion(call.prompt), delay_s=0.2 - 0.01 * int(call.prompt))

    assert [g.text for g in run(later_first, 16)[0]] == [str(i) for i in range(16)]


def test_concurrency_bound_is_what_the_server_sees() -> None:
    async def use(engine: OpenAIEngine, server: FaultyServer) -> int:
        # Three runs at once share the bound.
        await asyncio.gather(*(engine.run([request(str(i)) for i in range(10)]) for _ in range(3)))
        assert len(server.calls) == 30
        return server.max_in_flight

    assert (
        with_servers(use, lambda c: Reply(body=completion("x"), delay_s=0.03), concurrency=4) == 4
    )


def test_as_many_connections_are_kept_as_calls_are_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def use(engine: OpenAIEngine, server: FaultyServer) -> int:
        for _ in range(3):
            await engine.run([request(str(i)) for i in range(130)])
        return server.connections

    # A busy machine may let an idle connection expire, or a new one wait too long: not the matter
    # here.
    monkeypatch.setattr(httpx2, "Limits", partial(httpx2.Limits, keepalive_expiry=None))
    monkeypatch.setattr("audit.engines.openai_endpoint._CONNECT_TIMEOUT_S", 600.0)
    # 130 and the check at the start. A pool that keeps 100 opens 30 in every run after the first:
    # 190.
    assert (
        with_servers(
            use,
            lambda call: Reply(body=completion("x"), delay_s=1.0),
            concurrency=130,
            timeout_s=600,
        )
        < 140
    )


def test_weights_are_respected() -> None:
    async def main() -> tuple[int, int]:
        async with FaultyServer() as big, FaultyServer() as small:
            engine = await started(
                endpoint(big, weight=3.0, concurrency=500),
                endpoint(small, weight=1.0, concurrency=500),
            )
            for i in range(
                200
            ):  # one by one: 200 connections at once could fail on a busy machine, and go elsewhere
                await engine.run([request(f"p{i}", "one question")])
            await engine.close()
            return len(big.calls), len(small.calls)

    big, small = asyncio.run(main())
    assert (
        big + small == 200 and abs(big - 150) <= 9
    )  # its home takes 8 ahead of its share, and then only its share


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_respected_in_a_burst_whatever_the_order_of_answers(seed: int) -> None:
    rng = random.Random(seed)

    async def main() -> Counter[str]:
        circuit = CircuitConfig()
        dispatcher = Dispatcher([Slot("big", 3.0, 60, circuit), Slot("small", 1.0, 60, circuit)])
        given: Counter[str] = Counter()
        under_way: list[Lease] = []
        for i in range(400):
            under_way.append(await dispatcher.acquire(f"q{i % 37}"))
            given[under_way[-1].slot.name] += 1
            while under_way and (
                len(under_way) > 40 or rng.random() < 0.3
            ):  # fewer than one slot holds
                dispatcher.answered(under_way.pop(rng.randrange(len(under_way))))
        return given

    given = asyncio.run(main())
    assert abs(given["big"] - 300) <= 9  # 3 : 1


def test_requests_of_one_question_go_to_one_endpoint() -> None:
    async def use(engine: OpenAIEngine, *servers: FaultyServer) -> list[dict[str, int]]:
        await engine.run([request(f"q{i % 40}", f"q{i % 40}") for i in range(160)])
        return [Counter(call.prompt for call in server.calls) for server in servers]

    by_server = with_servers(use, echo, echo, concurrency=50)
    whole = [n for counts in by_server for n in counts.values() if n == 4]
    # Of 40 questions with 4 requests each; chance alone would give 5. How many depends on where
    # they hash to, as no endpoint may run far ahead of its share.
    assert len(whole) >= 14
    assert all(sum(counts.values()) > 0 for counts in by_server)


def test_a_saturated_endpoint_does_not_hold_up_the_other() -> None:
    async def use(engine: OpenAIEngine, stuck: FaultyServer, quick: FaultyServer) -> int:
        run = asyncio.create_task(engine.run([request(f"p{i}", f"q{i}") for i in range(30)]))
        await until(lambda: len(quick.calls) == 29)
        run.cancel()
        return len(stuck.calls)

    assert with_servers(use, lambda c: Reply(fault="hang"), echo, concurrency=1) == 1


def test_what_a_letter_needs_is_sent_and_what_an_endpoint_cannot_tell_is_not() -> None:
    requests = [request(letters=("A", "B"))]
    (got,), (call,), _ = run(lambda c: Reply(body=letters_completion({"B": -1.0})), requests)
    assert (got.finish_reason, got.text, got.option_logprobs) == (
        FinishReason.SCORED,
        "",
        (None, -1.0),
    )
    assert [call.body[name] for name in ("logprobs", "top_logprobs", "max_tokens")] == [True, 20, 1]
    for given in ({"continuations": ("a", "b")}, {"pieces": ("a", "b")}):
        with pytest.raises(ConfigError, match="engine vllm"):
            reply_to(echo, request(**given))


# --- faults that pass ---


@pytest.mark.parametrize(
    "fault",
    [
        error(429, "slow down", None, retry_after="0.02"),
        error(500, "oops"),
        error(503, "loading", None, retry_after="0"),
        Reply(fault="reset"),
        Reply(fault="truncate", body=completion("half")),
        Reply(body="<html><body>Login</body></html>"),
        Reply(body=completion("part", "abort")),
        Reply(body={"error": {"code": 429, "message": "upstream is busy"}}),
    ],
    ids=lambda r: f"{r.status}-{r.fault or str(r.body)[:30]}",
)
def test_a_passing_fault_is_retried(fault: Reply) -> None:
    times = 8 if fault.status == 429 else 2  # more than max_attempts: to be busy is no row's fault
    (got,), calls, stats = run(first_then(fault, times=times), [request("fine")])
    assert (got.text, got.error, len(calls), stats["retries"]) == (
        "fine",
        None,
        times + 1,
        float(times),
    )


def test_a_hanging_call_times_out_and_is_retried() -> None:
    (got,), calls, _ = run(first_then(Reply(fault="hang")), [request("fine")], timeout_s=2)
    assert (got.text, len(calls)) == ("fine", 2)


def test_a_host_that_takes_no_connection_is_no_fault_of_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its queue is full, or a firewall drops what is sent to it: the call's own patience is not
    over yet."""
    monkeypatch.setattr(openai_endpoint, "_CONNECT_TIMEOUT_S", 0.5)

    async def check(url: str) -> Any:
        tested = Endpoint("0", EndpointConfig(url, "m"), ModelConfig(), "", Redactor(()))
        try:
            return await tested.check()
        finally:
            await tested.close()

    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for waits in (first, second):
            waits.setblocking(False)
            waits.connect_ex(full.getsockname())
        failure = asyncio.run(check(f"http://127.0.0.1:{full.getsockname()[1]}/v1"))
    assert failure.kind is Kind.UNAVAILABLE


def test_429_pauses_the_endpoint_for_everyone_as_long_as_it_says() -> None:
    came: list[float] = []

    def behave(call: Call) -> Reply:
        came.append(time.monotonic())
        return error(429, "wait", None, retry_after="0.4") if call.number == 1 else echo(call)

    async def use(engine: OpenAIEngine, server: FaultyServer) -> None:
        first = asyncio.create_task(engine.run([request("a")]))
        await until(lambda: engine.stats()["retries"] > 0)
        await engine.run([request(str(i)) for i in range(10)])
        await first

    with_servers(use, behave, retry=replace(FAST_RETRY, max_delay_s=0.5))
    assert (
        len(came) == 12 and min(came[1:]) - came[0] >= 0.4
    )  # ten, one that was sent back, and its retry


@pytest.mark.parametrize("delay_s", [0.0, 1.5 * OUTAGE.outage_s])
def test_a_failure_is_tried_elsewhere_also_where_it_took_longer_than_an_outage(
    delay_s: float,
) -> None:
    async def use(
        engine: OpenAIEngine, bad: FaultyServer, good: FaultyServer
    ) -> tuple[list[str | None], int, int]:
        # Where a question's home is follows from the servers' ports; of 24, one endpoint cannot
        # have them all.
        results = await engine.run([request(f"p{i}", f"q{i}") for i in range(24)])
        return [g.error for g in results], len(bad.calls), len(good.calls)

    errors, bad, good = with_servers(
        use, lambda c: replace(error(500, "oops"), delay_s=delay_s), echo, retry=OUTAGE
    )
    assert errors == [None] * 24 and good == 24
    assert 1 <= bad <= 24  # each request failed there once at most


def test_two_endpoints_that_fail_without_end_are_an_outage_though_neither_is_taken_out() -> None:
    async def use(engine: OpenAIEngine, *servers: FaultyServer) -> None:
        with pytest.raises(EngineError, match="No endpoint has answered"):
            await asyncio.wait_for(engine.run([request("p")]), 60)

    circuit = CircuitConfig(failures=10**6, cooldown_s=0.05)
    with_servers(
        use, lambda c: error(500, "one"), lambda c: error(500, "two"), circuit=circuit, retry=OUTAGE
    )


# --- endpoints that answer {prompt, task_id} with {response} ---


def test_an_address_that_ends_in_infer_is_asked_as_the_article_has_it() -> None:
    requests = [request("What barks?", "q1")]
    (reply,), (_, call), _ = run(
        lambda c: Reply(body={"response": "A dog."}), requests, path="/infer"
    )
    assert (reply.text, reply.error, reply.finish_reason) == ("A dog.", None, FinishReason.STOP)
    assert (call.path, call.body) == ("/v1/infer", {"prompt": "What barks?", "task_id": "q1"})
    assert call.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "body", [{}, {"response": ""}, {"response": 7}, [], {"error": {"code": "server_error"}}, "no"]
)
def test_what_is_no_response_is_no_answer(body: Any) -> None:
    hello = Reply(body={"response": "hi"})
    reply = reply_to(
        lambda c: hello if c.body["prompt"] == "Hello" else Reply(body=body), path="/infer"
    )
    assert reply.error is not None and reply.text == ""


# --- faults that stay ---

PAGE = Reply(body="<html>We are back soon.</html>")


@pytest.mark.parametrize(
    "reply", [PAGE, Reply(body={"error": {"message": "try later", "code": "server_error"}})]
)
def test_malformed_for_ever_becomes_an_error_row_where_others_are_answered(reply: Reply) -> None:
    """Also for the last row of a run, when nobody else is there to be answered: something else is
    asked then."""
    (got,), calls, stats = run(lambda c: reply if c.prompt == "odd" else echo(c), [request("odd")])
    assert got.error is not None and got.finish_reason is FinishReason.ERROR
    assert [call.prompt for call in calls] == ["odd"] * FAST_RETRY.max_attempts + ["Hello"]
    assert (stats["generations"], stats["error_rows"], stats["requests"]) == (0.0, 1.0, 1.0)


def outage(
    behave: Callable[[Call], Reply], n: int, *, answered: int = 0, message: str = "", **kwargs: Any
) -> tuple[float, int]:
    """So many answers at first, then an outage, which stops the run without an error row:
    generations and calls."""

    async def use(engine: OpenAIEngine, server: FaultyServer) -> tuple[float, int]:
        await engine.run([request(str(i)) for i in range(answered)])
        with pytest.raises(EngineError, match=f"No endpoint has answered.*{message}"):
            await engine.run([request(str(i)) for i in range(n)])
        assert engine.stats()["error_rows"] == 0
        return engine.stats()["generations"], len(server.calls)

    return with_servers(use, behave, **{"retry": OUTAGE, **kwargs})  # type: ignore[no-any-return]


@pytest.mark.parametrize("in_flight", [1, 2, 4, 16])
@pytest.mark.parametrize("answered", [0, 20])
def test_an_outage_that_answers_200_is_no_error_row(in_flight: int, answered: int) -> None:
    """A maintenance page: at the end of a run, one or two requests in flight, it was recorded as
    the rows' errors."""
    message = "the body is not JSON: a page of"
    counts = outage(
        lambda c: echo(c) if c.number <= answered else PAGE,
        in_flight,
        answered=answered,
        message=message,
    )
    assert counts[0] == answered


def test_an_outage_within_a_run_is_no_error_row_of_those_that_are_left() -> None:
    """All of one call's requests begin together: that others were answered since then says nothing
    about now."""
    retry = replace(OUTAGE, max_attempts=2)
    assert (
        outage(lambda c: echo(c) if c.number <= 10 else PAGE, 12, concurrency=1, retry=retry)[0]
        == 10
    )


def test_another_models_replies_once_the_own_one_is_gone_are_an_outage_too() -> None:
    message = "the reply is of model 'm-mini'"
    assert (
        outage(
            lambda c: of_model("m" if c.number <= 4 else "m-mini"), 1, answered=4, message=message
        )[0]
        == 4
    )


def test_500_while_nothing_is_answered_is_never_an_error_row() -> None:
    """More failures than max_attempts, and no answer to show that the row is to blame: the endpoint
    may be."""
    circuit, retry = CircuitConfig(failures=1000, cooldown_s=0.05), replace(OUTAGE, outage_s=2.0)
    _, calls = outage(
        lambda c: error(500, "dead"), 1, message="HTTP 500", circuit=circuit, retry=retry
    )
    assert calls > FAST_RETRY.max_attempts


def test_an_endpoint_that_refuses_whatever_else_it_is_asked_is_alive() -> None:
    """Some refuse a single token: the row that is malformed for ever is then that row's result
    too."""
    odd = Reply(body="<html>")
    got = reply_to(
        lambda c: odd if c.prompt == "hi" else error(400, "max_tokens must be at least 16")
    )
    assert got.error is not None and "malformed" in got.error


@pytest.mark.parametrize("status", [200, 429])
def test_an_exhausted_quota_stops_the_run_at_once(status: int) -> None:
    exhausted = replace(
        error(429, "You exceeded your current quota", "insufficient_quota"), status=status
    )

    async def use(engine: OpenAIEngine, server: FaultyServer) -> None:
        with pytest.raises(EngineError, match="no quota left"):
            await engine.run([request()])
        assert (len(server.calls), engine.stats()["error_rows"]) == (1, 0.0)

    with_servers(use, lambda c: exhausted)


def of_model(name: str, text: str = "ok") -> Reply:
    return Reply(body={**completion(text), "model": name})


def test_another_models_reply_is_no_answer() -> None:
    """A gateway that sends some calls to another model: a silently wrong answer, were the reply's
    own name not read."""
    got, _, _ = run(
        lambda c: of_model("m-mini", "wrong") if c.number % 5 == 0 else of_model("m"),
        30,
        concurrency=2,
    )
    assert {g.text for g in got if g.error is None} == {"ok"} and sum(
        g.error is None for g in got
    ) >= 25


def test_an_endpoint_that_is_always_another_model_stops_the_run_and_may_be_named() -> None:
    with pytest.raises(
        EngineError, match=r"the reply is of model 'deployed', not of 'm'.*reply_model"
    ):
        reply_to(lambda c: of_model("deployed"))
    assert reply_to(lambda c: of_model("deployed"), reply_model="deployed").text == "ok"


def test_one_poisonous_request_is_an_error_row_and_the_others_are_answered() -> None:
    def behave(call: Call) -> Reply:
        return (
            error(500, "crash")
            if call.prompt == "poison"
            else Reply(body=completion("ok"), delay_s=0.02)
        )

    (poison, *others), _, _ = run(
        behave, [request("poison"), *(request(str(i)) for i in range(60))], concurrency=2
    )
    assert poison.error is not None and "HTTP 500" in poison.error
    assert all(g.error is None and g.text == "ok" for g in others)


@pytest.mark.parametrize(
    ("reply", "starts"),
    [
        (
            error(400, "This model's maximum context length is 2048 tokens."),
            "prompt too long: HTTP 400",
        ),
        (error(400, "bad", "context_length_exceeded"), "prompt too long: "),
        (error(413, "Request Entity Too Large"), "prompt too long: "),
        (
            error(400, "top_logprobs must be at most 5"),
            "request refused: HTTP 400, about top_logprobs",
        ),
        (error(422, "unknown field"), "request refused: HTTP 422"),
        (
            error(403, "m requires moderation. Your input was flagged for hate."),
            "request refused: HTTP 403",
        ),
        (
            Reply(body=completion("", "content_filter")),
            "the endpoint's content filter withheld the reply",
        ),
    ],
)
def test_a_refused_request_is_an_error_row_without_retry(reply: Reply, starts: str) -> None:
    requests = [request("long"), request("short")]
    (bad, good), calls, _ = run(lambda c: reply if c.prompt == "long" else echo(c), requests)
    assert bad.error is not None and bad.error.startswith(starts)
    assert good.text == "short" and len(calls) == 2


def test_an_endpoint_that_has_not_failed_is_named_with_its_timeout() -> None:
    async def use(engine: OpenAIEngine, server: FaultyServer) -> str:
        return engine.trouble()

    trouble = with_servers(use, echo)
    assert "http://127.0.0.1:" in trouble and "timeout_s=" in trouble


def test_an_outage_stops_the_run_and_records_no_error_rows() -> None:
    async def use(engine: OpenAIEngine, server: FaultyServer) -> float:
        await server.down()
        begin = time.monotonic()
        with pytest.raises(EngineError, match="connection"):
            await engine.run([request(str(i)) for i in range(50)])
        assert engine.stats()["error_rows"] == 0 and "connection" in engine.trouble()
        return time.monotonic() - begin

    # not before the budget is over, and soon after it
    assert OUTAGE.outage_s < with_servers(use, echo, retry=OUTAGE) < 20


def test_the_only_endpoint_comes_back_within_the_budget() -> None:
    async def use(engine: OpenAIEngine, server: FaultyServer) -> list[str]:
        await server.down()
        run = asyncio.create_task(engine.run([request(str(i)) for i in range(20)]))
        await asyncio.sleep(0.6)
        assert not run.done()
        await server.up()
        return [g.text for g in await run]

    assert with_servers(use, echo) == [str(i) for i in range(20)]


def test_a_cancelled_run_frees_its_slots() -> None:
    async def use(engine: OpenAIEngine, server: FaultyServer) -> list[str]:
        server.behave = lambda c: Reply(fault="hang")
        run = asyncio.create_task(engine.run([request(str(i)) for i in range(30)]))
        await asyncio.sleep(0.1)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        server.behave = echo
        return [
            g.text for g in await asyncio.wait_for(engine.run([request("a"), request("b")]), 60)
        ]

    assert with_servers(use, echo, concurrency=2) == ["a", "b"]


# --- start ---


def test_a_missing_key_is_named_and_another_variables_key_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(KEY_ENV)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-service")
    seen: list[str] = []

    def refuse(call: Call) -> Reply:
        seen.append(call.headers["authorization"])
        return error(401, "no key")

    async def main() -> None:
        async with FaultyServer(models=refuse) as server:
            with pytest.raises(EndpointAuthError, match=f"{KEY_ENV} is not set"):
                await started(endpoint(server))

    asyncio.run(main())
    assert seen == ["Bearer no-key-set"]


def test_a_key_that_is_revoked_during_the_run_stops_it() -> None:
    async def use(engine: OpenAIEngine, server: FaultyServer) -> int:
        with pytest.raises(EndpointAuthError):
            await engine.run([request(str(i)) for i in range(50)])
        calls = len(server.calls)
        with pytest.raises(EndpointAuthError):  # nothing more is sent with it
            await engine.run([request()])
        assert len(server.calls) == calls
        return calls

    assert (
        with_servers(
            use, lambda c: error(401, "revoked") if c.number > 5 else echo(c), concurrency=2
        )
        <= 8
    )


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    """It would send the questions to another host, and store that host's reply under this one's
    name."""

    async def main() -> None:
        async with FaultyServer() as other:
            target = Reply(status=status, headers={"location": f"{other.url}/chat/completions"})
            async with FaultyServer(lambda call: target) as server:
                engine = await started(endpoint(server), retry=OUTAGE)
                with pytest.raises(EngineError, match=f"HTTP {status}"):
                    await engine.run([request()])
                await engine.close()
                assert server.calls and not other.calls

    asyncio.run(main())


@pytest.mark.parametrize(
    "charset", ["hex", "rot13", "zip", "idna", "undefined", "utf-16", "utf_8\x01", "no-such"]
)
@pytest.mark.parametrize("status", [200, 400])
def test_a_charset_that_is_none_ends_no_run(charset: str, status: int) -> None:
    headers = {"content-type": f"application/json; charset={charset}"}
    odd = Reply(status, completion("é") if status == 200 else {"error": {"message": "é"}}, headers)
    assert reply_to(lambda call: odd if call.prompt == "hi" else echo(call)).error == (
        None if status == 200 else "request refused: HTTP 400"
    )


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=completion("x" * (17 * 2**20))),
        Reply(body=completion("small"), headers={"content-encoding": "gzip"}),
    ],
    ids=["17 MiB", "compressed"],
)
def test_a_reply_has_a_bound(reply: Reply) -> None:
    requests, retry = [request("large"), request("small")], replace(FAST_RETRY, max_attempts=2)
    (large, small), _, _ = run(
        lambda call: reply if call.prompt == "large" else echo(call), requests, retry=retry
    )
    assert large.error is not None and "refused" in large.error
    assert small.error is None and "small" in small.text


def test_one_of_two_dead_at_start_is_left_out() -> None:
    async def main() -> None:
        async with FaultyServer() as server:
            dead = EndpointConfig(
                url=f"http://127.0.0.1:{free_port()}/v1", model="m", api_key_env=KEY_ENV
            )
            engine = await started(
                dead, endpoint(server), circuit=CircuitConfig(failures=3, cooldown_s=60)
            )
            results = await engine.run([request(f"p{i}", f"q{i}") for i in range(20)])
            assert [g.text for g in results] == [f"p{i}" for i in range(20)]
            assert engine.stats()["retries"] == 0
            await engine.close()

    asyncio.run(main())


# --- secrets ---


def test_no_key_in_logs_exceptions_reprs_or_generations(caplog: pytest.LogCaptureFixture) -> None:
    """The server echoes the key in every way; all loggers, those of the HTTP libraries included,
    are at DEBUG."""
    echoes = [
        Reply(401, {"error": {"message": f"bad key {KEY}"}}, {"x-echo": f"Bearer {KEY}"}),
        Reply(500, f"<html>{KEY}</html>", {"x-echo": KEY}),
        Reply(400, {"error": {"message": f"Authorization: Bearer {KEY} is odd"}}, {"x-echo": KEY}),
        Reply(400, {"error": {"message": "x" * 390 + KEY}}),  # where the message is cut off
        Reply(200, {"object": KEY, KEY: KEY}, {"x-echo": KEY}),
        Reply(200, f"not json: {KEY}"),
        Reply(200, completion(f"The key is {KEY}, you said."), {"x-echo": KEY}),
    ]
    seen: list[str] = []

    async def main() -> None:
        for reply in echoes:
            async with FaultyServer(lambda c, reply=reply: reply) as server:
                engine = await started(endpoint(server), retry=OUTAGE)
                try:
                    seen.append(repr(await engine.run([request()])))
                except EngineError as caught:
                    chain: list[BaseException | None] = [
                        caught,
                        caught.__cause__,
                        caught.__context__,
                    ]
                    seen.extend(repr(e) for e in chain)
                    seen.append("".join(traceback.format_exception(caught)))
                    seen.append(repr(pickle.loads(pickle.dumps(caught))))
                seen.extend([repr(engine), repr(engine.stats()), repr(engine._endpoints)])
                seen.extend([repr(vars(engine)), repr(engine._endpoints[0]._redactor)])
                await engine.close()

    with caplog.at_level(logging.DEBUG):
        for name in ("openai", "httpx", "httpx2", "httpcore", "httpcore2"):
            caplog.set_level(logging.DEBUG, logger=name)
        asyncio.run(main())
    records = [caplog.text, *(record.getMessage() for record in caplog.records)]
    # The log really holds what the HTTP libraries write, redacted: without the filter this test
    # would fail.
    assert any("x-echo" in text and "<removed>" in text for text in records)
    assert any("<removed>" in text for text in seen)
    for text in [*seen, *records]:
        assert KEY not in text
        assert KEY[3:] not in text
        assert KEY[:12] not in text


def test_a_key_with_a_line_break_is_refused_without_being_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(KEY_ENV, "secret\nhalf")
    with pytest.raises(EndpointAuthError, match=KEY_ENV) as caught:
        asyncio.run(started(EndpointConfig(model="m", api_key_env=KEY_ENV)))
    assert "secret" not in str(caught.value) and "half" not in str(caught.value)


KEY = "sk-secret-0123456789abcdef"
ECHOES = {
    "hex": KEY.encode().hex(),
    "base64 of the header": b64encode(f"Bearer {KEY}".encode()).decode(),
    "spaced": " ".join(KEY),
    "as numbers": str(list(KEY.encode())),
    "plain": KEY,
}


@pytest.mark.parametrize("name", ECHOES)
@pytest.mark.parametrize("status", [200, 400, 402, 403, 404, 413, 422, 500])
def test_no_spelling_of_a_key_that_a_server_echoes_is_stored(status: int, name: str) -> None:
    """An error is what its status says, and about the fields of a request that it names."""
    message = f"top_logprobs: {ECHOES[name]} context length"
    messages = classify_status(status, ECHOES[name], message).message
    messages += (
        classify_code(ECHOES[name], message).message + classify_code(str(status), message).message
    )
    assert ECHOES[name] not in messages and "top_logprobs" in messages
