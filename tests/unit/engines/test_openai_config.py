"""Endpoints before they are used: what is refused, what is asked before Ray starts, and when one is
asked again."""

import asyncio
import math
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from faulty_server import Call, FaultyServer, Reply, completion, error, letters_completion
from servers_here import free_port

from audit.core.errors import AuditError, ConfigError, EndpointAuthError, EngineLoadError
from audit.core.records import Reading
from audit.engines.config import ModelConfig, check_model
from audit.engines.dispatch import Dispatcher, Slot
from audit.engines.openai_config import CircuitConfig, EndpointConfig, RetryConfig
from audit.engines.probe import WITHIN_S, probe
from audit.engines.retry import Kind, backoff_seconds, classify_status, retry_after_seconds

KEY = "sk-test-0123456789-do-not-leak"


def check(reading: Reading = Reading.LETTER, **changes: Any) -> None:
    base = ModelConfig(name="m", engine="openai", endpoints=[EndpointConfig(model="m")])
    check_model("m", replace(base, **changes), reading)


def test_a_sound_one_is_taken() -> None:
    check()
    check(Reading.LETTER_LOGPROB)


@pytest.mark.parametrize(
    "value", [KEY, "hf_abcdefghijklmnop", "sk_live_123", "not a name", "", "1ABC", "a-b"]
)
def test_a_key_in_place_of_a_variables_name_is_refused_without_being_shown(value: str) -> None:
    with pytest.raises(ConfigError, match="api_key_env") as caught:
        check(endpoints=[EndpointConfig(model="m", api_key_env=value)])
    assert len(value) < 5 or value not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter22@127.0.0.1:8000/v1",
        "http://hunter22@127.0.0.1:8000/v1",
        "http://127.0.0.1:8000/v1?key=hunter22",
        "http://127.0.0.1:8000/v1#hunter22",
        "http://user:hunter22@127.0.0.1:99999/v1",
    ],
)
def test_credentials_in_a_url_are_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(endpoints=[EndpointConfig(url=url, model="m")])
    assert (
        "hunter22" not in str(caught.value) and "user" not in str(caught.value).split("Example")[0]
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"endpoints": []}, "no endpoint"),
        ({"endpoints": [EndpointConfig(url="127.0.0.1:8000", model="m")]}, "Expected http"),
        (
            {"endpoints": [EndpointConfig("http://h:1/v1/chat/completions/", "m")]},
            "the base URL: http://h:1/v1$",
        ),
        (
            {"endpoints": [EndpointConfig("http://h:1/v1/completions", "m")]},
            "the base URL: http://h:1/v1$",
        ),
        ({"endpoints": [EndpointConfig(model="")]}, "names no model"),
        ({"endpoints": [EndpointConfig(model="m", weight=0)]}, "weight.*0. Expected a number > 0"),
        (
            {"endpoints": [EndpointConfig(model="m", concurrency=0)]},
            "concurrency.*a whole number >= 1",
        ),
        ({"endpoints": [EndpointConfig(model="m", timeout_s=math.nan)]}, "timeout_s"),
        (
            {"endpoints": [EndpointConfig(model="m", max_tokens_field="max_token")]},
            "Did you mean 'max_tokens'",
        ),
        ({"retry": RetryConfig(max_attempts=0)}, "max_attempts"),
        ({"retry": RetryConfig(jitter=1.5)}, "jitter is 1.5. Expected a number >= 0 and <= 1"),
        ({"retry": RetryConfig(base_delay_s=40)}, "max_delay_s"),
        ({"circuit": CircuitConfig(failures=0)}, "failures"),
        ({"extra_body": {"stream": True}}, "stream"),
        ({"extra_body": {"api_key": "x"}}, "api_key"),
        ({"reading": Reading.OPTION_TEXT}, "engine vllm"),
        (
            {
                "reading": Reading.LETTER_LOGPROB,
                "endpoints": [EndpointConfig("http://h/infer", "m")],
            },
            "needs likelih",
        ),
    ],
)
def test_unusable_configurations(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check(**change)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUDIT_TEST_KEY", KEY)


def model(url: str, name: str = "m") -> ModelConfig:
    return ModelConfig(
        name="e",
        engine="openai",
        endpoints=[EndpointConfig(url, name, api_key_env="AUDIT_TEST_KEY")],
    )


def probed(
    behave: Callable[[Call], Reply],
    models: Callable[[Call], Reply] | None = None,
    *,
    letters: bool = False,
    list_within_s: float = 10.0,
):
    """What is found of a server, and the requests for a completion that it got."""

    async def main() -> tuple[AuditError | None, list[Call], float]:
        async with FaultyServer(behave, models=models) as server:
            started = time.monotonic()
            (failure,) = await asyncio.to_thread(
                probe, [model(server.url)], [letters], list_within_s
            )
            return failure, server.calls, time.monotonic() - started

    return asyncio.run(main())


MINI, MOVED = (
    Reply(body={**completion("B"), "model": "mini"}),
    Reply(302, {}, {"location": "http://h/"}),
)


def answers(reply: Reply) -> Callable[[Call], Reply]:
    return lambda call: reply


def text_reply(text: str) -> Callable[[Call], Reply]:
    return answers(Reply(body=completion(text)))


def listed(*names: str) -> Callable[[Call], Reply]:
    return answers(Reply(body={"object": "list", "data": [{"id": name} for name in names]}))


# What a completion is answered with, and the list of models; whether likelihoods are read -> the
# error, what it names, and how many completions were asked for.
PROBED: dict[str, tuple[Any, ...]] = {
    "listed: it costs no token": (text_reply("B"), None, False, None, "", 0),
    "nothing is listed: one token tells": (
        text_reply("B"),
        answers(error(404, "no such path")),
        False,
        None,
        "",
        1,
    ),
    "another name": (
        answers(error(404, "no m")),
        listed("llama", "qwen"),
        False,
        EngineLoadError,
        "llama, qwen",
        1,
    ),
    "a gateway to another model": (
        answers(MINI),
        listed("mini"),
        False,
        EngineLoadError,
        "'mini'",
        1,
    ),
    "no likelihoods": (text_reply("B"), None, True, EngineLoadError, "reading=letter", 1),
    "likelihoods refused": (
        answers(error(400, "not supported")),
        None,
        True,
        EngineLoadError,
        "",
        1,
    ),
    "likelihoods": (
        answers(Reply(body=letters_completion({"A": -1.0, "B": -0.5}))),
        None,
        True,
        None,
        "",
        1,
    ),
    "a refused key": (
        text_reply("B"),
        answers(error(401, f"bad {KEY}")),
        False,
        EndpointAuthError,
        "AUDIT_TEST_KEY",
        0,
    ),
    "a redirect": (text_reply("B"), answers(MOVED), False, EngineLoadError, "redirect", 0),
    **{
        f"{k}: left to the engine": (text_reply("B"), answers(error(k, "busy")), False, None, "", 0)
        for k in (503, 429, 500)
    },
}


@pytest.mark.parametrize("name", PROBED)
def test_what_is_asked_before_ray_starts_and_what_is_found(name: str) -> None:
    behave, models, letters, kind, quoted, calls = PROBED[name]
    failure, requests, _ = probed(behave, models, letters=letters)
    assert failure is None if kind is None else isinstance(failure, kind)
    assert quoted in str(failure) and KEY not in str(failure)
    assert [call.body["max_tokens"] for call in requests] == [1] * calls


def test_a_server_that_does_not_answer_holds_nobody_up() -> None:
    """Without a byte of its list it is refused; a completion that takes long may come later."""
    failure, _, took = probed(text_reply("B"), lambda call: Reply(fault="hang"), list_within_s=0.5)
    assert isinstance(failure, EngineLoadError) and "within 0.5 s" in str(failure)
    assert 0.5 <= took < 5
    failure, _, took = probed(answers(Reply(fault="hang")), listed("other"))
    assert failure is None and WITHIN_S <= took < WITHIN_S + 8


def test_a_list_that_comes_slowly_is_no_refusal() -> None:
    drips = answers(Reply(body={"data": [{"id": "m"}] * 60}, fault="drip"))
    failure, _, took = probed(text_reply("B"), drips, list_within_s=0.5)
    assert failure is None and took < WITHIN_S + 8


def test_several_at_once_each_with_its_own_finding() -> None:
    dead = model(f"http://127.0.0.1:{free_port()}")
    assert [type(failure) for failure in probe([dead, dead], [False, True])] == [
        EngineLoadError
    ] * 2


def test_an_address_without_its_path_is_shown_whole() -> None:
    async def main() -> None:
        async with FaultyServer(
            answers(error(404, "no path")), models=answers(error(404, "no"))
        ) as server:
            bare = server.url.removesuffix("/v1")
            (failure,) = await asyncio.to_thread(probe, [model(bare)], [False])
            assert f"{bare}/v1" in str(failure)

    asyncio.run(main())


def test_an_endpoint_goes_out_is_tested_by_one_request_and_comes_back() -> None:
    now = [0.0]
    slot = Slot("a", 1.0, 10, CircuitConfig(failures=2, cooldown_s=10))

    async def main() -> None:
        dispatcher = Dispatcher([slot], lambda: now[0])
        leases = [await dispatcher.acquire("q") for _ in range(6)]
        assert not dispatcher.failed(leases[0])
        dispatcher.answered(leases[1])  # in a row: an answer in between starts again
        assert not dispatcher.failed(leases[2])
        assert dispatcher.failed(leases[3]) and not slot.ready(9.9) and slot.ready(10.0)
        now[0] = 10.0
        probe = await dispatcher.acquire("q")
        assert probe.probe and not slot.ready(10.0)  # one probe, no second
        dispatcher.failed(probe)
        assert not slot.ready(19.9)
        now[0] = 20.0
        dispatcher.abandoned(
            await dispatcher.acquire("q")
        )  # cancelled: it may be sent again at once
        probe = await dispatcher.acquire("q")
        assert not dispatcher.failed(
            leases[4]
        )  # a late failure of an older request changes nothing
        assert slot.probing and dispatcher.answered(probe)
        assert slot.in_service and slot.in_flight == 1
        dispatcher.close()

    asyncio.run(main())


def test_a_request_is_woken_whose_moment_comes_while_the_dispatcher_looks() -> None:
    """On a busy machine time passes between two looks at the clock: what became ready in between
    woke nobody."""
    slot = Slot("a", 1.0, 10, CircuitConfig(cooldown_s=10))
    slot.take_out(0.0)
    ticks = iter(9.995 + 0.01 * np.arange(100))  # the second look is past the cooldown

    async def main() -> None:
        dispatcher = Dispatcher([slot], lambda: float(next(ticks)))
        assert (await asyncio.wait_for(dispatcher.acquire("q"), 10)).probe

    asyncio.run(main())


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
        (
            {"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"},
            60.0,
        ),  # 100 s after the epoch, 40 s have passed
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
        (401, "", Kind.AUTH),
        (403, "", Kind.AUTH),
        (403, "content_policy_violation", Kind.ROW),
        (402, "", Kind.QUOTA),
        (429, "insufficient_quota", Kind.QUOTA),
        (429, "rate_limit_exceeded", Kind.RATE_LIMIT),
        (408, "", Kind.TIMEOUT),
        (404, "", Kind.UNAVAILABLE),
        (529, "", Kind.UNAVAILABLE),
        (500, "", Kind.SERVER),
        (500, "context_length_exceeded", Kind.ROW),
        (409, "", Kind.SERVER),
        (418, "", Kind.ROW),
    ],
)
def test_kinds_of_status(status: int, code: str, kind: Kind) -> None:
    assert classify_status(status, code, "x").kind is kind
