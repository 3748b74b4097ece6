"""Runs under several seeds: variation by hand, and that a status is given only where every run has
it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from documents import LIMITS, cell_of, verdict_of_cells
from scripted_models import cell

from audit.core.errors import ConfigError
from audit.judging.decision import verdict_of
from audit.validity.__main__ import _runs
from audit.validity.facets import UNSTABLE, facets_csv, lines, stability, variance, variance_csv
from audit.validity.record import Cell

SELECTIVE, INDETERMINATE = "confirmatory_selective", "indeterminate"


def judged(status: str, csr: float | None, difference: float, context: str = "") -> dict[str, Any]:
    ratio = {"own key": {"estimate": csr, "low": None, "high": None}} if csr is not None else {}
    d = {
        "difference": difference,
        "low": difference - 0.0196,
        "high": difference + 0.0196,
    }  # a standard error of .01
    evidence = {"csr": ratio, "primary": d, "archetype": "diagnostic", "score": LIMITS}
    return cell_of(status, "validity", context=context, evidence=evidence)


def verdict(status: str, csr: float | None, difference: float) -> Any:
    return verdict_of(verdict_of_cells([judged(status, csr, difference)], "validity"))


def test_variation_between_seeds_is_what_sampling_leaves() -> None:
    (summary,) = stability([verdict(SELECTIVE, 2.0, 0.1), verdict(SELECTIVE, 4.0, 0.2)])
    # sd of (2, 4) = 1.414, mean 3; sd of (.1, .2) = .0707: sqrt(.0707^2 - .01^2) = .07
    assert (summary.csr, round(summary.csr_cv or 0, 3), summary.status) == (3.0, 0.471, SELECTIVE)
    assert (round(summary.between or 0, 4), round(summary.within or 0, 4)) == (0.07, 0.01)
    assert facets_csv([summary]).splitlines()[1].split(",")[:5] == [
        "m on b",
        "2",
        "3",
        "0.471405",
        "0",
    ]
    (calm,) = stability([verdict(SELECTIVE, 2.0, 0.1), verdict(SELECTIVE, 2.0, 0.101)])
    assert (calm.between, calm.csr_cv) == (0.0, 0.0)  # no more than sampling


def test_a_status_that_differs_is_none_and_a_missing_ratio_has_no_cv() -> None:
    (summary,) = stability([verdict(SELECTIVE, 2.0, 0.1), verdict(INDETERMINATE, None, 0.2)])
    assert (summary.status, summary.csr_cv) == (UNSTABLE, None)
    assert lines([summary])[0].startswith(
        "m on b: unstable: confirmatory_selective, indeterminate (2 runs, CV of CSR –"
    )
    both = [judged(SELECTIVE, 1.0, 0.1), judged(SELECTIVE, 1.0, 0.1, "ambig")]
    assert len(stability([verdict_of(verdict_of_cells(both, "validity"))])) == 2


def test_a_list_is_a_run_each_in_a_folder_of_its_own() -> None:
    assert _runs(["n=4", "run_dir=out", "seed=[42, 7]"]) == [
        ["n=4", "run_dir=out/seed_42", "seed=42"],
        ["n=4", "run_dir=out/seed_7", "seed=7"],
    ]
    crossed = _runs(["system=[none,careful]", "seed=[1,2]", "run_dir=out"])
    assert [run[2] for run in crossed] == [
        f"run_dir=out/seed_{seed}-system_{system}"
        for seed in (1, 2)
        for system in ("none", "careful")
    ]
    plain = ["--config-dir", "conf", "seed=42", "formats=[a,b]", "run_dir=out"]
    assert _runs(plain) == [plain]
    each = [
        "benchmark=[bbq,xstest]",
        "scorer=[bbq_arc,null]",
        "run_dir=out",
        "judge=qwen3_8b",
        "seed=1",
    ]
    assert _runs(each) == [
        ["benchmark=bbq", "scorer=bbq_arc", "run_dir=out/bbq", "seed=1"],
        ["benchmark=xstest", "scorer=null", "run_dir=out/xstest", "judge=qwen3_8b", "seed=1"],
    ]
    paths = [
        run[1] for run in _runs(["benchmark=[bbq, xstest]", "benchmark.path=[a b.jsonl, x.csv]"])
    ]
    assert paths == ["benchmark.path=a b.jsonl", "benchmark.path=x.csv"]
    assert _runs(["benchmark=[bbq,toxigen]", "judge=m"])[0] == [
        "benchmark=bbq",
        "judge=m",
    ]  # it is refused there


@pytest.mark.parametrize(
    "words",
    [
        "seed=[1,1]",
        "seed=[1]",
        "seed=[1,2] benchmark=[bbq,xstest]",
        "template=[task]",
        "benchmark=[bbq,xstest] benchmark.path=[a]",
    ],
)
def test_a_facet_of_one_value_or_beside_several_benchmarks_is_refused(words: str) -> None:
    with pytest.raises(ConfigError):
        _runs(words.split())


def runs(
    rate: Callable[[int, str], float], *, other_items: bool
) -> tuple[list[list[Cell]], dict[str, Any]]:
    """Two seeds x two templates; rate: of right answers by seed and template. The first items
    score."""
    base = cell(lambda trial: trial.key, n=40)
    cells, facets = [], {"seed": [1, 1, 2, 2], "template": ["a", "b", "a", "b"]}
    for seed, template in zip(facets["seed"], facets["template"], strict=True):
        right = np.arange(40) < 40 * rate(seed, template)
        original = replace(
            base.original, response=np.where(right, base.original.key, base.original.key + 1)
        )
        ids = tuple(f"{seed * other_items}-{i}" for i in range(40))
        cells.append([replace(base, original=original, question_ids=ids)])
    return cells, facets


def test_what_moves_a_score_is_told_apart() -> None:
    (alike,) = variance(*runs(lambda seed, template: 0.5, other_items=False))
    assert {effect for effect, value in alike.components.items() if value > 0} == {
        ("item",)
    } and alike.between == 0
    (moved,) = variance(
        *runs(lambda seed, template: 0.5 if template == "a" else 1.0, other_items=False)
    )
    assert moved.components["template",] > 0 and moved.components["seed",] == 0
    # Scores of .5 and 1: a standard deviation of .354 between templates, with and without items'
    # sampling.
    assert 0.3 < moved.between < 0.36
    (nested,) = variance(*runs(lambda seed, template: 0.5, other_items=True))
    assert set(nested.components) == {
        ("seed",),
        ("template",),
        ("seed", "template"),
        ("seed", "item"),
        ("seed", "template", "item"),
    }
    assert len(variance_csv([nested]).splitlines()) == 6
