"""What an endpoint may make the HTTP client do: follow no redirect, read no reply without a bound."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import openai

REPLY_LIMIT_BYTES = 16 * 2**20


class ReplyRefusedError(Exception):
    """A reply that is longer than the limit, or compressed although that was not asked for."""


class _Bounded(httpx2.AsyncByteStream):
    """A body that raises ReplyRefusedError at the first byte above the limit."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = REPLY_LIMIT_BYTES
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise ReplyRefusedError(f"the reply is longer than {REPLY_LIMIT_BYTES // 2**20} MiB")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity").casefold() != "identity":
        raise ReplyRefusedError("the reply is compressed, which was not asked for: a small one may decode to any size")
    assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - narrows the type for mypy
    response.stream = _Bounded(response.stream)


def bounded_client() -> openai.DefaultAsyncHttpxClient:
    """The client of one endpoint. A redirect would carry the benchmark's text to another host."""
    return openai.DefaultAsyncHttpxClient(
        follow_redirects=False, headers={"Accept-Encoding": "identity"}, event_hooks={"response": [_bound]}
    )
