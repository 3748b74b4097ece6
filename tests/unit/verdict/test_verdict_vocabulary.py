"""Every verdict and gate has its words, in one place."""

from __future__ import annotations

import json
from importlib.resources import files

import numpy as np

from audit.sweep.gates import all_gates
from audit.sweep.result import Verdict
from audit.sweep.simulation import Design, World, simulate
from audit.sweep.thresholds import SweepThresholds
from audit.sweep.vocabulary import GATES, VERDICTS


def test_every_verdict_has_a_word_and_the_schema_knows_it() -> None:
    assert set(VERDICTS) == set(Verdict)
    schema = json.loads((files("audit.sweep") / "verdict.schema.json").read_text(encoding="utf-8"))
    assert set(schema["$defs"]["cell"]["properties"]["verdict"]["enum"]) == {v.value for v in Verdict}
    for shown in ("name", "glyph", "marker", "colour", "means"):
        values = [getattr(word, shown) for word in VERDICTS.values()]
        assert len(set(values)) == len(values), shown


def test_every_gate_has_a_word() -> None:
    cell = simulate(Design(40, 2), World(), np.random.default_rng(0)).cell
    assert {g.name for g in all_gates(cell, None, SweepThresholds(), None)} == set(GATES)
