"""Keep keys out of error messages, logs and generations: a server may echo the key that it was sent, and the HTTP
libraries log response headers at DEBUG."""

import base64
import logging
from collections.abc import Iterable

from audit.exits import one_line
from audit.shards.redact import REMOVED, without_secrets

# Shorter "keys" (EMPTY, token) are placeholders for servers without keys; to cut them out of a generation would
# change data. In messages and logs they are cut from 4 characters on, which costs nothing.
_MIN_KEY_CHARS_IN_GENERATIONS = 8
_MIN_KEY_CHARS_IN_MESSAGES = 4
_LOGGER_ROOTS = ("openai", "httpx", "httpx2", "httpcore", "httpcore2")
_PARTS = (".connection", ".http11", ".http2", ".proxy", ".socks")
_LOGGERS = tuple(core + part for core in ("httpcore", "httpcore2") for part in _PARTS)
MESSAGE_CHARS = 400
_READ_CHARS = 4000  # of a server's message, whose 16 MiB would hold up every other call while they are read


class Redactor:
    """Cuts `secrets`, and in messages also what looks like one (`without_secrets`)."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # Longest first, so that a key that contains another is cut whole.
        spelt: set[str] = set()
        for key in (s for s in secrets if len(s) >= _MIN_KEY_CHARS_IN_MESSAGES):
            encoded = base64.b64encode(key.encode()).decode().rstrip("=")
            spelt |= {key, key.upper(), key.lower(), key[::-1], encoded}  # as a server may echo it
        self._secrets = sorted(spelt, key=len, reverse=True)

    def message(self, text: str) -> str:
        """`text` for an error message: redacted first, then one printable line of at most MESSAGE_CHARS characters."""
        flat = self.log(" ".join(self._without_keys(text).split())[:_READ_CHARS])  # keys first: none is cut in two
        return one_line(flat if len(flat) <= MESSAGE_CHARS else flat[: MESSAGE_CHARS - 3] + "...")

    def log(self, text: str) -> str:
        return without_secrets(text, self._secrets)

    def generation(self, text: str) -> str:
        """A model's text: only real keys are cut, everything else is data."""
        return self._without_keys(text, _MIN_KEY_CHARS_IN_GENERATIONS)

    def _without_keys(self, text: str, shortest: int = 0) -> str:
        for secret in self._secrets:
            if len(secret) >= shortest:
                text = text.replace(secret, REMOVED)
        return text


class RedactingFilter(logging.Filter):
    """Rewrites a record that holds a secret. It sits on every logger: a parent's filter sees no child's records."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        clean = self._redactor.log(text)
        if clean != text:
            record.msg, record.args = clean, ()
        if record.exc_info:
            record.exc_text = self._redactor.log(logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        return True

    def install(self) -> None:
        for logger in _http_loggers():
            logger.addFilter(self)

    def remove(self) -> None:
        for logger in _http_loggers():
            logger.removeFilter(self)


def _http_loggers() -> list[logging.Logger]:
    existing = [n for n in logging.root.manager.loggerDict if n.split(".")[0] in _LOGGER_ROOTS]
    return [logging.getLogger(name) for name in {*existing, *_LOGGERS, *_LOGGER_ROOTS}]
