"""Format shares, differences, p-values and lists for people."""

import math
from collections.abc import Iterable

DASH = "–"  # shown in place of a number that could not be computed


def points(share: float) -> str:
    """Return a difference of shares (0-1) as text, in percentage points.

    >>> points(0.051)
    '5.1 points'
    """
    value = f"{100 * share:.1f}".replace("-", "−") if math.isfinite(share) else DASH
    return f"{value} point{'' if value == '1.0' else 's'}"


def signed_points(share: float | None) -> str:
    """Return a difference of shares (-1 to 1) as text, in percentage points with its sign.

    >>> signed_points(0.042)
    '+4.2 points'
    """
    if share is None or not math.isfinite(share):
        return DASH
    value = round(100 * share, 1)
    return f"{value:+.1f} points".replace("-", "−") if value else "0.0 points"


def with_interval(estimate: float | None, low: float | None, high: float | None) -> str:
    """Return an estimate with its interval in percentage points.

    Parameters
    ----------
    estimate, low, high : float or None
        Shares or differences of shares, between -1 and 1.

    Returns
    -------
    str
        The text; a dash if the estimate was not computed.

    Examples
    --------
    >>> with_interval(0.011, -0.072, 0.089)
    '+1.1 points [−7.2, +8.9]'
    """
    if low is None or high is None:
        return signed_points(estimate)
    lower, upper = (
        signed_points(low).removesuffix(" points"),
        signed_points(high).removesuffix(" points"),
    )
    return f"{signed_points(estimate)} [{lower}, {upper}]"


def drop_points(value: float | None) -> str:
    """Return a drop of an accuracy in percentage points, without a sign.

    >>> drop_points(0.057), drop_points(-0.042)
    ('5.7 points', 'none (4.2 points up)')
    """
    shown = signed_points(value).removeprefix("+")
    return f"none ({shown[1:]} up)" if shown.startswith("−") else shown


def interval(low: float, high: float) -> str:
    """Return an interval in percentage points.

    Parameters
    ----------
    low, high : float
        Shares or differences of shares, between -1 and 1.

    Returns
    -------
    str
        The text. Positive numbers have no sign.

    Examples
    --------
    >>> interval(-0.012, 0.034)
    '95 % interval −1.2 to 3.4'
    """
    return f"95 % interval {100 * low:.1f} to {100 * high:.1f}".replace("-", "−")


def percent(share: float | None, *, whole: bool = True) -> str:
    """Return a share as a percentage.

    Parameters
    ----------
    share : float or None
        A share between 0 and 1.
    whole : bool
        True writes 98.0 % as 98 %. False keeps the decimal, for columns of numbers.

    Returns
    -------
    str
        The text; a dash if the share was not computed.

    Examples
    --------
    >>> percent(0.98), percent(0.714)
    ('98 %', '71.4 %')
    """
    if share is None or not math.isfinite(share):
        return DASH
    text = f"{round(100 * share, 1) + 0.0:.1f} %".replace("-", "−")
    return text.replace(".0 %", " %") if whole else text


def pvalue(p: float | None) -> str:
    """Return a p-value as text, with "p" before the number.

    Returns
    -------
    str
        The text; a dash for a value that was not computed.

    Examples
    --------
    >>> pvalue(0.0304), pvalue(0.0004)
    ('p = .03', 'p < .001')
    """
    bare = bare_pvalue(p)
    return f"p {bare}" if bare.startswith("<") else f"p = {bare}"


def scaled(x: float, low: float, high: float) -> str:
    """Return a number with decimals that depend on the width of its interval.

    Parameters
    ----------
    x, low, high : float
        The number and the limits of its interval, in any unit.

    Returns
    -------
    str
        The number with its sign.

    Examples
    --------
    >>> [scaled(x, -0.0024, 0.0026) for x in (8.11e-05, -0.0024)]
    ['+0.0001', '−0.0024']
    """
    width = high - low
    places = max(1, 1 - math.floor(math.log10(width))) if 0 < width < math.inf else 3
    return f"{x:+.{places}f}".replace("-", "−")


def bare_pvalue(p: float | None) -> str:
    """Return a p-value as text without "p", for a column of p-values.

    Returns
    -------
    str
        The text; a dash if the value was not computed.

    Examples
    --------
    >>> bare_pvalue(0.0304), bare_pvalue(0.0004)
    ('.03', '< .001')
    """
    if p is None or not math.isfinite(p):
        return DASH
    return "< .001" if p < 0.001 else f"{p:.2g}".removeprefix("0")


def listed(names: Iterable[object]) -> str:
    """Join names with commas and "and".

    Returns
    -------
    str
        The names as one phrase; "" if there are no names.

    Examples
    --------
    >>> listed("abc")
    'a, b and c'
    """
    *first, last = [str(name) for name in names] or [""]
    return f"{', '.join(first)} and {last}" if first else last
