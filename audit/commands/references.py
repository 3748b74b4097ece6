"""Build, fetch and show reference sets: the answers of many models to one benchmark."""

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from audit.core.exits import say, tell
from audit.core.json_types import attributes, plain


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the subcommands build, fetch and show."""
    commands = parser.add_subparsers(dest="action", required=True)
    add = commands.add_parser(
        "build", help="make a set of an imported run; all of its models become references"
    ).add_argument
    add("run_dir", type=Path, metavar="RUN_DIR", help="a run that audit import wrote")
    name = "name of the set, used as set:NAME; sets never change, so include a version"
    add("--name", required=True, help=name)
    source = "who published the answers, at which address and commit"
    add("--source", required=True, help=source)
    add("--licence", required=True, help="licence of the answers")
    facts = "a csv with the columns model, released, family; or the shipped file mmlu_pro"
    add("--facts", type=Path, metavar="CSV", help=facts)
    add = commands.add_parser(
        "fetch", help="download a set of published answers, and check its hashes"
    ).add_argument
    add("name", help="gsm8k_zeroeval or mmlu_pro")
    copy = "a copy of the repository, or another address"
    add("--from", dest="source", default="", metavar="FOLDER", help=copy)
    add = commands.add_parser("show", help="list the sets, or the models of one set").add_argument
    add("name", nargs="?", help="the set whose models are listed (default: list all sets)")
    add("--json", action="store_true", help="print JSON, for programs")


def run(arguments: Namespace) -> int:
    """Build or fetch a set, and print its models; or print the names of all sets.

    Returns
    -------
    int
        Exit code 0.
    """
    from audit.config.references import load_set

    if arguments.action == "build":
        from audit.imports.sets import build_set

        name = build_set(
            arguments.run_dir, arguments.name, arguments.source, arguments.licence, arguments.facts
        ).name
    elif arguments.action == "fetch":
        from audit.imports.fetch import fetch_set

        name = fetch_set(arguments.name, arguments.source, tell).name
    elif arguments.name is None:
        _print_names(arguments.json)
        return 0
    else:
        name = arguments.name
    reference_set = load_set(name)
    models = reference_set.models
    if arguments.action == "show" and arguments.json:
        names = ("name", "accuracy", "unparsed", "answers", "released", "family")
        facts = attributes(reference_set, "name", "benchmark", "version", "licence", "source")
        facts["models"] = [attributes(model, *names) for model in models]
        print(json.dumps(plain(facts), indent=1))
        return 0
    say(
        f"{reference_set.name}  {reference_set.benchmark}  version {reference_set.version}  "
        f"{reference_set.licence}  {reference_set.source}"
    )
    unknown = [model.name for model in models if not model.family]
    usable = len(unknown) < len(models)
    if unknown:
        effect = "they are never left out as relatives of the judged model"
        if not usable:
            effect = "no audit accepts this set. Build a set of another name with --facts"
        say(f"family unknown of {len(unknown)} of {len(models)} models: {effect}")
    print(f"{'model':<44} {'accuracy':>8} {'unparsed':>13} {'released':>10}  family")
    for model in sorted(models, key=lambda model: -model.accuracy):
        unparsed = f"{model.unparsed} of {model.answers:,}"
        origin = f"{model.released or '-':>10}  {model.family or '-'}"
        say(f"{model.name:<44} {model.accuracy:>8.1%} {unparsed:>13} {origin}")
    if arguments.action != "show" and usable:
        print(f"Next: audit memory model=... 'references=[set:{name}]'")
    return 0


def _print_names(as_json: bool) -> None:
    from audit.config.references import known_sets, sets_folder

    if as_json:
        print(json.dumps({"sets": known_sets()}, indent=1))
        return
    absent = f"{sets_folder()} holds no reference set. See audit references build --help"
    print("\n".join(known_sets()) or absent)
