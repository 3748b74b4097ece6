"""Which benchmarks a model could have read, by the dates of configurations and what an index search
found."""

import json
from pathlib import Path

import pytest
from commands_here import inventory

from audit.commands.inventory import exposure, months_between
from audit.config.base import CONF_DIR, load_group


@pytest.mark.parametrize(
    ("published", "released", "months"),
    [
        ("2024-05", "2024-05", 0),
        ("2021-10", "2024-07", 33),
        ("2021", "2021-03", 2),
        ("2024-07-31", "2024-05", -2),
        (None, "2024-05", None),
    ],
)
def test_months_are_counted_by_the_calendar(
    published: str | None, released: str, months: int | None
) -> None:
    assert months_between(published, released) == months


def test_what_is_newer_than_the_model_needs_no_run_and_what_is_older_does() -> None:
    about = {"date": "2024-12", "hub": "h", "format": "mmlu"}
    assert exposure("b", about, "m", "2024-05", "").next == ""
    assert exposure("b", about, "m", "2024-12", "").next  # in the same month: who knows
    assert (
        exposure("b", about, "m", "2025-01", "").next
        == "audit memory model=m benchmark=b control_benchmark=YOUR_HELD_OUT_ITEMS"
    )
    assert (
        exposure("b", about, "m", None, "").months is None
        and exposure("b", about, "m", None, "").next
    )


def test_a_suite_and_an_index_search_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = tmp_path / "found.csv"
    index.write_text("benchmark,found_in\ngsm8k,C4\n")
    assert (
        inventory(
            ["gsm8k_contamination_audit_v3", "--model", "qwen3_8b", "--found", str(index), "--json"]
        )
        == 0
    )
    rows = json.loads(capsys.readouterr().out)
    assert {(row["benchmark"], row["months"], row["found"]) for row in rows} == {
        ("gsm8k", None, "C4"),
        ("gsm8k", 42, "C4"),
    }


def test_a_file_with_other_columns_and_an_unknown_model_are_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("a,b\n1,2\n")
    assert inventory(["--found", str(wrong)]) == 1 and inventory(["--model", "nowhere"]) == 1


def test_every_published_benchmark_has_a_date() -> None:
    benchmarks = {
        path.stem: load_group("benchmark", path.stem)
        for path in (CONF_DIR / "benchmark").glob("*.yaml")
    }
    assert [
        name
        for name, about in benchmarks.items()
        if (about.get("hub") or about.get("url")) and not about.get("date")
    ] == []
