"""A page as a reader opens it, and what is waited for there."""

import json
import time
from collections.abc import Callable
from importlib.resources import files
from typing import Any

READY = "return !document.getElementById('drill-form') || document.documentElement.dataset.ready === 'true'"


def wait(browser: Any, true: Callable[[], bool], seconds: float = 300) -> None:
    """On a busy machine; what has to be quick is measured where it is asserted."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, browser.get_log("browser")
        time.sleep(0.05)


def open_page(
    browser: Any, url: str, width: int = 1280, height: int = 900, dark: bool = False
) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    browser.get("about:blank")
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(url)
    wait(browser, lambda: browser.execute_script(READY))


def choose(browser: Any, name: str, wanted: str) -> str:
    """Choose the option of a filter whose label starts so, or that has this value; the count line
    after it."""
    script = """
        const select = document.getElementById("f-" + arguments[0]), all = [...select.options];
        const labelled = all.find((o) => o.textContent.startsWith(arguments[1]));
        select.value = (labelled ?? all.find((o) => o.value === arguments[1])).value;
        select.dispatchEvent(new Event("change"));
        return document.getElementById("count").textContent;
    """
    return str(browser.execute_script(script, name, wanted))


def asked_of_the_network(browser: Any) -> list[str]:
    """Every address that the page asked for, its own first."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
    ]


def shut_out(browser: Any) -> list[list[Any]]:
    """(rule of axe-core, elements) of every serious violation on this page, with everything
    unfolded."""
    browser.execute_script(
        (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    )
    return browser.execute_async_script("""
        const done = arguments[0];
        document.querySelectorAll("details").forEach((d) => (d.open = true));
        const serious = (found) => ["serious", "critical"].includes(found.impact);
        axe.run({iframes: false}).then(({violations}) => done(
            violations.filter(serious).map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 120))])));
    """)
