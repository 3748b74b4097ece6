"""List every command of the program in one table, and build the tree of their parsers.

A new command is one line of `_SUMMARIES` and one module of this package. The module's docstring is
the help text. Its `add_arguments(parser)` declares the arguments. Its `run(arguments)` calls the
implementation in another package and returns the exit code.
"""

from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from importlib import import_module

from audit.core.entry_points import added
from audit.core.exits import plainly


@dataclass(frozen=True)
class Command:
    """Describe one command.

    Attributes
    ----------
    module : str
        The module that implements the command.
    summary : str
        One line that describes the command in `audit --help`.
    hydra : bool
        True if Hydra composes the arguments. The module then has a `main()` that reads sys.argv.
    """

    module: str
    summary: str
    hydra: bool = False


_SUMMARIES = {
    "demo": "a model before and after it read the exam: two verdicts in half a minute",
    "init": "write audit.yaml: the model, questions, references of this folder",
    "plan": "calls, tokens, time and power of an audit (audit=NAME); starts nothing",
    "sweep": "router-worker audit: gains where noise should cost",
    "perturb": "the same questions, reworded",
    "memory": "has the model read the benchmark? likelihoods, held-out items",
    "validity": "construct validity: edits that move answers, or should not",
    "suite": "several audits of one pinned model, on one engine; one decision",
    "watch": "the progress of a run: rows, accuracy, time left, money, one reply",
    "import": "finished evaluations of other tools, as a run; their held-out gap",
    "leaderboard": "many models' finished evaluations: ranked with and without memory",
    "data": "show how a question file is read, and the options that read it",
    "references": "sets of answers of other models, for comparison",
    "inventory": "which benchmarks a model could have read",
    "variants": "build, list and review libraries of reworded questions",
    "publish": "a benchmark's items and options in a random order that is recorded",
    "runs": "the runs in a folder, with their progress and their verdicts",
    "open": "a page of all runs in a folder, in the browser",
    "report": "rebuild the report of a finished run, or one page of several runs",
    "compare": "two versions of a model, question by question: what changed",
    "export": "a run's answers, or an audit's items, in the formats of other tools",
    "gate": "a run's verdict as an exit code",
    "review": "signed decisions on a run: approve, reject, override",
    "evidence": "pack the evidence for a verdict, signed; verify a pack",
    "registry": "finished runs in a database: trends, retention, rotation, notices",
    "calibrate": "the procedure's own error rates, simulated",
    "plant": "teach a model half of a benchmark: what would the audits see?",
    "reanalyze": "the paper's published table under exact tests",
    "chronology": "the faults of a project or run: add, check, render",
    "completion": "print the completion script of bash, zsh or fish",
}
# Each of these commands has its own package and its own file conf/NAME.yaml.
_PACKAGES = (
    "sweep",
    "perturb",
    "memory",
    "validity",
    "plant",
)
COMMANDS = {
    name: Command(f"audit.{name}.__main__", summary, True)
    if name in _PACKAGES
    else Command(f"audit.commands.{name}", summary)
    for name, summary in _SUMMARIES.items()
}
COMMANDS["plan"] = Command("audit.commands.plan", _SUMMARIES["plan"], True)
# `import` is a Python keyword, so no module can have this name.
COMMANDS["import"] = Command("audit.commands.import_logs", _SUMMARIES["import"])
# Another package cannot replace a command of this program.
_ADDED = {
    name: Command(f"{entry.value}.__main__", f"an audit of the package {entry.value}", True)
    for name, entry in added("audits").items()
    if name not in COMMANDS
}
COMMANDS |= _ADDED
# Map the first command of each group to the group's heading in `audit --help`.
HEADINGS = {
    "demo": "run",
    "data": "prepare",
    "runs": "read",
    "gate": "decide",
    "calibrate": "calibrate and set up",
}
HEADINGS |= dict.fromkeys(list(_ADDED)[:1], "of other packages")


def tree(words: Sequence[str]) -> ArgumentParser:
    """Return the parser of all commands.

    Only the module of the command that was typed is imported. Importing all of them would take more
    than a second. A command's help begins with the first paragraph of its module's docstring and
    ends with the other paragraphs.

    Parameters
    ----------
    words : Sequence[str]
        The command line after `audit`. The arguments after the command's name become the parser's
        default `typed`, because some commands accept other options after a certain argument.

    Returns
    -------
    ArgumentParser
        The parser, with the arguments of one command.
    """
    root = ArgumentParser(
        "audit",
        "audit COMMAND ...",
        _overview(),
        formatter_class=RawDescriptionHelpFormatter,
        add_help=False,
    )
    commands = root.add_subparsers(prog="audit", metavar="COMMAND", required=True, help=SUPPRESS)
    for name, command in COMMANDS.items():
        # Abbreviations are refused, because a new option could change the meaning of an
        # abbreviation.
        parser = commands.add_parser(name, allow_abbrev=False)
        if name not in words[:1]:
            continue
        if command.hydra:
            from audit.commands.completion import add_keys

            add_keys(parser, name, words[1:])
            continue
        module = import_module(command.module)
        parser.description, _, parser.epilog = (module.__doc__ or "").partition("\n\n")
        parser.set_defaults(run=module.run, typed=words[1:])
        module.add_arguments(parser)
    return root


def _overview() -> str:
    lines = ["Is a benchmark score ability, or memory of the exam?"]
    for name, command in COMMANDS.items():
        if name in HEADINGS:
            lines.append(f"\n{HEADINGS[name]}")
        lines.append(f"  {name:<11} {command.summary}")
    lines.append("\n--quiet with any command: results and errors alone, no progress and no notes.")
    lines.append(
        "\naudit COMMAND --help says more. First: audit plan model=scripted, then audit sweep."
    )
    return "\n".join(lines)


def _deepest(parser: ArgumentParser, words: Sequence[str]) -> ArgumentParser:
    """Return the parser of the innermost subcommand in the arguments."""
    for action in parser._actions:
        known = action.choices if isinstance(action, _SubParsersAction) else {}
        for k, word in enumerate(words):
            if word in known:
                return _deepest(known[word], words[k + 1 :])
    return parser


def _meant(parser: ArgumentParser, word: str) -> str:
    """Return "Did you mean ...?" with the option most similar to a mistyped one; "" if none is
    similar."""
    known: list[str] = []
    for action in parser._actions:
        known += action.option_strings
    near = get_close_matches(word.partition("=")[0], known, n=1)
    return f". Did you mean {near[0]}?" if near else ""


@plainly
def run(words: Sequence[str], *now: datetime) -> int:
    """Run a command that Hydra does not compose.

    Parameters
    ----------
    words : Sequence[str]
        The command line after `audit`.
    *now : datetime
        The time, for commands that depend on the clock. Without it these commands read the clock.

    Returns
    -------
    int
        The exit code of the command.
    """
    if any(word.startswith("--config-dir") for word in words):
        from audit.config.plain_words import with_config_dir  # This import loads Hydra.

        words = with_config_dir(words)
    root = tree(words)
    arguments, unknown = root.parse_known_args(words)
    if unknown:  # The root parser would print the usage of `audit`, not of the command.
        parser = _deepest(root, words)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{_meant(parser, unknown[0])}")
    code: int = arguments.run(arguments, *now)
    return code
