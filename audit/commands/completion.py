"""Completion of commands, keys, models and benchmarks.

~/.bashrc: eval "$(audit completion bash)"; ~/.zshrc: eval "$(audit completion zsh)"; fish: audit completion fish >
~/.config/fish/completions/audit.fish
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

import argcomplete

from audit.audits import every_audit
from audit.commands import COMMANDS, Words, parser_of
from audit.config import CONF_DIR, conf_of

SHELLS = ("bash", "zsh", "fish")


def complete() -> NoReturn:
    """Answer the shell with what the parser of the command in COMP_LINE takes; the shell adds names of files."""
    words = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])].split(" ")
    name = words[1] if len(words) > 2 else ""
    if name not in COMMANDS:
        parser = argparse.ArgumentParser(prog="audit")
        parser.add_argument("command", choices=list(COMMANDS))
        _answer(parser)
    os.environ["_ARGCOMPLETE"] = "2"  # the command's own parser reads from the second word
    if config := COMMANDS[name].config:
        _answer(_hydra_parser(name, config, words))
    sys.argv = [f"audit {name}", *words[2:-1]]
    # Every other command reads its words with a parser: this one answers in its place.
    argparse.ArgumentParser.parse_args = _answer  # type: ignore[method-assign, assignment]
    import_module(COMMANDS[name].module).main()
    sys.exit(1)


def _answer(parser: argparse.ArgumentParser, *given: Any) -> NoReturn:
    if "calibrate audit=" in parser.prog:
        offer(parser.add_argument("audit", nargs="*"), lambda typed: _audits("suite"))
    argcomplete.autocomplete(parser)
    sys.exit(1)


def offer(action: argparse.Action, words: Callable[[str], Sequence[str]]) -> None:
    """Have an argument completed with `words` of what is typed of it, looked up when the shell asks."""
    action.completer = lambda prefix, **asked: words(prefix)  # type: ignore[attr-defined]


def _audits(*more: str) -> list[str]:
    return [f"audit={name}" for name in (*every_audit(), *more)]


def _hydra_parser(name: str, config: str, words: Sequence[str]) -> argparse.ArgumentParser:
    """Of a command that Hydra composes: the keys of its configuration, and what they may be."""
    parser = argparse.ArgumentParser(prog=f"audit {name}")
    parser.add_argument("--cfg", choices=["job"])
    planned = [] if name != "plan" else [audit for audit in every_audit() if f"audit={audit}" in words[:-1]]
    for flag in ("--json", "--seal") if name == "plan" else ():
        parser.add_argument(flag, action="store_true")

    def known(typed: str) -> list[str]:
        audits = [] if name != "plan" else _audits() if "=" in typed else ["audit="]
        return [*audits, *overrides([*planned, config][0], typed)]

    offer(parser.add_argument("words", nargs="*"), known)
    return parser


def overrides(config: str, typed: str) -> list[str]:
    """The keys of conf/<config>.yaml, or with `key=` typed the values of the key."""
    key, found, _ = typed.partition("=")
    if found:
        return [f"{key}={value}" for value in _values(key, config)]
    return [f"{key}=" for key in _settings(config)]


def _settings(config: str) -> dict[str, object]:
    """Top-level keys of a configuration with their defaults; its groups with None."""
    from omegaconf import OmegaConf

    composed: Any = OmegaConf.to_container(OmegaConf.load(conf_of(config) / f"{config}.yaml"), resolve=False)
    groups = [str(next(iter(one))) for one in composed.get("defaults", []) if isinstance(one, dict)]
    found: dict[str, object] = {name: None for name in groups if not name.startswith("override ")}
    return found | {str(key): value for key, value in composed.items() if key not in ("defaults", "hydra")}


def _values(key: str, config: str) -> list[str]:
    known = {"control_benchmark": "benchmark", "worker": "model"}.get(key, key)
    if (CONF_DIR / known).is_dir():
        return sorted(path.stem for path in (CONF_DIR / known).glob("*.yaml"))
    default = _settings(config).get(key)
    return ["true", "false"] if isinstance(default, bool) else []


def main(words: Words = None) -> int:
    """Print a shell's script."""
    parser = parser_of("completion", __doc__)
    parser.add_argument("shell", choices=SHELLS)
    print(argcomplete.shellcode(["audit"], shell=parser.parse_args(words).shell))
    return 0
