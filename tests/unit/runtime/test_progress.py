"""What a person is told while nothing seems to happen."""

import io
import time

import pytest
from rich.console import Console

from audit.runtime import progress
from audit.runtime.progress import Display, Engines, still, usual_load


def test_loading_says_how_long_it_usually_takes() -> None:
    out = io.StringIO()
    display = Display(console=Console(file=out, width=200))
    display.begin({"m": {"direct": 5}})
    with display.loading("m", usual_load(["vllm"], [])):
        pass
    assert usual_load(["vllm"], []) in out.getvalue() and "m: engine ready" in out.getvalue()
    assert usual_load(["vllm", "openai"], [70.4, 62.2]).startswith("62 s ")
    assert usual_load(["scripted", "openai"], []) == ""


def test_a_run_whose_engines_answer_is_calm_and_one_in_which_none_does_is_not() -> None:
    slow = still(50, Engines.of([Engines(1, 1, 0, 300, 100), Engines(2, 1, 1, 52, 20)]), "3 of 3 nodes live.")
    assert all(one in slow for one in ("120", "352", "2 of 3", "1 died"))
    assert "nothing" not in slow and "nodes" not in slow
    silent = still(50, Engines(2, 1, 0, 52, 20), "1 of 2 nodes does not answer.")
    assert silent.endswith("1 of 2 nodes does not answer.")
    for done in (0, 384):  # what was answered before the network was cut does not make it calm
        apart = still(50, Engines(2, 2, 0, 0, done), "3 of 3 nodes live.")
        assert "50 s" in apart and "2 of 2" in apart and "network" in apart
    hung = still(50, Engines(2, 1, 1, 352, 0), "3 of 3 nodes live.")
    assert all(one in hung for one in ("50 s", "352", "1 of 2", "1 died", "3 of 3"))


def test_a_stall_says_what_is_waited_for_as_long_as_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_STILL_S", 0.1)
    out = io.StringIO()
    display = Display(console=Console(file=out, width=200))
    display.begin({"m": {"direct": 5}})
    told = "m: nothing was stored for 0 s"
    with display.watching("m", lambda seconds: f"nothing was stored for {seconds:.0f} s"):
        for _ in range(100):
            time.sleep(0.05)
            if out.getvalue().count(told) > 1:
                break
    ended = out.getvalue()
    assert ended.count(told) > 1
    time.sleep(0.3)
    assert out.getvalue() == ended


def test_a_line_holds_nothing_that_a_terminal_obeys() -> None:
    """rich's Text keeps escapes as they are."""
    out = io.StringIO()
    Display(console=Console(file=out, width=200)).stage("m failed: \x1b]0;owned\x07\x1b[2J\n  [bold]why[/bold]")
    bad = "\N{REPLACEMENT CHARACTER}"
    assert out.getvalue() == f"m failed: {bad}]0;owned{bad}{bad}[2J\n  [bold]why[/bold]\n"
