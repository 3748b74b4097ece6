"""Define the arms of the memory audit, its design and its thresholds.

The level of a setting is the number of the order; 0 is the published order. This module does no
I/O.
"""

from dataclasses import dataclass
from enum import StrEnum

from audit.core.errors import ConfigError
from audit.core.records import Design, Part
from audit.judging.thresholds import Thresholds

ORDERS_MAX = 1000


class Arm(StrEnum):
    """Name the kinds of measurement on an item."""

    SCORE = "score"  # the answer to the question
    PUBLISHED = "published"  # the likelihood of the item as published
    OPTIONS = "options"  # the likelihood of the item with its wrong options in another order
    ORDER = "order"  # the likelihood of the item after its neighbours, in one order of the shard


def make_design(shard_items: int, orders: int, option_orders: int, *, whole: bool) -> Design:
    """Return the design, in which each arm and level is a separate part.

    Parameters
    ----------
    shard_items : int
        Items in a shard.
    orders, option_orders : int
        Numbers of other orders of the items in a shard, and of the options in an item. If both are
        0, only the score is measured, which needs no likelihood of a given text.
    whole : bool
        Whether every question is asked. Only then is the order of items measured, since the
        published neighbours of a sampled item may be missing.

    Returns
    -------
    Design
        The parts.

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
                f"{name} is {count}. Expected a whole number from {least} to {ORDERS_MAX}. Example: {name}=5"
            )
    parts = [Part(Arm.SCORE, (0,)), Part(Arm.PUBLISHED, (0,))]
    parts += [Part(Arm.OPTIONS, (k,)) for k in range(1, option_orders + 1)]
    if whole:
        parts += [Part(Arm.ORDER, (k,)) for k in range(orders + 1)]
    return Design(tuple(parts))


@dataclass(frozen=True)
class MemoryThresholds(Thresholds):
    """Define the thresholds of the memory audit.

    Attributes
    ----------
    answered_share_min : float
        Smallest allowed share of rows with a parsed answer or a likelihood (0-1).
    noop_share_max : float
        Largest allowed share of orders whose request repeats the request for the published or
        another order (0-1).
    matched_alpha : float
        Significance level of the test whose null hypothesis is that both sets are equally hard for
        the references.
    matched_share_min : float
        Smallest allowed share of benchmark items that have a held-out item of equal difficulty
        (0-1).
    drawn_alpha : float
        Significance level of the test whose null hypothesis is that the held-out items were not
        chosen by the references' answers.
    kind_auc_max : float
        Largest allowed AUC of a classifier that separates the two sets of items by their words.
    exchangeable_alpha : float
        Significance level of the test whose null hypothesis is that words do not reveal the
        published order.
    references_min : int
        Smallest number of references for a comparison between models.
    shards_min, items_min : int
        Smallest number of shards, and smallest number of items, with which a test is made.
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
