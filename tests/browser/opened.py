"""A page as a reader opens it, and what is waited for there."""

import time
from collections.abc import Callable
from typing import Any

READY = "return !document.getElementById('drill-form') || document.documentElement.dataset.ready === 'true'"


def wait(browser: Any, true: Callable[[], bool], seconds: float = 60) -> None:
    """On a busy machine; what has to be quick is measured where it is asserted."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, browser.get_log("browser")
        time.sleep(0.05)


def open_page(browser: Any, url: str, width: int = 1280, height: int = 900, dark: bool = False) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    browser.get("about:blank")
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(url)
    wait(browser, lambda: browser.execute_script(READY))
