"""Read the router messages of an earlier run from the copy that a run keeps beside its shards."""

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
        The path or address of the file of messages.
    item : Item
        The question.
    part : Part
        The router set.

    Returns
    -------
    list of Generation
        The messages. If some router calls failed, there are fewer messages than routers.
    """
    index, messages = _opened(place)
    row = index[item.benchmark, item.id, str(part.arm), max(part.levels), part.replicate]
    return [Generation(text=text) for text in messages[row].as_py()]


@lru_cache(maxsize=2)
def _opened(place: str) -> tuple[Mapping[Key, int], pa.ChunkedArray]:
    """Return a mapping from each router set to its row number, and the column of messages."""
    check_regular(local_file(place), follow=True)
    table = pa.ipc.open_file(pa.memory_map(str(local_file(place)))).read_all()
    keys = zip(*table.select(KEY).to_pydict().values(), strict=True)
    index = dict(zip(keys, range(table.num_rows), strict=True))
    return index, table.column("router_messages")
