"""The engine port: what the pipeline asks of anything that can generate."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from audit.records import Generation, GenerationRequest, TokenLogprobs

BACKEND = "backend:"  # begins a counter of calls that one version of an endpoint's backend answered


class Engine(Protocol):
    """One loaded model, or one set of endpoints. Serves every kind of request alike."""

    engine_id: str
    precision: str  # such as "float32": what the loaded weights are computed in; "" of an engine that loads none

    async def start(self) -> None:
        """Load the model or check the endpoints. Raises EngineLoadError or EndpointAuthError."""

    async def run(self, requests: Sequence[GenerationRequest], priority: int = 0) -> list[Generation]:
        """Return the replies in the order of the requests; may be called many times at once. An engine that queues
        takes the smaller priority first. A request that cannot be served (prompt too long) gives
        `Generation(error=...)`; an engine that cannot serve at all raises EngineError, and EngineDiedError where a new
        process could."""

    def stats(self) -> dict[str, float]:
        """Counters since the start, such as `retries`. Every engine has `requests`: those that it is done with."""

    async def close(self) -> None:
        """Free what the engine holds."""


def drifts(backends: Mapping[str, int]) -> list[str]:
    """Endpoints whose backend changed: backends are calls by "ENDPOINT SYSTEM_FINGERPRINT"."""
    by_endpoint: dict[str, list[str]] = {}
    for key, calls in backends.items():
        endpoint, _, version = key.partition(" ")
        by_endpoint.setdefault(endpoint, []).append(f"{version} ({calls:,} calls)")
    return [
        f"{endpoint} answered from {len(versions)} versions of its backend: {', '.join(versions)}. Its provider may "
        "have changed the model during the run."
        for endpoint, versions in by_endpoint.items()
        if len(versions) > 1
    ]


def request_sha256(
    request: GenerationRequest, prompt_ids: Sequence[int] | None = None, options_ids: Sequence[Sequence[int]] = ()
) -> str:
    """What a model was given, as one word: `tokens:` and a hash of the token ids, `text:` and one of the text.
    prompt_ids: the prompt as the model consumed it, None where an engine tells no token ids; options_ids: the
    continuations or letters that were scored. Limits and seeds are no part of it."""
    if prompt_ids is None:
        given = [request.prompt, request.continuations, request.letters, *filter(None, (request.system,))]
        # A given text is not a message that says the same.
        text = json.dumps([*given, "given text"] if request.pieces else given, separators=(",", ":"))
        return "text:" + hashlib.sha256(text.encode()).hexdigest()
    digest = hashlib.sha256()
    for ids in (prompt_ids, *options_ids):
        digest.update(len(ids).to_bytes(8, "little"))  # the length keeps neighbouring lists apart
        digest.update(np.asarray(ids, dtype="<u4").tobytes())
    return "tokens:" + digest.hexdigest()


def of_pieces(tokens: TokenLogprobs, n_pieces: int) -> dict[str, Any]:
    """The fields of a Generation that tell a given text: its tokens, and each piece's total logprob and tokens."""
    where = np.asarray(tokens.pieces, dtype=np.int64)
    count = np.bincount(where, minlength=n_pieces)
    total = np.bincount(where, weights=tokens.logprobs, minlength=n_pieces)
    return {
        "option_logprobs": tuple(float(t) if c else None for t, c in zip(total, count, strict=True)),
        "option_tokens": tuple(count.tolist()),
        "tokens": tokens,
    }
