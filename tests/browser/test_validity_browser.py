"""The construct-validity report in a real browser: what is blurred, what a click shows, and that no
text runs."""

from pathlib import Path
from typing import Any

import pytest
import validity_panels as panels
from opened import asked_of_the_network, choose, open_page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark that may hold unsafe texts; all of its texts are hostile."""
    cells = panels.cells("xstest", n=30)[:2]
    text = panels.page(panels.verdict(cells), panels.rows(cells, panels.HOSTILE))
    return panels.write(tmp_path_factory.mktemp("masked") / "report.html", text)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded benchmark, whose texts are harmless."""
    cells = panels.cells(n=30)[:2]
    return panels.write(
        tmp_path_factory.mktemp("plain") / "report.html",
        panels.page(panels.verdict(cells), panels.rows(cells)),
    )


def _open(browser: Any, page: Path) -> None:
    open_page(browser, page.as_uri())
    browser.execute_script(
        "for (const one of ['#questions details', '#items > li details']) document.querySelector(one).open = true"
    )


def _filter_of(browser: Any, index: int) -> str:
    script = (
        "return getComputedStyle(document.querySelectorAll('#items .blur')[arguments[0]]).filter"
    )
    return str(browser.execute_script(script, index))


def test_a_blurred_text_is_blurred_until_it_is_clicked(browser: Any, masked: Path) -> None:
    _open(browser, masked)
    assert _filter_of(browser, 0).startswith("blur(")
    first = browser.find_elements("css selector", "#items .blur")[0]
    first.click()
    assert _filter_of(browser, 0) == "none" and _filter_of(browser, 1).startswith(
        "blur("
    )  # that one alone
    browser.find_elements("css selector", "#items .blur")[1].send_keys("\ue007")  # Enter
    assert _filter_of(browser, 1) == "none"


def test_every_text_of_an_item_is_blurred(browser: Any, masked: Path) -> None:
    """Nothing of the benchmark or the model stands outside: without the blurred parts, no word of
    it is left."""
    _open(browser, masked)
    script = """
        const copy = document.querySelector("main").cloneNode(true);
        copy.querySelectorAll(".blur").forEach((x) => x.remove());
        return copy.textContent;
    """
    assert "onerror" not in browser.execute_script(script)
    assert "onerror" in browser.execute_script("return document.querySelector('main').textContent")


def test_hostile_text_is_shown_and_not_run(browser: Any, masked: Path) -> None:
    _open(browser, masked)
    browser.find_elements("css selector", "#items .blur")[0].click()
    shown = browser.execute_script("return document.querySelector('#items .blur').textContent")
    assert shown == panels.HOSTILE  # as text
    assert browser.execute_script("return document.body.dataset.broken || ''") == ""
    assert (
        browser.execute_script(
            "return document.querySelectorAll('#items img, #items script').length"
        )
        == 0
    )
    assert browser.get_log("browser") == []
    urls = asked_of_the_network(browser)
    assert urls and all(url.startswith(("file:", "data:")) for url in urls)


def test_original_and_edit_stand_side_by_side_with_key_and_response_before_and_after(
    browser: Any, plain: Path
) -> None:
    _open(browser, plain)
    assert browser.execute_script("return document.querySelectorAll('#items .blur').length") == 0
    boxes = browser.execute_script("""
        const pair = document.querySelector("#items .pair");
        return [...pair.querySelectorAll(".before .asked, .after .asked")].slice(0, 2).map((x) => {
          const r = x.getBoundingClientRect(); return [r.left, r.right, r.top];
        });
    """)
    (_, right, top), (left, _, other_top) = boxes
    assert left > right and abs(top - other_top) < 2
    text = browser.execute_script("return document.querySelector('#items .after').textContent")
    assert (
        "Response dog → dog" in text and "Key dog → cat" in text
    )  # the attribute edit moved the key
    assert (
        browser.execute_script("return document.querySelectorAll('#items .after mark').length") > 0
    )


def test_filters_find_items_by_what_became_of_a_contract(browser: Any, plain: Path) -> None:
    _open(browser, plain)
    assert choose(browser, "state", "") == "10 of 10 items"
    # The answer stays, and the key went elsewhere.
    assert choose(browser, "state", "attribute-breaks") == "10 of 10 items"
    assert choose(browser, "state", "attribute-follows") == "0 of 10 items"
