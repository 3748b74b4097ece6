"""Every change to a signed pack is found, also one whose hashes were made to fit: a list of
mutations."""

import base64
import hashlib
import io
import json
import shutil
import stat
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from audit_here import undrawn
from commands_here import evidence, report
from governed import Capsys, Patch, add_questions, decided

from audit.commands.again import suite_section
from audit.core.errors import SignatureError
from audit.governance import verify
from audit.governance.archive import PREDICATE, STATEMENT, VERDICT, write_archive
from audit.governance.chronology import project_file
from audit.governance.keys import load_signer, load_trusted, seal, statement
from audit.governance.pack import write_pack
from audit.governance.side_files import SUMS
from audit.governance.verify import verify_pack

Files = dict[str, bytes]
Whole = dict[str, Files]
CONTENTS = (
    "run/report/verdict.json",
    "run/report/report.html",
    "run/manifest.json",
    "run/suite.json",
    "run/shards/shard",
    "run/decisions/0001.dsse.json",
    "config.json",
    "prompts.json",
    "calibration.json",
    "shards.json",
    "environment.json",
    "VERIFY.md",
)


@pytest.fixture(scope="module")
def packs(built: Path, keys: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Files, Files]:
    """The files of two signed packs with shards, suite and a decision: of one run, and of it judged
    in other words."""
    folder, contents = tmp_path_factory.mktemp("packs"), []
    for name in ("a", "b"):
        run = Path(shutil.copytree(built, folder / name))
        (run / "suite.json").write_text(json.dumps({"audit_suite_id": name}))
        add_questions(run, listed=True)
        assert decided(run, keys, "alice", "--reason", name) == 0
        write_pack(
            run, folder / f"{name}.zip", with_shards=True, signer=load_signer(keys / "alice.key")
        )
        with zipfile.ZipFile(folder / f"{name}.zip") as archive:
            contents.append({member: archive.read(member) for member in archive.namelist()})
    return contents[0], contents[1]


def full_name(files: Files, name: str) -> str:
    return (
        next(file for file in files if file.startswith("run/shards/"))
        if name == "run/shards/shard"
        else name
    )


def changed(name: str) -> Callable[[Files, Files], None]:
    """One bit in the middle of a file."""

    def spoil(files: Files, other: Files) -> None:
        at = full_name(files, name)
        data = bytearray(files[at])
        data[len(data) // 2] ^= 1
        files[at] = bytes(data)

    return spoil


def summed(spoil: Callable[[Files, Files], None]) -> Callable[[Files, Files], None]:
    """With the list of hashes made to fit, as whoever has no key can."""

    def both(files: Files, other: Files) -> None:
        spoil(files, other)
        names = sorted(set(files) - {SUMS, STATEMENT})
        files[SUMS] = "".join(
            f"{hashlib.sha256(files[n]).hexdigest()}  {n}\n" for n in names
        ).encode()

    return both


def envelope(change: Callable[[dict[str, Any]], Any]) -> Callable[[Files, Files], None]:
    def spoil(files: Files, other: Files) -> None:
        plain = json.loads(files[STATEMENT])
        change(plain)
        files[STATEMENT] = (json.dumps(plain, sort_keys=True, indent=1) + "\n").encode()

    return spoil


def lines(change: Callable[[list[str]], list[str]]) -> Callable[[Files, Files], None]:
    def spoil(files: Files, other: Files) -> None:
        files[SUMS] = "".join(change(files[SUMS].decode().splitlines(keepends=True))).encode()

    return spoil


def swapped(*names: str) -> Callable[[Files, Files], None]:
    return lambda files, other: files.update({name: other[name] for name in names})


MUTATIONS: dict[str, Callable[[Files, Files], None]] = {
    **{f"{name}: a bit": changed(name) for name in CONTENTS},
    **{f"{name}: a bit, and its hash": summed(changed(name)) for name in CONTENTS},
    "an entry more": lambda files, other: files.update({"run/notes.txt": b"x"}),
    "an entry more, and its hash": summed(
        lambda files, other: files.update({"run/notes.txt": b"x"})
    ),
    "an entry less, and its hash": summed(
        lambda files, other: files.pop("run/suite.json") and None
    ),
    "a name in another case beside it": summed(
        lambda files, other: files.update({"CONFIG.json": b"{}"})
    ),
    "the list: a line twice": lines(lambda rows: [*rows, rows[0]]),
    "the list: another order": lines(lambda rows: rows[::-1]),
    "the list: gone": lambda files, other: files.pop(SUMS) and None,
    "the statement: gone": lambda files, other: files.pop(STATEMENT) and None,
    "the statement: a space": lambda files, other: files.update(
        {STATEMENT: b" " + files[STATEMENT]}
    ),
    "the statement: another signature": envelope(
        lambda e: e["signatures"][0].update({"sig": "0" * 128})
    ),
    "the statement: a field that nobody signed": envelope(
        lambda e: e["signatures"][0].update({"note": "x"})
    ),
    "the statement: signed twice": envelope(
        lambda e: e["signatures"].append(dict(e["signatures"][0]))
    ),
    "the statement of another run": swapped(STATEMENT),
    "a decision in the statement's place": lambda files, other: files.update(
        {STATEMENT: files["run/decisions/0001.dsse.json"]}
    ),
}


def written(files: Files, folder: Path) -> Path:
    with (folder / "pack.zip").open("wb") as file:
        write_archive(file, files)
    return folder / "pack.zip"


def refused(path: Path, keys: Path) -> None:
    with pytest.raises(SignatureError):
        verify_pack(path, load_trusted(keys / "trusted"), suite_section)


@pytest.mark.parametrize("name", MUTATIONS)
def test_no_mutation_of_a_pack_verifies(
    name: str, packs: tuple[Files, Files], keys: Path, tmp_path: Path
) -> None:
    files = dict(packs[0])
    MUTATIONS[name](files, packs[1])
    assert files != packs[0]
    refused(written(files, tmp_path), keys)


def copy_says(name: str, change: Callable[[Any], Any]) -> Callable[[Files, Files], None]:
    def spoil(files: Files, other: Files) -> None:
        document = json.loads(files[name])
        change(document)
        files[name] = json.dumps(document).encode()

    return spoil


# What somebody with a trusted key packed again and signed: the pack has to hold together beyond its
# signature.
SIGNED_AGAIN: dict[str, Callable[[Files, Files], None]] = {
    "a shard": changed("run/shards/shard"),
    "the configuration for readers": copy_says(
        "config.json", lambda document: document.update({"n": 3})
    ),
    "the environment for readers": copy_says(
        "environment.json", lambda document: document.update({"python": "2.7"})
    ),
    "the hashes for readers": copy_says(
        "shards.json", lambda document: document[0].update({"sha256": "0" * 64})
    ),
    "a decision that nobody signed": copy_says(
        "run/decisions/0001.dsse.json",
        lambda document: document["signatures"][0].update({"sig": "00" * 64}),
    ),
    "a decision that is no decision": copy_says(
        "run/decisions/0001.dsse.json", lambda document: document.clear()
    ),
    "the decision of another run": swapped("run/decisions/0001.dsse.json"),
    "a page that was forged": lambda files, other: files.update(
        {"run/report/report.html": b"<h1>All is well</h1>"}
    ),
    "a run that failed": copy_says(
        "run/manifest.json", lambda document: document.update({"status": "failed"})
    ),
    "another suite": copy_says("run/suite.json", lambda document: document.update({"x": 1})),
    "another verdict": copy_says(
        "run/report/verdict.json", lambda document: document["cells"][0].update({"verdict": "x"})
    ),
    "the prompts for readers": copy_says(
        "prompts.json", lambda document: document["sha256"].update({"m": "1" * 64})
    ),
    "the error rates": copy_says("calibration.json", lambda document: document["designs"].clear()),
    "the sensitivity": copy_says(
        "sensitivity.json", lambda document: document.update({"alpha": 0.5})
    ),
    "the program's chronology": lambda files, other: files.update(
        {"program_chronology.jsonl": b"{}\n"}
    ),
    "the note on how to verify": lambda files, other: files.update({"VERIFY.md": b"Trust me."}),
    "a chronology that is none": lambda files, other: files.update(
        {"run/chronology.jsonl": b"{}\n"}
    ),
    "a run that was stopped": copy_says(
        "run/manifest.json", lambda document: document.update({"status": "stopped"})
    ),
    "a decision whose first is gone": lambda files, other: files.update(
        {"run/decisions/0002.dsse.json": files.pop("run/decisions/0001.dsse.json")}
    ),
    "a decision twice": lambda files, other: files.update(
        {"run/decisions/0002.dsse.json": files["run/decisions/0001.dsse.json"]}
    ),
    "a decision in a folder of its own": lambda files, other: files.update(
        {"run/decisions/x/0001.dsse.json": files.pop("run/decisions/0001.dsse.json")}
    ),
    "a manifest that is none": lambda files, other: files.update({"run/manifest.json": b"[]"}),
    "a manifest as deep as a well": lambda files, other: files.update(
        {"run/manifest.json": b"[" * 100_000}
    ),
}


def signed_again(
    files: Files, keys: Path, before: Files, gone: dict[str, str] | None = None
) -> None:
    """As alice, who is trusted, would pack and sign these files; gone: hashes of those that are
    not there."""
    summed(lambda files, other: None)(files, files)
    hashes = {
        name: hashlib.sha256(files[name]).hexdigest() for name in (SUMS, VERDICT) if name in files
    }
    subjects = {name: (gone or {}).get(name) or hashes[name] for name in (SUMS, VERDICT)}
    predicate = json.loads(base64.b64decode(json.loads(before[STATEMENT])["payload"]))["predicate"]
    files[STATEMENT] = seal(
        statement(PREDICATE, subjects, predicate), load_signer(keys / "alice.key")
    )


@pytest.mark.parametrize("name", SIGNED_AGAIN)
def test_a_pack_holds_together_beyond_its_signature(
    name: str, packs: tuple[Files, Files], keys: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(
        verify, "_recompute", lambda *given: None
    )  # found without it, before anything is computed
    files = dict(packs[0])
    SIGNED_AGAIN[name](files, packs[1])
    signed_again(files, keys, packs[0])
    refused(written(files, tmp_path), keys)


WHOLE = ("run with shards", "run without shards", "panel with shards")


@pytest.fixture(scope="module")
def whole(built: Path, other: Path, keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The files of signed packs of runs that have every side file, but no decision: what is left
    out is not found by what a person signed."""
    folder = tmp_path_factory.mktemp("whole")
    run = Path(shutil.copytree(built, folder / "run"))
    add_questions(run, listed=True)
    (run / "suite.json").write_text(json.dumps({"audit_suite_id": "a"}))
    (run / "token_distances.json").write_text("{}\n")
    shutil.copy(project_file(), run / "chronology.jsonl")
    shutil.copytree(other, folder / "other")
    panel = folder / "panel"
    with undrawn():
        assert report([str(run), str(folder / "other"), "--out", str(panel)]) == 0
    shutil.copy(project_file(), panel / "chronology.jsonl")
    packed = {}
    for name, home in zip(WHOLE, (run, run, panel), strict=True):
        with_shards, path = "with shards" in name, folder / "pack.zip"
        write_pack(home, path, with_shards=with_shards, signer=load_signer(keys / "alice.key"))
        with zipfile.ZipFile(path) as archive:
            packed[name] = {entry: archive.read(entry) for entry in archive.namelist()}
    return packed


@pytest.mark.parametrize("name", WHOLE)
def test_a_pack_from_which_a_file_was_left_out_is_refused(
    name: str, whole: Whole, keys: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Each file of it in turn, by a signer who is trusted and recomputes the list of hashes."""
    # A missing file is found before anything is computed.
    monkeypatch.setattr(verify, "_recompute", lambda *given: ((), ()))
    files = dict(whole[name])
    signed_again(files, keys, whole[name])
    verify_pack(written(files, tmp_path), load_trusted(keys / "trusted"), suite_section)
    left_out = sorted(set(files) - {SUMS, STATEMENT})
    assert len(left_out) >= 14
    for file in left_out:
        files = dict(whole[name])
        gone = files.pop(file)
        signed_again(files, keys, whole[name], {file: hashlib.sha256(gone).hexdigest()})
        refused(written(files, tmp_path), keys)


@pytest.mark.parametrize(
    "name", ["run/manifest.json/x", "run/shards", "run/report/verdict.json/x/y"]
)
def test_what_cannot_be_unpacked_ends_in_a_sentence(
    name: str, packs: tuple[Files, Files], keys: Path, tmp_path: Path
) -> None:
    """A file where a folder is, signed by a trusted key."""
    files = {**packs[0], name: b"x"}
    signed_again(files, keys, packs[0])
    assert evidence(["verify", str(written(files, tmp_path)), "--keys", str(keys / "trusted")]) == 1


def zipped(
    files: Files, order: Sequence[str] | None = None, kind: int = zipfile.ZIP_STORED, **odd: Any
) -> bytes:
    """The same files as another program packs them; odd: attributes of the first entry."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        for number, name in enumerate(order or sorted(files)):
            info = zipfile.ZipInfo(name)
            info.compress_type = kind
            for key, value in odd.items() if number == 0 else ():
                setattr(info, key, value)
            archive.writestr(info, files[name])
    return buffer.getvalue()


def commented(data: bytes, files: Files) -> bytes:
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = b"trust me"
    return buffer.getvalue()


# What was done to the zip around the files: to its bytes, or by packing the same files again.
AROUND: dict[str, Callable[[bytes, Files], bytes]] = {
    "a byte before it": lambda data, files: b"\0" + data,
    "a byte behind it": lambda data, files: data + b"\0",
    "the last byte gone": lambda data, files: data[:-1],
    "nothing": lambda data, files: b"",
    "a comment": commented,
    "compressed": lambda data, files: zipped(files, kind=zipfile.ZIP_DEFLATED),
    "in another order": lambda data, files: zipped(files, sorted(files, reverse=True)),
    "a link": lambda data, files: zipped(files, external_attr=(stat.S_IFLNK | 0o777) << 16),
    "of another day": lambda data, files: zipped(files, date_time=(2030, 1, 1, 0, 0, 0)),
    "with a note in an entry": lambda data, files: zipped(files, extra=b"\x99\x99\x04\x00abcd"),
}


@pytest.mark.parametrize("name", AROUND)
def test_no_other_zip_of_the_same_files_verifies(
    name: str, packs: tuple[Files, Files], keys: Path, tmp_path: Path
) -> None:
    path = written(packs[0], tmp_path)
    path.write_bytes(AROUND[name](path.read_bytes(), packs[0]))
    refused(path, keys)


def test_a_pack_says_of_what_it_is(
    packs: tuple[Files, Files], keys: Path, tmp_path: Path, capsys: Capsys
) -> None:
    """Another run's pack is sound, and refused by who says what is expected. That this one verifies
    as it is shows that none of the above is found for the way in which it was packed."""
    words = ["verify", str(written(packs[0], tmp_path)), "--keys", str(keys / "trusted")]
    manifest = json.loads(packs[0]["run/manifest.json"])
    (model,) = manifest["models"]
    expected = [*words, "--expect-fingerprint", manifest["fingerprint"], "--expect-model", model]
    assert evidence(expected) == 0
    out = capsys.readouterr().out
    assert "signed by alice" in out and "1 decisions" in out and "the same bytes" in out
    assert evidence([*words, "--expect-fingerprint", "0" * 64]) == 1
    assert evidence([*words, "--expect-model", f"{model}@elsewhere"]) == 1
