"""What several commands share, and what the gate and the review hand to governance."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.config.audits import AUDITS
from audit.core.errors import ConfigError

if TYPE_CHECKING:  # These modules are loaded only if there is a decision, a suite or a registry.
    from audit.governance.reviews import Bound
    from audit.judging.document import AuditVerdict
    from audit.judging.together import Document


def verdict_again(folder: Path, read: Document) -> tuple[Document | None, str]:
    """The verdict of a folder from its answers, and why the stored one is another
    (`governance.recompute`)."""
    from audit.governance import recompute

    return recompute.verdict_again(folder, read, suite_section)


def suite_section(folder: Path) -> Callable[[Mapping[str, AuditVerdict[Any]]], dict[str, Any]]:
    """What verdict.json says of the suite in a folder (`suite.judge`)."""
    from audit.suite.judge import section_of

    return section_of(folder)


def audit_named(words: Sequence[str]) -> tuple[str, list[str]]:
    """(the audit of `audit=NAME` among the words, the sweep where none is named; the other
    words)."""
    named = [word for word in words if word.startswith("audit=")]
    name = named[-1].removeprefix("audit=") if named else AUDITS[0]
    return name, [word for word in words if word not in named]


def pair_of(option: str, text: str, form: str) -> tuple[str, str]:
    """What stands on each side of the equals sign in an option's word; ConfigError with its form
    where one is empty."""
    first, _, second = text.partition("=")
    if not first or not second:
        raise ConfigError(f"{option} {text}: expected {form}")
    return first, second


def add_deciders(parser: argparse.ArgumentParser) -> None:
    """The options of every command that reads people's decisions: whose count, how many, and who
    notices a loss."""
    from audit.governance.keys import TRUSTED_VARIABLE
    from audit.governance.ruling import REGISTRY_VARIABLE

    trusted, registry = os.environ.get(TRUSTED_VARIABLE), os.environ.get(REGISTRY_VARIABLE)
    add, keys = parser.add_argument, Path(trusted) if trusted else None
    whose = f"folder of the public keys whose decisions count (default: {TRUSTED_VARIABLE})"
    add("--keys", type=Path, default=keys, help=whose)
    add(
        "--approvals",
        type=int,
        default=1,
        help="people that an override needs (default: what the suite says, else 1)",
    )
    knows = f"it knows whether a decision was deleted (default: {REGISTRY_VARIABLE}; without either nobody is asked)"
    add("--registry", default=registry, help=knows)


def known_to(place: str | None) -> Callable[[Path, Bound], None] | None:
    """What checks a run and its decisions against the registry at a place; None without a
    registry."""
    if not place:
        return None

    def check(run_dir: Path, bound: Bound) -> None:
        from audit.registry.database import open_registry
        from audit.registry.store import check_decisions, check_hashes

        opened = open_registry(place, make=False)
        check_hashes(opened, run_dir)
        check_decisions(opened, run_dir, bound)

    return check
