"""Endpoints are asked before Ray starts: what will not pass by itself is said within two seconds."""

import asyncio
import time
from collections.abc import Callable

import pytest
from faulty_server import Call, FaultyServer, Reply, completion, error, letters_completion
from servers_here import free_port

from audit.engines.config import ModelConfig
from audit.engines.openai_config import EndpointConfig
from audit.engines.openai_engine import WITHIN_S, probe
from audit.errors import AuditError, EndpointAuthError, EngineLoadError

KEY = "sk-test-0123456789-do-not-leak"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUDIT_TEST_KEY", KEY)


def model(url: str, name: str = "m") -> ModelConfig:
    return ModelConfig(name="e", engine="openai", endpoints=[EndpointConfig(url, name, api_key_env="AUDIT_TEST_KEY")])


def probed(behave: Callable[[Call], Reply], models: Callable[[Call], Reply] | None = None, *, letters: bool = False):
    """What is found of a server, and the requests for a completion that it got."""

    async def main() -> tuple[AuditError | None, list[Call], float]:
        async with FaultyServer(behave, models=models) as server:
            started = time.monotonic()
            (found,) = await asyncio.to_thread(probe, [model(server.url)], [letters])
            return found, server.calls, time.monotonic() - started

    return asyncio.run(main())


def told(text: str) -> Callable[[Call], Reply]:
    return lambda call: Reply(body=completion(text))


def listed(*names: str) -> Callable[[Call], Reply]:
    return lambda call: Reply(body={"object": "list", "data": [{"id": name} for name in names]})


def test_a_model_that_is_listed_costs_no_token() -> None:
    found, calls, _ = probed(told("B"))
    assert found is None and calls == []


def test_where_nothing_is_listed_one_token_tells() -> None:
    found, calls, _ = probed(told("B"), lambda call: error(404, "no such path"))
    assert found is None and [call.body["max_tokens"] for call in calls] == [1]


def test_another_name_is_refused_with_those_that_are_served() -> None:
    found, _, _ = probed(lambda call: error(404, "no model m"), listed("llama", "qwen"))
    assert isinstance(found, EngineLoadError) and "llama, qwen" in str(found)


def test_a_gateway_that_serves_another_model_is_refused() -> None:
    found, _, _ = probed(lambda call: Reply(body={**completion("B"), "model": "mini"}), listed("mini"))
    assert isinstance(found, EngineLoadError) and "'mini'" in str(found)


def test_likelihoods_are_asked_for_only_where_the_reading_needs_them() -> None:
    assert probed(told("B"))[0] is None
    found, calls, _ = probed(told("B"), letters=True)
    assert isinstance(found, EngineLoadError) and "reading=letter" in str(found) and len(calls) == 1
    refusing, _, _ = probed(lambda call: error(400, "logprobs are not supported"), letters=True)
    assert isinstance(refusing, EngineLoadError)
    assert probed(lambda call: Reply(body=letters_completion({"A": -1.0, "B": -0.5})), letters=True)[0] is None


def test_a_refused_key_is_named_and_not_shown() -> None:
    found, _, _ = probed(told("B"), lambda call: error(401, f"bad key {KEY}"))
    assert isinstance(found, EndpointAuthError) and "AUDIT_TEST_KEY" in str(found) and KEY not in str(found)


def test_a_redirect_is_not_followed() -> None:
    found, calls, _ = probed(told("B"), lambda call: Reply(302, {}, {"location": "http://127.0.0.1:1/"}))
    assert isinstance(found, EngineLoadError) and "redirect" in str(found) and calls == []


@pytest.mark.parametrize("busy", [error(503, "loading"), error(429, "slow down"), error(500, "oops")])
def test_what_may_pass_by_itself_is_left_to_the_engine(busy: Reply) -> None:
    assert probed(told("B"), lambda call: busy)[0] is None


def test_a_server_that_does_not_answer_holds_nobody_up() -> None:
    found, _, took = probed(told("B"), lambda call: Reply(fault="hang"))
    assert found is None and WITHIN_S <= took < WITHIN_S + 8


def test_several_at_once_each_with_its_own_finding() -> None:
    dead = model(f"http://127.0.0.1:{free_port()}")
    assert [type(one) for one in probe([dead, dead], [False, True])] == [EngineLoadError] * 2


def test_an_address_without_its_path_is_shown_whole() -> None:
    async def main() -> str:
        async with FaultyServer(lambda call: error(404, "no path"), models=lambda call: error(404, "no")) as server:
            bare = server.url.removesuffix("/v1")
            (found,) = await asyncio.to_thread(probe, [model(bare)], [False])
            assert f"{bare}/v1" in str(found)
            return str(found)

    assert "m" in asyncio.run(main())
