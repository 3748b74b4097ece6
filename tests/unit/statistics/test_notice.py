"""The chance to notice an effect again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from audit.errors import DataError
from audit.statistics.notice import chance_to_notice


def test_an_effect_at_the_threshold_is_noticed_half_of_the_time():
    assert chance_to_notice(0.05).estimate == pytest.approx(0.5)
    assert chance_to_notice(0.01, alpha=0.01).estimate == pytest.approx(0.5)


def test_no_effect_is_noticed_as_often_as_the_test_is_wrong():
    found = chance_to_notice(0.5)
    assert found.estimate == pytest.approx(0.05)
    # Phi(-1.645 + 1.96) = Phi(.315)
    assert found.high == pytest.approx(0.624, abs=1e-3) and found.low < 0.001


def test_the_interval_holds_the_power_of_the_test_in_19_of_20_experiments():
    rng = np.random.default_rng(1)
    effect = 2.0
    power = stats.norm.sf(stats.norm.isf(0.05) - effect)
    found = [chance_to_notice(float(stats.norm.sf(rng.normal(effect)))) for _ in range(2000)]
    assert np.mean([f.low <= power <= f.high for f in found]) == pytest.approx(0.95, abs=0.015)


def test_a_p_of_zero_is_certain_and_what_is_none_is_refused():
    assert chance_to_notice(0.0).low > 0.999
    assert chance_to_notice(1.0).estimate == 0.0 and chance_to_notice(1.0).high == 0.05
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(DataError, match="from 0 to 1"):
            chance_to_notice(wrong)
