"""A headless Chromium, where Debian's is installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from governed import built, keys, run_dir

__all__ = ["built", "keys", "run_dir"]
CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A Chrome driver with a profile of its own, which records console and network."""
    for path in (CHROMIUM, DRIVER):
        if not path.exists():
            pytest.skip(f"{path} is not installed (Debian: apt install chromium chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    driver.set_page_load_timeout(300)  # a busy machine: axe-core took 33 s of a page there
    driver.set_script_timeout(300)
    yield driver
    driver.quit()
