"""What people decided about a run: `RUN_DIR/decisions/0001.dsse.json`, ..., each signed, each naming the one before.

A decision binds the bytes of the verdict, of the page that people read, of the manifest (and with it every shard's
hash), of the tables that were asked and of the suite: it counts for that run as it was, until it expires. The last word
of each signer counts.
"""

import os
import re
import reprlib
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from audit.decision import Decision, Ruling
from audit.errors import ConfigError, SignatureError
from audit.exits import FAILED, OK
from audit.governance.keys import DECISION as PREDICATE
from audit.governance.keys import DECISIONS, MAX_BYTES, Keys, sha256, subjects_of, unseal
from audit.guarded_files import read_bytes
from audit.guarded_yaml import parse_yaml
from audit.shards.files import disk_error

SUITES = ("suite.json", "suite.yaml")
MAX_SUITE = 1 << 20  # bytes of a suite
MAX_REASON = 2000
LONGEST = timedelta(days=5 * 366)  # an approval is of a model as it was known then
_FIRST = datetime(2026, 1, 1, tzinfo=UTC)  # before this program there were no decisions
_FILE = re.compile(r"[0-9]{4}\.dsse\.json")


class Kind(StrEnum):
    """approve: of what was found and needs a review. override: of a block, or where there is no decision."""

    APPROVE = "approve"
    REJECT = "reject"
    OVERRIDE = "override"


@dataclass(frozen=True)
class Decided:
    """One decision, its signature checked. expires: None for a rejection, which stands until its signer decides."""

    kind: Kind
    signer: str
    reason: str
    decided: datetime
    expires: datetime | None

    def sentence(self, now: datetime) -> str:
        until = ""
        if self.expires is not None:
            until = f", {'EXPIRED' if self.expires <= now else 'valid until'} {at(self.expires)}"
        return f"{self.kind} by {self.signer} on {at(self.decided)}{until}: {self.reason}"


@dataclass(frozen=True)
class Bound:
    """What a decision is about. subjects: sha256 of files, by name. facts: what they say, for people to read."""

    subjects: dict[str, str]
    facts: dict[str, Any]


def approvals_asked(text: str, where: str) -> int:
    """Return how many people a suite's text asks for (`governance.approvals_required`), 1 if it does not say.
    ConfigError if it cannot be read: it may ask for more."""
    try:
        found = parse_yaml(text)  # JSON is YAML
        if found.get("suite") and found.get("governance"):
            raise ValueError("it has governance both of its own and in a suite")
        asked = ((found.get("suite") or found).get("governance") or {}).get("approvals_required", 1)
        if isinstance(asked, bool) or not isinstance(asked, int) or asked < 1:
            raise ValueError(f"approvals_required is {reprlib.repr(asked)}")
    except (yaml.YAMLError, AttributeError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())[:200]
        raise ConfigError(f"{where} does not say how many have to approve ({why}). Restore it.") from error
    return asked


def decision_files(run_dir: Path) -> list[Path]:
    """What lies in a run's folder of decisions, in order: each should be a decision."""
    folder = run_dir / DECISIONS
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []


def decision_hashes(run_dir: Path) -> list[str]:
    """sha256 of each decision's file, in order; what is in them is for `chain_of` to check."""
    return [sha256(read_bytes(path, MAX_BYTES)) for path in decision_files(run_dir) if path.is_file()]


def honour(
    ruling: Ruling, decided: Sequence[Decided], run_by: Collection[str], approvals: int, now: datetime
) -> Ruling:
    """The ruling once people were heard (pure). A rejection blocks. A review passes by approvals or overrides, a block
    or no decision by overrides alone: of as many people as asked for, one of them not who ran the audit. Where it is
    not known who ran it, two are needed. A failed or incomplete run never passes."""
    said = [one.sentence(now) for one in decided]
    last = {one.signer: one for one in decided}
    if any(one.kind == Kind.REJECT for one in last.values()):
        code = FAILED if ruling.exit_code == FAILED else Decision.BLOCK.exit_code
        return replace(ruling, decision=Decision.BLOCK, exit_code=code, said=tuple(said))
    if ruling.exit_code in (FAILED, OK):
        return replace(ruling, said=tuple(said))
    who = _supporters(ruling.decision, last.values(), now)
    needed = approvals if run_by and "" not in run_by else max(approvals, 2)
    if who - set(run_by):
        if len(who) >= needed:
            return replace(ruling, decision=Decision.PASS, exit_code=OK, said=tuple(said), overridden=True)
    elif who:
        said.append("who ran the audit cannot approve it alone")
    if decided:
        unknown = "" if needed == approvals else " (who ran the audit is not known, so two)"
        said.append(f"{len(who)} of {needed} needed{unknown}")
    return replace(ruling, said=tuple(said))


def _supporters(decision: Decision, last: Iterable[Decided], now: datetime) -> set[str]:
    """Who lets it pass, by a word that has not expired."""
    kinds = {Kind.OVERRIDE, Kind.APPROVE} if decision == Decision.REVIEW else {Kind.OVERRIDE}
    return {one.signer for one in last if one.kind in kinds and one.expires and one.expires > now}


def parse_time(text: str) -> datetime:
    """A day (it ends with it, UTC) or a time with its zone. ConfigError for anything else."""
    try:
        found = datetime.fromisoformat(text)
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return datetime.combine(found.date(), time(23, 59, 59), UTC)
        if found.tzinfo is None:
            raise ValueError("it has no time zone")
    except ValueError as error:
        example = "2027-01-31 or 2027-01-31T18:00:00+00:00"
        raise ConfigError(f"Invalid time: {text!r} ({error}). Expected such as {example}.") from error
    return found.astimezone(UTC).replace(microsecond=0)


def chain_of(run_dir: Path, bound: Bound, trusted: Keys | None, now: datetime) -> list[tuple[Decided, str]]:
    """Return each decision of a run in its order, with the sha256 of its file. Raises as `check_chain`."""
    return check_chain(((path, _read(path)) for path in decision_files(run_dir)), bound, trusted, now)


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, MAX_BYTES)
    except OSError as error:
        raise SignatureError(f"{path} cannot be read ({error}).") from error


def check_chain(
    files: Iterable[tuple[Path, bytes]], bound: Bound, trusted: Keys | None, now: datetime
) -> list[tuple[Decided, str]]:
    """Return each decision in its order, with the sha256 of its file.

    Parameters
    ----------
    files : path and content of each, in order
    bound : what each of them is about
    trusted : as `unseal` takes it
    now : the time, in which the last of them is past

    Raises
    ------
    SignatureError
        unless they are numbered from 1 on, each names the one before it, and all are whole, signed and of this run
    """
    chain: list[tuple[Decided, str]] = []
    for number, (path, data) in enumerate(files, 1):
        name = path.name
        if not _FILE.fullmatch(name) or int(name[:4]) != number:
            raise SignatureError(f"{path} is not decision {number:04d}: one was taken out, or something else put in.")
        stated, signer = unseal(data, trusted, PREDICATE, str(path))
        chain.append((_decided(path, stated, signer, bound, number, chain[-1] if chain else None), sha256(data)))
    if chain and (last := chain[-1][0].decided) > now:
        raise SignatureError(f"{path.parent} was last decided on {at(last)}, and it is {at(now)}. Set the clock right.")
    return chain


def _decided(
    path: Path, stated: Mapping[str, Any], signer: str, bound: Bound, number: int, before: tuple[Decided, str] | None
) -> Decided:
    told = stated["predicate"]
    if subjects_of(stated) != bound.subjects:
        now, then = bound.subjects, subjects_of(stated)
        odd = sorted(name for name in {*now, *then} if now.get(name) != then.get(name))
        what = " and ".join(odd)
        raise SignatureError(f"{path} was decided over another {what}. Move {path.parent} away and decide again.")
    earliest, previous = (before[0].decided, before[1]) if before else (_FIRST, None)
    wanted = {**bound.facts, "signer": signer, "sequence": number, "previous": previous}
    for name, value in wanted.items():
        if told.get(name) != value:
            raise SignatureError(f"{path} says {name} {told.get(name)!r}; expected {value!r}.")
    try:
        kind, decided = Kind(told["decision"]), datetime.fromisoformat(told["decided"])
        expires = datetime.fromisoformat(told["expires"]) if told["expires"] is not None else None
        sound = (expires is None) == (kind == Kind.REJECT) and decided >= earliest and isinstance(told["reason"], str)
        sound = sound and (expires is None or decided < expires <= decided + LONGEST)
    except (KeyError, TypeError, ValueError) as error:
        raise SignatureError(f"{path} is no decision of this program ({error!r}).") from error
    if not sound:
        raise SignatureError(f"{path} has a reason or times that cannot be: {told['decided']} to {told['expires']}.")
    return Decided(kind, signer, str(told["reason"]), decided, expires)


def add_file(path: Path, data: bytes) -> Path:
    """Write a signed file, whole or not at all, and never over another. ConfigError where one is there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            os.link(name, path)
        finally:
            Path(name).unlink(missing_ok=True)
    except FileExistsError as error:
        raise ConfigError(f"{path} is there already, and what was signed is not replaced. Look at it first.") from error
    except OSError as error:
        raise disk_error(path, error) from error
    return path


def at(when: datetime) -> str:
    """A time as decisions and tables have it: UTC, of one form, which sorts as it reads.

    >>> at(datetime(2026, 11, 22, 6, 0, tzinfo=UTC))
    '2026-11-22T06:00:00+00:00'
    """
    return when.astimezone(UTC).isoformat(timespec="seconds")
