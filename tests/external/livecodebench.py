"""LiveCodeBench, 2024-04-17: LeetCode before and after 2023-09-01, and AtCoder as the placebo."""

import contextlib
import csv
import io
import json
import math
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from commands_here import import_logs

from external.judged import FOUND, Set, Tally, panel

FILE = "livecodebench/performances_generation_2024-04-17.json"
CUT_MS = 1_693_526_400_000  # 2023-09-01
DECEMBER_MS = 1_701_388_800_000  # 2023-12-01
# DeepSeek-Coder is named by the benchmark's authors; these are it, are built on it, or are
# CodeQwen.
POSITIVE = (
    "DSCoder-33b-Base",
    "WCoder-33B-V1.1",
    "DSCoder-33b-Ins",
    "DSCoder-6.7b-Base",
    "OC-DS-33B",
    "CodeQwen15-7B",
    "OC-DS-6.7B",
    "MagiCoderS-DS-6.7B",
    "DSCoder-6.7b-Ins",
    "DSCoder-1.3b-Base",
    "DSCoder-1.3b-Ins",
)
AMBIGUOUS = (
    "StarCoder2-15b",
    "CodeQwen15-7B-Chat",
    "Claude-3-Opus",
    "Gemini-Pro-1.5 (n=1)",
    "OC-DS-1.3B",
)
# Of eight families, without a visible gap: clean by choice. The first five are the panel of five.
REFERENCES = (
    "Claude-2",
    "Mistral-Large",
    "Gemini-Pro",
    "Qwen-1.5-72B-Chat",
    "Command-R+",
    "DBRX-Ins",
    "Phind-34B-V2",
    "StarCoder2-7b",
)
LEARNT = "DSCoder-33b-Ins"  # the one reference that is not clean
DRAWS = 6


def load(data: Path, platform: str, until_ms: float = math.inf) -> tuple[Set, Set]:
    """Return the shares of ten samples by model, before and after the date, with difficulty as
    stratum. Problems published from `until_ms` on are left out."""
    rows = [
        r
        for r in json.loads((data / FILE).read_text())["performances"]
        if r["platform"] == platform and r["date"] < until_ms
    ]
    sets = []
    for after in (False, True):
        mine = sorted(
            (r["question_id"], r["difficulty"]) for r in rows if (r["date"] >= CUT_MS) == after
        )
        place = {id_: k for k, id_ in enumerate(dict.fromkeys(id_ for id_, _ in mine))}
        scores: dict[str, np.ndarray] = {}
        stratum = np.full(len(place), "", dtype="U8")
        for r in rows:
            if r["question_id"] in place:
                scores.setdefault(r["model"], np.full(len(place), np.nan))[
                    place[r["question_id"]]
                ] = r["pass@1"] / 100
                stratum[place[r["question_id"]]] = r["difficulty"]
        sets.append(Set(scores, np.zeros(len(place), dtype=np.int64), stratum))
    return sets[0], sets[1]


def family(model: str) -> str:
    """Of a name: models of one maker, or built on one base."""
    for name, base in (
        ("DS", "deepseek"),
        ("WCoder-33B", "deepseek"),
        ("MagiCoderS-CL", "llama"),
        ("Cllama", "llama"),
        ("CodeLlama", "llama"),
        ("Phind", "llama"),
        ("WCoder-34B", "llama"),
        ("Eurux", "mistral"),
        ("Smaug", "qwen"),
        ("CodeQwen", "qwen"),
        ("StableCode", "stable"),
    ):
        if name in model:
            return base
    return re.split(r"[^A-Za-z]", model, maxsplit=1)[0].lower().removesuffix("coder")


def write_table(data: Path, platform: str, path: Path) -> None:
    """The csv that `audit import` reads: k right of n trials, the set by date, the difficulty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(("model", "item", "right", "of", "benchmark", "difficulty"))
        for r in json.loads((data / FILE).read_text())["performances"]:
            if r["platform"] == platform:
                when = "after" if r["date"] >= CUT_MS else "before"
                row = (
                    r["model"],
                    r["question_id"],
                    round(r["pass@1"] / 10),
                    10,
                    when,
                    r["difficulty"],
                )
                out.writerow(row)


def imported(
    data: Path, platform: str, references: tuple[str, ...], strata: bool = False
) -> list[dict[str, Any]]:
    """The cells of verdict.json, by the command that a user types; the judged models are all
    others. strata: as many easy, medium and hard problems, in shares, after the date as before."""
    before, _ = load(data, platform)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        table, run = Path(folder, f"{platform}.csv"), Path(folder, "run")
        write_table(data, platform, table)
        columns = "correct=right" + (",stratum=difficulty" if strata else "")
        words = [
            str(table),
            "-o",
            str(run),
            "--map",
            columns,
            "--benchmark",
            "before",
            "--held-out",
            "after",
        ]
        judged = [name for name in sorted(before.scores) if name not in references]
        if import_logs([*words, "--judge", *judged, "--references", *references]) != 0:
            raise RuntimeError(f"audit import refused {platform}")
        cells: list[dict[str, Any]] = json.loads((run / "report" / "verdict.json").read_text())[
            "cells"
        ]
    return cells


def drawn(data: Path, platform: str, size: int, draws: int = DRAWS) -> tuple[Tally, int]:
    """References drawn at random from the negatives of other families, for each judged model
    anew."""
    before, after = load(data, platform)
    negative = [name for name in sorted(before.scores) if name not in (*POSITIVE, *AMBIGUOUS)]
    rng, tally = np.random.default_rng(size), Tally()
    for draw in range(draws):
        chosen = {}
        for model in (*POSITIVE, *negative):
            others = [name for name in rng.permutation(negative) if family(name) != family(model)]
            chosen[model] = others[:size]
        tally.add(panel(before, after, chosen, seed=draw))
    return tally, draws


def report(data: Path) -> Iterator[str]:
    """Lines of markdown."""
    yield "### LeetCode: every model, eight references\n"
    cells = imported(data, "leetcode", REFERENCES)
    yield "| model | | score before | without memory | gap, points | p, corrected | verdict |"
    yield "|---|---|---|---|---|---|---|"
    for cell in sorted(cells, key=_gap, reverse=True):
        yield _row(cell)
    yield "\n### What is found\n"
    yield "| references | platform | of the positives | of the negatives | ambiguous | withheld |"
    yield "|---|---|---|---|---|---|"
    for platform in ("leetcode", "atcoder"):
        for names, label in (
            (REFERENCES[:5], "the first five"),
            (REFERENCES, "all eight"),
            ((*REFERENCES[1:], LEARNT), f"seven, and {LEARNT}"),
        ):
            yield _counts(imported(data, platform, names), platform, label)
        yield _counts(
            imported(data, platform, REFERENCES, strata=True),
            platform,
            "all eight, difficulty matched",
        )
    yield f"\nReferences drawn at random, {DRAWS} times, from the negatives of other families; 40 models a panel:\n"
    yield "| references | platform | positives found | before the correction | negatives found | always missed |"
    yield "|---|---|---|---|---|---|"
    for platform in ("leetcode", "atcoder"):
        for size in (5, 8):
            tally, draws = drawn(data, platform, size)
            positive = sum(tally.gaps[name] for name in POSITIVE) / draws
            other = sum(tally.gaps.values()) / draws - positive
            alone = sum(tally.alone[name] for name in POSITIVE) / draws
            missed = (
                [name for name in POSITIVE if not tally.gaps[name]]
                if platform == "leetcode"
                else []
            )
            shares = f"{positive:.1f} of 11 | {alone:.1f}"
            yield f"| {size} | {platform} | {shares} | {other:.1f} of 29 | {', '.join(missed) or 'none'} |"


def _row(cell: dict[str, Any]) -> str:
    kind = "+" if cell["model"] in POSITIVE else "?" if cell["model"] in AMBIGUOUS else ""
    estimate = (cell["without_memory"] or {}).get("estimate")
    without = "not identified"
    if estimate:
        limits = estimate["without"]
        without = f"{limits['estimate']:.2f} [{limits['low']:.2f}, {limits['high']:.2f}]"
    gap = next(indicator for indicator in cell["indicators"] if indicator["name"] == "gap")
    shown = (
        ""
        if gap["estimate"] is None
        else f"{gap['estimate']:+.1f} [{gap['low']:+.1f}, {gap['high']:+.1f}]"
    )
    p = "" if gap["adjusted"] is None else f"{gap['adjusted']:.2g}"
    return f"| {cell['model']} | {kind} | {cell['score']:.2f} | {without} | {shown} | {p} | {cell['verdict']} |"


def _gap(cell: dict[str, Any]) -> float:
    return float(
        next(indicator for indicator in cell["indicators"] if indicator["name"] == "gap")[
            "estimate"
        ]
        or -1e9
    )


def _counts(cells: list[dict[str, Any]], platform: str, label: str) -> str:
    models = [cell["model"] for cell in cells if cell["verdict"] == FOUND]
    judged = [cell["model"] for cell in cells]
    positive = [name for name in POSITIVE if name in judged]
    doubtful = [name for name in AMBIGUOUS if name in judged]
    rest = [name for name in judged if name not in (*positive, *doubtful)]
    shares = (
        f"{sum(name in models for name in group)} of {len(group)}"
        for group in (positive, rest, doubtful)
    )
    withheld = sum(cell["verdict"] == "withheld" for cell in cells)
    return f"| {label} | {platform} | {' | '.join(shares)} | {withheld} |"
