"""A misbehaving OpenAI-compatible server on 127.0.0.1, for tests of the `openai` engine.

It speaks HTTP/1.1 by hand, so that it can do what no well-kept server does: break off a body, reset
a connection, hang. `behave(call)` decides each reply to a chat completion; the server records what
it was sent and how many calls were really under way at once."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_DRIP_S = 0.05


@dataclass
class Call:
    """One request as received. `number` counts chat completions from 1."""

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        return str(self.body["messages"][-1]["content"])


@dataclass
class Reply:
    """What to send. `fault` is "" (nothing wrong), "reset", "hang", "drip" (a byte now and then) or
    "truncate" (half of the announced body)."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    fault: str = ""


def completion(
    text: str | None = "ok", finish_reason: str | None = "stop", **message: Any
) -> dict[str, Any]:
    """A well-formed chat completion."""
    return {
        "id": "c1",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, **message},
                "finish_reason": finish_reason,
            }
        ],
        "usage": {
            "prompt_tokens": 12,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 8},
        },
    }


def letters_completion(top: dict[str, float]) -> dict[str, Any]:
    """A completion whose first token's `top_logprobs` are `top`."""
    body = completion("B", "length")
    entries = [{"token": token, "logprob": value, "bytes": None} for token, value in top.items()]
    body["choices"][0]["logprobs"] = {"content": [{**entries[0], "top_logprobs": entries}]}
    return body


def echo(call: Call) -> Reply:
    """Answer with the prompt."""
    return Reply(body=completion(call.prompt))


def error(status: int, message: str, code: str | None = None, **headers: str) -> Reply:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, {"error": {"message": message, "type": "error", "code": code}}, names)


class FaultyServer:
    """`async with FaultyServer(behave) as server:` serves `server.url` until the block ends."""

    def __init__(
        self,
        behave: Callable[[Call], Reply] = echo,
        *,
        models: Callable[[Call], Reply] | None = None,
        model: str = "m",
    ) -> None:
        self.behave = behave
        self.models = models or (
            lambda call: Reply(body={"object": "list", "data": [{"id": model}]})
        )
        self.calls: list[Call] = []
        self.in_flight = 0
        self.max_in_flight = 0
        self.connections = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def __aenter__(self) -> FaultyServer:
        await self.up()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.down()

    async def up(self) -> None:
        """Listen; on the same port as before if it was up once."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Refuse connections and cut those that are open."""
        if self._server is None:
            return
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.connections += 1
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {
            k.strip().lower(): v.strip()
            for k, _, v in (line.partition(":") for line in head[1:] if line)
        }
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        chat = method == "POST"
        call = Call(
            len(self.calls) + 1 if chat else 0, path, headers, json.loads(raw) if raw else {}
        )
        if not chat:
            return await self._send(writer, self.models(call))
        self.calls.append(call)
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            return await self._send(writer, self.behave(call))
        finally:
            self.in_flight -= 1

    async def _send(self, writer: asyncio.StreamWriter, reply: Reply) -> bool:
        if reply.delay_s:
            await asyncio.sleep(reply.delay_s)
        if reply.fault == "hang":
            await asyncio.sleep(3600)
        if reply.fault == "reset":
            # Linger 0: close() sends RST and not FIN.
            writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            writer.transport.abort()
            return False
        is_text = isinstance(reply.body, str)
        payload = reply.body.encode() if is_text else json.dumps(reply.body).encode()
        headers = {"content-type": "text/html" if is_text else "application/json", **reply.headers}
        lines = [f"HTTP/1.1 {reply.status} X", *(f"{k}: {v}" for k, v in headers.items())]
        writer.write(
            "\r\n".join([*lines, f"content-length: {len(payload)}", "", ""]).encode("latin-1")
        )
        if reply.fault == "drip":
            for byte in payload:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(_DRIP_S)
            return True
        if reply.fault == "truncate":
            writer.write(payload[: len(payload) // 2])
            await writer.drain()
            return False
        writer.write(payload)
        await writer.drain()
        return True
