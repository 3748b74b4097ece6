"""Every sentence of the audit can be said: in one breath, with no number as a program prints it."""

import re

import pytest
from spoken import spoken

from audit.perturb.texts import _DOUBTS, TEXTS

NUMBERS = {
    "model": "m",
    "benchmark": "b",
    "doubt": "",
    "why": ["the scorer is not validated"],
    "score": 0.7123456,
    "drop": 0.0512345,
    "largest": 0.0812345,
    "beyond": 0.0412345,
    "holds": "no_drop_detected",
    "tipping_point": 20.0,
    "worst_case": False,
    "share": 0.0412345,
    "largest_worst": 0.1,
    "estimate": 0.0512345,
    "low": -0.0123456,
    "high": 0.0987654,
    "pvalue": 0.0304,
    "margin": 0.0312345,
    "delta": 0.05,
    "power": 0.8,
    "difference": 0.0212345,
    "scale": 0.03,
    "source": "its source",
    "plain": 0.0304,
    "references": 5,
    "own": 0.7123456,
    "lowest": 0.5123456,
    "highest": 0.6123456,
    "family": "llama",
    "expected": 0.5123456,
    "accuracy": 0.7123456,
    "arm": "variant 2",
    "n": 1200,
    "units": 25,
    "least": 30,
    "gates": ["parseability"],
    "se": 0.0512345,
    "gamma": 3.0,
    "tau": 0.0212345,
    "unlike": ["window"],
    "smallest_p": 0.25,
    "questions": [208],
    "variants": 3,
    "answers": 1040,
    "unknown": 1.2345,
    "known": 0.5123456,
    "references_unknown": 0.3123456,
    "references_known": 0.2123456,
    "limit": 0.0912345,
    "asked": 100.0,
    "needed": 1070.0,
    "effect": 0.05,
}


@pytest.mark.parametrize("code", TEXTS)
def test_every_code_is_a_sentence(code):
    for doubt in _DOUBTS if code == "headline_drop_cause_unknown" else [""]:
        sentence = spoken(TEXTS, code, NUMBERS | {"doubt": doubt})
        assert sentence.endswith(".") and not re.search(r"\d\.\d{3}", sentence), sentence
