"""The measured table of the notes (section 1, A): UnifiedQA's stored answers on BBQ through our edits and statistics.

Base: RACE prompt. Format edit: ARC prompt. Attribute edit: the partner row, in which the two groups changed places.
"""

from pathlib import Path

import numpy as np
import pytest
from published_items import unifiedqa

from audit.statistics.contracts import response_changes, score_changes, scores
from audit.statistics.selectivity import ratio

BBQ = Path("../shared/data/bbq")
pytestmark = pytest.mark.skipif(not BBQ.is_dir(), reason="../shared/data/bbq is not here")

# rows: fmt score, fmt response, attr own key, attr original key, attr response, CSR own, CSR original, CSR response
NOTES = {
    "": (0.1319, 0.1505, 0.1551, 0.6100, 0.6204, 1.175, 4.623, 4.123),
    "ambig": (0.2130, 0.2500, 0.2824, 0.2824, 0.2917, 1.326, 1.326, 1.167),
    "disambig": (0.0509, 0.0509, 0.0278, 0.9375, 0.9491, 0.545, 18.41, 18.64),
}


def said(item, text: str) -> int:
    plain = [option.lower().strip().rstrip(".") for option in item.published]
    return plain.index(text.lower().strip().rstrip("."))


@pytest.fixture(scope="module")
def answers():
    """Per row: condition, key, key of the partner, and responses in the row's own published positions."""
    items, stored = unifiedqa(BBQ.parent)
    race, arc = (
        {item.id: said(item, stored[item.id][f"unifiedqa-t5-11b_pred_{p}"]) for item in items} for p in ("race", "arc")
    )
    slots: dict[tuple, list] = {}
    for item in items:
        names = frozenset(name.lower() for name, group in item.facts.names if group != "unknown")
        slots.setdefault((item.facts.template, item.facts.polarity, item.condition, names), []).append(item)
    rows = []
    for item in items:
        names = frozenset(name.lower() for name, group in item.facts.names if group != "unknown")
        (other,) = [
            o for o in slots[item.facts.template, item.facts.polarity, item.condition, names] if o.id != item.id
        ]

        def here(position: int, other=other, item=item) -> int:
            if position == other.facts.unknown:
                return item.facts.unknown
            return [n.lower() for n, _ in item.facts.names].index(other.facts.names[position][0].lower())

        pair = min(item.id, other.id)
        rows.append(
            (item.condition, item.key, here(other.key), race[item.id], arc[item.id], here(race[other.id]), pair)
        )
    return rows


@pytest.mark.parametrize("condition", NOTES)
def test_the_three_conventions_give_the_three_ratios_of_the_notes(answers, condition):
    rows = [row for row in answers if not condition or row[0] == condition]
    assert len(rows) == (864 if not condition else 432)
    key, moved, race, arc, swapped = (np.array([row[k] for row in rows]) for k in range(1, 6))
    _, cluster = np.unique([row[6] for row in rows], return_inverse=True)
    before = scores(race, key)
    fmt, own, original = (
        score_changes(before, scores(after, k)[None])[0] for after, k in ((arc, key), (swapped, moved), (swapped, key))
    )
    fmt_response, attr_response = (response_changes(race, after[None])[0] for after in (arc, swapped))
    nothing = np.full(len(rows), np.nan)
    rng = np.random.default_rng(0)
    found = [
        fmt.mean(), fmt_response.mean(), own.mean(), original.mean(), attr_response.mean(),
        *(ratio(a, f, nothing, cluster, rng=rng, n_resamples=20).estimate
          for a, f in ((own, fmt), (original, fmt), (attr_response, fmt_response))),
    ]  # fmt: skip
    expected = NOTES[condition]
    assert found[:5] == pytest.approx(expected[:5], abs=5e-5)
    assert found[5:] == pytest.approx(expected[5:], rel=3e-3)
