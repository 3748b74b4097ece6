"""Every sentence of the audit can be said, with numbers as a reader has them."""

import re

import pytest
from spoken import spoken

from audit.judging.result import because
from audit.memory.evidence import Name
from audit.memory.texts import TEXTS
from audit.statistics.without_memory import Limits

LIMITS = Limits(0.7123456, -0.0123456, 0.8)
NUMBERS = {
    "model": "m",
    "benchmark": "b",
    "items": 60,
    "held_out": 0.5123456,
    "rows": 1070,
    "shards": 9,
    "references": 3,
    "least": 10.0,
    "family": "llama",
    "read": 80,
    "asked": 100,
    "arm": "score",
    "why": because("few_answered"),
    "indicator": Name.ITEM,
    "indicators": list(Name),
    "judged": list(Name)[:2],
    "gap": True,
    "unit": "bits a byte",
    "estimate": -0.0123456,
    "low": -0.023456,
    "high": 0.0345678,
    "p": 0.0304,
    "adjusted": 0.0004,
    "gamma": 3.0,
    "doubt": because("own_scale"),
    "score": LIMITS,
    "without": LIMITS,
    "theirs": LIMITS,
    "needs": ("held_out", "parsed"),
    "error": "",
    "partial": "",
    "measure": False,
    "stated": False,
    "missing": ["model.a.released"],
    "published": 0.8123456,
    "difference": 0.1234567,
}
CHANGED = {
    "headline_withheld": {"why": ["too few"]},
    "few_items": {"held_out": 40},
    "subtitle": {"held_out": 40},
    "other_families": {"references": ["a", "b"]},
    "no_room": {"score": 0.9812345, "effect": 0.05},
}


@pytest.mark.parametrize("code", TEXTS)
def test_every_code_is_said_with_the_numbers_of_the_house(code: str) -> None:
    sentence = spoken(TEXTS, code, NUMBERS | CHANGED.get(code, {}))
    assert "Name." not in sentence and (
        sentence[0].isupper() or sentence.startswith(("m ", "b ", "3 ", "60 "))
    ), sentence
    # nats and bits have three digits
    assert code in ("seen", "not_seen", "stands_out") or not re.search(r"\d\.\d{2}", sentence), (
        sentence
    )
