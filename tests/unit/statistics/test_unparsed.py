import numpy as np
import pytest

from audit.statistics.unparsed import GAMMAS, imputed, predict_right, tipping_point

NAN = float("nan")


def test_an_item_is_predicted_from_its_other_answers():
    """Three of four right: mean (3 + .5) / (4 + 1) = .7. Item 0: (2 + 1.4) / 4 = .85, item 1: (1 +
    1.4) / 4 = .6, item 2, never answered: .7."""
    answers = np.array([[1.0, 1.0, NAN], [1.0, 0.0, NAN]])
    assert predict_right(answers) == pytest.approx([0.85, 0.6, 0.7])


def test_odds_are_multiplied_or_divided():
    """An odds ratio of 9 between two sides is 3 a side. Odds of .8 are 4: times 3 is 12, 12/13; by
    3 is 4/3, 4/7."""
    values, lost, predicted = (
        np.array([NAN, 0.0, NAN]),
        np.array([True, False, False]),
        np.array([0.8, 0.5, 0.5]),
    )
    high = imputed(values, lost, predicted, 9.0, True)
    low = imputed(values, lost, predicted, 9.0, False)
    assert (high[0], low[0]) == (pytest.approx(12 / 13), pytest.approx(4 / 7))
    assert high[1] == 0.0 and np.isnan(high[2])  # parsed stays, never asked stays missing


@pytest.mark.parametrize("favour", [True, False])
def test_the_last_gamma_is_the_worst_case(favour):
    filled = imputed(
        np.full((2, 3), NAN),
        np.ones((2, 3), dtype=bool),
        np.array([0.1, 0.5, 0.9]),
        GAMMAS[-1],
        favour,
    )
    assert (filled == float(favour)).all()


def test_a_gamma_below_one_is_refused():
    with pytest.raises(ValueError, match="gamma"):
        imputed(np.array([NAN]), np.array([True]), np.array([0.5]), 0.5, True)


@pytest.mark.parametrize(
    ("turns", "expected"), [(0.5, 0.0), (1.0, 1.0), (7.0, 5.0), (60.0, 50.0), (np.inf, np.inf)]
)
def test_tipping_point_is_the_last_gamma_that_holds(turns, expected):
    gammas = []

    def holds(gamma: float) -> bool:
        gammas.append(gamma)
        return gamma <= turns

    assert tipping_point(holds) == expected
    assert gammas == sorted(gammas) and len(gammas) <= len(GAMMAS)
