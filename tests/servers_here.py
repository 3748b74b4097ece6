"""Servers of a test's own, on this machine alone."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def free_port() -> int:
    """A port on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Quiet(BaseHTTPRequestHandler):
    """A handler that logs nothing."""

    def request_body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def reply_json(
        self, body: object, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self.reply(
            status,
            json.dumps(body).encode(),
            {**(headers or {}), "Content-Type": "application/json"},
        )

    def reply(
        self,
        status: int,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        length: int | None = None,
    ) -> None:
        """length: what is announced, where it is not the body's."""
        self.send_response(status)
        size = str(len(body) if length is None else length)
        for name, value in {**(headers or {}), "Content-Length": size}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def http_here(
    handler: type[BaseHTTPRequestHandler], certificate: Path | None = None
) -> Iterator[str]:
    """The address of a server with this handler, until the block ends. Over TLS where it has a
    certificate."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def mail_here(received: list[Any]) -> Iterator[str]:
    """The address of a mail server that keeps what it receives."""
    from email import message_from_bytes
    from email.policy import default

    from aiosmtpd.controller import Controller

    class Mailbox:
        async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
            received.append(message_from_bytes(envelope.content, policy=default))
            return "250 OK"

    controller = Controller(Mailbox(), hostname="127.0.0.1", port=free_port())
    controller.start()
    yield f"mailto://127.0.0.1:{controller.port}?from=audit@example.org&to=team@example.org&mode=insecure"
    controller.stop()
