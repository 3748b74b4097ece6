"""Every verdict and gate has its words, in one place."""

from __future__ import annotations

import json
from importlib.resources import files

import numpy as np
import pytest

from audit.sweep.gates import all_gates
from audit.sweep.result import Contrast, Verdict
from audit.sweep.simulation import Design, World, simulate
from audit.sweep.thresholds import SweepThresholds
from audit.sweep.vocabulary import GATES, VERDICTS
from audit.sweep.words import fresh_items


def test_every_verdict_has_a_word_and_the_schema_knows_it() -> None:
    assert set(VERDICTS) == set(Verdict)
    schema = json.loads((files("audit.sweep") / "verdict.schema.json").read_text(encoding="utf-8"))
    assert set(schema["$defs"]["cell"]["properties"]["verdict"]["enum"]) == {v.value for v in Verdict}
    for shown in ("name", "glyph", "marker", "means"):
        values = [getattr(word, shown) for word in VERDICTS.values()]
        assert len(set(values)) == len(values), shown


def test_every_gate_has_a_word() -> None:
    cell = simulate(Design(40, 2), World(), np.random.default_rng(0)).cell
    assert {g.name for g in all_gates(cell, None, SweepThresholds(), None)} == set(GATES)


@pytest.mark.parametrize(
    ("lows", "said"),
    [
        ((0.01, 0.01, 0.01), "is larger than that on the held-out"),
        ((0.01, -0.01, 0.01), "+5.0 points (95 % interval +1.0 to +9.0), but not on every scale"),
        ((-0.01, -0.01, -0.01), "is not clearly larger than"),
    ],
)  # fmt: skip
def test_a_gain_that_is_larger_on_one_scale_only_is_said_to_be_so(lows: tuple[float, ...], said: str) -> None:
    scales = [
        Contrast(f"difference_in_differences{end}", "", None, 100, 0.05, low, 0.09, None)
        for end, low in zip(("", "_log_odds", "_log_wrong"), lows, strict=True)
    ]
    assert said in fresh_items(scales)[0]
