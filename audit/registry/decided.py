"""What a run directory cannot show alone: the hashes that it was registered with, how many decisions people signed
on it, with the hash of the last, and how often its question was asked before.

Each decision names the one before it, so one that is taken out of the middle is found there. That the last one was
deleted, or all of them, is found here. A row is of what was decided on, wherever it lies: of the bytes that a decision
binds, and of what was asked and answered, so that a changed byte makes no new run. It only ever grows but for `forget`,
of which people are told.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, or_, select

from audit.decision import Try, rule
from audit.errors import AuditError, ConfigError, SignatureError
from audit.exits import one_line
from audit.governance.reviews import Bound, decision_hashes
from audit.governance.ruling import home_of, verdict_path
from audit.panel import panel_of, panel_runs
from audit.registry.database import Registry, open_registry
from audit.registry.entry import answers_sha256, comparable, digest, library_of
from audit.registry.schema import at, decisions, runs
from audit.registry.store import INSERT, Notice, write_notice
from audit.shards.files import file_sha256
from audit.shards.manifest import MANIFEST, Manifest


@dataclass(frozen=True)
class Noted:
    """A registry as a decision knows it (`governance.queue.Register`). place: its file or address."""

    place: str

    def check(self, run_dir: Path, bound: Bound) -> None:
        check_decisions(open_registry(self.place), run_dir, bound)

    def note(self, run_dir: Path, bound: Bound, now: datetime) -> None:
        note_decisions(open_registry(self.place), run_dir, bound, now)


def check_decisions(registry: Registry, run_dir: Path, bound: Bound) -> None:
    """SignatureError where decisions that the registry knows of are not there; RegistryError where it cannot be asked.

    bound: what a decision on the run binds now.
    """
    registry.read(lambda connection: _check(connection, run_dir, bound, decision_hashes(run_dir)))


def check_hashes(registry: Registry, run_dir: Path) -> None:
    """SignatureError where a run was registered (its place, its fingerprint or its answers) and is another one now."""

    def look(connection: Connection) -> None:
        for run, manifest in _manifests(run_dir):
            verdict = verdict_path(run)
            now = {"answers_sha256": answers_sha256(manifest), "manifest_sha256": file_sha256(run / MANIFEST)}
            now |= {"verdict_sha256": file_sha256(verdict)} if verdict.is_file() else {}
            same = or_(
                runs.c.run_dir == str(run.resolve()),
                runs.c.fingerprint == manifest.fingerprint,
                runs.c.answers_sha256 == now["answers_sha256"],
            )
            known = connection.execute(select(runs).where(same).order_by(runs.c.registered)).mappings().all()
            odd = [[name.split("_")[0] for name, value in now.items() if row[name] != value] for row in known]
            if odd and all(odd):
                raise SignatureError(
                    f"The registry has {run} as {known[-1]['key'][:12]}, with {' and '.join(odd[-1])} of other bytes: "
                    f"the run was changed since. If it was judged or run again: audit registry add {run}"
                )

    registry.read(look)


def note_decisions(registry: Registry, run_dir: Path, bound: Bound, now: datetime) -> int:
    """Note the decisions that are there; how many. Raises as `check_decisions`, and then notes nothing."""

    def change(connection: Connection) -> int:
        found = decision_hashes(run_dir)  # here: whoever decides at the same time waits for this transaction
        _check(connection, run_dir, bound, found)
        if found:
            row = {"run_dir": str(run_dir.resolve()), "count": len(found), "last_sha256": found[-1], "noted": at(now)}
            for about in _about(run_dir, bound):
                asked = INSERT[connection.dialect.name](decisions).values(about=about, **row)
                connection.execute(asked.on_conflict_do_update(index_elements=[decisions.c.about], set_=row))
        return len(found)

    return registry.write(change)


def forget_decisions(registry: Registry, run_dir: Path, bound: Bound, reason: str, now: datetime) -> int:
    """Begin anew, such as after a key was stolen: how many decisions the registry knew of. People are told.

    ConfigError where it knows of none, or decisions are there.
    """
    if decision_hashes(run_dir):
        raise ConfigError(f"{run_dir} has decisions. Move its folder of decisions away first, where it is kept.")

    def change(connection: Connection) -> int:
        rows = _rows(connection, run_dir, bound)
        if not rows:
            raise ConfigError(f"The registry knows of no decision on {run_dir}.")
        row, gone = rows[0], {one["last_sha256"] for one in rows}
        connection.execute(delete(decisions).where(decisions.c.last_sha256.in_(gone)))
        body = f"{row['count']} decisions on {run_dir}, the last of {row['last_sha256']}, count no more: {reason}"
        about = f"{row['about']} {row['last_sha256'][:40]}"
        write_notice(connection, Notice(about, "forgotten", "Audit decisions forgotten", one_line(body)), now)
        return int(row["count"])

    return registry.write(change)


def _check(connection: Connection, run_dir: Path, bound: Bound, found: Sequence[str]) -> None:
    for row in _rows(connection, run_dir, bound):
        if len(found) < row["count"] or found[row["count"] - 1] != row["last_sha256"]:
            raise SignatureError(
                f"The registry knows of {row['count']} decisions on {run_dir}, the last of sha256 "
                f"{row['last_sha256'][:12]}, and {len(found)} are there: one was deleted or replaced. Put it back, or "
                f"begin anew: audit registry forget {run_dir} --reason '...'"
            )


def _rows(connection: Connection, run_dir: Path, bound: Bound) -> Sequence[RowMapping]:
    return connection.execute(select(decisions).where(decisions.c.about.in_(_about(run_dir, bound)))).mappings().all()


def _about(run_dir: Path, bound: Bound) -> list[str]:
    """Of the bytes that a decision binds; and of fingerprints and answers, of a run or of a panel's."""
    asked = sorted([one.fingerprint, answers_sha256(one)] for _, one in _manifests(run_dir))
    panel = panel_runs(run_dir) is not None
    return [digest(bound.subjects), *([digest({"panel": panel, "runs": asked})] if asked else [])]


def _manifests(run_dir: Path) -> list[tuple[Path, Manifest]]:
    """Of a run, or of each of a panel's."""
    return [(run, Manifest.load(run)) for run in panel_runs(run_dir) or [run_dir] if (run / MANIFEST).is_file()]


_Key = tuple[str, str, str]  # model, its revision, benchmark
# Folder, start, fingerprint, decision, what was asked.
_Found = tuple[str, str, str, str, dict[_Key, Mapping[str, str]]]
_UNTOLD = ("library", "references")  # what a manifest alone does not tell, and a run without a verdict not at all


def tries(folder: Path, place: str | None) -> tuple[Try, ...]:
    """Earlier runs than those of a run's or panel's folder, the oldest first; copies of one count once. place: the
    registry's; None without one.

    Raises RegistryError where the registry does not answer.
    """
    folder = home_of(folder)
    own = [run for run in panel_runs(folder) or [folder] if (run / MANIFEST).is_file()]
    found: dict[tuple[str, str, tuple[str, ...]], Try] = {}
    for run in own:
        manifest = Manifest.load(run)
        here = _asked(manifest, _verdict(run))
        for name, started, mark, decision, there in (*_registered(manifest, place), *_beside(run)):
            both = here.keys() & there.keys()
            if not both or started >= manifest.started or Path(name) in [one.resolve() for one in own]:
                continue
            each = ((key, value, here[at].get(key)) for at in both for key, value in there[at].items())
            differs = tuple(sorted({key for key, a, b in each if a != b and (key not in _UNTOLD or (a and b))}))
            found[started, mark, differs] = Try(name, started, decision, differs)
    return tuple(sorted(found.values(), key=lambda one: (one.started, one.run)))


def _asked(manifest: Manifest, verdict: Mapping[str, Any]) -> dict[_Key, Mapping[str, str]]:
    library = library_of(verdict)[1] if isinstance(verdict.get("library"), dict) else None
    return {
        (model, str(facts.get("revision") or ""), benchmark): comparable(manifest, model, benchmark, library)
        for model, facts in manifest.models.items()
        for benchmark in manifest.benchmark
    }


def _registered(manifest: Manifest, place: str | None) -> Iterator[_Found]:
    if not place:
        return
    from audit.registry.database import open_registry
    from audit.registry.store import kept

    for one in kept(open_registry(place, make=False), audit=manifest.audit, model=list(manifest.models)):
        run, cell = one.run, one.cell
        at = (cell["model"], cell["model_revision"], cell["benchmark"])
        yield run["run_dir"], run["started"], run["fingerprint"], run["decision"], {at: cell["comparable"]}


def _beside(run: Path) -> Iterator[_Found]:
    """Runs in the folder that this one lies in, or its panel, and one folder deeper."""
    audit, top = Manifest.load(run).audit, (panel_of(run) or run.resolve()).parent
    for path in (*top.glob(f"*/{MANIFEST}"), *top.glob(f"*/*/{MANIFEST}")):
        try:
            manifest = Manifest.load(path.parent)
            if manifest.audit == audit:
                verdict = _verdict(path.parent)
                told = str(path.parent.resolve()), str(manifest.started), manifest.fingerprint, _decision(verdict)
                yield *told, _asked(manifest, verdict)
        except (AuditError, OSError, ValueError, TypeError, AttributeError, LookupError):
            continue  # a manifest of something else


def _verdict(run: Path) -> dict[str, Any]:
    try:
        found = json.loads(verdict_path(run).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _decision(verdict: Mapping[str, Any]) -> str:
    try:
        return str(rule(verdict).decision)
    except (AuditError, ValueError, TypeError, AttributeError, LookupError):
        return ""
