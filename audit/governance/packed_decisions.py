"""Read people's decisions from a pack, and combine them with the verdict to the final decision."""

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
        The folder of a run, panel or suite inside the pack.
    trusted : Keys or None
        The keys whose decisions count. With None no signature is checked.
    now : datetime
        The current time. The last decision must have been made before this time.

    Returns
    -------
    tuple of Decided
        The checked decisions, in order.

    Raises
    ------
    SignatureError
        If the decisions are not numbered 1, 2, ..., or if a decision does not name the previous
        decision. The error is also raised if a decision is not about the pack's content. If
        `trusted` is given, also if a decision is not signed with a trusted key.
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
    """Return the final decision, given the pack's verdict and people's decisions.

    Parameters
    ----------
    pack : Pack
        An open pack.
    decided : sequence of Decided
        People's decisions. If there are none, the verdict alone determines the final decision.
    trusted : Keys or None
        The trusted keys, which are used to identify the people who started the runs.
    now : datetime
        The current time, which shows whether a decision has expired.

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
    """Return the number of approvals that the suites in the pack require.

    This is the largest of the suites' numbers, or 1 if the pack has no suite.
    """
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
    """Return the files and facts that a decision on a run, panel or suite in the pack must cover.

    `ruling.bound_to` does the same for a folder outside a pack.
    """
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
    """Map the names of the files of a run that a decision covers to their hashes.

    Each name is the prefix `below`, followed by the file's name.
    """
    hashes = _hashes(pack, place, below, (MANIFEST, *SUITES, SEAL))
    for name, sha256 in _tables(pack, place).items():
        hashes[f"{below}{name}"] = sha256
    return hashes


def _hashes(pack: Pack, place: str, below: str, names: Iterable[str]) -> dict[str, str]:
    """Map file names to the hashes of the files, for the given files that a folder of the pack has.

    Each name in the mapping begins with the prefix `below`.
    """
    hashes = {}
    for name in names:
        if f"{place}/{name}" in pack.sums:
            hashes[f"{below}{name}"] = pack.sums[f"{place}/{name}"]
    return hashes


def _members(pack: Pack, home: str) -> dict[str, str]:
    """Map the name of each run in a panel's file to the run's folder in the pack."""
    if f"{home}/{PANEL}" not in pack.sums:
        return {}
    folders = {}
    for run in pack.json(f"{home}/{PANEL}")["runs"]:
        name = posixpath.normpath(run)
        folders[name] = f"{home}/{posixpath.basename(name)}"
    return folders


def _tables(pack: Pack, place: str) -> dict[str, str]:
    """Map the name of each table of a run to its sha256.

    The mapping includes tables that are not in the pack.
    """
    copy = LISTED if place == RUN else f"{place}/{LISTED}"
    rows = pack.json(copy) if copy in pack.sums else []
    tables = {}
    for row in rows:
        if "/" not in row["file"] and row["file"].endswith(".arrow"):
            tables[row["file"]] = row["sha256"]
    return tables


def _run_facts(pack: Pack, place: str) -> tuple[Any, Any]:
    """Return a run's fingerprint, and a mapping from the run's models to their revisions.

    Both values are None if the run has no manifest.
    """
    if f"{place}/{MANIFEST}" not in pack.sums:
        return None, None
    manifest = pack.json(f"{place}/{MANIFEST}")
    return manifest["fingerprint"], revisions_of(manifest["models"])
