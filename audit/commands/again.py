"""Share arguments and functions among commands, and connect `audit.governance` with other packages.

`audit.governance` must not import the suite and the registry. So the commands pass functions of
this module to it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.config.audits import AUDITS
from audit.core.errors import ConfigError

if TYPE_CHECKING:  # Most commands do not need these modules.
    from audit.governance.reviews import Bound
    from audit.judging.document import AuditVerdict
    from audit.judging.together import Document


def recomputed_verdict(folder: Path, read: Document) -> tuple[Document | None, str]:
    """Recompute the verdict of a run from its answers (`audit.governance.recompute`).

    Parameters
    ----------
    folder : Path
        The folder of a run, suite or panel.
    read : Document
        The stored verdict of this folder.

    Returns
    -------
    tuple[Document | None, str]
        The recomputed verdict and "" if the stored verdict equals the recomputed one. Otherwise
        None and a description of the difference.
    """
    from audit.governance import recompute

    return recompute.recomputed_verdict(folder, read, suite_section)


def suite_section(folder: Path) -> Callable[[Mapping[str, AuditVerdict[Any]]], dict[str, Any]]:
    """Return the function that computes the suite's section of verdict.json (`audit.suite.judge`).

    Parameters
    ----------
    folder : Path
        The folder of a suite.

    Returns
    -------
    Callable
        A function from the verdict of each audit to the suite's section.
    """
    from audit.suite.judge import section_of

    return section_of(folder)


def audit_named(words: Sequence[str]) -> tuple[str, list[str]]:
    """Separate `audit=NAME` from the other arguments of a command line.

    Parameters
    ----------
    words : Sequence[str]
        The arguments after the command's name.

    Returns
    -------
    tuple[str, list[str]]
        The name of the audit (`sweep` if no argument names an audit), and the other arguments.

    Examples
    --------
    >>> audit_named(["n=100", "audit=memory"])
    ('memory', ['n=100'])
    """
    named = [word for word in words if word.startswith("audit=")]
    name = named[-1].removeprefix("audit=") if named else AUDITS[0]
    return name, [word for word in words if word not in named]


def pair_of(option: str, text: str, form: str) -> tuple[str, str]:
    """Split the value of an option at the equals sign.

    Parameters
    ----------
    option : str
        The option, such as `--models`. The error message names it.
    text : str
        The value that was typed.
    form : str
        The expected form of the value. The error message quotes it.

    Returns
    -------
    tuple[str, str]
        The text before and the text after the first equals sign.

    Raises
    ------
    ConfigError
        If either side is empty.

    Examples
    --------
    >>> pair_of("--models", "v1=v2", "OLD=NEW")
    ('v1', 'v2')
    """
    first, _, second = text.partition("=")
    if not first or not second:
        raise ConfigError(f"{option} is {text!r}. Expected {form}")
    return first, second


def add_force(parser: argparse.ArgumentParser) -> None:
    """Declare --force, which replaces files that exist (`check_new`)."""
    parser.add_argument("--force", action="store_true", help="replace files that exist")


def add_decision_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every command that reads signed decisions.

    The options name:

    - the public keys whose decisions count;
    - the number of people who must sign an override;
    - the registry, which shows if a decision was deleted.
    """
    from audit.governance.keys import TRUSTED_VARIABLE
    from audit.governance.ruling import REGISTRY_VARIABLE

    trusted, registry = os.environ.get(TRUSTED_VARIABLE), os.environ.get(REGISTRY_VARIABLE)
    add, keys = parser.add_argument, Path(trusted) if trusted else None
    keys_help = f"folder of the public keys whose decisions count (default: {TRUSTED_VARIABLE})"
    add("--keys", type=Path, default=keys, help=keys_help)
    add(
        "--approvals",
        type=int,
        default=1,
        help="number of people that an override needs (default: the suite's number, else 1)",
    )
    registry_help = (
        "registry that notices deleted decisions; without a registry this is not checked "
    )
    registry_help += f"(default: {REGISTRY_VARIABLE})"
    add("--registry", default=registry, help=registry_help)


def registry_check(place: str | None) -> Callable[[Path, Bound], None] | None:
    """Return a function that checks a run and its decisions against a registry.

    Parameters
    ----------
    place : str or None
        The file or address of the registry.

    Returns
    -------
    Callable or None
        The function, or None if `place` is empty.
    """
    if not place:
        return None

    def check(run_dir: Path, bound: Bound) -> None:
        from audit.registry.database import open_registry
        from audit.registry.store import check_decisions, check_hashes

        registry = open_registry(place, make=False)
        check_hashes(registry, run_dir)
        check_decisions(registry, run_dir, bound)

    return check
