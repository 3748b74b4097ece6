"""Real answers to MMLU of ten models (HELM), and real texts: halves of one benchmark are no memory,
and of one kind."""

import ast
import csv
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from audit.memory.design import MemoryThresholds
from audit.memory.evidence import on_all_scales
from audit.statistics.completion import kind_auc
from audit.statistics.fresh_gap import fresh_gap
from audit.statistics.priors import PRIORS
from audit.statistics.rasch import ability_gaps

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"
PRIOR = PRIORS["held_out"]


def of_files(folder: Path) -> dict[tuple[str, tuple[str, ...]], str]:
    """Gold letter by question and choices."""
    golds = {}
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as handle:
            golds |= {(row[0], tuple(row[1:5])): row[5] for row in csv.reader(handle)}
    return golds


@cache
def answers() -> np.ndarray:
    """(10 models, items) right or wrong; what is no letter is wrong."""
    gold = of_files(DATA / "mmlu" / "test")
    rows = []
    for path in sorted((DATA / "mmlu_predictions" / "original_helm_combined").glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as handle:
            for row in csv.DictReader(handle):
                right = gold.get(
                    (row["question"], tuple(map(str, ast.literal_eval(row["choices"]))))
                )
                if right is not None:
                    rows.append([row[name].strip() == right for name in list(row)[2:]])
    return np.array(rows, dtype=float).T


def finds(rng: np.random.Generator, references: int, learnt: float = 0.0) -> float:
    """p of the gap of one model between random halves (1,000 and 500 items) against others, on all
    scales."""
    x = answers()
    items, models = rng.permutation(x.shape[1])[:1500], rng.permutation(len(x))[: references + 1]
    sets = [(x[k, items[:1000]], x[k, items[1000:]]) for k in models]
    sets[0] = (np.maximum(sets[0][0], rng.random(1000) < learnt), sets[0][1])
    gap = fresh_gap(sets[0], sets[1:], rng=rng, n_resamples=1999, prior=PRIOR)
    return on_all_scales(gap, ability_gaps(sets[0], sets[1:], prior=PRIOR, chance=(0.25, 0.25)))[0]


@pytest.mark.long
@pytest.mark.skipif(not (DATA / "mmlu_predictions").is_dir(), reason="no mmlu_predictions")
@pytest.mark.parametrize("references", [3, 8])
def test_halves_of_mmlu_are_no_gap(references):
    rng = np.random.default_rng(references)
    assert answers().shape[1] > 12_000
    p = np.array([finds(rng, references) for _ in range(100)])
    assert np.mean(p <= 0.05) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / p.size)
    assert np.mean(p <= 0.05 / 6) <= 0.03
    assert (
        np.mean([finds(rng, references, 0.5) <= 0.05 / 6 for _ in range(20)]) >= 0.3
    )  # half of what they miss learnt


@pytest.mark.skipif(not (DATA / "arc").is_dir(), reason="no arc")
def test_words_tell_another_benchmark_and_not_the_other_half():
    mmlu = [
        " ".join((question, *choices)) for question, choices in of_files(DATA / "mmlu" / "test")
    ]
    lines = (
        (DATA / "arc" / "ARC-Easy" / "ARC-Easy-Dev.jsonl").read_text(encoding="utf-8").splitlines()
    )
    arc = [
        " ".join(
            [row["question"]["stem"], *(choice["text"] for choice in row["question"]["choices"])]
        )
        for row in map(json.loads, lines)
    ]
    rng = np.random.default_rng(0)
    drawn = [mmlu[k] for k in rng.permutation(len(mmlu))[:2000]]

    def auc(a: list[str], b: list[str]):
        return kind_auc(a, b, (np.arange(len(a)), np.arange(len(b))), rng=rng)

    limit = MemoryThresholds().kind_auc_max
    half, other = auc(drawn[:1000], drawn[1000:]), auc(drawn[:1000], arc)
    assert half.low < 0.5 < half.high and half.high < limit < other.low
