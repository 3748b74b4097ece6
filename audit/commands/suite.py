"""Run the audits of a suite on one pinned model and one engine, with one report and one decision.

example: audit suite demo plan=true. Exit codes: 0 pass; 1 an audit did not finish, or was refused;
3 block; 4 review or no decision."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path

from audit.commands.completion import offer
from audit.config.audits import every_audit
from audit.core.errors import ConfigError, UsageError
from audit.core.exits import OK, lines, plainly, tell
from audit.shards.working_copy import need_folder


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments: the suite, and settings that change the suite."""
    add = parser.add_argument
    add(
        "--schema",
        action="store_true",
        help="print the JSON Schema of a suite, for editors and hooks",
    )
    add("suite", metavar="SUITE", nargs="?", help="a YAML or JSON file, or a name in conf/suite")
    keys = "model=NAME, model_version=..., plan=true, run_dir=DIR, a field of the suite, "
    keys += "AUDIT.key=value for one audit, or a setting of every audit"
    words = add("words", nargs="*", metavar="key=value", help=keys)
    offer(words, lambda typed: ["plan=true", "model=", "model_version=", "run_dir=", "gate="])


@partial(plainly, shown=lines)
def run(arguments: Namespace) -> int:
    """Read and check a suite, then plan or run it.

    Returns
    -------
    int
        Exit code 0, 1, 3 or 4, as the help text explains.

    Raises
    ------
    UsageError
        If no suite is named.
    """
    if arguments.schema:
        from audit.suite.schema import schema_text

        print(schema_text(), end="")
        return OK
    if arguments.suite is None:
        raise UsageError(
            "The suite is missing. Expected a file or a name. Example: audit suite demo plan=true"
        )
    return _suite(arguments.suite, arguments.words)


def _suite(name: str, words: Sequence[str]) -> int:
    from audit.config.project import project_words
    from audit.config.short_forms import data_words, note_local_models
    from audit.suite.commands import audit_words, steps
    from audit.suite.read import read_suite

    changes, changed, shared, run_dir, plan = _sorted(words)
    note_local_models(shared)
    files = [word.removeprefix("data=") for word in words if word.startswith("data=")]
    suite = read_suite(name, changes)
    if files:
        benchmark = data_words(files[-1])[-1]
        for audit, audit_settings in suite.audits.items():
            if not any(word.startswith("benchmark=") for word in audit_settings):
                changed[audit] = [benchmark, *changed.get(audit, ())]
    for audit in changed:
        if audit not in suite.audits:
            raise ConfigError(
                f"Setting is {audit}.{changed[audit][0]}. Expected an audit of this suite: "
                f"{', '.join(suite.audits)}."
            )
    registry, note = project_words(words, "suite")
    if note:
        tell(note)
    for audit, audit_settings in suite.audits.items():
        # The registry of the suite takes precedence over the registry in audit.yaml.
        if registry and not any(word.startswith("registry=") for word in audit_settings):
            changed[audit] = [*registry, *changed.get(audit, ())]
    given = audit_words(suite, shared, changed)
    from audit.suite.run import check_suite, run_dir_of, run_suite

    need_folder(run_dir, "A suite")
    folder = Path(run_dir) if run_dir else run_dir_of(suite, given)
    audit_steps = steps(suite, given, str(folder))
    if not plan:
        return run_suite(suite, audit_steps, folder, (name, *words))
    from audit.suite.commands import describe

    check_suite(suite, audit_steps)
    print("\n".join(describe(audit_steps, folder)))
    return OK


def _sorted(words: Sequence[str]) -> tuple[list[str], dict[str, list[str]], list[str], str, bool]:
    """Sort the arguments by what they set.

    Returns
    -------
    tuple
        Changes of the suite's fields, settings of single audits, settings of all audits, the run
        directory, and whether only the plan is printed.
    """
    from audit.config.short_forms import HF, quoted
    from audit.suite.schema import Suite

    suite_fields = {field.name for field in fields(Suite)}
    changes, changed, shared = [], dict[str, list[str]](), []
    run_dir, plan = "", False
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ConfigError(f"Argument is {word!r}. Expected key=value. Example: plan=true")
        head, _, rest = key.partition(".")
        if key in ("model", "model_id", "model_version", "endpoint"):
            field_name = "model_id" if key == "model" else key
            changes.append(f"model_config.{field_name}={value.removeprefix(HF)}")
        elif key == "data":
            changes += [
                "dataset_config.benchmark_name=mcq_file",
                f"dataset_config.path={quoted(value)}",
            ]
        elif key == "run_dir":
            run_dir = value
        elif key == "plan":
            if value not in ("true", "false"):
                raise ConfigError(f"plan is {value!r}. Expected true or false. Example: plan=true")
            plan = value == "true"
        elif head in suite_fields:
            changes.append(word)
        elif head in every_audit() and rest:
            changed.setdefault(head, []).append(f"{rest}={value}")
        else:
            shared.append(word)
    return changes, changed, shared, run_dir, plan
