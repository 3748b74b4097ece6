"""Check an evidence pack: every byte, who vouches for it, and with its shards the verdict itself. No network.

Of its zip the same contents give the same bytes, and what is read is refused unless it is so made. Files are stored,
not compressed: no compressor's version shows in the bytes, and nothing can swell when it is read. Up to the
recomputation a check needs the standard library, securesystemslib and cryptography.
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
from zipfile import ZipFile

from audit.errors import AuditError, ConfigError, SignatureError
from audit.governance.keys import DECISION, DECISIONS, MAX_BYTES, Trusted, subjects_of, unseal
from audit.shards.files import file_sha256

if TYPE_CHECKING:  # hashes and signatures need no statistics
    from audit.decision import Seal
    from audit.governance.recompute import SectionOf

_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every entry: the earliest that zip knows
_NAME = re.compile(r"[A-Za-z0-9._-][A-Za-z0-9._ -]*(/[A-Za-z0-9._-][A-Za-z0-9._ -]*)*")
_MAX_ENTRIES = 100_000


def write_archive(target: BinaryIO, files: Mapping[str, bytes | Path]) -> None:
    """A zip of `files`, by name within it. A Path is copied as it is read."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            content = files[name]
            info = zipfile.ZipInfo(name, _EPOCH)
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            info.file_size = len(content) if isinstance(content, bytes) else content.stat().st_size
            source = io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")
            with source, archive.open(info, "w") as entry:
                shutil.copyfileobj(source, entry, 1 << 20)


def open_archive(path: Path) -> zipfile.ZipFile:
    """A pack for reading. SignatureError for what must not be read: a name that leaves the folder, a name twice,
    entries that overlap or swell. What else `write_archive` does not write: `check_bytes`."""
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        raise SignatureError(f"{path} is no readable zip ({error}).") from error
    if problem := _not_to_be_read(archive.infolist(), path.stat().st_size):
        archive.close()
        raise SignatureError(f"{path} {problem}.")
    return archive


def _not_to_be_read(entries: Sequence[zipfile.ZipInfo], size: int) -> str:
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


def read_entry(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """One entry. SignatureError where it cannot be read whole, or has more than `limit` bytes."""
    if archive.getinfo(name).file_size > limit:
        raise SignatureError(f"{name} is larger than any that a pack has.")
    with _entry(archive, name) as entry:
        return entry.read()


def good_name(name: str) -> bool:
    """Whether a pack may have an entry of this name: it stays in its folder, and is spelt alike everywhere."""
    return _NAME.fullmatch(name) is not None and not {".", ".."} & set(name.split("/"))


def hash_entry(archive: zipfile.ZipFile, name: str) -> str:
    """sha256 of one entry. SignatureError where it cannot be read whole."""
    with _entry(archive, name) as entry:
        return hashlib.file_digest(entry, "sha256").hexdigest()


@contextmanager
def _entry(archive: zipfile.ZipFile, name: str) -> Iterator[Any]:
    try:
        with archive.open(name) as entry:
            yield entry
    except (OSError, ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        raise SignatureError(f"{name} cannot be read from the pack ({error}).") from error


def check_bytes(path: Path, archive: zipfile.ZipFile) -> None:
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
            raise SignatureError(
                f"{path}: the files are as listed, and the zip around them is not as it was written: it was changed, "
                "or packed again by another program. Expected the pack as `audit evidence` wrote it."
            )


SUMS = "SHA256SUMS"
STATEMENT = "statement.dsse.json"
NOTE = "VERIFY.md"
SEAL, DEVIATIONS = "seal.dsse.json", "deviations.json"  # what was planned, and how the run differs
RUN = "run"
REFERENCES = "references"  # below a run: the runs that its verdict was compared with
VERDICT = f"{RUN}/report/verdict.json"
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


def verify_pack(path: Path, trusted: Mapping[str, Trusted] | None, section_of: SectionOf) -> Verified:
    """Check a pack. trusted: whose signature counts; None to check hashes alone. section_of: as `recomputed` takes it.

    Raises SignatureError for the first thing that does not hold.
    """
    with open_archive(path) as archive:
        names = set(archive.namelist())
        run = f"{RUN}/panel.json" if f"{RUN}/panel.json" in names else f"{RUN}/manifest.json"
        for needed in (SUMS, VERDICT, run):
            if needed not in names:
                raise SignatureError(f"{path} has no {needed}: it is no evidence pack.")
        sums = _listed(read_entry(archive, SUMS, _MAX_SUMS), path)
        wanted = {*sums, SUMS} | ({STATEMENT} if STATEMENT in names else set())
        if names != wanted:
            odd = sorted(names ^ wanted)
            raise SignatureError(f"{path}: {odd[0]!r} is {'not listed' if odd[0] in names else 'missing'}.")
        if odd := [name for name in sorted(sums) if hash_entry(archive, name) != sums[name]]:
            raise SignatureError(f"{path}: {odd[0]} is not the file that {SUMS} lists.")
        signer = decisions = None
        if trusted is not None:
            signer = _signed(archive, path, names, sums, trusted)
            decisions = _decisions(archive, path, sums, trusted)
        check_bytes(path, archive)
        runs = _together(archive, path, sums)
        seals = _seals(archive, path, sums, trusted)
        recomputed = any(re.match(f"{RUN}/([^/]+/)?shards/", name) for name in names)
        if recomputed:
            _recompute(archive, path, section_of)
    return Verified(len(sums), signer, recomputed, runs, decisions, seals)


def _decisions(archive: ZipFile, path: Path, sums: Mapping[str, str], trusted: Mapping[str, Trusted]) -> int:
    """How many people's decisions there are; SignatureError unless each is signed by a trusted key, over this run."""
    found = [name for name in sums if re.fullmatch(f"{RUN}/([^/]+/)?{DECISIONS}/[^/]+", name)]
    for name in found:
        stated, signer = unseal(read_entry(archive, name, MAX_BYTES), trusted, DECISION, f"{path}: {name}")
        home = name.split(f"/{DECISIONS}/")[0]
        for file, hashed in subjects_of(stated).items():
            here = sums.get(f"{home}/report/{file}", sums.get(f"{home}/{file}", hashed))  # tables may not be packed
            if here != hashed:
                raise SignatureError(f"{path}: {name} was decided by {signer} over another {file}.")
    return len(found)


def _seals(
    archive: ZipFile, path: Path, sums: Mapping[str, str], trusted: Mapping[str, Trusted] | None
) -> tuple[Seal, ...]:
    """What was planned of each run; SignatureError unless it holds and the pack lists the deviations that there are."""
    found = []
    for name in sorted(one for one in sums if re.fullmatch(f"{RUN}/([^/]+/)?manifest.json", one)):
        home, told = name.rpartition("/")[0], json.loads(read_entry(archive, name, _MAX_JSON))
        if not told.get("seal") and f"{home}/{SEAL}" not in sums:
            continue
        if f"{home}/{SEAL}" not in sums:
            raise SignatureError(f"seal_missing: {path} lacks {home}/{SEAL}, which its manifest names.")
        from audit.governance.sealed import checked  # here: it compares manifests, which need Arrow
        from audit.json_types import plain
        from audit.shards.manifest import Manifest

        data = read_entry(archive, f"{home}/{SEAL}", MAX_BYTES)
        seal = checked(data, Manifest.of(told), trusted, f"{path}: {home}/{SEAL}", inside=True)
        copy = DEVIATIONS if home == RUN else f"{home}/{DEVIATIONS}"
        if copy not in sums or json.loads(read_entry(archive, copy, _MAX_JSON)) != plain(seal.changed):
            raise SignatureError(f"seal_edited: {path}: {copy} is not how the run differs from its seal.")
        found.append(seal)
    return tuple(found)


def _together(archive: ZipFile, path: Path, sums: Mapping[str, str]) -> tuple[PackedRun, ...]:
    """The runs of a pack; SignatureError where shards or copies are not those of the run's own manifest."""
    found = []
    for name in sorted(one for one in sums if one.endswith("/manifest.json") and one.startswith(f"{RUN}/")):
        home = name.removesuffix("/manifest.json")
        try:
            told = json.loads(read_entry(archive, name, _MAX_JSON))
            listed = {Path(one["file"]).name: one["sha256"] for one in told["shards"]}
            held = {one.removeprefix(f"{home}/shards/"): sums[one] for one in sums if one.startswith(f"{home}/shards/")}
            if held and held != listed:
                odd = min(one for one in {*held, *listed} if held.get(one) != listed.get(one))
                raise SignatureError(f"{path}: {home}/shards/{odd} is not the shard that {name} lists.")
            if f"/{REFERENCES}/" not in name:
                _copies(archive, path, sums, "" if home == RUN else f"{home}/", told, listed)
                models = {model: facts.get("revision") for model, facts in told["models"].items()}
                benchmarks = tuple(told["benchmark"])
                found.append(PackedRun(told["audit"], told["fingerprint"], told["status"], models, benchmarks))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise SignatureError(f"{path}: {name} is no manifest ({type(error).__name__}).") from error
    return tuple(found)


def _copies(
    archive: ZipFile, path: Path, sums: Mapping[str, str], home: str, told: Mapping[str, Any], listed: Mapping[str, str]
) -> None:
    """SignatureError where a file that repeats the manifest for readers says something else."""
    for name, keys in (("config.json", None), ("environment.json", ("audit", "packages", "platform", "python"))):
        if f"{home}{name}" in sums:
            copy = json.loads(read_entry(archive, f"{home}{name}", _MAX_JSON))
            wanted, found = (told["config"], copy) if keys is None else ([d.get(k) for k in keys] for d in (told, copy))
            if found != wanted:
                raise SignatureError(f"{path}: {home}{name} is not what the manifest says.")
    if f"{home}shards.json" in sums:
        rows = json.loads(read_entry(archive, f"{home}shards.json", _MAX_JSON))
        hashes = {Path(one["file"]).name: one["sha256"] for one in rows if one["file"].startswith("shards/")}
        if hashes != listed:
            raise SignatureError(f"{path}: {home}shards.json is not what the manifest lists.")


def _listed(data: bytes, path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None or match[2] in found:
            raise SignatureError(f"{path}: {SUMS} has a line that is not '<sha256>  <name>': {line[:80]!r}.")
        found[match[2]] = match[1]
    return found


def _signed(
    archive: ZipFile, path: Path, names: set[str], sums: Mapping[str, str], trusted: Mapping[str, Trusted]
) -> str:
    if STATEMENT not in names:
        raise SignatureError(f"{path} is not signed. To check its hashes alone: --unsigned")
    data = read_entry(archive, STATEMENT, MAX_BYTES)
    stated, signer = unseal(data, trusted, PREDICATE, f"{path}: {STATEMENT}")
    if subjects_of(stated) != {SUMS: hash_entry(archive, SUMS), VERDICT: sums[VERDICT]}:
        raise SignatureError(f"{path}: what {signer} signed is another {SUMS} or another verdict.")
    return signer


def _recompute(archive: ZipFile, path: Path, section_of: SectionOf) -> None:
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
                f"{path}: computed again from the pack's shards, the verdict is another one ({', '.join(odd)}). It is "
                "not of these shards; or was judged with options that the manifest does not have (audit report --seed, "
                "--variants); or another version of the program made it: environment.json has its hash."
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
