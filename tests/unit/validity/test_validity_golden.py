"""Measured values that the design rests on, from the published files: each shows a reader or an
edit gone wrong.

The table of the notes (section 1, A) is UnifiedQA's stored answers on BBQ through our edits and
statistics. Base: RACE prompt. Format edit: ARC prompt. Attribute edit: the partner row, in which
the two groups changed places."""

from pathlib import Path

import numpy as np
import pytest
from published_items import items_of, unifiedqa

from audit.scoring.reference import find_scorer
from audit.statistics.contracts import response_changes, score_changes, scores
from audit.statistics.selectivity import ratio
from audit.validity.edits.plan import Partners, _slot
from audit.validity.edits.record import Contract, formats_of
from audit.validity.edits.surface import FORMATS

# rows: fmt score, fmt response, attr own key, attr original key, attr response, CSR own, CSR
# original, CSR response
NOTES = {
    "": (0.1319, 0.1505, 0.1551, 0.6100, 0.6204, 1.175, 4.623, 4.123),
    "ambig": (0.2130, 0.2500, 0.2824, 0.2824, 0.2917, 1.326, 1.326, 1.167),
    "disambig": (0.0509, 0.0509, 0.0278, 0.9375, 0.9491, 0.545, 18.41, 18.64),
}


def response(item, text: str) -> int:
    plain = [option.lower().strip().rstrip(".") for option in item.published]
    return plain.index(text.lower().strip().rstrip("."))


@pytest.fixture(scope="module")
def answers(shared_data):
    """Per row: condition, key, key of the partner, and responses in the row's own published
    positions."""
    items, stored = unifiedqa(shared_data)
    race, arc = (
        {item.id: response(item, stored[item.id][f"unifiedqa-t5-11b_pred_{p}"]) for item in items}
        for p in ("race", "arc")
    )

    index, rows = Partners(items, 42).index, []
    for item in items:
        (other,) = [o for o in index[_slot(item)] if o.id != item.id and o.stem == item.stem]

        def here(position: int, other=other, item=item) -> int:
            if position == other.facts.unknown:
                return item.facts.unknown
            return [n.lower() for n, _ in item.facts.names].index(
                other.facts.names[position][0].lower()
            )

        pair = min(item.id, other.id)
        rows.append(
            (
                item.condition,
                item.key,
                here(other.key),
                race[item.id],
                arc[item.id],
                here(race[other.id]),
                pair,
            )
        )
    return rows


@pytest.mark.parametrize("condition", NOTES)
def test_the_three_conventions_give_the_three_ratios_of_the_notes(answers, condition):
    rows = [row for row in answers if not condition or row[0] == condition]
    assert len(rows) == (864 if not condition else 432)
    key, moved, race, arc, swapped = (np.array([row[k] for row in rows]) for k in range(1, 6))
    _, cluster = np.unique([row[6] for row in rows], return_inverse=True)
    before = scores(race, key)
    fmt, edited, original = (
        score_changes(before, scores(after, k)[None])[0]
        for after, k in ((arc, key), (swapped, moved), (swapped, key))
    )
    fmt_response, attr_response = (
        response_changes(race, after[None])[0] for after in (arc, swapped)
    )
    nothing = np.full(len(rows), np.nan)
    rng = np.random.default_rng(0)
    values = [
        fmt.mean(),
        fmt_response.mean(),
        edited.mean(),
        original.mean(),
        attr_response.mean(),
        *(
            ratio(a, f, nothing, cluster, rng=rng, n_resamples=20).estimate
            for a, f in ((edited, fmt), (original, fmt), (attr_response, fmt_response))
        ),
    ]
    expected = NOTES[condition]
    assert values[:5] == pytest.approx(expected[:5], abs=5e-5)
    assert values[5:] == pytest.approx(expected[5:], rel=3e-3)


def test_bbq_partners_over_every_file_there_is(shared_data: Path) -> None:
    """9,248 of 9,676 rows have a partner in the file; disambiguated gold moves in all but 66 pairs
    of one category."""
    rows = partnered = edited = still = 0
    for file in sorted((shared_data / "bbq" / "data").glob("*.jsonl")):
        items = items_of("bbq", file)
        rows += len(items)
        partners = Partners(items, 42)
        for item in items:
            others = [
                candidate
                for candidate in partners.index[_slot(item)]
                if candidate.id != item.id and candidate.stem == item.stem
            ]
            edits = list(partners.edits(item))
            partnered += bool(others)
            edited += bool(edits)
            still += (
                bool(others)
                and not edits
                and all(other.context != item.context for other in others)
            )
            assert all(
                (e.contract == Contract.DIRECTIONAL) == (item.condition == "disambig")
                for e in edits
            )
    assert (rows, partnered) == (9_676, 9_248)
    # Of these, 66 pairs say the same of the same once swapped, and 252 partners have the very same
    # context: no edit.
    assert (still, edited) == (2 * 66, 9_248 - 2 * 66 - 252)


def test_what_edits_of_toxigen_change_nothing(shared_data: Path) -> None:
    """Lower case would change nothing in 77.7 % of the texts, end punctuation in 83.3 %; the edits
    in next to none."""
    items = items_of("toxigen", shared_data / "toxigen" / "safenlp" / "toxiGen.json")
    # Single words have no space to double and titles are titles: the notes have .1 %, here .15 and
    # .17 %.
    for name in formats_of(find_scorer("toxigen")):
        assert np.mean([FORMATS[name][0](item).text == item.text for item in items]) < 0.002


def test_the_floor_makes_the_interval_of_mistral_on_xstest() -> None:
    """594/7 of 600: [46, 149] with a floor of .001, [46, 99.5] with .01, where a third of the
    resamples lie on it."""
    attr, fmt, sem = np.zeros((3, 200))
    attr[:198] = 1.0
    fmt[100:107], sem[60:65] = 1 / 3, 1 / 3
    low, high = (
        ratio(
            attr,
            fmt,
            sem,
            np.arange(200),
            rng=np.random.default_rng(1),
            epsilon=e,
            n_resamples=8_000,
        )
        for e in (0.001, 0.01)
    )
    assert (low.low, low.high) == (pytest.approx(46, abs=2), pytest.approx(149, abs=3))
    assert (high.low, high.high) == (pytest.approx(46, abs=2), pytest.approx(99.5, abs=0.6))
    assert high.floored == pytest.approx(0.34, abs=0.02)
