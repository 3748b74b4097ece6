"""The reviewers' page in a real browser: read, decide; what a report in its sandbox and another
site cannot do."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from governed import TOKEN, gated, reviewing
from opened import shut_out, wait

from audit.governance.serve import create_app, create_server

pytestmark = pytest.mark.browser
# What a hostile report would try: read the page around it, the session, and decide.
REPORT = """<!doctype html><title>r</title><body><script>
const tried = (name, what) => { try { what(); document.body.dataset[name] = "done"; }
  catch (error) { document.body.dataset[name] = error.name; } };
tried("parent", () => parent.document.body);
tried("cookie", () => document.cookie);
tried("form", () => { const f = document.createElement("form"); f.method = "post"; f.target = "_top";
  f.action = location.href.replace(/\\/report.*/, ""); document.body.append(f); f.submit(); });
fetch("/").then(() => { document.body.dataset.fetch = "done"; }, () => { document.body.dataset.fetch = "refused"; });
document.body.dataset.origin = window.origin;
</script></body>"""


@pytest.fixture
def served(run_dir: Path, keys: Path) -> Iterator[str]:
    """The address of a page that is really served, of a run with that report."""
    (run_dir / "report" / "report.html").write_text(REPORT)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        at = f"127.0.0.1:{listening.getsockname()[1]}"
        server = create_server(create_app(reviewing(run_dir.parent, keys, at)))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield f"http://{at}"
        server.should_exit = True
        thread.join(300)


def test_a_reviewer_reads_and_decides_and_nobody_else_does(
    browser: Any, served: str, run_dir: Path, keys: Path, tmp_path: Path
) -> None:
    def until(script: str) -> None:
        wait(browser, lambda: bool(browser.execute_script(f"return {script}")))

    browser.get(served)
    assert "Open the address" in browser.page_source
    browser.get(f"{served}/login?token={TOKEN}")
    assert browser.current_url == f"{served}/home/"
    assert browser.execute_script("return document.cookie") == ""  # the session is for no script
    assert shut_out(browser) == []
    browser.execute_script("document.querySelector('td a').click()")
    until("document.querySelector('iframe') !== null")
    page = browser.current_url
    assert shut_out(browser) == []

    # The report is shown, and has no origin: it reads nothing of ours and sends nothing.
    browser.execute_script("document.querySelector('iframe').scrollIntoView()")
    browser.switch_to.frame(0)
    until("document.body.dataset.fetch")
    seen = browser.execute_script("return {...document.body.dataset}")
    assert (seen["origin"], seen["parent"], seen["cookie"], seen["fetch"]) == (
        "null",
        "SecurityError",
        "SecurityError",
        "refused",
    )
    browser.switch_to.default_content()
    assert browser.current_url == page

    # Another site that posts to the page is not heard, though the browser has a session.
    other = tmp_path / "other.html"
    other.write_text(
        f"<form method=post action='{page}'><input name=kind value=override><input name=reason value=x>"
        "<input name=expires value=2099-01-01></form><script>document.forms[0].submit()</script>"
    )
    browser.get(other.as_uri())
    until(f"location.href === '{page}'")
    assert (
        "Open the address" in browser.page_source
        or "has to come from this page" in browser.page_source
    )
    assert not (run_dir / "decisions").exists()

    # The reviewer decides.
    browser.get(page)
    browser.find_element("name", "reason").send_keys("read in full")
    browser.find_element("name", "expires").send_keys("2026-12-31")
    browser.find_element("css selector", "button[value=override]").click()
    until("document.body.innerText.includes('override by alice')")
    assert gated(run_dir, keys) == 0
    refused = [
        message
        for message in browser.get_log("browser")
        if "/run/" in message["message"] and message["level"] == "SEVERE"
    ]
    assert all(
        "Content Security Policy" in message["message"] or "40" in message["message"]
        for message in refused
    )
