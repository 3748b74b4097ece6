"""Decide what a failed call means, and how long to wait before the next call.

If the request itself is at fault, an error is stored in the request's row. If the endpoint is at
fault, no error is stored. The call is repeated, if possible at another endpoint, until it succeeds
or the run stops. A stopped run can be resumed.
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
    # The server refuses this request (prompt too long, or any other 4xx). The row gets an error,
    # and the request is not retried.
    ROW = "row"
    RATE_LIMIT = "rate_limit"  # status 429: the endpoint is alive but busy
    # The connection failed, or the status is 404, 502, 503 or 529. The request is not the cause of
    # such a failure.
    UNAVAILABLE = "unavailable"
    SERVER = "server"  # any other 5xx, or a broken connection: the request may be the cause
    TIMEOUT = "timeout"  # no reply in time: the request may be the cause
    MALFORMED = "malformed"  # status 200, but the body is not a chat completion
    OTHER_MODEL = "other_model"  # status 200, but the reply is from another model


# The request may be the cause of failures of these kinds. Therefore each such failure counts
# towards `max_attempts` of the request. Failures of all other kinds do not count.
BAD_REPLY = frozenset({Kind.MALFORMED, Kind.OTHER_MODEL})
ROW_SUSPECT = frozenset({Kind.SERVER, Kind.TIMEOUT, *BAD_REPLY})
# A failure of one of these kinds shows that the endpoint is alive.
ALIVE = frozenset({Kind.AUTH, Kind.QUOTA, Kind.ROW, Kind.RATE_LIMIT})

_TOO_LONG = re.compile(
    r"context[ _-]?(length|size|window)|maximum model length|max_model_len|prompt is too long|input is too long|"
    r"too many (input )?tokens|max_seq_len|reduce the length",
    re.IGNORECASE,
)
# A gateway that refuses to forward a prompt uses these words in a reply with status 403.
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
        The kind of failure, which decides whether the call is repeated.
    message : str
        The cause in this program's words. It quotes no text from the server.
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
    """Convert the HTTP status of an error reply to a failure.

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


# A message may repeat only these terms from a server's error text. Each term is part of a request.
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
# number of characters of a message that are read, since a message may be megabytes long
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
    """Convert an error in the body of a reply with status 200 to a failure.

    Parameters
    ----------
    code : str
        The error's code. It is a word, or the HTTP status of another server, as reported by a
        gateway.
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
    # Some servers report a prompt that is too long as an error of the server.
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
        The seconds, from the header `retry-after-ms` or `retry-after` (seconds or HTTP date). None
        if neither header has a usable value.
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
    """Return the number of seconds to wait before the next attempt at a request.

    Parameters
    ----------
    config : RetryConfig
        The settings of the delays.
    failures : int
        The number of consecutive failures of the request, at least 1.
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
    # The exponent is bounded. A long outage may have 1024 failures, and 2.0**1024 overflows.
    ceiling = min(config.max_delay_s, config.base_delay_s * 2.0 ** min(failures - 1, 32))
    delay = ceiling * (1.0 - config.jitter * rng.random())
    return min(config.max_delay_s, max(delay, retry_after_s or 0.0))


def error_code_and_message(body: Any) -> tuple[str, str]:
    """Return the code and the message of an error reply's body.

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
