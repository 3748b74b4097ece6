"""Every sentence of the audit can be said, with numbers as a reader has them."""

import re

import pytest

from audit.memory.evidence import Name
from audit.memory.texts import TEXTS
from audit.statistics.without_memory import Limits
from audit.verdict.result import because, sentence

LIMITS = Limits(0.7123456, -0.0123456, 0.8)
EFFECT = ("indicator", "unit", "estimate", "low", "high", "p", "adjusted", "doubt")
WHO = ("model", "benchmark")
NUMBERS = {
    "model": "m", "benchmark": "b", "items": 60, "held_out": 0.5123456, "rows": 1070, "shards": 9, "references": 3,
    "least": 10.0, "family": "llama", "read": 80, "asked": 100, "arm": "score", "why": because("few_answered"),
    "indicator": Name.ITEM, "indicators": list(Name), "judged": list(Name)[:2], "gap": True, "unit": "bits a byte",
    "estimate": -0.0123456, "low": -0.023456, "high": 0.0345678, "p": 0.0304, "adjusted": 0.0004, "gamma": 3.0,
    "doubt": because("own_scale"), "score": LIMITS, "without": LIMITS, "needs": ("held_out", "parsed"), "error": "",
    "published": 0.8123456, "difference": 0.1234567,
}  # fmt: skip
OF_FUNCTIONS = {
    **dict.fromkeys(("seen", "not_seen", "stands_out"), EFFECT),
    "not_judged": ("indicator", "why"), "gap_compatible": ("high", "gamma"),
    "headline_text": (*WHO, "indicators", "gap"), "headline_unknown": (*WHO, "indicators", "doubt"),
    "headline_underpowered": (*WHO, "judged"), "headline_nothing": (*WHO, "judged"),
    "without": ("score", "without", "references"), "not_identified": ("score", "needs", "error"),
}  # fmt: skip
CHANGED = {"headline_withheld": {"why": ["too few"]}, "few_items": {"held_out": 40}, "subtitle": {"held_out": 40}}


@pytest.mark.parametrize("code", TEXTS)
def test_every_code_is_said_with_the_numbers_of_the_house(code: str) -> None:
    numbers = {name: NUMBERS[name] for name in OF_FUNCTIONS.get(code, NUMBERS)} | CHANGED.get(code, {})
    said = sentence(because(code, **numbers), TEXTS)
    assert "{" not in said and "Name." not in said, said
    assert said[0].isupper() or said.startswith(("m ", "b ", "3 ", "60 ")), said
    if code not in ("seen", "not_seen", "stands_out"):  # nats and bits have three digits
        assert not re.search(r"\d\.\d{2}", said), said
        assert all(len(part.split()) <= 30 for part in re.split(r"[.:;]\s", re.sub(r"\(.*?\)", "", said))), said
