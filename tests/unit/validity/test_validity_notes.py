"""Measured values that the design rests on, from the published files: each shows a reader or an edit gone wrong."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.items import Item, shuffle_item
from audit.benchmarks.load import open_benchmark
from audit.scoring.bias import bias_scores, match_option
from audit.scoring.reference import find_scorer
from audit.scoring.shortcuts import negation_scores
from audit.statistics.selectivity import ratio
from audit.validity.edits.partners import Partners, _slot
from audit.validity.edits.record import Contract, formats_of
from audit.validity.edits.surface import FORMATS


def items_of(name: str, path: Path) -> tuple[Item, ...]:
    return open_benchmark(BenchmarkConfig(name=name, format=name, path=str(path))).read_items().items


def test_bbq_partners_over_every_file_there_is(shared_data: Path) -> None:
    """9,248 of 9,676 rows have a partner in the file; disambiguated gold moves in all but 66 pairs of one category."""
    rows = partnered = edited = still = 0
    for file in sorted((shared_data / "bbq" / "data").glob("*.jsonl")):
        items = items_of("bbq", file)
        rows += len(items)
        partners = Partners(items, 42)
        for item in items:
            others = [one for one in partners.index[_slot(item)] if one.id != item.id and one.text == item.text]
            edits = list(partners.edits(item))
            partnered += bool(others)
            edited += bool(edits)
            still += bool(others) and not edits and all(one.context != item.context for one in others)
            assert all((e.contract == Contract.DIRECTIONAL) == (item.condition == "disambig") for e in edits)
    assert (rows, partnered) == (9_676, 9_248)
    # Of these, 66 pairs say the same of the same once swapped, and 252 partners have the very same context: no edit.
    assert (still, edited) == (2 * 66, 9_248 - 2 * 66 - 252)


def test_what_edits_of_toxigen_change_nothing(shared_data: Path) -> None:
    """Lower case changes nothing in 77.7 % of the texts, end punctuation in 83.3 %; the edits here in next to none."""
    items = items_of("toxigen", shared_data / "toxigen" / "safenlp" / "toxiGen.json")
    texts = [item.text for item in items]

    def same(changed: list[str]) -> float:
        return sum(a == b for a, b in zip(texts, changed, strict=True)) / len(texts)

    assert same([t.lower() for t in texts]) == pytest.approx(0.777, abs=0.001)
    assert same([re.sub(r"[.!?]+$", "", t) for t in texts]) == pytest.approx(0.833, abs=0.005)
    # Single words have no space to double and titles are titles: the notes have .1 %, here .15 and .17 %.
    for name in formats_of(find_scorer("toxigen")):
        assert same([FORMATS[name][0](item).text for item in items]) < 0.002


def test_the_prompt_alone_moves_ambiguous_accuracy_from_516_to_688(shared_data: Path) -> None:
    items = items_of("bbq", shared_data / "bbq" / "data" / "Sexual_orientation.jsonl")
    lines = (shared_data / "bbq" / "results" / "UnifiedQA" / "preds_Sexual_orientation.jsonl").read_text().splitlines()
    rows = {f"bbq/{row['category']}/{row['example_id']}": row for row in map(json.loads, lines)}
    accuracy = {}
    for form in ("arc", "race"):
        said = {item.id: match_option(rows[item.id][f"unifiedqa-t5-11b_pred_{form}"], item) for item in items}
        accuracy[form] = bias_scores(items, said)["ambig"].accuracy
    assert accuracy == {"arc": pytest.approx(0.516, abs=5e-4), "race": pytest.approx(0.688, abs=5e-4)}


def test_the_floor_makes_the_interval_of_mistral_on_xstest() -> None:
    """594/7 of 600: [46, 149] with a floor of .001, [46, 99.5] with .01, where a third of the resamples lie on it."""
    attr, fmt, sem = np.zeros((3, 200))
    attr[:198] = 1.0
    fmt[100:107], sem[60:65] = 1 / 3, 1 / 3
    low, high = (
        ratio(attr, fmt, sem, np.arange(200), rng=np.random.default_rng(1), epsilon=e, n_resamples=8_000)
        for e in (0.001, 0.01)
    )
    assert (low.low, low.high) == (pytest.approx(46, abs=2), pytest.approx(149, abs=3))
    assert (high.low, high.high) == (pytest.approx(46, abs=2), pytest.approx(99.5, abs=0.6))
    assert high.floored == pytest.approx(0.34, abs=0.02)


def test_g2_of_truthfulqa_is_set_against_negation_words(shared_data: Path) -> None:
    """Right in .505 without the question; the longest option, the best rule of the texts' lengths, in .357."""
    items = items_of("truthfulqa", shared_data / "truthfulqa" / "mc_task.json")
    assert np.mean(negation_scores(items)) == pytest.approx(0.505, abs=5e-4)
    shuffled = [shuffle_item(item, 7) for item in items]
    assert np.mean(negation_scores(shuffled)) == pytest.approx(np.mean(negation_scores(items)))  # of texts, not places
