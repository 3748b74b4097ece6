"""What the `openai` engine's configuration refuses, above all keys in the wrong place."""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from audit.engines.openai_config import CircuitConfig, EndpointConfig, OpenAIConfig, RetryConfig, check_config
from audit.engines.openai_engine import OpenAIEngine
from audit.errors import ConfigError

KEY = "sk-test-0123456789-do-not-leak"


def config(*endpoints: EndpointConfig) -> OpenAIConfig:
    return OpenAIConfig(list(endpoints))


@pytest.mark.parametrize("value", [KEY, "hf_abcdefghijklmnop", "sk_live_123", "not a name", "", "1ABC", "a-b"])
def test_a_key_in_place_of_a_variables_name_is_refused_without_being_shown(value: str) -> None:
    with pytest.raises(ConfigError, match="api_key_env") as caught:
        OpenAIEngine(config(EndpointConfig(model="m", api_key_env=value)))
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
        check_config(config(EndpointConfig(url=url, model="m")))
    assert "hunter22" not in str(caught.value) and "user" not in str(caught.value).split("Example")[0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"endpoints": []}, "no endpoint"),
        ({"endpoints": [EndpointConfig(url="127.0.0.1:8000", model="m")]}, "not usable"),
        ({"endpoints": [EndpointConfig(model="")]}, "names no model"),
        ({"endpoints": [EndpointConfig(model="m", weight=0)]}, "weight.*0; expected a number > 0"),
        ({"endpoints": [EndpointConfig(model="m", concurrency=0)]}, "concurrency.*a whole number >= 1"),
        ({"endpoints": [EndpointConfig(model="m", timeout_s=math.nan)]}, "timeout_s"),
        ({"endpoints": [EndpointConfig(model="m", max_tokens_field="max_token")]}, "Did you mean 'max_tokens'"),
        ({"retry": RetryConfig(max_attempts=0)}, "max_attempts"),
        ({"retry": RetryConfig(jitter=1.5)}, "jitter is 1.5; expected a number >= 0 and <= 1"),
        ({"retry": RetryConfig(base_delay_s=40)}, "max_delay_s"),
        ({"circuit": CircuitConfig(failures=0)}, "failures"),
        ({"extra_body": {"stream": True}}, "stream"),
        ({"extra_body": {"api_key": "x"}}, "api_key"),
    ],
)
def test_unusable_configurations(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_config(replace(config(EndpointConfig(model="m")), **change))


def test_it_is_a_structured_config() -> None:
    node = OmegaConf.merge(
        OmegaConf.structured(OpenAIConfig),
        {"endpoints": [{"url": "http://h:1/v1", "model": "m", "concurrency": "8"}], "retry": {"max_attempts": 2}},
    )
    built = OmegaConf.to_object(node)
    assert isinstance(built, OpenAIConfig)
    assert built.endpoints == [EndpointConfig("http://h:1/v1", "m", concurrency=8)]
    assert built.retry.max_attempts == 2


def test_the_configuration_loads_no_client() -> None:
    wanted = "[m for m in ('openai', 'ray', 'vllm') if m in sys.modules]"
    code = f"import sys, audit.engines.openai_config; print({wanted})"
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
