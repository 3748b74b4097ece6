"""Tables: the paper's numbers from its own Table 2, and cells that no spreadsheet runs."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from audit.statistics.chance import interval
from audit.sweep import accuracy
from audit.sweep.paper import SettingRow, setting_row
from audit.verdict.tables import csv_text

PUBLISHED = Path(__file__).resolve().parents[3] / "audit" / "data" / "song2026"


def _published(name: str) -> list[dict[str, str]]:
    with (PUBLISHED / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _rows() -> list[SettingRow]:
    return [
        setting_row(
            r["model"], int(r["routers"]), round(100 * float(r["clean_accuracy"])), int(r["improve"]),
            int(r["degrade"]), 100,
        )
        for r in _published("table2_model_router.csv")
    ]  # fmt: skip


def _read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_table1_gives_the_printed_counts_and_excesses() -> None:
    """From improve and degrade, all but Qwen3.5-35B (two of its cells do not follow from Table 2)."""
    mine = {r["model"]: r for r in _read(accuracy.table1(_rows()))}
    for printed in _published("table1_model_summary.csv"):
        own = mine[printed["model"]]
        assert int(own["violation_count"]) == int(printed["violation_count"]), printed["model"]
        assert float(own["max_positive_excess"]) == pytest.approx(float(printed["max_positive_excess"]), abs=1e-9)
        if printed["model"] != "Qwen3.5-35B":
            assert float(own["mean_positive_excess"]) == pytest.approx(
                float(printed["mean_positive_excess"]), abs=5.001e-4
            )
            assert float(own["mean_gain"]) == pytest.approx(float(printed["mean_gain"]), abs=5.001e-4)
    assert sum(int(r["violation_count"]) for r in mine.values()) == 62


def test_table3_gives_the_printed_rows() -> None:
    mine = {r["routers"]: r for r in _read(accuracy.table3(_rows()))}
    for printed in _published("table3_router_summary.csv"):
        own = mine[printed["routers"]]
        for column in ("violating_models", "improve", "degrade", "net_improve"):
            assert int(own[column]) == int(printed[column]), (printed["routers"], column)
        assert float(own["mean_positive_excess"]) == pytest.approx(float(printed["mean_positive_excess"]), abs=5.001e-4)


def test_table2_has_the_published_columns_first() -> None:
    published = list(_published("table2_model_router.csv")[0])
    header = accuracy.table2(_rows()).splitlines()[0].split(",")
    assert header[: len(published)] == published


@pytest.mark.parametrize("text", ["=1+1", "+1", "-cmd", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_from_outside_starts_a_formula(text: str) -> None:
    row = next(csv.reader(io.StringIO(accuracy.write(("a",), [(text,)]).split("\n", 1)[1])))
    assert row == ["'" + text.replace("\r", "\n")]


def test_negative_numbers_stay_numbers() -> None:
    assert accuracy.write(("a", "b", "c", "d"), [(-0.25, -3, None, -0.0)]) == "a,b,c,d\n-0.25,-3,,0\n"
    assert (
        csv_text(("a", "b", "c"), [("-0.25", "-1.5e-07", "-1+A1")]) == "a,b,c\n-0.25,-1.5e-07,'-1+A1\n"
    )  # every audit


def test_interval_is_wilsons() -> None:
    """26 of 100: Wilson by hand, centre (p + z^2/2n) / (1 + z^2/n)."""
    values = np.array([1.0] * 26 + [0.0] * 74 + [np.nan] * 5)
    z, n, p = 1.959963984540054, 100, 0.26
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    found = interval(values, np.arange(105))
    assert found is not None
    assert found == pytest.approx((p, centre - half, centre + half))


def test_whole_clusters_count_as_one() -> None:
    """Items that repeat their cluster's answer carry one item's information: n = 20 clusters, not 100 items, with
    Student's quantile over them."""
    rng = np.random.default_rng(0)
    one = (rng.random(20) < 0.5).astype(float)
    clustered = interval(np.repeat(one, 5), np.repeat(np.arange(20), 5))
    alone = interval(one, np.arange(20))
    wrong = interval(np.repeat(one, 5), np.arange(100))
    assert clustered is not None
    assert alone is not None
    assert wrong is not None
    assert clustered[2] - clustered[1] == pytest.approx(1.08 * (alone[2] - alone[1]), rel=0.03)
    assert wrong[2] - wrong[1] < 0.6 * (alone[2] - alone[1])
    assert interval(np.array([np.nan]), np.array([0])) is None
