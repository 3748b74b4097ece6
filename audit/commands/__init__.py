"""Every command of the program, in one table and one tree of parsers.

A new command is one line of _DOES, and a module here. Its `add_words(parser)` says what it takes,
its docstring is the help, its `run(asked)` hands over to the rooms below and returns the exit code.
"""

from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module

from audit.core.entry_points import added
from audit.core.exits import plainly


@dataclass(frozen=True)
class Command:
    """hydra: whether Hydra reads its words: its `main()` takes them from sys.argv."""

    module: str
    does: str
    hydra: bool = False


_DOES = {
    "demo": "a model before and after it read the exam: two verdicts in half a minute",
    "init": "write audit.yaml: the model, questions, references of this folder",
    "plan": "calls, tokens, time and power of an audit (audit=NAME); starts nothing",
    "sweep": "router-worker audit: gains where noise should cost",
    "perturb": "the same questions in other words",
    "memory": "has it read the benchmark? likelihoods, held-out items",
    "validity": "construct validity: edits that move answers, or should not",
    "suite": "several audits of one pinned model, on one engine; one decision",
    "watch": "how far a run is: rows, accuracy, time left, money, one reply",
    "import": "finished evaluations of other tools, as a run; their held-out gap",
    "leaderboard": "many models' finished evaluations: ranked with and without memory",
    "data": "show how a question file is read, and the options that read it",
    "references": "sets of other models' answers, to compare with",
    "inventory": "which benchmarks a model could have read",
    "variants": "build, list and review libraries of reworded questions",
    "publish": "a benchmark's items and options in a random order that is recorded",
    "runs": "the runs in a folder, with how far they came and their verdicts",
    "open": "a page of all runs in a folder, in the browser",
    "report": "build the report of finished runs again; several: a panel or one page",
    "compare": "two versions of a model, question by question: what changed",
    "export": "a run's answers, or an audit's items, in the formats of other tools",
    "gate": "a run's verdict as an exit code",
    "review": "signed decisions on a run: approve, reject, override",
    "evidence": "pack what a verdict rests on, signed; verify a pack",
    "registry": "finished runs in a database: trends, retention, rotation, notices",
    "calibrate": "the procedure's own error rates, simulated",
    "plant": "teach a model half of a benchmark: what would the audits see?",
    "reanalyze": "the paper's published table under exact tests",
    "chronology": "the faults of a project or run: add, check, render",
    "completion": "print the completion script of bash, zsh or fish",
}
# Commands with a folder of their own and a file conf/NAME.yaml.
_APART = (
    "sweep",
    "perturb",
    "memory",
    "validity",
    "plant",
)
COMMANDS = {
    name: Command(f"audit.{name}.__main__", does, True)
    if name in _APART
    else Command(f"audit.commands.{name}", does)
    for name, does in _DOES.items()
}
COMMANDS["plan"] = Command("audit.commands.plan", _DOES["plan"], True)
# `import` is a Python keyword, so no module can have this name.
COMMANDS["import"] = Command("audit.commands.import_logs", _DOES["import"])
# A name of ours keeps its meaning.
_ADDED = {
    name: Command(f"{one.value}.__main__", f"an audit of the package {one.value}", True)
    for name, one in added("audits").items()
    if name not in COMMANDS
}
COMMANDS |= _ADDED
# The first command of each group -> its heading in `audit --help`.
HEADINGS = {
    "demo": "run",
    "data": "prepare",
    "runs": "read",
    "gate": "decide",
    "calibrate": "calibrate and set up",
}
HEADINGS |= dict.fromkeys(list(_ADDED)[:1], "of other packages")


def tree(words: Sequence[str]) -> ArgumentParser:
    """The parser of all commands. It loads the one that the words begin with: all would take more
    than a second.

    A command's help begins with the first paragraph of its module's docstring, and ends with the
    others. The words that follow its name are the default `typed` of its parser, for who takes
    other words after one of them."""
    root = ArgumentParser(
        "audit",
        "audit COMMAND ...",
        _overview(),
        formatter_class=RawDescriptionHelpFormatter,
        add_help=False,
    )
    commands = root.add_subparsers(prog="audit", metavar="COMMAND", required=True, help=SUPPRESS)
    for name, command in COMMANDS.items():
        parser = commands.add_parser(name)
        if name not in words[:1]:
            continue
        if command.hydra:
            from audit.commands.completion import add_keys

            add_keys(parser, name, words[1:])
            continue
        module = import_module(command.module)
        parser.description, _, parser.epilog = (module.__doc__ or "").partition("\n\n")
        parser.set_defaults(run=module.run, typed=words[1:])
        module.add_words(parser)
    return root


def _overview() -> str:
    lines = ["Is a benchmark score ability, or memory of the exam?"]
    for name, command in COMMANDS.items():
        lines += [f"\n{HEADINGS[name]}"] if name in HEADINGS else []
        lines.append(f"  {name:<11} {command.does}")
    lines.append("\n--quiet with any command: results and errors alone, no progress and no notes.")
    return "\n".join(
        [
            *lines,
            "\naudit COMMAND --help says more. First: audit plan model=scripted, then audit sweep.",
        ]
    )


def _deepest(parser: ArgumentParser, words: Sequence[str]) -> ArgumentParser:
    """Return the parser of the command that the words name, below others."""
    for action in parser._actions:
        known = action.choices if isinstance(action, _SubParsersAction) else {}
        named = [k for k, word in enumerate(words) if word in known]
        if named:
            return _deepest(known[words[named[0]]], words[named[0] + 1 :])
    return parser


@plainly
def run(words: Sequence[str], *now: datetime) -> int:
    """Run a command that Hydra does not compose; its exit code. now: of one that decides by a
    clock, another time."""
    if any(word.startswith("--config-dir") for word in words):
        from audit.config.plain_words import with_config_dir  # This import loads Hydra.

        words = with_config_dir(words)
    root = tree(words)
    asked, unknown = root.parse_known_args(words)
    if unknown:  # The root parser would print its own usage.
        _deepest(root, words).error(f"unrecognized arguments: {' '.join(unknown)}")
    code: int = asked.run(asked, *now)
    return code
