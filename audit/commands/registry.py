"""Keep finished audits in one database: trends, retention, rotation, notices, model cards.

examples: audit registry add outputs/my_run --registry audits.db; audit registry trends --model
llama3_8b"""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from audit.commands.again import add_force, recomputed_verdict
from audit.core.errors import ConfigError
from audit.core.exits import OK, tell
from audit.shards.working_copy import local_folder

# This name equals database.VARIABLE. Importing it from there would load SQLAlchemy for --help.
_VARIABLE = "AUDIT_REGISTRY"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare a subcommand for each operation on the registry."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="COMMAND")
    place = argparse.ArgumentParser(add_help=False)
    registry = f"a file, or postgresql://... (default: that of audit.yaml, or {_VARIABLE})"
    place.add_argument("--registry", help=registry)
    filters = argparse.ArgumentParser(add_help=False)
    for name in ("model", "benchmark", "audit"):
        text = f"only runs of this {name}; may be repeated"
        filters.add_argument(f"--{name}", action="append", default=[], help=text)

    def command(name: str, text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        return commands.add_parser(name, parents=[place, *parents], help=text, description=text)

    add = command("add", "register finished runs").add_argument
    paths = "run directories, or folders that hold run directories"
    add("paths", nargs="+", type=local_folder, metavar="RUN_DIR", help=paths)
    as_json = argparse.ArgumentParser(add_help=False)
    as_json.add_argument("--json", action="store_true", help="print JSON, for programs")
    command("list", "list the registered runs, the latest last", filters, as_json)
    add = command("show", "print the registered facts of a run", as_json).add_argument
    add("key", help="the run's key, or its first characters")
    trends = "indicators over the versions of a model, with a test of change"
    trending = command("trends", trends, filters, as_json)
    add = trending.add_argument
    add("--indicator", action="append", default=[], help="such as cs, excess, fresh_gap, score")
    add("--chart", type=Path, help="write an SVG file")
    add_force(trending)
    floor = "print instead the level of the current version of every model"
    add("--floor", action="store_true", help=floor)
    add = command("hold", "keep a run beyond its retention").add_argument
    add("key")
    add("--reason", required=True)
    command("release", "end a hold").add_argument("key")
    forget = "accept that decisions on a run were removed, and notify people"
    add = command("forget", forget).add_argument
    add("run_dir", type=local_folder, metavar="RUN_DIR")
    add("--reason", required=True)
    expire = command(
        "expire", "remove results older than their suite's result_retention_days; hashes stay"
    )
    mode = expire.add_mutually_exclusive_group(required=True)
    dry_run = "list the results that would be removed, and the token that confirms the removal"
    mode.add_argument("--dry-run", action="store_true", help=dry_run)
    mode.add_argument("--confirm", metavar="TOKEN", help="remove exactly what the dry run listed")
    command("due", "list benchmarks and libraries whose rotation is due", as_json)
    draw = "draw the period's held-out sample of a benchmark; every machine draws the same sample"
    drawing = command("draw", draw)
    add_force(drawing)
    add = drawing.add_argument
    add("benchmark", help="a name of conf/benchmark, or a file that benchmark=mcq_file can read")
    add("--n", type=int, required=True, help="number of questions")
    out = "the file to write (.jsonl), which benchmark=mcq_file can read"
    add("--out", type=Path, required=True, help=out)
    notify = "send the waiting notices; with --keys also notices of decisions that expire soon"
    add = command("notify", notify).add_argument
    add("--keys", type=Path, help="folder of the trusted public keys")
    days = "days before a decision expires from which a notice is sent (default: 7)"
    add("--days", type=int, default=7, help=days)
    _add_publishing(commands)


def run(arguments: argparse.Namespace, now: datetime | None = None) -> int:
    """Run the subcommand that was typed.

    Parameters
    ----------
    arguments : Namespace
        The arguments of the command line.
    now : datetime, optional
        The time. Without it the clock is read.

    Returns
    -------
    int
        The exit code of the subcommand.

    Raises
    ------
    ConfigError
        If a verdict that is to be published differs from the recomputed verdict.
    """
    from audit.config.project import project_words
    from audit.registry import commands  # This import loads SQLAlchemy.
    from audit.shards.files import check_new

    if "registry" in arguments and not arguments.registry:
        words, note = project_words([], "registry")
        if note:
            tell(note)
        arguments.registry = words[0].partition("=")[2] if words else None
    written = arguments.chart if arguments.action == "trends" else None
    written = arguments.out if arguments.action == "draw" else written
    if written is not None:
        check_new(written, force=arguments.force)
    if arguments.action in ("card", "mlflow", "wandb") and not arguments.trust_report:
        _check_verdicts(arguments.run_dir)
    return getattr(commands, arguments.action)(arguments, now or datetime.now(UTC)) or OK


def _check_verdicts(folder: Path) -> None:
    """Raise ConfigError if a stored verdict differs from the recomputed verdict."""
    from audit.governance.ruling import rule_run
    from audit.shards.panel import panel_runs

    for run_dir in panel_runs(folder) or [folder]:
        problem = rule_run(run_dir, recomputed_verdict).problem
        if problem:
            raise ConfigError(problem)


def _add_publishing(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the subcommands that publish a result in another system."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("run_dir", type=local_folder, metavar="RUN_DIR")
    trust = "accept the stored verdict without recomputing it from the answers"
    shared.add_argument("--trust-report", action="store_true", help=trust)
    model = "model of the run, if it has several"
    text = "write a run's result as Hugging Face metadata"
    add = commands.add_parser("card", parents=[shared], help=text).add_argument
    add("--out", type=Path, required=True, help="the folder to write")
    add("--dataset", help="the benchmark's id on the hub, such as cais/mmlu, for .eval_results")
    add("--model", help=model)
    add("--push", metavar="REPO", help="upload to this model's repository (needs HF_TOKEN)")
    text = "tag a model version in MLflow, and attach the verdict"
    add = commands.add_parser("mlflow", parents=[shared], help=text).add_argument
    add("--name", required=True, help="the registered model")
    add("--version", required=True, help="the version of this model")
    add("--model", help=model)
    text = "log the result as an artifact of Weights & Biases (which must be installed)"
    add = commands.add_parser("wandb", parents=[shared], help=text).add_argument
    add("--project", required=True, help="the project on Weights & Biases")
