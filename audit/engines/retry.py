"""Decide what a failed call means, and how long to wait before the next call.

If the row (the request) is at fault, an error is stored for this row. A fault of the endpoint is
never stored as a row's error. The call is then repeated, if possible at another endpoint, until it
succeeds or the run stops. A stopped run can be resumed.
"""

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
    """Name the kinds of failed calls."""

    AUTH = "auth"  # status 401, or 403 unless moderation flagged the prompt: the run stops
    QUOTA = "quota"  # status 402 or insufficient_quota: waiting does not help, so the run stops
    # This request is refused (prompt too long, any other 4xx): stored as an error, not retried.
    ROW = "row"
    RATE_LIMIT = "rate_limit"  # status 429: the endpoint is alive but busy
    # The connection failed, or the status is 404, 502, 503 or 529. The request is never the cause.
    UNAVAILABLE = "unavailable"
    SERVER = "server"  # any other 5xx, or a broken connection: the request may be the cause
    TIMEOUT = "timeout"  # no reply in time: the request may be the cause
    MALFORMED = "malformed"  # status 200, but the body is not a chat completion
    OTHER_MODEL = "other_model"  # status 200, but the reply is from another model


# The request may be the cause of these kinds of failures, so each such failure uses up one of its
# attempts. Other kinds of failures never use up attempts.
BAD_REPLY = frozenset({Kind.MALFORMED, Kind.OTHER_MODEL})
ROW_SUSPECT = frozenset({Kind.SERVER, Kind.TIMEOUT, *BAD_REPLY})
# A failure of one of these kinds shows that the endpoint is alive.
ALIVE = frozenset({Kind.AUTH, Kind.QUOTA, Kind.ROW, Kind.RATE_LIMIT})

_TOO_LONG = re.compile(
    r"context[ _-]?(length|size|window)|maximum model length|max_model_len|prompt is too long|input is too long|"
    r"too many (input )?tokens|max_seq_len|reduce the length",
    re.IGNORECASE,
)
# Gateways use these words, with status 403, when they refuse to forward a prompt.
_FLAGGED = re.compile(
    r"flagged|moderation|content[ _-]?(policy|filter)|guardrail|prompt injection", re.IGNORECASE
)
_KINDS = {
    **dict.fromkeys((401, 403), Kind.AUTH),
    402: Kind.QUOTA,
    408: Kind.TIMEOUT,
    **dict.fromkeys((404, 405, 501, 502, 503, 529), Kind.UNAVAILABLE),
    **dict.fromkeys((409, 425), Kind.SERVER),
}
_KINDS_OF_CODES = {
    **dict.fromkeys(
        ("insufficient_quota", "billing_hard_limit_reached", "insufficient_balance"), Kind.QUOTA
    ),
    **dict.fromkeys(
        ("rate_limit_exceeded", "rate_limit_error", "rate_limit", "too_many_requests"),
        Kind.RATE_LIMIT,
    ),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Hold the cause of a failed call.

    Parameters
    ----------
    kind : Kind
        The kind of failure.
    message : str
        The cause, in this program's words, without any text from the server.
    retry_after_s : float or None
        The wait that the server requested.
    status : int
        The HTTP status; 0 if there is no status.
    """

    kind: Kind
    message: str
    retry_after_s: float | None = None
    status: int = 0


def classify_status(
    status: int, code: str, message: str, retry_after_s: float | None = None
) -> Failure:
    """Return the failure that an HTTP status means.

    Parameters
    ----------
    status : int
        The HTTP status.
    code, message : str
        The error's code and message in the body.
    retry_after_s : float or None
        The wait that the server requested.

    Returns
    -------
    Failure
        The failure. Its message contains no text from the server. The message is stored, and a
        server's text may contain the key in an unknown spelling.
    """
    kind = _kind_of_status(status, code, message)
    text = f"HTTP {status}{topics(code, message)}"
    if 300 <= status < 400:
        text += ", a redirect, which is not followed: it would send the questions elsewhere. Name the final address"
    if kind is Kind.ROW:
        too_long = status == 413 or code == "context_length_exceeded"
        if too_long or _TOO_LONG.search(message):
            text = f"prompt too long: {text}"
        else:
            flagged = (
                ": the endpoint flagged the prompt" if _FLAGGED.search(f"{code} {message}") else ""
            )
            text = f"request refused: {text}{flagged}"
    return Failure(kind, text, retry_after_s, status)


# Only these terms are shown when they occur in a server's error text. Each of them is part of a
# request.
_TOPICS = (
    *(
        "top_logprobs",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "temperature",
        "top_p",
        "seed",
        "stop",
    ),
    *(
        "model",
        "messages",
        "system",
        "role",
        "content",
        "stream",
        "chat_template_kwargs",
        "extra_body",
        "quota",
    ),
    *(
        "billing",
        "rate limit",
        "unsupported",
        "unknown",
        "overloaded",
        "timeout",
        "not found",
        "invalid",
    ),
)
_TOPIC = re.compile(rf"(?<![A-Za-z0-9])({'|'.join(_TOPICS)})(?![A-Za-z0-9])", re.IGNORECASE)
# only this many characters of a message are read, since a message may have megabytes
_READ_CHARS = 4000


def topics(code: str, message: str) -> str:
    """Describe the subject of a server's error, in this program's words.

    >>> topics("invalid_value", "top_logprobs must be at most 5")
    ', about top_logprobs'
    """
    named = _TOPIC.findall(f"{code} {message[:_READ_CHARS]}")
    words = dict.fromkeys(map(str.lower, named))
    return f", about {', '.join(words)}" if words else ""


def classify_code(code: str, message: str) -> Failure:
    """Return the failure that an error inside a body with status 200 means.

    Parameters
    ----------
    code : str
        The error's code: a word, or another server's HTTP status that a gateway reports.
    message : str
        The error's message in the body.

    Returns
    -------
    Failure
        The failure, as `classify_status` returns it.
    """
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
    kind = _KINDS.get(status)
    if kind is not None:
        return kind
    if 300 <= status < 400:
        return Kind.UNAVAILABLE
    # Some servers report a too long prompt as an error of the server.
    return Kind.ROW if status < 500 or code == "context_length_exceeded" else Kind.SERVER


def retry_after_seconds(
    headers: Mapping[str, str], now_epoch_s: float | None = None
) -> float | None:
    """Return the number of seconds that a server asks the client to wait.

    Parameters
    ----------
    headers : mapping
        The reply's headers.
    now_epoch_s : float or None
        The current time; None reads the clock.

    Returns
    -------
    float or None
        The seconds, from `retry-after-ms` or `retry-after` (seconds or HTTP date). None if both are
        absent or unusable.
    """
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
    """Return the seconds to wait after consecutive failures of one request.

    Parameters
    ----------
    config : RetryConfig
        The settings of the delays.
    failures : int
        The number of failures, >= 1.
    rng : random.Random
        Source of the random part of the delay.
    retry_after_s : float or None
        The wait that the server requested.

    Returns
    -------
    float
        The delay. It grows exponentially with jitter, and is at least the requested wait and at
        most `max_delay_s`.
    """
    # The exponent is bounded, because 2.0**1024 overflows and a long outage may have that many
    # failures.
    ceiling = min(config.max_delay_s, config.base_delay_s * 2.0 ** min(failures - 1, 32))
    delay = ceiling * (1.0 - config.jitter * rng.random())
    return min(config.max_delay_s, max(delay, retry_after_s or 0.0))


def error_code_and_message(body: Any) -> tuple[str, str]:
    """Return (code, message) of an error body.

    Parameters
    ----------
    body : Any
        The body: {"error": {...}}, {"message": ...}, {"detail": ...}, or text such as HTML.

    Returns
    -------
    tuple of str
        The code and the message; "" for a part that the body does not contain.
    """
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
