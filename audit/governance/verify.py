"""Check every byte and the signature of an evidence pack.

If the pack contains the shards, the verdict is recomputed from the shards too.

The check uses no network. NumPy and Arrow are loaded only for the recomputation.
"""

from __future__ import annotations

import json
import posixpath
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from audit.config.audits import AUDITS
from audit.core.errors import AuditError, ConfigError, DataError, SignatureError
from audit.core.guarded_files import parse_json
from audit.governance import side_files
from audit.governance.archive import (
    DEVIATIONS,
    PREDICATE,
    REFERENCES,
    RUN,
    SEAL,
    SENSITIVITY,
    STATEMENT,
    SUITES,
    VERDICT,
    Pack,
    check_bytes,
    hash_entry,
    open_archive,
    read_entry,
)
from audit.governance.keys import DECISIONS, Keys, subjects_of, unseal
from audit.governance.side_files import (
    CHRONOLOGIES,
    LISTED,
    NOTE,
    PROGRAM_CHRONOLOGY,
    SUMS,
    revisions_of,
)

if TYPE_CHECKING:  # Imported late, since checking hashes and signatures needs no statistics.
    from audit.governance.recompute import SectionOf
    from audit.governance.reviews import Decided
    from audit.judging.decision import Seal

_MANIFEST_FILE, _PANEL = "manifest.json", "panel.json"
_MANIFEST = f"{RUN}/{_MANIFEST_FILE}"
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")
_MAX_SUMS = 32 << 20
LIBRARIES = "libraries.json"
_COPIES = ("config.json", "prompts.json", "environment.json", LISTED)
_EXPLAINED = (LIBRARIES, "calibration.json", SENSITIVITY, PROGRAM_CHRONOLOGY, DEVIATIONS)
# If a run has these files, its pack contains them, even if the pack has no shards.
_ALWAYS = (*SUITES, _PANEL, SEAL, *CHRONOLOGIES)


@dataclass(frozen=True)
class PackedRun:
    """Hold the facts that a pack's manifest states about a run.

    People compare these facts with the run that they expect. `home` is the run's folder in the
    pack.
    """

    audit: str
    fingerprint: str
    status: str
    models: Mapping[str, str | None]
    benchmarks: tuple[str, ...]
    home: str


@dataclass(frozen=True)
class Verified:
    """Hold the facts that the check of a pack confirmed.

    Parameters
    ----------
    files : int
        Number of files in the pack.
    signer : str or None
        The name of the signer of the pack; None if no signature was checked.
    recomputed : bool
        Whether the verdict was recomputed from the shards.
    runs : tuple of PackedRun
        Facts about each run in the pack.
    decisions : tuple of str or None
        A sentence for each decision that a person made; None if signatures were not checked.
    decision : str
        The decision that follows from the verdict and people's decisions, such as "pass".
    seals : tuple of Seal
        The sealed plans of the runs.
    taken : tuple of str
        Names of the files that were accepted without a check of their content, because they cannot
        be derived from other files.
    unhashed : tuple of str
        Names of the tables that no manifest lists.
    reworded : tuple of str
        Names of the verdicts that agree with the recomputed verdict in all codes and numbers, but
        not in their sentences or last digits.
    """

    files: int
    signer: str | None
    recomputed: bool
    runs: tuple[PackedRun, ...]
    decisions: tuple[str, ...] | None
    decision: str
    seals: tuple[Seal, ...] = ()
    taken: tuple[str, ...] = ()
    unhashed: tuple[str, ...] = ()
    reworded: tuple[str, ...] = ()


def verify_pack(
    path: Path, trusted: Keys | None, section_of: SectionOf, now: datetime | None = None
) -> Verified:
    """Check a pack.

    Parameters
    ----------
    path : Path
        Path of the pack, which is a zip.
    trusted : Keys or None
        The keys whose signature counts. None checks only the hashes.
    section_of : callable
        A function for the suite's section of verdict.json; see `SectionOf`.
    now : datetime or None
        The current time, which shows whether a decision has expired. None reads the clock.

    Returns
    -------
    Verified
        The confirmed facts.

    Raises
    ------
    SignatureError
        If any check fails. The message names the first check that failed.
    """
    now = now or datetime.now(UTC)
    with open_archive(path) as archive:
        pack = _with_sums(path, archive)
        _check_sums(pack)
        signer, stated = (None, "") if trusted is None else _signed(pack, trusted)
        check_bytes(path, archive)
        runs, unhashed = _together(pack)
        decided = _decisions(pack, trusted, now)
        seals = _seals(pack, trusted)
        unchecked = _side_files(pack, runs)
        reworded: tuple[str, ...] = ()
        if pack.with_shards:
            unchecked, reworded = _recompute(pack, section_of, unchecked)
        decision = stated
        if decided or pack.with_shards or not stated:
            # This module is imported late, because it loads every audit's verdicts, and with them
            # NumPy.
            from audit.governance.packed_decisions import weigh

            decision = weigh(pack, decided if trusted is not None else (), trusted, now)
    sentences = None if trusted is None else tuple(d.sentence(now) for d in decided)
    return Verified(
        len(pack.sums),
        signer,
        pack.with_shards,
        runs,
        sentences,
        decision,
        seals,
        unchecked,
        unhashed,
        reworded,
    )


def _with_sums(path: Path, archive: ZipFile) -> Pack:
    """Return the pack together with the hashes in its SHA256SUMS.

    Raises SignatureError if the file is not an evidence pack.
    """
    names = set(archive.namelist())
    run = f"{RUN}/{_PANEL}"
    for needed in (SUMS, VERDICT, run if run in names else _MANIFEST):
        if needed not in names:
            raise SignatureError(f"{path} has no {needed}, so it is not an evidence pack.")
    return Pack(path, archive, _listed(read_entry(archive, SUMS, _MAX_SUMS), path))


def _check_sums(pack: Pack) -> None:
    """Raise SignatureError unless the pack contains exactly the files in SHA256SUMS, with their
    hashes.
    """
    names = set(pack.archive.namelist())
    if unpaired := sorted(names ^ {*pack.sums, SUMS, *({STATEMENT} & names)}):
        raise pack.wrong(
            f"{unpaired[0]!r} is {'not listed' if unpaired[0] in names else 'missing'}."
        )
    for name in sorted(pack.sums):
        if hash_entry(pack.archive, name) != pack.sums[name]:
            raise pack.wrong(f"{name} is not the file that {SUMS} lists.")


def _decisions(pack: Pack, trusted: Keys | None, now: datetime) -> tuple[Decided, ...]:
    """Return people's decisions on the packed run, panel or suite.

    The decisions on each single run are checked too. Raises SignatureError unless all decisions are
    numbered without gaps, cover the pack's content, and are signed by trusted keys.
    """
    names = pack.named(f"{RUN}/([^/]+/)?{DECISIONS}/.+")
    if not names:
        return ()
    # This module is imported late, since most packs have no decisions.
    from audit.governance.packed_decisions import (
        chain_in,
    )

    homes = sorted({name.split(f"/{DECISIONS}/")[0] for name in names})
    chains = {home: chain_in(pack, home, trusted, now) for home in homes}
    return chains.get(RUN, ())


def _seals(pack: Pack, trusted: Keys | None) -> tuple[Seal, ...]:
    """Return the sealed plan of each run.

    Raises SignatureError if a seal is invalid. The error is also raised if the pack's list of
    deviations is not the list of differences between the run and its seal.
    """
    seals = []
    for name in pack.named(f"{RUN}/([^/]+/)?manifest.json"):
        home, manifest = name.rpartition("/")[0], pack.json(name)
        place = f"{home}/{SEAL}"
        if place not in pack.sums:
            if manifest.get("seal"):
                raise SignatureError(
                    f"seal_missing: {pack.path} lacks {place}, which its manifest names."
                )
            continue
        from audit.core.json_types import plain

        # This module is imported late, since it compares manifests, which load Arrow.
        from audit.governance.sealed import checked
        from audit.shards.manifest import Manifest

        seal = checked(
            pack.read(place), Manifest.of(manifest), trusted, f"{pack.path}: {place}", inside=True
        )
        copy = DEVIATIONS if home == RUN else f"{home}/{DEVIATIONS}"
        if copy not in pack.sums or pack.json(copy) != plain(seal.changed):
            raise SignatureError(
                f"seal_edited: {pack.path}: {copy} is not the difference between run and seal."
            )
        seals.append(seal)
    return tuple(seals)


def _together(pack: Pack) -> tuple[tuple[PackedRun, ...], tuple[str, ...]]:
    """Return the runs of a pack, and the names of the pack's tables that no manifest lists.

    Raises SignatureError if a run is not finished, or if shards, tables or copies differ from what
    the run's manifest states.
    """
    runs, unhashed = [], []
    if f"{RUN}/{_PANEL}" in pack.sums:
        _check_listed(pack, RUN)
    for name in pack.named(f"{RUN}/(.+/)?manifest.json"):
        home = name.removesuffix("/manifest.json")
        shards = f"{home}/shards/"
        try:
            manifest = pack.json(name)
            _check_shards(pack, shards, manifest, name)
            tables = {}
            for path in pack.named(f"{home}/[^/]+[.]arrow"):
                tables[Path(path).name] = pack.sums[path]
            hashes = manifest.get("tables", {})
            changed = []
            for table in tables:
                if hashes.get(table, tables[table]) != tables[table]:
                    changed.append(table)
            if changed:
                raise pack.wrong(f"{home}/{changed[0]} is not the table that {name} lists.")
            if pack.with_shards and (absent := sorted(set(hashes) - set(tables))):
                raise pack.wrong(f"{home}/{absent[0]}, which {name} lists, is missing.")
            for table in tables:
                if table not in hashes:
                    unhashed.append(f"{home}/{table}")
            if f"/{REFERENCES}/" not in name:
                _check_listed(pack, home)
                _check_copies(pack, "" if home == RUN else f"{home}/", manifest, tables)
                runs.append(_finished_run(pack, name, manifest, home))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise pack.wrong(f"{name} is not a manifest ({type(error).__name__}).") from error
    return tuple(runs), tuple(unhashed)


def _check_shards(pack: Pack, shards: str, manifest: Mapping[str, Any], name: str) -> None:
    """Raise SignatureError unless a run's shards in the pack are the shards that its manifest
    lists.
    """
    listed = {Path(shard["file"]).name: shard["sha256"] for shard in manifest["shards"]}
    packed = {}
    for path in pack.sums:
        if path.startswith(shards):
            packed[path.removeprefix(shards)] = pack.sums[path]
    if packed and packed != listed:
        differing = []
        for file in {*packed, *listed}:
            if packed.get(file) != listed.get(file):
                differing.append(file)
        wrong = min(differing)
        raise pack.wrong(f"{shards}{wrong} is not the shard that {name} lists.")


def _finished_run(pack: Pack, name: str, manifest: Mapping[str, Any], home: str) -> PackedRun:
    status = manifest["status"]
    if status != "finished":
        raise pack.wrong(f"The status of the run in {name} is {status!r}. Expected finished.")
    models = revisions_of(manifest["models"])
    benchmarks = tuple(manifest["benchmark"])
    return PackedRun(manifest["audit"], manifest["fingerprint"], status, models, benchmarks, home)


def _check_listed(pack: Pack, home: str) -> None:
    """Raise SignatureError unless a folder of the pack contains the files of the run, panel or
    suite.

    A pack without shards contains neither shards nor tables. Of the run's other files, it contains
    the report, the decisions and the plans.
    """
    copy = LISTED if home == RUN else f"{home}/{LISTED}"
    if copy not in pack.sums:
        raise pack.wrong(f"{copy} is missing.")
    # In the pack of a panel, the copies for readers are in the folder of the run. There they
    # replace the run's own files with the same names.
    copies = (_MANIFEST_FILE,) if home == RUN else (_MANIFEST_FILE, *_COPIES, *_EXPLAINED)
    try:
        listed = {row["file"]: row["sha256"] for row in pack.json(copy)}
    except (KeyError, TypeError, AttributeError) as error:
        raise pack.wrong(f"{copy} is not a list of files ({error!r}).") from error
    for file, sha256 in sorted(listed.items()):
        always = file in _ALWAYS or file.startswith((f"{DECISIONS}/", "report/"))
        packed = (pack.with_shards or always) and file not in copies
        if packed and pack.sums.get(f"{home}/{file}") != sha256:
            raise pack.wrong(f"{home}/{file} is not the file that {copy} lists, or is missing.")
    for name in pack.named(f"{home}/(({DECISIONS}|report(/[^/]+)?)/)?[^/]+"):
        if name.removeprefix(f"{home}/") not in (*listed, *copies):
            raise pack.wrong(f"{name} is not listed in {copy}.")


def _check_copies(
    pack: Pack, home: str, manifest: Mapping[str, Any], tables: Mapping[str, str]
) -> None:
    copies = {}
    for name in _COPIES:
        if f"{home}{name}" not in pack.sums:
            raise pack.wrong(f"{home}{name} is missing.")
        copies[name] = pack.json(f"{home}{name}")
    for name in side_files.wrong_copies(manifest, copies, tables):
        raise pack.wrong(f"{home}{name} is not what the manifest says.")


def _side_files(pack: Pack, runs: Sequence[PackedRun]) -> tuple[str, ...]:
    """Return the names of the side files that cannot be derived by this program.

    Side files repeat or explain other files of the pack.

    Raises SignatureError if a side file can be derived and differs from the derived file.
    """
    unchecked = pack.named(f"{RUN}/(.+/)?report/report[.]html")
    for name in pack.named(f"{RUN}/(.+/)?({'|'.join(map(re.escape, side_files.CHRONOLOGIES))})"):
        try:
            side_files.check_chronology(pack.read(name), name)
        except DataError as error:
            raise pack.wrong(str(error)) from error
        unchecked.append(name)
    derived: dict[str, Callable[[], bool | None]] = {}
    optional = set()  # error rates exist only for the audits of this program
    same_program = []
    for run in runs:
        at = "" if run.home == RUN else f"{run.home}/"
        program = pack.json(f"{at}environment.json").get("program_sha256")
        same_program.append(program == side_files.program_sha256())
        of_run = f"{run.home}/{SENSITIVITY}"
        tables = (f"calibration_{run.audit}.json", "calibration.json")
        derived |= {
            f"{at}calibration.json": partial(_shipped, pack, f"{at}calibration.json", *tables),
            f"{at}{SENSITIVITY}": partial(
                _sensitivity, pack, f"{at}{SENSITIVITY}", of_run, f"{at}{LISTED}"
            ),
            f"{at}{PROGRAM_CHRONOLOGY}": partial(_continues, pack, f"{at}{PROGRAM_CHRONOLOGY}"),
        }
        derived[f"{at}{LIBRARIES}"] = lambda: None  # compared later, if the tables are in the pack
        if run.audit not in AUDITS:
            optional.add(f"{at}calibration.json")
    about = [(run.audit, run.fingerprint) for run in runs]
    signed = STATEMENT in pack.archive.namelist()
    derived[NOTE] = lambda: pack.read(NOTE) == side_files.note_text(about, pack.with_shards, signed)
    for name in sorted(derived):
        if name not in pack.sums:
            if name not in optional:
                raise pack.wrong(f"{name}, which this program writes into every pack, is missing.")
            continue
        same = derived[name]() if all(same_program) else None
        if same is None:
            unchecked.append(name)
        elif not same:
            raise pack.wrong(
                f"{name} is not what this program, which made the pack, writes for these runs."
            )
    return tuple(unchecked)


def _shipped(pack: Pack, name: str, *tables: str) -> bool:
    return side_files.is_shipped(pack.json(name), *tables)


def _sensitivity(pack: Pack, name: str, of_run: str, listed: str) -> bool | None:
    """Return whether a sensitivity file equals the run's own file, or the file that the program
    ships.

    Return None if the run had its own file, but the pack lacks this file.
    """
    if of_run != name and of_run in pack.sums:
        return bool(pack.json(name) == pack.json(of_run))
    if side_files.is_shipped(pack.json(name), SENSITIVITY):
        return True
    return None if any(row["file"] == SENSITIVITY for row in pack.json(listed)) else False


def _continues(pack: Pack, name: str) -> bool:
    return side_files.same_program_chronology(pack.read(name))


def _listed(data: bytes, path: Path) -> dict[str, str]:
    sums: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None or match[2] in sums:
            raise SignatureError(
                f"{path}: {SUMS} has a line that is not '<sha256>  <name>': {line[:80]!r}."
            )
        sums[match[2]] = match[1]
    return sums


def _signed(pack: Pack, trusted: Keys) -> tuple[str, str]:
    """Return the name of the pack's signer, and the verdict's decision in the signed statement."""
    if STATEMENT not in pack.archive.namelist():
        raise SignatureError(f"{pack.path} is not signed. To check only the hashes: --unsigned")
    stated, signer = unseal(pack.read(STATEMENT), trusted, PREDICATE, f"{pack.path}: {STATEMENT}")
    if subjects_of(stated) != {SUMS: hash_entry(pack.archive, SUMS), VERDICT: pack.sums[VERDICT]}:
        raise pack.wrong(f"{signer} signed another {SUMS} or another verdict.")
    return signer, str(stated["predicate"].get("decision", ""))


def _recompute(
    pack: Pack, section_of: SectionOf, unchecked: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Recompute every verdict from the pack's own shards.

    Return the names in `unchecked` of the files that are still unchecked afterwards, and the names
    of the verdicts that differ from the recomputed verdict in sentences or last digits.

    Raises SignatureError if a recomputed verdict differs from the stored verdict in a code or
    number, or if libraries.json does not describe the tables.
    """
    # Imported late, since checking hashes and signatures needs no statistics.
    from audit.governance.recompute import difference, recomputed
    from audit.judging.decision import read_document, rule
    from audit.judging.result import json_text

    path, libraries = pack.path, [name for name in unchecked if name.endswith(LIBRARIES)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            names = [name for name in pack.archive.namelist() if name.startswith(f"{RUN}/")]
            pack.archive.extractall(folder, names)
            _check_libraries(pack, libraries, Path(folder))
            _point_all_inside(Path(folder) / RUN)
            verdicts = recomputed(Path(folder) / RUN, section_of, alone=True)
            changed, reworded = [], []
            for packed, computed in verdicts:
                name = packed.relative_to(folder).as_posix()
                stored = read_document(packed)
                if deviation := difference(stored.plain, computed.plain):
                    changed.append(f"{name}: {deviation}")
                # A field that is compared nowhere else, such as a threshold, may decide.
                elif rule(stored).decisions != rule(computed).decisions:
                    changed.append(f"{name}: other decisions follow from it")
                elif packed.read_bytes() != json_text(computed.plain).encode():
                    reworded.append(name)
        except (
            AuditError,
            OSError,
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            RecursionError,
        ) as error:
            raise SignatureError(
                f"{path}: the verdict could not be computed again: {error}"
            ) from error
        if changed:
            raise SignatureError(
                f"{path}: the stored verdict differs from the one computed from its shards "
                f"({'; '.join(changed)}). The stored verdict was not made from these shards, or was "
                "made with other options or by another version (see environment.json)."
            )
    return tuple(name for name in unchecked if name not in libraries), tuple(reworded)


def _point_all_inside(run_dir: Path) -> None:
    """Rewrite the paths in the extracted run, or in the panel and its runs.

    Afterwards the paths name only files of the pack.
    """
    from audit.shards.panel import panel_runs, write_panel

    # in the pack, a panel's runs are always below the panel's folder
    runs = [run_dir / run.name for run in panel_runs(run_dir) or ()]
    for run in runs or [run_dir]:
        _point_inside(run)
    if runs:
        write_panel(run_dir, runs)


def _check_libraries(pack: Pack, names: Sequence[str], folder: Path) -> None:
    """Raise SignatureError unless each libraries.json describes the extracted tables."""
    from audit.governance.pack import headers_of

    for name in names:
        if pack.json(name) != headers_of(folder / (posixpath.dirname(name) or RUN)):
            raise SignatureError(f"{name} does not describe the tables in the pack.")


def _point_inside(run_dir: Path) -> None:
    """Rewrite the paths of the reference runs in the extracted manifest.

    Afterwards the paths name only runs in the pack.
    """
    path = run_dir / "manifest.json"
    manifest = parse_json(path.read_bytes())
    named = manifest.get("analysis", {}).get("references")
    if named:
        inside = [run_dir / REFERENCES / Path(reference).name for reference in named]
        absent = []
        for run in inside:
            if not (run / "manifest.json").is_file():
                absent.append(run.name)
        if absent:
            raise ConfigError(f"the pack lacks the reference run {absent[0]}.")
        manifest["analysis"]["references"] = list(map(str, inside))
        path.write_text(json.dumps(manifest), encoding="utf-8")
