"""What people decided on the runs of a pack, and what the verdict in it and these decisions come to."""

import posixpath
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from audit.decision import document_of, rule
from audit.errors import ConfigError
from audit.governance.keys import DECISIONS, Keys, person
from audit.governance.reviews import SUITES, Bound, Decided, approvals_asked, check_chain, honour
from audit.governance.verify import RUN, SEAL, VERDICT, Pack
from audit.panel import PANEL
from audit.shards.manifest import MANIFEST
from audit.verdict.together import parts_of


def chain_in(pack: Pack, home: str, trusted: Keys | None, now: datetime) -> tuple[Decided, ...]:
    """Return the decisions in a folder of a pack, in order. SignatureError unless they are numbered from 1 on, each
    names the one before it, and all are about what is in the pack and, with `trusted`, signed by these keys."""
    names = pack.named(f"{home}/{DECISIONS}/.+")
    if odd := [name for name in names if posixpath.dirname(name) != f"{home}/{DECISIONS}"]:
        raise pack.wrong(f"{odd[0]} is no decision.")
    bound = _bound(pack, home)
    files = ((Path(f"{pack.path}: {name}"), pack.read(name)) for name in names)
    return tuple(one for one, _ in check_chain(files, bound, trusted, now))


def weigh(pack: Pack, decided: Sequence[Decided], trusted: Keys | None, now: datetime) -> str:
    """Return the decision of the pack's verdict with people's decisions: "pass", "review", "block", "no decision"."""
    try:
        ruling = rule(document_of(pack.json(VERDICT), VERDICT))
        if decided:
            homes = [name.removesuffix(f"/{MANIFEST}") for name in _manifests(pack)]
            known = {person(one.signer): one.signer for one in (trusted or {}).values()}
            started = [who for home in homes for who in pack.json(f"{home}/{MANIFEST}")["run_by"]]
            asked = [
                approvals_asked(pack.read(f"{home}/{name}").decode(), name)
                for home in {RUN, *homes}
                for name in SUITES
                if f"{home}/{name}" in pack.sums
            ]
            run_by = [known.get(person(who), "") for who in started]
            ruling = honour(ruling, decided, run_by, max([1, *asked]), now)
    except (ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise pack.wrong(f"{VERDICT} is no verdict of this program ({error!r}).") from error
    return str(ruling.decision)


def _manifests(pack: Pack) -> list[str]:
    return pack.named(f"{RUN}/([^/]+/)?{MANIFEST}")


def _bound(pack: Pack, home: str) -> Bound:
    """Return what a decision on the run, panel or suite in a folder of the pack binds, as `ruling.bound_to` does."""
    try:
        return _bound_in(pack, home)
    except (ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise pack.wrong(f"{home} holds decisions, and no whole run or panel ({error!r}).") from error


def _bound_in(pack: Pack, home: str) -> Bound:
    report = {name: f"{home}/report/{name}" for name in ("verdict.json", "report.html")}
    subjects = {name: pack.sums[path] for name, path in report.items() if path in pack.sums}
    members = _members(pack, home)
    for below, place in {"": home, **{f"{name}/": at for name, at in members.items()}}.items():
        for name in (MANIFEST, *SUITES, SEAL):
            if f"{place}/{name}" in pack.sums:
                subjects[f"{below}{name}"] = pack.sums[f"{place}/{name}"]
        subjects |= {f"{below}{name}": sha256 for name, sha256 in _tables(pack, place).items()}
    verdict = document_of(pack.json(report["verdict.json"]), report["verdict.json"])
    told = {name: _told(pack, place) for name, place in members.items()}
    run, models = _told(pack, home)
    if members:
        subjects[PANEL] = pack.sums[f"{home}/{PANEL}"]
        run, models = {name: one[0] for name, one in told.items()}, {name: one[1] for name, one in told.items()}
    facts = {
        "run": run,
        "models": models,
        "libraries": {audit: part.library.sha256 for audit, part in parts_of(verdict) if part.library},
        "suite": next((name for name in SUITES if f"{home}/{name}" in pack.sums), None),
        "verdict_decision": str(rule(verdict).verdict_decision),
    }
    return Bound(subjects, facts)


def _members(pack: Pack, home: str) -> dict[str, str]:
    """Return the folder in the pack of each run of a panel, by its name in the panel's file; none without a panel."""
    if f"{home}/{PANEL}" not in pack.sums:
        return {}
    names = [posixpath.normpath(name) for name in pack.json(f"{home}/{PANEL}")["runs"]]
    return {name: f"{home}/{posixpath.basename(name)}" for name in names}


def _tables(pack: Pack, place: str) -> dict[str, str]:
    """Return the sha256 of each table of a run, by name, whether it is in the pack or not."""
    copy = "shards.json" if place == RUN else f"{place}/shards.json"
    rows = pack.json(copy) if copy in pack.sums else []
    return {row["file"]: row["sha256"] for row in rows if "/" not in row["file"]}


def _told(pack: Pack, place: str) -> tuple[Any, Any]:
    """Return a run's fingerprint and its models with their revisions; None of each if there is no manifest."""
    if f"{place}/{MANIFEST}" not in pack.sums:
        return None, None
    manifest = pack.json(f"{place}/{MANIFEST}")
    return manifest["fingerprint"], {name: one.get("revision") for name, one in manifest["models"].items()}
