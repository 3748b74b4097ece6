"""The reviewers' page in a real browser: read, decide; what a report in its sandbox and another site cannot do."""

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from opened import shut_out
from registered_runs import make_run
from servers_here import free_port

from audit.commands.gate import main as gate
from audit.governance.keys import create_key, load_signer, load_trusted
from audit.governance.serve import Reviewing, create_app

pytestmark = pytest.mark.browser
TOKEN = "t" * 43
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
def served(tmp_path: Path) -> Iterator[tuple[str, Path, Path]]:
    """(address, the run, the folder of keys) of a page that is really served."""
    run = make_run(tmp_path / "runs" / "run")
    (run / "report" / "report.html").write_text(REPORT)
    private, public = create_key("alice", tmp_path / "keys")
    trusted = tmp_path / "trusted"
    trusted.mkdir()
    public.rename(trusted / public.name)
    _, carol = create_key("carol", tmp_path / "keys")  # who ran it: known by her key, so one other person is enough
    carol.rename(trusted / carol.name)
    port = free_port()
    at = f"127.0.0.1:{port}"
    app = create_app(
        Reviewing(
            folder=tmp_path / "runs", signer=load_signer(private), trusted=load_trusted(trusted), keys=trusted,
            approvals=1, check=None, registry=None, token=TOKEN, hosts=frozenset({at}), home="home",
        )
    )  # fmt: skip
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    yield f"http://{at}", run, trusted
    server.should_exit = True
    thread.join(10)


def test_a_reviewer_reads_and_decides_and_nobody_else_does(
    browser: Any, served: tuple[str, Path, Path], tmp_path: Path
) -> None:
    address, run, trusted = served

    def within(seconds: float, script: str) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := browser.execute_script(f"return {script}")):
            assert time.monotonic() < deadline, (script, browser.current_url, browser.page_source[:2000])
            time.sleep(0.05)
        return found

    browser.get(address)
    assert "Open the address" in browser.page_source
    browser.get(f"{address}/login?token={TOKEN}")
    assert browser.current_url == f"{address}/home/"
    assert browser.execute_script("return document.cookie") == ""  # the session is for no script
    assert shut_out(browser) == []
    browser.execute_script("document.querySelector('td a').click()")
    within(60, "document.querySelector('iframe') !== null")
    page = browser.current_url
    assert shut_out(browser) == []

    # The report is shown, and has no origin: it reads nothing of ours and sends nothing.
    browser.execute_script("document.querySelector('iframe').scrollIntoView()")
    browser.switch_to.frame(0)
    within(60, "document.body.dataset.fetch")
    seen = browser.execute_script("return {...document.body.dataset}")
    assert (seen["origin"], seen["parent"], seen["cookie"], seen["fetch"]) == (
        "null", "SecurityError", "SecurityError", "refused",
    )  # fmt: skip
    browser.switch_to.default_content()
    assert browser.current_url == page

    # Another site that posts to the page is not heard, though the browser has a session.
    other = tmp_path / "other.html"
    other.write_text(
        f"<form method=post action='{page}'><input name=kind value=override><input name=reason value=x>"
        "<input name=expires value=2099-01-01></form><script>document.forms[0].submit()</script>"
    )
    browser.get(other.as_uri())
    within(60, f"location.href === '{page}'")
    assert "Open the address" in browser.page_source or "has to come from this page" in browser.page_source
    assert not (run / "decisions").exists()

    # The reviewer decides.
    browser.get(page)
    browser.find_element("name", "reason").send_keys("read in full")
    browser.find_element("name", "expires").send_keys(f"{datetime.now(UTC):%Y}-12-31")
    browser.find_element("css selector", "button[value=override]").click()
    within(60, "document.body.innerText.includes('override by alice')")
    assert gate([str(run), "--trust-report", "--keys", str(trusted)], datetime.now(UTC)) == 0
    refused = [one for one in browser.get_log("browser") if "/run/" in one["message"] and one["level"] == "SEVERE"]
    assert all("Content Security Policy" in one["message"] or "40" in one["message"] for one in refused)
