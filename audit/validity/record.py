"""What the analysis of one cell starts from: one model on one benchmark in one context, as arrays of answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.errors import DataError
from audit.records import Item
from audit.statistics.contracts import scores
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.validity.edits.record import Family


@dataclass(frozen=True)
class Block:
    """Answers to n items under L settings (replays of the original, or the edits of a family); arrays are (L, n).

    name: of the edit. same: its request has the hash of the original's, so it tested nothing. directional: its
    contract. response: canonical, UNREAD where none was read. key: canonical, under the edit. why: of an
    unparsed answer.
    """

    name: NDArray[Any]
    asked: BoolArray
    same: BoolArray
    directional: BoolArray
    response: IntArray
    key: IntArray
    why: NDArray[Any]

    @property
    def tests(self) -> BoolArray:
        """Where something was asked that is not the original again."""
        return self.asked & ~self.same

    @property
    def scores(self) -> FloatArray:
        """1, 0, or NaN where not asked or unread."""
        return np.where(self.asked, scores(self.response, self.key), np.nan)

    def take(self, count: int) -> Block:
        """The first `count` edits of each item that test something; rows beyond what it has are not asked."""
        order = np.argsort(~self.tests, axis=0, kind="stable")[:count]
        picked = {name: np.take_along_axis(getattr(self, name), order, axis=0) for name in self.__dataclass_fields__}
        picked["asked"] = picked["asked"] & ~picked["same"]
        return Block(**picked)


@dataclass(frozen=True)
class Cell:
    """One model on one benchmark in one context (BBQ: ambig, disambig; "" where a benchmark has one).

    cluster: (n,) 0..G-1, what resampling keeps whole. chance: (n,) score of guessing. key_position: (n,) where the
    original shows its key. original: its replays, (K, n).
    families: all edits as asked, spares included; `wanted` of each family are analysed. applicable: share of the edits
    wanted that items have. shortcuts: (n,) score of rules that do not read the question. mixed_up: items whose rows
    disagree on the item's text or key. other_context: items whose original, sent again, was another request. mass:
    (rows,) probability on the scored labels, empty where the scorer tells none; mass_before: (n,) the same of the
    originals, NaN where none. scorer: what the manifest says of it. items: the originals. distances: (4, n) of
    `edits.file.COLUMNS`, in distance_unit (words, or tokens of this model); NaN for an item without one of the two
    edits, (4, 0) where nothing was measured.
    """

    model: str
    benchmark: str
    context: str
    question_ids: tuple[str, ...]
    cluster: IntArray
    chance: FloatArray
    key_position: IntArray
    original: Block
    families: Mapping[Family, Block]
    wanted: int
    scorer: Mapping[str, Any]
    applicable: Mapping[Family, float]
    shortcuts: Mapping[str, FloatArray] = field(default_factory=dict)
    mixed_up: tuple[str, ...] = ()
    other_context: tuple[str, ...] = ()
    mass: FloatArray = field(default_factory=lambda: np.zeros(0))
    mass_before: FloatArray = field(default_factory=lambda: np.zeros(0))
    items: tuple[Item, ...] = ()
    distances: FloatArray = field(default_factory=lambda: np.zeros((4, 0)))
    distance_unit: str = "words"

    def __post_init__(self) -> None:
        n = len(self.question_ids)
        wrong = [f for f, block in self.families.items() if block.response.shape[1] != n]
        if self.cluster.shape != (n,) or self.chance.shape != (n,) or self.original.response.shape[1] != n or wrong:
            raise DataError(
                f"{self.name}: unpaired input. Expected clusters, chance, originals and every family of the same {n} "
                f"items; {', '.join(wrong) or 'the originals'} differ."
            )

    @property
    def n(self) -> int:
        return len(self.question_ids)

    @property
    def name(self) -> str:
        return f"{self.model} on {self.benchmark}" + (f" ({self.context})" if self.context else "")

    def used(self, family: Family) -> Block:
        """The edits of a family that are analysed: the first `wanted` of each item that test something."""
        return self.families[family].take(self.wanted)

    @property
    def before(self) -> IntArray:
        """(n,) canonical response to the original, first run."""
        return self.original.response[0]

    @property
    def score_before(self) -> FloatArray:
        return self.original.scores[0]
