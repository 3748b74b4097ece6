"""The page of a suite in a real browser: the decision on the first screen, short at both widths, names inert."""

from pathlib import Path
from typing import Any

import pytest
import test_report_joint as joint
from opened import open_page

from audit.report.joint import content, page

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)>" + "m" * 60
LONG = (
    "Score 58 % (95 % interval 51.0 to 65.2). Without memory: 51.3 % (95 % interval 40.1 to 62.3), against 3 "
    "references. This holds if the sets differ for all alike."
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four audits of a model with long words; validity in two contexts on a benchmark of its own."""
    own: dict[str, Any] = {"model": HOSTILE, "reasons": ["why " * 60] * 6, "what_to_do": ["Take 1,070 items. " * 6]}
    own |= {"sensitivity": "Measured sensitivity: " + "such and such " * 40, "headline": "Too few data. " * 15}
    contexts = (("fact", "diagnostic", "indeterminate"), ("story", "invariance", "confirmatory_selective"))
    validity = joint.validity(*contexts)
    cells = [{**cell, **own, "benchmark": "contrast"} for cell in validity["cells"]]
    verdicts = {
        "sweep": joint.sweep("underpowered", **own),
        "perturb": joint.perturb("no_drop_detected", **own),
        "memory": joint.memory("underpowered", without_memory={"sentence": LONG}, **own),
        "validity": {**validity, "cells": cells},
    }
    path: Path = tmp_path_factory.mktemp("suite") / "report.html"
    path.write_text(page(content(verdicts, {**SUITE})), encoding="utf-8")
    return path


SUITE: dict[str, Any] = {
    "audit_suite_id": "demo", "gate": "ours", "domain": "general", "source": [], "sentences": ["rule " * 30] * 8,
    "model": {"name": HOSTILE, "stated": "sha256:" + "a" * 64, "found": "sha256:" + "a" * 64, "claimed": False},
}  # fmt: skip


@pytest.mark.parametrize(("width", "height", "screens"), [(1280, 900, 4), (390, 844, 10)])
def test_the_decision_comes_first_and_the_page_is_short(
    browser: Any, report: Path, width: int, height: int, screens: int
) -> None:
    open_page(browser, report.as_uri(), width, height)
    script = "return [...document.querySelectorAll('#decision, .strip, .without, .looked, #audits, #more')]"
    tops = browser.execute_script(f"{script}.map(one => one.getBoundingClientRect().top + scrollY)")
    assert tops == sorted(tops) and len(set(tops)) >= 6 and tops[0] < height / 2
    page_size = browser.execute_script("const e = document.documentElement; return [e.scrollHeight, e.scrollWidth]")
    assert page_size[0] <= screens * height and page_size[1] <= width
    assert browser.execute_script("return document.querySelector('#decision').dataset.decision") == "block"
    assert browser.execute_script("return document.images.length") == 0
    assert browser.execute_script("return document.querySelectorAll('details[open]').length") == 0
