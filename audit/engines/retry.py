"""What a failed call means, and how long to wait before the next: whose fault is it?

A row's own fault makes an error row. A fault of the endpoint is never recorded as a row's error: it is retried,
elsewhere if possible, until the run stops and can be resumed."""

import email.utils
import math
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from audit.engines.openai_config import RetryConfig


class Kind(StrEnum):
    """Why a call gave no generation."""

    AUTH = "auth"  # 401, 403 unless moderation flagged the prompt: the run stops
    QUOTA = "quota"  # 402, insufficient_quota: waiting does not help, the run stops
    ROW = "row"  # this request is refused (prompt too long, other 4xx): an error row, no retry
    RATE_LIMIT = "rate_limit"  # 429: alive, but not now
    UNAVAILABLE = "unavailable"  # no connection, 404, 502, 503, 529: never the row's fault
    SERVER = "server"  # other 5xx, connection broken off: perhaps this row's doing
    TIMEOUT = "timeout"  # likewise
    MALFORMED = "malformed"  # status 200, and not a chat completion
    OTHER_MODEL = "other_model"  # status 200, and another model's reply


# Kinds that may be one row's doing: they use up its attempts. The others never do.
BAD_REPLY = frozenset({Kind.MALFORMED, Kind.OTHER_MODEL})
ROW_SUSPECT = frozenset({Kind.SERVER, Kind.TIMEOUT, *BAD_REPLY})
# Kinds that say that the endpoint is alive.
ALIVE = frozenset({Kind.AUTH, Kind.QUOTA, Kind.ROW, Kind.RATE_LIMIT})

_TOO_LONG = re.compile(
    r"context[ _-]?(length|size|window)|maximum model length|max_model_len|prompt is too long|input is too long|"
    r"too many (input )?tokens|max_seq_len|reduce the length",
    re.IGNORECASE,
)
# What gateways say with status 403 of a prompt that they will not pass on.
_FLAGGED = re.compile(r"flagged|moderation|content[ _-]?(policy|filter)|guardrail|prompt injection", re.IGNORECASE)
_KINDS = {
    **dict.fromkeys((401, 403), Kind.AUTH),
    402: Kind.QUOTA,
    408: Kind.TIMEOUT,
    **dict.fromkeys((404, 405, 501, 502, 503, 529), Kind.UNAVAILABLE),
    **dict.fromkeys((409, 425), Kind.SERVER),
}
_KINDS_OF_CODES = {
    **dict.fromkeys(("insufficient_quota", "billing_hard_limit_reached", "insufficient_balance"), Kind.QUOTA),
    **dict.fromkeys(("rate_limit_exceeded", "rate_limit_error", "rate_limit", "too_many_requests"), Kind.RATE_LIMIT),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that gave no generation. message: none of a server's words is in it. retry_after_s: as the server asked.
    status: the HTTP status, 0 where there was none."""

    kind: Kind
    message: str
    retry_after_s: float | None = None
    status: int = 0


def classify_status(status: int, code: str, message: str, retry_after_s: float | None = None) -> Failure:
    """Return the failure that an HTTP status and the `code` and `message` of its body stand for. None of the server's
    words are in it: it is stored, and they may hold the key in a spelling that nobody looks for."""
    kind = _kind_of_status(status, code, message)
    said = f"HTTP {status}{topics(code, message)}"
    if 300 <= status < 400:
        said += ", a redirect, which is not followed: it would carry the questions elsewhere. Name the final address"
    if kind is Kind.ROW:
        too_long = status == 413 or code == "context_length_exceeded" or _TOO_LONG.search(message)
        flagged = ": the endpoint flagged the prompt" if _FLAGGED.search(f"{code} {message}") else ""
        said = f"prompt too long: {said}" if too_long else f"request refused: {said}{flagged}"
    return Failure(kind, said, retry_after_s, status)


# What a server may complain of, in the words of requests: of its own words these alone are shown.
_TOPICS = (
    *("top_logprobs", "logprobs", "max_completion_tokens", "max_tokens", "temperature", "top_p", "seed", "stop"),
    *("model", "messages", "system", "role", "content", "stream", "chat_template_kwargs", "extra_body", "quota"),
    *("billing", "rate limit", "unsupported", "unknown", "overloaded", "timeout", "not found", "invalid"),
)
_TOPIC = re.compile(rf"(?<![A-Za-z0-9])({'|'.join(_TOPICS)})(?![A-Za-z0-9])", re.IGNORECASE)
_READ_CHARS = 4000  # of a message, which may be megabytes


def topics(code: str, message: str) -> str:
    """Return what a server's error is about, in words of this program.

    >>> topics("invalid_value", "top_logprobs must be at most 5")
    ', about top_logprobs'
    """
    found = dict.fromkeys(word.lower() for word in _TOPIC.findall(f"{code} {message[:_READ_CHARS]}"))
    return f", about {', '.join(found)}" if found else ""


def classify_code(code: str, message: str) -> Failure:
    """Return the failure that an error inside a body with status 200 stands for: gateways report an upstream's error
    so, its HTTP status as the code or a word."""
    word = code.casefold()
    if re.fullmatch("[45][0-9]{2}", code):
        return classify_status(int(code), "", message)
    if word == "context_length_exceeded":
        return classify_status(400, word, message)
    kind = _KINDS_OF_CODES.get(word, Kind.MALFORMED)
    return Failure(kind, f"status 200 with an error inside{topics(code, message)}")


def _kind_of_status(status: int, code: str, message: str) -> Kind:
    if status == 403 and _FLAGGED.search(f"{code} {message}"):
        return Kind.ROW
    if status == 429:
        return _KINDS_OF_CODES.get(code, Kind.RATE_LIMIT)
    if (kind := _KINDS.get(status)) is not None:
        return kind
    if 300 <= status < 400:
        return Kind.UNAVAILABLE
    # Some servers report a prompt that is too long as their own error.
    return Kind.ROW if status < 500 or code == "context_length_exceeded" else Kind.SERVER


def retry_after_seconds(headers: Mapping[str, str], now_epoch_s: float | None = None) -> float | None:
    """Seconds that `retry-after-ms` or `retry-after` (seconds or HTTP date) asks for; None if absent or not usable."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        at = email.utils.parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, at - (time.time() if now_epoch_s is None else now_epoch_s))


def backoff_seconds(
    config: RetryConfig, failures: int, rng: random.Random, retry_after_s: float | None = None
) -> float:
    """Seconds to wait after `failures` (>= 1) failures in a row of one request: exponential with jitter, at least what
    the server asked for, and never more than `max_delay_s`."""
    # The exponent is bounded: 2.0**1024 overflows, and a long outage has many failures.
    ceiling = min(config.max_delay_s, config.base_delay_s * 2.0 ** min(failures - 1, 32))
    delay = ceiling * (1.0 - config.jitter * rng.random())
    return min(config.max_delay_s, max(delay, retry_after_s or 0.0))


def error_code_and_message(body: Any) -> tuple[str, str]:
    """(code, message) of an error body: {"error": {...}}, {"message": ...}, {"detail": ...}, or text, such as HTML."""
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if isinstance(inner, Mapping):
            code = inner.get("code") or inner.get("type") or ""
            return _text(code), _text(inner.get("message") or inner.get("detail") or "")
        return "", _text(inner)
    if body is None:
        return "", ""
    text = re.sub(r"<[^<>]*>", " ", str(body))
    return "", " ".join(text.split())


def _text(value: Any) -> str:
    try:
        return str(value)
    except RecursionError:
        return "nested too deeply to be shown"
