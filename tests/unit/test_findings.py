"""The pages and pictures of docs/findings are those that `make findings` writes now."""

from pathlib import Path

import pytest
from external import findings

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
CHEAP = ("song2026", "demo")  # of shipped files alone


@pytest.mark.parametrize(
    "name",
    [
        name if name in CHEAP else pytest.param(name, marks=pytest.mark.long)
        for name in findings.PAGES
    ],
)
def test_a_page_and_its_picture_are_current(name: str, tmp_path: Path) -> None:
    """`make findings ARGS='--page NAME'` mends a failure."""
    needed, _ = findings.PAGES[name]
    if not (DATA / needed).exists() and needed:
        pytest.skip(f"{needed} is not in {DATA}")
    list(findings.write(DATA, tmp_path, [name]))
    for made in (tmp_path / f"{name}.md", tmp_path / f"{name}.svg"):
        assert made.read_text() == (ROOT / "docs/findings" / made.name).read_text(), made.name
