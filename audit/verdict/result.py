"""What every audit's verdict is made of, and its one JSON form: gates, the nearest calibration, numbers as printed.

A number that could not be computed is null in verdict.json, never 0.
"""

import json
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from audit.json_types import plain

SIGNIFICANT_DIGITS = 6  # of every float in verdict.json: fixed, so that the same shards give the same bytes

MAX_ITEMS = 50  # ids listed behind a gate; `item_count` is the full number


class Status(StrEnum):
    """What a gate says."""

    PASS = "pass"  # noqa: S105 - a gate's status, not a password
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True)
class Gate:
    """One check of whether the measurement can carry a verdict.

    number is compared with threshold; detail says in one sentence what was found; advice what to do when it fails.
    withholds: a failure withholds the verdict (an alarm that does not withhold is still printed).
    items: ids of the questions behind it (the first MAX_ITEMS, sorted); item_count: how many there are in all.
    numbers: the further figures that the gate measured, by name.
    """

    name: str
    status: Status
    number: float | None
    threshold: float | None
    source: str
    detail: str
    advice: str = ""
    withholds: bool = True
    items: tuple[str, ...] = ()
    item_count: int = 0
    numbers: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Calibration:
    """The nearest calibrated design and how often this very procedure was wrong there."""

    design: dict[str, float | int | str]
    rates: dict[str, float | None]
    sentence: str


DASH = "–"  # where a number could not be computed


def points(share: float) -> str:
    """0.051 -> "5.1 points"."""
    value = f"{100 * share:.1f}".replace("-", "−") if math.isfinite(share) else DASH
    return f"{value} point{'' if value == '1.0' else 's'}"


def signed_points(share: float | None) -> str:
    """0.042 -> "+4.2 points"."""
    if share is None or not math.isfinite(share):
        return DASH
    value = round(100 * share, 1)
    return f"{value:+.1f} points".replace("-", "−") if value else "0.0 points"


def with_interval(estimate: float | None, low: float | None, high: float | None) -> str:
    """Such as "+1.1 points [−7.2, +8.9]", of shares 0-1; a dash where it was not computed."""
    if low is None or high is None:
        return signed_points(estimate)
    ends = (signed_points(end).removesuffix(" points") for end in (low, high))
    return f"{signed_points(estimate)} [{', '.join(ends)}]"


def interval(low: float, high: float) -> str:
    """-0.012, 0.034 -> "95 % interval −1.2 to 3.4"."""
    return f"95 % interval {100 * low:.1f} to {100 * high:.1f}".replace("-", "−")


def percent(share: float | None, *, whole: bool = True) -> str:
    """0.98 -> "98 %"; 0.714 -> "71.4 %". whole: without a decimal where it is 0; in a column of them, with it."""
    if share is None or not math.isfinite(share):
        return DASH
    text = f"{round(100 * share, 1) + 0.0:.1f} %".replace("-", "−")
    return text.replace(".0 %", " %") if whole else text


def pvalue(p: float | None) -> str:
    """0.0304 -> "p = .03"; 0.0004 -> "p < .001"."""
    bare = bare_pvalue(p)
    return f"p {bare}" if bare.startswith("<") else f"p = {bare}"


def bare_pvalue(p: float | None) -> str:
    """As `pvalue`, in a column of them: 0.0304 -> ".03"; 0.0004 -> "< .001"."""
    if p is None or not math.isfinite(p):
        return DASH
    return "< .001" if p < 0.001 else f"{p:.2g}".removeprefix("0")


def rounded(value: float) -> float | None:
    """A float as verdict.json prints it: SIGNIFICANT_DIGITS digits, no negative zero; None for NaN or infinity."""
    found: float | None = plain(float(value), SIGNIFICANT_DIGITS)
    return found


def finite(value: float) -> float | None:
    """None for NaN or infinity."""
    return float(value) if math.isfinite(value) else None


def json_text(value: Any) -> str:
    """What `json_ready` gave as the bytes of a file: sorted keys, two spaces, a final newline."""
    return json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def json_ready(value: Any) -> Any:
    """JSON types only, with floats as verdict.json prints them."""
    return plain(value, SIGNIFICANT_DIGITS)
