"""Logs of today's Inspect are packed by Zstandard, which this Python's zipfile does not read."""

import json
import struct
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from audit.errors import AuditError
from audit.imports.detect import read_log
from audit.imports.record import Wanted

HEADER = {"eval": {"model": "m", "task": "t"}}
SAMPLE = {"id": 1, "epoch": 1, "input": "What barks?", "target": "a dog", "scores": {"match": {"value": "C"}}}


def packed(path: Path, members: dict[str, bytes]) -> Path:
    """A zip whose members say method 93 (APPNOTE 4.4.5) and hold these bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        places = [info.header_offset for info in archive.infolist()]
        directory = archive.start_dir
    whole = bytearray(path.read_bytes())
    for place in places:
        whole[place + 8 : place + 10] = struct.pack("<H", 93)
    for _ in members:
        whole[directory + 10 : directory + 12] = struct.pack("<H", 93)
        directory = whole.find(b"PK\1\2", directory + 46)
    path.write_bytes(whole)
    return path


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


def test_a_log_of_today_is_read(tmp_path: Path) -> None:
    members = {"header.json": HEADER, "samples/1_epoch_1.json": SAMPLE}
    path = packed(tmp_path / "a.eval", {name: zstd(json.dumps(one).encode()) for name, one in members.items()})
    with pytest.raises(NotImplementedError), zipfile.ZipFile(path) as archive:
        archive.read("header.json")  # so the file is what it is taken for
    (one,) = read_log(path, Wanted()).outcomes
    assert (one.model, one.right, one.text) == ("m", 1, "What barks?")


@pytest.mark.parametrize(
    ("data", "said"), [(zstd(b" " * (65 << 20)), "unpacks to more than"), (b"no frame of it", "cannot be read")]
)
def test_a_hostile_member(data: bytes, said: str, tmp_path: Path) -> None:
    path = packed(
        tmp_path / "b.eval", {"header.json": zstd(json.dumps(HEADER).encode()), "samples/1_epoch_1.json": data}
    )
    with pytest.raises(AuditError, match=said):
        list(read_log(path, Wanted()).outcomes)
