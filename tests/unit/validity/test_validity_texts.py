"""Every sentence of the audit can be said: by a reader in one breath, with no number as a program
prints it."""

import math
import re
from types import SimpleNamespace

import pytest
from spoken import spoken

from audit.validity.decide import items_for_limit, items_for_test
from audit.validity.texts import TEXTS

NUMBERS = {
    "who": "m on b",
    "status": "Not measurable",
    "why": ["the scorer is not validated", "rows share an id"],
    "difference": -0.1234567,
    "low": -0.2345678,
    "high": 0.0123456,
    "directional": True,
    "share": 0.5123456,
    "least": 0.5,
    "margin": 0.05,
    "above": 0.0304,
    "below": None,
    "asked": 60,
    "needed": 1070,
    "items": 60,
    "clusters": 30,
}
FINDINGS = (
    "follows",
    "reacts",
    "surface_wins",
    "stays",
    "follows_too_rarely",
    "follows_unless_unparsed",
    "neither_direction",
)


@pytest.mark.parametrize("code", TEXTS)
def test_every_code_is_a_sentence(code):
    for finding in FINDINGS if code == "headline" else [""]:
        sentence = spoken(TEXTS, code, NUMBERS | {"finding": finding})
        assert sentence[0].isupper() or sentence.startswith("m on b"), sentence
        assert sentence.endswith(".") and not re.search(r"\d\.\d{2}", sentence), sentence


def test_more_items_are_named_only_where_more_would_do():
    rate = SimpleNamespace(estimate=0.6, low=0.4, n=50)
    assert items_for_limit(rate, 0.5) == 200  # twice as near: four times the items
    assert items_for_limit(SimpleNamespace(estimate=0.5, low=0.4, n=50), 0.5) is None
    assert items_for_test(100, 0.05, 0.1, 0.05) == math.ceil(
        100 * (1.959964 / 1.644854) ** 2
    )  # z(.975), z(.95)
    assert (
        items_for_test(100, 0.6, 1.0, 0.05) is None
        and items_for_test(100, None, None, 0.05) is None
    )
    assert (
        items_for_test(100, 0.0, 0.0, 0.05) is None
    )  # no number of items is the answer to a p of 0
    assert items_for_test(100, 0.5 - 1e-16, 1.0, 0.025) is None  # nothing differs
