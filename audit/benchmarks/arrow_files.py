"""Arrow streams and files -> batches, none of which unfolds to more than a bound."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from audit.errors import BenchmarkError

_MARK = b"ARROW1"  # of a file, in which a stream follows after eight bytes
_HEADER, _DATA, _BUFFERS, _COMPRESSION = 2, 1, 2, 3  # places of fields in Arrow's Message.fbs


def arrow_batches(path: Path, at_once: int) -> Iterator[pa.RecordBatch]:
    """What `Dataset.save_to_disk` writes: an Arrow stream; an Arrow file is read too. BenchmarkError, without the
    file's name, for a compressed batch that unfolds to more bytes than `at_once`. Others are no larger than the file.
    """
    with pa.memory_map(str(path)) as source:
        begins = 8 if source.read(len(_MARK)) == _MARK else 0
        source.seek(begins)
        for message in pa.ipc.MessageReader.open_stream(source):
            if message.type in ("record batch", "dictionary") and (size := _unfolded(message)) > at_once:
                found = f"a compressed batch unfolds to {size:,} bytes; at most {at_once:,} are read at once"
                raise BenchmarkError(f"{found}. Save it in smaller batches, such as 1,000 rows each, or uncompressed.")
        source.seek(begins)
        yield from pa.ipc.open_stream(source)


def _unfolded(message: pa.ipc.Message) -> int:
    """Bytes of a batch once it is decompressed, 0 where it is not compressed. A compressed buffer begins with its own
    length (Arrow columnar format, "Compression")."""
    data = message.metadata.to_pybytes()
    try:
        batch = _table(data, _field(data, _table(data, 0), _HEADER))
        if message.type == "dictionary":
            batch = _table(data, _field(data, batch, _DATA))
        if not _field(data, batch, _COMPRESSION):
            return 0
        buffers = _table(data, _field(data, batch, _BUFFERS))
        (count,) = struct.unpack_from("<I", data, buffers)
        places = struct.iter_unpack("<qq", data[buffers + 4 : buffers + 4 + 16 * count])
        starts = [struct.unpack_from("<q", message.body, offset) for offset, length in places if length]
    except struct.error as error:
        raise pa.ArrowInvalid("the buffers of a batch lie outside of it") from error
    return sum(max(size, 0) for (size,) in starts)  # -1: this buffer is not compressed


def _table(data: bytes, at: int) -> int:
    """Where the table or vector lies that the offset at this place points to (FlatBuffers)."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table lies; 0 where the table has none."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    (size,) = struct.unpack_from("<H", data, fields)
    place = 4 + 2 * number
    offset = struct.unpack_from("<H", data, fields + place)[0] if place < size else 0
    return table + offset if offset else 0
