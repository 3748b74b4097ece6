"""Answers of many models to one benchmark, to compare with."""

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from audit.core.exits import say, tell
from audit.core.json_types import attributes, plain


def add_words(parser: ArgumentParser) -> None:
    several = parser.add_subparsers(dest="what", required=True)
    add = several.add_parser(
        "build", help="a set of an imported run: all of its models are references"
    ).add_argument
    add("run_dir", type=Path, metavar="RUN_DIR", help="what audit import wrote")
    add("--name", required=True, help="used as set:NAME; sets never change, so give a version")
    add("--source", required=True, help="who published the answers, where, at which commit")
    add("--licence", required=True)
    add(
        "--facts",
        type=Path,
        metavar="CSV",
        help="columns model, released, family; or a shipped name: mmlu_pro",
    )
    add = several.add_parser(
        "fetch", help="a set of answers that others published, held to their hashes"
    ).add_argument
    add("name", help="gsm8k_zeroeval or mmlu_pro")
    add(
        "--from",
        dest="source",
        default="",
        metavar="FOLDER",
        help="a copy of the repository, or another address",
    )
    add = several.add_parser("show", help="the sets that are here; the models of one").add_argument
    add("name", nargs="?")
    add("--json", action="store_true")


def run(asked: Namespace) -> int:
    """Build a set, or print what is in one."""
    from audit.config.references import known_sets, load_set, sets_folder

    if asked.what == "build":
        from audit.imports.sets import build_set

        name = build_set(asked.run_dir, asked.name, asked.source, asked.licence, asked.facts).name
    elif asked.what == "fetch":
        from audit.imports.fetch import fetch_set

        name = fetch_set(asked.name, asked.source, tell).name
    elif asked.name is None and asked.json:
        print(json.dumps({"sets": known_sets()}, indent=1))
        return 0
    elif asked.name is None:
        print(
            "\n".join(known_sets())
            or f"No reference set in {sets_folder()}. See audit references build --help"
        )
        return 0
    else:
        name = asked.name
    found = load_set(name)
    if asked.what == "show" and asked.json:
        models = [
            attributes(one, "name", "accuracy", "unparsed", "answers", "released", "family")
            for one in found.models
        ]
        about = attributes(found, "name", "benchmark", "version", "licence", "source")
        print(json.dumps(plain({**about, "models": models}), indent=1))
        return 0
    say(
        f"{found.name}  {found.benchmark}  version {found.version}  {found.licence}  {found.source}"
    )
    unknown = [one.name for one in found.models if not one.family]
    none = len(unknown) == len(found.models)
    if unknown:
        then = (
            "every use is refused; build it anew under another name with --facts"
            if none
            else "these always stay"
        )
        say(f"family unknown of {len(unknown)} of {len(found.models)}: {then}")
    print(f"{'model':<44} {'accuracy':>8} {'unparsed':>13} {'released':>10}  family")
    for one in sorted(found.models, key=lambda one: -one.accuracy):
        unparsed = f"{one.unparsed} of {one.answers:,}"
        told = f"{one.released or '-':>10}  {one.family or '-'}"
        say(f"{one.name:<44} {one.accuracy:>8.1%} {unparsed:>13} {told}")
    if asked.what != "show" and not none:
        print(f"Next: audit memory model=... 'references=[set:{name}]'")
    return 0
