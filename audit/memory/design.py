"""Define the arms of the memory audit, its design and its thresholds (pure).

The level of a setting is the number of the order; 0 is the published order.
"""

from dataclasses import dataclass
from enum import StrEnum

from audit.core.errors import ConfigError
from audit.core.records import Design, Part
from audit.judging.thresholds import Thresholds

ORDERS_MAX = 1000


class Arm(StrEnum):
    """Name the measurements on an item."""

    SCORE = "score"  # the answer to the question
    PUBLISHED = "published"  # the likelihood of the item as published
    OPTIONS = "options"  # the likelihood of the item with its wrong options in another order
    ORDER = "order"  # the likelihood of the item after its neighbours, in the published and in other orders


def make_design(shard_items: int, orders: int, option_orders: int, *, whole: bool) -> Design:
    """Make the design, in which each arm and level is a part of its own.

    Parameters
    ----------
    shard_items : int
        Items in a shard.
    orders, option_orders : int
        Other orders of a shard's items, and of an item's options. With 0 of both only the score is
        measured, which needs no likelihood of a given text.
    whole : bool
        Whether every question is asked, so that published neighbours are included.

    Returns
    -------
    Design
        Its parts.

    Raises
    ------
    ConfigError
        If a number is out of range.
    """
    if orders == option_orders == 0:
        return Design((Part(Arm.SCORE, (0,)),))
    for name, count, least in (
        ("shard_items", shard_items, 2),
        ("orders", orders, 1),
        ("option_orders", option_orders, 1),
    ):
        if not least <= count <= ORDERS_MAX:
            raise ConfigError(
                f"Invalid {name}: {count}. Expected a whole number from {least}, such as {name}=5."
            )
    parts = [Part(Arm.SCORE, (0,)), Part(Arm.PUBLISHED, (0,))]
    parts += [Part(Arm.OPTIONS, (k,)) for k in range(1, option_orders + 1)]
    if whole:
        parts += [Part(Arm.ORDER, (k,)) for k in range(orders + 1)]
    return Design(tuple(parts))


@dataclass(frozen=True)
class MemoryThresholds(Thresholds):
    """Define the thresholds of the memory audit.

    matched_*, drawn_alpha, kind_auc_max: the limits of `gates`. *_min: the least number of units
    for a test.
    """

    noop_share_max: float = 0.2
    matched_alpha: float = 0.01
    matched_share_min: float = 0.80
    drawn_alpha: float = 0.001
    kind_auc_max: float = 0.80
    exchangeable_alpha: float = 0.05
    references_min: int = 3
    shards_min: int = 10
    items_min: int = 20
