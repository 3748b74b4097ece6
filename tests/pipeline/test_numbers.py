"""Free-form items in an audit whose rows are one call: asked for a number, read, and scored against the target."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import toy_audit
from pipeline_helpers import rows_of
from ray import cloudpickle
from rich.console import Console
from toy_audit import TOY, run_toy

from audit.errors import ConfigError
from audit.scoring.number import read_number
from audit.shards.manifest import Manifest
from audit.shards.read import load_cells
from audit.statistics.paired import State
from audit.summary import print_cells

GSM8K = Path(__file__).resolve().parents[3] / "shared" / "data" / "gsm8k" / "test.jsonl"


def overrides(path: Path, n: int) -> tuple[str, ...]:
    return (
        "benchmark.name=gsm8k", "benchmark.format=gsm8k", f"benchmark.path={path}", f"n={n}", "volumes=1",
        "model.scripted.scripted.parse_failures=0.2", "model.scripted.scripted.accuracy.original=0.9",
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(driver, tmp_path_factory) -> Path:
    if not GSM8K.is_file():
        pytest.skip("shared/data/gsm8k/test.jsonl is not beside this checkout")
    cloudpickle.register_pickle_by_value(toy_audit)
    run_dir = tmp_path_factory.mktemp("numbers") / "run"
    assert run_toy(run_dir, *overrides(GSM8K, 10)).rows == 20
    return run_dir


def test_gsm8k_rows_are_scored_by_their_number(finished: Path) -> None:
    published = [json.loads(line) for line in GSM8K.read_text().splitlines()]
    rows = rows_of(finished)
    for row in rows:
        item = published[int(row["question_id"].removeprefix("gsm8k/"))]
        assert row["target"] == float(item["answer"].split("####")[1].replace(",", ""))
        assert row["prompt"].startswith("Solve the problem below.")
        shown = item["question"].upper() + "!" if row["arm"] == "variant" else item["question"]
        assert row["prompt"].endswith(f"\n\n{shown}") or item["question"] != item["question"].strip()
        assert (row["reading"], row["options"], row["gold"], row["answer"]) == ("number", [], -1, None)
        assert row["answer_number"] == read_number(row["response"]).value
        assert row["correct"] == (None if row["answer_number"] is None else row["answer_number"] == row["target"])
        assert row["parsed"] == (row["answer_number"] is not None) and row["error"] is None
        assert row["answer_form"] == ("marked" if row["parsed"] else "none")
    assert {row["correct"] for row in rows} == {True, False, None}


def test_a_number_is_not_guessed(finished: Path) -> None:
    assert Manifest.load(finished).benchmark["gsm8k"]["chance"] == 0
    (cell,) = load_cells(finished, TOY.schema)
    assert set(cell.n_options) == {0} and cell.reading == "number"
    assert {State.CORRECT, State.WRONG, State.UNPARSED} == {State(s) for s in cell.state.flat}
    out = io.StringIO()
    print_cells([cell], TOY, Console(file=out, width=120))
    assert "chance 0.000" in out.getvalue()


def test_readings_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="reading=letter does not fit benchmark gsm8k, whose answers are numbers"):
        run_toy(tmp_path / "run", *overrides(tmp_path / "no.jsonl", 1), "reading=letter")
    with pytest.raises(ConfigError, match="whose items have options"):
        run_toy(tmp_path / "run", "n=1", "reading=number")
    with pytest.raises(ConfigError, match="reads no answer"):
        run_toy(tmp_path / "run", "n=1", "reading=text")
