"""Mark cases of a parametrised test as long: `make test` runs the case that is not."""

from typing import Any

import pytest


def long(*values: Any) -> Any:
    """Return a case that `make test-long` alone runs."""
    return pytest.param(*values, marks=pytest.mark.long)
