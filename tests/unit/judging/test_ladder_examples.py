"""The worked examples of the docstrings."""

import doctest

from audit.judging import ladder


def test_the_examples_give_what_they_say() -> None:
    result = doctest.testmod(ladder)
    assert result.attempted and not result.failed
