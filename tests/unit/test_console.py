"""The one command: its table, its short help, completion in a shell, and examples that any shell
takes."""

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
from typed_here import built_wheel, forked, typed

from audit.__main__ import COMMANDS, main, tree
from audit.config.audits import AUDITS
from audit.config.base import CONF_DIR

ROOT = Path(__file__).resolve().parents[2]
# Started by the program itself.
NO_COMMANDS = {"audit.engines.convert_gguf", "audit.plant.train", "audit.scoring.inside", "audit"}


def test_every_module_that_can_be_started_is_a_command() -> None:
    """`audit COMMAND` starts all; `python -m audit.<audit>` too, for job files, starts what has a
    folder of its own."""
    guarded = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
        for path in (ROOT / "audit").rglob("*.py")
        if 'if __name__ == "__main__":' in path.read_text()
    }
    assert guarded - NO_COMMANDS == {f"audit.{name}" for name in (*AUDITS, "plant")}
    for name, command in COMMANDS.items():
        module = "import_logs" if name == "import" else name  # a keyword is no name of a module
        assert command.module in (f"audit.commands.{module}", f"audit.{name}.__main__")
        assert callable(getattr(import_module(command.module), "main" if command.hydra else "run"))
        assert not command.hydra or name == "plan" or (CONF_DIR / f"{name}.yaml").is_file()
    here = {
        f"audit.commands.{path.stem}" for path in (ROOT / "audit" / "commands").glob("[!_]*.py")
    }
    assert here - {command.module for command in COMMANDS.values()} == {"audit.commands.again"}


def test_errors_are_said_at_one_door() -> None:
    """`exits.refused` prints them; plant.train is a process of its own, whose parent reads what it
    says."""
    files = {
        path.name
        for path in (ROOT / "audit").rglob("*.py")
        if re.search(r"print\(.*error: ", path.read_text())
    }
    assert files == {"exits.py", "train.py"}


def test_help_names_every_command_and_a_mistake_its_neighbour() -> None:
    assert all(f"  {name} " in tree(()).format_help() for name in COMMANDS)
    assert typed("--help").code == 0 and typed().code == 2
    done = typed("swep")
    assert done.code == 2 and "'sweep'" in done.err


@pytest.mark.parametrize("name", ["sweep", "perturb", "memory", "validity", "plant"])
def test_help_of_an_audit_fits_a_screen_or_two(name: str) -> None:
    out = typed(name, "--help").out
    assert "default, memory, perturb, validity" in out and "$" not in out and "hydra:" not in out
    assert len(out.splitlines()) < 60 and f"audit {name} --cfg job" in out and "model: " in out


OFFERED: dict[
    str, list[str] | set[str]
] = {  # what is typed: all that is offered, or what is among it
    "audit sw": ["sweep "],
    "audit sweep ": {"model=", "r=", "benchmark=", "clean_replicates=", "--cfg"},
    "audit plan n=10 model=qwen3_8": ["model=qwen3_8b "],
    "audit sweep worker=qwen3_8": ["worker=qwen3_8b "],
    "audit sweep control_benchmark=arc_e": {"control_benchmark=arc_easy "},
    "audit plan audit=per": ["audit=perturb "],
    "audit sweep gate=": ["gate=true", "gate=false"],
    "audit report memo": ["memory/"],  # files and folders
    "audit perturb num": ["num_variants="],
    "audit calibrate --n 10 --": {"--routers", "--simulations", "--out"},  # of the sweep
    "audit calibrate audit=perturb --co": ["--control "],
    "audit calibrate audit=v": ["audit=validity "],
    "audit variants build ": {"strategy=", "num_variants="},
    "audit plant do": ["doses="],
    "audit plan ": {"--json", "audit=", "r="},
    "audit plan audit=perturb ": {"num_variants="},
    "audit plan audit=nowhere ": {"r="},
    "audit evidence ": {"--key", "--with-shards", "verify"},
    "audit suite demo model": {"model_version="},
    "audit review approve --": {"--reason", "--expires"},
    "audit completion z": ["zsh "],
}
# As bash asks: argcomplete writes to descriptor 8.
ASK = """import os; os.dup2(1, 8); os.dup2(2, 1)
from audit.__main__ import console; console()"""


def test_completion_offers_commands_keys_and_what_groups_hold(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "_ARGCOMPLETE": "1",
        "COMP_TYPE": "9",
        "_ARGCOMPLETE_IFS": "\v",
        "_ARGCOMPLETE_COMP_WORDBREAKS": " \t\n",
    }
    jobs = [((), {**env, "COMP_LINE": line, "COMP_POINT": str(len(line))}) for line in OFFERED]
    answers = [out.split("\v") for out, _ in forked(ASK, jobs, tmp_path)]
    for (line, expected), offers in zip(OFFERED.items(), answers, strict=True):
        assert offers == expected if isinstance(expected, list) else expected <= set(offers), (
            line,
            offers,
        )
    offers = answers[1]
    assert (
        not [offer for offer in offers if "hydra" in offer or "override" in offer]
        and "--json" not in offers
    )


def test_bash_completes(tmp_path: Path) -> None:
    stub = tmp_path / "audit"
    stub.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m audit "$@"\n')
    stub.chmod(0o755)
    script = """eval "$(audit completion bash)"
for line in "audit sweep model=qwen3_8" "audit rep" "audit review ap"; do
  COMP_LINE=$line COMP_POINT=${#line} COMP_TYPE=9 _python_argcomplete audit
  printf '[%s]' "${COMPREPLY[@]}"
done
"""
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], env=env, capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout == "[qwen3_8b ][report ][approve ]"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_scripts_are_read_by_their_shell(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    subprocess.run([shell, "-n"], input=capsys.readouterr().out, text=True, timeout=300, check=True)


EXAMPLE = re.compile(
    r"^(?:[ #]{2,}|\s*|.*?: `)((?:audit [a-z]|python -m audit|make [a-z]|\.venv/bin/audit).*)$"
)


@pytest.mark.parametrize(
    "path",
    [
        *(ROOT / name for name in ("README.md", "jobs/README.md", "cluster/README.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "conf").rglob("*.yaml")),
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_examples_are_safe_in_zsh(path: Path) -> None:
    """An unquoted bracket is a pattern there, and the command fails before it starts."""
    lines = path.read_text().replace("\\\n", " ").splitlines()
    for line in lines:
        if match := EXAMPLE.match(line):
            bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", match[1]).split(" # ")[0].split("`")[0]
            assert not set("[]{}") & set(bare), line


def _texts(path: Path) -> Iterator[str]:
    """Every sentence of a module that is no docstring, with X for what is put into it."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(getattr(part, "value", "")) if isinstance(part, ast.Constant) else "X"
                for part in node.values
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings | parts
        ):
            yield node.value


@pytest.mark.parametrize(
    "path", sorted((ROOT / "audit").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_what_a_message_says_to_type_is_safe_in_zsh(path: Path) -> None:
    for text in _texts(path):
        for line in (
            text.splitlines() if " " in text else ()
        ):  # without a space: a word that the program itself types
            bare = re.sub(r"(?<!\w)'[^']*'|\"[^\"]*\"|`[^`]*`", "", line)
            assert not re.search(r"(?<!\w)\+?[a-z_][\w.]*=[\[{]", bare), line


def test_a_wheel_has_every_file_and_works_from_any_folder(tmp_path: Path) -> None:
    with zipfile.ZipFile(built_wheel(tmp_path, ROOT)) as archive:
        archive.extractall(tmp_path / "site")
    for folder, inside in ((ROOT / "audit", "audit"), (ROOT / "conf", "audit/_conf")):
        files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
        installed = {
            path.relative_to(tmp_path / "site" / inside)
            for path in (tmp_path / "site" / inside).rglob("*")
        }
        assert not {path for path in files - installed if "__pycache__" not in path.parts}
    (tmp_path / "site" / "conf").mkdir()  # another package's, beside it
    (tmp_path / "here").mkdir()
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    words = [sys.executable, "-m", "audit", "plan", "model=scripted", "n=10", "r=1"]
    done = subprocess.run(
        words,
        cwd=tmp_path / "here",
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0 and "router calls" in done.stdout, done.stderr
