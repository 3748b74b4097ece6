"""The form of a review as a reader fills it in: what the browser saves is what the program
takes."""

from pathlib import Path
from typing import Any

from opened import wait

from audit.variants.arrow import find_library
from audit.variants.review_file import read_review, write_review

N = 4


def test_what_is_chosen_is_kept_and_saved(browser: Any, tmp_path: Path) -> None:
    library, form = find_library("elementary"), tmp_path / "form.html"
    write_review(library, form, n=N, seed=0)
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    browser.get(form.as_uri())
    choose = (
        "document.querySelectorAll(`input[value=${arguments[0]}]`).forEach((one) => one.click())"
    )
    browser.execute_script(choose, "ok")
    assert not browser.find_element("id", "save").is_enabled()  # who reads is not said

    def all_read() -> bool:
        # A browser writes what a page stores a moment after the page did, so the form is opened again.
        browser.get(form.as_uri())
        return bool(browser.find_element("id", "done").text == f"{N} of {N} read")

    wait(browser, all_read)
    browser.execute_script(choose, "person")
    browser.find_element("css selector", "#forms input[value=unsure]").click()
    browser.find_element("id", "save").click()
    wait(browser, lambda: any(tmp_path.glob("*.jsonl")))
    review = read_review(library, next(tmp_path.glob("*.jsonl")), reviewer="test").header.review
    assert review is not None and (review.n, review.broken) == (N, 1)
