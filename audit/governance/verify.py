"""Check an evidence pack: every byte, who vouches for it, and with its shards the verdict itself. No network.

The same contents give the same bytes of a zip, and what is not so made is refused. Its files are stored: no
compressor's version shows, and nothing can swell. Up to the recomputation a check needs no NumPy and no Arrow.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from zipfile import BadZipFile, ZipFile, ZipInfo

from audit.errors import AuditError, ConfigError, SignatureError
from audit.governance.keys import DECISION, DECISIONS, MAX_BYTES, Keys, subjects_of, unseal
from audit.guarded_files import check_regular
from audit.shards.files import file_sha256

if TYPE_CHECKING:  # hashes and signatures need no statistics
    from audit.decision import Seal
    from audit.governance.recompute import SectionOf

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


SUMS = "SHA256SUMS"
STATEMENT = "statement.dsse.json"
NOTE = "VERIFY.md"
SEAL, DEVIATIONS = "seal.dsse.json", "deviations.json"  # what was planned, and how the run differs
RUN = "run"
REFERENCES = "references"  # below a run: the runs that its verdict was compared with
VERDICT = f"{RUN}/report/verdict.json"
_MANIFEST = f"{RUN}/manifest.json"
PREDICATE = "urn:benchmark-audit:evidence:v1"
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")
_MAX_SUMS = 32 << 20
_MAX_JSON = 256 << 20


@dataclass(frozen=True)
class PackedRun:
    """What a pack's manifest says of a run, for people to compare with what they expect."""

    audit: str
    fingerprint: str
    status: str
    models: Mapping[str, str | None]
    benchmarks: tuple[str, ...]


@dataclass(frozen=True)
class Verified:
    """What held. signer: None where nobody's signature was asked for. recomputed: the verdict was computed again.
    decisions: those of people whose signatures were checked; None where they were not. seals: what was planned."""

    files: int
    signer: str | None
    recomputed: bool
    runs: tuple[PackedRun, ...]
    decisions: int | None
    seals: tuple[Seal, ...] = ()


@dataclass(frozen=True)
class _Pack:
    """An open pack. sums: the sha256 of each file that SUMS lists."""

    path: Path
    archive: ZipFile
    sums: Mapping[str, str]

    def read(self, name: str) -> bytes:
        return read_entry(self.archive, name, MAX_BYTES)

    def json(self, name: str) -> Any:
        return json.loads(read_entry(self.archive, name, _MAX_JSON))

    def named(self, pattern: str) -> list[str]:
        return sorted(name for name in self.sums if re.fullmatch(pattern, name))

    def wrong(self, what: str) -> SignatureError:
        return SignatureError(f"{self.path}: {what}")


def verify_pack(path: Path, trusted: Keys | None, section_of: SectionOf) -> Verified:
    """Check a pack. trusted: whose signature counts; None to check hashes alone. section_of: as `recomputed` takes it.
    Raises SignatureError for the first thing that does not hold."""
    with open_archive(path) as archive:
        names = set(archive.namelist())
        run = f"{RUN}/panel.json"
        for needed in (SUMS, VERDICT, run if run in names else _MANIFEST):
            if needed not in names:
                raise SignatureError(f"{path} has no {needed}: it is no evidence pack.")
        pack = _Pack(path, archive, _listed(read_entry(archive, SUMS, _MAX_SUMS), path))
        sums = pack.sums
        if odd := sorted(names ^ {*sums, SUMS, *({STATEMENT} & names)}):
            raise pack.wrong(f"{odd[0]!r} is {'not listed' if odd[0] in names else 'missing'}.")
        for name in sorted(sums):
            if hash_entry(archive, name) != sums[name]:
                raise pack.wrong(f"{name} is not the file that {SUMS} lists.")
        signer = decisions = None
        if trusted is not None:
            signer = _signed(pack, trusted)
            decisions = _decisions(pack, trusted)
        check_bytes(path, archive)
        runs = _together(pack)
        seals = _seals(pack, trusted)
        recomputed = any(re.match(f"{RUN}/([^/]+/)?shards/", name) for name in names)
        if recomputed:
            _recompute(path, archive, section_of)
    return Verified(len(sums), signer, recomputed, runs, decisions, seals)


def _decisions(pack: _Pack, trusted: Keys) -> int:
    """How many people's decisions there are; SignatureError unless each is signed by a trusted key, over this run."""
    found, sums = pack.named(f"{RUN}/([^/]+/)?{DECISIONS}/[^/]+"), pack.sums
    for name in found:
        stated, signer = unseal(pack.read(name), trusted, DECISION, f"{pack.path}: {name}")
        home = name.split(f"/{DECISIONS}/")[0]
        for file, hashed in subjects_of(stated).items():
            here = sums.get(f"{home}/report/{file}", sums.get(f"{home}/{file}", hashed))  # tables may not be packed
            if here != hashed:
                raise pack.wrong(f"{name} was decided by {signer} over another {file}.")
    return len(found)


def _seals(pack: _Pack, trusted: Keys | None) -> tuple[Seal, ...]:
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


def _together(pack: _Pack) -> tuple[PackedRun, ...]:
    """The runs of a pack; SignatureError where shards or copies are not those of the run's own manifest."""
    found = []
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
            if f"/{REFERENCES}/" not in name:
                _copies(pack, "" if home == RUN else f"{home}/", told, listed)
                models = {model: facts.get("revision") for model, facts in told["models"].items()}
                benchmarks = tuple(told["benchmark"])
                found.append(PackedRun(told["audit"], told["fingerprint"], told["status"], models, benchmarks))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise pack.wrong(f"{name} is no manifest ({type(error).__name__}).") from error
    return tuple(found)


def _copies(pack: _Pack, home: str, told: Mapping[str, Any], listed: Mapping[str, str]) -> None:
    """SignatureError where a file that repeats the manifest for readers says something else."""
    for name in pack.sums.keys() & {f"{home}config.json", f"{home}environment.json", f"{home}shards.json"}:
        copy, of = pack.json(name), name.removeprefix(home)
        if of == "config.json":
            same = copy == told["config"]
        elif of == "environment.json":
            same = all(copy.get(key) == told.get(key) for key in ("audit", "packages", "platform", "python"))
        else:
            rows = [one for one in copy if one["file"].startswith("shards/")]
            same = {Path(one["file"]).name: one["sha256"] for one in rows} == listed
        if not same:
            raise pack.wrong(f"{name} is not what the manifest {'lists' if of == 'shards.json' else 'says'}.")


def _listed(data: bytes, path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None or match[2] in found:
            raise SignatureError(f"{path}: {SUMS} has a line that is not '<sha256>  <name>': {line[:80]!r}.")
        found[match[2]] = match[1]
    return found


def _signed(pack: _Pack, trusted: Keys) -> str:
    if STATEMENT not in pack.archive.namelist():
        raise SignatureError(f"{pack.path} is not signed. To check its hashes alone: --unsigned")
    stated, signer = unseal(pack.read(STATEMENT), trusted, PREDICATE, f"{pack.path}: {STATEMENT}")
    if subjects_of(stated) != {SUMS: hash_entry(pack.archive, SUMS), VERDICT: pack.sums[VERDICT]}:
        raise pack.wrong(f"what {signer} signed is another {SUMS} or another verdict.")
    return signer


def _recompute(path: Path, archive: ZipFile, section_of: SectionOf) -> None:
    """Every verdict once more, from the pack's own shards; SignatureError unless each has the same bytes."""
    from audit.governance.recompute import recomputed  # here: hashes and signatures need no statistics
    from audit.panel import panel_runs, write_panel
    from audit.verdict.result import json_text

    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / RUN
        try:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith(f"{RUN}/")])
            named = panel_runs(run_dir)
            runs = [run_dir / run.name for run in named or ()]  # wherever they lay, in the pack they lie below it
            for run in runs or [run_dir]:
                _point_inside(run)
            if runs:
                write_panel(run_dir, runs)
            found = recomputed(run_dir, section_of, alone=True)
        except (AuditError, OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise SignatureError(f"{path}: the verdict could not be computed again: {error}") from error
        same = [packed.is_file() and packed.read_bytes() == json_text(again).encode() for packed, again in found]
        if not all(same):
            odd = [place.relative_to(folder).as_posix() for (place, _), one in zip(found, same, strict=True) if not one]
            raise SignatureError(
                f"{path}: computed again from its shards, the verdict is another one ({', '.join(odd)}). It is not of "
                "them, or was judged with options of its own, or by another version (see environment.json)."
            )


def _point_inside(run_dir: Path) -> None:
    """Have the extracted manifest name the reference runs that are in the pack, and nothing outside it."""
    path = run_dir / "manifest.json"
    told = json.loads(path.read_bytes())
    named = told.get("analysis", {}).get("references")
    if named:
        inside = [run_dir / REFERENCES / Path(one).name for one in named]
        if absent := [one.name for one in inside if not (one / "manifest.json").is_file()]:
            raise ConfigError(f"the pack lacks the reference run {absent[0]}.")
        told["analysis"]["references"] = [str(one) for one in inside]
        path.write_text(json.dumps(told), encoding="utf-8")
