"""Every command by one table: results on stdout, all else on stderr; --json, --quiet, NO_COLOR, its
own usage line."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from argparse import _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

import pytest
from typed_here import Typed, typed

from audit.commands import COMMANDS, tree
from audit.commands.demo import shipped
from audit.core.exits import QUIET
from audit.runtime.progress import Display

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run that ships, a registry, a question file and a chronology."""
    folder = tmp_path_factory.mktemp("streams")
    shutil.copytree(shipped(), folder / "outputs" / "run")
    (folder / "exam.jsonl").write_text(
        '{"question": "Which?", "choices": ["a", "b"], "answer": 0}\n'
    )
    typed("report", "outputs/run", folder=folder)
    typed("registry", "add", "outputs/run", "--registry", "runs.db", folder=folder)
    (folder / "keys").mkdir()
    typed("evidence", "outputs/run", "-o", "pack.zip", "--unsigned", folder=folder)
    shutil.copy(Path(__file__).parents[2] / "docs" / "CHRONOLOGY.jsonl", folder)
    return folder


# Every command, and below a command every command, that reads: its words in that folder.
READS = {
    "plan": ["plan", "model=scripted", "n=20", "r=1", "benchmark=elementary"],
    "runs": ["runs"],
    "watch": ["watch", "outputs/run", "--once"],
    "report": ["report", "outputs/run"],
    "gate": ["gate", "outputs/run"],
    "compare": [
        "compare",
        "outputs/run",
        "outputs/run",
        "--models",
        "smollm2_135m=smollm2_135m_taught",
    ],
    "data show": ["data", "show", "exam.jsonl"],
    "references show": ["references", "show"],
    "inventory": ["inventory", "gsm8k_contamination_audit_v3"],
    "variants list": ["variants", "list"],
    "variants show": ["variants", "show", "elementary"],
    "variants diff": ["variants", "diff", "elementary", "elementary"],
    "review list": ["review", "list", "outputs"],
    "review show": ["review", "show", "outputs/run"],
    "evidence verify": ["evidence", "verify", "pack.zip", "--unsigned"],
    "registry list": ["registry", "list", "--registry", "runs.db"],
    "registry show": ["registry", "show", "KEY", "--registry", "runs.db"],
    "registry trends": ["registry", "trends", "--registry", "runs.db"],
    "registry due": ["registry", "due", "--registry", "runs.db"],
    "chronology check": ["chronology", "check", "CHRONOLOGY.jsonl"],
    "reanalyze": ["reanalyze", "song2026"],
    "reanalyze li2026": ["reanalyze", "li2026"],
}
# What only acts (writes, asks models, serves, decides), or whose result is no data.
ACTS = {
    "demo",
    "init",
    "sweep",
    "perturb",
    "memory",
    "validity",
    "suite",
    "import",
    "leaderboard",
    "publish",
    "open",
    "export",
    "calibrate",
    "plant",
    "completion",
    "references build",
    "references fetch",
    "variants build",
    "variants merge",
    "variants export",
    "variants panel",
    "variants review",
    "review approve",
    "review reject",
    "review override",
    "review serve",
    "review keygen",
    "evidence",
    "registry add",
    "registry hold",
    "registry release",
    "registry forget",
    "registry expire",
    "registry draw",
    "registry notify",
    "registry card",
    "registry push",
    "registry mlflow",
    "registry wandb",
    "chronology add",
    "chronology render",
    "export inspect",
    "export eee",
    "export hub",
    "export tasks",
}


def leaves() -> Iterator[str]:
    """Every command with the commands below it, from the parsers themselves."""
    for name, command in COMMANDS.items():
        if command.hydra:
            yield name
            continue
        parser = tree([name])._subparsers._group_actions[0].choices[name]  # type: ignore[union-attr]
        below = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
        for action in below:
            yield from (f"{name} {choice}" for choice in action.choices)
        if not below:
            yield name


def test_every_command_reads_or_acts() -> None:
    commands = {"review serve", *leaves()} | {
        "evidence verify",
        "reanalyze li2026",
    }  # that their words alone show
    assert commands == {*READS, *ACTS} & commands and not {*READS} & ACTS
    assert set(READS) <= commands


def ran(words: list[str], folder: Path) -> Typed:
    if "KEY" in words:
        (first, *_) = json.loads(
            typed("registry", "list", "--registry", "runs.db", "--json", folder=folder).out
        )
        words = [first["run"]["key"] if word == "KEY" else word for word in words]
    done = typed(*words, folder=folder)
    assert done.code in (0, 3, 4, 5) or words[0] == "gate", done.err
    return done


@pytest.mark.parametrize("name", READS)
def test_what_reads_has_its_result_alone_on_stdout_and_as_json(name: str, place: Path) -> None:
    done = ran(READS[name], place)
    as_json = ran([*READS[name], "--json"], place)
    json.loads(as_json.out)
    quiet = ran([*READS[name], "--json", "--quiet"], place)
    assert json.loads(quiet.out) is not None and not quiet.err
    assert done.out and not ESCAPE.search(done.out + done.err + as_json.out)
    assert not re.search(r"^(note|error|warning):", as_json.out, re.MULTILINE)


@pytest.mark.parametrize("name", [*COMMANDS, *(command for command in READS if " " in command)])
def test_a_usage_error_shows_the_usage_of_the_command(name: str, place: Path) -> None:
    done = typed(*name.split(), "--nonsense", folder=place)
    assert done.code == 2 and not done.out
    assert f"usage: audit {name.split()[0]}" in done.err.replace(
        "usage: audit plan", f"usage: audit {name}"
    )


def on_terminal(words: list[str], folder: Path, **env: str) -> str:
    """What a command writes to a terminal."""
    reader, terminal = pty.openpty()
    base = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    command = [sys.executable, "-m", "audit", *words]
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=base | {"TERM": "xterm-256color"} | env,
    ) as process:
        os.close(terminal)
        output = b""
        try:
            while part := os.read(reader, 65536):
                output += part
        except OSError:  # the other side is closed
            pass
        process.wait()
    os.close(reader)
    return output.decode()


def test_colour_is_for_terminals_and_for_those_who_want_it(place: Path) -> None:
    words = ["watch", "outputs/run", "--once"]
    assert ESCAPE.search(on_terminal(words, place))
    assert not re.search(r"\x1b\[[0-9;]*3[0-9;]*m", on_terminal(words, place, NO_COLOR="1"))


def test_progress_and_notes_of_a_run_are_on_stderr_and_quiet_ends_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def shown() -> tuple[str, str]:
        with Display() as display:
            display.stage("reading the benchmark")
            display.note("the first option is always right")
        return tuple(capsys.readouterr())

    out, err = shown()
    assert not out and "reading the benchmark" in err and "always right" in err
    token = QUIET.set(True)
    try:
        assert shown() == ("", "")
    finally:
        QUIET.reset(token)
