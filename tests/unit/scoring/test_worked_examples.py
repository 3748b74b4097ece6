"""The examples in docstrings of readers, scorers and rewordings give what they say."""

import doctest
from importlib import import_module

import pytest

MODULES = (
    *(
        "benchmarks.fresh",
        "benchmarks.latex",
        "benchmarks.number",
        "benchmarks.reply",
        "benchmarks.rows",
    ),
    *("imports.record", "scoring.keyed"),
    *(
        "scoring.letter",
        "scoring.pll",
        "scoring.refusal",
        "scoring.score",
        "variants.config",
        "variants.rules",
    ),
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(import_module(f"audit.{name}"))
    assert result.attempted and not result.failed
