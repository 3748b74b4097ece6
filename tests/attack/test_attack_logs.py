"""Logs of an evaluation that somebody made to be read twice, for ever, or as two: zips by other
packers, and thresholds that are no numbers."""

import json
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pytest

from audit.core.errors import ConfigError, DataError
from audit.imports.detect import read_log
from audit.imports.record import Wanted
from audit.judging.thresholds import Limits
from audit.memory.design import MemoryThresholds
from audit.perturb.design import PerturbThresholds
from audit.sweep.design import SweepThresholds
from audit.validity.design import ValidityThresholds

Members = list[tuple[str, bytes]]
Spoil = Callable[[Members], bytes]


def sample(number: int, value: str = '"C"') -> bytes:
    about = {"id": number, "epoch": 1, "input": f"What is {number}?", "target": "A"}
    scores = f'{{"choice": {{"value": {value}, "answer": "A"}}}}'
    return (json.dumps(about)[:-1] + f', "choices": ["a", "b"], "scores": {scores}}}').encode()


HEADER = json.dumps(
    {"version": 2, "status": "success", "eval": {"model": "m", "task": "t"}}
).encode()
LOG: Members = [
    ("header.json", HEADER),
    ("samples/1.json", sample(1)),
    ("samples/2.json", sample(2)),
]


def zipped(members: Members, kind: int = zipfile.ZIP_DEFLATED, **odd: int) -> bytearray:
    with pa.BufferOutputStream() as out:
        with zipfile.ZipFile(out, "w", kind) as archive:
            for name, data in members:
                info = zipfile.ZipInfo(name)
                info.compress_type = kind
                for attribute, value in odd.items():
                    setattr(info, attribute, value)
                archive.writestr(info, data)
        return bytearray(out.getvalue().to_pybytes())


def entries(data: bytearray, at: int, value: bytes) -> bytearray:
    """With these bytes at a place of each entry of the directory (APPNOTE 4.3.12)."""
    place = data.find(b"PK\1\2")
    while place >= 0:
        data[place + at : place + at + len(value)] = value
        place = data.find(b"PK\1\2", place + 4)
    return data


def zstandard(members: Members, claimed: int) -> bytearray:
    packed = []
    for name, data in members:
        packed.append((name, bytes(pa.compress(data, codec="zstd", asbytes=True))))
    data = entries(zipped(packed, zipfile.ZIP_STORED), 10, struct.pack("<H", 93))
    return entries(data, 24, struct.pack("<I", claimed))


def dictionary_of_4_gib(members: Members) -> bytearray:
    data = zipped(members, zipfile.ZIP_LZMA)
    at = data.index(
        b"\x09\x04\x05\x00"
    )  # the version of LZMA's SDK, and the length of its properties
    data[at + 5 : at + 9] = b"\xff" * 4
    return data


def replaced(number: int, data: bytes, name: str = "") -> Spoil:
    return lambda log: zipped(
        [(name or n, data) if k == number else (n, d) for k, (n, d) in enumerate(log)]
    )


LARGE = b'{"id": 1, "epoch": 1, "input": "' + b"a" * (40 << 20) + b'"}'
SPOILT: dict[str, Spoil] = {
    "a dictionary of 4 GiB": dictionary_of_4_gib,
    "packed by bzip2": lambda log: zipped(log, zipfile.ZIP_BZIP2),
    "two headers": lambda log: zipped([*log, ("header.json", HEADER.replace(b'"m"', b'"k"'))]),
    "a sample twice": lambda log: zipped([*log, log[1]]),
    "another sample of a name": lambda log: zipped([*log, (log[1][0], sample(3))]),
    "40 MiB that claim to be 100 bytes": lambda log: zstandard(
        [log[0], ("samples/1.json", LARGE)], 100
    ),
    "a byte that is claimed of each": lambda log: zstandard(log, 1),
    "more claimed than there is": lambda log: zstandard(log, 1000),
    "a claim of nothing": lambda log: entries(zipped(log), 24, bytes(4)),
    "a password": lambda log: entries(zipped(log), 8, b"\1"),
    "a link for the header": lambda log: zipped(
        [("header.json", b"/dev/zero"), *log[1:]], external_attr=(stat.S_IFLNK | 0o777) << 16
    ),
    "a header of brackets": replaced(0, b"[" * 100_000),
    "a header of null": replaced(0, b"null"),
    "a header without an evaluation": replaced(0, b'{"version": 2, "eval": null}'),
    "a header in no language": replaced(0, b"\xff\xfe\x00"),
    "a sample of brackets": replaced(1, b"[" * 100_000),
    "a sample of objects": replaced(1, b'{"a":' * 90_000 + b"1" + b"}" * 90_000),
    "a score without end": replaced(1, sample(1, "1e999")),
    "a score below nothing": replaced(1, sample(1, "-1")),
    "a score of 4,000 digits": replaced(1, sample(1, "1" + "0" * 4000)),
    "a score of 5,000 digits": replaced(1, sample(1, "1" + "0" * 5000)),
    "reductions without a floor": lambda log: zipped([*log, ("reductions.json", b"[" * 50_000)]),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_zip_that_can_be_read_in_two_ways_is_read_in_none(name: str, tmp_path: Path) -> None:
    """In 200 MB, of which the test's own are 40."""
    path = tmp_path / "log.eval"
    path.write_bytes(zipped(LOG))
    assert [outcome.right for outcome in read_log(path, Wanted()).outcomes] == [1, 1]
    path.write_bytes(SPOILT[name](LOG))
    tracemalloc.start()
    try:
        with pytest.raises((ConfigError, DataError)):
            list(read_log(path, Wanted()).outcomes)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


AUDITS: tuple[type[Limits], ...] = (
    SweepThresholds,
    PerturbThresholds,
    MemoryThresholds,
    ValidityThresholds,
)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e308, 10**400, -1, True, "1", None])
def test_no_threshold_is_a_number_that_nothing_misses(value: object) -> None:
    """No share of answers is below NaN, so no run would fail the check."""
    for audit in AUDITS:
        for field in fields(audit):
            if not isinstance(field.default, str):
                with pytest.raises(ConfigError):
                    audit.from_mapping({field.name: value})
