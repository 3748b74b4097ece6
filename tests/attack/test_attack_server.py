"""Fifty requests that want something of the reviewers' page: none is answered with a run, and none
signs."""

import re
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from governed import TOKEN, Patch, reviewing
from starlette.applications import Starlette
from starlette.testclient import TestClient

from audit.governance import serve
from audit.governance.serve import SESSION, create_app, create_server

AT = "127.0.0.1:8790"
OWN = {"origin": f"http://{AT}", "content-type": "application/x-www-form-urlencoded"}
RUN = "/home/run/RUN"  # RUN stands for the name of the one run of the queue


@pytest.fixture(scope="module")
def clients(built: Path, keys: Path) -> tuple[TestClient, TestClient, dict[str, str]]:
    """Who opened the address, a stranger, and what the page's own form holds."""
    app = create_app(reviewing(built.parent, keys, AT))
    known, stranger = (
        TestClient(app, base_url=f"http://{AT}", follow_redirects=False) for _ in range(2)
    )
    known.get(f"/login?token={TOKEN}")
    (name,) = set(re.findall(r'href="/home/run/([0-9a-f]{20})"', known.get("/home/").text))
    text = known.get(f"/home/run/{name}").text
    form = dict(re.findall(r'name="(csrf|seen)" value="([^"]*)"', text))
    return (
        known,
        stranger,
        {**form, "kind": "override", "reason": "r", "expires": "2026-12-31", "RUN": name},
    )


Asked = tuple[str, str, bool, dict[str, str], Any, int]


def get(path: str, status: int, known: bool = True, **headers: str) -> Asked:
    return "GET", path, known, headers, None, status


def post(
    status: int,
    known: bool = True,
    path: str = RUN,
    leave: str = "",
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
    **changes: str,
) -> Asked:
    """With the page's own form: with changes, less a field, or another body."""
    return (
        "POST",
        path,
        known,
        OWN | (headers or {}),
        body if body is not None else (leave, changes),
        status,
    )


REQUESTS = [
    # nobody without the session
    *(get(path, 401, False) for path in ("/", "/home/", RUN, f"{RUN}/report/0", "/home/run/x")),
    *(
        get("/home/", 401, False, cookie=f"{SESSION}={value}")
        for value in ("", "x", TOKEN, "a; audit_review=b")
    ),
    *(get(path, 401, False, cookie=f"{SESSION}={TOKEN}") for path in ("/", RUN, f"{RUN}/report/0")),
    *(
        get(f"/login?token={token}", 403, False)
        for token in ("", "x", TOKEN[:-1], f"{TOKEN}x", "%C3%A9", TOKEN)
    ),
    get("/login", 403, False),
    post(401, False),
    get(
        f"{RUN}/report/0", 403, **{"sec-fetch-dest": "document"}
    ),  # by itself it could lead its tab elsewhere
    # another name of this machine
    *(
        get("/home/", 421, host=host)
        for host in (
            "evil.example.org",
            "evil.example.org:8790",
            "127.0.0.1",
            "[::1]:8790",
            "",
        )
    ),
    *(
        get(f"/login?token={TOKEN}", 421, False, host=host)
        for host in ("evil.example.org", "127.0.0.1", "")
    ),
    *(
        post(421, headers={"host": host, "origin": f"http://{host}"})
        for host in ("evil.example.org", "127.0.0.1", "")
    ),
    # from another page
    *(
        post(403, headers={"origin": origin})
        for origin in (
            "http://evil.example.org",
            "null",
            f"http://{AT}.evil.example.org",
            "http://127.0.0.1",
            "http://127.0.0.1:8791",
            "",
            f"file://{AT}",
        )
    ),
    *(post(403, csrf=value) for value in ("", "x", "\u00e9")),
    post(403, leave="csrf"),
    # not the form, or too much of it
    *(
        post(415, headers={"content-type": kind})
        for kind in ("application/json", "text/plain", "multipart/x", "")
    ),
    post(413, reason="x" * 70_000),
    post(403, body=b"\xff" * 1000),
    # not what was seen, or nothing that has an effect
    *(post(409, seen=value) for value in ("", "x", "0" * 64)),
    post(409, leave="seen"),
    *(post(400, kind=value) for value in ("approve", "delete", "", "OVERRIDE")),
    *(post(400, reason=value) for value in ("", " \n ", "x" * 2001)),
    *(
        post(400, expires=value)
        for value in (
            "",
            "2026-11-19",
            "9999-12-31",
            "never",
            "2026-12-31T10:00:00",
            "<script>",
        )
    ),
    # no address is a path, and no other verb does anything
    *(
        get(path, 404)
        for path in (
            "/home/run/..%2f..%2fetc%2fpasswd",
            "/home/run/" + "0" * 20,
            "/home/run/" + "a" * 5000,
            f"{RUN}/report/1",
            f"{RUN}/report/-1",
            f"{RUN}/report/{'9' * 5000}",
            f"{RUN}/report/..%2f",
            f"{RUN}/report/0%00",
            "/home/static/x",
            "/docs",
            "/openapi.json",
            "/home//",
            f"{RUN}/",
            "/home/run/%2e%2e/%2e%2e/manifest.json",
            "/home/run/x/report/0",
            "/home/run//report/0",
            "/static/x",
            f"{RUN}/report/0.5",
            f"{RUN}/report/{'9' * 20}",
        )
    ),
    *((verb, RUN, True, OWN, ("", {}), 405) for verb in ("PUT", "DELETE", "PATCH")),
    post(404, path="/home/run/" + "0" * 20),
    post(405, path=f"{RUN}/report/0"),
]


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_a_request_gets_nothing(
    number: int, clients: tuple[TestClient, TestClient, dict[str, str]], built: Path
) -> None:
    verb, path, known, headers, body, status = REQUESTS[number]
    form = dict(clients[2])
    name = form.pop("RUN")
    if isinstance(body, tuple):
        leave, changes = body
        form |= changes
        form.pop(leave, None)
    sent = {"data": form} if isinstance(body, tuple) else {"content": body}
    answer = clients[0 if known else 1].request(
        verb, path.replace("RUN", name), headers=headers, **sent
    )
    assert answer.status_code == status and (status != 404 or len(answer.text) < 100)
    assert "<script>" not in answer.text
    assert SESSION not in answer.headers.get("set-cookie", "") and TOKEN not in answer.text
    assert not (built / "decisions").exists()


def test_connections_that_ask_nothing_are_closed(monkeypatch: Patch) -> None:
    monkeypatch.setattr(serve, "PATIENCE_S", 0.2)
    server = create_server(Starlette())
    with socket.create_server(("127.0.0.1", 0), backlog=400) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        silent = [
            socket.create_connection(listening.getsockname(), timeout=300) for _ in range(300)
        ]
        silent[0].sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")  # half a request
        assert [connection.recv(1) for connection in silent] == [b""] * 300
        for connection in silent:
            connection.close()
        server.should_exit = True
        thread.join(300)
