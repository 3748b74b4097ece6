r"""Libraries of reworded benchmark questions.

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
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from audit.commands.completion import offer, overrides
from audit.core.errors import check_known, check_seed, unknown_name
from audit.core.exits import lines, plainly, tell
from audit.core.json_types import plain
from audit.shards.working_copy import local_folder

SHOWN = 20  # candidates of a question or state that are shown
# Words that name the questions and the model: a perturbation audit of them takes these too.
_ASKED = ("benchmark", "data", "endpoint", "model_id", "api_key_env", "model", "cluster")


def add_words(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--folder", type=Path, default=Path("outputs/variants"), help="where libraries are kept"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, does: str, act: Callable[[argparse.Namespace], None], *places: str
    ) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=does)
        one.set_defaults(act=act)
        for place in places:
            one.add_argument(place)
        return one

    build = command("build", "items -> candidates -> gates -> library", _build)
    words = build.add_argument("overrides", nargs="*", help="key=value of conf/variants.yaml")
    offer(words, lambda typed: overrides("variants", typed))
    command("list", "the libraries there are", _list).add_argument("--json", action="store_true")
    add = command(
        "show", "header and funnel; variants of a question or in a state", _show, "library"
    ).add_argument
    add("--json", action="store_true", help="header, counts and candidates")
    add("--question", help="id of a question: all its candidates")
    add("--state", help="candidates in this state, such as accepted or too_close")
    both = command("diff", "what differs between two libraries", _diff, "library", "other")
    both.add_argument("--json", action="store_true")
    add = command(
        "merge", "the candidates of two libraries of one benchmark", _merge, "library", "other"
    ).add_argument
    add("--name", required=True)
    export = command(
        "export", "accepted variants as jsonl or parquet, by the file's suffix", _export, "library"
    )
    export.add_argument("out", type=Path)
    add = command(
        "panel", "take in what the reference models of a finished run found", _panel, "library"
    ).add_argument
    add(
        "run_dir",
        type=local_folder,
        metavar="RUN_DIR",
        help="a run of audit perturb with three references or more",
    )
    review = command(
        "review",
        "a random sample for a person to read, or the findings taken in",
        _review,
        "library",
    )
    either = review.add_mutually_exclusive_group(required=True)
    either.add_argument(
        "--out", type=Path, help="the form to write: .html to read in a browser, or .jsonl"
    )
    either.add_argument("--read", type=Path, help="the file with the findings")
    review.add_argument(
        "--n", type=int, default=150, help="variants to draw (0 broken of 150: at most 2 %%)"
    )
    review.add_argument("--seed", type=int, default=0)
    review.add_argument("--reviewer", default="", help="who read it; needed with --read")


@partial(plainly, shown=lines)
def run(args: argparse.Namespace) -> int:
    """Run one command; 0, or 1 with the reason on stderr."""
    args.act(args)
    return 0


def _build(args: argparse.Namespace) -> None:
    from audit.config.plain_words import check_words
    from audit.config.project import with_project
    from audit.config.short_forms import expand
    from audit.variants.config import BY_MODEL, compose_config
    from audit.variants.run import run_build

    typed, project = with_project(check_words(args.overrides, "variants build"), "variants")
    words, notes = expand(typed, "variants")
    config = compose_config(words)
    from audit.variants.ask import check_endpoints, models_of
    from audit.variants.plan import planned_build, price_lines

    prices = price_lines(config, planned_build(config))
    if config.plan:
        _say("\n".join(prices) or f"strategy={config.strategy} asks no model")
        return
    for note in filter(None, [project, *notes, *prices]):
        tell(f"note: {note}")
    check_endpoints(config)
    tell(
        f"building {config.library_name}: candidates are made, then checked one by one, which takes minutes"
    )
    library = run_build(config, models_of(config))
    path = _save(library, Path(config.out))
    asked = [word for word in typed if word.partition("=")[0].partition(".")[0] in _ASKED]
    if config.judge is not None or config.strategy == BY_MODEL:
        _say(f"next: {shlex.join(['audit', 'perturb', *asked, f'variants={path}'])}")


def _list(args: argparse.Namespace) -> None:
    from audit.variants.arrow import list_libraries

    entries = list_libraries(args.folder)
    if args.json:
        print(json.dumps(plain([asdict(entry) for entry in entries]), indent=1))
        return
    for entry in entries:
        total, accepted = sum(entry.counts.values()), entry.counts.get("accepted", 0)
        _say(
            f"{entry.sha256[:12]}  {entry.name}  {entry.benchmark}  {accepted} of {total} accepted  {entry.path}"
        )
    if not entries:
        _say(f"No library in {args.folder}, and none is shipped.")


def _show(args: argparse.Namespace) -> None:
    from audit.variants.funnel import funnel_text
    from audit.variants.record import State

    if args.state is not None:
        check_known("state", args.state, list(State))
    library = _find(args.library, args)
    if args.json:
        chosen = [v for v in library.variants if args.question in (None, v.question_id)]
        chosen = [v for v in chosen if args.state in (None, v.state.value)]
        about = {
            "sha256": library.sha256,
            "header": asdict(library.header),
            "counts": library.counts,
        }
        print(
            json.dumps(
                plain({**about, "candidates": [asdict(v) for v in chosen]}),
                indent=1,
                ensure_ascii=False,
            )
        )
        return
    if args.question is None and args.state is None:
        _say(json.dumps(asdict(library.header), indent=2, ensure_ascii=False))
        _say(funnel_text(library))
        _say(f"library  {library.sha256}")
        return
    asked = [v for v in library.variants if args.question in (None, v.question_id)]
    chosen = [v for v in asked if args.state in (None, v.state.value)]
    if not chosen and args.question is not None:
        raise unknown_name(
            "question of the library", args.question, {v.question_id for v in library.variants}
        )
    for variant in chosen[:SHOWN]:
        distance = "-" if variant.distance is None else f"{variant.distance:.3f}"
        _say(
            f"{variant.id}  {variant.state.value}  distance {distance}  {'; '.join(variant.rules)}"
        )
        _say(f"  - {variant.original}\n  + {variant.text or variant.error or '(empty)'}")
    _say(f"{min(len(chosen), SHOWN)} of {len(chosen)} candidates")


def _diff(args: argparse.Namespace) -> None:
    from audit.variants.combine import diff

    first, second = _find(args.library, args), _find(args.other, args)
    found = diff(first, second)
    if args.json:
        print(json.dumps(plain(asdict(found)), indent=1, ensure_ascii=False))
        return
    for name, (one, two) in found.header.items():
        _say(f"{name}: {one} -> {two}")
    for sign, variants in (("-", found.only_first), ("+", found.only_second)):
        for variant in variants:
            _say(f"{sign} {variant.id}  {variant.text}")
    for one, two in found.changed:
        _say(f"~ {one.id}  {one.state.value} -> {two.state.value}  {one.text}")
    _say(
        f"{len(found.only_first)} only in {first.sha256[:12]}, {len(found.only_second)} only in {second.sha256[:12]}, "
        f"{len(found.changed)} in another state."
    )


def _merge(args: argparse.Namespace) -> None:
    from audit.variants.combine import merge

    _save(merge(_find(args.library, args), _find(args.other, args), args.name), args.folder)


def _export(args: argparse.Namespace) -> None:
    from audit.variants.arrow import export_library

    library = _find(args.library, args)
    _say(f"{export_library(library, args.out)} variants written to {args.out}")


def _panel(args: argparse.Namespace) -> None:
    from audit.variants.combine import judge_by_run

    _save(judge_by_run(_find(args.library, args), args.run_dir), args.folder)


def _review(args: argparse.Namespace) -> None:
    from audit.variants.review_file import ASK, read_review, write_review

    library = _find(args.library, args)
    if args.out is not None:
        check_seed(args.seed)
        write_review(library, args.out, n=args.n, seed=args.seed)
        _say(f"{args.n} of {len(library.accepted)} accepted variants written to {args.out}. {ASK}")
        return
    _save(read_review(library, args.read, reviewer=args.reviewer), args.folder)


def _find(reference: str, args: argparse.Namespace) -> Any:
    from audit.variants.arrow import find_library

    return find_library(reference, args.folder)


def _save(library: Any, folder: Path) -> Path:
    """Save a library, print its funnel and its place; return the place."""
    from audit.variants.arrow import save_library
    from audit.variants.funnel import funnel_text

    _say(funnel_text(library))
    path = save_library(library, folder)
    _say(f"library  {library.sha256}\nfile     {path}")
    return path


def _say(text: str) -> None:
    """A library holds what models wrote, and may be somebody else's."""
    print(lines(text), flush=True)
