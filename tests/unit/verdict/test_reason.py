"""A reason is a code with numbers; its sentence is made in one place."""

import math

import numpy as np
import pytest

from audit.core.number_text import bare_pvalue, listed, percent, pvalue, signed_points
from audit.judging.result import Reason, because, json_ready, sentence, sentences
from audit.judging.world import World
from audit.sweep.decide import held_out
from audit.sweep.design import SweepThresholds
from audit.sweep.gates import all_gates
from audit.sweep.simulation import Design, simulate
from audit.sweep.vocabulary import GATES, VERDICTS, Contrast, Verdict


def test_a_template_says_numbers_in_the_formats_of_the_house() -> None:
    texts = {
        "fell": "{model}: {low:bare} to {high:points}, {share:percent}, {p:p}, n = {n:,} ({names:listed})"
    }
    reason = because(
        "fell",
        model="m",
        low=0.012,
        high=0.034,
        share=0.98,
        p=0.0304,
        n=1200,
        names=["a", "b", "c"],
    )
    assert sentence(reason, texts) == "m: 1.2 to 3.4 points, 98 %, p = .03, n = 1,200 (a, b and c)"
    assert (listed(["a"]), listed([])) == ("a", "")


def test_a_function_says_what_hangs_on_the_numbers_and_a_gate_says_its_own() -> None:
    texts = {"rose": lambda rise: "up" if rise > 0 else "down"}
    assert sentences([because("rose", rise=-1), Reason("gate_x", {}, "so")], texts) == (
        "down",
        "so",
    )


@pytest.mark.parametrize("reason", [because("unknown"), because("fell")])
def test_a_missing_text_or_number_is_no_empty_sentence(reason: Reason) -> None:
    with pytest.raises(KeyError):
        sentence(reason, {"fell": "by {drop:points}"})


def test_a_reason_within_a_measurement_is_its_code_and_numbers_in_json() -> None:
    floats = (0.12345678, 0.1 + 0.2, -0.0, math.nan, 1.23456789e-12)
    document = json_ready({"why": Reason("few", {"n": 25, "se": floats}, "Few.")})
    assert str(document["why"]) == str(
        {"code": "few", "numbers": {"n": 25, "se": [0.123457, 0.3, 0.0, None, 1.23457e-12]}}
    )


def test_shares_and_p_values() -> None:
    for share, as_percent, as_points in (
        (0.98, "98 %", "+98.0 points"),
        (0.714, "71.4 %", "+71.4 points"),
        (-0.042, "−4.2 %", "−4.2 points"),
        (-0.0001, "0 %", "0.0 points"),
        (1.0, "100 %", "+100.0 points"),
        (None, "–", "–"),
        (math.nan, "–", "–"),
    ):
        assert (percent(share), signed_points(share)) == (as_percent, as_points)
    for p, text in (
        (0.0304, "= .03"),
        (0.25, "= .25"),
        (0.0012, "= .0012"),
        (0.0004, "< .001"),
        (0, "< .001"),
        (1, "= 1"),
    ):
        assert pvalue(p) == f"p {text}" and bare_pvalue(p) == text.removeprefix("= ")
    assert bare_pvalue(None) == bare_pvalue(math.nan) == "–"


def test_every_verdict_has_a_word() -> None:
    assert set(VERDICTS) == set(Verdict)
    for shown in ("name", "glyph", "marker", "means"):
        values = [getattr(word, shown) for word in VERDICTS.values()]
        assert len(set(values)) == len(values), shown


def test_every_gate_has_a_word() -> None:
    cell = simulate(Design(40, 2), World(), np.random.default_rng(0)).cell
    assert {g.name for g in all_gates(cell, None, SweepThresholds(), None)} == set(GATES)


@pytest.mark.parametrize(
    ("lows", "on"),
    [
        ((0.01, 0.01, 0.01), "every_scale"),
        ((0.01, -0.01, 0.01), "one_scale"),
        ((-0.01, -0.01, -0.01), "no_scale"),
    ],
)
def test_a_gain_that_is_larger_on_one_scale_only_is_said_to_be_so(
    lows: tuple[float, ...], on: str
) -> None:
    scales = [
        Contrast(f"difference_in_differences{end}", "", None, 100, 0.05, low, 0.09, None)
        for end, low in zip(("", "_log_odds", "_log_wrong"), lows, strict=True)
    ]
    assert held_out(scales) == (because(f"larger_on_{on}", gain=0.05, low=lows[0], high=0.09),)
