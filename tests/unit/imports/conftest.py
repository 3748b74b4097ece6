from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_report_is_drawn(no_figures: None) -> Iterator[None]:
    yield
