"""Export a run, or the items of an audit, in the formats of other tools.

examples: audit export inspect outputs/my_run; audit export tasks benchmark=mmlu n=100 --out tasks
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from audit.commands.again import add_force
from audit.core.exits import say
from audit.core.records import Item
from audit.shards.working_copy import local_folder


def _tasks(overrides: Sequence[str], out: Path) -> int:
    """Write the items of a memory audit, or the items and rewordings of a perturbation audit.

    The files are tasks for lm-eval and Inspect. No model is started.
    """
    from audit.export.tasks import INSPECT_FILE, write_tasks

    keys = {word.partition("=")[0] for word in overrides}
    words = list(overrides) if "model" in keys else [*overrides, "model=scripted"]
    counts = write_tasks(out, _reworded(words) if "variants" in keys else _items(words))
    for task, items in counts.items():
        say(f"task     {task}  {items:,} items")
    tasks = ",".join(counts)
    options = f"--include_path . --tasks {tasks} --log_samples --output_path logs"
    print(f"lm-eval: cd {out} && lm_eval {options} ...")
    print(f"Inspect: cd {out} && inspect eval {INSPECT_FILE} --model MODEL")
    print("Then: audit import LOG ... -o RUN_DIR")
    return 0


def _items(words: Sequence[str]) -> dict[str, list[Item]]:
    from audit.config.command_line import configured
    from audit.memory.plan import resolve_memory

    resolved = resolve_memory(configured("memory", words))
    return {sample.benchmark.name: list(sample.questions()) for sample in resolved.samples}


def _reworded(words: Sequence[str]) -> dict[str, list[Item]]:
    from audit.config.command_line import configured
    from audit.perturb.audit import reworded
    from audit.perturb.plan import resolve_perturb

    run = resolve_perturb(configured("perturb", words))
    tasks: dict[str, list[Item]] = {}
    for sample, wordings in zip(run.resolved.samples, run.sets, strict=True):
        tasks[wordings.name] = questions = list(sample.questions())
        for question in questions:
            for k, variant in enumerate(wordings.selection.variants[question.id], 1):
                item = reworded(wordings.library, question, variant)
                tasks.setdefault(f"{wordings.name}_variant_{k}", []).append(item)
    return tasks


def add_arguments(parser: ArgumentParser) -> None:
    """Declare a subcommand for each format of another tool."""
    formats = parser.add_subparsers(dest="format", required=True, metavar="FORMAT")
    for name, summary in (
        ("inspect", "eval logs, for `inspect view` and other programs that read them"),
        ("eee", "Every Eval Ever: an aggregate file and a samples file per model and benchmark"),
        ("hub", "accuracies for a model's page on the hub: .eval_results/BENCHMARK.yaml"),
    ):
        exporting = formats.add_parser(name, help=summary)
        add = exporting.add_argument
        add("run_dir", type=local_folder, metavar="RUN_DIR")
        add("--out", type=Path, help="a folder (default: in RUN_DIR, named after the format)")
        if name == "eee":
            add("--organization", default="not stated", help="the organization that evaluated")
        if name == "hub":
            add_force(exporting)
            add("--task-id", default="default", help="the task in the dataset's eval.yaml")
            add("--source-url", default="", help="the address of the published run")
    tasks = formats.add_parser(
        "tasks", help="the items of an audit, as tasks of lm-eval and Inspect"
    )
    add_force(tasks)
    add = tasks.add_argument
    add(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="settings of conf/memory.yaml, or of conf/perturb.yaml if variants= is set",
    )
    add("--out", type=Path, required=True, metavar="FOLDER", help="the folder to write")


def run(arguments: Namespace) -> int:
    """Write the logs of a run, or of every run of a suite or panel.

    Returns
    -------
    int
        Exit code 0.
    """
    if arguments.format == "tasks":
        from audit.export.tasks import INSPECT_FILE
        from audit.shards.files import check_new

        check_new(arguments.out / INSPECT_FILE, arguments.out, force=arguments.force)
        return _tasks(arguments.overrides, arguments.out)
    from audit.export import eee, inspect_log
    from audit.shards.panel import panel_runs

    write, folder, closing = {
        "inspect": (
            inspect_log.export_inspect,
            inspect_log.INSPECT,
            "To read the logs: inspect view --log-dir {}",
        ),
        "eee": (eee.export_eee, eee.FOLDER, ""),
        "hub": (
            eee.export_hub,
            eee.HUB,
            "Put the folder .eval_results into the model's repository.",
        ),
    }[arguments.format]
    out = arguments.out or arguments.run_dir / folder
    options = {
        name: value
        for name, value in vars(arguments).items()
        if name in ("organization", "task_id", "source_url")
    }
    if arguments.format == "hub":
        options["force"] = arguments.force or arguments.out is None
    for run_dir in panel_runs(arguments.run_dir) or [arguments.run_dir]:
        for path, problem in write(run_dir, out, **options):  # type: ignore[operator]
            say(f"written  {path}{f'  {problem}' if problem else ''}")
    if closing:
        print(closing.format(out))
    return 0
