"""Read Arrow streams and files in batches, with a limit on the decompressed size of a batch."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from audit.core.errors import BenchmarkError

_MARK = b"ARROW1"  # An Arrow file begins with these bytes, and its stream starts at byte 8.
_HEADER, _DATA, _BUFFERS, _COMPRESSION = 2, 1, 2, 3  # numbers of fields in Arrow's Message.fbs


def arrow_batches(path: Path, at_once: int) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of an Arrow file or stream (as written by `Dataset.save_to_disk`).

    Parameters
    ----------
    path : Path
        File to read.
    at_once : int
        Largest decompressed size of a compressed batch, in bytes. Uncompressed batches cannot be
        larger than the file.

    Yields
    ------
    RecordBatch
        The batches, in order.

    Raises
    ------
    BenchmarkError
        If a batch is larger than `at_once`. The message does not name the file.
    """
    with pa.memory_map(str(path)) as source:
        begins = 8 if source.read(len(_MARK)) == _MARK else 0
        source.seek(begins)
        for message in pa.ipc.MessageReader.open_stream(source):
            if (
                message.type in ("record batch", "dictionary")
                and (size := _decompressed(message)) > at_once
            ):
                raise BenchmarkError(
                    f"a compressed batch has {size:,} bytes when decompressed; expected at most "
                    f"{at_once:,}. Save the rows in smaller batches, such as 1,000 rows each, or "
                    "uncompressed."
                )
        source.seek(begins)
        yield from pa.ipc.open_stream(source)


def _decompressed(message: pa.ipc.Message) -> int:
    """Return the decompressed size of a batch in bytes; 0 if it is not compressed.

    Each compressed buffer begins with its decompressed length (Arrow columnar format,
    "Compression").
    """
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
        starts = []
        for offset, length in places:
            if length:
                starts.append(struct.unpack_from("<q", message.body, offset))
    except struct.error as error:
        raise pa.ArrowInvalid("the buffers of a batch lie outside the batch") from error
    return sum(max(size, 0) for (size,) in starts)  # -1 means that a buffer is not compressed.


def _table(data: bytes, at: int) -> int:
    """Return the position of the table or vector to which the offset at `at` points
    (FlatBuffers)."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Return the position of a field in a table; 0 if the table lacks the field."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    (size,) = struct.unpack_from("<H", data, fields)
    place = 4 + 2 * number
    offset = struct.unpack_from("<H", data, fields + place)[0] if place < size else 0
    return table + offset if offset else 0
