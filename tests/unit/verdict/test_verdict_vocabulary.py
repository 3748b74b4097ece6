"""Every verdict and gate has its words, in one place."""

import json
from importlib.resources import files

import numpy as np
import pytest

from audit.sweep.gates import all_gates
from audit.sweep.remarks import held_out
from audit.sweep.result import Contrast, Verdict
from audit.sweep.simulation import Design, World, simulate
from audit.sweep.thresholds import SweepThresholds
from audit.sweep.vocabulary import GATES, VERDICTS
from audit.verdict.result import because


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
    ("lows", "on"),
    [((0.01, 0.01, 0.01), "every_scale"), ((0.01, -0.01, 0.01), "one_scale"), ((-0.01, -0.01, -0.01), "no_scale")],
)
def test_a_gain_that_is_larger_on_one_scale_only_is_said_to_be_so(lows: tuple[float, ...], on: str) -> None:
    scales = [
        Contrast(f"difference_in_differences{end}", "", None, 100, 0.05, low, 0.09, None)
        for end, low in zip(("", "_log_odds", "_log_wrong"), lows, strict=True)
    ]
    assert held_out(scales) == (because(f"larger_on_{on}", gain=0.05, low=lows[0], high=0.09),)
