"""The evidence pack: the same bytes every time, every byte of it bound, and no archive can do
harm."""

import io
import json
import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands_here import evidence as main
from governed import Capsys, Patch, flip, rewrite, shard_of

from audit.commands.again import suite_section
from audit.core.errors import ConfigError, ShardError, SignatureError
from audit.governance.archive import STATEMENT, open_archive
from audit.governance.keys import load_signer, load_trusted
from audit.governance.pack import write_pack
from audit.governance.recompute import difference
from audit.governance.side_files import SUMS
from audit.governance.verify import verify_pack
from audit.judging.decision import document_of, rule

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def packed(built: Path, keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed pack without shards. To be read only."""
    path = tmp_path_factory.mktemp("packed") / "pack.zip"
    write_pack(built, path, with_shards=False, signer=load_signer(keys / "alice.key"))
    return path


def test_a_pack_holds_what_the_verdict_rests_on_and_verifies(
    packed: Path, keys: Path, capsys: Capsys
) -> None:
    with zipfile.ZipFile(packed) as archive:
        names = set(archive.namelist())
        shards = json.loads(archive.read("shards.json"))
        environment = json.loads(archive.read("environment.json"))
        assert json.loads(archive.read("prompts.json"))["protocols"] == {
            "m": {"worker": "Answer: {question}"}
        }
    assert {
        "run/manifest.json",
        "run/report/verdict.json",
        "run/report/report.html",
        "config.json",
        "prompts.json",
        "environment.json",
        "calibration.json",
        "libraries.json",
        "sensitivity.json",
        "program_chronology.jsonl",
        "shards.json",
        "VERIFY.md",
        SUMS,
        STATEMENT,
    } == names
    names, rows = [row["file"] for row in shards], [row["rows"] for row in shards]
    assert names[:2] == ["report/report.html", "report/verdict.json"] and len(names) == 3
    assert all(len(row["sha256"]) == 64 for row in shards)
    assert rows[:2] == [None, None] and rows[2] > 0
    assert len(environment["program_sha256"]) == 64
    assert main(["verify", str(packed), "--keys", str(keys / "trusted")]) == 0
    out = capsys.readouterr().out
    assert "alice" in out


def test_the_same_run_gives_the_same_bytes(
    built: Path, packed: Path, keys: Path, tmp_path: Path
) -> None:
    write_pack(
        built, tmp_path / "again.zip", with_shards=False, signer=load_signer(keys / "alice.key")
    )
    assert (tmp_path / "again.zip").read_bytes() == packed.read_bytes()


def reword(verdict: dict[str, Any]) -> None:
    verdict["cells"][0]["headline"] = "As an earlier version of the program says it."


def last_digit(verdict: dict[str, Any]) -> None:
    verdict["cells"][0]["score"] *= 1 + 1e-9


def another_number(verdict: dict[str, Any]) -> None:
    verdict["cells"][0]["score"] += 0.1


def another_grade(verdict: dict[str, Any]) -> None:
    verdict["cells"][0]["grade"] = "cleared"


def no_grade(verdict: dict[str, Any]) -> None:
    """A cell of an earlier version has no grade: it follows from the verdict's name."""
    del verdict["cells"][0]["grade"]
    verdict["cells"][0]["verdict"] = "no_excess_detected"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (no_grade, 1),
        (reword, 0),
        (last_digit, 0),
        (another_number, 1),
        (another_grade, 1),
        (None, 0),
    ],
)
def test_sentences_of_another_version_are_named_and_other_numbers_are_refused(
    change: Callable[[dict[str, Any]], None] | None,
    code: int,
    run_dir: Path,
    keys: Path,
    tmp_path: Path,
    capsys: Capsys,
) -> None:
    if change is not None:
        rewrite(run_dir / "report" / "verdict.json", change)
    pack = tmp_path / "pack.zip"
    write_pack(run_dir, pack, with_shards=True, signer=load_signer(keys / "alice.key"))
    assert main(["verify", str(pack), "--keys", str(keys / "trusted")]) == code
    out, err = capsys.readouterr()
    assert ("NOT THE SAME SENTENCES" in out) == (change in (reword, last_digit))
    assert ("the same bytes" in out) == (change is None)
    assert ("cells[0].score is" in err) == (change is another_number)
    assert ("cells[0].grade is 'cleared'" in err) == (change in (another_grade, no_grade))


def test_a_field_that_decides_is_compared_by_what_follows_from_it(run_dir: Path) -> None:
    """No text or number of the cells differs, and the decisions do."""
    plain = json.loads((run_dir / "report" / "verdict.json").read_text())
    plain["cells"][0]["grade"] = "found_suggestive"
    documents = []
    for block_at in ("strong", "suggestive"):
        plain["thresholds"]["block_at"] = block_at
        documents.append(document_of(json.loads(json.dumps(plain))))
    lenient, strict = documents
    assert difference(lenient.plain, strict.plain) == ""
    assert rule(lenient).decisions != rule(strict).decisions == rule(strict).decisions


def test_a_shell_alone_can_check_the_hashes(packed: Path, tmp_path: Path) -> None:
    """The lines of VERIFY.md, less `unzip`, which not every machine has."""
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path)
    assert f"sha256sum --check --strict {SUMS}" in (tmp_path / "VERIFY.md").read_text()
    command = ["sha256sum", "--check", "--strict", "--quiet", SUMS]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
    (tmp_path / "config.json").write_text("{}")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def test_any_byte_that_changes_is_found(packed: Path, keys: Path, tmp_path: Path) -> None:
    trusted = load_trusted(keys / "trusted")
    size = packed.stat().st_size
    with zipfile.ZipFile(packed) as archive:
        headers = [
            entry.header_offset + 10 for entry in archive.infolist()
        ]  # the time of each entry
    for at in sorted({*range(0, size, size // 60), *headers, size - 1, size - 5, size - 60}):
        pack = tmp_path / "pack.zip"
        pack.write_bytes(packed.read_bytes())
        flip(pack, at)
        with pytest.raises(SignatureError):
            verify_pack(pack, trusted, suite_section)


def test_a_stranger_or_nobody_signed(built: Path, keys: Path, tmp_path: Path) -> None:
    trusted = load_trusted(keys / "trusted")
    write_pack(
        built, tmp_path / "m.zip", with_shards=False, signer=load_signer(keys / "mallory.key")
    )
    with pytest.raises(SignatureError, match="not among the trusted keys"):
        verify_pack(tmp_path / "m.zip", trusted, suite_section)
    write_pack(built, tmp_path / "u.zip", with_shards=False, signer=None)
    with pytest.raises(SignatureError, match="is not signed"):
        verify_pack(tmp_path / "u.zip", trusted, suite_section)
    assert verify_pack(tmp_path / "u.zip", None, suite_section).signer is None


def entry(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    return info


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "run/../../x",
        "/etc/x",
        "run\\..\\x",
        "C:/x",
        "run/",
        "./x",
        "a//b",
        "x\n",
        "\u202ex",
        "run/.",
    ],
)
def test_no_name_leaves_the_folder(name: str, tmp_path: Path) -> None:
    path = tmp_path / "slip.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(entry(name), b"")
    with pytest.raises(SignatureError):
        open_archive(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["slip.zip"]


def test_doubles_and_overlaps_are_refused(tmp_path: Path) -> None:
    """Links and compressed entries: attack/test_attack_packs.py."""
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w") as archive, pytest.warns(UserWarning):
        archive.writestr(entry("twice"), b"a")
        archive.writestr(entry("twice"), b"b")
    with pytest.raises(SignatureError, match="two entries"):
        open_archive(path)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a0", b"\0" * 100_000)
        first = archive.infolist()[0]
        for number in range(1, 50):  # fifty names for the same bytes
            copy = entry(f"a{number}")
            copy.file_size = copy.compress_size = first.file_size
            copy.header_offset, copy.CRC = first.header_offset, first.CRC
            archive.filelist.append(copy)
            archive.NameToInfo[copy.filename] = copy
    path.write_bytes(buffer.getvalue())
    with pytest.raises(SignatureError, match="claims to hold"):
        open_archive(path)


def test_a_run_that_is_not_what_its_manifest_says_gives_no_pack(
    run_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "pack.zip"
    shard = shard_of(run_dir)
    good = shard.read_bytes()
    flip(shard)
    with pytest.raises((ShardError, ConfigError)):
        write_pack(run_dir, out, with_shards=False, signer=None)
    shard.write_bytes(good)
    (run_dir / "questions.arrow").write_bytes(b"ARROW1")
    with pytest.raises(ShardError, match="valid Arrow"):
        write_pack(run_dir, out, with_shards=False, signer=None)
    (run_dir / "questions.arrow").unlink()
    (run_dir / "report" / "verdict.json").write_text("{}")
    with pytest.raises(ConfigError, match="schema is missing"):
        write_pack(run_dir, out, with_shards=False, signer=None)
    with pytest.raises(ConfigError, match="does not exist"):
        write_pack(tmp_path / "nowhere", out, with_shards=False, signer=None)
    assert not out.exists() and not list(tmp_path.glob(".*.tmp"))


def test_verify_loads_neither_ray_nor_arrow_nor_numpy(packed: Path, keys: Path) -> None:
    code = (
        "import sys; from audit.commands import run\n"
        f"assert run(['evidence', 'verify', {str(packed)!r}, '--keys', {str(keys / 'trusted')!r}]) == 0\n"
        "print(sorted({'ray', 'pyarrow', 'numpy', 'hydra', 'scipy', 'matplotlib', 'vllm'} & set(sys.modules)))"
    )
    env = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("[]\n"), done.stdout + done.stderr


def test_a_missing_key_is_an_error_and_not_an_unsigned_pack(
    built: Path, tmp_path: Path, capsys: Capsys, monkeypatch: Patch
) -> None:
    monkeypatch.delenv("AUDIT_SIGNING_KEY", raising=False)
    assert main([str(built), "-o", str(tmp_path / "p.zip")]) == 1
    assert "key" in capsys.readouterr().err and not (tmp_path / "p.zip").exists()
