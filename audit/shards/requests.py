"""Did what was varied reach the model? Requests compared by `request_sha256`: equal ones asked the same (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True)
class RequestCounts:
    """Varied requests that were compared with the others of the same item.

    same_as_original: the very request of the original; repeated: that of another variation. items: their ids.
    """

    compared: int = 0
    same_as_original: int = 0
    repeated: int = 0
    items: tuple[str, ...] = ()


def digest(*texts: str) -> int:
    """64 bits that stand for texts of which only equality is asked; any two are alike by chance once in 10**19."""
    return int.from_bytes(blake2b("\0".join(texts).encode(), digest_size=8).digest(), "little")


def count_requests(original: Mapping[str, Set[str]], varied: Mapping[str, Sequence[tuple[int, str]]]) -> RequestCounts:
    """Variations that sent the very request of their original, or of an earlier variation of the same item.

    original: hashes by item; varied: (level, hash) by item. Only items with both are compared.
    """
    compared = same = repeated = 0
    items = set()
    for id_, sent in varied.items():
        if id_ not in original:
            continue
        seen: set[str] = set()
        for _, sha in sorted(sent):
            compared += 1
            if sha in original[id_]:
                same += 1
                items.add(id_)
            elif sha in seen:
                repeated += 1
                items.add(id_)
            seen.add(sha)
    return RequestCounts(compared, same, repeated, tuple(sorted(items)))
