"""Endpoints that want to be waited for, to fill memory, or to see their key in a file: what they
send over a socket is one error row or the run's end, in time, without a word of theirs."""

import asyncio
import base64
import json
import logging
import random
import resource
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any
from urllib.parse import quote

import pytest
from faulty_server import completion, letters_completion

from audit.core.errors import AuditError
from audit.core.records import Generation, GenerationRequest
from audit.engines.config import ModelConfig
from audit.engines.openai_config import CircuitConfig, EndpointConfig, RetryConfig
from audit.engines.openai_engine import OpenAIEngine
from audit.engines.pace import Pace
from audit.engines.redact import Redactor
from audit.shards.redact import REMOVED

KEY, KEY_ENV = "sk-Attack-0123456789-Zq", "AUDIT_TEST_ATTACKED"
RETRY = RetryConfig(max_attempts=2, base_delay_s=0.01, max_delay_s=0.02, jitter=0.5, outage_s=0.05)
TIMEOUT_S = 1.0
JSON_TYPE = b"Content-Type: application/json\r\n"
Sent = bytes | Callable[[], Iterator[bytes]]


def spellings(key: str) -> dict[str, str]:
    """The key in ways that a person or a program reads as the key."""
    raw = key.encode()
    both = {
        "plain": key,
        "spaced": " ".join(key),
        "dotted": ".".join(key),
        "a list": repr(list(key)),
        "hex": raw.hex(),
        "hex in capitals": raw.hex().upper(),
        "hex with colons": raw.hex(":"),
        "hex as escapes": "".join(f"\\x{byte:02x}" for byte in raw),
        "percent": "".join(f"%{byte:02X}" for byte in raw),
        "quoted": quote(key, safe=""),
        "entities": "".join(f"&#{byte};" for byte in raw),
        "json's escapes": "".join(f"\\u{byte:04x}" for byte in raw),
        "numbers": str(list(raw)),
        "octal": "".join(f"\\{byte:03o}" for byte in raw),
        "bits": " ".join(f"{byte:08b}" for byte in raw),
        "swapped case": key.swapcase(),
        "reversed": key[::-1],
        "spaced and reversed": " ".join(key[::-1]),
    }
    for before in ("", "Bearer ", "Authorization: Bearer ", "x", "xy"):
        both[f"base64 after {before!r}"] = base64.b64encode(f"{before}{key}".encode()).decode()
        both[f"urlsafe after {before!r}"] = base64.urlsafe_b64encode(
            f"{before}{key}~~".encode()
        ).decode()
    return both


def page(body: bytes | str, status: str = "200 OK", headers: bytes = JSON_TYPE) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    return b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s" % (
        status.encode("latin-1"),
        headers,
        len(data),
        data,
    )


def endless(
    part: bytes, head: bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
) -> Callable[[], Iterator[bytes]]:
    def stream() -> Iterator[bytes]:
        yield head
        while True:
            yield part

    return stream


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def reply_body(text: str, **changes: Any) -> str:
    return json.dumps(completion(text, **changes))


FLOOD = b"".join(b"X-%d: %s\r\n" % (k, b"a" * 50) for k in range(3000))
RAW: dict[str, Sent] = {
    "nothing at all": b"",
    "no head's end": endless(b"X-A: b\r\n", b"HTTP/1.1 200 OK\r\n"),
    "a head of one line without end": endless(b"a" * 4096, b"HTTP/1.1 200 "),
    "a header without end": endless(b"a" * 4096, b"HTTP/1.1 200 OK\r\nX: "),
    "three thousand headers": page(reply_body("ok"), headers=FLOOD),
    "early hints without end": endless(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", b""),
    "continue without end": endless(b"HTTP/1.1 100 Continue\r\n\r\n", b""),
    "chunks without end": endless(chunk(b" " * 65536)),
    "chunks of a byte without end": endless(chunk(b" ") * 4096),
    "a chunk's size without end": endless(b"0" * 4096),
    "a chunk's note without end": endless(
        b"a" * 4096, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;"
    ),
    "trailers without end": endless(
        b"X-A: b\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    ),
    "a body up to the connection's end, without one": endless(
        b" " * 65536, b"HTTP/1.1 200 OK\r\n\r\n"
    ),
    "a petabyte announced": b"HTTP/1.1 200 OK\r\nContent-Length: 1125899906842624\r\n\r\n{",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 200\r\n\r\n{}",
    "a length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/0.9": b"<html>hello</html>",
    "HTTP/2's preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "switching protocols": b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "a status of 999": page(reply_body("ok"), "999 X"),
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "events": page(b"data: {}\n\ndata: [DONE]\n\n", headers=b"Content-Type: text/event-stream\r\n"),
    "a page": page("<html><h1>Sign in</h1></html>", headers=b"Content-Type: text/html\r\n"),
    "a page that says json": page("<html>{}</html>"),
    "gzip that is none": page(b"\x1f\x8b\x08\x00\x00", headers=b"Content-Encoding: gzip\r\n"),
    "gzip in capitals": page(b"\x1f\x8b\x08\x00\x00", headers=b"CONTENT-ENCODING: GZip\r\n"),
    "UTF-16": page(reply_body("ok").encode("utf-16")),
    "UTF-32": page(reply_body("ok").encode("utf-32")),
    "Latin-1": page(reply_body("x").replace("x", "\xe9").encode("latin-1")),
    "a byte order mark": page(b"\xef\xbb\xbf" + reply_body("ok").encode()),
    "bytes that are no text": page(b"\xff" * 1_000_000),
    "zeros": page(b"\0" * 1_000_000),
    "100,000 brackets": page("[" * 100_000),
    "100,000 lists": page("[" * 100_000 + "]" * 100_000),
    "100,000 objects": page('{"choices":' * 100_000 + "1" + "}" * 100_000),
    "nested content": page(reply_body("x").replace('"x"', "[" * 50_000 + "]" * 50_000)),
    "five million lists": page("[" + "[]," * 5_000_000 + "[]]"),
    "five million objects": page('{"choices": [' + "{}," * 5_000_000 + "{}]}"),
    "a number of a million digits": page('{"choices": ' + "9" * 1_000_000 + "}"),
    "NaN": page("NaN"),
    "Infinity for choices": page('{"choices": Infinity}'),
    "a null": page("null"),
    "a redirect to a pipe": page("", "302 X", b"Location: file:///dev/zero\r\n"),
    "a redirect to nowhere": page("", "302 X", b"Location: http://[::1\r\n"),
    "a redirect with the key": page(
        "", "307 X", f"Location: https://evil.example.org/?k={KEY.encode().hex()}\r\n".encode()
    ),
    "a redirect to no address": page(
        "", "302 X", f"Location: http://{' '.join(KEY)}:99999999/\r\n".encode()
    ),
    "wait for ever": page("{}", "503 X", b"Retry-After: 1e300\r\n"),
    "wait till 9999": page("{}", "503 X", b"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n"),
}


class Raw:
    """`async with Raw(sent) as raw:` answers each request on 127.0.0.1 with these bytes, then
    closes."""

    def __init__(self, sent: Sent) -> None:
        self._sent, self.heads = sent, list[bytes]()

    async def __aenter__(self) -> "Raw":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                for line in head.lower().split(b"\r\n"):
                    if line.startswith(b"content-length:"):
                        await reader.readexactly(int(line.split(b":")[1]))
                if head.startswith(b"GET"):
                    writer.write(page('{"data": [{"id": "m"}]}'))
                    continue
                for part in [self._sent] if isinstance(self._sent, bytes) else self._sent():
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)
                if not (
                    isinstance(self._sent, bytes) and b"Content-Length: " in self._sent[:400_000]
                ):
                    break
        except (
            ConnectionError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            asyncio.CancelledError,
        ):
            pass
        finally:
            writer.close()


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def exchange(
    sent: Sent, times: int = 1, letters: tuple[str, ...] = ()
) -> tuple[list[Generation], str, Raw]:
    """The replies, all that would be stored or shown (errors, statistics, logs), and the server."""
    shown: list[str] = []
    replies: list[Generation] = []

    async def main() -> Raw:
        async with Raw(sent) as raw:
            config = EndpointConfig(
                url=f"http://127.0.0.1:{raw.port}/v1",
                model="m",
                api_key_env=KEY_ENV,
                timeout_s=TIMEOUT_S,
            )
            model = ModelConfig(
                engine="openai",
                endpoints=[config],
                retry=RETRY,
                circuit=CircuitConfig(failures=3, cooldown_s=0.05),
            )
            engine = OpenAIEngine(model, random.Random(0))
            try:
                await engine.start()
                for number in range(times):
                    request = GenerationRequest(
                        "hi", affinity=f"q{number}", label="direct/0", seed=7, letters=letters
                    )
                    replies.extend(await engine.run([request]))
            except AuditError as error:
                shown.append("".join(traceback.format_exception(error)))
            shown.append(repr(replies) + repr(engine.stats()) + engine.trouble())
            await engine.close()
            return raw

    raw = asyncio.run(main())
    return replies, "\n".join(shown), raw


@pytest.mark.parametrize("name", RAW)
def test_no_reply_holds_a_run_up_or_fills_memory(name: str) -> None:
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    replies, shown, _ = exchange(RAW[name])
    assert not [reply for reply in replies if reply.error is None]
    assert "Error" in shown and "Traceback (most recent call last):\n  File" in shown
    # Of the 16 MiB that are read at most; and what never ends is given up after a second.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
    assert time.monotonic() - began < 60


# --- keys

SPELT = " | ".join(spellings(KEY).values())
ECHOED: dict[str, bytes] = {
    "the status line": f"HTTP/9 {SPELT}\r\n\r\n".encode(),
    "the reason": page("{}", f"500 {SPELT}"),
    "a header that is none": page("{}", headers=f"{SPELT}\r\n".encode()),
    "a header": page("{}", headers=f"X-Echo: {SPELT}\r\n".encode()),
    "a chunk's size": f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{SPELT}\r\n".encode(),
    "a redirect": page(
        "", "307 X", f"Location: https://evil.example.org/?{quote(SPELT)}\r\n".encode()
    ),
    "a cookie": page(
        reply_body("ok"), headers=JSON_TYPE + f"Set-Cookie: k={quote(SPELT)}\r\n".encode()
    ),
    "a refusal": page(json.dumps({"error": {"message": SPELT, "code": SPELT}}), "400 Bad Request"),
    "a fault": page(f"<html>{SPELT}</html>", "500 X"),
    "an error inside": page(json.dumps({"error": {"message": SPELT, "type": SPELT}})),
    "a page": page(f"<html>{SPELT}</html>"),
    "a field's name": page(json.dumps({SPELT: SPELT})),
    "another model's name": page(json.dumps({**completion("ok"), "model": SPELT})),
    "why it ended": page(reply_body("ok", finish_reason=SPELT)),
    "the answer": page(reply_body(SPELT)),
    "a refusal to answer": page(
        reply_body("").replace('""', f'null, "refusal": {json.dumps(SPELT)}', 1)
    ),
    "the version": page(json.dumps({**completion("ok"), "system_fingerprint": SPELT})),
}


def _in_bytes(encode: Callable[[bytes], bytes]) -> Callable[[str], str]:
    return lambda text: encode(text.encode()).decode()


# Whatever a server may make of a text, of which any two are made one of the other.
ENCODINGS: dict[str, Callable[[str], str]] = {
    "base64": _in_bytes(base64.b64encode),
    "urlsafe": _in_bytes(base64.urlsafe_b64encode),
    "base64 in lines": _in_bytes(base64.encodebytes),
    "base64 after Bearer": lambda text: base64.b64encode(f"Bearer {text}".encode()).decode(),
    "base32": _in_bytes(base64.b32encode),
    "hex": lambda text: text.encode().hex(),
    "hex in capitals": lambda text: text.encode().hex().upper(),
    "hex with colons": lambda text: text.encode().hex(":"),
    "hex as escapes": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
    "percent": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "quoted": lambda text: quote(text, safe=""),
    "entities": lambda text: "".join(f"&#{byte};" for byte in text.encode()),
    "entities in hex": lambda text: "".join(f"&#x{byte:x};" for byte in text.encode()),
    "json's escapes": lambda text: "".join(f"\\u{byte:04x}" for byte in text.encode()),
    "json's escapes in JSON": lambda text: "".join(f"\\\\u{byte:04x}" for byte in text.encode()),
    "numbers": lambda text: str(list(text.encode())),
    "octal": lambda text: "".join(f"\\{byte:03o}" for byte in text.encode()),
    "bits": lambda text: " ".join(f"{byte:08b}" for byte in text.encode()),
    "reversed": lambda text: text[::-1],
    "as it is": str,
}
# Long and short, with signs that URLs and JSON escape, of digits alone, of letters alone.
KEYS = (KEY, "my-local/api=key", "Pass+w/rd", "9081726354")


@pytest.mark.parametrize("key", KEYS)
def test_no_key_is_stored_in_two_encodings(key: str) -> None:
    redactor = Redactor([key])
    for (first, inner), (second, outer) in product(ENCODINGS.items(), repeat=2):
        spelt = outer(inner(key))
        core = spelt.strip("=\n")  # the padding holds nothing of the key
        clean = redactor.generation(
            f'you sent {spelt} to us, {{"authorization":"{spelt}"}} or else x{spelt}'
        )
        assert core not in clean, (first, second)
        assert clean.count(REMOVED) == 3 and len(clean) < 130, (first, second, clean)
        assert clean.startswith("you"), (first, second)
    assert redactor.message(spelt) == redactor.log(spelt) == REMOVED


def test_a_long_answer_is_searched_in_a_moment() -> None:
    """Nobody else is served meanwhile."""
    redactor, words = Redactor(list(KEYS)), "Internationalization of 12, 34 %20 is \\frac{1}{2}; "
    text = words * 4000
    began = time.process_time()
    assert redactor.generation(text) == text
    assert time.process_time() - began < 2
    replies, shown, _ = exchange(page(reply_body(words * 60_000)))
    assert not [reply for reply in replies if reply.error is None]
    assert f"{len(words) * 60_000:,} characters" in shown


@pytest.mark.parametrize("where", ECHOED)
def test_no_key_is_stored_or_shown_however_it_is_echoed(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("openai", "httpx", "httpx2", "httpcore", "httpcore2", "audit"):
        caplog.set_level(logging.DEBUG, logger=name)
    _, shown, raw = exchange(ECHOED[where], times=2)
    assert any(KEY.encode() in head for head in raw.heads)  # it was sent
    for text in (shown, caplog.text):
        folded = text.casefold()
        left = [name for name, spelt in spellings(KEY).items() if spelt.casefold() in folded]
        assert not left


def test_no_word_of_a_broken_reply_is_stored() -> None:
    """It may be a key in a spelling that nobody thought of."""
    for where in ("the status line", "a header that is none", "a chunk's size"):
        for word in (b"HTTP/9 tartan\r\n\r\n", ECHOED[where].replace(SPELT.encode(), b"tart\0an")):
            assert "tart" not in exchange(word)[1]


def test_an_ordinary_text_keeps_its_words() -> None:
    """A key that is a word is removed as it is alone; numbers and letters of a key are no key."""
    redactor = Redactor([KEY, "not-needed", "my-local-api-key"])
    text = "It is not needed: my local API key, sk attack 0123456789, 115 107 45, 736b2d41."
    assert redactor.generation(text) == text
    assert redactor.generation("It is NOT-needed.") == "It is <removed>."


# --- numbers


def test_a_server_that_states_an_absurd_limit_is_asked_again_in_a_minute() -> None:
    """A limit of one token a minute is 4000 minutes for a request of 4000, without a word."""
    pace = Pace()
    pace.learn({"x-ratelimit-limit-tokens": "1", "x-ratelimit-limit-requests": "1"}, 0.0)
    pace.sent(0.0, 4000)
    assert pace.at() == 60.0
    configured = Pace(most_tpm=1000)
    configured.sent(0.0, 4000)
    assert configured.at() == 240.0  # as the user says
    configured.used(4000, 2**31 - 1)  # the reply says that it used 4 years' tokens
    assert configured.at() == 300.0


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "5.0", '"-0.1"', "null", "[]"])
def test_no_other_letter_is_the_answer_where_the_likeliest_has_no_number(value: str) -> None:
    body = json.dumps(letters_completion({"B": -0.1, "A": -3.5})).replace("-0.1", value)
    replies, _, _ = exchange(page(body), letters=("A", "B"))
    assert not [reply for reply in replies if reply.error is None]


def test_cookies_are_not_kept() -> None:
    """Hundreds with each reply, all of which would be sent back for ever."""
    cookies = b"".join(b"Set-Cookie: c%d=%s\r\n" % (k, b"x" * 300) for k in range(200))
    replies, _, raw = exchange(page(reply_body("ok"), headers=JSON_TYPE + cookies), times=3)
    assert [reply.text for reply in replies] == ["ok"] * 3
    assert not [head for head in raw.heads if b"cookie" in head.lower()]
