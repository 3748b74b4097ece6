"""Compute when the limits of requests per minute and tokens per minute allow the next request.

This module does no I/O, and the caller supplies the time. Requests are spread evenly over time.
Therefore the limit also holds if a server measures shorter periods than a minute. A request is
first counted with the largest number of tokens that it may use. When the reply states how many
tokens were used, this count is corrected.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

_MINUTE_S = 60.0
# Requests are not tokenised, so tokens are estimated: English text has about four characters per
# token.
_CHARS_PER_TOKEN = 4
# This is the longest wait in seconds. Even if a server's limit covers a whole day, a request is
# tried again after a minute.
_WAIT_MOST_S = 60.0
_DURATION = re.compile(
    r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?"
)


@dataclass(eq=False)
class Pace:
    """Hold the limits of one endpoint, and the times at which they allow another request.

    Parameters
    ----------
    most_rpm, most_tpm : float or None
        The configured limits. If a server states a smaller limit, the smaller limit is used until
        the server states another limit.
    requests_at, tokens_at : float
        The earliest times at which the limits of requests and of tokens allow another request.
    """

    most_rpm: float | None = None
    most_tpm: float | None = None
    requests_at: float = -math.inf
    tokens_at: float = -math.inf

    def __post_init__(self) -> None:
        self.rpm, self.tpm = self.most_rpm, self.most_tpm

    def at(self) -> float:
        """Return the earliest time at which the next request may be sent."""
        return max(self.requests_at, self.tokens_at)

    def sent(self, now: float, tokens: int) -> None:
        """Count a request that is sent now.

        Parameters
        ----------
        now : float
            The current time, in seconds.
        tokens : int
            The largest number of tokens that the request may use.
        """
        if self.rpm is not None:
            self.requests_at = max(self.requests_at, now) + _MINUTE_S / self.rpm
        if self.tpm is not None:
            wait_s = _MINUTE_S * tokens / self.tpm
            stated = self.tpm != self.most_tpm
            # The wait is bounded, because a wrong limit from a server would otherwise halt the run
            # without a message.
            self.tokens_at = max(self.tokens_at, now) + (
                min(wait_s, _WAIT_MOST_S) if stated else wait_s
            )

    def used(self, estimate: int, tokens: int) -> None:
        """Replace the estimated token count of a request by the count that its reply states."""
        if self.tpm is not None:
            self.tokens_at += min(_MINUTE_S * (tokens - estimate) / self.tpm, _WAIT_MOST_S)

    def learn(self, headers: Mapping[str, str], now: float) -> None:
        """Use the limits that a reply states in `x-ratelimit-*`.

        A configured limit that is smaller than the stated limit stays in use.

        Parameters
        ----------
        headers : mapping
            The reply's headers.
        now : float
            The current time, in seconds.
        """
        self.rpm = _smaller(self.rpm, self.most_rpm, _number(headers, "x-ratelimit-limit-requests"))
        self.tpm = _smaller(self.tpm, self.most_tpm, _number(headers, "x-ratelimit-limit-tokens"))
        for kind in ("requests", "tokens"):
            left, wait_s = (
                _number(headers, f"x-ratelimit-remaining-{kind}"),
                seconds_until(headers, kind),
            )
            if left is not None and left < 1 and wait_s is not None:
                until = now + min(wait_s, _WAIT_MOST_S)
                if kind == "requests":
                    self.requests_at = max(self.requests_at, until)
                else:
                    self.tokens_at = max(self.tokens_at, until)


def tokens_of(prompt: str, max_tokens: int) -> int:
    """Estimate the tokens of a request.

    Parameters
    ----------
    prompt : str
        The whole text of the request.
    max_tokens : int
        The largest number of tokens to generate.

    Returns
    -------
    int
        The estimated tokens of the prompt, plus `max_tokens`.
    """
    return len(prompt) // _CHARS_PER_TOKEN + max_tokens


def seconds_until(headers: Mapping[str, str], kind: str) -> float | None:
    """Return the seconds until a limit resets; None if the reply does not state them in a known
    format.

    >>> texts = ("6m0s", "120ms", "1.5", "noon")
    >>> [seconds_until({"x-ratelimit-reset-tokens": text}, "tokens") for text in texts]
    [360.0, 0.12, 1.5, None]
    """
    text = headers.get(f"x-ratelimit-reset-{kind}", "").strip()
    number = _number(headers, f"x-ratelimit-reset-{kind}")
    if number is not None:
        # A larger number is a point in time, not a duration.
        return number if number < 1e6 else None
    duration = _DURATION.fullmatch(text)
    if not text or duration is None:
        return None
    hours, minutes, seconds, milliseconds = (float(part or 0) for part in duration.groups())
    return 3600 * hours + 60 * minutes + seconds + milliseconds / 1000


def _number(headers: Mapping[str, str], name: str) -> float | None:
    """Return the value of a header that is a plain number of at most 12 digits; None for any other
    value.
    """
    text = headers.get(name, "").strip()
    return float(text) if re.fullmatch(r"\d{1,12}(\.\d{1,12})?", text) else None


def _smaller(now: float | None, configured: float | None, stated: float | None) -> float | None:
    """Return the limit to use after a server stated a limit.

    This is the smaller of the stated limit and the configured limit. If the stated limit is missing
    or below 1 per minute, it is ignored and the current limit `now` stays in use.
    """
    if stated is None or stated < 1:
        return now
    return stated if configured is None else min(configured, stated)
