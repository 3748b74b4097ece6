"""The worked examples of the docstrings."""

import doctest
import pkgutil
from importlib import import_module

import pytest

import audit.statistics


@pytest.mark.parametrize(
    "name", [module.name for module in pkgutil.iter_modules(audit.statistics.__path__)]
)
def test_the_examples_give_what_they_say(name: str) -> None:
    assert doctest.testmod(import_module(f"audit.statistics.{name}")).failed == 0
