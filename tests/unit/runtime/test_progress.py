"""What a person is told while nothing seems to happen."""

from __future__ import annotations

import io

from rich.console import Console

from audit.runtime.progress import Display, usual_load


def test_loading_says_how_long_it_usually_takes() -> None:
    out = io.StringIO()
    display = Display(console=Console(file=out, width=200))
    display.begin({"m": {"direct": 5}})
    with display.loading("m", usual_load(["vllm"], [])):
        pass
    assert "m: loading the engine (usually 1 to 2 minutes on CPUs" in out.getvalue()
    assert "m: engine ready after 0 s" in out.getvalue()
    assert usual_load(["vllm", "openai"], [70.4, 62.2]) == "62 s the last time"
    assert usual_load(["scripted", "openai"], []) == ""
