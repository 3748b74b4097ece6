"""The perturbation audit's page in a real browser: what is chosen, where gates lead, what a text
cannot do."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opened import choose, open_page, wait
from perturb_cells import judged

from audit.perturb.page import PageItem, Shown, render
from audit.report.page import RunFacts, word_diff
from audit.variants.arrow import find_library

pytestmark = pytest.mark.browser
HOSTILE = "<script>window.__ran = 1</script><img src=x onerror='window.__ran = 2'>"


def _item(k: int, gate: str) -> PageItem:
    original, other = f"Question {k} as published?", f"Question {k}, put {HOSTILE} otherwise?"
    marks = ("falls" if k % 3 == 0 else "same", *((f"gate-{gate}",) if k < 4 else ()))
    wordings = (
        Shown("original", [(original, "")], None, "correct", "four"),
        Shown("variant 1", word_diff(original, other), 0.2, "wrong", HOSTILE),
    )
    return PageItem("m", "b", f"q/{k}", ("three", "four"), 1, 0.5, 0.25, False, marks, wordings)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve items, four of them behind a gate that failed."""
    verdict = judged()
    (result,) = verdict.results
    result = replace(result, model="m", benchmark="b")
    gate = replace(result.gates[0], items=tuple(f"q/{k}" for k in range(4)), item_count=4)
    verdict = replace(verdict, results=(replace(result, gates=(gate, *result.gates[1:])),))
    items = [_item(k, gate.name) for k in range(12)]
    html = render(
        verdict, find_library("elementary"), RunFacts("Run r", (("Status", "finished"),)), {}, items
    )
    path = tmp_path_factory.mktemp("perturb") / "report.html"
    path.write_text(html, encoding="utf-8")
    return path


def _count(browser: Any) -> str:
    return str(browser.execute_script("return document.getElementById('count').textContent"))


def test_a_reader_goes_from_a_gate_to_its_questions_and_hands_the_link_on(
    browser: Any, page: Path
) -> None:
    open_page(browser, page.as_uri())
    assert _count(browser) == "12 of 12 items"
    # the matrix leads to what was found, and the number there to the questions
    first = "document.querySelector('table.matrix td a')"
    browser.execute_script(f"{first}.click()")
    row = browser.execute_script(
        f"return document.querySelector({first}.getAttribute('href')).textContent"
    )
    assert "Readable answers" in row and "4" in row
    browser.execute_script("document.querySelector('#gates a[href^=\"#questions\"]').click()")
    wait(browser, lambda: _count(browser) == "4 of 12 items")
    assert choose(browser, "state", "falls") == "2 of 12 items"  # q/0 and q/3
    link = browser.current_url
    assert "state=falls" in link and "gate=" in link and "cell=m+on+b" in link
    open_page(browser, link)
    assert _count(browser) == "2 of 12 items"
    browser.execute_script("document.querySelector('#items > li:nth-child(4) summary').click()")
    link = browser.current_url
    assert "open=m+on+b%7Eq%2F3" in link
    open_page(browser, link)
    opened = "return [...document.querySelectorAll('#items details')].filter((d) => d.open).length"
    assert browser.execute_script(
        "return document.querySelector('#items > li:nth-child(4) details').open"
    )
    assert browser.execute_script(opened) == 1 and browser.current_url == link
    browser.execute_script("document.getElementById('clear').click()")
    assert _count(browser) == "12 of 12 items" and browser.current_url.endswith("#questions")
    # what a text holds is shown, marked as new, and does nothing
    browser.execute_script(
        "document.querySelectorAll('#items details').forEach((d) => (d.open = true))"
    )
    shown = browser.execute_script("return document.querySelector('#items .detail').innerText")
    assert (
        "<script>" in shown
        and browser.execute_script("return document.querySelectorAll('#items del').length") == 12
    )
    assert browser.execute_script("return typeof window.__ran") == "undefined"
    assert browser.execute_script("return document.querySelectorAll('main img').length") == 0
    assert browser.get_log("browser") == []
