"""A run, or its items, for other people's tools.

examples: audit export inspect outputs/my_run; audit export tasks benchmark=mmlu n=100 --out tasks
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from audit.core.exits import say
from audit.core.records import Item
from audit.shards.working_copy import local_folder


def _tasks(overrides: Sequence[str], out: Path) -> int:
    """The items of a memory audit, or of a perturbation audit with their wordings; nothing is
    asked."""
    from audit.export.tasks import INSPECT_FILE, write_tasks

    named = {one.partition("=")[0] for one in overrides}
    words = list(overrides) if "model" in named else [*overrides, "model=scripted"]
    found = write_tasks(out, _reworded(words) if "variants" in named else _items(words))
    for task, items in found.items():
        say(f"task     {task}  {items:,} items")
    tasks = ",".join(found)
    print(
        f"lm-eval: cd {out} && lm_eval --include_path . --tasks {tasks} --log_samples --output_path logs ..."
    )
    print(
        f"Inspect: cd {out} && inspect eval {INSPECT_FILE} --model MODEL\nThen: audit import LOG ... -o RUN_DIR"
    )
    return 0


def _items(words: Sequence[str]) -> dict[str, list[Item]]:
    from audit.config.command_line import configured
    from audit.memory.plan import resolve_memory

    resolved = resolve_memory(configured("memory", words))
    return {one.benchmark.name: list(one.questions()) for one in resolved.samples}


def _reworded(words: Sequence[str]) -> dict[str, list[Item]]:
    from audit.config.command_line import configured
    from audit.perturb.audit import reworded
    from audit.perturb.plan import resolve_perturb

    run = resolve_perturb(configured("perturb", words))
    found = {}
    for sample, its in zip(run.resolved.samples, run.sets, strict=True):
        found[its.name] = questions = list(sample.questions())
        for question in questions:
            for k, variant in enumerate(its.selection.variants[question.id], 1):
                found.setdefault(f"{its.name}_variant_{k}", []).append(
                    reworded(its.library, question, variant)
                )
    return found


def add_words(parser: ArgumentParser) -> None:
    formats = parser.add_subparsers(dest="format", required=True, metavar="FORMAT")
    for name, does in (
        ("inspect", "eval logs, for `inspect view` and whatever reads them"),
        ("eee", "Every Eval Ever: an aggregate and its samples, one pair a model and benchmark"),
        ("hub", "accuracies for a model's page on the hub: .eval_results/BENCHMARK.yaml"),
    ):
        add = formats.add_parser(name, help=does).add_argument
        add("run_dir", type=local_folder, metavar="RUN_DIR")
        add("--out", type=Path, help="a folder (default: in RUN_DIR, by the format's name)")
        if name == "eee":
            add("--organization", default="not stated", help="who evaluated")
        if name == "hub":
            add("--task-id", default="default", help="the task in the dataset's eval.yaml")
            add("--source-url", default="", help="where the run can be read")
    add = formats.add_parser(
        "tasks", help="an audit's items as tasks of lm-eval and Inspect"
    ).add_argument
    add(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="of conf/memory.yaml; with variants=, perturb",
    )
    add("--out", type=Path, required=True, metavar="FOLDER")


def run(asked: Namespace) -> int:
    """Write the logs of a run, or of every run of a suite or panel."""
    if asked.format == "tasks":
        return _tasks(asked.overrides, asked.out)
    from audit.export import eee, inspect_log
    from audit.shards.panel import panel_runs

    write, folder, after = {
        "inspect": (
            inspect_log.export_inspect,
            inspect_log.INSPECT,
            "Look at them: inspect view --log-dir {}",
        ),
        "eee": (eee.export_eee, eee.FOLDER, ""),
        "hub": (
            eee.export_hub,
            eee.HUB,
            "Put the folder .eval_results into the model's repository.",
        ),
    }[asked.format]
    out = asked.out or asked.run_dir / folder
    own = {
        name: value
        for name, value in vars(asked).items()
        if name in ("organization", "task_id", "source_url")
    }
    for run_dir in panel_runs(asked.run_dir) or [asked.run_dir]:
        for path, problem in write(run_dir, out, **own):  # type: ignore[operator]
            say(f"written  {path}{f'  {problem}' if problem else ''}")
    if after:
        print(after.format(out))
    return 0
