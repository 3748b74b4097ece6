"""Whether endpoints serve what a run needs: checked with patience when an engine starts, and at once before a run."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import replace

from audit.engines.openai_config import RetryConfig
from audit.engines.openai_endpoint import Endpoint
from audit.engines.retry import Failure, FailureKind, backoff_seconds
from audit.errors import EndpointAuthError, EngineLoadError

logger = logging.getLogger(__name__)

_CONNECT_ATTEMPTS = 2  # at the start of a run
_FINAL = frozenset({FailureKind.AUTH, FailureKind.QUOTA, FailureKind.ROW})  # asking again gives the same
_UNUSABLE = frozenset({FailureKind.MALFORMED, FailureKind.OTHER_MODEL})


async def check_patiently(endpoint: Endpoint, retry: RetryConfig, rng: random.Random) -> Failure | None:
    """None when the endpoint is well; otherwise its last failure, after the retries that its kind allows."""
    failure: Failure | None = None
    for attempt in range(1, retry.max_attempts + 1):
        failure = await endpoint.check()
        if failure is None or failure.kind in _FINAL:
            return failure
        endpoint.last_failure = failure.message
        if failure.kind is FailureKind.UNAVAILABLE and not failure.status and attempt >= _CONNECT_ATTEMPTS:
            return failure  # nobody listens there: no need to wait for what was never started, or is misspelt
        if attempt < retry.max_attempts:
            await asyncio.sleep(backoff_seconds(retry, attempt, rng, failure.retry_after_s))
    return failure


async def probed(endpoint: Endpoint, within_s: float, letters: bool) -> Failure | None:
    """The failure of one check, where it would not pass by itself; None where it may, or where nothing is wrong."""
    try:
        async with asyncio.timeout(within_s):
            failure = await endpoint.check(letters)
    except TimeoutError:
        return None
    if failure is None or failure.kind in _FINAL:
        return failure
    if failure.kind in _UNUSABLE:
        return replace(failure, kind=FailureKind.ROW)
    endpoint.last_failure = failure.message
    lasts = failure.kind is FailureKind.UNAVAILABLE and (not failure.status or 300 <= failure.status < 400)
    return failure if lasts else None


def judge_health(endpoints: Sequence[Endpoint], found: Sequence[Failure | None]) -> None:
    """Leave out those that do not answer. Raises EndpointAuthError where a key is refused, EngineLoadError where none
    answers or one does not serve its model."""
    for endpoint, failure in zip(endpoints, found, strict=True):
        if failure is None:
            continue
        if failure.kind is FailureKind.AUTH:
            raise EndpointAuthError(endpoint.refused_key(failure))
        if failure.kind in _FINAL:
            raise EngineLoadError(f"Endpoint {endpoint.shown} cannot serve: {failure.message}")
    if all(found):
        raise EngineLoadError(
            f"No endpoint answered. {last_failures(endpoints)} Expected an OpenAI-compatible server, such as one "
            "started with: vllm serve <model> --port 8000."
        )
    for endpoint, failure in zip(endpoints, found, strict=True):
        if failure is not None:
            endpoint.slot.circuit.trip()
            logger.warning("endpoint %s does not answer and is left out for now: %s", endpoint.id, failure.message)


def last_failures(endpoints: Sequence[Endpoint]) -> str:
    return " ".join(f"{e.shown}: {e.last_failure or 'no failure seen'}." for e in endpoints)
