"""`make gpu` without a GPU and without an engine: its parts, its table, and what it says of a part
that fails."""

import json
import sys
from pathlib import Path

import pytest
from bench.gpu import Part, parts, row


def test_the_parts_follow_the_machine(tmp_path: Path) -> None:
    names = [
        [p.name for p in parts(gpus, tmp_path, 10, large, [])]
        for gpus, large in ((0, ""), (2, "qwen3_8b"))
    ]
    assert len(names[0]) == 3 and len(names[1]) == 5 and "qwen3_8b" in names[1][-1]


TIMES = {"raw_generate_s": 9.5, "sweep_generate_s": 10.0, "raw_requests": 2245.0}


@pytest.mark.parametrize(
    ("out", "index", "figure", "reached"),
    [
        ("PASSED a\nPASSED b\n", 0, "2 pass, 0 fail", True),
        ("PASSED a\nFAILED b\n", 0, "1 pass, 1 fail", False),
        ("1 skipped\n", 0, "0 pass, 0 fail", False),  # a test that is skipped shows nothing
        (json.dumps({"efficiency": 0.981} | TIMES), 1, "0.98", True),
        (json.dumps({"efficiency": 0.93} | TIMES), 1, "0.93", False),
        (
            json.dumps(
                {"question": {"apart_nats": {"ours, lm_eval": {"median": 0.01, "most": 0.41}}}}
            ),
            3,
            "0.41",
            True,
        ),
        (
            json.dumps(
                {"question": {"apart_nats": {"ours, lm_eval": {"median": 0.01, "most": 0.6}}}}
            ),
            3,
            "0.60",
            False,
        ),
    ],
)
def test_a_figure_is_read_and_held_against_its_target(
    out: str, index: int, figure: str, reached: bool, tmp_path: Path
) -> None:
    result = list(parts(0, tmp_path, 10, "", ["--n", "5"]))[index].figure(out)
    assert figure in result[0] and result[1] is reached


def test_a_part_that_fails_is_a_row_with_its_last_words() -> None:
    failing = Part(
        "fails",
        [sys.executable, "-c", "raise SystemExit('no | engine')"],
        "runs",
        lambda out: ("ran", True),
    )
    line, reached = row(failing)
    assert not reached and "failed: no \\| engine" in line and line.count(" | ") == 5
