"""Every finished audit in one database: trends, retention, rotation, notices, model cards.

examples: audit registry add outputs/my_run --registry audits.db; audit registry trends --model
llama3_8b"""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from audit.commands.again import verdict_again
from audit.core.errors import ConfigError
from audit.core.exits import OK, tell
from audit.shards.working_copy import local_folder

# Equals database.VARIABLE, whose import would load SQLAlchemy for --help.
_VARIABLE = "AUDIT_REGISTRY"


def add_words(parser: argparse.ArgumentParser) -> None:
    several = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--registry", help=f"a file, or postgresql://... (default: audit.yaml's, or {_VARIABLE})"
    )
    which = argparse.ArgumentParser(add_help=False)
    for name in ("model", "benchmark", "audit"):
        which.add_argument(f"--{name}", action="append", default=[], help="may be repeated")

    def command(name: str, text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        return several.add_parser(name, parents=[where, *parents], help=text, description=text)

    add = command(
        "add", "register finished runs: run directories, or folders that hold some"
    ).add_argument
    add("paths", nargs="+", type=local_folder, metavar="RUN_DIR")
    reads = argparse.ArgumentParser(add_help=False)
    reads.add_argument("--json", action="store_true")
    command("list", "the runs that are registered, latest last", which, reads)
    add = command("show", "all that is registered of a run", reads).add_argument
    add("key", help="its key, or the first characters")
    add = command(
        "trends", "indicators over the versions of a model, with a test of change", which, reads
    ).add_argument
    add("--indicator", action="append", default=[], help="such as cs, excess, fresh_gap, score")
    add("--chart", type=Path, help="write an SVG")
    add(
        "--floor",
        action="store_true",
        help="the level of the current version of every model instead",
    )
    add = command("hold", "keep a run whatever its retention says").add_argument
    add("key")
    add("--reason", required=True)
    command("release", "end a hold").add_argument("key")
    add = command(
        "forget", "begin anew with the decisions on a run that were moved away; people are told"
    ).add_argument
    add("run_dir", type=local_folder, metavar="RUN_DIR")
    add("--reason", required=True)
    expire = command("expire", "remove what is past its suite's result_retention_days; hashes stay")
    how = expire.add_mutually_exclusive_group(required=True)
    how.add_argument(
        "--dry-run", action="store_true", help="say what would go, and the token to confirm it with"
    )
    how.add_argument("--confirm", metavar="TOKEN", help="remove exactly what the dry run said")
    command("due", "benchmarks and libraries whose rotation is due", reads)
    add = command(
        "draw", "this period's held-out sample of a benchmark, the same wherever it is drawn"
    ).add_argument
    add("benchmark", help="of conf/benchmark, or a file of benchmark=mcq_file's form")
    add("--n", type=int, required=True)
    add(
        "--out",
        type=Path,
        required=True,
        help="the questions, as benchmark=mcq_file reads them (.jsonl)",
    )
    add = command(
        "notify", "send what is waiting; with --keys also what people's decisions expire"
    ).add_argument
    add("--keys", type=Path, help="folder of the trusted public keys")
    add("--days", type=int, default=7, help="before a decision expires (default: 7)")
    _outward(several)


def run(asked: argparse.Namespace, now: datetime | None = None) -> int:
    """Run one subcommand. now: the time, for who has a clock of their own."""
    from audit.config.project import project_words
    from audit.registry import commands  # This import loads SQLAlchemy.

    if "registry" in asked and not asked.registry:
        own, note = project_words([], "registry")
        if note:
            tell(note)
        asked.registry = own[0].partition("=")[2] if own else None
    if asked.what in ("card", "mlflow", "wandb") and not asked.trust_report:
        _check_verdicts(asked.run_dir)
    return getattr(commands, asked.what)(asked, now or datetime.now(UTC)) or OK


def _check_verdicts(folder: Path) -> None:
    """ConfigError where a verdict that is to be published is not what the answers give now."""
    from audit.governance.ruling import rule_run
    from audit.shards.panel import panel_runs

    for run_dir in panel_runs(folder) or [folder]:
        if problem := rule_run(run_dir, verdict_again).problem:
            raise ConfigError(problem)


def _outward(several: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The commands that hand a result to another system."""
    run = argparse.ArgumentParser(add_help=False)
    run.add_argument("run_dir", type=local_folder, metavar="RUN_DIR")
    run.add_argument(
        "--trust-report",
        action="store_true",
        help="do not compute the verdict again from the answers",
    )
    what = "a run's result as Hugging Face metadata, into a folder"
    add = several.add_parser("card", parents=[run], help=what).add_argument
    add("--out", type=Path, required=True)
    add("--dataset", help="the benchmark's id on the hub, such as cais/mmlu, for .eval_results")
    add("--model", help="of the audit, where it has several")
    add("--push", metavar="REPO", help="upload it to this model's repository (needs HF_TOKEN)")
    what = "tag a model version in MLflow, and attach the verdict"
    add = several.add_parser("mlflow", parents=[run], help=what).add_argument
    add("--name", required=True, help="the registered model")
    add("--version", required=True)
    add("--model", help="of the audit, where it has several")
    what = "the result as an artifact of Weights & Biases (where it is installed)"
    add = several.add_parser("wandb", parents=[run], help=what).add_argument
    add("--project", required=True)
