"""Runs under several seeds: variation by hand, and that a status is given only where every run has it."""

from __future__ import annotations

from typing import Any

import pytest

from audit.errors import ConfigError
from audit.validity.__main__ import _seeds
from audit.validity.facets import UNSTABLE, facets_csv, lines, stability


def verdict(status: str, csr: float | None, difference: float, context: str = "") -> dict[str, Any]:
    ratio = {"own key": {"estimate": csr}} if csr is not None else {}
    d = {"difference": difference, "low": difference - 0.0196, "high": difference + 0.0196}  # a standard error of .01
    cell = {"model": "m", "benchmark": "b", "context": context, "verdict": status}
    return {"cells": [{**cell, "evidence": {"csr": ratio, "primary": d}}]}


def test_variation_between_seeds_is_what_sampling_leaves() -> None:
    (found,) = stability([verdict("selective", 2.0, 0.1), verdict("selective", 4.0, 0.2)])
    # sd of (2, 4) = 1.414, mean 3; sd of (.1, .2) = .0707: sqrt(.0707^2 - .01^2) = .07
    assert (found.csr, round(found.csr_cv or 0, 3), found.status) == (3.0, 0.471, "selective")
    assert (round(found.between or 0, 4), round(found.within or 0, 4)) == (0.07, 0.01)
    assert facets_csv([found]).splitlines()[1].split(",")[:5] == ["m on b", "2", "3", "0.471405", "0"]
    (calm,) = stability([verdict("selective", 2.0, 0.1), verdict("selective", 2.0, 0.101)])
    assert (calm.between, calm.csr_cv) == (0.0, 0.0)  # no more than sampling


def test_a_status_that_differs_is_none_and_a_missing_ratio_has_no_cv() -> None:
    (found,) = stability([verdict("selective", 2.0, 0.1), verdict("indeterminate", None, 0.2)])
    assert (found.status, found.csr_cv) == (UNSTABLE, None)
    assert lines([found])[0].startswith("m on b: unstable: selective, indeterminate (2 seeds, CV of CSR –")
    assert (
        len(stability([{"cells": [*verdict("a", 1.0, 0.1)["cells"], *verdict("a", 1.0, 0.1, "ambig")["cells"]]}])) == 2
    )


def test_a_list_of_seeds_is_a_run_each_in_a_folder_of_its_own() -> None:
    assert _seeds(["n=4", "run_dir=out", "seed=[42, 7]"]) == [
        ["n=4", "run_dir=out/seed_42", "seed=42"], ["n=4", "run_dir=out/seed_7", "seed=7"]
    ]  # fmt: skip
    assert _seeds(["seed=42"]) == [["seed=42"]]
    for words in (["seed=[1,1]"], ["seed=[1]"], ["seed=[1,2]", "benchmark=[bbq,xstest]"]):
        with pytest.raises(ConfigError, match="seed="):
            _seeds(words)
