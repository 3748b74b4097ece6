"""Keep keys out of error messages, logs and generations.

A server may echo the key that it was sent, and the HTTP libraries log response headers at DEBUG.
"""

import base64
import logging
from collections.abc import Iterable

from audit.core.exits import one_line
from audit.shards.redact import REMOVED, without_secrets

# Shorter "keys" (EMPTY, token) are placeholders for servers without keys. Removing them from a
# generation would change data. In messages and logs they are removed from 4 characters on, which is
# harmless.
_MIN_KEY_CHARS_IN_GENERATIONS = 8
_MIN_KEY_CHARS_IN_MESSAGES = 4
_LOGGER_ROOTS = ("openai", "httpx", "httpx2", "httpcore", "httpcore2")
_PARTS = (".connection", ".http11", ".http2", ".proxy", ".socks")
_LOGGERS = tuple(core + part for core in ("httpcore", "httpcore2") for part in _PARTS)
MESSAGE_CHARS = 400
_READ_CHARS = (
    # Only this many characters are read: a server's message of 16 MiB would block other calls.
    4000
)


class Redactor:
    """Remove `secrets` from texts, and from messages also what looks like a secret
    (`without_secrets`)."""

    def __init__(self, secrets: Iterable[str]) -> None:
        spellings: set[str] = set()  # all spellings of the secrets that a server may echo
        for key in secrets:
            if len(key) >= _MIN_KEY_CHARS_IN_MESSAGES:
                encoded = base64.b64encode(key.encode()).decode().rstrip("=")
                spellings |= {key, key.upper(), key.lower(), key[::-1], encoded}
        # The longest come first, so that a key that contains another is removed completely.
        self._secrets = sorted(spellings, key=len, reverse=True)

    def message(self, text: str) -> str:
        """Redact a text for an error message.

        Parameters
        ----------
        text : str
            Any text, such as a server's.

        Returns
        -------
        str
            One printable line of at most MESSAGE_CHARS characters.
        """
        # Keys are removed before the text is shortened, so that no part of one remains.
        flat = self.log(" ".join(self._without_keys(text).split())[:_READ_CHARS])
        return one_line(flat if len(flat) <= MESSAGE_CHARS else flat[: MESSAGE_CHARS - 3] + "...")

    def log(self, text: str) -> str:
        """Return a text without keys and without what looks like a secret."""
        return without_secrets(text, self._secrets)

    def generation(self, text: str) -> str:
        """Return a model's text without real keys; everything else is data."""
        return self._without_keys(text, _MIN_KEY_CHARS_IN_GENERATIONS)

    def _without_keys(self, text: str, shortest: int = 0) -> str:
        for secret in self._secrets:
            if len(secret) >= shortest:
                text = text.replace(secret, REMOVED)
        return text


class RedactingFilter(logging.Filter):
    """Rewrite log records that hold a secret.

    It is on every logger, because a parent's filter does not see the records of children.
    """

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record's message and traceback, and keep the record."""
        text = record.getMessage()
        clean = self._redactor.log(text)
        if clean != text:
            record.msg, record.args = clean, ()
        if record.exc_info:
            record.exc_text = self._redactor.log(
                logging.Formatter().formatException(record.exc_info)
            )
            record.exc_info = None
        return True

    def install(self) -> None:
        """Add the filter to the loggers of the HTTP libraries."""
        for logger in _http_loggers():
            logger.addFilter(self)

    def remove(self) -> None:
        """Remove the filter from these loggers."""
        for logger in _http_loggers():
            logger.removeFilter(self)


def _http_loggers() -> list[logging.Logger]:
    existing = []
    for n in logging.root.manager.loggerDict:
        if n.split(".")[0] in _LOGGER_ROOTS:
            existing.append(n)
    return [logging.getLogger(name) for name in {*existing, *_LOGGERS, *_LOGGER_ROOTS}]
