"""Hold the answers of one model on one benchmark in one context, as arrays, for the analysis of a
cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.core.errors import DataError
from audit.core.records import Item
from audit.statistics.contracts import scores
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.validity.edits.record import Family


@dataclass(frozen=True)
class Block:
    """Hold answers to n items under L settings (replays of the original, or the edits of a family);
    arrays are (L, n).

    Attributes
    ----------
    name : array of str
        Name of the edit.
    asked, same : bool array
        True if the edit was asked; and if its request has the hash of the original's, so that it
        tested nothing.
    directional : bool array
        Contract of the edit.
    response, key : int array
        Canonical response, UNREAD if not read, and key under the edit.
    why : array of str
        Reason of an unparsed answer.
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
        """Return where something was asked that is not the original again."""
        return self.asked & ~self.same

    @property
    def scores(self) -> FloatArray:
        """Return 1, 0, or NaN if not asked or unread."""
        return np.where(self.asked, scores(self.response, self.key), np.nan)

    def take(self, count: int) -> Block:
        """Return the first `count` edits of each item that test something; rows beyond these are
        not asked."""
        order = np.argsort(~self.tests, axis=0, kind="stable")[:count]
        picked = {
            name: np.take_along_axis(getattr(self, name), order, axis=0)
            for name in self.__dataclass_fields__
        }
        picked["asked"] = picked["asked"] & ~picked["same"]
        return Block(**picked)


@dataclass(frozen=True)
class Cell:
    """Hold one model on one benchmark in one context (BBQ: ambig, disambig; "" for a benchmark with
    one context).

    Attributes
    ----------
    model, benchmark, context : str
        Names.
    question_ids : tuple of str
        n ids.
    cluster : (n,) array
        0..G-1, clusters that resampling keeps whole.
    chance : (n,) array
        Score of guessing.
    key_position : (n,) array
        Position of the key in the original as shown.
    original : Block
        Replays of the originals, (K, n).
    families : mapping of Family to Block
        All edits as asked, spares included.
    wanted : int
        Edits of each family that are analysed.
    scorer : mapping
        The manifest's facts of the scorer.
    applicable : mapping of Family to float
        Share of the edits wanted that items have.
    shortcuts : mapping of str to (n,) array
        Score of rules that do not read the question.
    mixed_up : tuple of str
        Items whose rows disagree on the item's text or key.
    other_context : tuple of str
        Items whose original, sent again, was another request.
    mass, mass_before : array
        Probability on the scored labels, (rows,), empty if the scorer does not report it; and (n,)
        of the originals, NaN if missing.
    items : tuple of Item
        Originals.
    distances, distance_unit : (4, n) array, str
        Numbers of `edits.file.COLUMNS` in words, or tokens of this model; NaN for an item without
        one of the two edits, (4, 0) if nothing was measured.
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
        if (
            self.cluster.shape != (n,)
            or self.chance.shape != (n,)
            or self.original.response.shape[1] != n
            or wrong
        ):
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
        """Return the edits of a family that are analysed: the first `wanted` of each item that test
        something."""
        return self.families[family].take(self.wanted)

    @property
    def before(self) -> IntArray:
        """Return the canonical response to the original, first run, (n,)."""
        return self.original.response[0]

    @property
    def score_before(self) -> FloatArray:
        return self.original.scores[0]
