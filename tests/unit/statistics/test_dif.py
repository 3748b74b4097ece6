"""Mantel-Haenszel by group: R's worked example, its level where groups differ and rows cluster, and
strata too thin."""

import numpy as np
import pytest

from audit.core.errors import DataError
from audit.statistics.dif import by_group, mantel_haenszel

# R's UCBAdmissions, departments A to F: men admitted, rejected; women admitted, rejected.
BERKELEY = (
    (512, 313, 89, 19),
    (353, 207, 17, 8),
    (120, 205, 202, 391),
    (138, 279, 131, 244),
    (53, 138, 94, 299),
    (22, 351, 24, 317),
)


def berkeley():
    """(right, focal, stratum): one row an applicant; women are the focal group."""
    cells = [(1.0, False), (0.0, False), (1.0, True), (0.0, True)]
    rows = [
        (*cells[i], k)
        for k, counts in enumerate(BERKELEY)
        for i, n in enumerate(counts)
        for _ in range(n)
    ]
    right, focal, stratum = zip(*rows, strict=True)
    return np.array(right), np.array(focal), np.array(stratum)


def test_r_s_worked_example():
    """`mantelhaen.test(UCBAdmissions)` prints: X-squared = 1.4269, p-value = 0.2323, 95 percent
    confidence interval 0.7719074 1.0603298, common odds ratio 0.9046968."""
    table = mantel_haenszel(*berkeley())
    assert (round(table.chi_square, 4), round(table.pvalue, 4)) == (1.4269, 0.2323)
    assert (table.odds_ratio, table.low, table.high) == pytest.approx(
        (0.9046968, 0.7719074, 1.0603298), abs=5e-8
    )
    assert (table.strata, table.focal, table.reference, table.design_effect) == (
        6,
        1835,
        2691,
        1.0,
    ) and table.enough
    assert table.delta == pytest.approx(-2.35 * np.log(table.odds_ratio))


def test_rows_that_stand_there_twice_count_once():
    right, focal, stratum = berkeley()
    once = mantel_haenszel(right, focal, stratum)
    twice = mantel_haenszel(
        *(np.repeat(x, 2) for x in (right, focal, stratum)), np.repeat(np.arange(right.size), 2)
    )
    assert twice.design_effect == pytest.approx(2)
    assert (twice.low, twice.high) == pytest.approx(
        (once.low, once.high), rel=1e-4
    )  # Student with 4,525 degrees
    assert twice.chi_square == pytest.approx(
        once.chi_square, rel=0.05
    )  # but for the continuity correction
    with pytest.raises(DataError, match="the same shape"):
        mantel_haenszel(right, focal, stratum, np.arange(3))


def test_thin_strata_have_no_p_value_and_no_part_in_holm():
    """Mantel & Fleiss: two right and two wrong in each group of one stratum leave the expected 2 a
    room of 2."""
    thin = mantel_haenszel(
        np.array([1.0, 1, 0, 0] * 2), np.repeat([False, True], 4), np.zeros(8, dtype=int)
    )
    assert thin.room == 2.0 and not thin.enough
    none = mantel_haenszel(np.ones(6), np.array([True, False] * 3), np.zeros(6, dtype=int))
    assert np.isnan(none.pvalue) and none.strata == 0 and not none.enough
    right, focal, stratum = berkeley()
    few = np.zeros(right.size, dtype=bool)
    few[np.flatnonzero(focal)[:4]] = True
    members, sizes = (
        {"women": focal, "men": ~focal, "few": few},
        {"women": 1835, "men": 2691, "few": 4},
    )
    results = {
        result.group: result
        for result in by_group(right, stratum, members, np.arange(right.size), sizes)
    }
    assert results["few"].pvalue is None and list(results) == ["few", "men", "women"]
    raw = mantel_haenszel(right, focal, stratum, np.arange(right.size)).pvalue
    assert (
        results["women"].pvalue == results["men"].pvalue == pytest.approx(2 * raw)
    )  # over two groups, not three
    assert results["women"].table.odds_ratio == pytest.approx(1 / results["men"].table.odds_ratio)


def _false_alarms(*, studied_in_total: bool, clustered: bool) -> float:
    """Share of 400 samples with p < .05, none of which has DIF: the focal group finds everything
    harder (Rasch)."""
    rng = np.random.default_rng(11)
    items, alarms = 200, 0
    for _ in range(400):
        focal = np.arange(items) % 2 == 0
        ability = rng.normal(0, 1, items) - 1.5 * focal
        p = 1 / (1 + np.exp(-ability))
        total = (rng.random((7, items)) < p).sum(axis=0)
        right = rng.random(items) < p
        cluster = np.arange(items)
        if clustered:  # pairs of one group that answer as one
            right[2::4], total[2::4], focal[2::4] = right[::4], total[::4], focal[::4]
            right[3::4], total[3::4], focal[3::4] = right[1::4], total[1::4], focal[1::4]
            cluster = np.arange(items) // 4 * 2 + np.arange(items) % 2
        alarms += (
            mantel_haenszel(
                right.astype(float), focal, total + studied_in_total * right, cluster
            ).pvalue
            < 0.05
        )
    return alarms / 400


def test_the_level_holds_where_groups_differ_if_the_total_has_what_is_studied():
    """Holland & Thayer 1988: under Rasch's model the total must hold the studied answer itself."""
    assert _false_alarms(studied_in_total=True, clustered=False) <= 0.05 + 3 * np.sqrt(
        0.05 * 0.95 / 400
    )
    assert _false_alarms(studied_in_total=False, clustered=False) > 0.15
    assert _false_alarms(studied_in_total=True, clustered=True) <= 0.05 + 3 * np.sqrt(
        0.05 * 0.95 / 400
    )


def test_statsmodels_agrees():
    statsmodels = pytest.importorskip("statsmodels.stats.contingency_tables")
    tables = [np.array(counts).reshape(2, 2) for counts in BERKELEY]
    expected = statsmodels.StratifiedTable(tables)
    table = mantel_haenszel(*berkeley())
    assert (table.low, table.high) == pytest.approx(expected.oddsratio_pooled_confint())
    assert table.chi_square == pytest.approx(expected.test_null_odds(correction=True).statistic)
