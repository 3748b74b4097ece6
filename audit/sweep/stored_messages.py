"""Read the router messages of an earlier run, which a run keeps beside its shards."""

from collections.abc import Mapping
from functools import lru_cache

import pyarrow as pa

from audit.core.guarded_files import check_regular
from audit.core.records import Generation, Item, Part
from audit.shards.working_copy import local_file

MESSAGES = "messages.arrow"
# The columns that name a router set.
KEY = ("benchmark", "question_id", "arm", "routers", "replicate")
Key = tuple[str, str, str, int, int]


def stored(place: str, item: Item, part: Part) -> list[Generation]:
    """Return the stored messages of one router set.

    Parameters
    ----------
    place : str
        The file of messages.
    item : Item
        The question.
    part : Part
        The router set.

    Returns
    -------
    list of Generation
        Fewer than the set has routers if some of them failed.
    """
    index, messages = _opened(place)
    row = index[item.benchmark, item.id, str(part.arm), max(part.levels), part.replicate]
    return [Generation(text=text) for text in messages[row].as_py()]


@lru_cache(maxsize=2)
def _opened(place: str) -> tuple[Mapping[Key, int], pa.ChunkedArray]:
    check_regular(local_file(place), follow=True)
    table = pa.ipc.open_file(pa.memory_map(str(local_file(place)))).read_all()
    columns = (table.column(name).to_pylist() for name in KEY)
    return {key: row for row, key in enumerate(zip(*columns, strict=True))}, table.column(
        "router_messages"
    )
