r"""Build, list, compare and review libraries of reworded benchmark questions.

Examples:
  audit variants build benchmark=elementary strategy=paraphrase_llm model=llama3_8b judge=qwen3_8b
  audit variants build data=exam.csv strategy=paraphrase_llm endpoint=http://127.0.0.1:8000/v1
  model_id=my-model \
      judge=other-model
  audit variants build benchmark=elementary strategy=file 'file.path=[my_variants.jsonl]'
  audit variants build benchmark=gsm8k benchmark.path=test.jsonl strategy=file \
      'file.path=[rephrase_gsm8k.jsonl]' file.align=row "file.extract='Question:
      (?P<text>.*?)\s*Answer:'"
  audit variants show elementary --question elementary/animals/01
  audit variants review elementary --n 150 --out review.jsonl
A LIBRARY is a path, a name, or a hash (its first 6 digits or more).
"""

import argparse
import json
import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from audit.commands.again import add_force
from audit.commands.completion import offer, overrides
from audit.core.errors import check_known, check_seed, unknown_name
from audit.core.exits import lines, plainly, tell
from audit.core.json_types import plain
from audit.shards.working_copy import local_folder

SHOWN = 20  # the largest number of candidate variants that are printed
# These keys name the questions and the model. A perturbation audit has the same keys.
_SHARED_KEYS = ("benchmark", "data", "endpoint", "model_id", "api_key_env", "model", "cluster")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands (one for each operation), and an option for the folder of
    libraries."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--folder", type=Path, default=Path("outputs/variants"), help="folder of the libraries"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, summary: str, act: Callable[[argparse.Namespace], None], *positionals: str
    ) -> argparse.ArgumentParser:
        subparser = commands.add_parser(name, help=summary)
        subparser.set_defaults(act=act)
        for positional in positionals:
            subparser.add_argument(positional)
        return subparser

    build = command("build", "reword the items of a benchmark, check and save the texts", _build)
    words = build.add_argument("overrides", nargs="*", help="key=value of conf/variants.yaml")
    offer(words, lambda typed: overrides("variants", typed))
    as_json = "print JSON, for programs"
    add = command("list", "list the saved and the shipped libraries", _list).add_argument
    add("--json", action="store_true", help=as_json)
    show = "print header and funnel, or the candidates of a question or state"
    add = command("show", show, _show, "library").add_argument
    add("--json", action="store_true", help="print header, counts and candidates as JSON")
    add("--question", help="id of the question whose candidates are printed")
    add("--state", help="state of the printed candidates, such as accepted or too_close")
    diff = "print the differences between two libraries"
    add = command("diff", diff, _diff, "library", "other").add_argument
    add("--json", action="store_true", help=as_json)
    merge = "join the candidates of two libraries of one benchmark"
    add = command("merge", merge, _merge, "library", "other").add_argument
    add("--name", required=True, help="name of the new library")
    export = "write the accepted variants as jsonl or parquet, by the file's suffix"
    add = command("export", export, _export, "library").add_argument
    add("out", type=Path, help="the file to write")
    add_force(commands.choices["export"])
    panel = "mark variants that the reference models of a finished run found defective"
    add = command("panel", panel, _panel, "library").add_argument
    run_dir = "a run of audit perturb with three references or more"
    add("run_dir", type=local_folder, metavar="RUN_DIR", help=run_dir)
    text = "write a random sample for a person to read, or apply the person's findings"
    review = command("review", text, _review, "library")
    either = review.add_mutually_exclusive_group(required=True)
    out = "the form to write: .html for a browser, or .jsonl"
    either.add_argument("--out", type=Path, help=out)
    either.add_argument("--read", type=Path, help="the file with the findings")
    n = "number of variants to draw (0 defective of 150: at most 2 %% are defective)"
    review.add_argument("--n", type=int, default=150, help=n)
    review.add_argument("--seed", type=int, default=0)
    add_force(review)
    reviewer = "name of the person who read the sample; required with --read"
    review.add_argument("--reviewer", default="", help=reviewer)


@partial(plainly, shown=lines)
def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand that was typed.

    Returns
    -------
    int
        Exit code 0.
    """
    arguments.act(arguments)
    return 0


def _build(arguments: argparse.Namespace) -> None:
    from audit.config.plain_words import check_words
    from audit.config.project import with_project
    from audit.config.short_forms import expand
    from audit.perturb.config import PerturbConfig
    from audit.variants.config import BY_MODEL, compose_config
    from audit.variants.run import run_build

    typed, project = with_project(check_words(arguments.overrides, "variants build"), "variants")
    words, notes = expand(typed, "variants")
    config = compose_config(words)
    from audit.variants.ask import check_endpoints, models_of
    from audit.variants.plan import planned_build, price_lines

    prices = price_lines(config, planned_build(config))
    if config.plan:
        _print("\n".join(prices) or f"strategy={config.strategy} asks no model")
        return
    for note in filter(None, [project, *notes, *prices]):
        tell(f"note: {note}")
    check_endpoints(config)
    tell(
        f"building {config.library_name}: candidates are made and then checked. This takes minutes."
    )
    library = run_build(config, models_of(config))
    path = _save(library, Path(config.out))
    shared = [word for word in typed if word.partition("=")[0].partition(".")[0] in _SHARED_KEYS]
    if config.judge is not None or config.strategy == BY_MODEL:
        # The audit refuses to ask for more variants than any question has.
        fullest = max(Counter(v.question_id for v in library.accepted).values(), default=0)
        fewer = [f"num_variants={fullest}"] if 0 < fullest < PerturbConfig.num_variants else []
        words = ["audit", "perturb", *shared, f"variants={path}", *fewer]
        _print(f"next: {shlex.join(words)}")


def _list(arguments: argparse.Namespace) -> None:
    from audit.variants.arrow import list_libraries

    entries = list_libraries(arguments.folder)
    if arguments.json:
        print(json.dumps(plain([asdict(entry) for entry in entries]), indent=1))
        return
    for entry in entries:
        total, accepted = sum(entry.counts.values()), entry.counts.get("accepted", 0)
        share = f"{accepted} of {total} accepted"
        _print(f"{entry.sha256[:12]}  {entry.name}  {entry.benchmark}  {share}  {entry.path}")
    if not entries:
        _print(f"{arguments.folder} holds no library.")


def _show(arguments: argparse.Namespace) -> None:
    from audit.variants.funnel import funnel_text
    from audit.variants.record import State

    if arguments.state is not None:
        check_known("state", arguments.state, list(State))
    library = _find(arguments.library, arguments)
    of_question = [v for v in library.variants if arguments.question in (None, v.question_id)]
    chosen = [v for v in of_question if arguments.state in (None, v.state.value)]
    if arguments.json:
        content = {
            "sha256": library.sha256,
            "header": asdict(library.header),
            "counts": library.counts,
            "candidates": [asdict(variant) for variant in chosen],
        }
        print(json.dumps(plain(content), indent=1, ensure_ascii=False))
        return
    if arguments.question is None and arguments.state is None:
        _print(json.dumps(asdict(library.header), indent=2, ensure_ascii=False))
        _print(funnel_text(library))
        _print(f"library  {library.sha256}")
        return
    if not chosen and arguments.question is not None:
        known = {variant.question_id for variant in library.variants}
        raise unknown_name("question of the library", arguments.question, known)
    for variant in chosen[:SHOWN]:
        distance = "-" if variant.distance is None else f"{variant.distance:.3f}"
        rules = "; ".join(variant.rules)
        _print(f"{variant.id}  {variant.state.value}  distance {distance}  {rules}")
        _print(f"  - {variant.original}\n  + {variant.text or variant.error or '(empty)'}")
    _print(f"{min(len(chosen), SHOWN)} of {len(chosen)} candidates")


def _diff(arguments: argparse.Namespace) -> None:
    from audit.variants.combine import diff

    first, second = _find(arguments.library, arguments), _find(arguments.other, arguments)
    difference = diff(first, second)
    if arguments.json:
        print(json.dumps(plain(asdict(difference)), indent=1, ensure_ascii=False))
        return
    for name, (old, new) in difference.header.items():
        _print(f"{name}: {old} -> {new}")
    only_first, only_second = difference.only_first, difference.only_second
    for sign, variants in (("-", only_first), ("+", only_second)):
        for variant in variants:
            _print(f"{sign} {variant.id}  {variant.text}")
    for before, after in difference.changed:
        _print(f"~ {before.id}  {before.state.value} -> {after.state.value}  {before.text}")
    _print(
        f"{len(only_first)} only in {first.sha256[:12]}, {len(only_second)} only in "
        f"{second.sha256[:12]}, {len(difference.changed)} in another state."
    )


def _merge(arguments: argparse.Namespace) -> None:
    from audit.variants.combine import merge

    _save(
        merge(
            _find(arguments.library, arguments), _find(arguments.other, arguments), arguments.name
        ),
        arguments.folder,
    )


def _export(arguments: argparse.Namespace) -> None:
    from audit.shards.files import check_new
    from audit.variants.arrow import export_library

    check_new(arguments.out, force=arguments.force)
    library = _find(arguments.library, arguments)
    _print(f"{export_library(library, arguments.out)} variants written to {arguments.out}")


def _panel(arguments: argparse.Namespace) -> None:
    from audit.variants.combine import judge_by_run

    _save(judge_by_run(_find(arguments.library, arguments), arguments.run_dir), arguments.folder)


def _review(arguments: argparse.Namespace) -> None:
    from audit.shards.files import check_new
    from audit.variants.review_file import ASK, read_review, write_review

    # The file may hold a person's judgements, so it is not replaced without --force.
    if arguments.out is not None:
        check_new(arguments.out, force=arguments.force)
    library = _find(arguments.library, arguments)
    if arguments.out is not None:
        check_seed(arguments.seed)
        write_review(library, arguments.out, n=arguments.n, seed=arguments.seed)
        total = len(library.accepted)
        _print(f"{arguments.n} of {total} accepted variants written to {arguments.out}. {ASK}")
        return
    _save(read_review(library, arguments.read, reviewer=arguments.reviewer), arguments.folder)


def _find(reference: str, arguments: argparse.Namespace) -> Any:
    from audit.variants.arrow import find_library

    return find_library(reference, arguments.folder)


def _save(library: Any, folder: Path) -> Path:
    """Save a library, and return its path. Print how many candidates remained after each check."""
    from audit.variants.arrow import save_library
    from audit.variants.funnel import funnel_text

    _print(funnel_text(library))
    path = save_library(library, folder)
    _print(f"library  {library.sha256}\nfile     {path}")
    return path


def _print(text: str) -> None:
    """Print lines without control characters, because the texts come from models."""
    print(lines(text), flush=True)
