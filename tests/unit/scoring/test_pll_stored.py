"""Stored pseudo-log-likelihoods of a tiny masked model (tests/golden/crows/make_tiny.py) give its stored metric."""

import json
from pathlib import Path

import pytest

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.scoring.pll import crows_metric, read_mlm
from audit.scoring.scored import scored_reply

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "crows"


def test_the_stored_pseudo_likelihoods_give_the_stored_metric(shared_data: Path) -> None:
    stored = json.loads((GOLDEN / "pll.json").read_text())
    path = shared_data / "crows_pairs" / "crows_pairs_anonymized.csv"
    items = open_benchmark(BenchmarkConfig(name="crows_pairs", format="crows_pairs", path=str(path))).read_items().items
    read = {item.id: read_mlm(item, scored_reply(pair)) for item, pair in zip(items, stored["pll"], strict=False)}
    found = crows_metric(items, {id_: scored.response for id_, scored in read.items()})
    assert (found.n, found.neutral) == (stored["n"], stored["neutral"])
    assert found.metric == pytest.approx(stored["more"] / stored["n"])
