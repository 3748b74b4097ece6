"""Remove API keys from error messages, logs and generated texts.

A server may repeat the key that it received, and the HTTP libraries log response headers at level
DEBUG.
"""

import base64
import logging
import re
from collections.abc import Iterable, Iterator, Sequence

from audit.core.exits import one_line
from audit.engines.encodings import decoded_parts
from audit.shards.redact import REMOVED, without_secrets

# From generated texts, only keys of at least 8 characters are removed. A shorter "key", such as
# EMPTY or token, is a placeholder for a server without keys, and may occur as a word in a generated
# text. From messages and logs, every key of at least 4 characters is removed, which is harmless.
_MIN_KEY_CHARS_IN_GENERATIONS = 8
_MIN_KEY_CHARS_IN_MESSAGES = 4
_LOGGER_ROOTS = ("openai", "httpx", "httpx2", "httpcore", "httpcore2")
_PARTS = (".connection", ".http11", ".http2", ".proxy", ".socks")
_LOGGERS = tuple(core + part for core in ("httpcore", "httpcore2") for part in _PARTS)
MESSAGE_CHARS = 400
# The first number limits the characters of a server's message that are read for display. The second
# number limits the characters that are searched for keys, since a search of 16 MiB would block
# other calls.
_READ_CHARS, _SEARCHED_CHARS = 4000, 1 << 16
_MAX_KEY_CHARS = 16_000  # largest length of a key, also of a key that was encoded twice
_DEEPEST = 2  # largest number of encodings that are undone before a key is searched
_MIN_KEY_CHARS_SPELT = (
    # Shorter keys are not searched with signs between their characters, since a short key may match
    # a text by chance.
    16
)
# Pattern of the signs and escapes that may stand between two characters of a key.
_BETWEEN = r"[^A-Za-z0-9]{0,4}(?:u00|0?x)?"
_SIGNS = bytes(
    set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
)


def _squeezed(text: str) -> bytes:
    """Return the letters and digits of a text in lower case, without all other characters."""
    return text.encode(errors="surrogatepass").translate(None, _SIGNS).lower()


class _Spellings:
    """Remove keys from a text, in every form in which a server may repeat a key.

    - Every key: in upper or lower case, reversed, or in base64.
    - Keys of eight or more characters: also encoded up to three times, by any encoding that
      `decoded_parts` knows.
    - Keys of 16 or more characters with a digit: also with signs between the characters, or with
      the characters written as numbers.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        patterns: list[str] = []
        # If a text contains a key, the letters and digits of the text (`_squeezed`) contain one of
        # these forms.
        self._forms: set[bytes] = set()
        for key in sorted(set(keys), key=len, reverse=True):
            spelt = len(key) >= _MIN_KEY_CHARS_SPELT and any(map(str.isdigit, key))
            for text in (key, key[::-1]):
                self._forms.add(_squeezed(text))
                patterns.append(f"(?i:{_spelt(text) if spelt else re.escape(text)})")
            for number in ("{:02x}", "x{:02x}", "0x{:02x}", "u00{:02x}", "{}", "{:03o}", "{:08b}"):
                self._forms.add("".join(map(number.format, key.encode())).encode())
            for encoded in _in_base64(key):
                self._forms.add(_squeezed(encoded))
                patterns.append(encoded.replace("+", "[+-]").replace("/", "[/_]"))
        self._pattern = re.compile("|".join(patterns))
        self._long = any(len(key) >= _MIN_KEY_CHARS_IN_GENERATIONS for key in keys)

    def removed(self, text: str) -> str:
        """Return the text without the keys."""
        if not self._forms:
            return text
        if self._holds(text):
            text = self._pattern.sub(REMOVED, text)
        return self._without_encoded(text) if self._long else text

    def _holds(self, text: str) -> bool:
        # Searching for `_forms` first takes a tenth of the time that the pattern takes.
        squeezed = _squeezed(text)
        return any(form in squeezed for form in self._forms)

    def _without_encoded(self, text: str) -> str:
        """Remove the parts of a text that decode to a key, and return the text.

        Both the text and the reversed text are decoded.
        """
        spans = list(self._encoded(text))
        for start, end in self._encoded(text[::-1]):
            spans.append((len(text) - end, len(text) - start))
        pieces, at = [], 0
        for start, end in sorted(spans):
            if start >= at:
                pieces += [text[at:start], REMOVED]
            at = max(at, end)
        return "".join([*pieces, text[at:]])

    def _encoded(self, text: str) -> Iterator[tuple[int, int]]:
        for start, end, decoded in decoded_parts(text):
            if self._hidden(decoded, _DEEPEST):
                yield start, end

    def _hidden(self, text: str, depth: int) -> bool:
        """Return whether a decoded text contains a key.

        The text is searched as it is, and after each of up to `depth` - 1 further decodings.
        """
        if self._holds(text) and self._pattern.search(text):
            return True
        if depth == 1:
            return False
        parts = (decoded for _, _, decoded in decoded_parts(text))
        return any(self._hidden(part, depth - 1) for part in parts)


def _in_base64(key: str) -> Iterator[str]:
    """Yield the three forms that a key can have inside a base64 text.

    The form depends on the position of the key. Base64 characters that also encode a part of the
    text around the key, such as "Bearer ", are left out.
    """
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + key.encode()).decode()
        yield encoded[-(-8 * before // 6) : 8 * (before + len(key)) // 6]


def _spelt(key: str) -> str:
    """Return a pattern that matches a key if each of its characters is written literally, as a
    number or as an escape.
    """
    characters = []
    for sign in key:
        n = ord(sign)
        characters.append(f"(?:{re.escape(sign)}|{n:02x}|{n}|{n:03o}|{n:08b})")
    return _BETWEEN.join(characters)


class Redactor:
    """Remove `secrets` from texts.

    From messages, any text that looks like a secret is removed too (`without_secrets`).
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        in_messages, in_generations = [], []
        for key in secrets:
            if len(key) >= _MIN_KEY_CHARS_IN_MESSAGES:
                in_messages.append(key)
            if len(key) >= _MIN_KEY_CHARS_IN_GENERATIONS:
                in_generations.append(key)
        self._in_messages = _Spellings(in_messages)
        self._in_generations = _Spellings(in_generations)

    def message(self, text: str) -> str:
        """Remove secrets from a text for an error message.

        Parameters
        ----------
        text : str
            Any text, such as an error message of a server.

        Returns
        -------
        str
            One printable line of at most MESSAGE_CHARS characters.
        """
        # Keys are removed before the text is shortened, so that no part of a key remains.
        clean = " ".join(self._in_messages.removed(text[:_SEARCHED_CHARS]).split())
        if len(text) > _SEARCHED_CHARS and len(clean) < _READ_CHARS + _MAX_KEY_CHARS:
            clean = f"{len(text):,} characters, which are not shown"
        flat = self.log(clean[:_READ_CHARS])
        return one_line(flat if len(flat) <= MESSAGE_CHARS else flat[: MESSAGE_CHARS - 3] + "...")

    def log(self, text: str) -> str:
        """Return a text without keys and without text that looks like a secret."""
        return without_secrets(self._in_messages.removed(text), ())

    def generation(self, text: str) -> str:
        """Remove real keys from a model's generated text. All other text is data and stays
        unchanged.
        """
        return self._in_generations.removed(text)


class RedactingFilter(logging.Filter):
    """Remove secrets from log records.

    The filter is added to every logger, because a logger's filter does not see the records of its
    child loggers.
    """

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Remove secrets from a record's message and traceback. Return True, so that it is
        logged.
        """
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
        """Remove the filter from the loggers of the HTTP libraries."""
        for logger in _http_loggers():
            logger.removeFilter(self)


def _http_loggers() -> list[logging.Logger]:
    existing = []
    for n in logging.root.manager.loggerDict:
        if n.split(".")[0] in _LOGGER_ROOTS:
            existing.append(n)
    return [logging.getLogger(name) for name in {*existing, *_LOGGERS, *_LOGGER_ROOTS}]
