"""Store and check people's decisions about a run.

The files are `RUN_DIR/decisions/0001.dsse.json`, `0002.dsse.json` and so on.

Each decision is signed and names the previous decision. It contains the hashes of the files that it
covers: the verdict, the page that people read, the manifest (which lists every shard's hash), the
question tables and the suite. A decision is valid until it expires, and only while the covered
files are unchanged. If a person decides several times, only the last decision counts.
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

from audit.core.errors import ConfigError, SignatureError
from audit.core.exits import FAILED, OK
from audit.core.guarded_files import read_bytes
from audit.core.guarded_yaml import parse_yaml
from audit.governance.keys import DECISION as PREDICATE
from audit.governance.keys import DECISIONS, MAX_BYTES, Keys, sha256, subjects_of, unseal
from audit.judging.decision import Decision, Ruling
from audit.shards.files import disk_error

MAX_SUITE = 1 << 20  # largest suite file, in bytes
MAX_REASON = 2000
# An approval or override is valid for at most this time, because the knowledge about a model
# changes.
LONGEST = timedelta(days=5 * 366)
# No decision can be earlier, since the program did not exist before this date.
_FIRST = datetime(2026, 1, 1, tzinfo=UTC)
_FILE = re.compile(r"[0-9]{4}\.dsse\.json")


class Kind(StrEnum):
    """Name the kind of a person's decision on a run.

    - `approve` lets a run pass whose verdict requires a review.
    - `override` also lets a run pass whose verdict is block or "no decision".
    - `reject` blocks a run.
    """

    APPROVE = "approve"
    REJECT = "reject"
    OVERRIDE = "override"


@dataclass(frozen=True)
class Decided:
    """Hold one decision whose signature was checked.

    `expires` is None for a rejection, which is valid until its signer decides again.
    """

    kind: Kind
    signer: str
    reason: str
    decided: datetime
    expires: datetime | None

    def sentence(self, now: datetime) -> str:
        """Describe the decision in a sentence, which also states whether the decision has expired."""
        until = ""
        if self.expires is not None:
            until = f", {'EXPIRED' if self.expires <= now else 'valid until'} {at(self.expires)}"
        return f"{self.kind} by {self.signer} on {at(self.decided)}{until}: {self.reason}"


@dataclass(frozen=True)
class Bound:
    """Hold the files that a decision covers, and facts about them.

    `subjects` maps file names to their sha256. `facts` is information for readers.
    """

    subjects: dict[str, str]
    facts: dict[str, Any]


def approvals_asked(text: str, where: str) -> int:
    """Return how many approvals a suite requires (`governance.approvals_required`).

    Parameters
    ----------
    text : str
        The suite as YAML or JSON.
    where : str
        The suite's file, for messages.

    Returns
    -------
    int
        The number of approvals; 1 if the suite does not state it.

    Raises
    ------
    ConfigError
        If the text cannot be parsed, since the suite may require more approvals.
    """
    try:
        document = parse_yaml(text)  # JSON is valid YAML, so a single parser can read both formats
        if document.get("suite") and document.get("governance"):
            raise ValueError("governance occurs both at the top level and inside suite")
        required = ((document.get("suite") or document).get("governance") or {}).get(
            "approvals_required", 1
        )
        if isinstance(required, bool) or not isinstance(required, int) or required < 1:
            raise ValueError(f"approvals_required is {reprlib.repr(required)}")
    except (yaml.YAMLError, AttributeError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"{where} does not state how many people have to approve ({why}). Restore it."
        ) from error
    return required


def decision_files(run_dir: Path) -> list[Path]:
    """Return the files in a run's folder of decisions, sorted by their numbers."""
    folder = run_dir / DECISIONS
    return (
        sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        if folder.is_dir()
        else []
    )


def decision_hashes(run_dir: Path) -> list[str]:
    """Return the sha256 of each decision's file, sorted by number. `chain_of` checks the content of
    the files.
    """
    digests = []
    for path in decision_files(run_dir):
        if path.is_file():
            digests.append(sha256(read_bytes(path, MAX_BYTES)))
    return digests


def honour(
    ruling: Ruling,
    decided: Sequence[Decided],
    run_by: Collection[str],
    approvals: int,
    now: datetime,
) -> Ruling:
    """Apply people's decisions to a ruling (pure).

    Parameters
    ----------
    ruling : Ruling
        The ruling on the verdict alone.
    decided : sequence of Decided
        The decisions, in order.
    run_by : collection of str
        The people who started the run; "" stands for an unknown person.
    approvals : int
        The number of people who must let the run pass. It is at least two if it is unknown who
        started the run.
    now : datetime
        The current time, which shows whether a decision has expired.

    Returns
    -------
    Ruling
        The ruling after the decisions:

        - A rejection blocks the run.
        - If the verdict requires a review, enough approvals or overrides let the run pass.
        - If the verdict is block or "no decision", only overrides let the run pass.
        - At least one of the people who let the run pass must not have started it.
        - A failed or incomplete run never passes.
    """
    sentences = [decision.sentence(now) for decision in decided]
    last = {decision.signer: decision for decision in decided}
    if any(decision.kind == Kind.REJECT for decision in last.values()):
        code = FAILED if ruling.exit_code == FAILED else Decision.BLOCK.exit_code
        return replace(ruling, decision=Decision.BLOCK, exit_code=code, decided=tuple(sentences))
    if ruling.exit_code in (FAILED, OK):
        return replace(ruling, decided=tuple(sentences))
    who = _supporters(ruling.decision, last.values(), now)
    needed = approvals if run_by and "" not in run_by else max(approvals, 2)
    if who - set(run_by):
        if len(who) >= needed:
            return replace(
                ruling,
                decision=Decision.PASS,
                exit_code=OK,
                decided=tuple(sentences),
                overridden=True,
            )
    elif who:
        sentences.append("who ran the audit cannot approve it alone")
    if decided:
        unknown = "" if needed == approvals else " (who ran the audit is not known, so two)"
        sentences.append(f"{len(who)} of {needed} needed{unknown}")
    return replace(ruling, decided=tuple(sentences))


def _supporters(decision: Decision, last: Iterable[Decided], now: datetime) -> set[str]:
    """Return the signers whose unexpired decision lets the run pass."""
    kinds = {Kind.OVERRIDE, Kind.APPROVE} if decision == Decision.REVIEW else {Kind.OVERRIDE}
    signers = set()
    for decided in last:
        if decided.kind in kinds and decided.expires and decided.expires > now:
            signers.add(decided.signer)
    return signers


def parse_time(text: str) -> datetime:
    """Parse a date, or a time with its time zone.

    Parameters
    ----------
    text : str
        The date or time in ISO 8601. A date means the end of this day in UTC.

    Returns
    -------
    datetime
        The time in UTC, without fractions of a second.

    Raises
    ------
    ConfigError
        If the text is neither a date nor a time.
    """
    try:
        parsed = datetime.fromisoformat(text)
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return datetime.combine(parsed.date(), time(23, 59, 59), UTC)
        if parsed.tzinfo is None:
            raise ValueError("it has no time zone")
    except ValueError as error:
        example = "2027-01-31 or 2027-01-31T18:00:00+00:00"
        raise ConfigError(
            f"The time is {text!r} ({error}). Expected a date or time such as {example}."
        ) from error
    return parsed.astimezone(UTC).replace(microsecond=0)


def chain_of(
    run_dir: Path, bound: Bound, trusted: Keys | None, now: datetime
) -> list[tuple[Decided, str]]:
    """Return each decision of a run in order, with the sha256 of its file.

    Parameters
    ----------
    run_dir : Path
        A run directory, or a panel's or suite's folder.
    bound, trusted, now
        The same parameters as those of `check_chain`.

    Returns
    -------
    list of tuple
        The decisions with their hashes, as `check_chain` returns them.

    Raises
    ------
    SignatureError
        If a decision is invalid or missing; see `check_chain`.
    """
    return check_chain(
        ((path, _read(path)) for path in decision_files(run_dir)), bound, trusted, now
    )


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, MAX_BYTES)
    except OSError as error:
        raise SignatureError(f"{path} cannot be read ({error}).") from error


def check_chain(
    files: Iterable[tuple[Path, bytes]], bound: Bound, trusted: Keys | None, now: datetime
) -> list[tuple[Decided, str]]:
    """Check a sequence of decisions.

    Parameters
    ----------
    files : iterable of (Path, bytes)
        Pairs of path and content of each decision's file, sorted by number.
    bound : Bound
        The files and facts that each decision must cover.
    trusted : Keys or None
        The keys whose signatures are accepted. None checks no signature.
    now : datetime
        The current time. The last decision must have been made before this time.

    Returns
    -------
    list of tuple
        Each decision in order, with the sha256 of its file.

    Raises
    ------
    SignatureError
        If the decisions are not numbered 1, 2, ..., or if a decision does not name the previous
        decision. The error is also raised if a decision is incomplete, unsigned or about another
        run.
    """
    chain: list[tuple[Decided, str]] = []
    for number, (path, data) in enumerate(files, 1):
        name = path.name
        if not _FILE.fullmatch(name) or int(name[:4]) != number:
            raise SignatureError(
                f"{path} is not decision {number:04d}: a decision was removed, or another file was "
                "added."
            )
        stated, signer = unseal(data, trusted, PREDICATE, str(path))
        chain.append(
            (
                _decided(path, stated, signer, bound, number, chain[-1] if chain else None),
                sha256(data),
            )
        )
    if chain and (last := chain[-1][0].decided) > now:
        raise SignatureError(
            f"The last decision in {path.parent} was made at {at(last)}, but the clock shows "
            f"{at(now)}. Correct the clock."
        )
    return chain


def _decided(
    path: Path,
    stated: Mapping[str, Any],
    signer: str,
    bound: Bound,
    number: int,
    before: tuple[Decided, str] | None,
) -> Decided:
    predicate = stated["predicate"]
    if subjects_of(stated) != bound.subjects:
        now, then = bound.subjects, subjects_of(stated)
        changed = sorted(name for name in {*now, *then} if now.get(name) != then.get(name))
        raise SignatureError(
            f"{path} was a decision on another {' and '.join(changed)}. Move {path.parent} away "
            "and decide again."
        )
    earliest, previous = (before[0].decided, before[1]) if before else (_FIRST, None)
    expected = {**bound.facts, "signer": signer, "sequence": number, "previous": previous}
    for name, value in expected.items():
        if predicate.get(name) != value:
            raise SignatureError(
                f"{name} in {path} is {predicate.get(name)!r}. Expected {value!r}."
            )
    try:
        kind, decided = Kind(predicate["decision"]), datetime.fromisoformat(predicate["decided"])
        expires = (
            datetime.fromisoformat(predicate["expires"])
            if predicate["expires"] is not None
            else None
        )
        sound = isinstance(predicate["reason"], str) and decided >= earliest
        sound = sound and (expires is None) == (kind == Kind.REJECT)
        sound = sound and (expires is None or decided < expires <= decided + LONGEST)
    except (KeyError, TypeError, ValueError) as error:
        raise SignatureError(f"{path} is not a decision of this program ({error!r}).") from error
    if not sound:
        period = f"{predicate['decided']} to {predicate['expires']}"
        raise SignatureError(f"{path} has an impossible reason or period: {period}.")
    return Decided(kind, signer, str(predicate["reason"]), decided, expires)


def add_file(path: Path, data: bytes) -> Path:
    """Write a signed file atomically. An existing file is never replaced.

    Parameters
    ----------
    path : Path
        The path to write to. Its folder is created if needed.
    data : bytes
        Content of the signed file.

    Returns
    -------
    Path
        Path of the written file.

    Raises
    ------
    ConfigError
        If the file exists or cannot be written.
    """
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
        raise ConfigError(
            f"{path} exists, and signed files are never replaced. Read it first."
        ) from error
    except OSError as error:
        raise disk_error(path, error) from error
    return path


def at(when: datetime) -> str:
    """Format a time in UTC, as in decisions and tables. Sorting such texts sorts them by time.

    Examples
    --------
    >>> at(datetime(2026, 11, 22, 6, 0, tzinfo=UTC))
    '2026-11-22T06:00:00+00:00'
    """
    return when.astimezone(UTC).isoformat(timespec="seconds")
