"""The engine port: what the pipeline asks of anything that can generate."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from audit.records import Generation, GenerationRequest


class Engine(Protocol):
    """One loaded model, or one set of endpoints. Serves every kind of request alike."""

    engine_id: str

    async def start(self) -> None:
        """Load the model or check the endpoints. Raises EngineLoadError or EndpointAuthError."""

    async def run(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Answer in the order asked; may be called many times at once.

        A request that cannot be served (prompt too long) gives `Generation(error=...)`; an engine that cannot serve
        at all raises EngineError, and EngineDiedError where a new process could.
        """

    def stats(self) -> dict[str, float]:
        """Counters since the start, such as `retries`."""

    async def close(self) -> None:
        """Free what the engine holds."""


def request_sha256(
    request: GenerationRequest, prompt_ids: Sequence[int] | None = None, options_ids: Sequence[Sequence[int]] = ()
) -> str:
    """What a model was given, as one word: `tokens:` and a hash of the token ids, `text:` and one of the text.

    prompt_ids: the prompt as the model consumed it; options_ids: the continuations or letters that were scored. None
    where an engine tells no token ids. Limits and seeds are no part of it: two requests with one hash asked the same.
    """
    if prompt_ids is None:
        text = json.dumps([request.prompt, request.continuations, request.letters], separators=(",", ":"))
        return "text:" + hashlib.sha256(text.encode()).hexdigest()
    digest = hashlib.sha256()
    for ids in (prompt_ids, *options_ids):
        digest.update(len(ids).to_bytes(8, "little"))  # the length keeps neighbouring lists apart
        digest.update(np.asarray(ids, dtype="<u4").tobytes())
    return "tokens:" + digest.hexdigest()
