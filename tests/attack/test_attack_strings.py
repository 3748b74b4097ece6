"""Seventeen strings in all that a benchmark or a model can write: no page, terminal or build system
obeys one."""

import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from governed import build_without_figures, make_run
from outcome_tables import Outcome

STRINGS = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<svg onload=alert(1)>",
    "<img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "</style><style>*{display:none}</style>",
    '<iframe srcdoc="<script>alert(1)</script>">',
    "\x1b[2J\x1b]0;title\x07",
    "\u202etxt.exe",
    "a\u2028b\u2029c",
    "a\x00b",
    "=cmd|' /C calc'!A0",
    "\n::error::obey\n",
    "]]><failure/>",
    "[a](javascript:alert(1)) | @team `x`",
    "{{ 7*7 }} {% raw %}",
    "<!--<script>",
)


class Tags(HTMLParser):
    """Every tag of a page with the names of its attributes, and the text of its scripts apart."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[tuple[str, tuple[str, ...]]] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add((tag, tuple(sorted(name for name, _ in attrs))))
        self.links |= {value or "" for name, value in attrs if name in ("href", "src", "action")}


def hostile(k: int, row: Outcome) -> Outcome:
    """Each question has a string of its own in every text; the names of model and benchmark have
    all of them."""
    text = STRINGS[k]
    return replace(
        row,
        model=f"m{''.join(STRINGS)}",
        benchmark=f"b{''.join(STRINGS)}",
        question_id=row.question_id + text,
        group=row.group + text,
        question=row.question + text,
        options=tuple(o + text for o in row.options),
        router_messages=tuple(m + text for m in row.router_messages),
        prompt=row.prompt + text,
        response=text + row.response,
        model_revision=STRINGS[0],
    )


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A plain run and a hostile one of the same shape, with their reports."""
    folder = tmp_path_factory.mktemp("strings")
    runs = {"plain": make_run(folder / "plain", "m", 3, len(STRINGS))}
    runs["hostile"] = make_run(folder / "hostile", "m", 3, len(STRINGS), hostile)
    for run in runs.values():
        build_without_figures(run)
    return runs


def test_a_report_has_no_tag_and_no_link_of_theirs(pages: Mapping[str, Path]) -> None:
    plain, bad = (
        Tags((pages[name] / "report" / "report.html").read_text()) for name in ("plain", "hostile")
    )
    assert bad.found <= plain.found
    assert not [link for link in bad.links if link.lower().strip().startswith("javascript")]
    text = (pages["hostile"] / "report" / "report.html").read_text()
    assert "\x1b" not in text and "\x00" not in text and "\u202e" not in text
    # What is left of them is there, so that the above is not true of an empty page.
    assert "alert(1)" in text and "7*7" in text and "calc" in text


def test_a_table_has_no_formula(pages: Mapping[str, Path]) -> None:
    tables = list((pages["hostile"] / "report" / "tables").glob("*.csv"))
    assert tables
    for table in tables:
        assert not re.search(r"(^|,)\"?[=@]", table.read_text(), re.M), table.name
