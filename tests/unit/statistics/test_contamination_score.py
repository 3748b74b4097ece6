import warnings

import numpy as np
import pytest
from scipy import stats

from audit.errors import DataError
from audit.statistics.contamination_score import article_result, false_alarms, item_scores

NAN = float("nan")


def published(baseline_correct, perturbed_correct_flags, alpha=0.05):
    """`compute_contamination_score` as the article prints it: (CS, p, is_contaminated)."""
    acc_baseline = float(baseline_correct)
    acc_perturbed_arr = np.array(perturbed_correct_flags, dtype=float)
    acc_perturbed_mean = acc_perturbed_arr.mean()
    t_stat, p_value = stats.ttest_1samp(acc_perturbed_arr, popmean=acc_baseline)
    p_value_one_tailed = p_value / 2 if t_stat < 0 else 1.0
    cs = (acc_baseline - acc_perturbed_mean) / acc_baseline if acc_baseline > 0 else 0.0
    return round(cs, 4), round(p_value_one_tailed, 4), (cs > 0.1 and p_value_one_tailed < alpha)


@pytest.mark.parametrize("variants", [1, 2, 3, 10])
def test_every_item_is_scored_as_the_article_does(variants):
    rng = np.random.default_rng(variants)
    o = (rng.random(60) < 0.6).astype(float)
    v = (rng.random((variants, 60)) < 0.6).astype(float)
    v[:, 0], o[0] = 0.0, 1.0  # all variants wrong: t is -inf, p is 0
    found = item_scores(o, v)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # its t-test of equal values
        expected = [published(o[i] == 1, v[:, i] == 1) for i in range(60)]
    for i, (cs, p, flag) in enumerate(expected):
        assert (round(found.cs[i], 4), round(found.pvalue[i], 4), bool(found.flagged[i])) == (cs, p, flag)


def test_missing_answers_are_left_out_and_not_scored():
    o = np.array([1.0, NAN, 1.0])
    v = np.array([[1.0, 1.0, NAN], [0.0, 1.0, NAN], [NAN, 1.0, NAN]])
    found = item_scores(o, v)
    assert found.cs[0] == 0.5 and np.isnan(found.cs[1:]).all() and not found.flagged.any()
    whole = article_result(o, v)
    assert (whole.n, whole.baseline, whole.perturbed, whole.cs) == (1, 1.0, 0.5, 0.5)
    assert whole.review and whole.over_threshold and not whole.blocked
    with pytest.raises(DataError, match="Not one item"):
        article_result(np.array([NAN]), np.array([[1.0]]))


def test_triggers_by_hand():
    # 100 items: 80 right; of these, 16 lose all 3 variants -> flagged (16 %), the others lose none
    o = np.repeat([1.0, 0.0], [80, 20])
    v = np.tile(np.repeat([0.0, 1.0, 0.0], [16, 64, 20]), (3, 1))
    found = article_result(o, v)
    assert (found.flagged, found.blocked, found.triggered, found.review) == (16, True, True, False)
    assert found.cs == pytest.approx((0.8 - 0.64) / 0.8)
    assert found.mean_item_cs == pytest.approx(0.16)  # 16 items of CS 1, the rest 0


@pytest.mark.parametrize(
    ("flip", "variants", "flagged", "over", "blocked"),
    [(0.3, 3, 0.029, None, 0.0), (0.3, 10, 0.246, 0.346, 1.0), (0.2, 3, 0.025, None, 0.0),
     (0.2, 10, 0.153, 0.212, 1.0), (0.1, 3, 0.015, None, 0.0), (0.1, 10, 0.074, 0.101, 0.98)],
)  # fmt: skip
def test_the_false_alarms_of_the_notes(flip, variants, flagged, over, blocked):
    """The table of section 1 of the notes, measured there with other code; 60 models of 500 items here."""
    found = false_alarms(500, variants, 0.7, flip, n_models=60, rng=np.random.default_rng(1))
    error = 3 * np.sqrt(flagged * (1 - flagged) / (60 * 500)) + 0.002
    assert found.item_flagged == pytest.approx(flagged, abs=error)
    if over is not None:
        assert found.item_over_threshold == pytest.approx(over, abs=0.012)
    assert found.model_blocked == pytest.approx(blocked, abs=0.1)
    assert found.model_over_threshold == 0
    if flip == 0.2:
        assert found.mean_item_cs == pytest.approx(0.143, abs=0.005)
