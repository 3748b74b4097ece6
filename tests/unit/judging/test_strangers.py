"""Models of worlds that the authors of the judges did not write, each through the whole judge."""

import numpy as np
import pytest
from bench.strangers import sweep, validity

from audit.judging.ladder import Grade

WORLDS = {**sweep.WORLDS, **validity.WORLDS}


@pytest.mark.parametrize(
    ("world", "grade"),
    [
        # It gains 9 points under noise, and as much on held-out questions.
        ("short messages, held-out", Grade.CAUSE_UNKNOWN),
        # It gains 13 points under noise, and nothing on held-out questions.
        ("memory, held-out", Grade.FOUND_STRONG),
        # Neutral words turn as many answers as the content does.
        ("any words are refused", Grade.UNDECIDED),
        ("any words are refused, content too", Grade.CLEARED),
        # The content turns 13 points more answers than neutral words, and fewer than the order.
        ("order moves answers", Grade.UNDECIDED),
    ],
)
def test_a_control_that_was_asked_decides(world: str, grade: Grade) -> None:
    """`python -m bench.strangers` has the rates over 40 models."""
    assert WORLDS[world].judge(np.random.default_rng(2)) == grade
