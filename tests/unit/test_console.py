"""The one command: its table, its short help, completion in a shell, and examples that any shell takes."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from audit.__main__ import COMMANDS, help_text, main
from audit.completion import SCRIPTS, candidates
from audit.config import CONF_DIR

ROOT = Path(__file__).resolve().parents[2]
NO_COMMANDS = {
    "audit.calibrate_early",
    "audit.engines.convert_gguf",
    "audit.plant.train",
    "audit.validity.score_file",
    "audit",
}  # makers of data
HYDRAS = {name for name, command in COMMANDS.items() if command.config}


def test_every_module_that_can_be_started_is_a_command() -> None:
    guarded = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
        for path in (ROOT / "audit").rglob("*.py")
        if 'if __name__ == "__main__":' in path.read_text()
    }
    named = {command.module.removesuffix(".__main__") for command in COMMANDS.values()}
    assert named == guarded - NO_COMMANDS, "give the command a line in audit/__main__.py"
    for command in COMMANDS.values():
        assert callable(import_module(command.module).main)
        assert not command.config or (CONF_DIR / f"{command.config}.yaml").is_file()


def test_help_names_every_command_and_a_mistake_its_neighbour(capsys: pytest.CaptureFixture[str]) -> None:
    assert all(f"  {name} " in help_text() for name in COMMANDS)
    assert main(["--help"]) == 0 and main([]) == 2
    assert main(["swep"]) == 2
    assert "Did you mean 'sweep'?" in capsys.readouterr().err


def test_the_command_hands_its_words_over(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["audit"])
    assert main(["gate", "nowhere"]) == 1
    assert "nowhere/report/verdict.json is missing" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["sweep", "perturb", "memory", "validity", "plant"])
def test_help_of_an_audit_fits_a_screen_or_two(name: str) -> None:
    words = [sys.executable, "-m", "audit", name, "--help"]
    out = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    assert len(out.splitlines()) < 60 and f"audit {name} --cfg job" in out and "model: " in out


def test_completion_offers_commands_keys_and_what_groups_hold() -> None:
    commands = {name: command.config for name, command in COMMANDS.items()}

    def offered(line: str) -> list[str]:
        return candidates(line, commands, CONF_DIR)

    assert offered("audit sw") == ["sweep "]
    assert {"model=", "r=", "benchmark=", "clean_replicates="} <= set(offered("audit sweep "))
    assert "model=qwen3_8b " in offered("audit plan n=10 model=q")
    assert "worker=qwen3_8b " in offered("audit sweep worker=qwen3_8")
    assert "control_benchmark=arc_easy " in offered("audit sweep control_benchmark=arc")
    assert offered("audit plan audit=per") == ["audit=perturb "]
    assert offered("audit sweep gate=") == ["gate=true ", "gate=false "]
    assert offered("audit report outputs/") == []  # the shell's own file names
    assert "num_variants=" in offered("audit perturb num")
    assert {"--routers ", "--simulations ", "--out "} <= set(offered("audit calibrate --n 10 "))  # of the sweep
    assert offered("audit calibrate audit=perturb --co") == ["--control "]
    assert {"strategy=", "num_variants="} <= set(offered("audit variants build "))
    assert "doses=" in offered("audit plant do")
    assert {"--json ", "audit=", "r="} <= set(offered("audit plan ")) and "--json " not in offered("audit sweep ")
    assert "num_variants=" in offered("audit plan audit=perturb ") and "r=" in offered("audit plan audit=nowhere ")
    assert not [one for one in offered("audit sweep ") if "hydra" in one or "override" in one]


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"suite", "calibrate", "completion", *HYDRAS}))
def test_completion_offers_what_the_commands_help_names(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Subcommands and options, no more and no fewer, read from --help as a person would."""

    def offered(*words: str) -> set[str]:
        line = " ".join(["audit", *words, ""])
        return {one.strip() for one in candidates(line, dict.fromkeys(COMMANDS, ""), CONF_DIR)}

    def of_help(*words: str) -> tuple[set[str], set[str]]:
        with pytest.raises(SystemExit):
            main([*words, "--help"])
        usage, _, rest = capsys.readouterr().out.partition("\n\n")
        options = set(re.findall(r"^  (?:-\w(?: [A-Z]+)?, )?(--[a-z-]+\d?)", rest, re.MULTILINE)) - {"--help"}
        return options, set(re.findall(r"^    ([a-z]+)(?: |$)", rest, re.MULTILINE)) if "..." in usage else set()

    options, below = of_help(name)
    if name == "evidence":
        below = {"verify"}  # `audit evidence RUN_DIR` has no subcommand, and names this one at its end
    assert options | below and offered(name) - {"--folder"} == (options | below) - {"--folder"}
    for one in below - {"build"}:  # build takes keys
        assert offered(name, one) == of_help(name, one)[0], one


def test_bash_completes(tmp_path: Path) -> None:
    stub = tmp_path / "audit"
    stub.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m audit "$@"\n')
    stub.chmod(0o755)
    script = f"""{SCRIPTS["bash"]}
COMP_LINE="audit sweep model=qwen3_8"; COMP_POINT=${{#COMP_LINE}}; _audit_complete
printf '[%s]' "${{COMPREPLY[@]}}"
COMP_LINE="audit rep"; COMP_POINT=${{#COMP_LINE}}; _audit_complete
printf '[%s]' "${{COMPREPLY[@]}}"
COMP_LINE="audit review ap"; COMP_POINT=${{#COMP_LINE}}; _audit_complete
printf '[%s]' "${{COMPREPLY[@]}}"
"""
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[qwen3_8b ][report ][approve ]"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_scripts_are_read_by_their_shell(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n"], input=SCRIPTS[shell], text=True, timeout=60, check=True)


EXAMPLE = re.compile(r"^(?:[ #]{2,}|\s*|.*?: `)((?:audit [a-z]|python -m audit|make [a-z]|\.venv/bin/audit).*)$")


@pytest.mark.parametrize(
    "path",
    [
        *(ROOT / name for name in ("README.md", "jobs/README.md", "cluster/README.md")),
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "conf").rglob("*.yaml")),
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_examples_are_safe_in_zsh(path: Path) -> None:
    """An unquoted bracket is a pattern there, and the command fails before it starts."""
    lines = path.read_text().replace("\\\n", " ").splitlines()
    for line in lines:
        if found := EXAMPLE.match(line):
            bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", found[1]).split(" # ")[0].split("`")[0]
            assert not set("[]{}") & set(bare), line


def _texts(path: Path) -> Iterator[str]:
    """Every sentence of a module that is no docstring, with X for what is put into it."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(getattr(part, "value", "")) if isinstance(part, ast.Constant) else "X" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | parts:
            yield node.value


@pytest.mark.parametrize("path", sorted((ROOT / "audit").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_message_says_to_type_is_safe_in_zsh(path: Path) -> None:
    for text in _texts(path):
        for line in text.splitlines() if " " in text else ():  # without a space: a word that the program itself types
            bare = re.sub(r"(?<!\w)'[^']*'|\"[^\"]*\"|`[^`]*`", "", line)
            assert not re.search(r"(?<!\w)\+?[a-z_][\w.]*=[\[{]", bare), line


def test_a_wheel_has_every_file_and_works_from_any_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    for folder, inside in ((ROOT / "audit", "audit"), (ROOT / "conf", "audit/_conf")):
        found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
        there = {path.relative_to(tmp_path / "site" / inside) for path in (tmp_path / "site" / inside).rglob("*")}
        assert not {path for path in found - there if "__pycache__" not in path.parts}
    (tmp_path / "site" / "conf").mkdir()  # another package's, beside it
    (tmp_path / "here").mkdir()
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    words = [sys.executable, "-m", "audit", "plan", "model=scripted", "n=10", "r=1"]
    done = subprocess.run(
        words, cwd=tmp_path / "here", env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0 and "router calls" in done.stdout, done.stderr
