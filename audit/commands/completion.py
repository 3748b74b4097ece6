"""Print the script by which a shell completes commands, keys, models and benchmarks.

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
    """Print the completions of the command line in COMP_LINE, and exit.

    The shell itself completes names of files.

    Parameters
    ----------
    parser_of : Callable
        Returns the parser for the arguments that were typed so far.
    """
    words = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])].split(" ")
    argcomplete.autocomplete(parser_of(words[1:-1]))
    sys.exit(1)


def offer(action: Action, words: Callable[[str], Sequence[str]]) -> None:
    """Set the completions of one argument.

    Parameters
    ----------
    action : Action
        The argument, as `add_argument` returned it.
    words : Callable
        Returns the completions of a typed prefix. The function is called when the shell completes.
    """
    action.completer = lambda prefix, **_: words(prefix)  # type: ignore[attr-defined]


def add_keys(parser: ArgumentParser, name: str, typed: Sequence[str]) -> None:
    """Declare the keys of a command that Hydra composes, so that the shell can complete them.

    Parameters
    ----------
    parser : ArgumentParser
        The parser of the command.
    name : str
        The command, such as `sweep` or `plan`.
    typed : Sequence[str]
        The arguments that were typed after the command. `plan` looks there for `audit=NAME`.
    """
    parser.add_argument("--cfg", choices=["job"])
    words = parser.add_argument("words", nargs="*")
    if name != "plan":
        offer(words, lambda word: overrides(name, word))
        return
    from audit.commands import plan

    plan.add_arguments(parser)
    audits = [f"audit={name}" for name in every_audit()]
    named = [name for name in every_audit() if f"audit={name}" in typed]
    planned = named[0] if named else AUDITS[0]
    offer(words, lambda word: [*(audits if "=" in word else ["audit="]), *overrides(planned, word)])


def overrides(config: str, typed: str) -> list[str]:
    """Return the completions of a `key=value` argument.

    Parameters
    ----------
    config : str
        The name of a configuration, such as `sweep` for conf/sweep.yaml.
    typed : str
        The part of the argument that was typed so far.

    Returns
    -------
    list[str]
        The keys of the configuration or, if `typed` has an equals sign, the values of the typed
        key.
    """
    key, equals, _ = typed.partition("=")
    if equals:
        return [f"{key}={value}" for value in _values(key, config)]
    return [f"{key}=" for key in _settings(config)]


def _settings(config: str) -> dict[str, object]:
    """Map the top-level keys of a configuration to their defaults. The default of a group is
    None."""
    from omegaconf import OmegaConf

    composed: Any = OmegaConf.to_container(
        OmegaConf.load(conf_of(config) / f"{config}.yaml"), resolve=False
    )
    settings: dict[str, object] = {}
    for default in composed.get("defaults", []):
        if isinstance(default, dict):
            group = str(next(iter(default)))
            if not group.startswith("override "):
                settings[group] = None
    for key, value in composed.items():
        if key not in ("defaults", "hydra"):
            settings[str(key)] = value
    return settings


def _values(key: str, config: str) -> list[str]:
    known = {"control_benchmark": "benchmark", "worker": "model"}.get(key, key)
    if (CONF_DIR / known).is_dir():
        return options_of(known)
    default = _settings(config).get(key)
    return ["true", "false"] if isinstance(default, bool) else []


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's argument: the name of the shell."""
    parser.add_argument("shell", choices=SHELLS)


def run(arguments: Namespace) -> int:
    """Print the completion script of a shell.

    Returns
    -------
    int
        Exit code 0.
    """
    print(argcomplete.shellcode(["audit"], shell=arguments.shell))
    return 0
