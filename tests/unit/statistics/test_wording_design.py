import numpy as np
import pytest

from audit.errors import DataError
from audit.statistics.power import minimum_detectable_gain
from audit.statistics.wording_design import detectable_drop, drop_standard_error, items_needed, volume_table
from audit.statistics.wording_drop import item_means


def test_items_before_variants():
    """At 2,000 calls: 1000 items x 1 variant 1.41 points, 500 x 3 1.63 (notes, section 2)."""
    assert 100 * drop_standard_error(1000, 1, 0.2) == pytest.approx(1.41, abs=0.005)
    assert 100 * drop_standard_error(500, 3, 0.2) == pytest.approx(1.63, abs=0.005)


def test_the_formula_is_the_spread_of_simulated_drops():
    rng = np.random.default_rng(1)
    theta = rng.beta(2, 1, size=(2000, 200))  # flip 2 E[theta (1 - theta)] = 2 (2/3 - 1/2) = 1/3
    drops = []
    for row in theta:
        o, v = item_means((rng.random((1, 200)) < row).astype(float), (rng.random((3, 200)) < row).astype(float))
        drops.append((o - v).mean())
    assert np.std(drops) == pytest.approx(drop_standard_error(200, 3, 1 / 3), rel=0.05)


def test_near_the_exact_test_with_one_variant():
    assert detectable_drop(1000, 1, 0.2) == pytest.approx(minimum_detectable_gain(1000, 0.2, alpha=0.025), rel=0.1)


def test_references_and_margin_cost():
    plain = (1.6449 + 0.8416) * drop_standard_error(500, 3, 0.2)
    assert detectable_drop(500, 3, 0.2, references=1) == pytest.approx(plain * np.sqrt(2), rel=1e-4)
    # A drop has to pass its interval too, which is two-sided, and the margin: whichever asks for more.
    two_sided = (1.9600 + 0.8416) * drop_standard_error(500, 3, 0.2)
    assert detectable_drop(500, 3, 0.2) == pytest.approx(two_sided, rel=1e-4)
    assert detectable_drop(500, 3, 0.2, margin=0.001) == pytest.approx(two_sided, rel=1e-4)
    assert detectable_drop(500, 3, 0.2, margin=0.05) == pytest.approx(plain + 0.05, rel=1e-4)
    for margin in (0.0, 0.001, 0.01, 0.03):
        enough = items_needed(0.05, 3, 0.2, margin=margin)
        assert enough is not None
        found = [detectable_drop(n, 3, 0.2, margin=margin) for n in (enough - 1, enough)]
        assert found[0] > 0.05 >= found[1] - 1e-12
    # Tables of t: 2.920 + 1.061 with 2 degrees of freedom, 2.132 + 0.941 with 4; 1.645 + 0.842 of the normal.
    for references, df in ((3, 2.920 + 1.061), (5, 2.132 + 0.941)):
        wider = np.sqrt(1 + 1 / references) * df / (1.645 + 0.842)
        assert detectable_drop(500, 3, 0.2, references=references) == pytest.approx(plain * wider, rel=1e-3)


def test_the_articles_table_with_statements_that_hold():
    rows = volume_table(1000, 0.2, references=5)
    assert [(r.variants, r.calls, r.relative_cost) for r in rows] == [
        (0, 1000, 1), (2, 3000, 3), (4, 5000, 5), (9, 10000, 10)
    ]  # fmt: skip
    assert [r.smallest_item_p for r in rows[1:]] == pytest.approx([1 / 3, 1 / 5, 1 / 10])
    assert "p < 0.01" in rows[3].article and "p < 0.05: " in rows[3].valid and "0.1." in rows[3].valid
    assert np.isnan(rows[0].detectable) and "points" not in rows[0].valid
    assert " p = 0.1," in volume_table(1000, 0.2, alpha=0.1)[3].valid
    assert all(r.beyond_reference >= r.detectable for r in volume_table(3000, 0.2, references=8, margin=0.015)[1:])
    assert rows[1].detectable > rows[3].detectable and rows[1].beyond_reference > rows[1].detectable


def test_impossible_designs_are_refused():
    with pytest.raises(DataError, match="at least one rewording"):
        drop_standard_error(500, 0, 0.2)
