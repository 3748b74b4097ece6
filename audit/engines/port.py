"""The engine port: what the pipeline asks of anything that can generate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from audit.records import Generation, GenerationRequest


class Engine(Protocol):
    """One loaded model, or one set of endpoints. Serves router and worker requests alike."""

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
