"""Run the audits that a suite names, of one pinned model, on one engine; one report, one decision.

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


def add_words(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--schema",
        action="store_true",
        help="print the JSON Schema of a suite, for editors and hooks",
    )
    add("suite", metavar="SUITE", nargs="?", help="a YAML or JSON file, or a name in conf/suite")
    takes = "model=NAME, model_version=..., plan=true, run_dir=DIR, a field of the suite, AUDIT.key=value, or a "
    words = add("words", nargs="*", metavar="key=value", help=takes + "setting of every audit")
    offer(words, lambda typed: ["plan=true", "model=", "model_version=", "run_dir=", "gate="])


@partial(plainly, shown=lines)
def run(asked: Namespace) -> int:
    """Read the suite, check everything that can be, then plan or run; the exit code."""
    if asked.schema:
        from audit.suite.schema import schema_text

        print(schema_text(), end="")
        return OK
    if asked.suite is None:
        raise UsageError(
            "which suite? Expected a file or a name, such as: audit suite demo plan=true"
        )
    return _suite(asked.suite, asked.words)


def _suite(name: str, words: Sequence[str]) -> int:
    from audit.config.project import project_words
    from audit.config.short_forms import data_words, own_models
    from audit.suite.commands import audit_words, steps
    from audit.suite.read import read_suite

    changes, changed, more, run_dir, plan = _sorted(words)
    own_models(more)
    named = [
        data_words(word.removeprefix("data="))[-1] for word in words if word.startswith("data=")
    ][-1:]
    suite = read_suite(name, changes)
    for audit, words_of in suite.audits.items():
        if named and not any(word.startswith("benchmark=") for word in words_of):
            changed[audit] = [*named, *changed.get(audit, ())]
    for audit in changed:
        if audit not in suite.audits:
            raise ConfigError(
                f"{audit}.{changed[audit][0]}: this suite runs {', '.join(suite.audits)}, not {audit}."
            )
    registry, note = project_words(words, "suite")
    if note:
        tell(note)
    for audit, own in suite.audits.items():  # a registry that the suite names stays
        if registry and not any(word.startswith("registry=") for word in own):
            changed[audit] = [*registry, *changed.get(audit, ())]
    given = audit_words(suite, more, changed)
    from audit.suite.run import check_suite, run_dir_of, run_suite

    need_folder(run_dir, "A suite")
    folder = Path(run_dir) if run_dir else run_dir_of(suite, given)
    asked = steps(suite, given, str(folder))
    if not plan:
        return run_suite(suite, asked, folder, (name, *words))
    from audit.suite.commands import describe

    check_suite(suite, asked)
    print("\n".join(describe(asked, folder)))
    return OK


def _sorted(words: Sequence[str]) -> tuple[list[str], dict[str, list[str]], list[str], str, bool]:
    """(changes of the suite's fields, settings by audit, those of every audit, the run directory,
    whether to plan)."""
    from audit.config.short_forms import HF, quoted
    from audit.suite.schema import Suite

    own = {field.name for field in fields(Suite)}
    changes, changed, more = [], dict[str, list[str]](), []
    run_dir, plan = "", False
    for word in words:
        key, found, value = word.partition("=")
        if not found:
            raise ConfigError(f"Expected key=value, such as plan=true; found {word!r}.")
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
                raise ConfigError(f"plan={value}: expected plan=true or plan=false.")
            plan = value == "true"
        elif head in own:
            changes.append(word)
        elif head in every_audit() and rest:
            changed.setdefault(head, []).append(f"{rest}={value}")
        else:
            more.append(word)
    return changes, changed, more, run_dir, plan
