"""Read people's decisions from a pack, and compute the decision that they and the verdict give."""

import posixpath
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from audit.core.errors import ConfigError
from audit.governance.archive import RUN, SEAL, SUITES, VERDICT, Pack
from audit.governance.keys import DECISIONS, Keys, person
from audit.governance.reviews import Bound, Decided, approvals_asked, check_chain, honour
from audit.governance.side_files import LISTED, revisions_of
from audit.judging.decision import document_of, rule
from audit.judging.together import parts_of
from audit.shards.manifest import MANIFEST
from audit.shards.panel import PANEL


def chain_in(pack: Pack, home: str, trusted: Keys | None, now: datetime) -> tuple[Decided, ...]:
    """Return the decisions in a folder of a pack, in order.

    Parameters
    ----------
    pack : Pack
        An open pack.
    home : str
        The folder in the pack of a run, panel or suite.
    trusted : Keys or None
        The keys whose decisions count. With None no signature is checked.
    now : datetime
        The current time, which the last decision must precede.

    Returns
    -------
    tuple of Decided
        The decisions.

    Raises
    ------
    SignatureError
        Unless they are numbered from 1 on, each names its predecessor, and all are about the
        content of the pack and, with `trusted`, signed by these keys.
    """
    names = pack.named(f"{home}/{DECISIONS}/.+")
    nested = []
    for name in names:
        if posixpath.dirname(name) != f"{home}/{DECISIONS}":
            nested.append(name)
    if nested:
        raise pack.wrong(f"{nested[0]} is not a decision.")
    bound = _bound(pack, home)
    files = ((Path(f"{pack.path}: {name}"), pack.read(name)) for name in names)
    return tuple(decided for decided, _ in check_chain(files, bound, trusted, now))


def weigh(pack: Pack, decided: Sequence[Decided], trusted: Keys | None, now: datetime) -> str:
    """Return the decision that the pack's verdict and people's decisions give together.

    Parameters
    ----------
    pack : Pack
        An open pack.
    decided : sequence of Decided
        The decisions that count; empty for the verdict alone.
    trusted : Keys or None
        The trusted keys, which identify who started the runs.
    now : datetime
        The current time, by which decisions expire.

    Returns
    -------
    str
        "pass", "review", "block" or "no decision".

    Raises
    ------
    SignatureError
        If the pack's verdict cannot be read.
    """
    try:
        ruling = rule(document_of(pack.json(VERDICT), VERDICT))
        if decided:
            homes = [name.removesuffix(f"/{MANIFEST}") for name in _manifests(pack)]
            known = {person(key.signer): key.signer for key in (trusted or {}).values()}
            run_by = []
            for home in homes:
                for who in pack.json(f"{home}/{MANIFEST}")["run_by"]:
                    run_by.append(known.get(person(who), ""))
            ruling = honour(ruling, decided, run_by, _approvals_required(pack, homes), now)
    except (ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise pack.wrong(f"{VERDICT} is not a verdict of this program ({error!r}).") from error
    return str(ruling.decision)


def _approvals_required(pack: Pack, homes: Sequence[str]) -> int:
    """Return the largest number of approvals that a suite in the pack requires; 1 without a
    suite."""
    required = 1
    for home in {RUN, *homes}:
        for name in SUITES:
            if f"{home}/{name}" in pack.sums:
                required = max(
                    required, approvals_asked(pack.read(f"{home}/{name}").decode(), name)
                )
    return required


def _manifests(pack: Pack) -> list[str]:
    return pack.named(f"{RUN}/([^/]+/)?{MANIFEST}")


def _bound(pack: Pack, home: str) -> Bound:
    """Return what a decision on a run, panel or suite in the pack binds, as `ruling.bound_to`
    does."""
    try:
        return _bound_in(pack, home)
    except (ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise pack.wrong(
            f"{home} holds decisions, but no complete run or panel ({error!r})."
        ) from error


def _bound_in(pack: Pack, home: str) -> Bound:
    members = _members(pack, home)
    subjects = _hashes(pack, f"{home}/report", "", ("verdict.json", "report.html"))
    subjects |= _run_hashes(pack, home, "")
    for name, place in members.items():
        subjects |= _run_hashes(pack, place, f"{name}/")
    path = f"{home}/report/verdict.json"
    verdict = document_of(pack.json(path), path)
    run, models = _run_facts(pack, home)
    if members:
        subjects[PANEL] = pack.sums[f"{home}/{PANEL}"]
        run, models = {}, {}
        for name, place in members.items():
            run[name], models[name] = _run_facts(pack, place)
    suites = [name for name in SUITES if f"{home}/{name}" in pack.sums]
    libraries = {}
    for audit, part in parts_of(verdict):
        if part.library:
            libraries[audit] = part.library.sha256
    facts = {
        "run": run,
        "models": models,
        "libraries": libraries,
        "suite": suites[0] if suites else None,
        "verdict_decision": str(rule(verdict).verdict_decision),
    }
    return Bound(subjects, facts)


def _run_hashes(pack: Pack, place: str, below: str) -> dict[str, str]:
    """Return the hashes of a run's files that a decision binds, by name after `below`."""
    hashes = _hashes(pack, place, below, (MANIFEST, *SUITES, SEAL))
    for name, sha256 in _tables(pack, place).items():
        hashes[f"{below}{name}"] = sha256
    return hashes


def _hashes(pack: Pack, place: str, below: str, names: Iterable[str]) -> dict[str, str]:
    """Return the hashes of those files in a folder of a pack that it has."""
    hashes = {}
    for name in names:
        if f"{place}/{name}" in pack.sums:
            hashes[f"{below}{name}"] = pack.sums[f"{place}/{name}"]
    return hashes


def _members(pack: Pack, home: str) -> dict[str, str]:
    """Return the folder in the pack of each run of a panel, by its name in the panel's file."""
    if f"{home}/{PANEL}" not in pack.sums:
        return {}
    folders = {}
    for run in pack.json(f"{home}/{PANEL}")["runs"]:
        name = posixpath.normpath(run)
        folders[name] = f"{home}/{posixpath.basename(name)}"
    return folders


def _tables(pack: Pack, place: str) -> dict[str, str]:
    """Return the sha256 of each table of a run by name, including tables that are not in the
    pack."""
    copy = LISTED if place == RUN else f"{place}/{LISTED}"
    rows = pack.json(copy) if copy in pack.sums else []
    tables = {}
    for row in rows:
        if "/" not in row["file"] and row["file"].endswith(".arrow"):
            tables[row["file"]] = row["sha256"]
    return tables


def _run_facts(pack: Pack, place: str) -> tuple[Any, Any]:
    """Return a run's fingerprint and its models with revisions; (None, None) without a manifest."""
    if f"{place}/{MANIFEST}" not in pack.sums:
        return None, None
    manifest = pack.json(f"{place}/{MANIFEST}")
    return manifest["fingerprint"], revisions_of(manifest["models"])
