"""`audit completion bash|zsh|fish` prints a script for the shell; the script asks this module for what may come next.

eval "$(audit completion bash)"          # zsh: eval "$(audit completion zsh)"
audit completion fish | source
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path

from audit.exits import run_command

# Each asks for the words so far as one line. Where nothing is offered, the shell completes file names.
SCRIPTS = {
    "bash": r"""_audit_complete() {
  local line="${COMP_LINE:0:COMP_POINT}" one cut=""
  local word="${line##* }"  # bash breaks words at "=" and wants what follows
  [[ $word == *=* ]] && cut="${word%=*}="
  COMPREPLY=()
  while IFS= read -r one; do
    [[ -n $one ]] && COMPREPLY+=("${one#"$cut"}")
  done < <(audit completion --line "$line" 2>/dev/null)
}
complete -o default -o nospace -F _audit_complete audit""",
    "zsh": r"""_audit_complete() {
  local -a found
  found=("${(@f)$(audit completion --line "$LBUFFER" 2>/dev/null)}")
  if [[ -n $found ]]; then compadd -Q -S '' -- $found; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _audit_complete audit""",
    "fish": r"""function __audit_complete
  audit completion --line (commandline -cp | string collect) 2>/dev/null | string trim -r
end
complete -c audit -a '(__audit_complete)'""",
}
_OPTIONS = {
    "report": ("--out ", "--seed ", "--control-benchmark ", "--variants ", "--follow "),
    "gate": ("--approvals ", "--format ", "--keys ", "--registry "),
    "evidence": ("--out ", "--key ", "--unsigned ", "--with-shards "),
    "runs": ("--json ",),
    "compare": ("--models ", "--benchmarks ", "--out ", "--json "),
    "reanalyze": ("--out ", "--n ", "--chance ", "--table1 ", "--table3 ", "--seed "),
    "suite": ("plan=true ", "model=", "model_version=", "run_dir=", "gate=", "--schema "),
    "variants": ("--folder ",),
    "completion": tuple(f"{shell} " for shell in SCRIPTS),
}
_DECIDE = "--reason --expires --key --keys --approvals --registry"
_OF_RUNS = "--model --benchmark --audit --json --registry"
_SUBCOMMANDS = {  # with their options; a test holds them against the commands' own help
    "review": {
        **dict.fromkeys(("list", "show"), "--keys --approvals --registry"),
        **dict.fromkeys(("approve", "reject", "override"), _DECIDE),
        "keygen": "--out",
        "serve": "--key --keys --approvals --host --port --registry",
    },
    "registry": {
        **dict.fromkeys(("add", "show", "release", "due"), "--registry"),
        **dict.fromkeys(("hold", "forget"), "--reason --registry"),
        "list": _OF_RUNS,
        "trends": f"{_OF_RUNS} --indicator --floor --alpha --chart",
        "expire": "--dry-run --confirm --registry",
        "draw": "--n --out --registry",
        "notify": "--keys --days --registry",
        "card": "--out --dataset --model --push",
        "mlflow": "--name --version --model",
        "wandb": "--project",
    },
    "variants": {
        **dict.fromkeys(("build", "list", "diff", "panel"), ""),
        "show": "--question --state --limit",
        "merge": "--name",
        "export": "--all",
        "review": "--out --read --n --seed --reviewer",
    },
    "evidence": {"verify": "--keys --unsigned"},
    "chronology": {"add": "", "check": "--tests", "render": ""},
    "export": {"inspect": "--out"},
}


def candidates(line: str, commands: Mapping[str, str], conf: Path) -> list[str]:
    """What the last word of `line` may become; a finished word ends in a space, `key=` does not.

    commands: each with its Hydra configuration, or "". conf: the folder of configurations.
    """
    words = line.split()
    last = "" if not words or line[-1].isspace() else words.pop()
    command = words[1] if len(words) > 1 else ""
    below = _SUBCOMMANDS.get(command, {})
    chosen = next((word for word in words[2:] if word in below), "")
    config = "variants" if (command, chosen) == ("variants", "build") else commands.get(command, "")
    named = [word.removeprefix("audit=") for word in words if word.startswith("audit=")]
    if command == "plan" and named and (conf / f"{named[-1]}.yaml").is_file():
        config = named[-1]
    if not command:
        offered = [f"{name} " for name in commands]
    elif command == "calibrate":
        offered = _calibrate(words[2:])
    elif chosen and not config:
        offered = [f"{option} " for option in below[chosen].split()]
    elif not config:
        offered = [*(f"{name} " for name in below), *_OPTIONS.get(command, ())]
    elif command == "plan" and last.startswith("audit="):
        offered = _audits()
    elif "=" in last:
        offered = [f"{last.partition('=')[0]}={value} " for value in _values(last.partition("=")[0], config, conf)]
    else:
        offered = [f"{key}=" for key in _settings(config, conf)] + ["--help ", "--cfg job "]
        offered += ["--json ", "audit="] if command == "plan" else []
    return [one for one in offered if one.startswith(last) and one.strip() != last]


def _calibrate(words: Sequence[str]) -> list[str]:
    """Every audit's calibration has options of its own: those in the usage that its --help begins with."""
    from audit.calibrate import main as calibrate

    with redirect_stdout(StringIO()) as told, suppress(SystemExit):
        calibrate([*(word for word in words if word.startswith("audit=")), "--help"])
    usage = told.getvalue().split("\n\n")[0]
    return [f"{option} " for option in re.findall(r"--[a-z-]+", usage)] + _audits()


def _audits() -> list[str]:
    from audit.audits import AUDITS

    return [f"audit={name} " for name in AUDITS]


def _settings(config: str, conf: Path) -> dict[str, object]:
    """Top-level keys of a configuration with their defaults; its groups with None."""
    from omegaconf import OmegaConf

    composed = OmegaConf.to_container(OmegaConf.load(conf / f"{config}.yaml"), resolve=False)
    assert isinstance(composed, dict)  # noqa: S101  (a yaml mapping)
    groups = [str(next(iter(one))) for one in composed.get("defaults", []) if isinstance(one, dict)]
    found: dict[str, object] = {name: None for name in groups if not name.startswith("override ")}
    return found | {str(key): value for key, value in composed.items() if key not in ("defaults", "hydra")}


def _values(key: str, config: str, conf: Path) -> list[str]:
    known = {"control_benchmark": "benchmark", "worker": "model"}.get(key, key)
    if (conf / known).is_dir():
        return sorted(path.stem for path in (conf / known).glob("*.yaml"))
    default = _settings(config, conf).get(key)
    return ["true", "false"] if isinstance(default, bool) else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a shell's script, or the candidates of a line."""
    parser = argparse.ArgumentParser(
        prog="audit completion",
        description="Completion of commands, keys, models and benchmarks.",
        epilog='~/.bashrc: eval "$(audit completion bash)"; ~/.zshrc: eval "$(audit completion zsh)"; '
        "fish: audit completion fish > ~/.config/fish/completions/audit.fish",
    )
    parser.add_argument("shell", nargs="?", choices=sorted(SCRIPTS))
    parser.add_argument("--line", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.line is not None:
        from audit.__main__ import COMMANDS
        from audit.config import CONF_DIR

        commands = {name: command.config for name, command in COMMANDS.items()}
        print("\n".join(candidates(asked.line, commands, CONF_DIR)))
    elif asked.shell is None:
        parser.error("which shell? Expected such as: audit completion bash")
    else:
        print(SCRIPTS[asked.shell])
    return 0


if __name__ == "__main__":
    run_command(main)
