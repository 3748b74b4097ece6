"""Completion of commands, keys, models and benchmarks.

~/.bashrc: eval "$(audit completion bash)"; ~/.zshrc: eval "$(audit completion zsh)"; fish: audit
completion fish > ~/.config/fish/completions/audit.fish"""

import os
import sys
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import argcomplete

from audit.config.audits import AUDITS, every_audit
from audit.config.base import CONF_DIR, conf_of, options_of

SHELLS = ("bash", "zsh", "fish")


def complete(parser_of: Callable[[Sequence[str]], ArgumentParser]) -> NoReturn:
    """Answer the shell with what the command in COMP_LINE takes; the shell adds names of files.

    parser_of: returns the parser of the words typed so far.
    """
    words = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])].split(" ")
    argcomplete.autocomplete(parser_of(words[1:-1]))
    sys.exit(1)


def offer(action: Action, words: Callable[[str], Sequence[str]]) -> None:
    """Have an argument completed with `words` of what is typed of it, looked up when the shell
    asks."""
    action.completer = lambda prefix, **asked: words(prefix)  # type: ignore[attr-defined]


def add_keys(parser: ArgumentParser, name: str, typed: Sequence[str]) -> None:
    """For completion, of a command that Hydra composes: the keys of its configuration, and what
    they may be."""
    parser.add_argument("--cfg", choices=["job"])
    words = parser.add_argument("words", nargs="*")
    if name != "plan":
        offer(words, lambda word: overrides(name, word))
        return
    from audit.commands import plan

    plan.add_words(parser)
    audits = [f"audit={one}" for one in every_audit()]
    planned = [*(audit for audit in every_audit() if f"audit={audit}" in typed), AUDITS[0]][0]
    offer(words, lambda word: [*(audits if "=" in word else ["audit="]), *overrides(planned, word)])


def overrides(config: str, typed: str) -> list[str]:
    """The keys of conf/<config>.yaml, or with `key=` typed the values of the key."""
    key, found, _ = typed.partition("=")
    if found:
        return [f"{key}={value}" for value in _values(key, config)]
    return [f"{key}=" for key in _settings(config)]


def _settings(config: str) -> dict[str, object]:
    """Top-level keys of a configuration with their defaults; its groups with None."""
    from omegaconf import OmegaConf

    composed: Any = OmegaConf.to_container(
        OmegaConf.load(conf_of(config) / f"{config}.yaml"), resolve=False
    )
    groups = [str(next(iter(one))) for one in composed.get("defaults", []) if isinstance(one, dict)]
    found: dict[str, object] = {name: None for name in groups if not name.startswith("override ")}
    return found | {
        str(key): value for key, value in composed.items() if key not in ("defaults", "hydra")
    }


def _values(key: str, config: str) -> list[str]:
    known = {"control_benchmark": "benchmark", "worker": "model"}.get(key, key)
    if (CONF_DIR / known).is_dir():
        return options_of(known)
    default = _settings(config).get(key)
    return ["true", "false"] if isinstance(default, bool) else []


def add_words(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS)


def run(asked: Namespace) -> int:
    """Print a shell's script."""
    print(argcomplete.shellcode(["audit"], shell=asked.shell))
    return 0
