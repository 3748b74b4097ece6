"""The documented table of exit codes, held against what every command does."""

import re
import sys
from pathlib import Path

import pytest

from audit.__main__ import COMMANDS, main
from audit.decision import rule, words
from audit.exits import BROKEN_PIPE, INTERRUPTED, TERMINATED

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/exit_codes.md"


def table() -> dict[str, dict[int, str]]:
    """{command: {code: what the table says}}, cells that say nothing left out."""
    lines = PAGE.read_text().split("<!-- exit codes")[1].splitlines()[1:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[: lines.index("")]]
    head, _, *body = rows
    found: dict[str, dict[int, str]] = {}
    for column, title in enumerate(head[1:], start=1):
        for name in re.findall(r"`(\w+)`", title):
            found[name] = {int(row[0]): row[column] for row in body if row[column]}
    return found


REFUSED = {
    "sweep": ["r=9..1"],
    "plan": ["r=9..1"],
    "perturb": ["model=scripted", "variants=nowhere"],
    "memory": ["model=scripted", "orders=0"],
    "validity": ["model=scripted", "formats=[nowhere]"],
    "plant": ["model=scripted"],
    "suite": ["nowhere"],
    "variants": ["show", "nowhere"],
    "report": ["nowhere"],
    "gate": ["nowhere"],
    "runs": ["nowhere"],
    "compare": ["nowhere", "nowhere"],
    "registry": ["list", "--registry", "oracle://nowhere"],
    "review": ["show", "nowhere"],
    "evidence": ["verify", "nowhere.zip", "--unsigned"],
    "export": ["inspect", "nowhere"],
    "data": ["show", "nowhere.csv"],
    "import": ["nowhere.eval", "-o", "nowhere"],
    "chronology": ["check", "nowhere.jsonl"],
    "calibrate": ["--n", "some"],
    "reanalyze": ["nowhere.csv"],
    "publish": ["nowhere.jsonl", "--out", "out"],
    "references": ["show", "set:nowhere"],
    "inventory": ["nowhere"],
    "watch": ["nowhere"],
    "open": ["nowhere"],
    "demo": ["--out", "/dev/null/demo"],
}


def code_of(arguments: list[str], monkeypatch: pytest.MonkeyPatch, folder: Path) -> int:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["audit", *arguments])
    try:
        return main(arguments) or 0
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code


def test_every_command_is_in_the_table_once() -> None:
    assert set(table()) == set(COMMANDS)
    assert set(REFUSED) == set(COMMANDS) - {"completion"}  # completion takes nothing that could be refused


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_does_is_in_its_column(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    says = table()[name]
    assert code_of([name, "--help"], monkeypatch, tmp_path) == 0 and says[0]
    assert code_of([name, "--nonsense"], monkeypatch, tmp_path) == 2 and "usage" in says[2]
    if name in REFUSED:
        assert code_of([name, *REFUSED[name]], monkeypatch, tmp_path) == 1 and says[1]
    assert says[INTERRUPTED] and says[TERMINATED] and says[BROKEN_PIPE]  # of all alike: `exits.run_command`


def test_a_verdicts_code_stands_beside_its_name() -> None:
    """Of every audit, and nowhere but in the column of the gate, by which a suite ends."""
    says = table()
    cells = [
        {"verdict": str(verdict), "evidence": {"archetype": archetype}}
        for verdict, word in words().items()
        for archetype in word.where or [None]
    ]
    for cell in cells:
        verdict, code = cell["verdict"], rule({"audit": "any", "cells": [cell], "rows": []}).exit_code
        said = str(verdict).replace("excess_explained_by", "explained by").replace("_cause_unknown", "")
        assert said.replace("_", " ") in says["gate"][code].replace("a gain explained", "explained"), verdict
    assert all(not {3, 4} & set(codes) for name, codes in says.items() if name not in ("gate", "suite"))


def test_an_unknown_command_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert code_of(["swep"], monkeypatch, tmp_path) == 2 and "unknown command" in PAGE.read_text()
