"""What a person is told of a run: counts and money by hand, hostile texts inert."""

import io
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands_here import watch as main
from outcome_tables import Outcome, outcomes_to_table, settings_of
from rich.console import Console
from synthetic import Faults, synthetic_outcomes

from audit.config.plan_cost import CostConfig
from audit.core.exits import QUIET
from audit.runtime import progress
from audit.runtime.progress import Display, Engines, still, usual_load
from audit.runtime.watch import as_text, look, runs_of
from audit.shards.attempt import RunLock, start_attempt
from audit.shards.manifest import Manifest
from audit.shards.panel import write_panel
from audit.shards.write import write_shard
from audit.sweep.audit import SCHEMA


def test_progress_is_on_stderr_and_silent_where_only_results_are_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for quiet in (False, True):
        token = QUIET.set(quiet)
        try:
            with Display() as display:
                display.begin({"m": {"direct": 5}})
                display.note("stored")
        finally:
            QUIET.reset(token)
        done = capsys.readouterr()
        assert done.out == "" and ("note: stored" in done.err) != quiet


def test_loading_says_how_long_it_usually_takes() -> None:
    out = io.StringIO()
    display = Display(console=Console(file=out, width=200))
    display.begin({"m": {"direct": 5}})
    with display.loading("m", usual_load(["vllm"], [])):
        pass
    assert usual_load(["vllm"], []) in out.getvalue() and "m: engine ready" in out.getvalue()
    assert usual_load(["vllm", "openai"], [70.4, 62.2]).startswith("62 s ")
    assert usual_load(["scripted", "openai"], []) == ""


@pytest.mark.parametrize("model", ["smollm2_135m", "meta_llama_3_1_70b_instruct"])
def test_the_names_of_arms_and_models_are_whole_at_sixty_columns(model: str) -> None:
    console = Console(file=io.StringIO(), width=60, record=True)
    display = Display(console=console)
    display.begin({model: dict.fromkeys(("forward_full", "noisy_rewrite"), 62_400)})
    console.print(display.table())
    lines = [line.split() for line in console.export_text().splitlines()]
    arms = [
        k
        for k, words in enumerate(lines)
        if words[1:3] in (["forward_full", "0/62400"], ["noisy_rewrite", "0/62400"])
    ]
    assert len(arms) == 2 and "".join(line[0] for line in lines[arms[0] : arms[1]]) == model


def test_a_run_whose_engines_answer_is_calm_and_one_in_which_none_does_is_not() -> None:
    slow = still(
        50, Engines.of([Engines(1, 1, 0, 300, 100), Engines(2, 1, 1, 52, 20)]), "3 of 3 nodes live."
    )
    assert all(part in slow for part in ("120", "352", "2 of 3", "1 died"))
    assert "nothing" not in slow and "nodes" not in slow
    silent = still(50, Engines(2, 1, 0, 52, 20), "1 of 2 nodes does not answer.")
    assert silent.endswith("1 of 2 nodes does not answer.")
    for done in (0, 384):  # what was answered before the network was cut does not make it calm
        unreachable = still(50, Engines(2, 2, 0, 0, done), "3 of 3 nodes live.")
        assert "50 s" in unreachable and "2 of 2" in unreachable and "network" in unreachable
    hung = still(50, Engines(2, 1, 1, 352, 0), "3 of 3 nodes live.")
    assert all(part in hung for part in ("50 s", "352", "1 of 2", "1 died", "3 of 3"))
    refused = [
        Engines(1, 1, 0, 30, 0, f"http://gpu{k}:8000/v1: HTTP {code}.")
        for k, code in ((1, 429), (2, 500))
    ]
    limited = still(50, Engines.of([Engines(1, 1, 0, 10, 0), *refused]), "3 of 3 nodes live.")
    assert (
        all(part in limited for part in ("50 s", "70", "HTTP 429", "HTTP 500"))
        and "nodes" not in limited
    )


def test_a_stall_says_what_is_waited_for_as_long_as_it_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "_STILL_S", 0.1)
    out = io.StringIO()
    display = Display(console=Console(file=out, width=200))
    display.begin({"m": {"direct": 5}})
    line = "m: nothing was stored for 0 s"
    with display.watching("m", lambda seconds: f"nothing was stored for {seconds:.0f} s"):
        for _ in range(100):
            time.sleep(0.05)
            if out.getvalue().count(line) > 1:
                break
    ended = out.getvalue()
    assert ended.count(line) > 1
    time.sleep(0.3)
    assert out.getvalue() == ended


def test_a_line_holds_nothing_that_a_terminal_obeys() -> None:
    """rich's Text keeps escapes as they are."""
    out = io.StringIO()
    Display(console=Console(file=out, width=200)).stage(
        "m failed: \x1b]0;owned\x07\x1b[2J\n  [bold]why[/bold]"
    )
    bad = "\N{REPLACEMENT CHARACTER}"
    assert out.getvalue() == f"m failed: {bad}]0;owned{bad}{bad}[2J\n  [bold]why[/bold]\n"


BEGUN = 1_800_000_000.0
HOSTILE = "\x1b]0;owned\x07\n[bold red]::error::" + "x" * 300


def outcomes(questions: int = 20) -> list[Outcome]:
    faults = Faults(unparsed=0.2, errors=0.1)
    return synthetic_outcomes(
        questions, (1, 2), rng=np.random.default_rng(3), model="m", faults=faults
    )


def run_of(
    folder: Path, expected: Sequence[Outcome], stored: Sequence[Sequence[Outcome]], **also: Any
) -> Path:
    """A run that asked for these rows; each list of `stored` is a shard, the k-th written 20 k + 10
    s after BEGUN."""
    (folder / "shards").mkdir(parents=True)
    attempt = start_attempt(folder)
    for k, rows in enumerate(stored):
        info = write_shard(folder, outcomes_to_table(list(rows)), SCHEMA, attempt=attempt)
        os.utime(info.path, (BEGUN + 20 * k + 10,) * 2)
    stamp = datetime.fromtimestamp(BEGUN, UTC).isoformat()
    (folder / "attempt.json").write_text(json.dumps({"attempt": attempt, "started": stamp}))

    model = {"name": "m", "engine": "openai", "tensor_parallel_size": 1, "replicas": 1}
    cost = asdict(CostConfig(prices={"m": {"prompt": 2.0, "generated": 8.0}}, currency="EUR"))
    Manifest(
        "f00",
        {"model": {"m": model}, "cost": cost},
        audit="sweep",
        started=stamp,
        models={"m": {"worker": "m"}},
        benchmark={expected[0].benchmark: {"n": len({o.question_id for o in expected})}},
        settings=settings_of(expected),
        **also,
    ).save(folder)
    return folder


def shown(folder: Path, now: float) -> str:
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(look(runs_of(folder), now)[0])
    return console.export_text()


def test_a_run_that_goes_on_is_told_by_what_it_stored(tmp_path: Path) -> None:
    rows = outcomes()
    half = [o for o in rows if o.question_id in sorted({o.question_id for o in rows})[:10]]
    run = run_of(tmp_path / "run", rows, [half[:30], half[30:]], status="running")
    lock = RunLock.take(run)
    text = shown(run, BEGUN + 70)
    lock.release()
    for arm in {o.arm for o in rows}:
        arm_rows = [o for o in half if o.arm == arm]
        scored = [o for o in arm_rows if o.correct is not None]
        unread = sum(not o.parsed and o.error is None for o in arm_rows)
        (line,) = (line for line in text.splitlines() if f" {arm} " in line)
        fields = line.split("━")[-1].split()
        assert fields[-6:] == [
            f"{len(arm_rows)}/{sum(o.arm == arm for o in rows)}",
            *f"{100 * sum(o.correct for o in scored) / len(scored):.1f} %".split(),
            *f"{100 * unread / len(arm_rows):.1f} %".split(),
            str(sum(o.error is not None for o in arm_rows)),
        ]
    (footer,) = (line for line in text.splitlines() if line.startswith("m: "))
    # The second shard came 20 s after the first, and 40 s ago: its rows are what 60 s were worth.
    pace = (len(half) - 30) / 60
    left = (len(rows) - len(half)) / pace
    assert (
        f"{pace:.2g} rows/s  ETA {int(left) // 60}:{int(left) % 60:02d}" in footer
        and "1:10 elapsed" in footer
    )
    prompts = sum(o.prompt_tokens + o.router_prompt_tokens for o in half)
    generated = sum(o.completion_tokens + o.router_completion_tokens for o in half)
    assert f"{(2 * prompts + 8 * generated) / 1e6:,.2f} EUR so far" in footer
    assert f"{(prompts + generated) / 70:,.0f} tokens/s" in footer


def test_a_price_that_is_not_known_is_not_told(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", outcomes(4), [outcomes(4)], status="finished")
    path = run / "manifest.json"
    plain = json.loads(path.read_text())
    plain["config"]["cost"]["prices"] = {}
    path.write_text(json.dumps(plain))
    assert "so far" not in shown(run, BEGUN)
    plain["config"]["model"]["m"] |= {"engine": "vllm", "tensor_parallel_size": 2, "replicas": 3}
    plain["config"]["cost"]["gpu_hour"] = 2.0
    plain["ended"] = datetime.fromtimestamp(BEGUN + 1800, UTC).isoformat()
    path.write_text(json.dumps(plain))
    assert "6.00 EUR so far" in shown(run, BEGUN)  # 6 GPUs for half an hour at 2


def test_rows_of_an_earlier_start_are_no_part_of_the_pace(tmp_path: Path) -> None:
    rows = outcomes(10)
    run = run_of(tmp_path / "run", rows, [rows[:20], rows[20:40]], status="running")
    for shard in (run / "shards").iterdir():
        os.utime(shard, (BEGUN - 500,) * 2)
    text = shown(run, BEGUN + 60)
    assert "tokens/s" not in text and "rows/s" not in text
    assert sum(int(k) for k in re.findall(r"(\d+)/\d+ ", text)) == 40


def test_a_reply_is_one_line_and_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    rows = [replace(o, response=HOSTILE, error=None) for o in outcomes(3)]
    text = shown(run_of(tmp_path / "run", rows, [rows], status="finished"), BEGUN)
    (line,) = (line for line in text.splitlines() if line.startswith("one reply"))
    assert (
        "\x1b" not in text
        and "\x07" not in text
        and "[bold red]" in line
        and line.count("x") <= 120
    )


def test_a_suite_is_all_its_runs_and_one_that_has_not_begun_is_said(tmp_path: Path) -> None:
    rows = outcomes(4)
    run = run_of(tmp_path / "sweep", rows, [], status="running")
    broken = tmp_path / "memory"
    broken.mkdir()
    (broken / "manifest.json").write_text(
        '{"fingerprint": 1, "config": [], "settings": [3], "benchmark": 4}'
    )
    write_panel(tmp_path, [run, tmp_path / "perturb", broken])
    assert runs_of(tmp_path) == [run, tmp_path / "perturb", broken]
    text = " ".join(as_text(runs_of(tmp_path)).split())
    assert (
        f"0/{sum(o.arm == 'direct' for o in rows)}" in text
        and "perturb" in text
        and "not the manifest" in text
    )


def test_the_command_prints_once_and_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = outcomes(4)
    run = run_of(tmp_path / "run", rows, [rows], status="finished")
    assert main([str(run), "--once"]) == 0
    assert capsys.readouterr().out.count("accuracy") == 1
    assert main([str(run)]) == 0  # it has ended
    assert main([str(tmp_path)]) == 1 and str(tmp_path) in capsys.readouterr().err
    next((run / "shards").iterdir()).write_bytes(b"cut")
    assert main([str(run), "--once"]) == 1
