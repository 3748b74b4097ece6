"""Real answers: ConStat's public models on ARC, the strongest against the weakest. Skipped where
its tables are not."""

import csv
import runpy
from pathlib import Path

import numpy as np
import pytest
from constat_agreement import agreement
from long_tests import long
from scipy.interpolate import make_smoothing_spline

from audit.core.errors import DataError
from audit.statistics.performance_curve import _PENALTIES, curve_test, fit_curve, smoothing_penalty


@pytest.mark.parametrize(("seed", "n"), [(1, 14), (0, 6)])
def test_the_penalty_is_the_one_with_the_smallest_cross_validation_score(seed, n):
    """GCV written out: SciPy's spline of every unit vector gives the smoother's matrix."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.random(n))
    y = np.sort(np.clip(x**2 + rng.normal(0, 0.03, n), 0, 1))
    scores = []
    for penalty in _PENALTIES:
        smoother = np.stack(
            [make_smoothing_spline(x, unit, lam=penalty)(x) for unit in np.eye(n)], axis=1
        )
        rest = y - smoother @ y
        scores.append(n * (rest @ rest) / (n - np.trace(smoother)) ** 2)
    assert smoothing_penalty(x, y) == pytest.approx(_PENALTIES[int(np.argmin(scores))])


def test_a_matched_curve_pairs_ranks_and_stays_within_0_and_1():
    x, y = np.array([0.2, 0.4, 0.6, 0.8, 0.9, 0.5]), np.array([0.9, 0.2, 0.5, 0.4, 0.8, 0.6])
    curve = fit_curve(x, y, penalty=1e-9)
    np.testing.assert_allclose(curve(np.sort(x)), np.sort(y), atol=1e-3)
    assert 0 <= float(curve(np.array(5.0))) <= 1
    line = fit_curve(
        np.array([0.2, 0.2, 0.6]), np.array([0.1, 0.3, 0.6])
    )  # two different x: (.2, .2) and (.6, .6)
    assert float(line(np.array(0.4))) == pytest.approx(0.4)


def test_models_that_differ_by_rounding_alone_are_one_point():
    x = np.array([0.25, 0.5, 0.6, 0.6 + 1e-16, 0.6 + 1e-15, 0.7, 0.8, 0.9])
    assert float(fit_curve(x, x, penalty=1e-4)(np.array(0.6))) == pytest.approx(0.6, abs=1e-3)


def test_a_model_on_the_curve_but_for_rounding_is_not_off_it():
    """All models alike: delta was 2e-16 in every row, and p 1/101."""
    same = np.full((101, 7), 0.7)
    curve = curve_test(
        same, same, anchor=(0.25, 0.25), anchor_items=(100, 100), rng=np.random.default_rng(0)
    )
    assert curve.pvalue == 1 and abs(curve.delta) < 1e-9


def test_too_few_references_are_refused():
    with pytest.raises(DataError, match="R >= 5"):
        curve_test(
            np.ones((3, 5)),
            np.ones((3, 5)),
            anchor=(0, 0),
            anchor_items=(9, 9),
            rng=np.random.default_rng(0),
        )


@pytest.mark.parametrize("table", ["arc_rephrase", long("gsm8k_rephrase")])
def test_published_decisions_are_found_again(shared_data, table):
    """ConStat's tables, from the aggregate figures that are published (see
    constat_agreement.py)."""
    with (shared_data / "constat" / "tables" / f"{table}.csv").open() as handle:
        figures = agreement(table, list(csv.DictReader(handle)), n_draws=30)
    assert figures["models"] == 65 and figures["decisions"] >= 0.9
    assert figures["delta_correlation"] > 0.98
    assert figures["median_delta_difference"] < 0.008


def test_every_row_fits_five_different_references_at_least():
    class Watched(np.random.Generator):
        drawn: list[set[int]] = []

        def integers(self, *args, **kwargs):
            draw = super().integers(*args, **kwargs)
            self.drawn.append(set(draw.tolist()))
            return draw

    rng = Watched(np.random.PCG64(1))
    y = np.clip(np.linspace(0.4, 0.8, 7) + 0.01 * rng.normal(size=(31, 7)), 0, 1)
    curve_test(y, y, anchor=(0.25, 0.25), anchor_items=(100, 100), rng=rng)
    enough = [len(draw) >= 5 for draw in rng.drawn]
    assert not all(enough) and sum(enough) == 30
    # the first draw of a row and those in its place: every reference, and not the tested model
    for firsts in (True, False):
        drawn = [
            draw
            for draw, before in zip(rng.drawn, [True, *enough], strict=False)
            if before is firsts
        ]
        assert set().union(*drawn) == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize(("references", "resampled"), [(5, False), (6, True)])
def test_five_reference_models_are_all_used_and_more_are_resampled(references, resampled):
    """Nothing else is drawn: the items are the same in every row, and a guesser who is never right
    is no draw."""
    y = np.tile(np.linspace(0.4, 0.8, references + 1) ** 2, (31, 1))
    curve = curve_test(
        y, np.sqrt(y), anchor=(0, 0), anchor_items=(9, 9), rng=np.random.default_rng(1)
    )
    assert (curve.delta_se > 1e-6) == resampled


def test_the_lower_bound_is_the_threshold_that_is_just_rejected():
    y = np.clip(
        np.linspace(0.4, 0.8, 7) + 0.02 * np.random.default_rng(2).normal(size=(201, 7)), 0, 1
    )
    x, options = y[::-1].copy(), {"anchor": (0.25, 0.25), "anchor_items": (100, 100)}
    y[:, 0] += 0.15  # the tested model is better than its references say
    curve = curve_test(y, x, **options, rng=np.random.default_rng(1))
    at_bound = curve_test(y, x, **options, threshold=curve.delta_low, rng=np.random.default_rng(1))
    assert at_bound.pvalue == pytest.approx(0.05, abs=0.01) and curve.delta_low < curve.delta
    low, high = curve.expected - curve.expected_low, curve.expected_high - curve.expected
    assert 0 < low < 0.1 and 0 < high < 0.1


ROOT = Path(__file__).resolve().parents[3]
TABLES = ROOT.parent / "shared" / "data" / "constat" / "tables"


@pytest.mark.skipif(
    not TABLES.is_dir(), reason="ConStat's tables are not in ../shared/data/constat"
)
def test_strong_public_models_are_not_called_beyond_weak_references():
    """Two scales called 25 % of these draws beyond reference; which of the models remember ARC is
    not known."""
    called = runpy.run_path(
        str(ROOT / "tests" / "golden" / "statistics" / "constat_bracketing.py")
    )["called"]
    called.__globals__["DRAWS"] = 300
    two, three, bracketed = called(
        TABLES / "arc_rephrase.csv", weak=True, rng=np.random.default_rng(1)
    )
    assert two > 0.15 and three > 0.15 and bracketed == 0
