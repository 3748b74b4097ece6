"""Check an evidence pack: every byte, who vouches for it, and with its shards the verdict itself. No network.

The same contents give the same bytes of a zip, and what is not so made is refused. Its files are stored: no
compressor's version shows, and nothing can swell. Up to the recomputation a check needs no NumPy and no Arrow.
"""

from __future__ import annotations

import hashlib
import io
import json
import posixpath
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from zipfile import BadZipFile, ZipFile, ZipInfo

from audit.errors import AuditError, ConfigError, DataError, SignatureError
from audit.governance import side_files
from audit.governance.keys import DECISIONS, MAX_BYTES, Keys, subjects_of, unseal
from audit.governance.side_files import NOTE, PROGRAM_CHRONOLOGY, SUMS
from audit.guarded_files import check_regular, parse_json
from audit.shards.files import file_sha256

if TYPE_CHECKING:  # hashes and signatures need no statistics
    from audit.decision import Seal
    from audit.governance.recompute import SectionOf
    from audit.governance.reviews import Decided

_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every entry: the earliest that zip knows
_NAME = re.compile(r"[A-Za-z0-9._-][A-Za-z0-9._ -]*(/[A-Za-z0-9._-][A-Za-z0-9._ -]*)*")
_MAX_ENTRIES = 100_000


def write_archive(target: BinaryIO, files: Mapping[str, bytes | Path]) -> None:
    """A zip of `files`, by name within it. A Path is copied as it is read."""
    with ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            content = files[name]
            info = ZipInfo(name, _EPOCH)
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            info.file_size = len(content) if isinstance(content, bytes) else content.stat().st_size
            source = io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")
            with source, archive.open(info, "w") as entry:
                shutil.copyfileobj(source, entry, 1 << 20)


def open_archive(path: Path) -> ZipFile:
    """A pack for reading. SignatureError for what must not be read: a name that leaves the folder, a name twice,
    entries that overlap or swell. What else `write_archive` does not write: `check_bytes`."""
    try:
        check_regular(path, follow=True)
        archive = ZipFile(path)
    except (OSError, ValueError, NotImplementedError, BadZipFile) as error:
        raise SignatureError(f"{path} is no readable zip ({error}).") from error
    if problem := _not_to_be_read(archive.infolist(), path.stat().st_size):
        archive.close()
        raise SignatureError(f"{path} {problem}.")
    return archive


def _not_to_be_read(entries: Sequence[ZipInfo], size: int) -> str:
    if len(entries) > _MAX_ENTRIES:
        return f"has {len(entries):,} entries; expected at most {_MAX_ENTRIES:,}"
    seen: set[str] = set()
    for name in (entry.filename for entry in entries):
        if not good_name(name):
            return f"has an entry {name[:80]!r}, a name that no pack has"
        if name.casefold() in seen:
            return f"has two entries {name!r}"
        seen.add(name.casefold())
    total = sum(entry.file_size for entry in entries)
    return f"has {size:,} bytes and claims to hold {total:,}" if total > size else ""


def read_entry(archive: ZipFile, name: str, limit: int) -> bytes:
    """One entry. SignatureError where it cannot be read whole, or has more than `limit` bytes."""
    if archive.getinfo(name).file_size > limit:
        raise SignatureError(f"{name} is larger than any that a pack has.")
    with _entry(archive, name) as entry:
        return entry.read()


def good_name(name: str) -> bool:
    """Whether a pack may have an entry of this name: it stays in its folder, and is spelt alike everywhere."""
    return _NAME.fullmatch(name) is not None and not {".", ".."} & set(name.split("/"))


def hash_entry(archive: ZipFile, name: str) -> str:
    """sha256 of one entry. SignatureError where it cannot be read whole."""
    with _entry(archive, name) as entry:
        return hashlib.file_digest(entry, "sha256").hexdigest()


@contextmanager
def _entry(archive: ZipFile, name: str) -> Iterator[Any]:
    try:
        with archive.open(name) as entry:
            yield entry
    except (OSError, ValueError, EOFError, RuntimeError, BadZipFile) as error:
        raise SignatureError(f"{name} cannot be read from the pack ({error}).") from error


def check_bytes(path: Path, archive: ZipFile) -> None:
    """SignatureError unless the zip has, to the byte, the form that `write_archive` gives its contents."""
    with tempfile.TemporaryDirectory() as folder:
        files: dict[str, bytes | Path] = {}
        for number, name in enumerate(archive.namelist()):
            files[name] = copy = Path(folder) / str(number)
            with _entry(archive, name) as source, copy.open("xb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
        again = Path(folder) / "again.zip"
        with again.open("xb") as file:
            write_archive(file, files)
        if file_sha256(again) != file_sha256(path):
            raise SignatureError(f"{path}: its files are as listed, and the zip is not as `audit evidence` wrote it.")


STATEMENT = "statement.dsse.json"
SEAL, DEVIATIONS = "seal.dsse.json", "deviations.json"  # what was planned, and how the run differs
RUN = "run"
SENSITIVITY = "sensitivity.json"
REFERENCES = "references"  # below a run: the runs that its verdict was compared with
VERDICT = f"{RUN}/report/verdict.json"
_MANIFEST = f"{RUN}/manifest.json"
PREDICATE = "urn:benchmark-audit:evidence:v1"
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")
_MAX_SUMS = 32 << 20
_MAX_JSON = 256 << 20


@dataclass(frozen=True)
class PackedRun:
    """What a pack's manifest says of a run, for people to compare with what they expect. home: its folder."""

    audit: str
    fingerprint: str
    status: str
    models: Mapping[str, str | None]
    benchmarks: tuple[str, ...]
    home: str


@dataclass(frozen=True)
class Verified:
    """What held. signer: None where nobody's signature was asked for. recomputed: the verdict was computed again.
    decisions: a sentence each, of people whose signatures were checked; None where they were not. decision: what the
    verdict and these come to: "pass" or another. seals: what was planned. taken: files that could not be derived, and
    are as they were packed. unhashed: tables that no manifest lists."""

    files: int
    signer: str | None
    recomputed: bool
    runs: tuple[PackedRun, ...]
    decisions: tuple[str, ...] | None
    decision: str
    seals: tuple[Seal, ...] = ()
    taken: tuple[str, ...] = ()
    unhashed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pack:
    """An open pack. sums: the sha256 of each file that SUMS lists."""

    path: Path
    archive: ZipFile
    sums: Mapping[str, str]

    def read(self, name: str) -> bytes:
        return read_entry(self.archive, name, MAX_BYTES)

    def json(self, name: str) -> Any:
        try:
            return parse_json(read_entry(self.archive, name, _MAX_JSON), _MAX_JSON)
        except ValueError as error:
            raise self.wrong(f"{name} is no JSON ({error}).") from error

    @property
    def with_shards(self) -> bool:
        return any(re.match(f"{RUN}/([^/]+/)?shards/", name) for name in self.sums)

    def named(self, pattern: str) -> list[str]:
        return sorted(name for name in self.sums if re.fullmatch(pattern, name))

    def wrong(self, what: str) -> SignatureError:
        return SignatureError(f"{self.path}: {what}")


def verify_pack(path: Path, trusted: Keys | None, section_of: SectionOf, now: datetime | None = None) -> Verified:
    """Check a pack.

    Parameters
    ----------
    trusted : whose signature counts; None to check hashes alone
    section_of : as `recomputed` takes it
    now : the time, by which decisions expire; the clock's by default

    Raises
    ------
    SignatureError
        for the first thing that does not hold
    """
    now = now or datetime.now(UTC)
    with open_archive(path) as archive:
        names = set(archive.namelist())
        run = f"{RUN}/panel.json"
        for needed in (SUMS, VERDICT, run if run in names else _MANIFEST):
            if needed not in names:
                raise SignatureError(f"{path} has no {needed}: it is no evidence pack.")
        pack = Pack(path, archive, _listed(read_entry(archive, SUMS, _MAX_SUMS), path))
        sums = pack.sums
        if odd := sorted(names ^ {*sums, SUMS, *({STATEMENT} & names)}):
            raise pack.wrong(f"{odd[0]!r} is {'not listed' if odd[0] in names else 'missing'}.")
        for name in sorted(sums):
            if hash_entry(archive, name) != sums[name]:
                raise pack.wrong(f"{name} is not the file that {SUMS} lists.")
        signer, stated = (None, "") if trusted is None else _signed(pack, trusted)
        check_bytes(path, archive)
        runs, unhashed = _together(pack)
        decided = _decisions(pack, trusted, now)
        seals = _seals(pack, trusted)
        taken = _side_files(pack, runs)
        if pack.with_shards:
            taken = _recompute(pack, section_of, taken)
        decision = stated
        if decided or pack.with_shards or not stated:
            from audit.governance.packed_decisions import weigh  # here: it knows every audit's verdicts, with NumPy

            decision = weigh(pack, decided if trusted is not None else (), trusted, now)
    said = None if trusted is None else tuple(one.sentence(now) for one in decided)
    return Verified(len(sums), signer, pack.with_shards, runs, said, decision, seals, taken, unhashed)


def _decisions(pack: Pack, trusted: Keys | None, now: datetime) -> tuple[Decided, ...]:
    """Return people's decisions on the packed run, panel or suite. SignatureError unless those and the decisions on
    each run of it are in sequence, about what is in the pack, and signed by trusted keys."""
    if not (found := pack.named(f"{RUN}/([^/]+/)?{DECISIONS}/.+")):
        return ()
    from audit.governance.packed_decisions import chain_in  # here: most packs have none

    homes = sorted({name.split(f"/{DECISIONS}/")[0] for name in found})
    chains = {home: chain_in(pack, home, trusted, now) for home in homes}
    return chains.get(RUN, ())


def _seals(pack: Pack, trusted: Keys | None) -> tuple[Seal, ...]:
    """What was planned of each run; SignatureError unless it holds and the pack lists the deviations that there are."""
    found = []
    for name in pack.named(f"{RUN}/([^/]+/)?manifest.json"):
        home, told = name.rpartition("/")[0], pack.json(name)
        place = f"{home}/{SEAL}"
        if place not in pack.sums:
            if told.get("seal"):
                raise SignatureError(f"seal_missing: {pack.path} lacks {place}, which its manifest names.")
            continue
        from audit.governance.sealed import checked  # here: it compares manifests, which need Arrow
        from audit.json_types import plain
        from audit.shards.manifest import Manifest

        seal = checked(pack.read(place), Manifest.of(told), trusted, f"{pack.path}: {place}", inside=True)
        copy = DEVIATIONS if home == RUN else f"{home}/{DEVIATIONS}"
        if copy not in pack.sums or pack.json(copy) != plain(seal.changed):
            raise SignatureError(f"seal_edited: {pack.path}: {copy} is not how the run differs from its seal.")
        found.append(seal)
    return tuple(found)


def _together(pack: Pack) -> tuple[tuple[PackedRun, ...], tuple[str, ...]]:
    """Return the runs of a pack, and its tables that no manifest lists. SignatureError if a run is not finished, or if
    shards, tables or copies are not those of the run's own manifest."""
    found, unhashed = [], []
    for name in pack.named(f"{RUN}/(.+/)?manifest.json"):
        home = name.removesuffix("/manifest.json")
        shards = f"{home}/shards/"
        try:
            told = pack.json(name)
            listed = {Path(one["file"]).name: one["sha256"] for one in told["shards"]}
            held = {one.removeprefix(shards): pack.sums[one] for one in pack.sums if one.startswith(shards)}
            if held and held != listed:
                odd = min(one for one in {*held, *listed} if held.get(one) != listed.get(one))
                raise pack.wrong(f"{shards}{odd} is not the shard that {name} lists.")
            tables = {Path(one).name: pack.sums[one] for one in pack.named(f"{home}/[^/]+[.]arrow")}
            hashes = told.get("tables", {})
            if odd_tables := [one for one in tables if hashes.get(one, tables[one]) != tables[one]]:
                raise pack.wrong(f"{home}/{odd_tables[0]} is not the table that {name} lists.")
            unhashed += [f"{home}/{one}" for one in tables if one not in hashes]
            if f"/{REFERENCES}/" not in name:
                _check_copies(pack, "" if home == RUN else f"{home}/", told, tables)
                if told["status"] != "finished":
                    raise pack.wrong(f"{name} is of a run that is {told['status']!r}, not finished.")
                models = {model: facts.get("revision") for model, facts in told["models"].items()}
                benchmarks = tuple(told["benchmark"])
                found.append(PackedRun(told["audit"], told["fingerprint"], told["status"], models, benchmarks, home))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise pack.wrong(f"{name} is no manifest ({type(error).__name__}).") from error
    return tuple(found), tuple(unhashed)


def _check_copies(pack: Pack, home: str, told: Mapping[str, Any], tables: Mapping[str, str]) -> None:
    names = ("config.json", "prompts.json", "environment.json", "shards.json")
    copies = {name: pack.json(f"{home}{name}") for name in names if f"{home}{name}" in pack.sums}
    for odd in side_files.wrong_copies(told, copies, tables):
        raise pack.wrong(f"{home}{odd} is not what the manifest says.")


def _side_files(pack: Pack, runs: Sequence[PackedRun]) -> tuple[str, ...]:
    """Return the names of the files beside the manifests that could not be derived here. SignatureError for one that
    could, and is another."""
    taken = pack.named(f"{RUN}/(.+/)?report/report[.]html")
    for name in pack.named(f"{RUN}/(.+/)?({'|'.join(map(re.escape, side_files.CHRONOLOGIES))})"):
        try:
            side_files.check_chronology(pack.read(name), name)
        except DataError as error:
            raise pack.wrong(str(error)) from error
        taken.append(name)
    derived: dict[str, Callable[[], bool | None]] = {}
    ours = []
    for run in runs:
        at = "" if run.home == RUN else f"{run.home}/"
        by = f"{at}environment.json"
        ours.append(by in pack.sums and pack.json(by).get("program_sha256") == side_files.program_sha256())
        own = f"{run.home}/{SENSITIVITY}"
        tables = (f"calibration_{run.audit}.json", "calibration.json")
        derived |= {
            f"{at}calibration.json": partial(_shipped, pack, f"{at}calibration.json", *tables),
            f"{at}{SENSITIVITY}": partial(_sensitivity, pack, f"{at}{SENSITIVITY}", own),
            f"{at}{PROGRAM_CHRONOLOGY}": partial(_continues, pack, f"{at}{PROGRAM_CHRONOLOGY}"),
        }
        taken += [f"{at}libraries.json"] if f"{at}libraries.json" in pack.sums else []
    about = [(run.audit, run.fingerprint) for run in runs]
    signed = STATEMENT in pack.archive.namelist()
    derived[NOTE] = lambda: pack.read(NOTE) == side_files.note_text(about, pack.with_shards, signed)
    for name in sorted(derived.keys() & pack.sums.keys()):
        same = derived[name]() if all(ours) else None
        if same is None:
            taken.append(name)
        elif not same:
            raise pack.wrong(f"{name} is not what this program, which made the pack, writes for these runs.")
    return tuple(taken)


def _shipped(pack: Pack, name: str, *tables: str) -> bool:
    return side_files.is_shipped(pack.json(name), *tables)


def _sensitivity(pack: Pack, name: str, own: str) -> bool | None:
    """Return whether it is the run's own or the one that ships; None if the run's own may not have been packed."""
    if own in pack.sums:
        return bool(pack.json(name) == pack.json(own))
    return side_files.is_shipped(pack.json(name), SENSITIVITY) or (False if pack.with_shards else None)


def _continues(pack: Pack, name: str) -> bool:
    return side_files.same_program_chronology(pack.read(name))


def _listed(data: bytes, path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None or match[2] in found:
            raise SignatureError(f"{path}: {SUMS} has a line that is not '<sha256>  <name>': {line[:80]!r}.")
        found[match[2]] = match[1]
    return found


def _signed(pack: Pack, trusted: Keys) -> tuple[str, str]:
    """Return who signed the pack, and the decision of the verdict as signed."""
    if STATEMENT not in pack.archive.namelist():
        raise SignatureError(f"{pack.path} is not signed. To check its hashes alone: --unsigned")
    stated, signer = unseal(pack.read(STATEMENT), trusted, PREDICATE, f"{pack.path}: {STATEMENT}")
    if subjects_of(stated) != {SUMS: hash_entry(pack.archive, SUMS), VERDICT: pack.sums[VERDICT]}:
        raise pack.wrong(f"what {signer} signed is another {SUMS} or another verdict.")
    return signer, str(stated["predicate"].get("decision", ""))


def _recompute(pack: Pack, section_of: SectionOf, taken: Sequence[str]) -> tuple[str, ...]:
    """Compute every verdict once more from the pack's own shards. SignatureError unless each has the same bytes, and
    libraries.json is of the tables. Return those of `taken` that are taken still."""
    from audit.governance.pack import headers_of
    from audit.governance.recompute import recomputed  # here: hashes and signatures need no statistics
    from audit.panel import panel_runs, write_panel
    from audit.verdict.result import json_text

    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / RUN
        path, archive = pack.path, pack.archive
        try:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith(f"{RUN}/")])
            for name in [name for name in taken if name.endswith("libraries.json")]:
                if pack.json(name) != headers_of(Path(folder) / (posixpath.dirname(name) or RUN)):
                    raise SignatureError(f"{name} is not what the tables in the pack say.")
            named = panel_runs(run_dir)
            runs = [run_dir / run.name for run in named or ()]  # wherever they lay, in the pack they lie below it
            for run in runs or [run_dir]:
                _point_inside(run)
            if runs:
                write_panel(run_dir, runs)
            found = recomputed(run_dir, section_of, alone=True)
        except (AuditError, OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise SignatureError(f"{path}: the verdict could not be computed again: {error}") from error
        same = [packed.is_file() and packed.read_bytes() == json_text(again.plain).encode() for packed, again in found]
        if not all(same):
            odd = [place.relative_to(folder).as_posix() for (place, _), one in zip(found, same, strict=True) if not one]
            raise SignatureError(
                f"{path}: computed again from its shards, the verdict is another one ({', '.join(odd)}). It is not of "
                "them, or was judged with options of its own, or by another version (see environment.json)."
            )
    return tuple(name for name in taken if not name.endswith("libraries.json"))


def _point_inside(run_dir: Path) -> None:
    """Have the extracted manifest name the reference runs that are in the pack, and nothing outside it."""
    path = run_dir / "manifest.json"
    told = parse_json(path.read_bytes())
    named = told.get("analysis", {}).get("references")
    if named:
        inside = [run_dir / REFERENCES / Path(one).name for one in named]
        if absent := [one.name for one in inside if not (one / "manifest.json").is_file()]:
            raise ConfigError(f"the pack lacks the reference run {absent[0]}.")
        told["analysis"]["references"] = [str(one) for one in inside]
        path.write_text(json.dumps(told), encoding="utf-8")
