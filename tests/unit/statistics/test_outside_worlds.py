"""The score without memory in worlds that its model does not have: guessing, heavy tails, two abilities, clusters.

An item is right with a chance of .2 for one who knows nothing; difficulties have t3 tails, slopes differ, and an item
asks for knowledge and for reading in a mix of its own. None of that is in the Rasch model of the estimate.
"""

import numpy as np
import pytest
from scipy.special import expit

from audit.statistics.without_memory import without_memory

_MODELS, _GUESS, _OWN = 40, 0.2, 0.7


def _answers(rng, knowledge, reading, n, mix):
    """(chances, answers), each (models, n), on new items. mix: share of knowledge that an item asks for on average."""
    difficulty = 1.5 * rng.standard_t(3, n) / np.sqrt(3)
    weight = rng.beta(8 * mix, 8 * (1 - mix), n)
    ability = weight * knowledge[:, None] + (1 - weight) * reading[:, None]
    own = _OWN * rng.standard_normal((knowledge.size, n))
    chance = _GUESS + (1 - _GUESS) * expit(np.exp(0.3 * rng.standard_normal(n)) * (ability - difficulty) + own)
    return chance, (rng.random(chance.shape) < chance).astype(float)


@pytest.mark.parametrize(
    ("own", "references", "apart", "mixes", "n", "learnt"),
    [
        pytest.param(0.6, np.linspace(0.1, 1.1, 5), 0.0, (0.5, 0.5), 600, 0.0, id="guessing and heavy tails"),
        pytest.param(0.6, np.linspace(0.1, 1.1, 5), 0.0, (0.5, 0.5), 600, 0.5, id="half of the answers learnt"),
        pytest.param(0.6, np.linspace(0.1, 1.1, 5), 0.5, (0.7, 0.45), 600, 0.0, id="another mix of subjects"),
        pytest.param(0.6, np.array([-1.5, 3.5, -1.4, 3.4, -1.3]), 0.0, (0.5, 0.5), 600, 0.0, id="between clusters"),
        pytest.param(4.5, np.linspace(2.5, 4.5, 5), 0.0, (0.5, 0.5), 60, 0.0, id="few items, near the ceiling"),
    ],
)
def test_interval_holds_in_worlds_that_are_not_its_model(own, references, apart, mixes, n, learnt):
    """apart: how much knowledge and reading differ within a model; the tested one is one more of the same kind."""
    rng = np.random.default_rng(2026)
    held = 0
    for _ in range(_MODELS):
        ability = np.append(own, references)
        tilt = apart * rng.standard_normal(ability.size)
        chance, published = _answers(rng, ability + tilt, ability - tilt, n, mixes[0])
        _, held_out = _answers(rng, ability + tilt, ability - tilt, n, mixes[1])
        published[0, rng.random(n) < learnt] = 1
        sets = list(zip(published, held_out, strict=True))
        found = without_memory(sets[0], sets[1:]).without
        held += found.low <= chance[0].mean() <= found.high
    assert held >= 0.9 * _MODELS
