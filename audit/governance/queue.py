"""What waits for a decision below a folder, and a decision signed, added and noted: of the command and of the page."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from securesystemslib.signer import Signer

from audit.decision import Decision, Ruling
from audit.errors import ConfigError, RegistryError
from audit.exits import FAILED
from audit.governance.keys import DECISION, DECISIONS, Keys, seal, signer_of, statement
from audit.governance.reviews import LONGEST, MAX_REASON, Bound, Kind, add_file, at, chain_of, parse_time
from audit.governance.ruling import bound_to
from audit.panel import PANEL, panel_runs
from audit.shards.manifest import MANIFEST, TOMBSTONE

# Knows how many decisions a run has, so that none is deleted unseen. (run, what a decision on it binds, None): raises
# SignatureError where one is gone, RegistryError where nobody answers; with a time it notes those that are there.
Register = Callable[[Path, Bound, datetime | None], object]


def decide_on(
    run_dir: Path,
    ruling: Ruling,
    kind: Kind,
    *,
    reason: str,
    expires: str | None,
    signer: Signer,
    trusted: Keys,
    now: datetime,
    registry: Register | None,
) -> Path:
    """Sign a decision on a run, add it, and note it in the registry where there is one; the file. expires: as typed.
    Raises ConfigError where it would have no effect, SignatureError where what was decided before does not hold,
    RegistryError where the registry does not answer."""
    bound, until = bound_to(run_dir, ruling), parse_time(expires) if expires else None
    if registry is not None:
        registry(run_dir, bound, None)
    now, reason = now.replace(microsecond=0), reason.strip()
    name = signer_of(signer, trusted)
    if ruling.exit_code == FAILED:
        raise ConfigError("The run has no whole verdict. A failed or incomplete run passes by nobody's word.")
    if not reason or len(reason) > MAX_REASON:
        raise ConfigError(f"A decision needs a reason of 1 to {MAX_REASON} characters; this one has {len(reason)}.")
    if kind == Kind.APPROVE and ruling.verdict_decision in (Decision.BLOCK, Decision.NO_DECISION):
        raise ConfigError(
            f"The verdict says {ruling.verdict_decision!s}, and an approval answers a review. To let the run pass all "
            "the same: audit review override"
        )
    _check_expiry(kind, until, now)
    chain = chain_of(run_dir, bound, trusted, now)
    predicate = {
        **bound.facts,
        "decision": str(kind),
        "reason": reason,
        "decided": at(now),
        "expires": at(until) if until else None,
        "signer": name,
        "sequence": len(chain) + 1,
        "previous": chain[-1][1] if chain else None,
    }
    data = seal(statement(DECISION, bound.subjects, predicate), signer)
    path = add_file(run_dir / DECISIONS / f"{len(chain) + 1:04d}.dsse.json", data)
    if registry is not None:
        try:
            registry(run_dir, bound, now)
        except RegistryError as error:
            raise RegistryError(
                f"{error} The decision counts ({path}), and the registry does not know of it: audit registry add "
                f"{run_dir}"
            ) from error
    return path


def _check_expiry(kind: Kind, until: datetime | None, now: datetime) -> None:
    if kind == Kind.REJECT:
        if until is not None:
            raise ConfigError("A rejection does not expire: its signer may decide again. Leave --expires out.")
    elif until is None or until <= now:
        raise ConfigError("Expected --expires in the future, such as --expires 2027-01-31.")
    elif until - now > LONGEST:
        raise ConfigError(
            f"A decision holds for {LONGEST.days} days at most. Expected --expires before that; renew it then."
        )


def queue(folder: Path) -> list[Path]:
    """Every run, panel and suite below a folder, but for what retention removed. The runs of a panel or suite are
    decided on together."""
    panels = {path.parent: panel_runs(path.parent) or [] for path in folder.glob(f"**/{PANEL}")}
    gone = {panel for panel, members in panels.items() if all((run / TOMBSTONE).is_file() for run in members)}
    together = {run.resolve() for members in panels.values() for run in members}
    alone = {path.parent for path in folder.glob(f"**/{MANIFEST}") if path.parent.resolve() not in together}
    runs = sorted({*panels, *alone} - gone)
    if not runs:
        raise ConfigError(f"No run below {folder}. Expected a folder of run directories, such as outputs.")
    return runs
