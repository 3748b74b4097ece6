"""Exit codes of the gate: documented, and worst first."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from outcome_tables import analyse_outcomes
from synthetic import synthetic_outcomes

from audit.gate import exit_code, main


def verdict(*names: str) -> dict[str, object]:
    cells = [{"verdict": n, "headline": "h", "reasons": ["why"], "controls_missing": []} for n in names]
    return {"cells": cells, "rows": [], "runs": []}


def written(tmp_path: Path, text: str) -> str:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "verdict.json").write_text(text, encoding="utf-8")
    return str(tmp_path)


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (("no_excess_detected",), 0),
        (("excess_explained_by_ensembling",), 0),
        (("excess",), 3),
        (("withheld",), 4),
        (("brittle",), 4),
        (("underpowered",), 4),
        (("no_excess_detected", "withheld"), 4),
        (("withheld", "excess", "no_excess_detected"), 3),
        ((), 1),
    ],
)
def test_exit_codes(names: tuple[str, ...], code: int, tmp_path: Path) -> None:
    assert exit_code(verdict(*names)) == code
    assert main([written(tmp_path, json.dumps(verdict(*names)))]) == code


def test_an_unknown_verdict_is_refused() -> None:
    with pytest.raises(ValueError, match="guilty"):
        exit_code(verdict("guilty"))


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"cells": []}', '{"cells": [{"verdict": "guilty"}]}', '{"cells": [3]}']
)
def test_a_file_that_is_no_verdict_means_the_run_failed(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main([written(tmp_path, text)]) == 1
    assert "verdict.json" in capsys.readouterr().err


def test_a_missing_report_means_the_run_failed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main([str(tmp_path)]) == 1
    assert "is missing" in capsys.readouterr().err


def test_a_real_verdict_is_printed_with_its_reasons(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = analyse_outcomes(
        synthetic_outcomes(60, (1, 2), rng=np.random.default_rng(1), model="[bold]m[/bold]", with_direct=False),
        n_resamples=199,
    )
    assert main([written(tmp_path, run.to_json())]) == exit_code(run.to_dict()) == 4
    printed = capsys.readouterr().out
    assert "UNDERPOWERED" in printed and "not run: direct" in printed and "exit code 4" in printed
    assert "[bold]m[/bold]" in printed  # a model's name is text, not markup


def test_an_incomplete_run_has_failed_whatever_its_verdict(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    short = {"model": "m", "benchmark": "b", "found": 512, "expected": 1000}
    whole = {"model": "other", "benchmark": "b", "found": 1000, "expected": 1000}
    for name in ("no_excess_detected", "excess", "withheld"):
        assert exit_code({**verdict(name), "rows": [short, whole]}) == 1
    assert exit_code({**verdict("excess"), "rows": [whole, {**whole, "expected": None}]}) == 3
    assert main([written(tmp_path, json.dumps({**verdict("no_excess_detected"), "rows": [short]}))]) == 1
    first, *_ = capsys.readouterr().out.splitlines()
    assert first == "INCOMPLETE, 512 OF 1,000 ANSWERS: m on b"  # before any verdict
