import csv
import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import DataError
from audit.statistics.mcnemar import mcnemar_exact
from audit.statistics.multiplicity import benjamini_hochberg, holm
from audit.sweep.paper import model_summary, router_summary, setting_row, setting_rows
from audit.sweep.record import Sweep

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = ROOT / "audit" / "data" / "song2026"
GOLDEN = ROOT / "tests" / "golden" / "statistics"


def read(name):
    with (PUBLISHED / name).open() as handle:
        return list(csv.DictReader(handle))


def table2():
    return [
        setting_row(
            r["model"],
            int(r["routers"]),
            round(100 * float(r["clean_accuracy"])),
            int(r["improve"]),
            int(r["degrade"]),
            100,
        )
        for r in read("table2_model_router.csv")
    ]


def sweep(clean, noisy, **more):
    clean, noisy = np.asarray(clean, float), np.atleast_2d(np.asarray(noisy, float))
    n = clean.size
    facts = {"model": "m", "benchmark": "b", "routers": tuple(range(1, len(noisy) + 1))} | more
    return Sweep(**facts, question_ids=tuple(f"q{i}" for i in range(n)), clean=clean, noisy=noisy, cluster=np.arange(n))


def test_one_setting_by_hand():
    #       right->right, wrong->right (improve) twice, right->wrong (degrade), wrong->wrong: gain (2 - 1) / 5
    (row,) = setting_rows(sweep([1, 0, 0, 1, 0], [1, 1, 1, 0, 0]))
    assert (row.clean_accuracy, row.noisy_accuracy) == (0.4, 0.6)
    assert (row.improve, row.degrade, row.violation) == (2, 1, True)
    assert row.gain == row.positive_excess == pytest.approx(0.2)


def test_pairs_without_both_answers_are_left_out_and_counted():
    (row,) = setting_rows(sweep([1, 0, np.nan, 1], [1, 1, 1, np.nan]))
    assert (row.n, row.left_out, row.improve, row.degrade) == (2, 2, 1, 0)
    assert row.gain == 0.5


def test_averaged_replicates_keep_the_gain():
    # c = 1, .5 and q = .5, 1: improve = .5 * 1, degrade = 1 * .5, gain 0.
    (row,) = setting_rows(sweep([1, 0.5], [0.5, 1]))
    assert (row.improve, row.degrade, row.gain, row.violation) == (0.5, 0.5, 0.0, False)


def test_rounding_is_no_violation():
    # Thirds do not add up in floating point; the means are equal, so there is no gain.
    (row,) = setting_rows(sweep([1 / 3] * 7 + [2 / 3] * 7, [2 / 3] * 7 + [1 / 3] * 7))
    assert row.gain == 0.0 and not row.violation


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40), st.randoms())
def test_swapping_arms_flips_the_gain_and_order_does_not_matter(pairs, random):
    clean, noisy = np.array(pairs, float).T
    (row,), (swapped,) = setting_rows(sweep(clean, noisy)), setting_rows(sweep(noisy, clean))
    assert swapped.gain == -row.gain
    assert (swapped.improve, swapped.degrade) == (row.degrade, row.improve)
    order = list(range(len(pairs)))
    random.shuffle(order)
    assert setting_rows(sweep(clean[order], noisy[order]))[0] == row


def test_no_pair_at_all():
    with pytest.raises(DataError, match="r=1"):
        setting_rows(sweep([np.nan], [1]))


def test_summaries_by_hand():
    rows = [
        setting_row("a", 1, 5, 2, 1, 10),
        setting_row("a", 2, 5, 0, 4, 10),
        setting_row("a", 3, 5, 3, 0, 10),
        setting_row("b", 1, 5, 1, 1, 10),
    ]
    a, b = model_summary(rows)
    # a: gains .1, -.4, .3: two violations of three, excess mean (.1 + .3) / 2, mean gain 0.
    assert (a.violation_count, a.violation_rate, a.max_positive_excess) == (2, 2 / 3, 0.3)
    assert a.mean_positive_excess == pytest.approx(0.2)
    assert a.mean_gain == pytest.approx(0.0)
    assert (b.violation_count, b.mean_positive_excess, b.mean_gain) == (0, 0.0, 0.0)
    first = router_summary(rows)[0]
    assert (first.routers, first.models, first.violating_models, first.violation_rate) == (1, 2, 1, 0.5)
    assert (first.improve, first.degrade, first.net_improve, first.mean_positive_excess) == (3, 2, 1, 0.1)


def test_table_1_as_printed_except_the_two_cells_that_do_not_follow():
    ours = {m.model: m for m in model_summary(table2())}
    differing = []
    for printed in read("table1_model_summary.csv"):
        for column in list(printed)[1:]:
            if abs(getattr(ours[printed["model"]], column) - float(printed[column])) > 0.0005 + 1e-9:
                differing.append((printed["model"], column))
    assert differing == [("Qwen3.5-35B", "mean_positive_excess"), ("Qwen3.5-35B", "mean_gain")]


def test_table_3_as_printed():
    for printed, ours in zip(read("table3_router_summary.csv"), router_summary(table2()), strict=True):
        for column in printed:
            assert getattr(ours, column) == pytest.approx(float(printed[column]), abs=0.0005 + 1e-9), (printed, column)


def test_table_2_gains_are_the_printed_ones():
    for printed, ours in zip(read("table2_model_router.csv"), table2(), strict=True):
        assert ours.gain == pytest.approx(float(printed["gain"]))
        assert ours.noisy_accuracy == pytest.approx(float(printed["noisy_accuracy"]))


def test_panel_equals_the_golden_values():
    golden = json.loads((GOLDEN / "panel.json").read_text())
    rows = table2()
    p = np.asarray(mcnemar_exact([r.improve for r in rows], [r.degrade for r in rows]).pvalue)
    assert np.allclose(p, list(golden["pvalues"].values()), atol=1e-11)
    assert sum(r.violation for r in rows) == golden["violations"] == 62
    assert sum(p < 0.05) == golden["p_below_05"] == 14
    assert sum(holm(p) < 0.05) == golden["holm_below_05"] == 3
    assert sum(benjamini_hochberg(p) < 0.05) == golden["bh_below_05"] == 4


def test_the_golden_values_are_what_their_script_makes():
    made = runpy.run_path(str(GOLDEN / "make_panel.py"))["panel"]()
    assert made == json.loads((GOLDEN / "panel.json").read_text())
