"""Numbers are printed one way: 98 %, +4.2 points, p = .03."""

import math

import pytest

from audit.verdict.result import bare_pvalue, percent, pvalue, signed_points


@pytest.mark.parametrize(
    ("share", "as_percent", "as_points"),
    [
        (0.98, "98 %", "+98.0 points"),
        (0.714, "71.4 %", "+71.4 points"),
        (-0.042, "−4.2 %", "−4.2 points"),
        (-0.0001, "0 %", "0.0 points"),
        (1.0, "100 %", "+100.0 points"),
        (None, "–", "–"),
        (math.nan, "–", "–"),
    ],
)
def test_shares(share: float | None, as_percent: str, as_points: str) -> None:
    assert (percent(share), signed_points(share)) == (as_percent, as_points)


@pytest.mark.parametrize(
    ("p", "told"),
    [
        (0.0304, "p = .03"),
        (0.25, "p = .25"),
        (0.0012, "p = .0012"),
        (0.0004, "p < .001"),
        (0, "p < .001"),
        (1.0, "p = 1"),
    ],
)
def test_p_values(p: float, told: str) -> None:
    assert pvalue(p) == told
    assert told.removeprefix("p ").removeprefix("= ") == bare_pvalue(p)


def test_a_p_that_was_not_computed_is_no_number() -> None:
    assert bare_pvalue(None) == bare_pvalue(math.nan) == "–"
