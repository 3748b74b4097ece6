"""The chance to find an effect in a field design: against simulated field designs, and where it
must be 0 or grow."""

import numpy as np
import pytest
from long_tests import long

from audit.core.errors import DataError
from audit.statistics.between_models import predictive
from audit.statistics.notice import CORRELATION, Effect, Field, chance_to_find
from audit.statistics.priors import TauPrior

PRIOR = TauPrior(0.03)
HALF = Effect(
    0.15, 0.03, (0.36, 0.46), (0.46, 0.46)
)  # accuracies .85 on the published items and .7 on others


def simulated(effect: Effect, field: Field, level: float, draws: int = 300) -> float:
    """Items are drawn: normal values of R references and the tested model with CORRELATION, means
    shifted by tau."""
    rng = np.random.default_rng(1)
    detections = 0
    for _ in range(draws):
        tau = abs(rng.normal(0, PRIOR.scale))
        gaps, per_item = np.zeros(field.references + 1), []
        for k, size in enumerate((field.n, field.held_out)):
            shared = rng.standard_normal(size)
            specific = rng.standard_normal((field.references + 1, size))
            sd = np.array([effect.tested[k], *[effect.references[k]] * field.references])[:, None]
            x = sd * (np.sqrt(CORRELATION) * shared + np.sqrt(1 - CORRELATION) * specific)
            gaps += (1 - 2 * k) * x.mean(axis=1)
            per_item.append((x[0] - x[1:].mean(axis=0)).var(ddof=1) / size)
        gaps += tau * rng.standard_normal(gaps.size)
        gaps[0] += effect.value
        sampling = sum(
            effect.references[k] ** 2 * (1 - CORRELATION) / size
            for k, size in enumerate((field.n, field.held_out))
        )
        spread = float(gaps[1:].var(ddof=1)) if field.references > 1 else 0.0
        df = field.n + field.held_out - 2
        p = predictive(
            gaps[0] - gaps[1:].mean(),
            float(np.sqrt(sum(per_item))),
            df,
            spread,
            sampling,
            field.references,
            PRIOR,
        ).pvalue
        detections += p <= level
    return detections / draws


@pytest.mark.parametrize(("value", "references"), [(0.05, 5), long(0.10, 3), long(0.10, 8)])
def test_it_is_the_share_of_simulated_field_designs_that_find_it(
    value: float, references: int
) -> None:
    effect = Effect(value, 0.0, HALF.tested, HALF.references)
    field, level = Field(500, 300, references), 0.05 / 6
    # 300 designs: a standard error of at most .029
    assert chance_to_find(effect, field, PRIOR, level).estimate == pytest.approx(
        simulated(effect, field, level), abs=0.09
    )


def test_more_items_and_more_references_find_more_and_no_effect_is_found_as_often_as_the_level_says() -> (
    None
):
    nothing = Effect(0.0, 0.0, HALF.tested, HALF.references)
    assert chance_to_find(nothing, Field(1000, 500, 5), PRIOR, 0.05).estimate <= 0.06
    weak = Effect(0.07, 0.02, HALF.tested, HALF.references)
    small, large = (
        chance_to_find(weak, Field(n, n // 2, 5), PRIOR, 0.01).estimate for n in (200, 2000)
    )
    few, many = (chance_to_find(weak, Field(1000, 500, r), PRIOR, 0.01).estimate for r in (3, 8))
    assert small < large and few < many
    chance = chance_to_find(weak, Field(1000, 500, 5), PRIOR, 0.01)
    assert chance.low < chance.estimate < chance.high


def test_what_the_run_did_not_ask_finds_nothing() -> None:
    assert chance_to_find(HALF, Field(1000, 0, 5), PRIOR, 0.01).high == 0  # no held-out items
    assert chance_to_find(HALF, Field(1000, 500, 0), PRIOR, 0.01).high == 0  # no references
    with pytest.raises(DataError, match="at least one item"):
        chance_to_find(HALF, Field(0), PRIOR, 0.01)


def test_an_effect_of_the_model_alone_needs_no_references() -> None:
    """1.645 standard errors: half of the time. sd .4 over 400 items: an error of .02."""
    alone = Effect(1.6449 * 0.02, 0.0, (0.4,))
    assert chance_to_find(alone, Field(400), PRIOR, 0.05).estimate == pytest.approx(0.5, abs=0.01)
